"""The result as it must be: the same joins by pyarrow alone, from the same files, by no way of magicfs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from examples.flights import delays, flights

__all__ = ["expected_dataset"]


def expected_dataset(files: dict[str, Path]) -> pa.Table:
    """Every flight once, with its weather, its plane and its delay explained."""
    departures, weather, planes = (flights.read(table, files[table.file]) for table in flights.TABLES)
    joined = departures.join(_unique(weather, ["origin", "time_hour"]), ["origin", "time_hour"])
    joined = joined.join(_unique(planes, ["tailnum"]), ["tailnum"])
    explained = delays.explain(joined.select(delays.INPUTS).to_pandas())
    for name in delays.OUTPUTS:
        joined = joined.append_column(name, pa.array(explained[name], pa.float64(), from_pandas=True))
    return joined.combine_chunks()


def _unique(table: pa.Table, keys: list[str]) -> pa.Table:
    """The table itself, once it is sure that a left join keeps every flight exactly once."""
    distinct = table.group_by(keys).aggregate([]).num_rows
    if distinct != table.num_rows:
        raise ValueError(f"{table.num_rows} rows have {distinct} different {', '.join(keys)}")
    return table
