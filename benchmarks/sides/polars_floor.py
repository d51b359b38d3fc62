"""The least that a writer does whose files become visible later: three requests a file instead of one."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import obstore
import polars as pl

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, PART_BYTES, Place
from benchmarks.sides.obstore_s3 import store_of

__all__ = ["PolarsFloor"]


class PolarsFloor:
    """Polars encodes into memory. obstore creates, uploads and completes each file. There is no job."""

    def __init__(self, place: Place) -> None:
        self._store = store_of(place)

    def versions(self) -> dict[str, str]:
        return {"polars": pl.__version__}

    def write(self, clock: Clock, where: str, table: str, partitioned: bool) -> None:
        """From a LazyFrame to visible."""
        frame: Any = pl.from_arrow(data.rows(table))
        files: dict[str, io.BytesIO] = {}

        def begin(file: Any = None) -> io.BytesIO:
            values = {} if file is None else file.partition_keys.row(0, named=True)
            key = "/".join([where, *(f"{name}={value}" for name, value in values.items()), "part.parquet"])
            return files.setdefault(key, io.BytesIO())

        def put(key: str) -> None:
            parts = {"chunk_size": PART_BYTES, "max_concurrency": CONCURRENCY}
            obstore.put(self._store, key, files[key].getbuffer(), use_multipart=True, **parts)

        keys = list(data.PARTITION_COLUMNS)
        partitions: Any = pl.PartitionBy("", key=keys, include_key=False, file_path_provider=begin)
        with clock("write"), ThreadPoolExecutor(CONCURRENCY) as pool:
            frame.lazy().sink_parquet(partitions if partitioned else begin())
            list(pool.map(put, files))
