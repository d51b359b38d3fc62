"""Input that a bound of a reader refuses: attacks of one kind each, and the bounds that they notice."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from magicfs.cli import storage
from magicfs.errors import FormatError, UsageError
from magicfs.formats import document, footer_texts, limits
from magicfs.formats.footer import FileFooters
from magicfs.formats.parquet import read_footer
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.thrift import ThriftError, read_struct
from magicfs.hadoop.options import size
from magicfs.protocol.row_condition import Values, parse_condition
from magicfs.transaction import set_files
from proofs.hostile.mutations import nested
from proofs.hostile.part import Mutant
from proofs.hostile.thrift_bytes import column, footer, leaf, of_file, struct_bytes

__all__ = ["ATTACKS", "MUTANTS", "bomb"]

_MIB = 1024**2
_BYTES_OF_REFUSED, _BYTES_OF_READ = 8, 60
"""Most bytes of memory for a byte of input that is refused by its count of values, or only then."""
_PATH = "bucket/d/a file"
_JOB = "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"
_DEEP = "[" * 20_000 + "]" * 20_000
_SECONDS = 3.0


def bomb(kind: bytes, size_: int, limit: int = _BYTES_OF_REFUSED) -> list[str]:
    """A pending set of so many bytes whose unknown field holds many values of one kind."""
    many = b",".join([kind] * (size_ // (len(kind) + 1)))
    raw = b'{"version":3,"jobId":"%b","x":[%b],"commits":[]}' % (_JOB.encode(), many)
    with _measured(f"{size_} bytes of {kind!r}", limit * len(raw), _SECONDS + size_ / _MIB) as found:
        found += _refused(f"{size_} bytes of {kind!r}", lambda: set_files.read(_PATH, raw))
    return found


@contextmanager
def _measured(what: str, bytes_max: int, seconds: float) -> Iterator[list[str]]:
    """Notices what takes too much memory or time of the processor."""
    found: list[str] = []
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()
    before, began = tracemalloc.get_traced_memory()[0], time.process_time()
    tracemalloc.reset_peak()
    try:
        yield found
        took, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1] - before
    finally:
        if is_ours:
            tracemalloc.stop()
    if peak > bytes_max:
        found.append(f"{what}: {peak} bytes of memory, and at most {bytes_max} may be taken")
    if took > seconds:
        found.append(f"{what}: {took:.1f} s, and at most {seconds:.1f} may be taken")


def _refused(
    what: str, call: Callable[[], Any], kind: type[Exception] = FormatError, said: str = ""
) -> list[str]:
    """What is wrong unless a call raises an error of that kind, whose text holds something."""
    try:
        found = call()
    except kind as error:
        return [] if said in str(error) else [f"{what}: {error}"]
    except Exception as error:  # noqa: BLE001 - all that must not come out
        return [f"{what}: {type(error).__name__}: {str(error)[:200]}"]
    return [f"{what}: was accepted: {str(found)[:200]}"]


def _is(what: str, call: Callable[[], Any], wanted: Any) -> list[str]:
    """What is wrong unless a call returns that."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - all that must not come out
        return [f"{what}: {type(error).__name__}: {str(error)[:200]}"]
    return [] if found == wanted else [f"{what}: {str(found)[:200]}"]


# -- documents -------------------------------------------------------------------------------------------


def _many_values() -> list[str]:
    raw = b'{"x":[' + b"0," * limits.VALUE_LIMIT + b"0]}"
    parsed = _refused(
        "many values",
        lambda: document.parse(_PATH, raw, size_limit=len(raw)),
        said="more than 4000000 values",
    )
    return parsed + _refused(
        "a set of many values", lambda: set_files.read(_PATH, raw), said="more than 4000000 values"
    )


def _many_values_written() -> list[str]:
    raw = b'{"x":[' + b"0," * limits.VALUE_LIMIT + b"0]}"
    return _refused(
        "many values written", lambda: limits.within(raw, len(raw), "a file", "write less"), UsageError
    )


def _commas_in_text() -> list[str]:
    raw = b'{"x":"' + b"[," * limits.VALUE_LIMIT + b'"}'
    return _is("commas in a text", lambda: limits.has_more_values(raw, limits.VALUE_LIMIT), False)


def _deep_document() -> list[str]:
    raw = b'{"x":%b}' % _DEEP.encode()
    return _refused("a deep document", lambda: document.parse(_PATH, raw, size_limit=len(raw)))


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
    found = _refused("long unknown fields", lambda: Pending.from_bytes(_PATH, long))
    found += _refused("many unknown values", lambda: Pending.from_bytes(_PATH, many))
    return found + _refused("deep unknown fields", lambda: Pending.from_bytes(_PATH, deep))


def _unknown_fields_written() -> list[str]:
    sound = PendingSet(job_id=_JOB, unknown={"x": "y" * 70_000})
    return _refused("long unknown fields written", sound.to_bytes, UsageError)


# -- what files say of themselves ------------------------------------------------------------------------


