"""What a writer says of one file reaches the upload that becomes the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import sync

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.protocol.file_options import DESCRIPTION, METADATA
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.memory.store import World
from magicfs.stores.port import Capabilities, ObjectInfo
from proofs.scenes.memory_scene import MemoryScene

BASE = "bucket/dataset1/__magic/mine/__base"
NAME = "day=1/a b%+#é.csv"
BODY = b"a\n1\n"
OPTIONS: dict[str, Any] = {
    "ContentType": "text/csv; charset=utf-8",
    "CacheControl": "max-age=60",
    "Metadata": {"Who": "me", "why": "50%"},
}
Way = Callable[..., Any]


def by_open(fs: MagicFileSystem, path: str, local: Path, **options: Any) -> None:
    with fs.open(path, "wb", **options) as file:
        file.write(BODY)


def by_open_text(fs: MagicFileSystem, path: str, local: Path, **options: Any) -> None:
    with fs.open(path, "w", encoding="utf-8", newline="\n", **options) as file:
        file.write(BODY.decode())


def by_private_open(fs: MagicFileSystem, path: str, local: Path, **options: Any) -> None:
    with fs._open(path, "wb", **options) as file:
        file.write(BODY)


def by_open_async(fs: MagicFileSystem, path: str, local: Path, **options: Any) -> None:
    async def write() -> None:
        async with await fs.open_async(path, "wb", **options) as file:
            await file.write(BODY)

    sync(fs.loop, write)


WAYS: dict[str, Way] = {
    "open": by_open,
    "open text": by_open_text,
    "_open": by_private_open,
    "open_async": by_open_async,
    "pipe_file": lambda fs, path, local, **options: fs.pipe_file(path, BODY, **options),
    "pipe": lambda fs, path, local, **options: fs.pipe(path, BODY, **options),
    "put_file": lambda fs, path, local, **options: fs.put_file(str(local), path, **options),
    "put": lambda fs, path, local, **options: fs.put(str(local), path, **options),
    "cp_file": lambda fs, path, local, **options: fs.cp_file("bucket/old", path, **options),
    "copy": lambda fs, path, local, **options: fs.copy("bucket/old", path, **options),
}


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local file.csv"
    path.write_bytes(BODY)
    return path


def published(scene: MemoryScene, name: str = NAME) -> ObjectInfo:
    scene.publish()
    return scene.run(scene.wrapped.store("bucket").head(f"dataset1/{name}"))


def given(info: ObjectInfo) -> dict[str, Any]:
    metadata = {name: value for name, value in info.metadata.items() if name != WRITE_ID}
    return {**info.description, METADATA: metadata}


def lower(options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, METADATA: {name.lower(): value for name, value in options[METADATA].items()}}


@pytest.mark.parametrize("way", WAYS)
def test_options_of_a_file_are_those_of_its_object(scene: MemoryScene, local: Path, way: str) -> None:
    scene.put("old", BODY)
    WAYS[way](scene.filesystem, f"{BASE}/{NAME}", local, **OPTIONS)
    info = published(scene)
    assert given(info) == lower(OPTIONS)
    assert info.metadata[WRITE_ID]
    assert scene.filesystem.info(f"bucket/dataset1/{NAME}")["ContentType"] == OPTIONS["ContentType"]


class ContentSettings:
    """What Azure's SDK has under this name."""

    def __init__(self) -> None:
        self.content_type = OPTIONS["ContentType"]
        self.cache_control = OPTIONS["CacheControl"]
        self.content_encoding = None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "options",
    [
        {"content_type": OPTIONS["ContentType"], "fixed_key_metadata": {"cache_control": "max-age=60"}},
        {"content_settings": {"content_type": OPTIONS["ContentType"], "cache_control": "max-age=60"}},
        {"content_settings": ContentSettings(), "ContentType": OPTIONS["ContentType"]},
    ],
)
def test_options_have_the_names_of_gcsfs_and_adlfs_too(
    scene: MemoryScene, local: Path, way: str, options: dict[str, Any]
) -> None:
    scene.put("old", BODY)
    WAYS[way](scene.filesystem, f"{BASE}/{NAME}", local, **options, metadata=OPTIONS["Metadata"])
    assert given(published(scene)) == lower(OPTIONS)


