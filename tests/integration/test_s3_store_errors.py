"""The errors of ``S3Store`` as real servers and broken connections cause them, whoever sends the requests.

Each request is sent once: repeating is the business of ``stores.retrying``.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from fsspec.asyn import get_loop, sync
from s3fs import S3FileSystem

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unavailable,
)
from magicfs.stores.port import Part, PutMode
from magicfs.stores.s3.client import without_retries
from magicfs.stores.s3.requests.line import Engine
from magicfs.stores.s3.store import S3Store
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server

_KEY = "dataset1/day=1/a b%.parquet"
REQUESTS: dict[str, Callable[[S3Store], Coroutine[Any, Any, Any]]] = {
    "AbortMultipartUpload": lambda store: store.abort_upload(_KEY, "upload"),
    "CompleteMultipartUpload": lambda store: store.complete_upload(_KEY, "upload", [Part(1, '"etag"')]),
    "CreateMultipartUpload": lambda store: store.create_upload(_KEY, metadata={}),
    "DeleteObject": lambda store: store.delete_matching(_KEY, '"etag"'),
    "DeleteObjects": lambda store: store.delete([_KEY]),
    "GetObject": lambda store: store.get(_KEY),
    "HeadObject": lambda store: store.head(_KEY),
    "ListMultipartUploads": lambda store: everything(store.list_uploads("dataset1/")),
    "ListObjectsV2": lambda store: everything(store.list("dataset1/")),
    "PutObject": lambda store: store.put(_KEY, b"x"),
    "UploadPart": lambda store: store.put_part(_KEY, "upload", 1, b"x"),
}
"""Every request of the port, by its S3 operation."""
WITHOUT_UPLOAD = sorted(set(REQUESTS) - {"AbortMultipartUpload", "CompleteMultipartUpload", "UploadPart"})


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def proxy(ministack: Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield proxy


@pytest.fixture(params=["own", "aiobotocore"])
def engine(request: pytest.FixtureRequest) -> Engine:
    sender: Engine = request.param
    return sender


@pytest.fixture
def store(ministack: Server, proxy: FaultProxy, bucket: str, engine: Engine) -> S3Store:
    return through(ministack, proxy.endpoint, bucket, engine)


def through(server: Server, endpoint: str, bucket: str, engine: Engine, **config: Any) -> S3Store:
    return opened(
        server.storage_options() | {"endpoint_url": endpoint, "config_kwargs": config}, bucket, engine
    )


def opened(options: dict[str, Any], bucket: str, engine: Engine) -> S3Store:
    filesystem = S3FileSystem(**options, skip_instance_cache=True)
    _kept.append(filesystem)  # its connections end with it
    return S3Store(without_retries(filesystem, options), bucket, engine=engine)


_kept: list[S3FileSystem] = []


@pytest.fixture(autouse=True)
def _filesystems_end() -> Iterator[None]:
    yield
    _kept.clear()


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return sync(get_loop(), lambda: coroutine)


async def everything(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def test_request_with_a_wrong_secret_is_permission_denied(
    seaweedfs: Server, bucket_factory: Callable[..., str], engine: Engine
) -> None:
    bucket = bucket_factory(seaweedfs)
    seaweedfs.s3_client().put_object(Bucket=bucket, Key=_KEY, Body=b"secret")
    store = opened(seaweedfs.storage_options() | {"secret": "not the secret"}, bucket, engine)
    for request in REQUESTS.values():
        with pytest.raises(PermissionDenied, match="credentials") as caught:
            run(request(store))
        assert "not the secret" not in str(caught.value)
    assert seaweedfs.all_keys(bucket) == [_KEY]


def test_request_to_an_unknown_bucket_is_object_not_found(ministack: Server, engine: Engine) -> None:
    store = through(ministack, ministack.endpoint, "no-such-bucket", engine)
    for operation in WITHOUT_UPLOAD:
        with pytest.raises(ObjectNotFound, match="no-such-bucket"):
            run(REQUESTS[operation](store))
    buckets = ministack.s3_client().list_buckets()["Buckets"]
    assert "no-such-bucket" not in [bucket["Name"] for bucket in buckets]


def test_request_whose_connection_breaks_is_unavailable_and_sent_once(
    store: S3Store, proxy: FaultProxy
) -> None:
    run(store.put("before", b"x"))  # the next one goes over its connection
    proxy.add(Rule("PutObject", Action.LOST))
    with pytest.raises(Unavailable, match="endpoint is right and up"):
        run(store.put(_KEY, b"x"))
    assert proxy.counts["PutObject"] == 2


def test_server_that_stays_silent_is_given_up_after_the_read_timeout(
    ministack: Server, proxy: FaultProxy, bucket: str, engine: Engine
) -> None:
    store = through(ministack, proxy.endpoint, bucket, engine, read_timeout=0.5)
    proxy.add(Rule("PutObject", Action.HANG))
    with pytest.raises(Unavailable, match=r"ReadTimeoutError|it was silent"):
        run(store.put(_KEY, b"x"))
    assert proxy.counts["PutObject"] == 1


def test_server_that_is_not_there_is_unavailable(ministack: Server, bucket: str, engine: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = through(ministack, f"http://127.0.0.1:{port}", bucket, engine)
    with pytest.raises(Unavailable, match="endpoint is right and up"):
        run(store.put(_KEY, b"x"))


def test_full_store_says_so_at_once_and_is_not_asked_again(store: S3Store, proxy: FaultProxy) -> None:
    proxy.add(Rule("UploadPart", Action.ERROR, status=507, code="InsufficientStorage"))
    upload_id = run(store.create_upload(_KEY, metadata={}))
    with pytest.raises(StoreError, match="free space on the store") as caught:
        run(store.put_part(_KEY, upload_id, 1, b"x"))
    assert not caught.value.retryable
    assert proxy.counts["UploadPart"] == 1


def test_answer_that_is_cut_in_the_middle_of_a_body_is_unavailable(engine: Engine) -> None:
    half = b"Content-Length: 1000\r\nETag: x\r\n\r\nhalf"
    with answering(half, engine) as store, pytest.raises(Unavailable, match="get of bucket"):
        run(store.get(_KEY))


def test_keys_that_could_not_be_deleted_are_an_error_that_names_the_first(engine: Engine) -> None:
    refused = "".join(
        f"<Error><Key>{key}</Key><Code>AccessDenied</Code><Message>Locked</Message></Error>"
        for key in ("dataset1/a b%", "dataset1/c")
    )
    body = f"<DeleteResult>{refused}</DeleteResult>".encode()
    with (
        answering(b"Content-Length: %d\r\n\r\n%b" % (len(body), body), engine) as store,
        pytest.raises(PermissionDenied, match="bucket/dataset1/a b%: 2 of 3 refused: AccessDenied Locked"),
    ):
        run(store.delete(["gone", "dataset1/a b%", "dataset1/c"]))


def test_missing_keys_that_a_server_reports_as_errors_count_as_deleted(engine: Engine) -> None:
    body = b"<DeleteResult><Error><Key>gone</Key><Code>NoSuchKey</Code></Error></DeleteResult>"
    with answering(b"Content-Length: %d\r\n\r\n%b" % (len(body), body), engine) as store:
        run(store.delete(["gone"]))


@contextmanager
def answering(rest: bytes, engine: Engine) -> Iterator[S3Store]:
    """A store whose server says 200 to the first request, with the given headers and body, and leaves."""

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + rest)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        answered = pool.submit(answer, listener)
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield opened({"key": "key", "secret": "secret", "endpoint_url": endpoint}, "bucket", engine)
        answered.result()


def test_lost_reply_of_a_conditional_put_meets_its_own_object(store: S3Store, proxy: FaultProxy) -> None:
    proxy.add(Rule("PutObject", Action.LOST, times=1))
    for expected in (Unavailable, ObjectExists):
        with pytest.raises(expected):
            run(store.put(_KEY, b"ours", mode=PutMode.CREATE))
    assert run(store.get(_KEY)) == b"ours"


def test_lost_reply_of_a_create_leaves_an_upload_that_only_a_listing_finds(
    store: S3Store, proxy: FaultProxy
) -> None:
    proxy.add(Rule("CreateMultipartUpload", Action.LOST, times=1))
    with pytest.raises(Unavailable):
        run(store.create_upload(_KEY, metadata={}))
    known = run(store.create_upload(_KEY, metadata={}))
    listed = {info.upload_id for info in run(everything(store.list_uploads(_KEY)))}
    assert known in listed
    assert len(listed) == 2


def test_lost_reply_of_a_complete_and_of_an_abort_changes_nothing_when_repeated(
    store: S3Store, proxy: FaultProxy
) -> None:
    kept, gone = (run(store.create_upload(key, metadata={})) for key in ("kept", "gone"))
    part = run(store.put_part("kept", kept, 1, b"x"))
    proxy.add(Rule("CompleteMultipartUpload", Action.LOST, times=1))
    proxy.add(Rule("AbortMultipartUpload", Action.LOST, times=1))
    for request in (
        lambda: store.complete_upload("kept", kept, [part]),
        lambda: store.abort_upload("gone", gone),
    ):
        with pytest.raises(Unavailable):
            run(request())
        run(request())
    assert [info.key for info in run(everything(store.list("")))] == ["kept"]
    assert run(everything(store.list_uploads(""))) == []
