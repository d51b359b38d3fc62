"""The tree below a task's path: what a task has written it can list and remove, however it is tracked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.magic import locate
from proofs.scenes.job_scene import JobScene
from proofs.scenes.memory_scene import MemoryScene

HOSTILE = ("a b%.csv", "day=1/ä+#.csv", "dataset1/a", "dataset10/a", "deep/er/[x]*?", "d.pending/a")


class Writing:
    """A task that writes, and what its job publishes, by the names that were opened."""

    def __init__(self, tracking: Any) -> None:
        self.tracking = tracking
        self.scene = JobScene()
        self.job: Job = self.scene.job(tracking=tracking)
        self.task: Task = self.job.task(0).setup()
        self.fs: MagicFileSystem = self.task.filesystem  # type: ignore[assignment]
        self.path = self.task.path

    def write(self, *names: str) -> None:
        """Write a file of two bytes under each name."""
        self.fs.pipe({f"{self.path}/{name}": b"12" for name in names})

    def below(self, found: Any) -> list[str]:
        """Names below the task's path."""
        return [path.removeprefix(self.path).lstrip("/") for path in found]

    def published(self) -> list[str]:
        """Commit the job; the names of what is visible, without what makes them unique."""
        self.job.commit([self.task.commit()])
        assert self.scene.uploads() == []
        unique = f"-{self.task.id}-{self.job.id}"
        return sorted(name.replace(unique, "") for name in self.scene.data())


@pytest.fixture(params=["memory", "store"])
def writing(request: pytest.FixtureRequest) -> Writing:
    return Writing(request.param)


# -- looking -------------------------------------------------------------------------------------------------


def test_every_way_to_look_shows_what_the_task_wrote(writing: Writing) -> None:
    fs, path = writing.fs, writing.path
    writing.write(*HOSTILE)
    assert writing.below(fs.find(path)) == sorted(HOSTILE)
    assert sorted(writing.below(entry["name"] for entry in fs.ls(path))) == [
        *("a b%.csv", "d.pending", "dataset1", "dataset10", "day=1", "deep")
    ]
    assert writing.below(fs.glob(f"{path}/*/a")) == ["d.pending/a", "dataset1/a", "dataset10/a"]
    assert writing.below(fs.glob(f"{path}/d*/")) == ["d.pending", "dataset1", "dataset10", "day=1", "deep"]
    assert writing.below(fs.glob(f"{path}/**")) == writing.below(fs.find(path, withdirs=True))
    assert {
        f"{base}/{name}".removeprefix(f"{path}/") for base, _, files in fs.walk(path) for name in files
    } == set(HOSTILE)
    for directory in (path, f"{path}/", f"{path}/deep", f"{path}/deep/er"):
        assert (fs.exists(directory), fs.isdir(directory), fs.isfile(directory)) == (True, True, False)
        assert fs.info(directory)["type"] == "directory"
    assert not fs.exists(f"{path}/dataset")
    assert not fs.isdir(f"{path}/dee")
    assert fs.du(path) == 2 * len(HOSTILE)
    assert writing.published() == sorted(HOSTILE)


@pytest.mark.parametrize("missing", ["", "nothing", "dataset", "a/b"])
def test_what_was_not_written_is_not_found(writing: Writing, missing: str) -> None:
    if missing:
        writing.write("a", "dataset1/a")
    path = f"{writing.path}/{missing}".rstrip("/")
    assert not writing.fs.exists(path)
    assert writing.fs.find(path) == []
    for look in (writing.fs.ls, writing.fs.info):
        with pytest.raises(FileNotFoundError):
            look(path)


def test_find_goes_by_a_prefix_as_in_s3fs(writing: Writing) -> None:
    writing.write("ab", "a/c", "a/d/e", "b")
    find = writing.fs.find
    assert writing.below(find(writing.path, prefix="a")) == ["a/c", "a/d/e", "ab"]
    assert writing.below(find(writing.path, prefix="a/d")) == ["a/d/e"]
    assert writing.below(find(writing.path, prefix="a", maxdepth=1)) == ["ab"]
    assert writing.below(find(writing.path, prefix="a/", withdirs=True)) == ["", "a", "a/c", "a/d", "a/d/e"]
    assert find(writing.path, prefix="nothing") == find(f"{writing.path}/ab", prefix="a") == []


def test_listings_have_the_types_that_fsspec_documents(writing: Writing) -> None:
    writing.write("a", "d/a")
    details = writing.fs.ls(writing.path, detail=True)
    assert [(one["name"].rpartition("/")[2], one["type"]) for one in details] == [
        ("a", "file"),
        ("d", "directory"),
    ]
    assert all(isinstance(one["size"], int) for one in details)
    assert writing.below(writing.fs.ls(writing.path, detail=False)) == ["a", "d"]
    assert writing.fs.ls(f"{writing.path}/a", detail=False) == [f"{writing.path}/a"]
    # Unasked as the wrapped filesystem, here ``memory``.
    assert writing.fs.ls(writing.path) == details


