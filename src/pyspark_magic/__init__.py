"""Where Spark looks for ``format("magic")``: it imports every package whose name begins with ``pyspark_``.

One that fails to import, or takes long, does so for every Python data source of a session. So this module
needs nothing but pyspark, does without even that, and leaves the work to ``magicfs.spark``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType
else:
    try:
        from pyspark.sql.datasource import DataSource
    except Exception:  # noqa: BLE001 - whatever is wrong with pyspark, this is not the place to say so
        DataSource = object

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """``df.write.format("magic").mode("append").save("s3://bucket/dataset")``."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "magic"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer for one frame; called by Spark, on the driver's machine.

        Raises:
            MagicError: The options, the schema or the destination cannot be right; no task was started.
        """
        self._require_arrow_writer()
        from magicfs.spark.datasource import make_writer

        return make_writer(self.options, schema, overwrite)

    def schema(self) -> NoReturn:
        """Refuse to read."""
        raise self._usage_error("format('magic') only writes; read the dataset with spark.read.parquet(path)")

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """A writer for the batches of a stream; called by Spark, for every batch twice.

        Raises:
            MagicError: The options or the schema cannot be right; no task was started.
        """
        self._require_arrow_writer()
        from magicfs.spark.stream_writer import make_stream_writer

        return make_stream_writer(self.options, schema, overwrite)

    def _require_arrow_writer(self) -> None:
        from pyspark.sql import datasource

        if not hasattr(datasource, "DataSourceArrowWriter"):
            raise self._usage_error(
                "this pyspark cannot hand Arrow batches to a writer; pip install 'pyspark>=4.1'"
            )

    @staticmethod
    def _usage_error(message: str) -> Any:
        from magicfs.errors import UsageError

        return UsageError(message)
