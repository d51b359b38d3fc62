"""Plain s3fs: every file is visible as soon as it is closed."""

from __future__ import annotations

from typing import Any

import s3fs

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, PART_BYTES, Place

__all__ = ["PlainS3fs"]


class PlainS3fs:
    """``s3fs.S3FileSystem``."""

    def __init__(self, place: Place) -> None:
        self._bucket = place.bucket
        self._filesystem = s3fs.S3FileSystem(**place.s3fs_options)

    def versions(self) -> dict[str, str]:
        import aiobotocore
        import fsspec

        return {
            "s3fs": s3fs.__version__,
            "aiobotocore": aiobotocore.__version__,
            "fsspec": fsspec.__version__,
        }

    def pipe(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Many files, one PUT each."""
        bodies = data.bodies(files, size)
        with clock():
            paths = {f"{self._bucket}/{where}/{name}": body for name, body in bodies.items()}
            self._filesystem.pipe(paths, batch_size=CONCURRENCY)

    def one_by_one(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Files opened, written and closed one after the other."""
        bodies = data.bodies(files, size)
        with clock():
            for name, body in bodies.items():
                with self._filesystem.open(f"{self._bucket}/{where}/{name}", "wb") as file:
                    file.write(body)

    def stream(self, clock: Clock, where: str, mebibytes: int) -> None:
        """One large file."""
        path = f"{self._bucket}/{where}/big.bin"
        with clock(), self._filesystem.open(path, "wb", block_size=PART_BYTES) as file:
            for block in data.blocks(mebibytes):
                file.write(block)

    def write_rows(self, clock: Clock, where: str, table: str) -> None:
        """A dataset of many partitions."""
        import pyarrow.dataset as ds

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
        import pyarrow.dataset as ds

        self._filesystem.invalidate_cache()
        path = f"{self._bucket}/{where}"
        with clock("read"):
            found = ds.dataset(path, filesystem=self._filesystem, partitioning="hive").to_table()
        return {"rows": found.num_rows}
