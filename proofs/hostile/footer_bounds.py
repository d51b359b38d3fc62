"""Footers that a bound refuses, as texts and in Parquet, and the bounds that these attacks notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from magicfs.formats import document
from magicfs.formats.footer import FOOTER, SCHEMA, FileFooters, check_carried, footers_in
from magicfs.formats.parquet import read_footer
from magicfs.formats.thrift import ThriftError, read_struct
from proofs.hostile.expected import SECONDS, measured, refused, returns
from proofs.hostile.mutations import nested
from proofs.hostile.part import WrongLine
from proofs.hostile.thrift_bytes import column, footer, leaf, of_file, struct_bytes

__all__ = ["ATTACKS", "MUTANTS"]

_MIB = 1024**2
_PATH = "bucket/d/a file"
_JOB = "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"
_DEEP = "[" * 20_000 + "]" * 20_000


# -- what files say of themselves ------------------------------------------------------------------------


def _listed(said: Mapping[str, Any], schema: str) -> FileFooters:
    """A list of footers as a manifest names it, written and read."""
    texts = {FOOTER: document.render(said).decode(), SCHEMA: schema}
    found = [one for one in footers_in([texts]) if one is not None]
    raw = FileFooters(job_id=_JOB, files={str(n): one for n, one in enumerate(found)}).to_bytes()
    return FileFooters.from_bytes(_PATH, raw)


def _footers_after_the_commit_point() -> list[str]:
    nothing, said = FileFooters(job_id=_JOB, files={}), {"rows": 1, "format": "csv"}
    found = returns("a deep schema", lambda: _listed(said, _DEEP), nothing)
    found += returns("half a character", lambda: _listed(said, r'[["\ud800","int64",0,0]]'), nothing)
    found += returns("a schema that is no list", lambda: _listed(said, "{}"), nothing)
    found += returns("a deep footer", lambda: _listed(said | {"x": nested(90)}, "[]"), nothing)
    found += returns("not a schema fingerprint", lambda: _listed(said | {"schema": ""}, "[]"), nothing)
    return found + returns("many nulls", lambda: _listed(said | {"columns": [[2**63]]}, "[]"), nothing)


def _carried() -> list[str]:
    texts = {FOOTER: "x" * 20_000}
    return refused("a long footer", lambda: check_carried(_PATH, texts))


# -- footers of Parquet ----------------------------------------------------------------------------------


def _nothing(what: str, leaves: list[Any], columns: list[Any], **others: Any) -> list[str]:
    return returns(what, lambda: read_footer(*of_file(footer(leaves, columns, **others))), None)


def _no_statistics(what: str, one: Any, said: Any) -> list[str]:
    """A column of a sound file of which no value is known."""
    found: list[Any] = []
    with measured(what, 100 * _MIB, SECONDS) as problems:
        problems.extend(
            returns(what, lambda: found.append(read_footer(*of_file(footer([one], [said])))), None)
        )
    if not problems and (found[0] is None or any(v and v.min is not None for v in found[0].values)):
        problems.append(f"{what}: {str(found[0])[:200]}")
    return problems


def _decimals() -> list[str]:
    decimal = leaf(b"d", 6, field_10={5: {1: 2, 2: 10}})
    return _no_statistics("a long decimal", decimal, column(6, b"\1" * 5000, b"\2" * 5000))


def _scales() -> list[str]:
    said = [{1: 6, 5: 3}]
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
    return found + refused("a long number", lambda: read_struct(struct_bytes({3: 2**66})), ThriftError)


def _many_nulls() -> list[str]:
    number = leaf(b"n", 2)
    one = {1: [{3: column(2, bytes(8), bytes(8), nulls=2**62, values=2**62 + 1)}], 3: 1}
    return _nothing("many nulls in all", [number], [], field_3=2, field_4=[one, one])


def _names() -> list[str]:
    deep: list[Any] = [{4: b"g" * 60, 5: 1} for _ in range(90)]
    leaves = [*deep[:-1], {4: b"g", 5: 3000}, *[{1: 1, 4: b"x"}] * 3000]
    root: dict[int, Any] = {4: b"schema", 5: 1}
    raw = of_file({2: [root, *leaves], 3: 0, 4: []})
    with measured("a tree of names", 60 * len(raw[1]) + 10 * _MIB, SECONDS) as found:
        found.extend(returns("a tree of names", lambda: read_footer(*raw), None))
    return found


ATTACKS: Sequence[Callable[[], list[str]]] = (
    *(
        _footers_after_the_commit_point,
        _carried,
        _decimals,
        _scales,
        _odd_types,
        _many_rows,
        _many_nulls,
        _names,
    ),
)
"""Each returns what is wrong, nothing with sound code."""

_FORMATS, _FOOTERS = "magicfs.formats", "magicfs.formats.footer"
_PARQUET = "magicfs.formats.parquet"

MUTANTS: Sequence[WrongLine] = (
    WrongLine("trees of names have no end", _PARQUET, "_require(room >= 0)", "pass", _names),
    WrongLine(
        "any text is a fingerprint",
        _FOOTERS,
        "if schema is not None and not _IS_FINGERPRINT.fullmatch(schema):",
        "if False:",
        _footers_after_the_commit_point,
    ),
    WrongLine(
        "texts of footers have no size",
        f"{_FORMATS}.footer",
        "if len(said) > most:",
        "if False:",
        _carried,
    ),
    WrongLine(
        "Thrift's numbers have any size",
        f"{_FORMATS}.thrift",
        "if found > _NUMBER_MAX:",
        "if False:",
        _many_rows,
    ),
    WrongLine(
        "decimals have any length",
        _PARQUET,
        'return int.from_bytes(raw, "big", signed=True) if 0 < len(raw) <= _DECIMAL_MAX else None',
        'return int.from_bytes(raw, "big", signed=True) if raw else None',
        _decimals,
    ),
    WrongLine(
        "decimals have any scale",
        _PARQUET,
        "_require(type(precision) is type(scale) is int and 0 <= scale <= precision <= _DIGITS_MAX)",
        "pass",
        _scales,
    ),
    WrongLine(
        "a file has any number of nulls",
        _PARQUET,
        "_require(total.nulls is None or total.nulls <= LONG_MAX)",
        "pass",
        _many_nulls,
    ),
)
