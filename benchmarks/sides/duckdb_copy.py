"""DuckDB's COPY, through its own S3 client.

That client is an extension, which PyPI has only for some releases of DuckDB; so this side runs in an
environment of its own, and imports nothing that is not there.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import duckdb

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import Place

__all__ = ["DuckdbCopy"]


class DuckdbCopy:
    """``COPY … TO … (PARTITION_BY …)``."""

    def __init__(self, place: Place) -> None:
        import duckdb_extensions

        duckdb_extensions.import_extension("httpfs")
        self._bucket = place.bucket
        self._connection = duckdb.connect()
        self._connection.execute("LOAD httpfs")
        endpoint = urlsplit(place.endpoint)
        self._connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{place.key}', SECRET '{place.secret}', "
            f"REGION '{place.region}', ENDPOINT '{endpoint.netloc}', URL_STYLE 'path', USE_SSL false)"
        )

    def versions(self) -> dict[str, str]:
        return {"duckdb": duckdb.__version__}

    def write_rows(self, clock: Clock, where: str, table: str, partitioned: bool = True) -> None:
        """A dataset of many partitions, or one file, compressed as pyarrow does by default."""
        rows = data.rows(table)
        self._connection.register("given", rows)
        columns = ", ".join(data.PARTITION_COLUMNS)
        options = "FORMAT parquet, COMPRESSION snappy"
        options += f", PARTITION_BY ({columns})" if partitioned else ""
        target = where if partitioned else f"{where}/part.parquet"
        with clock("write"):
            self._connection.execute(f"COPY given TO 's3://{self._bucket}/{target}' ({options})")
        self._connection.unregister("given")
