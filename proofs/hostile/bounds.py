"""Input that a bound of a reader refuses: attacks of one kind each, and the bounds that they notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from magicfs.cli import storage
from magicfs.errors import UsageError
from magicfs.formats import document, limits
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.hadoop.options import size
from magicfs.past.row_condition import Values, parse_condition
from magicfs.transaction import spool
from proofs.hostile.expected import SECONDS, measured, refused, returns
from proofs.hostile.mutations import nested
from proofs.hostile.part import WrongLine

__all__ = ["ATTACKS", "MUTANTS", "bomb"]

_MIB = 1024**2
_BYTES_OF_REFUSED, _BYTES_OF_READ = 8, 60
"""Most bytes of memory for a byte of input that is refused by its count of values, or only then."""
_PATH = "bucket/d/a file"
_JOB = "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"
_DEEP = "[" * 20_000 + "]" * 20_000


def bomb(kind: bytes, size_: int, limit: int = _BYTES_OF_REFUSED) -> list[str]:
    """A pending set of so many bytes whose unknown field holds many values of one kind."""
    many = b",".join([kind] * (size_ // (len(kind) + 1)))
    raw = b'{"version":3,"jobId":"%b","x":[%b],"commits":[]}' % (_JOB.encode(), many)
    with measured(f"{size_} bytes of {kind!r}", limit * len(raw), SECONDS + size_ / _MIB) as found:
        found.extend(refused(f"{size_} bytes of {kind!r}", lambda: spool.read(_PATH, raw)))
    return found


# -- documents -------------------------------------------------------------------------------------------


def _many_values() -> list[str]:
    raw = b'{"x":[' + b"0," * limits.VALUE_LIMIT + b"0]}"
    parsed = refused(
        "many values",
        lambda: document.parse(_PATH, raw, size_limit=len(raw)),
        said="more than the limit of 4000000 values",
    )
    return parsed + refused(
        "a set of many values", lambda: spool.read(_PATH, raw), said="more than the limit of 4000000 values"
    )


def _many_values_written() -> list[str]:
    raw = b'{"x":[' + b"0," * limits.VALUE_LIMIT + b"0]}"
    return refused(
        "many values written", lambda: limits.within(raw, len(raw), "a file", "write less"), UsageError
    )


def _commas_in_text() -> list[str]:
    raw = b'{"x":"' + b"[," * limits.VALUE_LIMIT + b'"}'
    return returns("commas in a text", lambda: limits.has_more_values(raw, limits.VALUE_LIMIT), False)


def _deep_document() -> list[str]:
    raw = b'{"x":%b}' % _DEEP.encode()
    return refused("a deep document", lambda: document.parse(_PATH, raw, size_limit=len(raw)))


def _pending(**more: Any) -> bytes:
    sound = {
        "version": 2,
        "uploadId": "u",
        "bucket": "b",
        "destinationKey": "d/x",
        "etags": ["e"],
        "length": 1,
    }
    return document.render(sound | more)


def _unknown_fields() -> list[str]:
    long, deep = _pending(x=["y" * 70_000]), _pending(x=nested(80))
    many = _pending(x=[0] * 20_000)
    found = refused("long unknown fields", lambda: Pending.from_bytes(_PATH, long))
    found += refused("many unknown values", lambda: Pending.from_bytes(_PATH, many))
    return found + refused("deep unknown fields", lambda: Pending.from_bytes(_PATH, deep))


def _unknown_fields_written() -> list[str]:
    sound = PendingSet(job_id=_JOB, unknown={"x": "y" * 70_000})
    return refused("long unknown fields written", sound.to_bytes, UsageError)


# -- conditions and options ------------------------------------------------------------------------------


def _answer(condition: str, value: Any) -> list[str]:
    said = f"{condition} of {str(value)[:30]}"
    return returns(said, lambda: parse_condition(condition).of_file({"x": Values.one(value)}), "unknown")


def _partitions() -> list[str]:
    names = ("NaN", "sNaN", "-nan", "Infinity", "1e99999999999999999999", Decimal("sNaN"), float("inf"))
    return [one for name in names for text in ("x < 7", "x in (1, 2.5)") for one in _answer(text, name)]


def _literals() -> list[str]:
    texts = ("9" * 5000, "1e999999999999999999999")
    return [
        one
        for text in texts
        for one in refused(f"x = {text[:30]}", lambda text=text: parse_condition(f"x = {text}"), UsageError)  # type: ignore[misc]
    ]


def _options() -> list[str]:
    found = refused("deep options", lambda: storage.parse_storage_options(f'{{"x":{_DEEP}}}'), UsageError)
    found += refused(
        "options a little deep",
        lambda: storage.parse_storage_options('{"x":' * 80 + "1" + "}" * 80),
        UsageError,
    )
    return found + refused("a size of many digits", lambda: size("fs.s3a.x", "9" * 5000), UsageError)


ATTACKS: Sequence[Callable[[], list[str]]] = (
    *(_many_values, _many_values_written, _commas_in_text, _deep_document, _unknown_fields),
    *(_unknown_fields_written, _partitions, _literals, _options),
)
"""Each returns what is wrong, nothing with sound code."""

_FORMATS, _CONDITION = "magicfs.formats", "magicfs.past.row_condition"

MUTANTS: Sequence[WrongLine] = (
    WrongLine(
        "values are not counted before they are parsed",
        f"{_FORMATS}.document",
        "if has_more_values(raw, value_limit):",
        "if False:",
        _many_values,
    ),
    WrongLine(
        "values are not counted before they are written",
        f"{_FORMATS}.limits",
        "if has_more_values(raw, value_limit):",
        "if False:",
        _many_values_written,
    ),
    WrongLine(
        "commas inside of texts count",
        f"{_FORMATS}.limits",
        "values -= _values(raw, *text.span())",
        "pass",
        _commas_in_text,
    ),
    WrongLine(
        "what Python raises comes out",
        f"{_FORMATS}.document",
        "except UNREADABLE as error:",
        "except KeyboardInterrupt as error:",
        _deep_document,
    ),
    WrongLine(
        "unknown fields have no size", f"{_FORMATS}.document", "if room < 0:", "if False:", _unknown_fields
    ),
    WrongLine(
        "unknown fields have no depth",
        f"{_FORMATS}.document",
        "if depth > UNKNOWN_DEPTH_LIMIT:",
        "if False:",
        _unknown_fields,
    ),
    WrongLine(
        "unknown fields are not measured when they are written",
        f"{_FORMATS}.document",
        "if (problem := too_large(unknown)) is not None:",
        "if (problem := None) is not None:",
        _unknown_fields_written,
    ),
    WrongLine(
        "partitions that are no numbers are compared",
        _CONDITION,
        "return number if number.is_finite() else None  # such as NaN, which each reader orders otherwise",
        "return number",
        _partitions,
    ),
    WrongLine(
        "numbers of a condition have any size",
        _CONDITION,
        "if len(word) > _DIGITS_MAX or not found.is_finite():",
        "if False:",
        _literals,
    ),
    WrongLine(
        "sizes have any number of digits",
        "magicfs.hadoop.options",
        "if match is None or len(value) > _DIGITS_MAX:",
        "if match is None:",
        _options,
    ),
)
