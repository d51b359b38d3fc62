"""Files that nobody closed, and files whose body raised: never published, and never lost without a word."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from typing import Any

import fsspec
import pytest

from magicfs.errors import CommitFailed
from magicfs.job.job import Job
from magicfs.job.task import Task
from proofs.scenes.job_scene import JobScene
from proofs.scenes.known import files_of

KINDS = {
    "magic": {},
    "magic in memory": {"tracking": "memory"},
    "direct": {"committer": "direct"},
    "stocator": {"committer": "stocator"},
}
OPENED: dict[str, Callable[[Task], Any]] = {
    "binary": lambda task: task.filesystem.open(f"{task.path}/a.txt", "wb"),
    "text": lambda task: task.filesystem.open(f"{task.path}/a.txt", "w"),
    "compressed": lambda task: task.filesystem.open(f"{task.path}/a.txt", "wb", compression="gzip"),
    "buffered": lambda task: io.BufferedWriter(task.filesystem.open(f"{task.path}/a.txt", "wb")),
}


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def begun(scene: JobScene, kind: str) -> tuple[Job, Task]:
    job = scene.job(**KINDS[kind])
    return job, job.task(0).setup()


def wrote(file: Any) -> None:
    file.write("half" if hasattr(file, "encoding") else b"half")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("way", OPENED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_collected_unclosed_fails_the_task_and_is_named(
    scene: JobScene, kind: str, way: str
) -> None:
    _, task = begun(scene, kind)
    wrote(OPENED[way](task))
    gc.collect()
    assert task.needs_commit()
    with pytest.raises(CommitFailed, match=r"a[^/ ]*\.txt (was opened and never closed|is still open)"):
        task.commit()
    assert scene.data() == {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_written_again_and_closed_is_published(scene: JobScene, kind: str) -> None:
    job, task = begun(scene, kind)
    wrote(OPENED["binary"](task))
    gc.collect()
    task.filesystem.pipe_file(f"{task.path}/a.txt", b"whole")
    while kind.startswith("magic") and files_of(task).open:
        pass  # the loop has yet to abort the first one's upload
    job.commit([task.commit()])
    assert scene.bodies() == [b"whole"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_discarded_is_not_missed(scene: JobScene, kind: str) -> None:
    job, task = begun(scene, kind)
    with pytest.raises(ZeroDivisionError), task.filesystem.open(f"{task.path}/a.txt", "wb") as file:
        file.write(b"half")
        _ = 1 // 0
    del file
    gc.collect()
    job.commit([task.commit()])
    assert scene.data() == {}


# -- bodies that raise -----------------------------------------------------------------------------------


class Wrapper:
    """Closes what it writes to, whatever has happened: as pyarrow's and pandas' do."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Any:
        return self.file

    def __exit__(self, *error: object) -> None:
        self.close()


def open_file(task: Task, mode: str = "wb", **options: Any) -> Any:
    return fsspec.core.OpenFile(task.filesystem, f"{task.path}/a.txt", mode, **options)


BODIES: dict[str, Callable[[Task], Any]] = {
    "fsspec": open_file,
    "fsspec, text": lambda task: open_file(task, "w"),
    "fsspec, compressed": lambda task: open_file(task, "wb", compression="gzip"),
    "wrapper": lambda task: Wrapper(task.filesystem.open(f"{task.path}/a.txt", "wb")),
    "wrapper of a wrapper": lambda task: Wrapper(Wrapper(OPENED["binary"](task))),
}


@pytest.mark.parametrize("way", BODIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_raised_publishes_nothing_though_somebody_catches_it(
    scene: JobScene, kind: str, way: str
) -> None:
    job, task = begun(scene, kind)
    with pytest.raises(ZeroDivisionError), BODIES[way](task) as opened:
        wrote(opened.file if isinstance(opened, Wrapper) else opened)
        _ = 1 // 0
    job.commit([task.commit()])
    assert (scene.data(), scene.uploads()) == ({}, [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_of_pyarrow_whose_body_raised_publishes_nothing(scene: JobScene, kind: str) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    job, task = begun(scene, kind)
    table = pa.table({"day": [1, 2]})
    path = f"{task.path}/a.parquet"
    with pytest.raises(ZeroDivisionError), task.filesystem.open(path, "wb") as file:  # noqa: SIM117
        with parquet.ParquetWriter(file, table.schema) as writer:
            writer.write_table(table)
            _ = 1 // 0
    with (
        pytest.raises(ZeroDivisionError),
        parquet.ParquetWriter(path, table.schema, filesystem=task.filesystem) as writer,
    ):
        writer.write_table(table)
        _ = 1 // 0
    job.commit([task.commit()])
    assert scene.data() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_closed_where_an_error_is_repaired_is_published(scene: JobScene, kind: str) -> None:
    job, task = begun(scene, kind)
    repaired = task.filesystem.open(f"{task.path}/repaired.txt", "wb")
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        repaired.write(b"row")
        repaired.close()
        with open_file(task) as file:
            file.write(b"other row")
    job.commit([task.commit()])
    assert scene.bodies() == [b"other row", b"row"]
