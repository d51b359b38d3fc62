"""pyarrow's own S3 filesystem, on Amazon's SDK for C++."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import Place

__all__ = ["ArrowS3"]


class ArrowS3:
    """``pyarrow.fs.S3FileSystem``. It chooses the size of parts itself."""

    def __init__(self, place: Place) -> None:
        self._bucket = place.bucket
        self._filesystem = place.arrow()

    def versions(self) -> dict[str, str]:
        return {"pyarrow": pa.__version__}

    def one_by_one(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Files opened, written and closed one after the other."""
        bodies = data.bodies(files, size)
        with clock():
            for name, body in bodies.items():
                with self._filesystem.open_output_stream(f"{self._bucket}/{where}/{name}") as file:
                    file.write(body)

    def stream(self, clock: Clock, where: str, mebibytes: int) -> None:
        """One large file."""
        with clock(), self._filesystem.open_output_stream(f"{self._bucket}/{where}/big.bin") as file:
            for block in data.blocks(mebibytes):
                file.write(block)

    def write_rows(self, clock: Clock, where: str, table: str) -> None:
        """A dataset of many partitions."""
        rows, partitioning = data.rows(table), data.partitioning()
        with clock("write"):
            ds.write_dataset(
                *(rows, f"{self._bucket}/{where}"),
                filesystem=self._filesystem,
                format="parquet",
                partitioning=partitioning,
                existing_data_behavior="overwrite_or_ignore",
            )

    def read_rows(self, clock: Clock, where: str) -> dict[str, Any]:
        """The dataset by a listing, and all its rows."""
        path = f"{self._bucket}/{where}"
        with clock("read"):
            found = ds.dataset(path, filesystem=self._filesystem, partitioning="hive").to_table()
        return {"rows": found.num_rows}
