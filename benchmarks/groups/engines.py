"""``magicfs.write`` beside what each engine writes with by itself, on SeaweedFS."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import data
from benchmarks.crew import LONG_S, Side, Turn, crew, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import on_seaweedfs
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES: Final = {
    "magicfs": "benchmarks.sides.engine_calls:Written",
    "engines": "benchmarks.sides.engine_calls:EngineWriters",
    "duckdb": "benchmarks.sides.duckdb_copy:DuckdbCopy",
}
_SHAPES: Final = ("partitions", "whole")
_ENGINES: Final = ("pandas", "pyarrow", "polars", "duckdb")


def measure(session: Session) -> Mapping[str, Figure]:
    """Time of ``magicfs.write`` against the engine's own, with 21 partitions and with none."""
    count = session.size(2_000_000, 100_000)
    figures: dict[str, Figure] = {}
    with tempfile.TemporaryDirectory() as directory, on_seaweedfs(session) as bucket:
        table = Path(directory) / "rows.arrow"
        data.save_rows(table, count)
        with crew(session, _SIDES, bucket.place, frozenset({"duckdb"})) as sides:
            for shape in _SHAPES:
                turns = _turns(sides, shape, str(table))
                written = take_turns(session, turns, partial(bucket.take_rows, rows=count), round_s=LONG_S)
                for engine in _ENGINES:
                    if f"{shape}-{engine}-own" not in written.turns:
                        continue
                    own, ours = f"{shape}-{engine}-own", f"{shape}-{engine}-magicfs"
                    name = f"write_{shape}_vs_{engine}"
                    figures[name] = ratio_of(written.wall_s(ours, "write"), written.wall_s(own, "write"))
                    figures[f"{name}_cpu"] = ratio_of(
                        written.cpu_s(ours, "write"), written.cpu_s(own, "write")
                    )
    return figures


def _turns(sides: Mapping[str, Side], shape: str, table: str) -> dict[str, Callable[[str], Turn]]:
    """For each engine its own writer, then ours."""
    turns: dict[str, Callable[[str], Turn]] = {}
    for engine in _ENGINES:
        for whose in ("own", "magicfs"):
            if engine == "duckdb" and "duckdb" not in sides:
                continue
            turns[f"{shape}-{engine}-{whose}"] = partial(_turn, sides, shape, engine, whose, table)
    return turns


def _turn(sides: Mapping[str, Side], shape: str, engine: str, whose: str, table: str, where: str) -> Turn:
    partitioned = shape == "partitions"
    if whose == "magicfs":
        return sides["magicfs"].do("write", where, table=table, engine=engine, partitioned=partitioned)
    if engine == "duckdb":
        return sides["duckdb"].do("write_rows", where, table=table, partitioned=partitioned)
    return sides["engines"].do("write", where, table=table, engine=engine, partitioned=partitioned)
