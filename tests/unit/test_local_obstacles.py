"""Symbolic links, other devices and old data in the way, at a local destination."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitFailed, OutputExists
from magicfs.stores.local.files import info_of
from proofs.scenes.arranged import arranged

RENAMING: list[Any] = [("file", {"algorithm": 1}), ("file", {"algorithm": 2}), ("manifest", {})]
ALL: list[Any] = [*RENAMING, ("direct", {}), ("stocator", {})]
NAME = "wäre 50% +#"


def each(committers: list[Any]) -> pytest.MarkDecorator:
    names = [f"{name}{options.get('algorithm', '')}" for name, options in committers]
    return pytest.mark.parametrize(("committer", "options"), committers, ids=names)


@pytest.fixture
def other_device(tmp_path: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir="/dev/shm"))  # a filesystem of its own, on any Linux
    assert directory.stat().st_dev != tmp_path.stat().st_dev
    yield directory
    shutil.rmtree(directory)


def files(directory: Path) -> dict[str, bytes]:
    """Visible files by relative path, without what unique names add; links to directories are followed."""
    found = {}
    for top, _, names in os.walk(directory, followlinks=True):
        for name in names:
            path = Path(top, name)
            relative = str(path.relative_to(directory))
            if not any(one.startswith("_") for one in relative.split("/")):
                found[relative.partition("-")[0]] = path.read_bytes()
    return found


def write(task: magicfs.Task, written: dict[str, bytes]) -> None:
    for name, body in written.items():
        path = f"{task.path}/{name}"
        task.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        with task.filesystem.open(path, "wb") as file:
            file.write(body)


def run(destination: Path, committer: str, options: dict[str, Any], *tasks: Any, **how: Any) -> Any:
    url = f"file://{destination}"
    given: Any = {"committer": committer, "committer_options": options, "mode": "append", **how}
    with magicfs.Job(url, **arranged(**given)) as job:
        for number, written in enumerate(tasks):
            with job.task(number) as task:
                write(task, written)
    return job.report


@each(ALL)
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_destination_behind_a_link_is_a_directory(
    tmp_path: Path, other_device: Path, committer: str, options: Any, where: str
) -> None:
    target = other_device / NAME if where == "elsewhere" else tmp_path / "real"
    target.mkdir()
    destination = tmp_path / NAME
    destination.symlink_to(target)
    report = run(destination, committer, options, {"p=1/a": b"1"})
    assert report.files == 1
    assert files(target) == {"p=1/a": b"1"}
    assert destination.is_symlink()


@each(ALL)
@pytest.mark.parametrize("target", ["file", "nothing"])
def test_destination_that_is_a_file_or_leads_to_none_is_refused(
    tmp_path: Path, committer: str, options: Any, target: str
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / NAME).symlink_to(tmp_path / target)
    with pytest.raises(magicfs.errors.UsageError, match="is a file; choose a directory"):
        run(tmp_path / NAME, committer, options, {"a": b"1"})
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["file", NAME])


@each(RENAMING)
@pytest.mark.parametrize("unique", [True, False])
def test_partition_on_another_device_is_published(
    tmp_path: Path, other_device: Path, committer: str, options: Any, unique: bool
) -> None:
    destination = tmp_path / NAME
    destination.mkdir()
    (destination / "p=1").symlink_to(other_device)
    (other_device / "old").write_bytes(b"old")
    written = {"p=0/ok": b"0", "p=1/a": b"1", "p=1/q=2/b c": b"2", "p=1/q=2/r=3/d": b"3"}
    report = run(destination, committer, options, written, unique_names=unique)
    assert report.files == 4
    assert files(destination) == {**written, "p=1/old": b"old"}
    listed = json.loads((destination / "_magicfs" / f"{report.job_id}.json").read_text())["files"]
    there = {one["key"]: info_of("", (destination / one["key"]).stat()).etag for one in listed}
    assert {one["key"]: one["etag"] for one in listed} == there
    assert not list(destination.glob("_temporary*"))


def test_copy_to_another_device_replaces_as_a_rename_does(tmp_path: Path, other_device: Path) -> None:
    destination = tmp_path / NAME
    destination.mkdir()
    (destination / "p=1").symlink_to(other_device)
    (other_device / "a").write_bytes(b"old")
    how: Any = {"committer": "file", "committer_options": {"delete_obstacles": True}, "mode": "append"}
    job = magicfs.Job(f"file://{destination}", **arranged(unique_names=False, **how)).setup()
    with job.task(0) as task:
        write(task, {"p=1/a": b"new"})
    (path,) = destination.rglob("*/tasks/**/a")
    path.chmod(0o640)
    job.commit(job.commits)
    assert (other_device / "a").read_bytes() == b"new"
    assert (other_device / "a").stat().st_mode & 0o777 == 0o640


@each(RENAMING)
@pytest.mark.parametrize("unique", [True, False])
def test_append_deletes_no_file_in_the_place_of_a_directory(
    tmp_path: Path, committer: str, options: Any, unique: bool
) -> None:
    destination = tmp_path / NAME
    (destination / "p=0").mkdir(parents=True)
    (destination / "p=0" / "q=1").write_bytes(b"old data")
    (destination / "_SUCCESS").write_bytes(b"{}")
    written = {"p=0/q=0/b": b"0", "p=0/q=1/r=2/a": b"1"}
    with pytest.raises(
        CommitFailed,
        match=r"p=0/q=1 already exists as a file, and the job has a directory.*delete_obstacles",
    ):
        run(destination, committer, options, written, unique_names=unique)
    assert files(destination) == {"p=0/q=1": b"old data"}
    assert (destination / "_SUCCESS").read_bytes() == b"{}"
    asked = {**options, "delete_obstacles": True}
    run(destination, committer, asked, written, unique_names=unique)
    assert files(destination) == written


@each(RENAMING)
@pytest.mark.parametrize("old", ["b/deep/old", "b"])
def test_append_deletes_nothing_in_the_place_of_a_file(
    tmp_path: Path, committer: str, options: Any, old: str
) -> None:
    destination = tmp_path / NAME
    (destination / old).parent.mkdir(parents=True)
    (destination / old).write_bytes(b"old data")
    (destination / "_SUCCESS").write_bytes(b"{}")
    written = {"a": b"0", "b": b"1"}
    kind = "file" if old == "b" else "directory"
    why = f"b already exists as a {kind}, and the job has a file"
    if options.get("algorithm") != 2 and kind == "file":
        why = "names that are taken, such as .*b, and mode='append' replaces nothing"
    with pytest.raises((CommitFailed, OutputExists), match=why):
        run(destination, committer, options, written, unique_names=False)
    assert files(destination) == {old: b"old data"}
    assert (destination / "_SUCCESS").read_bytes() == b"{}"
    asked = {**options, "delete_obstacles": True}
    if kind == "directory":
        with pytest.raises(CommitFailed, match="b already exists as a directory"):
            run(destination, committer, asked, written, unique_names=False)
        assert files(destination)[old] == b"old data"
    else:
        run(destination, committer, asked, written, unique_names=False)
        assert files(destination) == written


@each(RENAMING)
def test_a_task_that_is_moved_out_of_the_way_commits_with_its_job(
    tmp_path: Path, committer: str, options: Any
) -> None:
    destination = tmp_path / NAME
    destination.mkdir()
    (destination / "a").write_bytes(b"old data")
    how: Any = {"committer": committer, "committer_options": options, "mode": "append"}
    job = magicfs.Job(f"file://{destination}", **arranged(unique_names=False, **how)).setup()

    def publish() -> None:
        with job.task(0) as task:
            write(task, {"a": b"new"})
        job.commit([task.committed] if task.committed is not None else None)

    with pytest.raises((CommitFailed, OutputExists)):
        publish()
    (destination / "a").rename(tmp_path / "aside")
    publish()
    assert files(destination) == {"a": b"new"}


@pytest.mark.parametrize("algorithm", [1, 2])
def test_tasks_of_one_job_do_not_take_each_others_places(tmp_path: Path, algorithm: int) -> None:
    destination = tmp_path / NAME
    tasks = [{"a": b"0", "d/x": b"0"}, {"a/b": b"1", "d": b"1"}]
    with pytest.raises(
        CommitFailed, match=r"already exists as|is a file of one task and a directory of another"
    ):
        run(destination, "file", {"algorithm": algorithm}, *tasks, unique_names=False)
    assert files(destination) == ({} if algorithm == 1 else tasks[0])


@pytest.mark.parametrize("algorithm", [1, 2])
@pytest.mark.parametrize("unique", [True, False])
def test_on_objects_nothing_is_in_the_way_and_old_data_stays(algorithm: int, unique: bool) -> None:
    from magicfs.stores.memory.filesystem import MemoryFileSystem
    from magicfs.stores.memory.store import World

    world = World()
    world.create_bucket("bucket")
    filesystem = MemoryFileSystem(world=world)
    filesystem.pipe_file("bucket/sales/p=1", b"old data")
    job = magicfs.Job(
        "memory://bucket/sales",
        committer="file",
        mode="append",
        filesystem=filesystem,
        options={"algorithm": algorithm, "unique_names": unique},
    ).setup()
    with job.task(0) as task:
        write(task, {"p=1/a": b"1"})
    job.commit(job.commits)
    found = [path for path in filesystem.find("bucket/sales") if "/_" not in path]
    assert found[0] == "bucket/sales/p=1"
    assert [path.rpartition("/")[2][0] for path in found[1:]] == ["a"]
    assert filesystem.cat_file("bucket/sales/p=1") == b"old data"
