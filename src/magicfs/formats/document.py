"""Strict reading and compact writing of the JSON documents that magicfs persists.

``parse`` turns bytes into a mapping or raises ``FormatError``, ``Fields`` takes it apart, and ``render`` is
the way back: one line of UTF-8, as Hadoop's ``JsonSerialization.toBytes`` writes it. ``render_indented``
writes as Hadoop's manifest committer does, with Jackson's default pretty printer. ``java_text`` and
``iso_text`` are the two ways in which Hadoop's files write a date.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, NoReturn

from magicfs.errors import FormatError, UsageError
from magicfs.formats.limits import VALUE_LIMIT, has_more_values

UNKNOWN_DEPTH_LIMIT: Final = 64
"""How deep the value of an unknown field may nest, so that what was read can always be written back."""

UNKNOWN_SIZE_LIMIT: Final = 64 * 1024
"""Characters of all unknown fields of one object, names among them. A value without text counts as 8."""

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LOOKED_THROUGH = 64 * 1024
"""Bytes of the largest document of which an error names the field."""
_SHOWN_NAME_LENGTH = 80
_SHOWN_PROBLEM_LENGTH = 200

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


UNREADABLE: Final = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    struct.error,
)
"""What Python raises for input that is not as a reader needs it, and our own FormatError."""


def unreadable(path: str, field: str, error: BaseException) -> FormatError:
    """The error of ours for one of ``UNREADABLE``. ``path`` and ``field``: where the input lies."""
    return error if isinstance(error, FormatError) else FormatError(path, field, _explain(error))


def parse(path: str, raw: bytes, *, size_limit: int, value_limit: int = VALUE_LIMIT) -> dict[str, Any]:
    """Read one JSON object. Nothing of it is trusted. ``path``: where it lies, for the error.

    Raises FormatError if it has more than ``size_limit`` bytes or ``value_limit`` values, is empty ("No
    data", as Hadoop says), not UTF-8, not JSON or nested too deeply, has a number that is not finite, a name
    that occurs twice in one object or text that UTF-8 cannot hold, or has anything but an object at the top.
    """
    document = _parsed(path, raw, size_limit, value_limit)
    if not isinstance(document, dict):
        raise FormatError(path, "", f"expected an object, found {kind_of(document)}")
    return document


def parse_list(path: str, raw: bytes, *, size_limit: int, value_limit: int = VALUE_LIMIT) -> list[Any]:
    """Read one JSON list, as ``parse`` reads an object."""
    document = _parsed(path, raw, size_limit, value_limit)
    if not isinstance(document, list):
        raise FormatError(path, "", f"expected a list, found {kind_of(document)}")
    return document


def check_limits(path: str, raw: bytes, size_limit: int, value_limit: int) -> None:
    """Raise FormatError for a document that is too large to be read."""
    if len(raw) > size_limit:
        raise FormatError(path, "", f"{len(raw)} bytes, and the limit is {size_limit}")
    if has_more_values(raw, value_limit):
        raise FormatError(path, "", f"more than the limit of {value_limit} values")


def _parsed(path: str, raw: bytes, size_limit: int, value_limit: int) -> Any:
    check_limits(path, raw, size_limit, value_limit)
    if not raw:
        raise FormatError(path, "", "No data")
    try:
        document = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique_members,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        if _SURROGATE_ESCAPE.search(raw) and not _is_encodable(document):
            field = _unencodable(document) if len(raw) <= _LOOKED_THROUGH else ""
            raise FormatError(path, field or "", "half a surrogate pair, which UTF-8 cannot hold")
    except UNREADABLE as error:
        raise unreadable(path, "", error) from None
    return document


def render(document: Mapping[str, object]) -> bytes:
    """Write one compact line of UTF-8 without a newline at its end, members in their order.

    Raises UsageError for text with half a surrogate pair, and for a number that is not finite.
    """
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")
    except UnicodeEncodeError:
        field = _unencodable(document)
        raise UsageError(
            f"{field}: half a surrogate pair, which UTF-8 cannot hold; use a name that is valid Unicode"
        ) from None
    except ValueError as error:
        raise UsageError(f"JSON cannot hold this value: {error}; use finite numbers") from None


def render_indented(document: Mapping[str, object]) -> bytes:
    """Write a document in UTF-8 without a newline at its end, members in their order.

    Members stand on lines of their own, ``"name" : value``, two blanks deeper than their object; lists stay
    on the line that they begin on. Raises UsageError as ``render`` does.
    """
    try:
        pieces: list[str] = []
        _indented(document, "\n", pieces)
        return "".join(pieces).encode("utf-8")
    except ValueError:
        render(document)  # says what is wrong, and where
        raise


def with_unknown(document: dict[str, object], unknown: Mapping[str, object]) -> dict[str, object]:
    """Add the fields of others behind our own, in the order in which they were read. Ours win.

    Raises UsageError if they are more than would be read again.
    """
    if not unknown:
        return document
    if (problem := too_large(unknown)) is not None:
        raise UsageError(f"{shown(problem[0])} {problem[1]}; it was not written; leave unknown fields out")
    return document | {name: value for name, value in unknown.items() if name not in document}


def java_text(milliseconds: int) -> str:
    """Milliseconds since the epoch as ``java.util.Date`` shows them in UTC: ``Tue Nov 14 22:13:20 UTC
    2023``.

    Fractions of a second are dropped. No locale changes the text. Raises UsageError outside the years 1 to
    9999.
    """
    return _java_text(milliseconds // 1000)


@lru_cache(maxsize=16)  # of many files that are finished within one second
def _java_text(seconds: int) -> str:
    moment = _moment(seconds * 1000)
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment.day:02d} {moment:%H:%M:%S} UTC {moment.year:04d}"


def iso_text(milliseconds: int) -> str:
    """Milliseconds since the epoch as ``java.time`` shows them in UTC: ``2023-11-14T22:13:20.007Z``.

    A fraction of zero is left out.

    Raises:
        UsageError: Outside the years 1 to 9999.
    """
    timespec = "milliseconds" if milliseconds % 1000 else "seconds"
    return _moment(milliseconds).isoformat(timespec=timespec).removesuffix("+00:00") + "Z"


def kind_of(value: object) -> str:
    """What an error calls a value: only its type, since the file may hold anything."""
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), "null")


def shown(name: str) -> str:
    """A name from a file as an error may show it: short, quoted, printable."""
    return json.dumps(name[:_SHOWN_NAME_LENGTH])


def member(field: str, name: str) -> str:
    """What an error calls the member ``name`` of the object at ``field``."""
    if name.isidentifier() and len(name) <= _SHOWN_NAME_LENGTH:
        return f"{field}.{name}" if field else name
    return f"{field}[{shown(name)}]"


def walk(document: object) -> Iterator[tuple[str, object, int]]:
    """Every value below ``document`` with its name and depth, and every name before what stands under it."""
    found: list[Iterator[tuple[str, object, int]]] = [iter([("", document, 0)])]
    while found:
        field, value, depth = next(found[-1], (None, None, 0))
        if field is None:
            found.pop()
            continue
        yield field, value, depth
        if isinstance(value, Mapping):
            for name in value:
                yield field, name, depth
            found.append(_members(field, value, depth + 1))
        elif isinstance(value, list | tuple):
            found.append(_elements(field, value, depth + 1))


def _members(field: str, value: Mapping[str, object], depth: int) -> Iterator[tuple[str, object, int]]:
    return ((member(field, name), child, depth) for name, child in value.items())


def _elements(field: str, value: Iterable[object], depth: int) -> Iterator[tuple[str, object, int]]:
    return ((f"{field}[{index}]", child, depth) for index, child in enumerate(value))


def too_large(unknown: Mapping[str, object]) -> tuple[str, str] | None:
    """A field of others that is more than may be kept with all of them before it, and why; None if none is.

    No more is looked at than may be kept.
    """
    room = UNKNOWN_SIZE_LIMIT
    for name, value in unknown.items():
        pending, room = [(value, 0)], room - len(name)
        while pending:
            one, depth = pending.pop()
            if depth > UNKNOWN_DEPTH_LIMIT:
                return name, f"nested deeper than {UNKNOWN_DEPTH_LIMIT}"
            room -= _size_of(one)
            if room < 0:
                return name, f"more than {UNKNOWN_SIZE_LIMIT} characters of unknown fields in one object"
            if isinstance(one, Mapping):
                pending.extend((child, depth + 1) for child in one.values())
            elif isinstance(one, list | tuple):
                pending.extend((child, depth + 1) for child in one)
    return None


def _size_of(one: object) -> int:
    """About how many characters a value takes, without those in it."""
    if isinstance(one, str):
        return len(one)
    if isinstance(one, Mapping):
        return 8 + sum(map(len, one))
    if isinstance(one, list | tuple):
        return 8 + len(one)
    return 8 + (one.bit_length() // 3 if isinstance(one, int) else 0)


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{shown(name)} occurs twice in one object")
    return members


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number too large to hold")
    return number


def _explain(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} at byte {error.start}"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos}"
    return f"cannot be read: {str(error)[:_SHOWN_PROBLEM_LENGTH] or type(error).__name__}"


def _is_encodable(document: object) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unencodable(document: object) -> str | None:
    for field, value, _ in walk(document):
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            return field
    return None


def _indented(value: object, line: str, pieces: list[str]) -> None:
    """Add the text of a value; ``line`` begins a line as deep as the value's own."""
    if type(value) is str:
        pieces.append(encode_basestring(value))
    elif type(value) is int:
        pieces.append(str(value))
    elif isinstance(value, Mapping):
        before, deeper = "{" + line + "  ", line + "  "
        for name, child in value.items():
            pieces.append(f"{before}{encode_basestring(name)} : ")
            _indented(child, deeper, pieces)
            before = "," + deeper
        pieces.append(line + "}" if value else "{ }")
    elif isinstance(value, list | tuple):
        before = "[ "
        for element in value:
            pieces.append(before)
            _indented(element, line, pieces)
            before = ", "
        pieces.append(" ]" if value else "[ ]")
    else:
        pieces.append(json.dumps(value, ensure_ascii=False, allow_nan=False))


def _moment(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise UsageError(
            f"{milliseconds} ms is not in the years 1 to 9999; pass milliseconds since the epoch"
        ) from None