def _listed(said: Mapping[str, Any], schema: str) -> FileFooters:
    """A list of footers as a manifest names it, written and read."""
    texts = {footer_texts.FOOTER: document.render(said).decode(), footer_texts.SCHEMA: schema}
    found = [one for one in footer_texts.footers_in([texts]) if one is not None]
    raw = FileFooters(job_id=_JOB, files={str(n): one for n, one in enumerate(found)}).to_bytes()
    return FileFooters.from_bytes(_PATH, raw)


def _footers_after_the_commit_point() -> list[str]:
    nothing, said = FileFooters(job_id=_JOB, files={}), {"rows": 1, "format": "csv"}
    found = _is("a deep schema", lambda: _listed(said, _DEEP), nothing)
    found += _is("half a character", lambda: _listed(said, r'[["\ud800","int64",0,0]]'), nothing)
    found += _is("a schema that is no list", lambda: _listed(said, "{}"), nothing)
    found += _is("a deep footer", lambda: _listed(said | {"x": nested(90)}, "[]"), nothing)
    found += _is("no fingerprint", lambda: _listed(said | {"schema": ""}, "[]"), nothing)
    return found + _is("many nulls", lambda: _listed(said | {"columns": [[2**63]]}, "[]"), nothing)


def _carried() -> list[str]:
    texts = {footer_texts.FOOTER: "x" * 20_000}
    return _refused("a long footer", lambda: footer_texts.check_carried(_PATH, texts))


# -- footers of Parquet ----------------------------------------------------------------------------------


def _nothing(what: str, leaves: list[Any], columns: list[Any], **others: Any) -> list[str]:
    return _is(what, lambda: read_footer(*of_file(footer(leaves, columns, **others))), None)


def _no_statistics(what: str, one: Any, said: Any) -> list[str]:
    """A column of a sound file of which no value is known."""
    found: list[Any] = []
    with _measured(what, 100 * _MIB, _SECONDS) as problems:
        problems += _is(what, lambda: found.append(read_footer(*of_file(footer([one], [said])))), None)
    if not problems and (found[0] is None or any(v and v.min is not None for v in found[0].values)):
        problems.append(f"{what}: {str(found[0])[:200]}")
    return problems


def _decimals() -> list[str]:
    decimal = leaf(b"d", 6, field_10={5: {1: 2, 2: 10}})
    return _no_statistics("a long decimal", decimal, column(6, b"\1" * 200_000, b"\2" * 200_000))


def _scales() -> list[str]:
    said = [column(6, b"\1", b"\2")]
    found = _nothing("a large scale", [leaf(b"d", 6, field_10={5: {1: 10**15, 2: 10**15 + 1}})], said)
    found += _nothing("a scale below zero", [leaf(b"d", 6, field_6=5, field_7=-(10**12), field_8=10)], said)
    return found + _nothing(
        "a scale that is text", [leaf(b"d", 6, field_10={5: {1: b"x" * 9999, 2: 3}})], said
    )


def _odd_types() -> list[str]:
    said = [column(4, b"\1\0\0\0", b"\2\0\0\0")]
    found = _nothing("a number that is a float", [leaf(b"u", 4, field_10={10: {1: 32, 2: False}})], said)
    found += _nothing("two types", [leaf(b"u", 4, field_10={1: {}, 4: {}})], said)
    found += _nothing("two units", [leaf(b"u", 4, field_10={8: {1: True, 2: {1: {}, 2: {}}}})], said)
    found += _nothing("a name that is a number", [{1: 4, 4: 7}], said)
    return found + _nothing("unsigned as a float", [leaf(b"u", 4, field_6=13)], said)


def _many_rows() -> list[str]:
    found = _nothing("many rows", [], [], rows=2**63)
    return found + _refused("a long number", lambda: read_struct(struct_bytes({3: 2**66})), ThriftError)


def _many_nulls() -> list[str]:
    number = leaf(b"n", 2)
    one = {1: [{3: column(2, bytes(8), bytes(8), nulls=2**62, values=2**62 + 1)}], 3: 1}
    return _nothing("many nulls in all", [number], [], field_3=2, field_4=[one, one])


def _names() -> list[str]:
    deep: list[Any] = [{4: b"g" * 60, 5: 1} for _ in range(90)]
    leaves = [*deep[:-1], {4: b"g", 5: 10_000}, *[{1: 1, 4: b"x"}] * 10_000]
    root: dict[int, Any] = {4: b"schema", 5: 1}
    raw = of_file({2: [root, *leaves], 3: 0, 4: []})
    with _measured("a tree of names", 60 * len(raw[1]) + 10 * _MIB, _SECONDS) as found:
        found += _is("a tree of names", lambda: read_footer(*raw), None)
    return found


# -- conditions and options ------------------------------------------------------------------------------


def _answer(condition: str, value: Any) -> list[str]:
    said = f"{condition} of {str(value)[:30]}"
    return _is(said, lambda: parse_condition(condition).of_file({"x": Values.one(value)}), "unknown")


