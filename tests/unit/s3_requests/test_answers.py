"""What answers of S3 are taken for: documents, errors, and what is neither."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magicfs.errors import (
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
)
from magicfs.stores.answer_rules import Malformed
from magicfs.stores.port import ObjectInfo, Part
from magicfs.stores.retrying import RETRIES, RetryingStore
from magicfs.stores.s3 import errors as s3_errors
from magicfs.stores.s3.http import Answer
from magicfs.stores.s3.requests import answer
from magicfs.stores.s3.requests.answer import Refused, document_of
from magicfs.stores.s3.store import S3Store
from tests.unit.s3_requests.play import document, error, run, scripted

_PART = Part(1, '"etag"')
_DATE = "Tue, 24 Nov 2026 22:15:04 GMT"


async def _all(items: Any) -> list[Any]:
    return [item async for item in items]


def test_error_in_an_answer_of_200_to_a_complete_or_a_copy_is_an_error() -> None:
    text = "<?xml version='1.0'?>\n<Error><Code>InternalError</Code><Message>again</Message></Error>"
    store, _, _ = scripted(document(f"   \n{text.removeprefix('<?xml version=' + repr('1.0') + '?>')}"))
    with pytest.raises(Unavailable, match="InternalError"):
        run(store.complete_upload("k", "u", [_PART]))
    head = Answer(200, {"content-length": "1", "etag": '"a"'}, b"")
    store, _, _ = scripted(head, document("<Error><Code>NoSuchKey</Code></Error>"))
    with pytest.raises(ObjectNotFound):
        run(store.copy("a", "b"))


@pytest.mark.parametrize(
    "body",
    [
        "<CompleteMultipartUploadResult><ETag>half",
        "no document",
        '<!DOCTYPE a [<!ENTITY b "c">]><CompleteMultipartUploadResult><ETag>&b;</ETag></a>',
        '<?xml version="1.0" encoding="cp037"?><CompleteMultipartUploadResult/>',
        "<C\0ompleteMultipartUploadResult/>",
    ],
)
def test_answer_that_is_no_plain_document_is_unavailable(body: str) -> None:
    store, _, _ = scripted(document(body))
    with pytest.raises(Unavailable, match="no sensible answer"):
        run(store.complete_upload("k", "u", [_PART]))


def test_answer_with_spaces_before_it_is_read_and_one_without_an_etag() -> None:
    root = "CompleteMultipartUploadResult"
    text = f"  \r\n<{root} xmlns='urn:x'><ETag>&quot;a-1&quot;</ETag></{root}>"
    store, _, _ = scripted(document(text), document(f"<{root}/>"))
    assert run(store.complete_upload("k", "u", [_PART])) == ObjectInfo("k", -1, '"a-1"')
    assert run(store.complete_upload("k", "u", [_PART])) == ObjectInfo("k", -1, "")


_PIECES = st.sampled_from(
    [
        *(
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<?xml version='1.0'?>",
            "\n",
            " ",
            "\f",
            "<ETag>",
            "</ETag>",
        ),
        *(
            "<Key>",
            "</Key>",
            "<1>",
            "</1>",
            "&#34;",
            "&quot;",
            "&amp;",
            "&#35;",
            '"',
            "ab-1",
            "é",
            "\x01",
            "]]>",
        ),
        *("<CompleteMultipartUploadResult>", '<CompleteMultipartUploadResult xmlns="urn:x">'),
        *("</CompleteMultipartUploadResult>", "<Error>", "</Error>", "<Code>NoSuchUpload</Code>", "<!-- -->"),
    ]
)
_BEGIN = '<?xml version="1.0" encoding="UTF-8"?>\n<CompleteMultipartUploadResult xmlns="urn:x">'
_END = "</CompleteMultipartUploadResult>"


@given(st.lists(_PIECES, max_size=8).map("".join), st.sampled_from([("", ""), (_BEGIN, _END)]))
@example("<Key>a b</Key><ETag>&#34;ab-1&#34;</ETag>", (_BEGIN, _END))
@example("<ETag>a</ETag>\n<ETag>&quot;b&quot;</ETag>\n", (_BEGIN, f"{_END}\n"))
def test_usual_documents_say_what_the_parser_of_all_documents_reads(
    text: str, around: tuple[str, str]
) -> None:
    class _Other(NamedTuple):
        name: str

    def read(name: str) -> Any:
        try:
            return document_of(_Other(name), text.join(around).encode())  # type: ignore[arg-type]
        except (Refused, Malformed) as error:
            return type(error), str(error)

    with pytest.MonkeyPatch.context() as patch:
        usual = read("CompleteMultipartUpload")
        patch.setattr(answer, "_PLAIN", {})
        assert usual == read("CompleteMultipartUpload")


@pytest.mark.parametrize(
    ("answer", "expected", "code"),
    [
        (error(404, "NoSuchUpload"), UploadNotFound, "NoSuchUpload"),
        (error(403, "SignatureDoesNotMatch"), PermissionDenied, "SignatureDoesNotMatch"),
        (error(409, "ConditionalRequestConflict"), Unavailable, "ConditionalRequestConflict"),
        (error(503, "SlowDown"), Unavailable, "SlowDown"),
        (Answer(429, {}, b""), Unavailable, "429"),
        (Answer(502, {}, b"<html>Bad Gateway</html>"), Unavailable, "502"),
        (Answer(500, {}, b"<Error><Code>half"), Unavailable, "500"),
        (Answer(418, {}, b"{}"), StoreError, "418"),
        (Answer(404, {}, b"<r><Error><Code>NoSuchBucket</Code></Error></r>"), ObjectNotFound, "NoSuchBucket"),
    ],
)
def test_errors_are_those_that_aiobotocore_gives(answer: Answer, expected: type, code: str) -> None:
    store, _, _ = scripted(answer)
    with pytest.raises(expected) as caught:
        run(store.complete_upload("k", "u", [_PART]))
    assert type(caught.value) is expected
    assert s3_errors.code_of(caught.value) == code


def test_errors_do_not_repeat_what_was_signed() -> None:
    quoted = "<StringToSign>AWS4-HMAC secret</StringToSign><AWSAccessKeyId>AKIA</AWSAccessKeyId>"
    store, _, _ = scripted(error(403, "SignatureDoesNotMatch", quoted))
    with pytest.raises(PermissionDenied) as caught:
        run(store.head("k"))
    assert "HMAC" not in f"{caught.value!r} {caught.value.__cause__!r} {vars(caught.value.__cause__)}"


def test_refusal_of_a_small_read_is_read_whole() -> None:
    store, _, _ = scripted(error(404, "NoSuchBucket"))
    with pytest.raises(ObjectNotFound) as caught:
        run(store.get("k", size_max=4))
    assert s3_errors.code_of(caught.value) == "NoSuchBucket"


def test_body_that_is_not_what_its_checksum_says_is_unavailable() -> None:
    told = {"content-length": "4", "etag": '"e"', "x-amz-checksum-crc32": "AAAAAA=="}
    store, line, _ = scripted(*[Answer(200, told, b"body")] * 2)
    with pytest.raises(Unavailable, match="checksum"):
        run(store.get("k"))
    line.asks_sums = False
    assert run(store.get("k")) == b"body"
    parts = {**told, "x-amz-checksum-crc32": "AAAAAA==-3"}
    store, _, script = scripted(Answer(200, parts, b"body"))
    assert run(store.get("k")) == b"body"
    assert script.asked[0].headers["x-amz-checksum-mode"] == "ENABLED"


def test_headers_that_say_nothing_are_an_error_but_for_what_users_write() -> None:
    fine = {"content-length": "1", "etag": '"e"', "last-modified": _DATE, "x-amz-meta-A": "b"}
    store, _, _ = scripted(
        Answer(200, {**fine, "expires": "never"}, b""),
        Answer(200, {**fine, "content-length": "many"}, b""),
        Answer(200, {**fine, "last-modified": "yesterday"}, b""),
    )
    info = run(store.head("k"))
    assert (info.size, info.etag, info.modified, info.metadata) == (1, '"e"', 1795558504.0, {"a": "b"})
    assert "Expires" not in info.description
    for _ in range(2):
        with pytest.raises(Unavailable, match="the answer's"):
            run(store.head("k"))


def test_listing_is_read_with_and_without_encoded_keys() -> None:
    entry = (
        "<Contents><Key>{}</Key><Size>3</Size><ETag>&quot;e&quot;</ETag>"
        "<LastModified>2026-11-24T22:15:04.000Z</LastModified></Contents>"
    )
    first = (
        f"<EncodingType>url</EncodingType>{entry.format('p%2Fa+b%2F%C3%BC')}<IsTruncated>true</IsTruncated>"
    )
    first += "<NextContinuationToken>t/+</NextContinuationToken>"
    second = f"{entry.format('p/c+d%2F')}<IsTruncated>false</IsTruncated>"
    pages = [f"<ListBucketResult>{page}</ListBucketResult>" for page in (first, second)]
    store, _, script = scripted(*map(document, pages))
    assert run(_all(store.list("p/"))) == [
        ObjectInfo("p/a b/ü", 3, '"e"', 1795558504.0),
        ObjectInfo("p/c+d%2F", 3, '"e"', 1795558504.0),
    ]
    assert [asked.target.partition("?")[2] for asked in script.asked] == [
        "list-type=2&prefix=p%2F&encoding-type=url",
        "list-type=2&prefix=p%2F&continuation-token=t%2F%2B&encoding-type=url",
    ]
    store, _, _ = scripted(document("<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"))
    with pytest.raises(Unavailable, match="size"):
        run(_all(store.list("p/")))


@pytest.mark.parametrize("name", ["a\nb: c", "a\r", "\0"])
def test_what_would_break_a_header_is_refused_before_anything_is_sent(name: str) -> None:
    store, _, script = scripted()
    for request in (
        lambda: store.put("k", b"", metadata={"name": name}),
        lambda: store.put("k", b"", metadata={name: "value"}),
        lambda: store.create_upload("k", metadata={}, options={"ContentType": name}),
        lambda: store.create_upload("k", metadata={}, options={"ContentType": 5}),
        lambda: store.put("k", b"", metadata={"name": "ü"}),
        lambda: store.head(""),
        lambda: store.delete([""]),
    ):
        with pytest.raises(StoreError, match="cannot be made"):
            run(request())
    assert script.asked == []


def _listed(key: str = "p/a", size: str = "1", more: str = "") -> str:
    return f"<Contents><Key>{key}</Key><Size>{size}</Size>{more}</Contents>"


def _modified(text: str) -> str:
    return _listed(more=f"<LastModified>{text}</LastModified>")


@pytest.mark.parametrize(
    "body", ["", "<html/>", "<ListAllMyBucketsResult/>", "<html xmlns='x'><body/></html>"]
)
def test_document_of_something_else_is_no_empty_listing(body: str) -> None:
    store, _, _ = scripted(document(body))
    with pytest.raises(Unavailable, match="no sensible answer"):
        run(_all(store.list("p/")))


@pytest.mark.parametrize(
    "members",
    [
        "<IsTruncated>true</IsTruncated>",
        "<Contents><Size>1</Size></Contents>",
        *(_listed(size=size) for size in ("-5", "1_000", "\uff11", "9" * 5000)),
        _listed() + _listed("other/secret"),
        _modified("9999-12-31T23:59:59-23:59"),
        _modified("Mon, 01 Jan 2024 00:00:00 +99999999999999999999999"),
    ],
)
def test_listing_that_is_none_is_unavailable_and_asked_for_again(members: str) -> None:
    wrong, right = (f"<ListBucketResult>{one}</ListBucketResult>" for one in (members, _listed()))
    store, _, script = scripted(document(wrong), document(right))
    quick = {name: replace(row, first_s=0.0) for name, row in RETRIES.items()}
    assert [info.key for info in run(_all(RetryingStore(store, retries=quick).list("p/")))] == ["p/a"]
    assert len(script.asked) == 2
    store, _, _ = scripted(document(wrong))
    with pytest.raises(Unavailable, match="no sensible answer"):
        run(_all(store.list("p/")))


def test_what_every_answer_has_is_missed() -> None:
    uploads = "<ListMultipartUploadsResult><Upload/></ListMultipartUploadsResult>"
    opened = "<InitiateMultipartUploadResult/>"
    asked: list[tuple[Answer, Any]] = [
        (document(uploads), lambda store: _all(store.list_uploads("p/"))),
        (document(opened), lambda store: store.create_upload("k", metadata={})),
        (document("<html/>"), lambda store: store.create_upload("k", metadata={})),
        (document(""), lambda store: store.complete_upload("k", "u", [_PART])),
        (document("<html/>"), lambda store: store.delete(["k"])),
        (document("<html/>"), lambda store: store.delete_matching("k", "e")),
        (document(""), lambda store: store.put("k", b"")),
        (document(""), lambda store: store.put_part("k", "u", 1, b"")),
        (document(""), lambda store: store.head("k")),
        (document("record"), lambda store: store.get("k")),
        (Answer(200, {"etag": "e"}, b"record"), lambda store: store.get("k")),
        (
            Answer(206, {"etag": "e", "content-length": "1", "content-range": "bytes 0-0/9"}, b"r"),
            lambda store: store.get_range("k", 4, 1, etag="e"),
        ),
    ]
    for told, ask in asked:
        store, _, _ = scripted(told)
        with pytest.raises(Unavailable):
            run(ask(store))


def test_words_of_the_endpoint_are_printable_and_cut() -> None:
    body = f"<Error><Code>AccessDenied\u202e</Code><Message>line\nrun \x9b31m {'y' * 9000}</Message></Error>"
    store, _, _ = scripted(Answer(400, {}, body.encode()))
    with pytest.raises(StoreError) as caught:
        run(store.put("k", b""))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700
    refused = f"<Error><Key>k</Key><Code>A\x85</Code><Message>{'y' * 9000}</Message></Error>"
    store, _, _ = scripted(document(f"<DeleteResult>{refused}</DeleteResult>"))
    with pytest.raises(StoreError, match="1 of 1 refused") as caught:
        run(store.delete(["k"]))
    assert len(str(caught.value)) < 700


def test_keys_that_nobody_asked_to_delete_are_not_returned() -> None:
    refused = "<DeleteResult><Error><Key>other</Key><Code>PreconditionFailed</Code></Error></DeleteResult>"
    store, _, _ = scripted(document(refused))
    with pytest.raises(PreconditionFailed, match="bucket/other"):
        run(store.delete_all_matching([("k", "e")]))


@pytest.mark.parametrize("markers", [("KeyMarker",), ("UploadIdMarker",), ("KeyMarker", "UploadIdMarker")])
def test_a_listing_of_uploads_goes_on_by_what_the_server_names(markers: tuple[str, ...]) -> None:
    """SeaweedFS names the upload alone where its page of 10,000 ends, directory buckets the key alone."""
    asked = []

    class Paged(S3Store):
        def __init__(self) -> None:
            self.bucket = "bucket"

        async def call(self, *_about: Any, **given: Any) -> Any:
            asked.append({name: given[name] for name in given if name != "Prefix"})
            upload = {"Key": f"k{len(asked)}", "UploadId": f"u{len(asked)}", "Initiator": {"ID": "me"}}
            if len(asked) == 3:
                return {"Uploads": [upload], "IsTruncated": False}
            named = {f"Next{name}": f"{name}-{len(asked)}" for name in markers}
            return {"Uploads": [upload], "IsTruncated": True, **named}

    found = asyncio.run(_all(Paged().list_uploads("")))
    assert [(one.key, one.upload_id, one.initiator) for one in found] == [
        *(("k1", "u1", "me"), ("k2", "u2", "me"), ("k3", "u3", "me"))
    ]
    assert asked == [{}, *({name: f"{name}-{number}" for name in markers} for number in (1, 2))]
