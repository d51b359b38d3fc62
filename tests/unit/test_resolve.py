"""From a scheme or a filesystem to a store of local files, and of what has none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fsspec.asyn import get_loop
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from s3fs import S3FileSystem

import magicfs
from magicfs.datasets.connection import on_destination
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.protocol.paths import Location
from magicfs.stores import object_settings, resolve
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.retrying import RetryingStore


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_local_files_have_a_store(scheme: str) -> None:
    filesystem = resolve.filesystem(scheme, {})
    assert isinstance(filesystem, LocalFileSystem)
    assert filesystem.auto_mkdir
    store = resolve.open_store(filesystem, "")
    assert isinstance(store, LocalStore)
    assert (store.bucket, store.capabilities.uploads.delayed) == ("", True)
    assert not resolve.filesystem(scheme, {"auto_mkdir": False}).auto_mkdir
    assert resolve.aliases(scheme) == {"file", "local"} <= resolve.SCHEMES
    assert not resolve.has_buckets(filesystem)


def test_other_filesystems_have_none() -> None:
    with pytest.raises(UsageError, match="'dir' cannot delay"):
        resolve.filesystem("dir", {})
    with pytest.raises(UsageError, match="'dir' cannot delay"):
        resolve.open_store(DirFileSystem("/tmp", LocalFileSystem()), "")


@pytest.mark.parametrize("bucket", ["fast--usw2-az1--x-s3", "way--usw2-az1--xa-s3"])
def test_directory_bucket_is_refused_before_any_request(bucket: str) -> None:
    filesystem = S3FileSystem(key="k", secret="s", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(UsageError, match="directory bucket of S3 Express One Zone"):
        resolve.open_store(filesystem, bucket)
    with pytest.raises(UsageError, match="use a general purpose bucket"):
        magicfs.Job(f"s3://{bucket}/sales", filesystem=filesystem)


def test_every_filesystem_has_a_loop() -> None:
    memory = MemoryFileSystem()
    assert resolve.loop_of(LocalFileSystem()) is get_loop()
    assert resolve.loop_of(memory) is memory.loop
    own = asyncio.new_event_loop()
    try:
        assert resolve.loop_of(S3FileSystem(anon=True, loop=own, skip_instance_cache=True)) is own
    finally:
        own.close()


def test_work_on_a_local_destination_runs_on_a_loop(tmp_path: Path) -> None:
    async def work(engine: Engine, location: Location, name: str) -> list[str]:
        await engine.store.put(f"{location.key}/{name}", b"body")
        return [info.key async for info in engine.store.list(f"{location.key}/")]

    url = f"file://{tmp_path}/dest"
    assert on_destination(work, url, None, LocalFileSystem(), name="a") == [f"{tmp_path}/dest/a"[1:]]
    assert (tmp_path / "dest/a").read_bytes() == b"body"


class TestStoresOfS3:
    """Each file that is opened asks for the store of its bucket; it is made once."""

    def test_one_for_each_filesystem_and_bucket(self) -> None:
        first = S3FileSystem(anon=True, skip_instance_cache=True)
        second = S3FileSystem(anon=True, skip_instance_cache=True)
        store = resolve.open_store(first, "bucket")
        assert resolve.open_store(first, "bucket") is store
        assert resolve.open_store(first, "bücket %+#").bucket == "bücket %+#"
        assert resolve.open_store(first, "bucket") is store
        assert resolve.open_store(second, "bucket") is not store

    def test_made_anew_when_what_is_added_to_requests_has_changed(self) -> None:
        filesystem = S3FileSystem(
            anon=True, skip_instance_cache=True, s3_additional_kwargs={"ServerSideEncryption": "AES256"}
        )
        before = resolve.open_store(filesystem, "bucket")
        filesystem.s3_additional_kwargs["ServerSideEncryption"] = "aws:kms"
        after = resolve.open_store(filesystem, "bucket")
        assert object_settings.of_store(before) == {"ServerSideEncryption": "AES256"}
        assert object_settings.of_store(after) == {"ServerSideEncryption": "aws:kms"}

    def test_a_filesystem_of_a_users_own_loop_keeps_none(self) -> None:
        filesystem = S3FileSystem(anon=True, skip_instance_cache=True, asynchronous=True)
        before = set(vars(filesystem))
        assert resolve.open_store(filesystem, "bucket") is not resolve.open_store(filesystem, "bucket")
        assert set(vars(filesystem)) == before

    def test_settings_of_a_job_are_taken_once(self) -> None:
        filesystem = S3FileSystem(anon=True, skip_instance_cache=True)
        store = resolve.open_store(filesystem, "bucket")
        settings = {"StorageClass": "STANDARD_IA"}
        one, other = (object_settings.store_with(store, settings) for _ in range(2))
        assert isinstance(one, RetryingStore)
        assert isinstance(other, RetryingStore)
        assert one.inner is other.inner
        third = object_settings.store_with(store, {"StorageClass": "GLACIER_IR"})
        assert object_settings.of_store(third) == {"StorageClass": "GLACIER_IR"}
        assert object_settings.of_store(one) == settings
        assert object_settings.of_store(store) == {}
