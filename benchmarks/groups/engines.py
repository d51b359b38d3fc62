"""``magicfs.write`` beside what each engine writes with by itself, on SeaweedFS."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import data
from benchmarks.crew import LONG_S, Measured, Side, Turn, crew, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import on_seaweedfs
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES: Final = {
    "magicfs": "benchmarks.sides.engine_calls:Written",
    "engines": "benchmarks.sides.engine_calls:EngineWriters",
    "floor": "benchmarks.sides.polars_floor:PolarsFloor",
    "duckdb": "benchmarks.sides.duckdb_copy:DuckdbCopy",
}
_SHAPES: Final = ("partitions", "whole")
_ENGINES: Final = ("pandas", "pyarrow", "polars", "duckdb")


def measure(session: Session) -> Mapping[str, Figure]:
    """Time and bytes of ``magicfs.write`` against the engine's own, with 21 partitions and with none.

    Each compresses as it does by default.
    """
    count = session.size(2_000_000, 100_000)
    figures: dict[str, Figure] = {}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory, on_seaweedfs(session) as bucket:
        table = Path(directory) / "rows.arrow"
        data.save_rows(table, count)

        def take(where: str) -> None:
            sizes[where.split("-", 2)[2]] = bucket.take_rows(where, rows=count)

        with crew(session, _SIDES, bucket.place, frozenset({"duckdb"})) as sides:
            for shape in _SHAPES:
                turns = _turns(sides, shape, str(table))
                figures |= _compared(take_turns(session, turns, take, round_s=LONG_S), sizes)
    return figures


def _compared(written: Measured, sizes: Mapping[str, int]) -> Iterator[tuple[str, Figure]]:
    for ours in written.turns:
        what, _, whose = ours.rpartition("-")
        if whose == "magicfs":
            name, own = f"write_{what.replace('-', '_vs_')}", f"{what}-own"
            yield name, ratio_of(written.wall_s(ours, "write"), written.wall_s(own, "write"))
            yield f"{name}_cpu", ratio_of(written.cpu_s(ours, "write"), written.cpu_s(own, "write"))
            yield f"{name}_bytes", Figure.exact(sizes[ours] / sizes[own])
        elif whose == "floor":
            shape = what.partition("-")[0]
            least, theirs = written.wall_s(ours, "write"), written.wall_s(f"{what}-own", "write")
            yield f"write_{shape}_floor_vs_polars", ratio_of(least, theirs)
            yield f"write_{shape}_vs_floor", ratio_of(written.wall_s(f"{what}-magicfs", "write"), least)


def _turns(sides: Mapping[str, Side], shape: str, table: str) -> dict[str, Callable[[str], Turn]]:
    """For each engine its own writer, then ours; for Polars also the floor."""
    turns: dict[str, Callable[[str], Turn]] = {}
    for engine in _ENGINES:
        for whose in ("own", "magicfs"):
            if engine == "duckdb" and "duckdb" not in sides:
                continue
            turns[f"{shape}-{engine}-{whose}"] = partial(_turn, sides, shape, engine, whose, table)
        if engine == "polars":
            turns[f"{shape}-{engine}-floor"] = partial(_turn, sides, shape, engine, "floor", table)
    return turns


def _turn(sides: Mapping[str, Side], shape: str, engine: str, whose: str, table: str, where: str) -> Turn:
    partitioned = shape == "partitions"
    if whose == "magicfs":
        return sides["magicfs"].do("write", where, table=table, engine=engine, partitioned=partitioned)
    if whose == "floor":
        return sides["floor"].do("write", where, table=table, partitioned=partitioned)
    if engine == "duckdb":
        return sides["duckdb"].do("write_rows", where, table=table, partitioned=partitioned)
    return sides["engines"].do("write", where, table=table, engine=engine, partitioned=partitioned)
