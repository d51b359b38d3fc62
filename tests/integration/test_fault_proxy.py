from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError, HTTPClientError

from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, RequestSeen, Rule
from proofs.doubles.servers import Ministack, Server

pytestmark = pytest.mark.sample(most=1)

MiB = 1024 * 1024
# No machine stalls for longer, and the tests' time limit is longer still.
STALL_S = 20.0
COMPLETE = "CompleteMultipartUpload"
HOSTILE_KEYS = [
    "with space/and  two",
    "plus+plus/a+b",
    "percent%/100%25/%2F",
    "hash#/x#y",
    "query?/x?uploads=1&uploadId=2",
    "ünï/żółw/☃/😀",
    "~!$&'()*,;=:@",
    'quotes"<>[]{}|^`',
    "p=2024-01-01 00%3A00%3A00/part-0",
    "a/..b/.../c..",
]

MakeBucket = Callable[..., str]


@pytest.fixture
def proxy(ministack: Server) -> Iterator[FaultProxy]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket(ministack: Server, bucket_factory: MakeBucket) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def client(ministack: Server, proxy: FaultProxy) -> Any:
    return ministack.s3_client(endpoint=proxy.endpoint, attempts=1)


class Upload:
    """One open upload with one part."""

    def __init__(self, client: Any, bucket: str, key: str = "k") -> None:
        self.client = client
        self.address = {"Bucket": bucket, "Key": key}
        self.address["UploadId"] = client.create_multipart_upload(**self.address)["UploadId"]
        answer = client.upload_part(**self.address, PartNumber=1, Body=b"data")
        self.parts = {"Parts": [{"PartNumber": 1, "ETag": answer["ETag"]}]}

    def complete(self, client: Any = None) -> Any:
        return (client or self.client).complete_multipart_upload(**self.address, MultipartUpload=self.parts)


def test_requests_are_counted_and_passed_on(
    proxy: FaultProxy, client: Any, bucket: str, ministack: Server
) -> None:
    upload = Upload(client, bucket, "a b/c+d")
    upload.complete()
    client.get_object(Bucket=bucket, Key="a b/c+d")["Body"].read()

    assert ministack.all_keys(bucket) == ["a b/c+d"]
    assert proxy.counts == Counter({"CreateMultipartUpload": 1, "UploadPart": 1, COMPLETE: 1, "GetObject": 1})
    assert [seen.operation for seen in proxy.requests] == list(proxy.counts)
    assert proxy.requests[-1] == RequestSeen("GetObject", "GET", f"/{bucket}/a%20b/c%2Bd", "", 200, None)
    proxy.clear()
    assert proxy.counts == Counter()
    assert proxy.requests == []


def test_counts_are_exact_under_concurrency(proxy: FaultProxy, ministack: Server, bucket: str) -> None:
    client = ministack.s3_client(endpoint=proxy.endpoint, attempts=1)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: client.put_object(Bucket=bucket, Key=f"{i}", Body=b"x"), range(200)))
    assert proxy.counts == Counter({"PutObject": 200})
    assert len(proxy.requests) == 200
    assert len(ministack.all_keys(bucket)) == 200


def test_most_requests_at_work_at_once_are_told_by_operation(
    proxy: FaultProxy, ministack: Server, bucket: str
) -> None:
    client = ministack.s3_client(endpoint=proxy.endpoint, attempts=1)
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert proxy.peaks == Counter({"PutObject": 1})
    proxy.add(Rule("HeadObject", Action.HANG))
    waiting = [HTTPConnection(*connection_to(proxy), timeout=STALL_S) for _ in range(3)]
    for number, connection in enumerate(waiting, start=1):
        connection.request("HEAD", f"/{bucket}/k")
        while proxy.counts["HeadObject"] < number:
            time.sleep(0.01)
    assert proxy.peaks == Counter({"PutObject": 1, "HeadObject": 3})
    proxy.clear()
    assert proxy.peaks == Counter()
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert proxy.peaks == Counter({"PutObject": 1})
    for connection in waiting:
        connection.close()


