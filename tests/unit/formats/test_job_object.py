from __future__ import annotations

import json
import pickle
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError, UsageError
from magicfs.formats.job_object import (
    JOB_FORMAT,
    Chunk,
    ExtraDestination,
    JobObject,
    OldSuccess,
    SeenPointer,
)
from magicfs.protocol.conflict import CONFLICTS
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState
from magicfs.testing.strategies import keys

PATH = "b/d/__magic_job-j/job-j/job.json"
DOCUMENT = Path(__file__).parents[3] / "docs" / "job-object.md"
SHA = "0123456789abcdef" * 4
CHUNK = {"key": "d/__magic_job-j/job-j/facts/n/00000.json", "sha256": SHA, "files": 2, "bytes": 7}
POINTER = {"jobId": "i", "etag": '"e"'}
SUCCESS = {"key": "d/x/_SUCCESS", "sha256": SHA, "etag": '"s"'}
LEAST: dict[str, Any] = {
    "format": JOB_FORMAT,
    "jobId": "j",
    "bucket": "b",
    "state": "open",
    "nonce": "n",
    "driver": "x",
    "committer": "magic",
    "conflict": "append",
    "tracking": "store",
    "layout": "__magic_job",
    "chunks": [],
    "deletions": [],
}


def read(**changes: Any) -> JobObject:
    document = {name: value for name, value in (LEAST | changes).items() if value is not ...}
    return JobObject.from_bytes(PATH, json.dumps(document).encode())


def least() -> JobObject:
    return JobObject(
        job_id=JobId("j"), bucket="b", destination="", state=JobState.OPEN, nonce="n", driver="x"
    )


def test_the_least_that_is_needed() -> None:
    assert read() == least()


@pytest.mark.parametrize("field", LEAST)
def test_each_of_them_is_needed(field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(**{field: ...})
    assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"format": "magicfs.manifest/1"}, "format"),
        ({"format": "magicfs.job.job"}, "format"),
        ({"format": "magicfs.job/x"}, "format"),
        ({"format": 1}, "format"),
        ({"jobId": ""}, "jobId"),
        ({"jobId": "../x"}, "jobId"),
        ({"jobId": 1}, "jobId"),
        ({"bucket": ""}, "bucket"),
        ({"bucket": 1}, "bucket"),
        ({"destination": 1}, "destination"),
        ({"state": "ended"}, "state"),
        ({"state": ""}, "state"),
        ({"state": "OPEN"}, "state"),
        ({"state": None}, "state"),
        ({"nonce": ""}, "nonce"),
        ({"nonce": 1}, "nonce"),
        ({"driver": ""}, "driver"),
        ({"driver": []}, "driver"),
        ({"attempt": -1}, "attempt"),
        ({"attempt": True}, "attempt"),
        ({"attempt": "0"}, "attempt"),
        ({"committer": ""}, "committer"),
        ({"conflict": "overwrite"}, "conflict"),
        ({"uniqueNames": 1}, "uniqueNames"),
        ({"uniqueNames": "true"}, "uniqueNames"),
        ({"tracking": "disk"}, "tracking"),
        ({"layout": "_magic"}, "layout"),
        ({"runId": 1}, "runId"),
        ({"created": -1}, "created"),
        ({"changed": 1.5}, "changed"),
        ({"changed": 2**63}, "changed"),
        ({"host": {}}, "host"),
        ({"tasks": -1}, "tasks"),
        ({"files": -1}, "files"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": "7"}, "bytes"),
        ({"chunks": {}}, "chunks"),
        ({"chunks": ["k"]}, "chunks[0]"),
        *(({"chunks": [CHUNK, CHUNK | {name: None}]}, f"chunks[1].{name}") for name in CHUNK),
        *(({"deletions": [CHUNK | {name: []}]}, f"deletions[0].{name}") for name in CHUNK),
        ({"chunks": [CHUNK | {"sha256": SHA.upper()}]}, "chunks[0].sha256"),
        ({"chunks": [CHUNK | {"sha256": SHA[:-1]}]}, "chunks[0].sha256"),
        ({"chunks": [CHUNK | {"sha256": SHA + "\n"}]}, "chunks[0].sha256"),
        ({"chunks": [CHUNK | {"key": ""}]}, "chunks[0].key"),
        ({"chunks": [CHUNK | {"files": -1}]}, "chunks[0].files"),
        ({"chunks": [CHUNK | {"bytes": -1}]}, "chunks[0].bytes"),
        ({"partitions": "p=1"}, "partitions"),
        ({"partitions": [1]}, "partitions[0]"),
        ({"pointer": "i"}, "pointer"),
        *(({"pointer": POINTER | {name: ""}}, f"pointer.{name}") for name in POINTER),
        ({"olderFiles": 0}, "olderFiles"),
        ({"oldSuccess": []}, "oldSuccess"),
        *(({"oldSuccess": SUCCESS | {name: ""}}, f"oldSuccess.{name}") for name in SUCCESS),
        ({"equalKeys": "k"}, "equalKeys"),
        ({"equalKeys": ["k", None]}, "equalKeys[1]"),
        ({"irreversible": "no"}, "irreversible"),
        ({"reason": 1}, "reason"),
    ],
)
def test_what_cannot_be_believed_is_refused_by_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(**changes)
    assert (caught.value.path, caught.value.field) == (PATH, field)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b"{}" * 2])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match=re.escape(PATH)):
        JobObject.from_bytes(PATH, raw)


