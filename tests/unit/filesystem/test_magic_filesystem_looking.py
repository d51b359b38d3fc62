"""Looking under magic paths: sizes of what is pending, listings, what may not be read yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem, sync

from magicfs.errors import ObjectNotFound, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.tracking import MARKER_LENGTH
from magicfs.stores.memory.store import MemoryStore, default_world
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/job 1/task%2F1/__base"
FILE = f"{BASE}/day=1/a b%.csv"
XATTR = "header.x-hadoop-s3a-magic-data-length"


@pytest.fixture
def pending(scene: MemoryScene) -> MemoryScene:
    """One file of 8 bytes is pending."""
    scene.filesystem.pipe_file(FILE, b"one\ntwo\n")
    scene.requests()
    return scene


def test_info_of_a_pending_file_tells_the_size_of_its_upload(pending: MemoryScene) -> None:
    info = pending.filesystem.info(FILE)
    assert (info["name"], info["type"], info["size"], info["magic_pending"]) == (FILE, "file", 8, True)
    assert pending.requests() == {"head": 1}


def test_other_questions_about_a_pending_file_agree(pending: MemoryScene) -> None:
    fs = pending.filesystem
    assert fs.size(FILE) == 8
    assert fs.sizes([FILE]) == [8]
    assert (fs.exists(FILE), fs.lexists(FILE), fs.isfile(FILE), fs.isdir(FILE)) == (True, True, True, False)


def test_pending_file_itself_and_empty_objects_tell_their_own_size(pending: MemoryScene) -> None:
    pending.put(f"{BASE}/empty".removeprefix("bucket/"))
    assert pending.filesystem.size(f"{BASE}/empty") == 0
    assert pending.filesystem.size(f"{FILE}.pending") > 100
    assert "magic_pending" not in pending.filesystem.info(f"{BASE}/empty")


@pytest.mark.parametrize("length", ["", "garbled", "-1", "1e3", "٣"])
def test_marker_with_a_garbled_length_has_its_own_size(scene: MemoryScene, length: str) -> None:
    store = MemoryStore("bucket", scene.wrapped.world)
    scene.run(store.put(FILE.removeprefix("bucket/"), b"", metadata={MARKER_LENGTH: length}))
    assert scene.filesystem.size(FILE) == 0
    assert scene.filesystem.getxattr(FILE, XATTR) is None


def test_object_with_a_body_is_no_marker_whatever_its_metadata_says(scene: MemoryScene) -> None:
    store = MemoryStore("bucket", scene.wrapped.world)
    scene.run(store.put(FILE.removeprefix("bucket/"), b"123", metadata={MARKER_LENGTH: "8"}))
    assert scene.filesystem.size(FILE) == 3
    assert scene.filesystem.cat_file(FILE) == b"123"


def test_length_is_told_as_hadoop_tells_it(pending: MemoryScene) -> None:
    assert pending.filesystem.getxattr(FILE, XATTR) == b"8"
    assert pending.filesystem.getxattr(FILE, XATTR.removeprefix("header.")) == b"8"


def test_directories_under_magic_are_what_lies_under_them(pending: MemoryScene) -> None:
    fs = pending.filesystem
    for directory in (BASE, f"{BASE}/", f"{BASE}/day=1", "bucket/dataset1/__magic"):
        assert fs.isdir(directory)
        assert fs.exists(directory)
        assert fs.info(directory)["type"] == "directory"
        assert not fs.isfile(directory)


@pytest.mark.parametrize(
    "missing", [f"{BASE}/a", f"{BASE}/day", f"{FILE}/b", "bucket/dataset1/__magic/other"]
)
def test_what_is_not_there_is_not_found(pending: MemoryScene, missing: str) -> None:
    fs = pending.filesystem
    assert not fs.exists(missing)
    assert not fs.isdir(missing)
    assert not fs.isfile(missing)
    for look in (fs.info, fs.ls, fs.size, fs.cat_file):
        with pytest.raises(FileNotFoundError):
            look(missing)


def test_listings_show_markers_as_empty_and_make_no_head(pending: MemoryScene) -> None:
    fs = pending.filesystem
    assert fs.ls(f"{BASE}/day=1")[0]["size"] == 0
    assert fs.ls(f"{BASE}/day=1", detail=False) == [FILE]
    assert fs.ls(BASE) == [{"name": f"{BASE}/day=1", "size": 0, "type": "directory"}]
    assert fs.find(BASE) == [FILE]
    assert fs.find(BASE, detail=True)[FILE]["size"] == 0
    assert fs.find(BASE, withdirs=True) == [BASE, f"{BASE}/day=1", FILE]
    assert fs.find(BASE, maxdepth=1, withdirs=True) == [BASE, f"{BASE}/day=1"]
    assert fs.find(BASE, maxdepth=1) == []
    assert fs.find(f"{BASE}/day=1/", maxdepth=1) == [FILE]
    assert fs.glob(f"{BASE}/*/*.csv") == [FILE]
    assert next(iter(fs.walk(BASE))) == (BASE, ["day=1"], [])
    assert "head" not in pending.requests()


def test_find_is_one_listing_however_deep_the_directories(scene: MemoryScene) -> None:
    files = [f"{BASE}/{'d/' * depth}{n}" for depth in range(4) for n in range(3)]
    scene.filesystem.pipe(dict.fromkeys(files, b"1"))
    scene.requests()
    assert set(files) == set(scene.filesystem.find(BASE))
    assert scene.requests() == {"list": 1}


def test_find_on_a_file_finds_it_and_on_nothing_nothing(pending: MemoryScene) -> None:
    assert pending.filesystem.find(FILE) == [FILE]
    assert pending.filesystem.find(f"{BASE}/nothing") == []


def test_find_agrees_with_the_walk_of_fsspec(scene: MemoryScene) -> None:
    scene.filesystem.pipe(dict.fromkeys([f"{BASE}/a", f"{BASE}/a/b", f"{BASE}/a/b/c/d", f"{BASE}/ab"], b""))
    for depth in (None, 1, 2, 3, 4, 9):
        for withdirs in (False, True):
            expected = sync(
                scene.filesystem.loop, AsyncFileSystem._find, scene.filesystem, BASE, depth, withdirs
            )
            assert scene.filesystem.find(BASE, maxdepth=depth, withdirs=withdirs) == expected


def test_find_above_the_magic_directory_is_the_wrapped_ones(pending: MemoryScene) -> None:
    pending.put("dataset1/visible")
    assert pending.filesystem.find("bucket/dataset1") == [FILE, f"{FILE}.pending", "bucket/dataset1/visible"]


def read_async(fs: MagicFileSystem, path: str, _local: Path) -> Any:
    return sync(fs.loop, fs.open_async, path, "rb")


READS: dict[str, Callable[[MagicFileSystem, str, Path], Any]] = {
    "open": lambda fs, path, local: fs.open(path, "rb"),
    "open text": lambda fs, path, local: fs.open(path, "r"),
    "open compressed": lambda fs, path, local: fs.open(path, "rb", compression="gzip"),
    "open_async": read_async,
    "cat_file": lambda fs, path, local: fs.cat_file(path),
    "cat": lambda fs, path, local: fs.cat(path),
    "cat_ranges": lambda fs, path, local: fs.cat_ranges([path], [0], [1], on_error="raise"),
    "head": lambda fs, path, local: fs.head(path),
    "tail": lambda fs, path, local: fs.tail(path),
    "read_bytes": lambda fs, path, local: fs.read_bytes(path),
    "read_text": lambda fs, path, local: fs.read_text(path),
    "read_block": lambda fs, path, local: fs.read_block(path, 0, 1),
    "get_file": lambda fs, path, local: fs.get_file(path, str(local / "got")),
    "get": lambda fs, path, local: fs.get(path, str(local / "got")),
    "download": lambda fs, path, local: fs.download(path, str(local / "got")),
}
MOVES: dict[str, Callable[[MagicFileSystem, str], Any]] = {
    "cp_file": lambda fs, path: fs.cp_file(path, "bucket/elsewhere"),
    "copy": lambda fs, path: fs.copy(path, "bucket/elsewhere"),
    "copy under magic": lambda fs, path: fs.copy(path, f"{BASE}/elsewhere"),
    "mv": lambda fs, path: fs.mv(path, "bucket/elsewhere"),
    "move": lambda fs, path: fs.move(path, "bucket/elsewhere"),
    "rename": lambda fs, path: fs.rename(path, f"{BASE}/elsewhere"),
}


@pytest.mark.parametrize("way", READS)
def test_pending_file_cannot_be_read(pending: MemoryScene, tmp_path: Path, way: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .* it will be dataset1/day=1/a b%\.csv"):
        READS[way](pending.filesystem, FILE, tmp_path)


@pytest.mark.parametrize("way", MOVES)
def test_pending_file_cannot_be_copied_or_moved(pending: MemoryScene, way: str) -> None:
    before = pending.objects()
    with pytest.raises(UsageError, match=r"cannot be copied or moved .* it will be dataset1/day=1/a b%\.csv"):
        MOVES[way](pending.filesystem, FILE)
    assert pending.objects() == before
    assert pending.uploads() == ["dataset1/day=1/a b%.csv"]


# The memory filesystem that passes through has no files for coroutines, and the object is not compressed.
@pytest.mark.parametrize("way", sorted(set(READS) - {"open_async", "open compressed"}))
def test_other_objects_under_magic_are_read_as_they_are(scene: MemoryScene, tmp_path: Path, way: str) -> None:
    scene.put(f"{BASE}/plain".removeprefix("bucket/"), b"plain")
    READS[way](scene.filesystem, f"{BASE}/plain", tmp_path)


@pytest.mark.parametrize("mode", ["ab", "a", "r+b", "r+", "w+b", "w+", "x+b", "rb+", "wb+"])
def test_mode_that_changes_what_was_sent_is_refused_by_name(pending: MemoryScene, mode: str) -> None:
    with pytest.raises(UsageError, match="is not possible, because parts of a delayed upload") as caught:
        pending.filesystem.open(FILE, mode)
    assert repr(mode.replace("t", "")) in str(caught.value) or "b'" in str(caught.value)
    assert pending.uploads() == ["dataset1/day=1/a b%.csv"]


class TestTrackingInMemory:
    @pytest.fixture
    def scene(self) -> MemoryScene:
        scene = MemoryScene(tracking="memory")
        scene.filesystem.pipe_file(FILE, b"one\ntwo\n")
        scene.requests()
        return scene

    def test_neither_marker_nor_pending_file_is_written(self, scene: MemoryScene) -> None:
        assert scene.objects() == {}
        assert scene.uploads() == ["dataset1/day=1/a b%.csv"]

    def test_file_is_known_without_a_request(self, scene: MemoryScene) -> None:
        fs = scene.filesystem
        assert fs.exists(FILE)
        assert fs.isfile(FILE)
        assert fs.size(FILE) == 8
        assert fs.info(FILE)["magic_pending"] is True
        assert fs.getxattr(FILE, XATTR) == b"8"
        assert scene.requests() == {}

    def test_other_files_are_looked_for_in_the_store(self, scene: MemoryScene) -> None:
        assert not scene.filesystem.exists(f"{FILE}0")
        with pytest.raises(ObjectNotFound):
            scene.filesystem.info(f"{FILE}0")
        scene.put(f"{FILE}0".removeprefix("bucket/"), b"123")
        assert scene.filesystem.size(f"{FILE}0") == 3

    def test_file_cannot_be_read_or_moved(self, scene: MemoryScene, tmp_path: Path) -> None:
        for read in READS.values():
            with pytest.raises(UsageError, match="cannot be read"):
                read(scene.filesystem, FILE, tmp_path)
        for move in MOVES.values():
            with pytest.raises(UsageError, match="cannot be copied or moved"):
                move(scene.filesystem, FILE)

    def test_file_that_is_still_open_is_not_known(self, scene: MemoryScene) -> None:
        with scene.filesystem.open(f"{BASE}/open", "wb"):
            assert not scene.filesystem.exists(f"{BASE}/open")
        assert scene.filesystem.exists(f"{BASE}/open")

    def test_another_filesystem_that_tracks_in_the_store_does_not_know_it(self, scene: MemoryScene) -> None:
        assert not MagicFileSystem(scene.wrapped).exists(FILE)

    def test_removed_file_is_aborted_and_forgotten(self, scene: MemoryScene) -> None:
        scene.filesystem.rm(FILE)
        assert scene.uploads() == []
        assert not scene.filesystem.exists(FILE)

    def test_same_path_written_twice_is_known_by_its_last_size(self, scene: MemoryScene) -> None:
        scene.filesystem.pipe_file(FILE, b"last")
        assert scene.filesystem.size(FILE) == 4


@pytest.mark.parametrize("place", ["plain ü%", "__magic/job 1/__base"])
@pytest.mark.parametrize("before", ["magic::memory://", "magic+memory://"])
def test_names_begin_as_the_path_of_the_url_does(before: str, place: str) -> None:
    """By this zarr tells the members of a group, to which xarray appends."""
    bucket = f"looking-{uuid4().hex}"
    default_world().create_bucket(bucket)
    fs, path = fsspec.core.url_to_fs(f"{before}{bucket}/{place}/a é.zarr")
    fs.pipe_file(f"{path}/x+y/zarr.json", b"{}")
    fs.pipe_file(f"{path}/zarr.json", b"{}")
    below = {name.removeprefix(f"{path}/") for name in fs.ls(path, detail=False)}
    assert below - {"zarr.json.pending"} == {"x+y", "zarr.json"}
    assert {entry["name"] for entry in fs.ls(path, detail=True)} >= {f"{path}/x+y", f"{path}/zarr.json"}
    assert [name for name in fs.find(path) if not name.endswith(".pending")] == [
        *(f"{path}/x+y/zarr.json", f"{path}/zarr.json")
    ]
    assert set(fs.find(path, detail=True)) >= {f"{path}/x+y/zarr.json"}
    assert fs.info(f"{path}/zarr.json")["name"] == f"{path}/zarr.json"
    default_world().delete_bucket(bucket)
