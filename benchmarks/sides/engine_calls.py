"""``magicfs.write``, and what each engine writes with by itself, from rows that the engine holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import magicfs
from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, Place
from benchmarks.sides.fallbacks import Fallbacks

__all__ = ["EngineWriters", "Written"]


def _pandas(table: str) -> Any:
    return data.rows(table).to_pandas()


def _polars(table: str) -> Any:
    import polars as pl

    return pl.from_arrow(data.rows(table))


def _polars_lazy(table: str) -> Any:
    return _polars(table).lazy()


def _duckdb(table: str) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(data.rows(table))


_HELD: Final[Mapping[str, Callable[[str], Any]]] = {
    "pandas": _pandas,
    "pyarrow": data.rows,
    "polars": _polars_lazy,
    "duckdb": _duckdb,
}
"""The rows of a table as an engine holds them, before the clock runs."""


def _columns(partitioned: bool) -> list[str]:
    return list(data.PARTITION_COLUMNS) if partitioned else []


def _tasks(engine: str) -> int:
    """As is advised: one task lets Polars encode, by threads of its own."""
    return 1 if engine == "polars" else os.cpu_count() or 1


class Written:
    """``magicfs.write``, by as many tasks as the machine has processors, or as many threads of Polars."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._fallbacks = Fallbacks()

    def versions(self) -> dict[str, str]:
        return {"magicfs": magicfs.__version__}

    def write(self, clock: Clock, where: str, table: str, engine: str, partitioned: bool) -> dict[str, Any]:
        """From what an engine holds, to visible."""
        held = _HELD[engine](table)
        with clock("write"):
            magicfs.write(
                held,
                f"s3://{self._place.bucket}/{where}",
                partition_by=_columns(partitioned),
                tasks=_tasks(engine),
                concurrency=CONCURRENCY,
                storage_options=self._place.s3fs_options,
            )
        return {"fallbacks": self._fallbacks.taken()}


class EngineWriters:
    """What the engines have themselves, but DuckDB, whose client of S3 needs an environment of its own."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def versions(self) -> dict[str, str]:
        import pandas as pd
        import polars as pl
        import pyarrow as pa

        return {"pandas": pd.__version__, "polars": pl.__version__, "pyarrow": pa.__version__}

    def write(self, clock: Clock, where: str, table: str, engine: str, partitioned: bool) -> None:
        """From what the engine holds, to the store."""
        held = _HELD[engine](table)
        write = {"pandas": self._pandas, "pyarrow": self._pyarrow, "polars": self._polars}[engine]
        with clock("write"):
            write(held, where, _columns(partitioned))

    def _pandas(self, frame: Any, where: str, columns: list[str]) -> None:
        url = f"s3://{self._place.bucket}/{where}"
        frame.to_parquet(
            url if columns else f"{url}/part.parquet",
            partition_cols=columns or None,
            storage_options=self._place.s3fs_options,
        )

    def _pyarrow(self, table: Any, where: str, columns: list[str]) -> None:
        import pyarrow.dataset as ds

        ds.write_dataset(
            *(table, f"{self._place.bucket}/{where}"),
            filesystem=self._place.arrow(check_directory_existence_before_creation=False),
            format="parquet",
            partitioning=data.partitioning() if columns else None,
        )

    def _polars(self, frame: Any, where: str, columns: list[str]) -> None:
        import polars as pl

        url, options = f"s3://{self._place.bucket}/{where}/", self._place.object_store
        target: Any = pl.PartitionBy(url, key=columns, include_key=False) if columns else f"{url}part.parquet"
        frame.sink_parquet(target, storage_options=options)