def test_error_is_answered_and_nothing_happens(
    proxy: FaultProxy, client: Any, bucket: str, ministack: Server
) -> None:
    upload = Upload(client, bucket)
    proxy.add(Rule(COMPLETE, Action.ERROR, status=409, code="ConditionalRequestConflict"))
    with pytest.raises(ClientError) as refused:
        upload.complete()
    assert refused.value.response["Error"]["Code"] == "ConditionalRequestConflict"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 409
    assert ministack.all_keys(bucket) == []
    assert len(ministack.pending_uploads(bucket)) == 1
    assert proxy.requests[-1].action is Action.ERROR
    assert proxy.requests[-1].status == 409


def test_an_error_to_head_has_no_body(proxy: FaultProxy, client: Any, bucket: str) -> None:
    proxy.add(Rule("HeadObject", Action.ERROR, status=503, code="SlowDown", times=1))
    client.put_object(Bucket=bucket, Key="k", Body=b"12345")
    with pytest.raises(ClientError, match="503"):
        client.head_object(Bucket=bucket, Key="k")
    assert client.head_object(Bucket=bucket, Key="k")["ContentLength"] == 5


def test_lost_takes_effect_and_says_nothing(
    proxy: FaultProxy, client: Any, bucket: str, ministack: Server
) -> None:
    upload = Upload(client, bucket)
    proxy.add(Rule(COMPLETE, Action.LOST, times=1))
    with pytest.raises(HTTPClientError):
        upload.complete()
    assert ministack.all_keys(bucket) == ["k"]
    assert proxy.requests[-1].status is None
    assert proxy.requests[-1].action is Action.LOST

    upload.complete()  # ministack remembers, and says yes again
    assert proxy.counts[COMPLETE] == 2


def test_reset_does_nothing_and_says_nothing(
    proxy: FaultProxy, client: Any, bucket: str, ministack: Server
) -> None:
    proxy.add(Rule("PutObject", Action.RESET, times=1))
    with pytest.raises(HTTPClientError):
        client.put_object(Bucket=bucket, Key="k", Body=b"x" * 3 * MiB)
    assert ministack.all_keys(bucket) == []
    client.put_object(Bucket=bucket, Key="k", Body=b"x" * 3 * MiB)
    assert ministack.all_keys(bucket) == ["k"]


def test_error_in_200_is_an_error(proxy: FaultProxy, client: Any, bucket: str, ministack: Server) -> None:
    upload = Upload(client, bucket)
    proxy.add(Rule(COMPLETE, Action.ERROR_IN_200, times=1))
    with pytest.raises(ClientError, match="InternalError"):
        upload.complete()
    assert ministack.all_keys(bucket) == []
    assert proxy.requests[-1].status == 200
    upload.complete()
    assert ministack.all_keys(bucket) == ["k"]


def test_delay_only_delays(proxy: FaultProxy, client: Any, bucket: str, ministack: Server) -> None:
    proxy.add(Rule("PutObject", Action.DELAY, seconds=0.3, times=1))
    begin = time.monotonic()
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert 0.3 <= time.monotonic() - begin < STALL_S
    assert ministack.all_keys(bucket) == ["k"]
    with pytest.raises(ValueError, match="HANG"):
        Rule("PutObject", Action.DELAY)


def test_hang_ends_in_a_cut(proxy: FaultProxy, client: Any, bucket: str, ministack: Server) -> None:
    proxy.add(Rule("PutObject", Action.HANG, seconds=0.3))
    begin = time.monotonic()
    with pytest.raises(HTTPClientError):
        client.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert 0.3 <= time.monotonic() - begin < STALL_S
    assert ministack.all_keys(bucket) == []


