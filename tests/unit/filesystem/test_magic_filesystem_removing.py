"""Removing under magic paths aborts uploads, and only those that were named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from magicfs.errors import FormatError
from magicfs.filesystem import MagicFileSystem
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/job 1/task%2F1/__base"
REMOVALS: list[Callable[[MagicFileSystem, str], Any]] = [
    lambda fs, path: fs.rm(path),
    lambda fs, path: fs.rm([path]),
    lambda fs, path: fs.rm_file(path),
    lambda fs, path: fs.delete(path),
    lambda fs, path: fs.rm(path, recursive=True),
]


@pytest.mark.parametrize("remove", REMOVALS)
@pytest.mark.parametrize("name", ["a", "a b%.csv", "day=1/a", "[x]", "a*b", "what?", "{x}"])
def test_removed_file_is_aborted_and_both_its_objects_are_gone(
    scene: MemoryScene, remove: Callable[[MagicFileSystem, str], Any], name: str
) -> None:
    scene.filesystem.pipe({f"{BASE}/{name}": b"1", f"{BASE}/{name}0": b"2"})
    remove(scene.filesystem, f"{BASE}/{name}")
    assert scene.uploads() == [f"dataset1/{name}0"]
    assert scene.publish() == {f"dataset1/{name}0": b"2"}


def test_removal_of_one_file_costs_three_requests(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file(f"{BASE}/a", b"1")
    scene.requests()
    scene.filesystem.rm_file(f"{BASE}/a")
    assert scene.requests() == {"get": 1, "abort_upload": 1, "delete": 1}


def test_other_objects_under_magic_are_removed_as_they_are(scene: MemoryScene) -> None:
    scene.put(f"{BASE}/plain".removeprefix("bucket/"), b"plain")
    scene.put("dataset1/__magic/job 1/x.pendingset", b"{}")
    scene.filesystem.rm([f"{BASE}/plain", "bucket/dataset1/__magic/job 1/x.pendingset"])
    assert scene.objects() == {}


def test_several_files_are_removed_at_once_magic_ones_and_others(scene: MemoryScene) -> None:
    scene.put("dataset1/visible")
    scene.put("dataset10/visible")
    scene.filesystem.pipe({f"{BASE}/a": b"1", f"{BASE}/b": b"2"})
    scene.filesystem.rm([f"{BASE}/a", "bucket/dataset1/visible", f"{BASE}/b"])
    assert list(scene.objects()) == ["dataset10/visible"]
    assert scene.uploads() == []


def test_removed_directory_aborts_every_upload_in_it_and_no_other(scene: MemoryScene) -> None:
    other = "bucket/dataset1/__magic/job 1/task%2F10/__base"
    scene.filesystem.pipe({f"{BASE}/a": b"1", f"{BASE}/day=1/b": b"2", f"{other}/c": b"3"})
    scene.filesystem.rm("bucket/dataset1/__magic/job 1/task%2F1", recursive=True)
    assert scene.uploads() == ["dataset1/c"]
    assert scene.publish() == {"dataset1/c": b"3"}


def test_whole_magic_directory_can_be_removed(scene: MemoryScene) -> None:
    scene.put("dataset1/visible")
    scene.filesystem.pipe({f"{BASE}/{n}": b"1" for n in range(20)})
    scene.filesystem.rm("bucket/dataset1/__magic", recursive=True)
    assert (scene.uploads(), list(scene.objects())) == ([], ["dataset1/visible"])


def test_directory_is_removed_no_deeper_than_asked(scene: MemoryScene) -> None:
    scene.filesystem.pipe({f"{BASE}/a": b"1", f"{BASE}/day=1/deep/b": b"2"})
    scene.filesystem.rm(BASE, recursive=True, maxdepth=1)
    assert scene.uploads() == ["dataset1/day=1/deep/b"]


def test_files_are_removed_by_pattern(scene: MemoryScene) -> None:
    scene.filesystem.pipe({f"{BASE}/a.csv": b"1", f"{BASE}/b.csv": b"2", f"{BASE}/c.parquet": b"3"})
    scene.filesystem.rm(f"{BASE}/*.csv")
    assert scene.uploads() == ["dataset1/c.parquet"]


def test_pending_file_is_removed_together_with_its_upload(scene: MemoryScene) -> None:
    scene.filesystem.pipe({f"{BASE}/a": b"1", f"{BASE}/b": b"2", f"{BASE}/c": b"3"})
    scene.filesystem.rm(f"{BASE}/a.pending")
    assert scene.uploads() == ["dataset1/b", "dataset1/c"]
    assert scene.publish() == {"dataset1/b": b"2", "dataset1/c": b"3"}


def test_directory_is_not_removed_without_being_asked_to(scene: MemoryScene) -> None:
    scene.filesystem.pipe({f"{BASE}/a": b"1"})
    scene.filesystem.rm(BASE)
    assert scene.uploads() == ["dataset1/a"]


def test_second_removal_does_nothing(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file(f"{BASE}/a", b"1")
    scene.filesystem.rm_file(f"{BASE}/a")
    scene.filesystem.rm_file(f"{BASE}/a")
    assert (scene.uploads(), scene.objects()) == ([], {})


@pytest.mark.parametrize("recursive", [False, True])
def test_pending_file_that_names_an_upload_elsewhere_aborts_nothing(
    scene: MemoryScene, recursive: bool
) -> None:
    scene.filesystem.pipe_file("bucket/dataset10/__magic/job/a", b"other job")
    stolen = scene.objects()["dataset10/__magic/job/a.pending"]
    scene.put("dataset1/__magic/job/a.pending", stolen)
    scene.put("dataset1/__magic/job/a")
    with pytest.raises(FormatError, match="destinationKey"):
        scene.filesystem.rm("bucket/dataset1/__magic/job" + ("" if recursive else "/a"), recursive=recursive)
    assert scene.uploads() == ["dataset10/a"]


def test_directories_of_ordinary_paths_are_removed_as_the_wrapped_filesystem_does(scene: MemoryScene) -> None:
    scene.put("dataset1/visible")
    scene.put("dataset10/visible")
    scene.filesystem.rm("bucket/dataset1", recursive=True)
    assert list(scene.objects()) == ["dataset10/visible"]


def test_directories_under_magic_are_made_and_removed_without_a_request(scene: MemoryScene) -> None:
    fs = scene.filesystem
    for bucket in ("bucket", "no-such-bucket"):
        directory = f"{bucket}/dataset1/__magic/job/__base/day=1"
        fs.mkdir(directory)
        fs.mkdir(directory, create_parents=False)
        fs.makedirs(directory)
        fs.makedirs(directory, exist_ok=True)
        fs.mkdirs(directory, exist_ok=True)
        fs.makedir(directory)
        fs.rmdir(directory)
    assert scene.requests() == {}
    assert scene.wrapped.world.buckets() == ["bucket"]


def test_directories_of_ordinary_paths_are_made_by_the_wrapped_filesystem(scene: MemoryScene) -> None:
    scene.filesystem.makedirs("other/dataset1")
    assert scene.wrapped.world.buckets() == ["bucket", "other"]
    scene.filesystem.rmdir("other")
    assert scene.wrapped.world.buckets() == ["bucket"]
