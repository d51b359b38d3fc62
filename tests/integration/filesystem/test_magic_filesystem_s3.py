"""``MagicFileSystem`` around s3fs on a server: writing, looking, removing, passing through."""

from __future__ import annotations

import hashlib
import logging
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.asyn import sync
from fsspec.core import url_to_fs

from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server
from proofs.scenes.s3_scene import S3Scene

pytestmark = pytest.mark.sample(most=1)

WORK = "dataset1/__magic/job 1/task%2F1/__base"
NAMES = ["part-0.parquet", "day=2026-01-01/part 0.csv", "50%+#?&=.bin", "zażółć 日本.txt", 'it\'s "quoted"']
BODY = b"one\ntwo\n"
XATTR = "header.x-hadoop-s3a-magic-data-length"


def by_open(fs: MagicFileSystem, path: str, _local: Path, _source: str) -> None:
    with fs.open(path, "wb") as file:
        file.write(BODY)


def by_open_text(fs: MagicFileSystem, path: str, _local: Path, _source: str) -> None:
    with fs.open(path, "w", newline="\n") as file:
        file.write(BODY.decode())


def by_pipe_file(fs: MagicFileSystem, path: str, _local: Path, _source: str) -> None:
    fs.pipe_file(path, BODY)


def by_put_file(fs: MagicFileSystem, path: str, local: Path, _source: str) -> None:
    fs.put_file(str(local), path)


def by_cp_file(fs: MagicFileSystem, path: str, _local: Path, source: str) -> None:
    fs.cp_file(source, path)


def by_mv(fs: MagicFileSystem, path: str, _local: Path, source: str) -> None:
    fs.mv(source, path)


def by_open_async(fs: MagicFileSystem, path: str, _local: Path, _source: str) -> None:
    async def write() -> None:
        async with await fs.open_async(path, "wb") as file:
            await file.write(BODY)

    sync(fs.loop, write)


Way = Callable[[MagicFileSystem, str, Path, str], None]
WAYS_EVERYWHERE: list[Way] = [by_open, by_open_text, by_pipe_file, by_put_file, by_cp_file]
# s3fs's own file for coroutines cannot be written.
WAYS: list[Way] = [*WAYS_EVERYWHERE, by_open_async]
# What is moved below a magic path would be lost if its job aborted.
WAYS_ELSEWHERE: list[Way] = [*WAYS_EVERYWHERE, by_mv]


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local file"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def base(scene: S3Scene) -> str:
    return f"{scene.bucket}/{WORK}"


@pytest.mark.parametrize("write", WAYS)
def test_every_way_to_write_is_delayed(scene: S3Scene, base: str, local: Path, write: Way) -> None:
    for name in NAMES:
        scene.put("old/source", BODY)
        write(scene.filesystem, f"{base}/{name}", local, f"{scene.bucket}/old/source")
    left = set(scene.objects()) - {"old/source"}
    assert left == {f"{WORK}/{name}{end}" for name in NAMES for end in ("", ".pending")}
    assert scene.uploads() == sorted(f"dataset1/{name}" for name in NAMES)
    assert scene.publish() == {f"dataset1/{name}": BODY for name in NAMES}


@pytest.mark.parametrize("write", WAYS_ELSEWHERE)
def test_every_way_to_write_elsewhere_is_untouched(scene: S3Scene, local: Path, write: Way) -> None:
    for name in NAMES:
        scene.put("old/source", BODY)
        write(scene.filesystem, f"{scene.bucket}/dataset1/{name}", local, f"{scene.bucket}/old/source")
        assert scene.get(f"dataset1/{name}") == BODY
    assert scene.uploads() == []


def test_file_of_many_parts_arrives_whole(scene: S3Scene, base: str) -> None:
    fs = MagicFileSystem(scene.wrapped, part_size=5 * 2**20)
    digest = hashlib.sha256()
    with fs.open(f"{base}/large", "wb") as file:
        for number in range(23):
            piece = bytes([number]) * 2**20
            digest.update(piece)
            file.write(piece)
    assert fs.size(f"{base}/large") == 23 * 2**20
    assert hashlib.sha256(scene.publish()["dataset1/large"]).digest() == digest.digest()


