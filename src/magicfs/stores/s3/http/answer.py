"""An answer, and how it is read from the bytes of a connection."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from magicfs.stores.answer_rules import ERROR_BYTES_MAX

HEAD_BYTES_MAX = 64 * 1024
"""Most bytes of a status line and headers, and of anything else that comes without a byte of the body."""

_TOO_LONG = f"the answer has more than {HEAD_BYTES_MAX} bytes of headers"
_NAMES: dict[bytes, str] = {}
_NAMES_MAX = 1000
_NAME_BYTES_MAX = 64


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case; the values of repeated ones are joined by ", "
    body: bytes


class Malformed(ValueError):
    """What came is no answer of HTTP."""


class AnswerReader:
    """Reads the answers of one connection, one after another, in whatever pieces they come.

    Its methods ``on_…`` are called by the parser.
    """

    __slots__ = (
        *("_parser", "_parser_is_used_up", "_headers", "_first", "_more", "_size", "_size_max", "_status"),
        *("_to_head", "_in_body", "_lasts_until_end", "_fruitless", "_problem", "has_begun", "is_whole"),
        *("is_last",),
    )

    has_begun: bool  # a byte came
    is_whole: bool
    is_last: bool  # nothing that comes after it can be an answer

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self._parser_is_used_up = False
        self.expect(to_head=False, size_max=None)

    def expect(self, *, to_head: bool, size_max: int | None) -> None:
        """Read the next answer: the one to a HEAD request has no body, whatever its headers say."""
        if self._parser_is_used_up:
            self._parser = HttpResponseParser(self)
            self._parser_is_used_up = False
        self._to_head = to_head
        self._size_max = size_max
        self._headers: dict[str, str] = {}
        self._first = b""
        self._more: io.BytesIO | None = None
        self._size = self._fruitless = self._status = 0
        self._in_body = self._lasts_until_end = False
        self._problem = ""
        self.has_begun = self.is_whole = self.is_last = False

    def feed(self, data: bytes | memoryview) -> bool:
        """Read on; true once the answer is whole. Raises ``Malformed``."""
        self.has_begun = True
        self._fruitless += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if not self.is_whole:
                raise Malformed(f"the answer is malformed: {_told(error)}") from None
            self.is_last = True
        if self._problem:
            raise Malformed(self._problem)
        if self.is_whole:
            return True
        if self._fruitless > HEAD_BYTES_MAX:
            raise Malformed(_TOO_LONG)
        return False

    def end(self) -> bool:
        """Nothing more comes; true if that makes the answer whole."""
        if self._lasts_until_end:
            self.is_whole = self.is_last = True
        return self.is_whole

    def take(self) -> Answer:
        """The whole answer."""
        body = self._first if self._more is None else self._more.getvalue()
        if self._size_max is not None:
            body = body[: self._size_max]
        self._first, self._more = b"", None
        return Answer(self._status, self._headers, body)

    @property
    def size(self) -> int:
        """Bytes of the body that have come."""
        return self._size

    def missing(self) -> str:
        """What has come of an answer that is not whole, in words."""
        if not self.has_begun:
            return "before a byte of the answer came"
        if not self._in_body:
            return "within the headers of the answer"
        length = self._headers.get("content-length")
        return f"after {self._size} bytes of the answer's body" + (f", which has {length}" if length else "")

    def on_message_begin(self) -> None:
        if self.is_whole:
            self.is_last = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body or self.is_whole:
            return  # a trailer, or what nobody asked for
        key = _NAMES.get(name) or _name(name)
        text = str(value, "utf-8", "surrogateescape").rstrip(" \t")
        headers = self._headers
        if key in headers:
            if self._problem:
                return
            text = f"{headers[key]}, {text}"
            if len(text) > HEAD_BYTES_MAX:
                self._problem = _TOO_LONG
                return
        headers[key] = text

    def on_headers_complete(self) -> None:
        if self.is_whole:
            return
        if self._fruitless > HEAD_BYTES_MAX and self._head_bytes() > HEAD_BYTES_MAX:
            self._problem = _TOO_LONG
        status = self._status = self._parser.get_status_code()
        if status < 200:
            return
        if status >= 300 and (self._size_max is None or self._size_max > ERROR_BYTES_MAX):
            self._size_max = ERROR_BYTES_MAX
        self._in_body = True
        headers = self._headers
        coding = headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            self._problem = f"the answer has the transfer encoding {coding[:100]!r}, which nobody asked for"
        elif self._to_head:
            self._parser_is_used_up = headers.get("content-length") != "0"
            self.is_whole = True
            self.is_last = not self._is_kept()
        elif coding is None and "content-length" not in headers and status not in (204, 304):
            self._lasts_until_end = True

    def on_body(self, data: bytes) -> None:
        self._fruitless = 0
        if self.is_whole:
            self.is_last = True
            return
        if not self._in_body:
            self._problem = "the answer begins with an informational one that has a body"
            return
        if self._more is not None:
            self._more.write(data)
        elif self._first:
            self._more = io.BytesIO()
            self._more.write(self._first)
            self._more.write(data)
            self._first = b""
        else:
            self._first = data
        self._size += len(data)
        if self._size_max is not None and self._size > self._size_max:
            self.is_whole = self.is_last = True

    def on_message_complete(self) -> None:
        if self.is_whole:
            return
        if self._status < 200:
            self._headers.clear()  # the answer itself is still to come
            return
        self.is_whole = True
        self.is_last = not self._parser.should_keep_alive()

    def _is_kept(self) -> bool:
        """Whether the connection goes on after an answer to HEAD, whose end the parser does not know."""
        told = {token.strip() for token in self._headers.get("connection", "").lower().split(",")}
        return "close" not in told and (self._parser.get_http_version() == "1.1" or "keep-alive" in told)

    def _head_bytes(self) -> int:
        return sum(len(name) + len(value) + 4 for name, value in self._headers.items())


def _name(name: bytes) -> str:
    known = str(name, "latin-1").lower()
    if len(_NAMES) < _NAMES_MAX and len(name) <= _NAME_BYTES_MAX:
        _NAMES[name] = known
    return known


def _told(error: Exception) -> str:
    if isinstance(error, HttpParserUpgrade):
        return "it switches to another protocol, which nobody asked for"
    return str(error)[:200] or type(error).__name__