def _partitions() -> list[str]:
    names = ("NaN", "sNaN", "-nan", "Infinity", "1e99999999999999999999", Decimal("sNaN"), float("inf"))
    return [one for name in names for text in ("x < 7", "x in (1, 2.5)") for one in _answer(text, name)]


def _literals() -> list[str]:
    texts = ("9" * 5000, "1e999999999999999999999")
    return [
        one
        for text in texts
        for one in _refused(f"x = {text[:30]}", lambda text=text: parse_condition(f"x = {text}"), UsageError)  # type: ignore[misc]
    ]


def _options() -> list[str]:
    found = _refused("deep options", lambda: storage.parse_storage_options(f'{{"x":{_DEEP}}}'), UsageError)
    found += _refused(
        "options a little deep",
        lambda: storage.parse_storage_options('{"x":' * 80 + "1" + "}" * 80),
        UsageError,
    )
    return found + _refused("a size of many digits", lambda: size("fs.s3a.x", "9" * 5000), UsageError)


ATTACKS: Sequence[Callable[[], list[str]]] = (
    *(_many_values, _many_values_written, _commas_in_text, _deep_document, _unknown_fields),
    *(_unknown_fields_written, _footers_after_the_commit_point, _carried, _decimals, _scales, _odd_types),
    *(_many_rows, _many_nulls, _names, _partitions, _literals, _options),
)
"""Each returns what is wrong, nothing with sound code."""

_FORMATS, _FOOTERS = "magicfs.formats", "magicfs.formats.footer"
_PARQUET, _CONDITION = "magicfs.formats.parquet", "magicfs.protocol.row_condition"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        "values are not counted before they are parsed",
        f"{_FORMATS}.document",
        "if has_more_values(raw, value_limit):",
        "if False:",
        _many_values,
    ),
    Mutant(
        "values are not counted before they are written",
        f"{_FORMATS}.limits",
        "if has_more_values(raw, value_limit):",
        "if False:",
        _many_values_written,
    ),
    Mutant(
        "commas inside of texts count",
        f"{_FORMATS}.limits",
        "values -= _values(raw, *text.span())",
        "pass",
        _commas_in_text,
    ),
    Mutant(
        "what Python raises comes out",
        f"{_FORMATS}.document",
        "if isinstance(error, _UNREADABLE) and not isinstance(error, FormatError):",
        "if False:",
        _deep_document,
    ),
    Mutant(
        "unknown fields have no size", f"{_FORMATS}.document", "if room < 0:", "if False:", _unknown_fields
    ),
    Mutant(
        "unknown fields have no depth",
        f"{_FORMATS}.document",
        "if depth > UNKNOWN_DEPTH_LIMIT:",
        "if False:",
        _unknown_fields,
    ),
    Mutant(
        "unknown fields are not measured when they are written",
        f"{_FORMATS}.document",
        "if (problem := too_large(unknown)) is not None:",
        "if (problem := None) is not None:",
        _unknown_fields_written,
    ),
    Mutant(
        "any text is a fingerprint",
        _FOOTERS,
        "if schema is not None and not _IS_FINGERPRINT.fullmatch(schema):",
        "if False:",
        _footers_after_the_commit_point,
    ),
    Mutant(
        "texts of footers have no size",
        f"{_FORMATS}.footer_texts",
        "if len(said) > most:",
        "if False:",
        _carried,
    ),
    Mutant(
        "Thrift's numbers have any size",
        f"{_FORMATS}.thrift",
        "if found > _NUMBER_MAX:",
        "if False:",
        _many_rows,
    ),
    Mutant(
        "decimals have any length",
        _PARQUET,
        'return int.from_bytes(raw, "big", signed=True) if 0 < len(raw) <= _DECIMAL_MAX else None',
        'return int.from_bytes(raw, "big", signed=True) if raw else None',
        _decimals,
    ),
    Mutant(
        "decimals have any scale",
        _PARQUET,
        "_require(type(precision) is type(scale) is int and 0 <= scale <= precision <= _DIGITS_MAX)",
        "pass",
        _scales,
    ),
    Mutant("trees of names have no end", _PARQUET, "_require(room >= 0)", "pass", _names),
    Mutant(
        "a file has any number of rows",
        _PARQUET,
        "_require(type(rows) is int and 0 <= rows <= LONG_MAX)",
        "pass",
        _many_rows,
    ),
    Mutant(
        "a file has any number of nulls",
        _PARQUET,
        "_require(total.nulls is None or total.nulls <= LONG_MAX)",
        "pass",
        _many_nulls,
    ),
    Mutant(
        "partitions that are no numbers are compared",
        _CONDITION,
        "return number if number.is_finite() else None  # such as NaN, which each reader orders otherwise",
        "return number",
        _partitions,
    ),
    Mutant(
        "numbers of a condition have any size",
        _CONDITION,
        "if len(word) > _DIGITS_MAX or not found.is_finite():",
        "if False:",
        _literals,
    ),
    Mutant(
        "sizes have any number of digits",
        "magicfs.hadoop.options",
        "if match is None or len(value) > _DIGITS_MAX:",
        "if match is None:",
        _options,
    ),
)
