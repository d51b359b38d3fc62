"""Nothing is moved to where a job may still abort: the source would be gone, and its copy, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.fs
import pytest
from fsspec.asyn import sync
from fsspec.implementations.dirfs import DirFileSystem

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.job.task import Task
from proofs.scenes.memory_scene import MemoryScene

SOURCES = ["old/a b%+#.csv", "old/zażółć 日本.csv", "dataset10/x"]
OWN = "bucket/dataset1/__magic/mine/__base"
Move = Callable[[MagicFileSystem, str, str], Any]


def by_arrow(fs: MagicFileSystem, source: str, target: str) -> None:
    pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs)).move(source, target)


def by_coroutine(fs: MagicFileSystem, source: str, target: str) -> None:
    sync(fs.loop, fs._mv_file, source, target)


MOVES: dict[str, Move] = {
    "mv": lambda fs, source, target: fs.mv(source, target),
    "mv of a list": lambda fs, source, target: fs.mv([source], [target]),
    "mv of a URL": lambda fs, source, target: fs.mv(f"memory://{source}", fs.unstrip_protocol(target)),
    "mv of a directory": lambda fs, source, target: fs.mv(source.rpartition("/")[0], target, recursive=True),
    "mv of a pattern": lambda fs, source, target: fs.mv("bucket/old/*.csv", f"{target}/"),
    "mv to a directory": lambda fs, source, target: fs.mv(source, target.rpartition("/")[0] + "/"),
    "_mv_file": by_coroutine,
    "move": lambda fs, source, target: fs.move(source, target),
    "rename": lambda fs, source, target: fs.rename(source, target),
    "rename, by keywords": lambda fs, source, target: fs.rename(path1=source, path2=target),
    "a directory's filesystem": lambda fs, source, target: DirFileSystem("bucket", fs).mv(
        source.removeprefix("bucket/"), target.removeprefix("bucket/")
    ),
    "pyarrow": by_arrow,
}


@pytest.fixture
def full(scene: MemoryScene) -> MemoryScene:
    for source in SOURCES:
        scene.put(source, source.encode())
    return scene


@pytest.fixture(params=["store", "memory"])
def task(full: MemoryScene, request: pytest.FixtureRequest) -> Iterator[Task]:
    job = Job(
        "memory://bucket/dataset1",
        mode="append",
        filesystem=full.wrapped,
        options={"tracking": request.param},
    )
    job.setup()
    task = job.task(0)
    task.setup()
    yield task
    task.abort()
    job.abort()


@pytest.mark.parametrize("way", MOVES)
@pytest.mark.parametrize("source", SOURCES)
def test_move_into_a_task_is_refused_before_anything_is_changed(
    full: MemoryScene, task: Task, way: str, source: str
) -> None:
    before = full.objects()
    full.requests()
    with pytest.raises(UsageError, match=r"nothing was changed; call filesystem\.copy\(.*filesystem\.rm\("):
        MOVES[way](task.filesystem, f"bucket/{source}", f"{task.path}/day=1/{source}")
    assert (full.objects(), full.uploads()) == (before, [])
    assert not {"create_upload", "put", "delete"} & set(full.requests())


@pytest.mark.parametrize("way", MOVES)
def test_move_to_a_path_of_ones_own_is_refused(full: MemoryScene, way: str) -> None:
    before = full.objects()
    with pytest.raises(UsageError, match=r"after that is published filesystem\.rm"):
        MOVES[way](full.filesystem, f"bucket/{SOURCES[0]}", f"{OWN}/a")
    assert (full.objects(), full.uploads()) == (before, [])


def test_what_the_error_advises_moves_the_file(full: MemoryScene) -> None:
    source = f"bucket/{SOURCES[0]}"
    job = Job("memory://bucket/dataset1", mode="append", filesystem=full.wrapped)
    with job, job.task(0) as task:
        task.filesystem.copy(source, f"{task.path}/a.csv")
    full.filesystem.rm(source)
    assert full.objects()[f"dataset1/a-000000-{job.id}.csv"] == SOURCES[0].encode()
    assert SOURCES[0] not in full.objects()


def test_ordinary_files_are_moved(full: MemoryScene) -> None:
    for number, way in enumerate(["mv", "_mv_file", "move", "rename", "pyarrow"]):
        full.put(f"from/{number}", b"1")
        MOVES[way](full.filesystem, f"bucket/from/{number}", f"bucket/to/{number}")
    assert {key for key in full.objects() if key.startswith(("from", "to"))} == {f"to/{n}" for n in range(5)}


def test_move_onto_itself_changes_nothing(full: MemoryScene) -> None:
    full.filesystem.pipe_file(f"{OWN}/a", b"1")
    before = full.objects()
    full.filesystem.mv(f"{OWN}/a", f"{OWN}/a")
    assert full.objects() == before
