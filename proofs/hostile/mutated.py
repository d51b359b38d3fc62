"""Mutated bytes for every reader: only our errors come out, soon, and what reads can be written and read."""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from magicfs.classic.records import FileList
from magicfs.cli import storage
from magicfs.errors import FormatError, UsageError
from magicfs.formats import deletions, document, kinds
from magicfs.formats.audit import FILE_AUDIT, said_in
from magicfs.formats.footer import FOOTER, SCHEMA, FileFooters, Schema, carried_by, footers_in
from magicfs.formats.parquet import read_footer
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import pack, unpack
from magicfs.formats.thrift import ThriftError, read_struct
from magicfs.hadoop.conf import from_hadoop_conf
from magicfs.operate.commands import show
from magicfs.past.row_condition import Values, parse_condition
from magicfs.transaction import spool
from proofs.hostile import bounds, footer_bounds, mutations
from proofs.hostile.part import Found, WrongLine
from proofs.hostile.thrift_bytes import column, footer, leaf, of_file

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz"]

NAME = "mutated"
_GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
_PATH = "bucket/d/a file"
_SECONDS, _SECONDS_OF_BYTE = 1.0, 5e-6
_TEXT_MAX = 1024**2
_EACH = 15
"""How many mutations of each file :func:`fixed` tries."""
_JOB = "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"


class Reader(NamedTuple):
    """Something that reads what others wrote."""

    name: str
    seeds: Sequence[bytes]  # what it can read
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes] | None = None
    is_json: bool = True
    leaves_out: bool = False  # whether what is written lacks fields that nobody needs


def fixed() -> Found:
    """Some mutations of every file that a reader can read, and what each bound refuses."""
    found = _each_seed(random.Random(36), _EACH)  # noqa: S311 - no secret
    for attack in (*bounds.ATTACKS, *footer_bounds.ATTACKS):
        found.counts["inputs"] += 1
        found.violations += attack()
    return found


def fuzz(until: float, seed: int) -> Found:
    """The same of any readers, until then."""
    draw, found = random.Random(seed), Found()  # noqa: S311 - no secret
    while time.monotonic() < until:
        reader = draw.choice(_readers())
        found.add(_tried(reader, _mutated(draw, reader, draw.choice(reader.seeds)), f"seed {seed}"))
    return found