def test_arguments_of_gcsfs_and_adlfs_about_the_way_say_nothing(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file(f"{BASE}/{NAME}", BODY, consistency="md5", timeout=9, overwrite=True)
    assert given(published(scene)) == {METADATA: {}}


def test_copy_of_a_file_in_hand_takes_other_names_before_the_options_of_its_source(
    scene: MemoryScene,
) -> None:
    job = Job("memory://bucket/dataset1", mode="append", filesystem=scene.wrapped)
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", BODY, ContentType="a/b")
        task.filesystem.copy(f"{task.path}/a.csv", f"{task.path}/b.csv", content_type="a/c")
    info = scene.run(scene.wrapped.store("bucket").head(f"dataset1/b-000000-{job.id}.csv"))
    assert info.description == {"ContentType": "a/c"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"content_type": "a/b", "ContentType": "a/c"}, "the same option with two values"),
        ({"overwrite": False}, "overwrite cannot be given"),
        ({"content_settings": {"content_md5": b"1"}}, "content_md5 cannot be given"),
        ({"fixed_key_metadata": {"custom_time": "now"}}, "custom_time cannot be given"),
    ],
)
def test_what_of_gcsfs_and_adlfs_no_upload_can_have_is_refused(
    scene: MemoryScene, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        scene.filesystem.pipe_file(f"{BASE}/{NAME}", BODY, **options)
    assert scene.uploads() == []


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_options_of_a_file_of_a_task_are_those_of_its_object(scene: MemoryScene, tracking: Any) -> None:
    job = Job(
        "memory://bucket/dataset1", mode="append", filesystem=scene.wrapped, options={"tracking": tracking}
    )
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", BODY, **OPTIONS)
    info = scene.run(scene.wrapped.store("bucket").head(f"dataset1/a-000000-{job.id}.csv"))
    assert given(info) == lower(OPTIONS)


@pytest.mark.parametrize("way", WAYS)
def test_option_that_the_store_does_not_know_is_refused_before_anything_is_sent(
    scene: MemoryScene, local: Path, way: str
) -> None:
    scene.put("old", BODY)
    with pytest.raises(UsageError, match=r"NoSuch, StorageClass cannot be given with one file on memory"):
        WAYS[way](
            scene.filesystem, f"{BASE}/{NAME}", local, StorageClass="GLACIER", NoSuch=1, ContentType="a/b"
        )
    assert scene.uploads() == []
    assert set(scene.requests()) <= {"head", "list"}


@pytest.mark.parametrize(("name", "value"), [("requester_pays", True), ("preserve_etag", True)])
def test_what_a_delayed_upload_cannot_do_is_refused(scene: MemoryScene, name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        scene.filesystem.pipe_file(f"{BASE}/a", b"", **{name: value})


def test_arguments_that_are_about_the_way_say_nothing_about_the_object(scene: MemoryScene) -> None:
    of_open = {"block_size": 2**23, "cache_type": "none", "fill_cache": False, "size": 1, "version_id": None}
    with scene.filesystem.open(f"{BASE}/a", "wb", **of_open, acl=False, requester_pays=None) as file:
        file.write(b"1")
    scene.filesystem.pipe_file(f"{BASE}/b", b"1", chunksize=2**23, max_concurrency=2, ContentType=None)
    assert set(scene.publish()) == {"dataset1/a", "dataset1/b"}


def test_acl_is_spelt_as_by_s3fs(scene: MemoryScene) -> None:
    with pytest.raises(UsageError, match="ACL cannot be given with one file on memory"):
        scene.filesystem.open(f"{BASE}/a", "wb", acl="public-read")


def test_identity_of_a_write_is_ours_whatever_is_given(scene: MemoryScene) -> None:
    theirs = {WRITE_ID: "theirs", WRITE_ID.upper(): "theirs", "a": "1"}
    scene.filesystem.pipe_file(f"{BASE}/{NAME}", BODY, Metadata=theirs)
    info = published(scene)
    assert given(info)[METADATA] == {"a": "1"}
    assert info.metadata[WRITE_ID] != "theirs"


@pytest.mark.parametrize(
    ("name", "type_"),
    [("a b.csv", "text/csv"), ("é.json", "application/json"), ("a.csv.gz", "text/csv"), ("nothing", None)],
)
@pytest.mark.parametrize("way", ["put_file", "put", "upload", "put directory"])
def test_put_guesses_the_type_as_s3fs_does(
    scene: MemoryScene, tmp_path: Path, way: str, name: str, type_: str | None
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / name).write_bytes(BODY)
    fs, source, target = scene.filesystem, str(directory / name), f"{BASE}/{name}"
    if way == "put directory":
        fs.put(f"{directory}/", f"{BASE}/", recursive=True)
    else:
        getattr(fs, way)(source, target)
    assert published(scene, name).description.get("ContentType") == type_


def test_type_that_is_given_counts_before_the_guess(scene: MemoryScene, local: Path) -> None:
    scene.filesystem.put_file(str(local), f"{BASE}/{NAME}", ContentType="text/plain")
    assert published(scene).description == {"ContentType": "text/plain"}


def test_nothing_is_guessed_for_a_store_that_keeps_no_types(local: Path) -> None:
    scene = MemoryScene()
    scene.wrapped.world = World(capabilities=Capabilities())
    scene.wrapped.world.create_bucket("bucket")
    scene.filesystem.put_file(str(local), f"{BASE}/{NAME}")
    with pytest.raises(UsageError, match="ContentType"):
        scene.filesystem.put_file(str(local), f"{BASE}/{NAME}", ContentType="text/plain")


class TestCopies:
    @pytest.fixture
    def source(self, scene: MemoryScene) -> str:
        scene.filesystem.pipe_file(f"{BASE}/source é", BODY, **OPTIONS)
        scene.publish()
        for key in scene.objects():
            if "__magic" in key:
                scene.run(scene.wrapped.store("bucket").delete([key]))
        return "bucket/dataset1/source é"

    @pytest.mark.parametrize("way", ["cp_file", "copy"])
    def test_copy_is_described_as_its_source(self, scene: MemoryScene, source: str, way: str) -> None:
        before = scene.run(scene.wrapped.store("bucket").head(source.removeprefix("bucket/")))
        getattr(scene.filesystem, way)(source, f"{BASE}/{NAME}")
        info = published(scene)
        assert given(info) == lower(OPTIONS)
        assert info.metadata[WRITE_ID] != before.metadata[WRITE_ID]

    def test_what_is_given_counts_before_the_source(self, scene: MemoryScene, source: str) -> None:
        scene.filesystem.cp_file(source, f"{BASE}/{NAME}", ContentType="a/b", MetadataDirective="COPY")
        assert given(published(scene)) == {**lower(OPTIONS), "ContentType": "a/b"}

    def test_what_describes_the_source_can_be_replaced(self, scene: MemoryScene, source: str) -> None:
        scene.filesystem.cp_file(source, f"{BASE}/{NAME}", MetadataDirective="REPLACE", Metadata={"new": "1"})
        assert given(published(scene)) == {METADATA: {"new": "1"}}

    def test_copy_of_a_file_asks_once_what_it_is(self, scene: MemoryScene, source: str) -> None:
        scene.requests()
        scene.filesystem.cp_file(source, f"{BASE}/{NAME}")
        assert scene.requests() == {"head": 1, "get_range": 1, "create_upload": 1, "put_part": 1, "put": 2}


def test_memory_keeps_what_describes_the_content() -> None:
    assert World().capabilities.uploads.options == {METADATA, *DESCRIPTION}
