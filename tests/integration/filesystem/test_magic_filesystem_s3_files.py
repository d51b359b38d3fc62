"""Files of s3fs that were opened through ``MagicFileSystem`` lead back to it, and work as they did."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from fsspec.asyn import sync
from s3fs import S3FileSystem

from magicfs.filesystem import MagicFileSystem
from proofs.doubles.servers import Server
from proofs.scenes.s3_scene import S3Scene

pytestmark = pytest.mark.sample(most=1)

BODY = bytes(range(256)) * 4096


@pytest.fixture
def work(scene: S3Scene) -> str:
    return f"{scene.bucket}/dataset1/__magic/mine/__base"


def test_file_that_is_read_leads_to_no_visible_write(scene: S3Scene, work: str) -> None:
    scene.put("old é", BODY)
    with scene.filesystem.open(f"{scene.bucket}/old é", "rb", 2**16) as file:
        assert file.fs is file.s3 is scene.filesystem
        with file.fs.open(f"{work}/a", "wb") as other:
            other.write(file.read(10))
        assert file.read() == BODY[10:]
        file.seek(-5, 2)
        assert file.read() == BODY[-5:]
        assert file.info()["size"] == len(BODY)
        assert file.metadata() == {}
        assert file.url().startswith("http")
    assert file.closed
    assert scene.uploads() == ["dataset1/a"]
    assert scene.publish() == {"dataset1/a": BODY[:10]}


@pytest.mark.parametrize("cache", ["none", "bytes", "readahead", "blockcache", "all", "background"])
def test_every_cache_reads(scene: S3Scene, cache: str) -> None:
    scene.put("old é", BODY)
    with scene.filesystem.open(f"{scene.bucket}/old é", "rb", 2**16, cache_type=cache) as file:
        file.seek(100_000)
        assert file.read(300_000) == BODY[100_000:400_000]


def test_file_that_is_read_reopens_through_the_same_kind_of_filesystem(
    ministack: Server, scene: S3Scene
) -> None:
    scene.put("old", BODY)
    fs = MagicFileSystem(
        target_protocol="s3", target_options=ministack.storage_options(), allow_secrets_in_pickles=True
    )
    with fs.open(f"{scene.bucket}/old", "rb") as file:
        file.seek(7)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.fs is fs
            assert again.read(3) == BODY[7:10]


def test_file_of_coroutines_leads_back(scene: S3Scene) -> None:
    scene.put("old", BODY)

    async def read() -> bytes:
        file = await scene.filesystem.open_async(f"{scene.bucket}/old", "rb")
        assert file.fs is scene.filesystem
        body: bytes = await file.read()
        return body

    assert sync(scene.filesystem.loop, read) == BODY


@pytest.mark.parametrize("body", [b"", b"1", BODY * 12])
@pytest.mark.parametrize("aware", [False, True])
def test_ordinary_files_are_written_as_before(
    ministack: Server, scene: S3Scene, body: bytes, aware: bool
) -> None:
    options = ministack.storage_options() | {"version_aware": aware}
    fs = MagicFileSystem(S3FileSystem(**options, skip_instance_cache=True))
    with fs.open(f"{scene.bucket}/new", "wb", 5 * 2**20) as file:
        assert file.fs is fs
        file.write(body)
    assert scene.get("new") == body
    with fs.transaction, fs.open(f"{scene.bucket}/later", "wb", 5 * 2**20) as file:
        file.write(body)
    assert scene.get("later") == body


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_path_of_ones_own_that_is_written_again_leaves_nothing_of_the_first_write(
    scene: S3Scene, work: str, tracking: Any
) -> None:
    fs = MagicFileSystem(scene.wrapped, tracking=tracking)
    for body in (b"first, and longer", b"second", b"last"):
        fs.pipe_file(f"{work}/day=1/a b%+#é", body)
    with pytest.raises(FileExistsError, match="is pending; choose another name"):
        fs.pipe_file(f"{work}/day=1/a b%+#é", b"new", mode="create")
    assert scene.uploads() == ["dataset1/day=1/a b%+#é"]
    scene.filesystem.publish(f"s3://{work}")
    assert scene.get("dataset1/day=1/a b%+#é") == b"last"
    assert scene.uploads() == []
