from __future__ import annotations

import pytest

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import OldObject
from magicfs.formats.job_object import JobObject
from magicfs.formats.kinds import KINDS, detect, load
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pending import Pending, UploadedPart
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.pointer import Pointer
from magicfs.formats.success import SuccessData
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState

PENDING = Pending(upload_id="u", bucket="b", destination_key="k", parts=(UploadedPart("1"),), length=1)
MANIFEST = Manifest(
    job_id="j",
    bucket="b",
    destination="d",
    conflict="append",
    committed_ms=1,
    files=(ManifestFile(key="k", size=1, etag="e"),),
)
POINTER = Pointer(job_id="j", nonce="n", changed_ms=1)
JOB = JobObject(job_id=JobId("j"), bucket="b", destination="d", state=JobState.OPEN, nonce="n", driver="x")
OLD = (OldObject("d/k", '"e"', 1),)
TASK = TaskManifest(job_id="j", task_id="t", attempt_id="a", attempt_directory="file:///w")
FILES = {
    "pending": (PENDING, PENDING.to_bytes()),
    "pendingset": (PendingSet(commits=(PENDING,)), PendingSet(commits=(PENDING,)).to_bytes()),
    "success": (SuccessData(job_id="j"), SuccessData(job_id="j").to_bytes()),
    "manifest": (MANIFEST, MANIFEST.to_bytes()),
    "pointer": (POINTER, POINTER.to_bytes()),
    "job": (JOB, JOB.to_bytes()),
    "deletions": (OLD, deletions.write(OLD)),
    "task manifest": (TASK, TASK.to_bytes()),
}


def test_every_kind_is_tested() -> None:
    assert set(FILES) == {kind.name for kind in KINDS}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    "path",
    [
        "b/x.pending",
        "b/task_1.pendingset",
        "b/d/_SUCCESS",
        "b/task_202601010000_0001_m_000003",
        "report.json",
        "b/d/_magicfs/current.json",
        "b/d/_magicfs/j.json",
    ],
)
def test_the_content_decides_under_any_name(kind: str, path: str) -> None:
    value, raw = FILES[kind]
    assert detect(path, raw) == kind
    assert load(path, raw) == value


@pytest.mark.parametrize(
    ("path", "kind", "field"),
    [
        ("b/x.pending", "pending", "uploadId"),
        ("t.pendingset", "pendingset", "commits"),
        ("d/_SUCCESS", "success", "name"),
        ("d/000000-manifest.json", "task manifest", "files"),
    ],
)
def test_the_name_decides_when_the_content_says_nothing(path: str, kind: str, field: str) -> None:
    for raw in (b"", b"{", b"{}"):
        assert detect(path, raw) == kind
        with pytest.raises(FormatError):
            load(path, raw)
    with pytest.raises(FormatError) as caught:
        load(path, b"{}")
    assert caught.value.field == field


@pytest.mark.parametrize("kind", ["manifest", "pointer", "job", "deletions"])
def test_a_newer_version_of_our_own_formats_is_told(kind: str) -> None:
    raw = FILES[kind][1].replace(b"/1", b"/12")
    assert detect("x.json", raw) == kind
    with pytest.raises(FormatError, match=r"/12, and this magicfs reads .*/1; use a newer magicfs") as caught:
        load("x.json", raw)
    assert caught.value.field == "format"


def test_an_empty_success_file_is_explained() -> None:
    with pytest.raises(FormatError, match="FileOutputCommitter"):
        load("b/d/_SUCCESS", b"")


@pytest.mark.parametrize("raw", [b"", b"PAR1\x00", b"[1]", b'{"a":1}', b'{"name":"other"}'])
@pytest.mark.parametrize("ask", [detect, load])
def test_foreign_content_names_what_was_expected(ask, raw: bytes) -> None:
    with pytest.raises(
        FormatError, match=r"expected a \.pending file .*uploadId.*commits.*_SUCCESS"
    ) as caught:
        ask("b/data/x.parquet", raw)
    assert caught.value.path == "b/data/x.parquet"


def test_names_are_those_of_the_last_element() -> None:
    for path in ("b/x.pending/data", "_SUCCESS/y", "b/my_SUCCESS", "b/x.pendingsets"):
        with pytest.raises(FormatError, match="of another kind"):
            detect(path, b"{}")
