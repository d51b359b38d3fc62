"""The chunks in which a job writes down what it publishes and deletes: altered or gone, nothing is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.errors import CommitFailed, FormatError
from magicfs.formats.job_object import JobObject
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.protocol.job_state import JobState
from magicfs.stores.local.store import LocalStore
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind
from magicfs.transaction import facts
from proofs.scenes.job_scene import JobScene

OLD = {"p=1/old.bin": b"old"}
NEW = [{"p=1/a.bin": b"new 0"}, {"p=1/b.bin": b"new 1"}]
KINDS = ["files", "deletions", "success"]


def dead(state: str) -> tuple[JobScene, Job, list[TaskCommit]]:
    """A job that replaces, whose driver died in a state."""
    scene = JobScene()
    scene.published(OLD)
    job = scene.job("overwrite")
    commits = scene.wrote(job, *NEW)
    faults = {
        "committing": Fault(Kind.CRASH_AFTER, operation="complete_upload"),
        "completed": Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/_magicfs/"),
    }
    assert scene.commit(job, commits, faults[state]) is None
    assert scene.state(job) == state
    return scene, job, commits


def chunk(scene: JobScene, job: Job, kind: str) -> str:
    """The key of the only chunk of a kind."""
    found = scene.job_object(job)
    assert found is not None
    assert found.old_success is not None
    keys = {"files": found.chunks, "deletions": found.deletions, "success": (found.old_success,)}[kind]
    (one,) = keys
    return str(one.key)


def altered(raw: bytes) -> bytes:
    return raw.replace(b"p=1", b"p=2") if b"p=1" in raw else raw + b" "


DAMAGE: dict[str, Callable[[JobScene, str], None]] = {
    "altered": lambda scene, name: scene.put(name, altered(scene.objects()[f"sales/{name}"][0])),
    "cut short": lambda scene, name: scene.put(name, scene.objects()[f"sales/{name}"][0][:-1]),
    "longer": lambda scene, name: scene.put(name, scene.objects()[f"sales/{name}"][0] + b" "),
    "empty": lambda scene, name: scene.put(name, b""),
    "gone": lambda scene, name: scene.delete(name),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("state", "kind", "how"),
    [
        ("committing", "files", {}),
        ("committing", "files", {"rollback": True}),
        ("committing", "success", {"rollback": True}),
        ("completed", "files", {}),
        ("completed", "deletions", {}),
    ],
)
def test_damaged_chunk_stops_the_recovery_before_anything_is_done(
    state: str, kind: str, how: dict[str, Any], damage: str
) -> None:
    scene, job, _ = dead(state)
    DAMAGE[damage](scene, chunk(scene, job, kind).removeprefix("sales/"))
    files = scene.data(), scene.uploads(), scene.success()
    if state == "completed":
        # Past the point of no return nothing raises: the files are there.
        (recovered,) = scene.recover(**how).jobs
        (warning,) = recovered.warnings
        assert "could not be finished" in warning
    else:
        with pytest.raises(
            (FormatError, CommitFailed), match=r"is missing.*by hand|SHA-256 differs.*by hand"
        ):
            scene.recover(**how)
    assert (scene.data(), scene.uploads(), scene.success()) == files
    assert scene.state(job) in {state, "reverting"}


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_job_goes_on_once_the_chunk_is_restored(damage: str) -> None:
    scene, job, _ = dead("committing")
    key = chunk(scene, job, "files")
    kept = scene.objects()[key][0]
    DAMAGE[damage](scene, key.removeprefix("sales/"))
    with pytest.raises((FormatError, CommitFailed)):
        scene.recover()
    scene.put(key.removeprefix("sales/"), kept)
    scene.recover()
    assert scene.bodies() == [b"new 0", b"new 1"]
    assert scene.work() == []


def forged(scene: JobScene, job: Job, kind: str, key: str, raw: bytes) -> None:
    """Write a chunk, and name it in the job object with its right digest: who can, could do anything."""
    scene.put(key.removeprefix("sales/"), raw)
    name = job.spec.work_layout.job_object_key
    document = json.loads(scene.objects()[name][0])
    one = {"key": key, "sha256": hashlib.sha256(raw).hexdigest()}
    one |= {name: document[name] if kind == "chunks" else 1 for name in ("files", "bytes")}
    document[kind] = [one]
    scene.put(name.removeprefix("sales/"), json.dumps(document).encode())


def test_chunk_outside_the_job_is_refused() -> None:
    scene, job, _ = dead("committing")
    raw = scene.objects()[chunk(scene, job, "files")][0]
    forged(scene, job, "chunks", "sales/elsewhere.json", raw)
    before = scene.everything()
    with pytest.raises(
        FormatError, match=r"chunks\[\]\.key: 'sales/elsewhere\.json' is outside '.*/facts', where the job"
    ):
        scene.recover()
    assert scene.everything() == before


def test_key_outside_the_destination_is_never_deleted() -> None:
    scene, job, _ = dead("completed")
    scene.elsewhere(lambda engine: engine.store.put("sales10/a.bin", b"theirs"))
    key = chunk(scene, job, "deletions")
    document = json.loads(scene.objects()[key][0])
    document["objects"][0]["key"] = "sales10/a.bin"
    forged(scene, job, "deletions", key, json.dumps(document).encode())
    before = scene.data(), scene.objects()["sales10/a.bin"]
    report = scene.recover()
    (warning,) = report.jobs[0].warnings
    assert "'sales10/a.bin' is outside the destination" in warning
    assert (scene.data(), scene.objects()["sales10/a.bin"]) == before


@pytest.mark.slow
def test_facts_are_chunks_of_a_thousand_files() -> None:
    scene = JobScene()
    job = scene.job("append")
    files = {f"{number:04d}.bin": b"%d" % number for number in range(1001)}
    commits = scene.wrote(job, files, {"last.bin": b"last"})
    fault = Fault(Kind.CRASH_BEFORE, operation="complete_upload")
    assert scene.commit(job, commits, fault) is None
    found = scene.job_object(job)
    assert found is not None
    assert [one.files for one in found.chunks] == [facts.CHUNK_LENGTH, 2]
    assert found.size == sum(one.size for one in found.chunks) == sum(map(len, files.values())) + 4
    assert (found.tasks, found.files) == (2, 1002)
    assert [one.key.rpartition("/")[2] for one in found.chunks] == ["00000.json", "00001.json"]
    for one in found.chunks:
        raw = scene.objects()[one.key][0]
        assert hashlib.sha256(raw).hexdigest() == one.sha256
        assert len(json.loads(raw)["commits"]) == one.files
    scene.recover()
    assert len(scene.bodies()) == 1002
    success = scene.success()
    assert success is not None
    assert success.statistics.counters["committer_commits_completed"] == 1002
    assert success.statistics.counters["committer_tasks_completed"] == 2


def test_task_that_is_still_alive_cannot_change_what_is_published() -> None:
    """After the commit point a later attempt of a task writes another set; the facts stand."""
    scene = JobScene()
    job = scene.job("append")
    commits = scene.wrote(job, {"a.bin": b"winner"})
    fault = Fault(Kind.CRASH_BEFORE, operation="complete_upload")
    assert scene.commit(job, None, fault) is None
    zombie = scene.wrote(job, {"a.bin": b"zombie"})
    assert zombie[0].attempt_id != commits[0].attempt_id
    scene.recover()
    assert scene.bodies() == [b"winner"]
    assert (scene.uploads(), scene.work()) == ([], [])


def test_each_driver_writes_chunks_of_its_own() -> None:
    scene = JobScene()
    job = scene.job("append")
    commits = scene.wrote(job, {"a.bin": b"1"})
    seen: list[JobObject] = []
    for _ in range(2):
        fault = Fault(Kind.CRASH_BEFORE, operation="put", prefix=job.spec.work_layout.job_object_key)
        assert scene.commit(job, commits, fault) is None
        assert scene.state(job) == JobState.OPEN
    written = [name for name in scene.work() if "/facts/" in name]
    assert len({name.split("/facts/")[1].partition("/")[0] for name in written}) == 2
    scene.commit(job, commits, traffic=Traffic())
    assert scene.bodies() == [b"1"]
    assert (scene.work(), seen) == ([], [])


def test_success_that_another_job_deletes_in_this_moment_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local store looks at the marker a last time when it copies it, for its rights."""
    url, frame = f"file://{tmp_path}/sales", pa.table({"n": [1]})
    magicfs.write(frame, url, mode="overwrite", run_id="old")
    marker = tmp_path / "sales" / "_SUCCESS"
    assert marker.exists()
    put = LocalStore._put

    def late(store: LocalStore, key: str, body: Any, if_absent: bool, source: str | None) -> Any:
        if source is not None:
            marker.unlink()
        return put(store, key, body, if_absent, source)

    monkeypatch.setattr(LocalStore, "_put", late)
    magicfs.write(pa.table({"n": [2]}), url, mode="overwrite", run_id="new")
    assert marker.exists()
    assert magicfs.Dataset(url).to_arrow().to_table().to_pydict() == {"n": [2]}