def test_object_of_a_newer_magicfs_says_so() -> None:
    with pytest.raises(
        FormatError, match=r"magicfs\.job/2, and this magicfs reads magicfs\.job/1; use a newer"
    ):
        read(format="magicfs.job/2")


def test_every_field_is_read() -> None:
    found = read(
        destination="d",
        state="committing",
        attempt=3,
        conflict="replace_partitions",
        uniqueNames=False,
        tracking="memory",
        layout="__magic",
        runId="día 1",
        created=1,
        changed=2,
        host="h",
        tasks=4,
        files=5,
        bytes=6,
        chunks=[CHUNK],
        deletions=[CHUNK | {"key": "k"}],
        partitions=["p=1"],
        pointer=POINTER,
        olderFiles=True,
        oldSuccess=SUCCESS,
        equalKeys=["d/a"],
        irreversible=True,
        reason="why",
        later={"x": [1]},
    )
    chunk = Chunk(str(CHUNK["key"]), SHA, 2, 7)
    assert found == JobObject(
        job_id=JobId("j"),
        bucket="b",
        destination="d",
        state=JobState.COMMITTING,
        nonce="n",
        driver="x",
        attempt=3,
        committer="magic",
        conflict="replace_partitions",
        unique_names=False,
        tracking="memory",
        layout="__magic",
        run_id="día 1",
        created_ms=1,
        changed_ms=2,
        host="h",
        tasks=4,
        files=5,
        size=6,
        chunks=(chunk,),
        deletions=(replace(chunk, key="k"),),
        partitions=("p=1",),
        pointer=SeenPointer("i", '"e"'),
        older_files=True,
        old_success=OldSuccess("d/x/_SUCCESS", SHA, '"s"'),
        equal_keys=("d/a",),
        irreversible=True,
        reason="why",
        unknown={"later": {"x": [1]}},
    )
    assert json.loads(found.to_bytes())["later"] == {"x": [1]}
    assert pickle.loads(pickle.dumps(found)) == found


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
numbers = st.integers(0, 2**63 - 1)
chunks = st.builds(Chunk, keys(), st.just(SHA), numbers, numbers)
MADE: dict[str, st.SearchStrategy[Any]] = {
    "job_id": st.sampled_from([JobId("j"), JobId("0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11")]),
    "bucket": texts,
    "destination": st.just("") | keys(),
    "state": st.sampled_from(JobState),
    "nonce": texts,
    "driver": texts,
    "attempt": numbers,
    "committer": texts,
    "conflict": st.sampled_from(CONFLICTS),
    "unique_names": st.booleans(),
    "tracking": st.sampled_from(["store", "memory"]),
    "layout": st.sampled_from(["__magic_job", "__magic"]),
    "run_id": st.none() | texts,
    "created_ms": numbers,
    "changed_ms": numbers,
    "host": st.just("") | texts,
    "tasks": numbers,
    "files": numbers,
    "size": numbers,
    "chunks": st.lists(chunks, max_size=3).map(tuple),
    "deletions": st.lists(chunks, max_size=3).map(tuple),
    "partitions": st.none() | st.lists(keys(), max_size=3).map(tuple),
    "pointer": st.none() | st.builds(SeenPointer, texts, texts),
    "older_files": st.booleans(),
    "old_success": st.none() | st.builds(OldSuccess, keys(), st.just(SHA), texts),
    "equal_keys": st.lists(keys(), max_size=3).map(tuple),
    "irreversible": st.booleans(),
    "reason": st.just("") | texts,
    "extra_destinations": st.lists(st.builds(ExtraDestination, keys(), st.booleans()), max_size=3).map(tuple),
}


@given(job=st.builds(JobObject, **MADE))
def test_what_is_written_is_read_back(job: JobObject) -> None:
    raw = job.to_bytes()
    assert JobObject.from_bytes(PATH, raw) == job
    assert JobObject.from_bytes(PATH, raw).to_bytes() == raw
    assert b"\n" not in raw.rstrip(b"\n"), "one line"


def test_strategy_makes_every_field() -> None:
    assert MADE.keys() == {one.name for one in fields(JobObject)} - {"unknown"}


def test_text_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(UsageError):
        replace(least(), run_id="\ud800").to_bytes()


def test_document_describes_every_field() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    written = json.loads(
        replace(least(), pointer=SeenPointer("i", "e"), chunks=(Chunk("k", SHA, 1, 1),)).to_bytes()
    )
    assert set(written) <= described
    assert set(written["chunks"][0]) <= described