def test_rules_skip_match_and_end(proxy: FaultProxy, client: Any, bucket: str) -> None:
    proxy.add(Rule("PutObject", Action.ERROR, match=r"/bad-", skip=1, times=2))
    proxy.add(Rule("*", Action.ERROR, match=r"/bad-3$", status=503, code="SlowDown", times=1))
    answers = []
    for key in ("good", "bad-1", "bad-2", "bad-3", "bad-3", "bad-3"):
        try:
            answers.append(client.put_object(Bucket=bucket, Key=key)["ResponseMetadata"]["HTTPStatusCode"])
        except ClientError as error:
            answers.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
    assert answers == [200, 200, 500, 500, 503, 200]


def roundtrip(client: Any, bucket: str, key: str, body: bytes) -> None:
    client.put_object(Bucket=bucket, Key=key, Body=body, Metadata={"write-id": "a, b; c"})
    head = client.head_object(Bucket=bucket, Key=key)
    assert head["ContentLength"] == len(body)
    assert head["Metadata"] == {"write-id": "a, b; c"}
    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    assert client.list_objects_v2(Bucket=bucket, Prefix=key)["Contents"][0]["Key"] == key
    client.delete_object(Bucket=bucket, Key=key)


@pytest.mark.parametrize("name", ["seaweedfs", "ministack"])
def test_signatures_survive_hostile_keys(
    name: str, server: Callable[[str], Server], bucket_factory: MakeBucket
) -> None:
    store = server(name)
    bucket = bucket_factory(store)
    with FaultProxy(store.endpoint) as proxy:
        client = store.s3_client(endpoint=proxy.endpoint, attempts=1)
        for key in HOSTILE_KEYS:
            roundtrip(client, bucket, key, b"body of " + key.encode())
            upload = Upload(client, bucket, key)
            assert [u["Key"] for u in store.pending_uploads(bucket)] == [key]
            upload.complete()
            assert store.all_keys(bucket) == [key]
            client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})
        assert store.all_keys(bucket) == []
        expected = dict.fromkeys(
            [
                *("PutObject", "HeadObject", "GetObject", "ListObjectsV2", "DeleteObject", "DeleteObjects"),
                *("CreateMultipartUpload", "UploadPart", COMPLETE),
            ],
            len(HOSTILE_KEYS),
        )
        assert proxy.counts == Counter(expected)
        if store.checks_credentials:
            with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
                store.s3_client(endpoint=proxy.endpoint, secret_key="wrong").list_buckets()


@pytest.mark.parametrize("name", ["seaweedfs", "ministack", "moto"])
def test_bodies_pass_unchanged(
    name: str, server: Callable[[str], Server], bucket_factory: MakeBucket
) -> None:
    store = server(name)
    bucket = bucket_factory(store)
    with FaultProxy(store.endpoint) as proxy:
        client = store.s3_client(endpoint=proxy.endpoint, attempts=1)
        roundtrip(client, bucket, "empty", b"")
        roundtrip(client, bucket, "big", os.urandom(12 * MiB))
        client.put_object(Bucket=bucket, Key="packed", Body=b"\x1f\x8b not gzip", ContentEncoding="gzip")
        found = client.get_object(Bucket=bucket, Key="packed")
        assert found["Body"].read() == b"\x1f\x8b not gzip"
        assert found["ContentEncoding"] == "gzip"
        client.put_object(Bucket=bucket, Key="range", Body=b"0123456789")
        part = client.get_object(Bucket=bucket, Key="range", Range="bytes=2-4")
        assert part["Body"].read() == b"234"
        assert part["ContentRange"] == "bytes 2-4/10"


def connection_to(proxy: FaultProxy) -> tuple[str, int]:
    url = urlsplit(proxy.endpoint)
    assert url.hostname is not None
    assert url.port is not None
    return url.hostname, url.port


