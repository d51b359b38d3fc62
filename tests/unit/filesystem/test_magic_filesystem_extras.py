"""What the wrapped filesystem can do beyond fsspec, JSON of a filesystem, and filesystems by protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec import AbstractFileSystem, generic
from fsspec.asyn import sync
from s3fs import S3FileSystem

import magicfs
from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem, MagicMemory, MagicS3, MagicS3A
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World, default_world
from proofs.scenes.memory_scene import MemoryScene

OPTIONS: dict[str, Any] = {
    "endpoint_url": "http://127.0.0.1:9",
    "key": "hidden-key",
    "secret": "hidden-secret",
    "client_kwargs": {"region_name": "eu-north-1", "aws_session_token": "hidden-token"},
}
PENDING_PATH = "bucket/dataset1/__magic/job 1/__base/a b"


class Tagged(MemoryFileSystem):
    """Objects in memory with what s3fs has beyond fsspec; tells which paths it was given."""

    def __init__(self) -> None:
        super().__init__(world=World())
        self.given: list[tuple[str, str]] = []

    def _take(self, name: str, path: str) -> str:
        self.given.append((name, path))
        return name

    def url(self, path: str, **_: Any) -> str:
        return self._take("url", path)

    def sign(self, path: str, expiration: int = 100, **_: Any) -> str:
        assert expiration
        return self._take("sign", path)

    def metadata(self, path: str) -> str:
        return self._take("metadata", path)

    def get_tags(self, path: str) -> str:
        return self._take("get_tags", path)

    def put_tags(self, path: str, tags: dict[str, str]) -> str:
        assert tags
        return self._take("put_tags", path)

    def chmod(self, path: str, acl: str) -> str:
        assert acl
        return self._take("chmod", path)

    async def _setxattr(self, path: str, **_: Any) -> str:
        return self._take("_setxattr", path)


LOOKS: dict[str, Any] = {
    "url": lambda fs, path: fs.url(path, expires=1),
    "sign": lambda fs, path: fs.sign(path),
    "metadata": lambda fs, path: fs.metadata(path=path),
    "get_tags": lambda fs, path: fs.get_tags(path),
}
CHANGES: dict[str, Any] = {
    "put_tags": lambda fs, path: fs.put_tags(path, {"a": "b"}),
    "chmod": lambda fs, path: fs.chmod(path, "private"),
    "_setxattr": lambda fs, path: sync(fs.loop, fs._setxattr, path, a="b"),
}


@pytest.mark.parametrize("name", [*LOOKS, *CHANGES])
@pytest.mark.parametrize("before", ["", "magic://", "memory://", "magic::memory://"])
def test_extras_take_every_spelling_of_a_path(name: str, before: str) -> None:
    wrapped = Tagged()
    fs = MagicFileSystem(wrapped)
    assert (LOOKS | CHANGES)[name](fs, f"{before}bucket/a b%") == name
    assert wrapped.given == [(name, "bucket/a b%")]
    assert fs.unstrip_protocol("bucket/a b%") == "magic::memory://bucket/a b%"


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_a_file_that_is_not_there_yet_is_refused(name: str) -> None:
    wrapped = Tagged()
    with pytest.raises(
        UsageError, match=r"pending: its object does not exist yet.* after the job has committed"
    ):
        CHANGES[name](MagicFileSystem(wrapped), f"magic::memory://{PENDING_PATH}")
    assert wrapped.given == []


def test_coroutines_of_extras_are_there_where_the_wrapped_filesystem_has_them(scene: MemoryScene) -> None:
    fs = MagicFileSystem(target_protocol="s3", target_options=OPTIONS)
    for name in ("_touch", "_rmdir", "_url", "_metadata", "_setxattr", "_chmod", "_checksum", "_getxattr"):
        assert asyncio.iscoroutinefunction(getattr(fs, name)), name
    for name in ("_url", "_metadata", "url", "_call_s3", "_private"):
        assert not hasattr(scene.filesystem, name)


def test_touch_and_rmdir_have_coroutines(scene: MemoryScene) -> None:
    fs = scene.filesystem
    sync(fs.loop, fs._touch, "bucket/plain")
    sync(fs.loop, fs._touch, PENDING_PATH)
    sync(fs.loop, fs._rmdir, "bucket/dataset1/__magic/job 1")
    fs.makedirs("other")
    sync(fs.loop, fs._rmdir, "other")
    assert scene.publish() == {"dataset1/a b": b""}
    assert scene.wrapped.world.buckets() == ["bucket"]
    assert "plain" in scene.objects()


def test_touch_and_rm_return_what_the_wrapped_filesystem_does(
    scene: MemoryScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def touch(path: str, **_: Any) -> Any:
        return {"touched": path}

    async def rm(path: str, **_: Any) -> Any:
        return [path]

    monkeypatch.setattr(scene.wrapped, "_touch", touch)
    monkeypatch.setattr(scene.wrapped, "_rm", rm)
    fs = scene.filesystem
    assert fs.touch("magic::memory://bucket/a") == {"touched": "memory://bucket/a"}
    assert fs.rm("magic+memory://bucket/a") == ["memory://bucket/a"]
    assert fs.touch(PENDING_PATH) is None
    assert fs.rm(["bucket/a", PENDING_PATH]) == [["bucket/a"], PENDING_PATH]


def test_pattern_with_a_slash_at_the_end_finds_directories_alone(scene: MemoryScene) -> None:
    for key in ("d/x", "d/e/f", "d/g h/i"):
        scene.put(key)
    scene.filesystem.pipe_file(f"{PENDING_PATH}/c", b"1")
    for before in ("", "magic::memory://"):
        assert scene.filesystem.glob(f"{before}bucket/d/*/") == ["bucket/d/e", "bucket/d/g h"]
        assert scene.filesystem.glob(f"{before}bucket/d/*") == ["bucket/d/e", "bucket/d/g h", "bucket/d/x"]
        assert scene.filesystem.glob(f"{before}bucket/dataset1/__magic/job 1/*/*/") == [PENDING_PATH]


# -- JSON ----------------------------------------------------------------------------------------------------


def made_by_options() -> MagicFileSystem:
    return MagicFileSystem(target_protocol="s3", target_options=OPTIONS, tracking="memory")


def made_by_alias() -> MagicFileSystem:
    return MagicFileSystem(target_protocol="s3", s3=OPTIONS, tracking="memory")


def made_by_instance() -> MagicFileSystem:
    return MagicFileSystem(S3FileSystem(**OPTIONS), tracking="memory")


@pytest.mark.parametrize("make", [made_by_options, made_by_alias, made_by_instance])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_json_makes_it_again_with_its_secrets_in_this_process_alone(make: Any, asynchronous: bool) -> None:
    """Zarr makes an asynchronous copy of every filesystem so."""
    made = make()
    text = made.to_json()
    assert "hidden" not in text
    assert "(secret)" not in text
    given = json.loads(text)
    if asynchronous:
        given["asynchronous"] = True
    copy: Any = AbstractFileSystem.from_json(json.dumps(given))
    assert (type(copy), copy.asynchronous) == (MagicFileSystem, asynchronous)
    assert (copy.fs.endpoint_url, copy.fs.key, copy.fs.secret) == (
        made.fs.endpoint_url,
        "hidden-key",
        "hidden-secret",
    )
    assert copy.fs.client_kwargs == OPTIONS["client_kwargs"]
    assert copy.storage_options["tracking"] == "memory"
    assert AbstractFileSystem.from_json(copy.to_json()).fs.key == "hidden-key"
    # As another process finds it, which does not know the word.
    given["secrets_of"] = "0" * 32
    other: Any = AbstractFileSystem.from_json(json.dumps(given))
    assert (other.fs.key, other.fs.client_kwargs) == (None, {"region_name": "eu-north-1"})


def test_json_without_passwords_gives_no_word_for_secrets() -> None:
    made = made_by_options()
    assert "secrets_of" in made.to_dict()
    assert "secrets_of" not in made.to_dict(include_password=False)


def test_json_of_a_secret_that_cannot_be_left_out_is_refused() -> None:
    customer = {"s3_additional_kwargs": {"SSECustomerKey": "hidden"}}
    with pytest.raises(UsageError, match="SSECustomerKey"):
        MagicFileSystem(target_protocol="s3", target_options=customer).to_json()


# -- protocols -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("s3", MagicS3), ("s3a", MagicS3A), ("memory", MagicMemory)])
@pytest.mark.parametrize("before", ["magic::", "magic+"])
def test_protocols_with_magic_before_them_name_filesystems(before: str, name: str, kind: type) -> None:
    protocol = f"{before}{name}"
    options = {} if name == "memory" else {"s3": OPTIONS}
    fs = fsspec.filesystem(protocol, **options)
    assert type(fs) is kind
    assert isinstance(fs, MagicFileSystem)
    assert {"magic", f"magic+{name}"} <= set(fs.protocol)
    assert type(fs.fs) is (MemoryFileSystem if name == "memory" else S3FileSystem)
    assert AbstractFileSystem.from_json(fs.to_json()).storage_options.keys() >= options.keys()
    found, path = fsspec.core.url_to_fs(f"{protocol}://{PENDING_PATH}", **options)
    assert (type(found), path.lstrip("/")) == (MagicFileSystem if before == "magic::" else kind, PENDING_PATH)
    assert type(found.fs) is type(fs.fs)


@pytest.mark.process  # the SDK asks the machine for its name
@pytest.mark.parametrize("name", ["abfs", "abfss", "az"])
@pytest.mark.parametrize("before", ["magic::", "magic+"])
def test_protocols_with_magic_before_them_name_filesystems_of_azure(before: str, name: str) -> None:
    protocol = f"{before}{name}"
    options = {name: {"account_name": "account", "account_key": "a2V5"}}
    fs = fsspec.filesystem(protocol, **options)
    assert isinstance(fs, MagicFileSystem)
    assert type(fs.fs) is fsspec.get_filesystem_class("abfs")
    assert "a2V5" not in fs.to_json()
    url = f"{protocol}://container@account.dfs.core.windows.net/a é/x"
    found, path = fsspec.core.url_to_fs(url, **{name: {"account_key": "a2V5"}})
    assert isinstance(found, MagicFileSystem)
    assert (found.fs.account_name, path) == ("account", "container/a é/x")


@pytest.fixture
def bucket() -> Iterator[str]:
    name = f"rsync-{uuid4().hex[:12]}"
    default_world().create_bucket(name)
    yield name
    default_world().delete_bucket(name)


def by_name(_: MagicFileSystem) -> dict[str, Any]:
    return {}


def by_options(_: MagicFileSystem) -> dict[str, Any]:
    return {"inst_kwargs": {"default_method": "options"}}


def by_current(fs: MagicFileSystem) -> dict[str, Any]:
    MagicFileSystem._latest = fs._fs_token_  # whatever else this process has made meanwhile
    MagicFileSystem._cache[fs._fs_token_] = fs
    return {"inst_kwargs": {"default_method": "current"}}


def by_instance(fs: MagicFileSystem) -> dict[str, Any]:
    generic._generic_fs.update({"file": fsspec.filesystem("file"), "magic::memory": fs})
    return {"inst_kwargs": {"default_method": "generic"}}


@pytest.mark.parametrize("way", [by_name, by_options, by_current, by_instance])
@pytest.mark.parametrize("tracking", ["memory", "store"])
def test_rsync_brings_a_task_up_to_date(
    tmp_path: Path, bucket: str, tracking: Any, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generic, "_generic_fs", {})
    source = tmp_path / "source"
    for name in ("a", "d e/b%", "d e/c"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(name.encode())
    job = magicfs.Job(f"memory://{bucket}/sales", mode="append", options={"tracking": tracking})
    with job, job.task(0) as task:
        fs, target = task.filesystem, task.filesystem.unstrip_protocol(task.path)
        how = way(fs)
        generic.rsync(f"file://{source}", target, delete_missing=True, **how)
        copied = generic.rsync(f"file://{source}", target, delete_missing=True, **how)
        assert copied == {}
        assert sorted(fs.find(task.path)) == [f"{task.path}/{name}" for name in ("a", "d e/b%", "d e/c")]
        (source / "d e" / "c").unlink()
        generic.rsync(f"file://{source}", target, delete_missing=True, **how)
        assert sorted(fs.find(task.path)) == [f"{task.path}/{name}" for name in ("a", "d e/b%")]
    plain = MemoryFileSystem()
    found = {path: plain.cat_file(path) for path in plain.find(f"{bucket}/sales") if "/_" not in path}
    assert sorted(found.values()) == [b"a", b"d e/b%"]
