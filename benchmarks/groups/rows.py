"""A dataset of many partitions, written and read with pyarrow, on SeaweedFS."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.crew import LONG_S, WARM_UP, Side, Turn, crew, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import Bucket, on_seaweedfs
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES = {
    "magicfs": "benchmarks.sides.ours:Ours",
    "s3fs": "benchmarks.sides.plain_s3fs:PlainS3fs",
    "pyarrow": "benchmarks.sides.arrow_s3:ArrowS3",
    "polars": "benchmarks.sides.polars_sink:PolarsSink",
    "duckdb": "benchmarks.sides.duckdb_copy:DuckdbCopy",
    "awswrangler": "benchmarks.sides.wrangler:Wrangler",
}
_OPTIONAL = frozenset({"polars", "duckdb", "awswrangler"})
_READERS = ("magicfs", "s3fs", "pyarrow")


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of time: of writing against every side, of reading what magicfs has written."""
    count = session.size(6_000_000, 200_000)
    with tempfile.TemporaryDirectory() as directory, on_seaweedfs(session) as bucket:
        table, few = Path(directory) / "rows.arrow", Path(directory) / "few.arrow"
        data.save_rows(table, count)
        data.save_rows(few, count // 10)

        def turn(side: Side, where: str) -> Turn:
            return side.do("write_rows", where, table=str(few if where.startswith(WARM_UP) else table))

        def take(where: str) -> None:
            bucket.take_rows(where, rows=count // 10 if where.startswith(WARM_UP) else count)

        with crew(session, _SIDES, bucket.place, _OPTIONAL) as sides:
            turns = {name: partial(turn, side) for name, side in sides.items()}
            written = take_turns(session, turns, take, optional=_OPTIONAL, round_s=LONG_S)
            figures = _read(session, bucket, sides, str(table), count)
    ours = written.wall_s("magicfs", "write")
    for name in written.turns:
        if name != "magicfs":
            figures[f"rows_vs_{name}"] = ratio_of(ours, written.wall_s(name, "write"))
            figures[f"rows_cpu_vs_{name}"] = ratio_of(
                written.cpu_s("magicfs", "write"), written.cpu_s(name, "write")
            )
    return figures | {f"rows_{name}_s": Figure.of(written.wall_s(name, "write")) for name in written.turns}


def _read(
    session: Session, bucket: Bucket, sides: Mapping[str, Side], table: str, count: int
) -> dict[str, Figure]:
    """Of the same files, which a job has published."""
    where = "to-read"
    sides["magicfs"].do("write_rows", where=where, table=table)
    turns = {name: lambda _, name=name: sides[name].do("read_rows", where=where) for name in _READERS}
    read = take_turns(session, turns)
    bucket.clear(where)
    for name, taken in read.turns.items():
        assert all(turn.values["rows"] == count for turn in taken), name
    ours = read.wall_s("magicfs", "read")
    figures = {f"read_vs_{name}": ratio_of(ours, read.wall_s(name, "read")) for name in ("s3fs", "pyarrow")}
    return figures | {f"read_{name}_s": Figure.of(read.wall_s(name, "read")) for name in read.turns}