def test_host_path_and_query_are_passed_on_as_they_came() -> None:
    line = "PUT //b//%7e%7E/+%20/a%2fb?x=%2B+&uploads&y HTTP/1.1"
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        upstream.settimeout(STALL_S)
        port = upstream.getsockname()[1]
        with (
            FaultProxy(f"http://127.0.0.1:{port}") as proxy,
            socket.create_connection(connection_to(proxy), timeout=STALL_S) as client,
        ):
            client.sendall(
                f"{line}\r\nHost: Some.Host:123\r\nX-A:  b  c \r\nContent-Length: 2\r\n\r\nhi".encode()
            )
            accepted, _ = upstream.accept()
            with accepted:
                received = b""
                while not received.endswith(b"\r\n\r\nhi"):
                    received += accepted.recv(65536)
                accepted.sendall(b'HTTP/1.1 204 Fine\r\nETag: "x"\r\n\r\n')
            assert client.recv(65536).startswith(b'HTTP/1.1 204 Fine\r\nETag: "x"\r\n')
        lines = received.decode().split("\r\n")
        assert lines[0] == line
        assert {"Host: Some.Host:123", "X-A: b  c", "Content-Length: 2"} <= set(lines)
        assert not any(header.startswith(("Accept", "User-Agent", "Content-Type")) for header in lines)


def test_a_client_that_waits_for_100_continue_gets_it(proxy: FaultProxy, bucket: str) -> None:
    with socket.create_connection(connection_to(proxy), timeout=STALL_S) as connection:
        headers = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        connection.sendall(f"PUT /{bucket}/k HTTP/1.1\r\n{headers}".encode())
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_goes_away_disturbs_nobody(
    proxy: FaultProxy, client: Any, bucket: str, ministack: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(connection_to(proxy), timeout=STALL_S) as connection:
        connection.sendall(f"PUT /{bucket}/half HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc".encode())
    client.put_object(Bucket=bucket, Key="big", Body=b"x" * 20 * MiB)
    with socket.create_connection(connection_to(proxy), timeout=STALL_S) as connection:
        connection.sendall(f"GET /{bucket}/big HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert connection.recv(100)
    client.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert ministack.all_keys(bucket) == ["big", "k"]
    assert caplog.records == []


def test_a_dead_server_looks_dead() -> None:
    with Ministack() as store, FaultProxy(store.endpoint) as proxy:
        client = store.s3_client(endpoint=proxy.endpoint, attempts=1)
        client.list_buckets()
        store.kill()
        with pytest.raises(HTTPClientError):
            client.list_buckets()
        assert [seen.status for seen in proxy.requests] == [200, None]
        store.restart()
        client.list_buckets()


def open_sockets() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed since, as the directory's own is
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


def test_nothing_is_left_after_leaving(ministack: Server, bucket: str) -> None:
    def resources() -> set[object]:
        # By name, not by number: sockets of earlier tests may be closed in the meantime.
        return {*threading.enumerate(), *open_sockets()}

    before = resources()
    with FaultProxy(ministack.endpoint) as proxy:
        address = connection_to(proxy)
        proxy.add(Rule("GetObject", Action.HANG))
        hung = HTTPConnection(*address, timeout=STALL_S)
        hung.request("GET", f"/{bucket}/k")
        idle = HTTPConnection(*address, timeout=STALL_S)
        idle.request("GET", f"/{bucket}")
        idle.getresponse().read()
        begin = time.monotonic()
    assert time.monotonic() - begin < STALL_S, "it waited for the request that hangs"
    with pytest.raises(ConnectionError):
        hung.getresponse()
    hung.close()
    idle.close()
    assert not resources() - before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=1).close()


def test_a_proxy_that_is_not_running_says_so() -> None:
    with pytest.raises(RuntimeError, match="with statement"):
        _ = FaultProxy("http://127.0.0.1:9").endpoint


def test_copies_are_told_from_puts(proxy: FaultProxy, client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="a", Body=b"x")
    client.copy_object(Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"})
    assert proxy.counts == Counter({"PutObject": 1, "CopyObject": 1})
