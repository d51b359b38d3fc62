"""What every answer of an endpoint has to keep to, whichever cloud it comes from.

An endpoint, or who stands between, may send anything: bodies without end, documents of something else, and
text that is meant for a terminal. Exceptions of a store's client are raised as errors of the port.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Final
from xml.etree import ElementTree as ET

from magicfs.errors import StoreError, Unavailable

DOCUMENT_BYTES_MAX: Final = 16 * 2**20
"""Most bytes of a document. A page of 1,000 encoded keys of 1,024 bytes has less than 4 MiB."""

ERROR_BYTES_MAX: Final = 64 * 2**10
"""So much is read of the body of an error."""

WHOLE_BYTES_MAX: Final = 64 * 2**20
"""Most bytes of an object that is read whole by a caller that names no size."""

WORK_S: Final = 900.0
"""How long a store may work on a request while it sends spaces, as S3 does when it completes or copies."""

REACH: Final = "check that the endpoint is right and up, then try again"

TAGS_MAX: Final = 250_000
_BYTES_PER_S: Final = 4096
_TIMEOUTS: Final = 5
_WORDS_MAX: Final = 500
_YEAR_10000_S: Final = 253_402_300_800
_TOO_MANY: Final = frozenset({"429", "503", "SlowDown", "Throttling", "ThrottlingException"})
"""Codes and HTTP statuses by which services say that there are too many requests."""
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_ENCODED: Final = re.compile(rb"<\?xml[^>]*\bencoding\s*=\s*[\"']([^\"']*)", re.ASCII)
_ROOT: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>)?\s*+<(?:[\w.-]++:)?([\w.-]++)[\s/>]", re.ASCII
)


class Malformed(OSError):
    """An answer that says nothing, or something that no store says."""


NOT_READ: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What comes out where an answer lacks what it should have, or has something else there."""


def words(text: object) -> str:
    """What an endpoint wrote, as messages show it: one line, printable, at most 500 characters."""
    line = " ".join(str(text)[: 4 * _WORDS_MAX].split())
    shown = "".join(map(_printable, line))
    return shown if len(shown) <= _WORDS_MAX else f"{shown[: _WORDS_MAX - 1]}…"


def _printable(one: str) -> str:
    return one if one.isprintable() else one.encode("unicode_escape").decode()


def number(text: str | None, what: str) -> int:
    """A size or a count: ASCII digits alone, at most 19 of them."""
    if text is None or not _NUMBER.fullmatch(text):
        raise Malformed(f"the answer's {what} is {str(text)[:40]!r}")
    return int(text)


def seconds_of(text: str) -> float:
    """A time of ISO 8601 by the clock of Unix."""
    try:
        moment = dt.datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, ArithmeticError) as error:
        raise Malformed(f"the answer has the time {words(text)[:40]!r}") from error
    if not is_moment(seconds):
        raise Malformed(f"the answer has the time {words(text)[:40]!r}")
    return seconds


def is_moment(seconds: float) -> bool:
    """Whether a time is one of Unix that calendars have."""
    return 0 <= seconds < _YEAR_10000_S


def kind_by(known: Mapping[str, type[StoreError]], code: str, status: str) -> type[StoreError]:
    """The error for a code of a service, and where the code is unknown for the HTTP status."""
    return known.get(code) or known.get(status) or (Unavailable if status.startswith("5") else StoreError)


def refusal(
    kind: type[StoreError], operation: str, path: str, problem: str, hint: str, *answered: str
) -> StoreError:
    """An error of a kind; one that says that there are too many requests if that is what was answered."""
    error = kind(operation, path, problem, hint=hint)
    if isinstance(error, Unavailable) and not _TOO_MANY.isdisjoint(answered):
        error.throttled = True
    return error


def deadline_s(silence_s: float, size: int) -> float:
    """How long a request of so many bytes may take, however little comes at a time.

    ``silence_s``: how long the endpoint may send nothing.
    """
    return _TIMEOUTS * silence_s + size / _BYTES_PER_S


def whole(body: bytes, size_max: int | None, operation: str, path: str) -> bytes:
    """A body that was read, unless it has more bytes than one may have that is read whole."""
    if size_max is None and len(body) > WHOLE_BYTES_MAX:
        raise too_large(operation, path)
    return body


def too_large(operation: str, path: str) -> StoreError:
    """The error for an object that is too large to be read whole by a caller that names no size."""
    problem = f"it has more than {WHOLE_BYTES_MAX:,} bytes"
    return StoreError(operation, path, problem, hint="read it in ranges, or name size_max")


def root_of(body: bytes, name: str = "") -> ET.Element:
    """The root of a document of this name, which defines no entities and hides nothing behind an encoding."""
    content = body.lstrip()  # some stores send spaces while they work
    declared = _ENCODED.search(content[:200])
    named = declared[1].lower() if declared else b"utf-8"
    if named not in {b"utf-8", b"utf8", b"us-ascii", b"ascii"}:
        raise Malformed("the answer is a document in another encoding than UTF-8")
    check_plain(content)
    try:
        root = ET.fromstring(content)  # noqa: S314 - see above
    except (ET.ParseError, ValueError) as error:
        raise Malformed(f"the answer is no whole document: {error}") from error
    if name:
        check_root(content, name)
    return root


def check_span(given: str, start: int) -> None:
    """Raise ``Malformed`` unless a header ``Content-Range`` says that the bytes begin at a place."""
    if not given.startswith(f"bytes {start}-"):
        raise Malformed(f"the answer has {words(given)} but the bytes from {start} on were requested")


def check_plain(body: bytes, tags_max: int = TAGS_MAX) -> None:
    """Raise ``Malformed`` for a document that defines entities, or has more tags than a listing has."""
    if b"\0" in body or b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise Malformed("the answer is no document of a store")
    if body.count(b"<") > tags_max:
        raise Malformed(f"the answer has more than {tags_max:,} tags")


def check_root(body: bytes, *names: str) -> None:
    """Raise ``Malformed`` for a document of another name; it is not parsed for that."""
    found = _ROOT.match(body[:4096])
    if found is None or found[1].decode() not in names:
        shown = words(found[1].decode("latin-1")) if found else "nothing of the kind"
        raise Malformed(f"the answer must be a document {names[0]}, and it is {shown}")


class translating:  # noqa: N801 - a context manager, made for every request: a generator takes thrice as long
    """Raise what ``translate`` makes of exceptions within; one that it returns is raised as it is.

    The exception is shown as the cause, unless ``translate`` has given another one.
    """

    __slots__ = ("_operation", "_path", "_translate")

    def __init__(
        self, translate: Callable[[Exception, str, str], Exception], operation: str, path: str
    ) -> None:
        self._translate = translate
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, Exception):
            return
        known = self._translate(error, self._operation, self._path)
        if known is not error:
            raise known from known.__cause__ or error
