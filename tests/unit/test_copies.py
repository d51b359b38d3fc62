"""What a task has uploaded it can read back and rename, as long as there is memory for copies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.errors import StoreError, UsageError
from magicfs.filesystem.upload import memory as upload_memory
from magicfs.filesystem.upload.memory import LIMIT_VARIABLE, Copy, Share, memory
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.stores.memory.store import MemoryStore
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended
from proofs.scenes.memory_scene import BUCKET, MemoryScene

URL = f"memory://{BUCKET}/sales"
NAME = "é %+#/part 1.bin"


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()


@pytest.fixture
def one_mib(monkeypatch: pytest.MonkeyPatch) -> int:
    """A process whose files share 1 MiB; returns what copies may take of it."""
    monkeypatch.setenv(LIMIT_VARIABLE, "1")
    monkeypatch.setattr("magicfs.filesystem.upload.memory._of_this_process", [])
    monkeypatch.setattr(upload_memory, "_copies", [])
    return 2**18


def task_on(scene: MemoryScene, tracking: Any = "store", **options: Any) -> tuple[Job, Task]:
    given = {"mode": "append", "tracking": tracking, "filesystem": scene.wrapped, **options}
    job = Job(URL, **arranged(**given)).setup()
    return job, job.task(0).setup()


def write(task: Task, name: str, body: bytes, **options: Any) -> str:
    path = f"{task.path}/{name}"
    with task.filesystem.open(path, "wb", **options) as file:
        file.write(body)
    all_ended()
    return path


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_what_was_renamed_is_published_with_what_it_was_opened_with(
    scene: MemoryScene, tracking: str
) -> None:
    job, task = task_on(scene, tracking)
    fs = task.filesystem
    path = write(task, f"{NAME}.tmp", b"row", ContentType="text/x-row")
    fs.copy(path, f"{task.path}/copy")
    fs.mv(path, f"{task.path}/{NAME}")
    assert job.commit([task.commit()]).files == 2
    found = {key: body for key, body in scene.objects().items() if "/_" not in key}
    assert sorted(found.values()) == [b"row", b"row"]
    assert scene.uploads() == []
    store = scene.filesystem.store(BUCKET)
    for key in found:
        assert scene.run(store.head(key)).description["ContentType"] == "text/x-row"
    assert any(key.startswith("sales/é %+#/part 1-000000-") for key in found)


@pytest.mark.parametrize("tracking", ["store", "memory"])
@pytest.mark.parametrize("request_that_fails", ["create_upload", "put_part", "abort_upload"])
def test_a_rename_that_fails_loses_no_file(
    scene: MemoryScene, tracking: str, request_that_fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, task = task_on(scene, tracking)
    path = write(task, NAME, b"row")

    async def fails(*_: Any, **__: Any) -> None:
        raise StoreError(request_that_fails, path, "disk full (507)")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, request_that_fails, fails)
        with pytest.raises(StoreError, match="disk full"):
            task.filesystem.mv(path, f"{task.path}/moved")
    there = [one for one in (path, f"{task.path}/moved") if task.filesystem.exists(one)]
    assert any(task.filesystem.cat_file(one) == b"row" for one in there)
    task.abort()
    # What could not be aborted then is told by its name, and goes with the job.
    assert len(scene.uploads()) == (request_that_fails == "abort_upload" and tracking == "memory")


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_a_directory_with_one_file_that_is_not_in_hand_stays_as_it_is(
    scene: MemoryScene, tracking: str
) -> None:
    _, task = task_on(scene, tracking, part_size=10)
    write(task, "d/small", b"row")
    write(task, "d/large", b"x" * 11)
    with pytest.raises(UsageError, match="nothing was changed"):
        task.filesystem.mv(f"{task.path}/d", f"{task.path}/e", recursive=True)
    assert task.filesystem.find(task.path) == [f"{task.path}/d/large", f"{task.path}/d/small"]
    with pytest.raises(UsageError, match="write larger files directly under their final names"):
        task.filesystem.mv(f"{task.path}/d/large", f"{task.path}/d/other")
    with pytest.raises(UsageError, match="keep data that you need to read again in files outside the job"):
        task.filesystem.open(f"{task.path}/d/large", "rb")


def test_renaming_to_itself_changes_nothing(scene: MemoryScene) -> None:
    _, task = task_on(scene)
    path = write(task, NAME, b"row")
    task.filesystem.mv(path, task.filesystem.unstrip_protocol(path))
    assert task.filesystem.cat_file(path) == b"row"


def test_what_another_process_wrote_anew_is_not_taken_for_ones_own(scene: MemoryScene) -> None:
    _, task = task_on(scene)
    path = write(task, NAME, b"ours")
    copy, record = magicfs_copy(scene, task, path)
    assert copy.read() == b"ours"
    store = scene.filesystem.store(BUCKET)
    scene.run(store.put(record.key, b"x" * record.size))
    for use in (task.filesystem.cat_file, lambda one: task.filesystem.mv(one, f"{one}2")):
        with pytest.raises(UsageError, match=r"is pending and cannot be|no longer in memory"):
            use(path)
    scene.run(store.delete([record.key, path.partition("/")[2]]))
    assert not task.filesystem.exists(path)
    with pytest.raises(FileNotFoundError):
        task.filesystem.cat_file(path)


def magicfs_copy(scene: MemoryScene, task: Task, path: str) -> tuple[Copy, Any]:
    from magicfs.filesystem.tracking import name_in, tracker

    all_ended()
    scope = path.partition("/__base")[0]
    found = tracker().copy(name_in(scene.filesystem.store(BUCKET), scope), path)
    assert found is not None
    return found


def test_reading_back_makes_one_request_where_the_store_knows_what_is_there(scene: MemoryScene) -> None:
    for tracking, asked in (("store", {"head": 1}), ("memory", {})):
        _, task = task_on(scene, tracking)
        path = write(task, NAME, b"row")
        scene.requests()
        assert task.filesystem.cat_file(path) == b"row"
        assert scene.requests() == asked


def test_the_task_commit_lets_all_copies_go(scene: MemoryScene) -> None:
    before = memory().held
    _, task = task_on(scene)
    write(task, NAME, b"x" * 1000)
    assert memory().held >= before + 1000
    task.commit()
    assert memory().held == before


def test_an_aborted_task_leaves_neither_uploads_nor_copies(scene: MemoryScene) -> None:
    before = memory().held
    _, task = task_on(scene)
    task.filesystem.mv(write(task, "a", b"row"), f"{task.path}/b")
    task.abort()
    assert (scene.uploads(), memory().held) == ([], before)


def test_the_largest_copies_go_first(scene: MemoryScene, one_mib: int) -> None:
    _, task = task_on(scene, part_size=2**20)
    sizes = [one_mib // 5, 100, one_mib // 5 + 1, one_mib // 5 - 1, one_mib // 5 - 2, one_mib // 5 - 3]
    found = [write(task, f"{number}", b"x" * size) for number, size in enumerate(sizes)]
    assert upload_memory._copies_of_this_process().memory.held <= one_mib
    assert task.filesystem.cat_file(found[1]) == b"x" * 100
    with pytest.raises(UsageError, match="keep data that you need to read again"):
        task.filesystem.cat_file(found[2])
    too_large = write(task, "large", b"x" * (one_mib // 4 + 1))
    with pytest.raises(UsageError, match=r"up to 0\.0625 MiB, 0\.25 MiB in total"):
        task.filesystem.cat_file(too_large)


def test_copies_go_when_files_that_are_written_need_their_memory(scene: MemoryScene, one_mib: int) -> None:
    _, task = task_on(scene)
    path = write(task, NAME, b"x" * 1000)
    share = Share()
    share.hold(2**20 - 10)
    assert memory().is_short
    write(task, "other", b"")
    assert not memory().is_short
    with pytest.raises(UsageError, match="keep data that you need to read again"):
        task.filesystem.cat_file(path)
    share.end()
    assert memory().held == upload_memory._copies_of_this_process().memory.held


@pytest.mark.process
def test_a_child_of_a_fork_does_not_count_the_copies_of_its_parent(scene: MemoryScene) -> None:
    _, task = task_on(scene)
    path = write(task, NAME, b"row")
    read, wrote = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(wrote, b"%d %d" % (memory().held, upload_memory._copies_of_this_process().memory.held))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"0 0"
    os.close(read)
    os.close(wrote)
    assert task.filesystem.cat_file(path) == b"row"


def test_files_of_a_machine_are_read_back_from_where_they_lie(tmp_path: Path) -> None:
    job = magicfs.Job(f"file://{tmp_path}/sales é", mode="error", options={"unique_names": False})
    with job, job.task(0) as task:
        fs = task.filesystem
        path, before = f"{task.path}/{NAME}", memory().held
        write(task, NAME, b"x" * 2**17)
        assert memory().held < before + 2**17  # no byte of it is in memory
        assert fs.cat_file(path) == b"x" * 2**17
        fs.mv(path, f"{task.path}/moved")
        fs.rm(write(task, "gone", b"y"))
        with pytest.raises(FileNotFoundError):
            fs.cat_file(f"{task.path}/gone")
    assert (tmp_path / "sales é" / "moved").read_bytes() == b"x" * 2**17
    assert job.report is not None
    assert job.report.files == 1


@pytest.mark.parametrize("content", [b"row", bytearray(b"row"), memoryview(b"row")])
def test_what_its_owner_may_change_is_copied(scene: MemoryScene, content: Any) -> None:
    _, task = task_on(scene)
    path = f"{task.path}/{NAME}"
    task.filesystem.pipe_file(path, content)
    if isinstance(content, bytearray):
        content[:] = b"xxx"
    assert task.filesystem.cat_file(path) == b"row"


def test_what_nobody_commits_is_not_kept(scene: MemoryScene) -> None:
    fs = magicfs.MagicFileSystem(scene.wrapped)
    before = memory().held
    fs.pipe_file(f"{BUCKET}/sales/__magic/mine/__base/a", b"row")
    assert memory().held == before
    with pytest.raises(UsageError, match="cannot be read"):
        fs.cat_file(f"{BUCKET}/sales/__magic/mine/__base/a")


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_pyarrow_reads_back_the_footers_that_it_puts_together(scene: MemoryScene, tracking: str) -> None:
    """``write_metadata`` writes a file, reads it, and writes it again."""
    table, collected = pa.table({"n": [1, 2, 3]}), list[Any]()
    job, task = task_on(scene, tracking)
    how: dict[str, Any] = {"filesystem": task.filesystem, "metadata_collector": collected}
    pq.write_to_dataset(table, task.path, **how)
    pq.write_metadata(table.schema, f"{task.path}/footers", **how)
    assert job.commit([task.commit()]).files == 2
    [body] = [body for key, body in scene.objects().items() if key.startswith("sales/footers-")]
    assert pq.read_metadata(pa.BufferReader(body)).num_rows == 3
