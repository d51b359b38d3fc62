"""Polars' sink, which writes partitions by itself."""

from __future__ import annotations

import polars as pl

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import Place

__all__ = ["PolarsSink"]


class PolarsSink:
    """``LazyFrame.sink_parquet`` with ``PartitionBy``."""

    def __init__(self, place: Place) -> None:
        self._bucket = place.bucket
        self._options = place.object_store

    def versions(self) -> dict[str, str]:
        return {"polars": pl.__version__}

    def write_rows(self, clock: Clock, where: str, table: str) -> None:
        """A dataset of many partitions, compressed as pyarrow does by default."""
        frame = pl.from_arrow(data.rows(table))
        assert isinstance(frame, pl.DataFrame)
        url = f"s3://{self._bucket}/{where}/"
        target = pl.PartitionBy(url, key=list(data.PARTITION_COLUMNS), include_key=False)
        with clock("write"):
            frame.lazy().sink_parquet(target, storage_options=self._options, compression="snappy")