def test_marker_tells_its_size_and_hadoops_attribute(scene: S3Scene, base: str) -> None:
    fs = scene.filesystem
    fs.pipe_file(f"{base}/day=1/a b%", BODY)
    assert fs.info(f"{base}/day=1/a b%")["size"] == len(BODY)
    assert fs.getxattr(f"{base}/day=1/a b%", XATTR) == b"8"
    assert [entry["size"] for entry in fs.ls(f"{base}/day=1", detail=True)] == [0]
    assert fs.find(base) == [f"{base}/day=1/a b%"]
    assert scene.client.head_object(Bucket=scene.bucket, Key=f"{WORK}/day=1/a b%")["Metadata"] == {
        "x-hadoop-s3a-magic-data-length": "8"
    }


def test_extras_of_s3fs_take_the_paths_that_we_give(scene: S3Scene, base: str) -> None:
    fs = scene.filesystem
    scene.put("plain a%", BODY)
    path = fs.unstrip_protocol(f"{scene.bucket}/plain a%")
    assert path == f"magic::s3://{scene.bucket}/plain a%"
    fs.setxattr(path, colour="blue")
    fs.put_tags(path, {"a": "b"})
    assert (fs.metadata(path)["colour"], fs.get_tags(path)) == ("blue", {"a": "b"})
    assert sync(fs.loop, fs._metadata, path) == fs.metadata(path)
    assert fs.getxattr(path, "colour") == "blue"
    # The path has arrived; the bucket, like every new one, knows no ACLs.
    with pytest.raises(OSError, match="AccessControlListNotSupported"):
        fs.chmod(path, "private")
    for url in (fs.url(path), fs.sign(path), sync(fs.loop, fs._url, path)):
        assert "plain%20a%25?" in url
    assert (fs.checksum(path), fs.ukey(path)) == (fs.fs.checksum(path[7:]), fs.fs.ukey(path[7:]))
    fs.pipe_file(f"{base}/a", BODY)
    for change in (lambda: fs.setxattr(f"{base}/a", a="b"), lambda: fs.chmod(f"{base}/a", "private")):
        with pytest.raises(UsageError, match="is pending"):
            change()


def test_what_s3fs_returns_is_returned(scene: S3Scene, base: str) -> None:
    fs = scene.filesystem
    assert "ETag" in fs.touch(f"{scene.bucket}/plain")
    assert isinstance(fs.rm(f"{scene.bucket}/plain"), list)
    fs.pipe({f"{base}/d/a b": BODY, f"{base}/c": BODY})
    assert fs.ls(base) == [f"{base}/c", f"{base}/d"]
    assert fs.ls(base, detail=True)[0]["type"] == "file"
    assert fs.rm(f"{base}/d", recursive=True) == [f"{base}/d/a b"]
    first = fs.checksum(f"{base}/c"), fs.ukey(f"{base}/c")
    fs.pipe_file(f"{base}/c", BODY)
    assert {fs.checksum(f"{base}/c"), fs.ukey(f"{base}/c")}.isdisjoint(first)


def test_other_objects_under_magic_are_read_as_they_are(scene: S3Scene, base: str) -> None:
    scene.put(f"{WORK}/plain", BODY)

    async def read() -> Any:
        file = await scene.filesystem.open_async(f"{base}/plain", "rb")
        return await file.read()

    assert sync(scene.filesystem.loop, read) == BODY
    with scene.filesystem.open(f"{base}/plain", "rb") as file:
        assert file.read() == BODY
    assert scene.filesystem.cat_file(f"{base}/plain", start=1, end=3) == BODY[1:3]


@pytest.fixture
def proxy(scene: S3Scene) -> Iterator[FaultProxy]:
    with FaultProxy(scene.server.endpoint) as proxy:
        yield proxy