def test_names_come_unasked_where_the_wrapped_filesystem_gives_names(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ls(path: str, detail: bool = False) -> Any:
        raise AssertionError("only its signature counts")

    writing.write("a")
    monkeypatch.setattr(writing.fs.fs, "_ls", ls)
    assert writing.fs.ls(writing.path) == [f"{writing.path}/a"]


def test_mapper_holds_what_was_set(writing: Writing) -> None:
    mapper = writing.fs.get_mapper(f"{writing.path}/group")
    mapper["a"] = b"1"
    mapper.setitems({"b c": b"2", "d/e": b"3", "d/f": b"4"})
    assert (set(mapper), len(mapper), "a" in mapper, "x" in mapper) == (
        {"a", "b c", "d/e", "d/f"},
        4,
        True,
        False,
    )
    del mapper["a"]
    mapper.delitems(["d/e"])
    assert writing.published() == ["group/b c", "group/d/f"]


def test_cleared_mapper_is_empty(writing: Writing) -> None:
    mapper = writing.fs.get_mapper(f"{writing.path}/group")
    mapper.setitems({"a": b"1", "d/e": b"3"})
    writing.write("group10/a")
    mapper.clear()
    assert list(mapper) == []
    assert writing.published() == ["group10/a"]


def test_checksum_and_key_differ_when_a_pending_file_is_written_anew(writing: Writing) -> None:
    def told() -> tuple[Any, Any]:
        path = f"{writing.path}/a"
        return writing.fs.checksum(path), writing.fs.ukey(path)

    writing.write("a")
    first = told()
    assert told() == first
    writing.write("a")
    assert [new != old for new, old in zip(told(), first, strict=True)] == [True, True]


def test_checksum_of_an_ordinary_file_is_the_wrapped_ones(writing: Writing) -> None:
    writing.scene.put("old", b"1")
    path = f"{writing.scene.url.removeprefix('memory://')}/old"
    assert writing.fs.checksum(path) == writing.fs.fs.checksum(path)
    assert writing.fs.ukey(path) == writing.fs.fs.ukey(path)
    assert writing.fs.modified(path) == writing.fs.created(path) == writing.fs.fs.modified(path)


def test_time_of_a_pending_file_is_known(writing: Writing) -> None:
    writing.write("a")
    path = f"{writing.path}/a"
    assert writing.fs.modified(path) == writing.fs.created(path) == writing.fs.info(path)["LastModified"]


# -- removing ------------------------------------------------------------------------------------------------

REMOVALS: dict[str, Callable[[MagicFileSystem, str], Any]] = {
    "directory": lambda fs, path: fs.rm(f"{path}/d", recursive=True),
    "directory with a slash": lambda fs, path: fs.rm(f"{path}/d/", recursive=True),
    "directory by its url": lambda fs, path: fs.rm(fs.unstrip_protocol(f"{path}/d"), recursive=True),
    "directories": lambda fs, path: fs.rm([f"{path}/d/x y", f"{path}/d/e"], recursive=True),
    "to a depth": lambda fs, path: fs.rm(f"{path}/d", recursive=True, maxdepth=3),
    "files": lambda fs, path: fs.rm([f"{path}/d/x y", f"{path}/d/e/f"]),
    "pattern": lambda fs, path: fs.rm(f"{path}/d/**"),
    "one by one": lambda fs, path: [fs.rm_file(f"{path}/d/{name}") for name in ("x y", "e/f")],
    "delete": lambda fs, path: fs.delete(f"{path}/d", recursive=True),
    "what was found": lambda fs, path: fs.rm(fs.find(f"{path}/d")),
}


@pytest.mark.parametrize("way", REMOVALS)
def test_what_was_removed_is_not_published_and_the_task_commits(writing: Writing, way: str) -> None:
    writing.write("d/x y", "d/e/f", "d10/a", "a")
    REMOVALS[way](writing.fs, writing.path)
    assert writing.below(writing.fs.find(writing.path)) == ["a", "d10/a"]
    assert len(writing.scene.uploads()) == 2
    assert writing.published() == ["a", "d10/a"]


def test_everything_can_be_removed_and_written_anew(writing: Writing) -> None:
    writing.write("d/x", "a")
    writing.fs.rm(writing.path, recursive=True)
    assert writing.scene.uploads() == []
    writing.write("d/x")
    assert writing.published() == ["d/x"]


def test_removal_of_the_work_directory_discards_what_every_task_wrote(writing: Writing) -> None:
    other = writing.job.task(1).setup()
    writing.write("a", "d/b")
    other.filesystem.pipe_file(f"{other.path}/c", b"3")
    located = locate(writing.path + "/x")
    assert located is not None
    assert located.owner is not None
    writing.fs.rm(located.owner.job_directory + "/00/tasks", recursive=True)
    assert writing.scene.uploads() == []
    assert writing.fs.find(writing.path) == other.filesystem.find(other.path) == []


def test_removal_tells_what_is_gone(writing: Writing) -> None:
    writing.write("d/x", "d/e/f", "a")
    assert writing.below(writing.fs.rm(f"{writing.path}/d", recursive=True)) == ["d/e/f", "d/x"]
    assert writing.below(writing.fs.rm(f"{writing.path}/a")) == ["a"]


def test_directory_that_is_not_there_cannot_be_removed(writing: Writing) -> None:
    writing.write("dataset10/a")
    with pytest.raises(FileNotFoundError):
        writing.fs.rm(f"{writing.path}/dataset1", recursive=True)
    with pytest.raises(FileNotFoundError):
        writing.fs.rm(f"{writing.path}/*.csv")
    assert writing.published() == ["dataset10/a"]


def test_what_only_this_process_knows_costs_no_request_but_its_abort() -> None:
    scene = MemoryScene(tracking="memory")
    fs, base = scene.filesystem, "bucket/dataset1/__magic/job 1/task%2F1/__base"
    fs.pipe({f"{base}/d/{name}": b"1" for name in "abc"})
    scene.requests()
    assert (fs.isdir(f"{base}/d"), fs.exists(f"{base}/d"), fs.isfile(f"{base}/d/a")) == (True, True, True)
    assert scene.requests() == {}
    fs.rm([f"{base}/d/a"])
    assert scene.requests() == {"abort_upload": 1}
    fs.rm(f"{base}/d", recursive=True)
    assert scene.requests() == {"list": 1, "abort_upload": 2}


@pytest.mark.parametrize("second", ["delete_matching", "overwrite_or_ignore"])
def test_pyarrow_that_deletes_what_it_finds_publishes_the_last_rows(writing: Writing, second: Any) -> None:
    for number, behaviour in enumerate(("delete_matching", second)):
        pyarrow.dataset.write_dataset(
            pa.table({"k": ["1", "2 ü"], "x": [number, number]}),
            writing.path,
            filesystem=writing.fs,
            format="parquet",
            partitioning=["k"],
            existing_data_behavior=behaviour,
            basename_template=f"run{number}-{{i}}.parquet",
        )
    kept = {"delete_matching": {"run1-0"}, "overwrite_or_ignore": {"run0-0", "run1-0"}}[second]
    assert {name.rpartition("/")[2].removesuffix(".parquet") for name in writing.published()} == kept


# -- names ---------------------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[MagicFileSystem, str, str], Any]] = {
    "pipe_file": lambda fs, path, local: fs.pipe_file(path, b"1"),
    "pipe": lambda fs, path, local: fs.pipe({path: b"1"}),
    "open": lambda fs, path, local: fs.open(path, "wb"),
    "open text": lambda fs, path, local: fs.open(path, "w"),
    "put_file": lambda fs, path, local: fs.put_file(local, path),
    "put": lambda fs, path, local: fs.put(local, path),
    "touch": lambda fs, path, local: fs.touch(path),
    "cp_file": lambda fs, path, local: fs.cp_file("bucket/sales/old", path),
}


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x.pending", "records of uploads.*nothing was written; choose another name"),
        ("d e/x.pendingset", "records of uploads"),
        (".pending", "records of uploads"),
        ("a//b", "two slashes in a row; write it as '[^']*/a/b'"),
        ("/a", "two slashes in a row"),
    ],
)
def test_name_that_could_not_be_published_is_refused_before_anything_is_written(
    writing: Writing, way: str, name: str, why: str, tmp_path: Any
) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"1")
    writing.scene.put("old", b"1")
    before = writing.scene.everything()
    with pytest.raises(UsageError, match=why):
        WRITES[way](writing.fs, f"{writing.path}/{name}", str(local))
    assert writing.scene.everything() == before
    writing.write("a")
    assert writing.published() == ["a", "old"]


def test_records_are_not_listed_but_can_be_looked_at(writing: Writing) -> None:
    writing.write("a", "d/b")
    assert not [path for path in writing.fs.find(writing.path) if path.endswith(".pending")]
    if writing.tracking == "store":
        assert writing.fs.exists(f"{writing.path}/a.pending")
        assert b"destination" in writing.fs.cat_file(f"{writing.path}/a.pending")
