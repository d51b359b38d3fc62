"""Copies on the side of S3: whole and in parts, and what is made of answers that prove nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fsspec.asyn import get_loop, sync
from s3fs import S3FileSystem

from magicfs.errors import ObjectNotFound, PermissionDenied, StoreError, Unavailable
from magicfs.stores import resolve
from magicfs.stores.port import PutMode, Store
from magicfs.stores.retrying import RETRIES, RetryingStore
from magicfs.stores.s3 import copy as s3_copy
from magicfs.stores.s3.store import S3Store
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

MEBIBYTE = 2**20
BODY = bytes(range(256)) * 45_000  # 11 MiB and a bit
HOSTILE = "copied/from here/é+%20#?&=\"'<a>~/日本 😀.parquet"
QUICK = {operation: replace(row, first_s=0.001, longest_s=0.001) for operation, row in RETRIES.items()}


@pytest.fixture(params=["ministack", "moto", "seaweedfs"])
def running(request: pytest.FixtureRequest, server: Callable[[str], Server]) -> Server:
    return server(request.param)


@pytest.fixture
def proxy(ministack: Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def store(ministack: Server, proxy: FaultProxy, bucket: str) -> Store:
    """What ``open_store`` gives, with short pauses."""
    opened = resolve.open_store(filesystem_of(ministack, endpoint_url=proxy.endpoint), bucket)
    assert isinstance(opened, RetryingStore)
    return RetryingStore(opened.inner, retries=QUICK)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is low enough for a test."""
    monkeypatch.setattr(s3_copy, "COPY_MAX", 5 * MEBIBYTE)
    monkeypatch.setattr(s3_copy, "COPY_PART", 5 * MEBIBYTE)


def filesystem_of(server: Server, **options: Any) -> S3FileSystem:
    return S3FileSystem(**server.storage_options() | options, skip_instance_cache=True)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return sync(get_loop(), lambda: coroutine)


def pending(store: Store) -> list[str]:
    async def listed() -> list[str]:
        return [info.key async for info in store.list_uploads("")]

    found: list[str] = run(listed())
    return found


