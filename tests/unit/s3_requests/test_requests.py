"""Our requests are those of aiobotocore: the same way, headers and body, whatever is asked and of whom."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from s3fs import S3FileSystem

import magicfs
from magicfs.stores.answer_rules import Malformed
from magicfs.stores.s3.client import ask_client
from magicfs.stores.s3.http import Address, Answer
from magicfs.stores.s3.requests import line as lines
from magicfs.stores.s3.requests.line import Line
from magicfs.stores.s3.requests.own import OwnRequests
from tests.sample import examples

EXAMPLES = examples(40)
"""For each kind of filesystem."""

BUCKET = "some-bucket"
_SSE_C = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"0123456789abcdef0123456789abcdef"}
_SETTINGS = {
    "ServerSideEncryption": "aws:kms",
    "SSEKMSKeyId": "arn:aws:kms:eu-west-1:1:key/ü",
    "BucketKeyEnabled": True,
    "ACL": "bucket-owner-full-control",
    "Tagging": "a=b&c=d e",
    "StorageClass": "STANDARD_IA",
    "ExpectedBucketOwner": "111122223333",
    "Metadata": {"team": "a b"},
}
FILESYSTEMS: Mapping[str, dict[str, Any]] = {
    "path": {"endpoint_url": "http://127.0.0.1:8333"},
    "IPv6": {"endpoint_url": "http://[::1]:9000", "token": "session/token=="},
    "a path of the endpoint": {"endpoint_url": "https://gateway.example/s3/"},
    "AWS": {"client_kwargs": {"region_name": "eu-central-1"}},
    "AWS, plain": {"client_kwargs": {"region_name": "us-east-1"}, "use_ssl": False},
    "AWS, path": {
        "client_kwargs": {"region_name": "us-west-2"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    },
    "dual stack": {
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {"s3": {"use_dualstack_endpoint": True, "payload_signing_enabled": True}},
    },
    "accelerated": {
        "client_kwargs": {"region_name": "eu-west-1"},
        "config_kwargs": {"s3": {"use_accelerate_endpoint": True, "payload_signing_enabled": False}},
    },
    "checksums where required": {
        "client_kwargs": {"region_name": "cn-north-1"},
        "config_kwargs": {
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        },
    },
    "settings": {
        "endpoint_url": "http://store:1",
        "s3_additional_kwargs": {**_SETTINGS, "ChecksumAlgorithm": "SHA256"},
    },
    "customer's key": {"endpoint_url": "https://store:8443", "s3_additional_kwargs": _SSE_C},
    "anonymous": {"endpoint_url": "http://store:1", "anon": True},
}

_KEY = st.lists(
    st.sampled_from([*"aB9 /+%#?&=~.-_*:@'()<>\"\\\n\r\t", "..", "//", "ü", "🦊", "%2F"]), max_size=8
)
_KEYS = _KEY.map("".join).filter(bool)
_BODIES = st.sampled_from([b"", b"a", b"content " * 50])
_UPLOADS = st.sampled_from(["2~abc", "a/b+c=="])
_ETAGS = st.sampled_from(['"d41d8cd98f00b204e9800998ecf8427e"', '"a-2"'])
_METADATA = st.dictionaries(st.sampled_from(["a", "B-c", "x"]), st.sampled_from(["", "1", " a  b ", "=,;"]))
_WHEN = st.sampled_from([dt.datetime(2031, 2, 3, 4, 5, 6, tzinfo=dt.UTC), "2030-01-01", 1_900_000_000])
_PART = st.builds(lambda number, etag: {"PartNumber": number, "ETag": etag}, st.integers(1, 10_000), _ETAGS)
_OBJECT = st.one_of(
    st.builds(lambda key: {"Key": key}, _KEYS),
    st.builds(lambda key, etag: {"Key": key, "ETag": etag}, _KEYS, _ETAGS),
)
_OBJECTS = st.lists(_OBJECT, min_size=1, max_size=3)


def _of(**arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(arguments)


_ASKED = st.one_of(
    st.tuples(st.just("create_multipart_upload"), _of(Key=_KEYS, Metadata=_METADATA)),
    st.tuples(
        st.just("create_multipart_upload"),
        _of(Key=_KEYS, Metadata=_METADATA, ContentType=st.just("text/ü"), CacheControl=st.just("no-cache"))
        .flatmap(lambda some: _WHEN.map(lambda when: some | {"Expires": when}))
        .flatmap(lambda some: _WHEN.map(lambda when: some | {"ObjectLockRetainUntilDate": when})),
    ),
    st.tuples(
        st.just("upload_part"), _of(Key=_KEYS, UploadId=_UPLOADS, PartNumber=st.integers(1, 9), Body=_BODIES)
    ),
    st.tuples(
        st.just("complete_multipart_upload"),
        _of(Key=_KEYS, UploadId=_UPLOADS, MultipartUpload=_of(Parts=st.lists(_PART, min_size=1, max_size=3))),
    ),
    st.tuples(
        st.just("complete_multipart_upload"),
        _of(
            Key=_KEYS,
            UploadId=_UPLOADS,
            MultipartUpload=_of(
                Parts=st.lists(_PART.map(lambda part: part | {"ChecksumSHA256": "a+/="}), min_size=1)
            ),
            IfNoneMatch=st.just("*"),
        ),
    ),
    st.tuples(st.just("abort_multipart_upload"), _of(Key=_KEYS, UploadId=_UPLOADS)),
    st.tuples(st.just("list_multipart_uploads"), _of(Prefix=_KEYS)),
    st.tuples(st.just("list_multipart_uploads"), _of(Prefix=_KEYS, KeyMarker=_KEYS, UploadIdMarker=_UPLOADS)),
    st.tuples(st.just("put_object"), _of(Key=_KEYS, Body=_BODIES, Metadata=_METADATA)),
    st.tuples(
        st.just("put_object"), _of(Key=_KEYS, Body=_BODIES, Metadata=_METADATA, IfNoneMatch=st.just("*"))
    ),
    st.tuples(st.just("put_object"), _of(Key=_KEYS, Body=_BODIES, Metadata=_METADATA, IfMatch=_ETAGS)),
    st.tuples(st.just("get_object"), _of(Key=_KEYS)),
    st.tuples(st.just("get_object"), _of(Key=_KEYS, Range=st.just("bytes=0-5"), IfMatch=_ETAGS)),
    st.tuples(st.just("head_object"), _of(Key=_KEYS)),
    st.tuples(
        st.just("copy_object"),
        _of(Key=_KEYS, CopySource=_of(Bucket=st.just(BUCKET), Key=_KEYS), CopySourceIfMatch=_ETAGS),
    ),
    st.tuples(
        st.just("upload_part_copy"),
        _of(
            Key=_KEYS,
            CopySource=_of(Bucket=st.just(BUCKET), Key=_KEYS),
            CopySourceIfMatch=_ETAGS,
            CopySourceRange=st.just("bytes=0-9"),
            UploadId=_UPLOADS,
            PartNumber=st.integers(1, 9),
            CopySourceSSECustomerAlgorithm=st.just("AES256"),
            CopySourceSSECustomerKey=st.just(b"0" * 32),
        ),
    ),
    st.tuples(st.just("list_objects_v2"), _of(Prefix=_KEYS)),
    st.tuples(
        st.just("list_objects_v2"), _of(Prefix=_KEYS, MaxKeys=st.integers(1, 9), Delimiter=st.just("/"))
    ),
    st.tuples(st.just("list_objects_v2"), _of(Prefix=_KEYS, ContinuationToken=_KEYS)),
    st.tuples(st.just("delete_object"), _of(Key=_KEYS, IfMatch=_ETAGS)),
    st.tuples(st.just("delete_objects"), _of(Delete=_OBJECTS.map(lambda o: {"Objects": o, "Quiet": True}))),
)


class Sent(Exception):
    """What a client was about to send."""


class Recorder:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.asked: tuple[Address, str, str, dict[str, str], bytes] | None = None

    async def ask(
        self, address: Address, method: str, target: str, headers: Any, body: Any = b"", **_: Any
    ) -> Answer:
        assert len({name.lower() for name, _ in headers}) == len(headers), "a header is given twice"
        self.asked = address, method, target, {n.lower(): v for n, v in headers}, bytes(body)
        return Answer(200, {}, b"")


class Pair:
    """The same requests by a client of aiobotocore and by ours, none of them sent."""

    def __init__(self, options: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        keys = {} if options.get("anon") else {"key": "AKIA", "secret": "geheim"}
        whole = {"asynchronous": True, "skip_instance_cache": True, **keys, **options}
        self.filesystem = S3FileSystem(**whole)
        self.recorder = Recorder()
        self.client, self.own = loop.run_until_complete(self._made(S3FileSystem(**whole)))

    async def _made(self, other: S3FileSystem) -> tuple[Any, OwnRequests]:
        client = await self.filesystem.set_session()
        client.meta.events.register("before-send.s3", _stop)
        other._s3 = await other.set_session()
        line = await lines.line_to(other, other._s3, BUCKET, "own")
        assert isinstance(line, Line)
        line.transport = self.recorder
        extra = {**other.s3_additional_kwargs, **other.req_kw}
        self.other = other
        return client, OwnRequests(line, BUCKET, extra)

    def asked_by_aiobotocore(self, method: str, made: dict[str, Any], arguments: dict[str, Any]) -> Any:
        given = {"Bucket": BUCKET, **arguments}
        with pytest.raises(Sent) as stopped:
            self.loop.run_until_complete(ask_client(self.filesystem, self.client, method, made, given))
        return stopped.value.args[0]

    def asked_by_us(self, method: str, made: dict[str, Any], arguments: dict[str, Any]) -> Any:
        with contextlib.suppress(Malformed):  # nothing answers
            self.loop.run_until_complete(self.own.ask(method, made, dict(arguments)))
        return self.recorder.asked

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.run_until_complete(self.other._s3.close())


def _stop(request: Any, **_: Any) -> None:
    raise Sent(request)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module", params=FILESYSTEMS)
def pair(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> Iterator[Pair]:
    made = Pair(FILESYSTEMS[request.param], loop)
    yield made
    made.close()


# What only a client that repeats requests, or asks before it sends, has to say.
_THEIRS = {"amz-sdk-invocation-id", "amz-sdk-request", "expect"}
_OF_THE_MOMENT = {"authorization", "x-amz-date"}
_OURS = {"host", "accept-encoding", "content-length"}


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(asked=_ASKED)
def test_requests_are_those_of_aiobotocore(pair: Pair, asked: tuple[str, dict[str, Any]]) -> None:
    method, arguments = asked
    # What the store adds to its requests, as S3Store does.
    made = {n: v for n, v in pair.filesystem.s3_additional_kwargs.items() if n in _SETTINGS | _SSE_C}

    theirs = pair.asked_by_aiobotocore(method, made, arguments)
    address, verb, target, headers, body = pair.asked_by_us(method, made, arguments)

    url = urlsplit(theirs.url)
    assert (address.scheme, address.host) == (url.scheme, url.hostname)
    assert address.port == (url.port or {"http": 80, "https": 443}[url.scheme])
    assert verb == theirs.method
    path, _, query = target.partition("?")
    assert path == url.path
    assert sorted(query.split("&")) == sorted(url.query.split("&"))
    expected = {
        name.lower(): value.decode() if isinstance(value, bytes) else value
        for name, value in theirs.headers.items()
        if name.lower() not in _THEIRS
    }
    # As botocore wrote it once.
    expected = {name: "true" if value == "True" else value for name, value in expected.items()}
    sent = theirs.body
    if expected.pop("transfer-encoding", None) == "chunked":
        # Of a body that is streamed, botocore sends the checksum behind it; we know it before.
        assert expected.pop("content-encoding") == "aws-chunked"
        named = expected.pop("x-amz-trailer")
        assert int(expected.pop("x-amz-decoded-content-length")) == len(body)
        assert expected.pop("x-amz-content-sha256", "") in {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", ""}
        headers.pop("x-amz-content-sha256", None)
        assert headers.pop(named)
        sent = arguments["Body"]
    elif hasattr(sent, "read"):
        sent = sent.read()
    assert int(headers.get("content-length", 0)) == len(body) == len(sent or b"")
    assert body == (sent or b"")
    for name in _OF_THE_MOMENT:
        assert (name in expected) == (name in headers)
    # Within, botocore lists what of its own code a request went through.
    name = headers.pop("user-agent").removesuffix(f" magicfs/{magicfs.__version__}").partition(" m/")[0]
    assert name == expected.pop("user-agent").partition(" m/")[0]
    gone = _OF_THE_MOMENT | _OURS
    ours = {name: value for name, value in headers.items() if name not in gone}
    assert ours == {name: value for name, value in expected.items() if name not in gone}