def _each_seed(draw: random.Random, times: int) -> Found:
    found = Found()
    for reader in _readers():
        for seed in reader.seeds:
            found.add(_tried(reader, seed, "sound"))
            for _ in range(max(times, 120 // len(reader.seeds))):
                found.add(_tried(reader, _mutated(draw, reader, seed), "seed 36"))
    return found


def _mutated(draw: random.Random, reader: Reader, seed: bytes) -> bytes:
    if reader.is_json and draw.random() < 0.6:
        return mutations.changed_document(draw, seed)
    return mutations.changed_bytes(draw, seed, draw.choice(reader.seeds))


def _tried(reader: Reader, raw: bytes, how: str) -> Found:
    found = Found()
    found.counts["inputs"] += 1
    began = time.process_time()
    problem = _problem(reader, raw)
    took = time.process_time() - began
    if problem is None and took > _SECONDS + len(raw) * _SECONDS_OF_BYTE:
        problem = f"took {took:.1f} s"
    if problem is not None:
        found.violations.append(f"{reader.name}: {problem}; {how}, {len(raw)} bytes: {raw[:3000]!r}")
    return found


def _problem(reader: Reader, raw: bytes) -> str | None:
    """What is wrong with how some bytes are read; None if nothing is."""
    step = "reading"
    try:
        value = reader.read(raw)
        if reader.write is not None:
            step = "writing what was read"
            again = reader.write(value)
            step = "reading what was written"
            read = reader.read(again)
            if read != value and not (reader.leaves_out and reader.write(read) == again):
                return "reads otherwise once it was written"
    except (FormatError, UsageError) as error:
        return None if step == "reading" else f"{step} raised {error!r}"
    except Exception as error:  # noqa: BLE001 - all that must not come out
        return f"{step} raised {type(error).__name__}: {str(error)[:300]}"
    return None


# -- the readers -----------------------------------------------------------------------------------------


@cache
def _readers() -> tuple[Reader, ...]:
    golden = [path.read_bytes() for path in sorted(_GOLDEN.iterdir())]
    by_kind: dict[str, list[bytes]] = {}
    for raw in golden:
        with contextlib.suppress(FormatError):
            by_kind.setdefault(kinds.detect(_PATH, raw), []).append(raw)
    found = [
        Reader(kind.name, by_kind[kind.name], partial(_read, kind), _write, leaves_out="pending" in kind.name)
        for kind in kinds.KINDS
        if kind.name in by_kind
    ]
    sets = by_kind["pendingset"]
    lists = [(_GOLDEN / "magicfs_files_1.json").read_bytes()]
    footers = [footer_bytes(one) for one in _sound_footers()]
    texts = document.render({FOOTER: '{"rows":3,"format":"csv"}', SCHEMA: '[["a","int64",0,0]]'})
    return (
        *found,
        Reader("any file", golden, partial(kinds.load, _PATH)),
        Reader("set of a job", sets, partial(spool.read, _PATH)),
        Reader("packed set", [pack(one) for one in sets], partial(unpack, _PATH), is_json=False),
        Reader("file list", lists, partial(FileList.from_bytes, _PATH), FileList.to_bytes),
        Reader("texts of footers", [texts], _read_texts),
        Reader("a footer's text", _FOOTER_TEXTS, lambda raw: _carried(raw, _SCHEMA)),
        Reader("a schema's text", [_SCHEMA], lambda raw: _carried(_FOOTER_TEXTS[0], raw)),
        Reader("an audit's text", [b'{"a":null,"b":"no"}'], lambda raw: said_in({FILE_AUDIT: _text(raw)})),
        Reader("Parquet", footers, _read_parquet, is_json=False),
        Reader("Thrift", footers, _read_thrift, is_json=False),
        Reader("a condition", _CONDITIONS, _read_condition, is_json=False),
        Reader("a partition", [b"5", b"2026-01-01", b"true", b"1e9"], _read_partition, is_json=False),
        Reader("Hadoop's file", _CONFIGURATIONS, _read_configuration, is_json=False),
        Reader("Hadoop's options", [_OPTIONS], _read_options),
        Reader("storage options", [b'{"endpoint_url":"http://x","a":{"b":1}}'], _read_storage_options),
    )


def _read(kind: kinds.Kind, raw: bytes) -> Any:
    """What a file says, which people can be shown, too."""
    value = kind.read(_PATH, raw)
    with contextlib.redirect_stdout(io.StringIO()):
        show._print(_PATH, kind.name, value)  # noqa: SLF001
    return value


def _write(value: Any) -> bytes:
    if isinstance(value, tuple):
        return deletions.write(value)
    raw: bytes = value.to_bytes("object") if isinstance(value, Pending | PendingSet) else value.to_bytes()
    return raw


_SCHEMA = b'[["a","int64",0,0],[["b","list","element"],"string",3,1],["d","decimal(10,2)",1,0]]'
_FINGERPRINT = Schema.from_text("x", _SCHEMA.decode()).fingerprint.encode()
_FOOTER_TEXTS = (
    b'{"rows":3,"format":"parquet","schema":"'
    + _FINGERPRINT
    + b'","columns":[[0,1,5],[1],[0,"1.5","2.5",false]]}',
    b'{"rows":1,"format":"csv"}',
)


def _read_texts(raw: bytes) -> FileFooters:
    extra = document.parse(_PATH, raw, size_limit=_TEXT_MAX)
    texts = {name: text for name, text in extra.items() if isinstance(text, str)}
    return _footers([texts])


def _carried(said: bytes, schema: bytes) -> FileFooters:
    return _footers([{FOOTER: _text(said), SCHEMA: _text(schema)}])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _footers(extras: list[dict[str, str]]) -> FileFooters:
    """What files say of themselves as it is published, read from the list that is written, and used."""
    [one] = footers_in(extras)
    listed = FileFooters(job_id=_JOB, files={} if one is None else {"a": one})
    try:
        again = FileFooters.from_bytes(_PATH, listed.to_bytes())
    except (FormatError, UsageError) as error:
        raise AssertionError(
            f"a list of footers that is written after the commit point: {error!r}"
        ) from error
    if again != listed:
        raise AssertionError("a list of footers reads otherwise once it was written")
    return _used(again)


def _used(listed: FileFooters) -> FileFooters:
    for one in listed.files.values():
        columns = {
            column.field.name: Values(column.min, column.max, nulls=column.nulls != 0)
            for column in one.columns.values()
        }
        for text in ("a < 7", "d = 1.5", "b = 'x'"):
            with contextlib.suppress(UsageError):
                parse_condition(text).of_file(columns)
    return listed


def footer_bytes(found: Any) -> bytes:
    """The last bytes of a file with such a footer."""
    return of_file(found)[1]


def _sound_footers() -> list[dict[int, Any]]:
    number, decimal, text = (
        leaf(b"n", 2),
        leaf(b"d", 6, field_10={5: {1: 2, 2: 10}}),
        leaf(b"t", 6, field_6=0),
    )
    unsigned = leaf(b"u", 1, field_10={10: {1: 32, 2: False}})
    moment = leaf(b"m", 2, field_10={8: {1: True, 2: {2: {}}}})
    of_number = column(2, b"\1" + bytes(7), b"\5" + bytes(7))
    of_unsigned = column(1, b"\1\0\0\0", b"\5\0\0\0")
    of_decimal, of_text = column(6, b"\0\1", b"\0\5"), column(6, b"a", b"z" * 90, 1)
    return [
        footer([number, decimal, text], [of_number, of_decimal, of_text], field_5=[{1: b"a", 2: b"b"}]),
        footer([unsigned, moment], [of_unsigned, of_number]),
    ]


def _read_parquet(raw: bytes) -> Any:
    """What a footer says, as its task hands it on: nothing at all may come out but that, or None."""
    try:
        found = read_footer(b"PAR1", raw)
        if found is None:
            return None
        extra = carried_by(found)
        [again] = footers_in([extra])
    except (FormatError, UsageError) as error:
        raise AssertionError(f"a footer of a file raised {error!r}") from error
    if again is None or (again.rows, again.metadata) != (found.rows, found.metadata):
        raise AssertionError(f"{found} is handed on as {again}")
    return _used(FileFooters(job_id=_JOB, files={"a": again}))


def _read_thrift(raw: bytes) -> Any:
    with contextlib.suppress(ThriftError):
        return read_struct(raw[:-8])
    return None


_CONDITIONS = (
    b"day < '2026-01-01' and region in ('eu', 'us') or not (n >= 2.5 and flag = true)",
    b'"a b" is not null and n not in (1, -2, 3e5)',
)


def _read_condition(raw: bytes) -> Any:
    condition = parse_condition(raw.decode("utf-8", "surrogateescape"))
    texts = ("NaN", "5", "-inf", "9" * 5000, "1e99999999999999999999", "true", "")
    return [condition.of_file(dict.fromkeys(condition.names, Values.one(text))) for text in texts]


def _read_partition(raw: bytes) -> Any:
    value = Values.one(raw.decode("utf-8", "surrogateescape"))
    for text in ("x < 7", "x = 5", "x in (1, 2.5)", "x != -1e300", "x = 'a'", "x = true"):
        with contextlib.suppress(UsageError):
            parse_condition(text).of_file({"x": value})


_CONFIGURATIONS = (
    b"<c><property><name>fs.s3a.committer.name</name><value>directory</value></property></c>",
    b"<?xml version='1.0'?><!DOCTYPE c [<!ENTITY a 'x'>]><c><property><name>&a;</name></property></c>",
    b"# a comment\nfs.s3a.committer.name=magic\nfs.s3a.threads 7\n=\n",
)
_OPTIONS = (
    b'{"fs.s3a.committer.name":"partitioned","fs.s3a.committer.threads":"-2","fs.s3a.multipart.size":"64M",'
    b'"fs.s3a.committer.staging.conflict-mode":"replace","mapreduce.fileoutputcommitter.marksuccessfuljobs":"x"}'
)


def _read_configuration(raw: bytes) -> Any:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(raw)
        given = argparse.Namespace(hadoop_conf=[file.name], cluster_user=None, cluster_directory=None)
        return storage.parse_cluster(given)


def _read_options(raw: bytes) -> Any:
    conf = document.parse(_PATH, raw, size_limit=_TEXT_MAX)
    return from_hadoop_conf(
        {name: value for name, value in conf.items() if isinstance(value, str)}, "s3://b/d"
    )


def _read_storage_options(raw: bytes) -> Any:
    return storage.parse_storage_options(_text(raw))


MUTANTS: Sequence[WrongLine] = (*bounds.MUTANTS, *footer_bounds.MUTANTS)