# -- in parts --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_parts")
def test_large_object_is_copied_in_parts_with_everything_that_describes_it(
    running: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(running)
    client = running.s3_client()
    described: dict[str, Any] = {
        "Metadata": {"magicfs-write-id": "w", "other": "x y"},
        "ContentType": "application/vnd.apache.parquet",
        "CacheControl": "no-cache",
        "ContentDisposition": 'attachment; filename="a.parquet"',
        "ContentLanguage": "de",
    }
    client.put_object(Bucket=bucket, Key=HOSTILE, Body=BODY, **described)
    client.put_object(Bucket=bucket, Key="old copy", Body=b"old", Metadata={"old": "1"})
    store = resolve.open_store(filesystem_of(running), bucket)
    for destination in ("old copy", "new copy", "old copy"):
        assert run(store.copy(HOSTILE, destination)) == len(BODY)
        head = client.head_object(Bucket=bucket, Key=destination)
        assert {name: head[name] for name in described} == described
        assert head["ETag"].endswith('-3"')
        assert client.get_object(Bucket=bucket, Key=destination)["Body"].read() == BODY
    assert running.pending_uploads(bucket) == []
    assert client.get_object(Bucket=bucket, Key=HOSTILE)["Body"].read() == BODY


@pytest.mark.parametrize("size", [5 * MEBIBYTE, 5 * MEBIBYTE + 1, 10 * MEBIBYTE, 10 * MEBIBYTE + 1])
@pytest.mark.usefixtures("in_parts")
def test_sizes_around_the_limit_and_around_whole_parts_are_copied_whole(
    store: Store, proxy: FaultProxy, size: int
) -> None:
    body = BODY[:size]
    run(store.put("a", body))
    proxy.clear()
    assert run(store.copy("a", "b")) == size
    parts = -(-size // (5 * MEBIBYTE))
    if parts == 1:
        assert proxy.counts == {"HeadObject": 1, "CopyObject": 1}
    else:
        uploading = {"CreateMultipartUpload": 1, "UploadPartCopy": parts, "CompleteMultipartUpload": 1}
        assert proxy.counts == {"HeadObject": 1, **uploading}
    assert run(store.get("b")) == body


@pytest.mark.usefixtures("in_parts")
def test_parts_are_larger_where_there_would_be_too_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_copy, "COPY_PART", 1)
    inner: Any = store.inner  # type: ignore[attr-defined]
    few = replace(inner.capabilities, parts=replace(inner.capabilities.parts, count_max=2))
    monkeypatch.setattr(inner, "capabilities", few)
    run(store.put("a", BODY))

    async def copied() -> int:
        return await s3_copy.copy(inner, "a", "b", {}, "", PutMode.OVERWRITE)

    assert run(copied()) == len(BODY)
    assert run(store.head("b")).etag.endswith('-2"')
    assert run(store.get("b")) == BODY


@pytest.mark.parametrize("operation", ["UploadPartCopy", "CompleteMultipartUpload"])
@pytest.mark.parametrize(
    ("code", "kind"), [("AccessDenied", PermissionDenied), ("InternalError", Unavailable)]
)
@pytest.mark.usefixtures("in_parts")
def test_copy_in_parts_that_fails_leaves_no_upload_and_the_old_object(
    store: Store, proxy: FaultProxy, operation: str, code: str, kind: type[StoreError]
) -> None:
    run(store.put("a", BODY))
    run(store.put("b", b"old"))
    proxy.add(Rule(operation, Action.ERROR_IN_200, skip=int(operation == "UploadPartCopy"), code=code))
    with pytest.raises(kind):
        run(store.copy("a", "b"))
    assert (run(store.get("b")), pending(store)) == (b"old", [])
    proxy.clear()
    run(store.copy("a", "b"))
    assert run(store.get("b")) == BODY


@pytest.mark.usefixtures("in_parts")
def test_part_that_fails_for_a_while_is_waited_out(store: Store, proxy: FaultProxy) -> None:
    run(store.put("a", BODY))
    proxy.add(Rule("UploadPartCopy", Action.ERROR, times=2, status=503, code="SlowDown"))
    proxy.add(Rule("CompleteMultipartUpload", Action.LOST, times=1))
    assert run(store.copy("a", "b")) == len(BODY)
    assert (run(store.get("b")), pending(store)) == (BODY, [])


@pytest.mark.usefixtures("in_parts")
def test_upload_that_somebody_aborts_meanwhile_is_begun_again(
    ministack: Server, store: Store, proxy: FaultProxy, bucket: str
) -> None:
    run(store.put("a", BODY))
    client = ministack.s3_client()
    proxy.add(Rule("CompleteMultipartUpload", Action.DELAY, seconds=1.0, times=1))
    stop = threading.Event()

    def sweep() -> None:
        while not stop.wait(0.02):
            for upload in ministack.pending_uploads(bucket):
                client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
                return

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        assert run(store.copy("a", "b")) == len(BODY)
    finally:
        stop.set()
        sweeper.join()
    assert (run(store.get("b")), pending(store)) == (BODY, [])
    assert proxy.counts["HeadObject"] == 2


@pytest.mark.usefixtures("in_parts")
def test_source_that_is_replaced_between_its_parts_is_copied_anew(
    ministack: Server, store: Store, proxy: FaultProxy, bucket: str
) -> None:
    run(store.put("a", BODY))
    other = BODY[::-1]
    proxy.add(Rule("CreateMultipartUpload", Action.DELAY, seconds=0.5, times=1))
    seen = threading.Event()

    def replaced() -> None:
        while not seen.wait(0.01):
            if proxy.counts["HeadObject"]:
                ministack.s3_client().put_object(Bucket=bucket, Key="a", Body=other)
                return

    rival = threading.Thread(target=replaced)
    rival.start()
    try:
        assert run(store.copy("a", "b")) == len(other)
    finally:
        seen.set()
        rival.join()
    assert run(store.get("b")) == other
    assert proxy.counts["HeadObject"] == 2


@pytest.mark.usefixtures("in_parts")
def test_copy_in_parts_bears_the_checksums_that_the_filesystem_asks_for(
    seaweedfs: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(seaweedfs)
    filesystem = filesystem_of(seaweedfs, s3_additional_kwargs={"ChecksumAlgorithm": "SHA256"})
    store = resolve.open_store(filesystem, bucket)
    run(store.put("a", BODY))
    assert run(store.copy("a", "b")) == len(BODY)
    assert run(store.get("b")) == BODY


# -- in one request --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InternalError", Unavailable),
        ("SlowDown", Unavailable),
        ("NeverHeardOf", Unavailable),
        ("AccessDenied", PermissionDenied),
        ("NoSuchKey", ObjectNotFound),
    ],
)
def test_error_in_an_answer_of_200_to_a_copy_is_an_error(
    store: Store, proxy: FaultProxy, code: str, kind: type[StoreError]
) -> None:
    run(store.put("a", b"body"))
    run(store.put("b", b"old"))
    proxy.add(Rule("CopyObject", Action.ERROR_IN_200, code=code))
    with pytest.raises(kind, match=code):
        run(store.copy("a", "b"))
    assert run(store.get("b")) == b"old"
    assert proxy.counts["CopyObject"] == (RETRIES["copy"].attempts if kind is Unavailable else 1)