def test_ordinary_directories_are_made_as_s3fs_makes_them(
    scene: S3Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    # s3fs asks for a bucket in the region of its client_kwargs, which us-east-1 must not be.
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    options = scene.storage_options | {"client_kwargs": {}}
    fs, new = MagicFileSystem(target_protocol="s3", target_options=options), f"{scene.bucket}-made"
    fs.makedirs(f"{new}/dataset1")
    assert new in [b["Name"] for b in scene.client.list_buckets()["Buckets"]]
    fs.rmdir(new)
    assert new not in [b["Name"] for b in scene.client.list_buckets()["Buckets"]]
    with pytest.raises(FileExistsError):
        fs.makedirs(scene.bucket)


def test_extras_of_s3fs_are_at_hand(scene: S3Scene) -> None:
    fs, path = scene.filesystem, f"{scene.bucket}/dataset1/a b"
    scene.put("dataset1/a b", BODY, owner="me")
    assert fs.call_s3("head_object", Bucket=scene.bucket, Key="dataset1/a b")["ContentLength"] == len(BODY)
    with urllib.request.urlopen(fs.url(path)) as answer:
        assert answer.read() == BODY
    with urllib.request.urlopen(fs.sign(path)) as answer:
        assert answer.read() == BODY
    assert fs.metadata(path)["owner"] == "me"
    assert fs.getxattr(path, "owner") == "me"
    assert fs.modified(path) == scene.wrapped.modified(path)
    assert fs.checksum(path) == scene.wrapped.checksum(path)
    assert fs.get_tags(path) == scene.wrapped.get_tags(path) == {}
    assert fs.list_multipart_uploads(scene.bucket) == []
    assert fs.split_path(path) == scene.wrapped.split_path(path)
    with pytest.raises(AttributeError, match="no_such_method"):
        fs.no_such_method  # noqa: B018


def test_ordinary_questions_are_answered_as_s3fs_answers_them(scene: S3Scene) -> None:
    for key in ("dataset1/a", "dataset1/b/c", "dataset10/d"):
        scene.put(key, BODY)
    fs, plain, root = scene.filesystem, scene.wrapped, f"{scene.bucket}/dataset1"
    for call, arguments in {
        "ls": (root,),
        "find": (root,),
        "glob": (f"{root}/*",),
        "info": (f"{root}/a",),
        "exists": (f"{root}/b",),
        "isdir": (f"{root}/b",),
        "isfile": (f"{root}/b",),
        "size": (f"{root}/a",),
        "du": (root,),
        "cat": (f"{root}/a",),
        "cat_ranges": ([f"{root}/a"], [0], [2]),
        "tree": (root,),
    }.items():
        assert getattr(fs, call)(*arguments) == getattr(plain, call)(*arguments), call
    assert list(fs.walk(root)) == list(plain.walk(root))


def test_files_open_for_reading_are_those_of_s3fs(scene: S3Scene) -> None:
    scene.put("dataset1/a", BODY)
    path = f"{scene.bucket}/dataset1/a"
    with scene.filesystem.open(path, "rb", block_size=4, cache_type="none") as file:
        assert type(file) is type(scene.wrapped.open(path, "rb"))
        assert (file.blocksize, file.read()) == (4, BODY)


def test_chained_url_reads_and_writes(scene: S3Scene) -> None:
    options = {"s3": scene.storage_options}
    with fsspec.open(f"magic::s3://{scene.bucket}/{WORK}/a b%", "wb", **options) as file:
        file.write(BODY)
    assert scene.publish() == {"dataset1/a b%": BODY}
    with fsspec.open(f"magic::s3a://{scene.bucket}/dataset1/a b%", "rb", s3a=scene.storage_options) as file:
        assert file.read() == BODY
    filesystem, path = url_to_fs(f"magic::s3://{scene.bucket}/dataset1/a b%", **options)
    assert filesystem.unstrip_protocol(path) == f"magic::s3://{scene.bucket}/dataset1/a b%"


def test_lost_replies_and_passing_errors_do_not_change_what_is_written(
    scene: S3Scene, proxy: FaultProxy
) -> None:
    fs = S3Scene(scene.server, scene.bucket, proxy.endpoint, part_size=5 * 2**20).filesystem
    proxy.add(Rule("UploadPart", Action.ERROR, times=1, status=503, code="SlowDown"))
    proxy.add(Rule("UploadPart", Action.LOST, times=2))
    proxy.add(Rule("PutObject", Action.LOST, times=1))
    proxy.add(Rule("PutObject", Action.RESET, times=1))
    body = bytes(range(256)) * (47 * 2**10)
    with fs.open(f"{scene.bucket}/{WORK}/a", "wb") as file:
        file.write(body)
    assert scene.publish() == {"dataset1/a": body}


def test_secret_is_in_no_log_record_and_in_no_object(
    server: Callable[[str], Server], bucket_factory: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    scene = S3Scene(server("seaweedfs"), bucket_factory(server("seaweedfs")))
    with caplog.at_level(logging.DEBUG):
        with scene.filesystem.open(f"{scene.bucket}/{WORK}/a", "wb") as file:
            file.write(BODY)
        with pytest.raises(UsageError):
            scene.filesystem.cat_file(f"{scene.bucket}/{WORK}/a")
    assert len(caplog.records) > 10
    secret = scene.server.secret_key
    assert [record for record in caplog.records if secret in record.getMessage()] == []
    assert [key for key, body in scene.objects().items() if secret.encode() in body] == []