@pytest.mark.parametrize("action", [Action.ERROR_IN_200, Action.LOST, Action.LOST_500, Action.RESET])
def test_copy_whose_answer_was_lost_is_repeated(store: Store, proxy: FaultProxy, action: Action) -> None:
    run(store.put("a", b"body", metadata={"k": "v"}))
    proxy.add(Rule("CopyObject", action, times=3))
    assert run(store.copy("a", "b")) == 4
    assert (run(store.get("b")), run(store.head("b")).metadata) == (b"body", {"k": "v"})
    assert proxy.counts["CopyObject"] == 4


def test_copy_onto_itself_asks_for_nothing_but_the_size(store: Store, proxy: FaultProxy) -> None:
    run(store.put("a", b"body"))
    proxy.clear()
    assert run(store.copy("a", "a")) == 4
    assert proxy.counts == {"HeadObject": 1}


def test_denied_copy_names_the_destination_and_the_missing_one_the_source(
    store: Store, proxy: FaultProxy, bucket: str
) -> None:
    run(store.put("a", b"body"))
    proxy.add(Rule("CopyObject", Action.ERROR, status=403, code="AccessDenied"))
    with pytest.raises(PermissionDenied) as denied:
        run(store.copy("a", "b"))
    assert (denied.value.operation, denied.value.key) == ("copy", f"{bucket}/b")
    with pytest.raises(ObjectNotFound) as missing:
        run(store.copy("no", "b"))
    assert (missing.value.operation, missing.value.key) == ("copy", f"{bucket}/no")


class Mute(BaseHTTPRequestHandler):
    """Answers every copy with 200 and a body of its own choice."""

    body = b""
    seen: list[dict[str, str]] = []  # noqa: RUF012 - of one test

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("ETag", '"etag"')
        self.send_header("Content-Length", "4")
        self.end_headers()

    def do_PUT(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def mute(body: bytes, **options: Any) -> Iterator[tuple[S3Store, list[dict[str, str]]]]:
    handler = type("Handler", (Mute,), {"body": body, "seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        filesystem = S3FileSystem(
            key="key",
            secret="secret",
            endpoint_url=f"http://127.0.0.1:{server.server_address[1]}",
            client_kwargs={"region_name": "us-east-1"},
            config_kwargs={"retries": {"total_max_attempts": 1}},
            skip_instance_cache=True,
            **options,
        )
        try:
            yield S3Store(filesystem, "bucket"), handler.seen  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"<?xml version='1.0'?><CopyObjectResult></CopyObjectResult>",
        b"<?xml version='1.0'?><CopyObjectResult><ETag>&quot;0",
        b"<Error><Code>InternalError</Code></Error>",
    ],
    ids=["nothing", "spaces", "no ETag", "cut short", "error"],
)
def test_answer_of_200_that_does_not_say_what_was_done_is_no_success(body: bytes) -> None:
    with mute(body) as (store, _), pytest.raises(Unavailable):
        run(store.copy("a", "b"))


def test_key_of_the_customer_is_sent_for_the_source_too() -> None:
    encryption = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    answer = b"<CopyObjectResult><ETag>&quot;0&quot;</ETag></CopyObjectResult>"
    with mute(answer, s3_additional_kwargs=encryption, use_ssl=False) as (store, seen):
        run(store.copy("a +%é", "b"))
    [headers] = seen
    assert headers["x-amz-copy-source"] == "bucket/a%20%2B%25%C3%A9"
    assert headers["x-amz-copy-source-if-match"] == '"etag"'
    sent = headers["x-amz-server-side-encryption-customer-key"]
    assert headers["x-amz-copy-source-server-side-encryption-customer-key"] == sent
    assert headers["x-amz-copy-source-server-side-encryption-customer-algorithm"] == "AES256"
