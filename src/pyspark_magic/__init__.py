"""Where Spark looks for ``format("magic")``: it imports every package whose name begins with ``pyspark_``.

One that fails to import, or takes long, does so for every Python data source of a session. So this module
needs nothing but pyspark, does without even that, and leaves the work to ``magicfs.spark``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType
else:
    try:
        from pyspark.sql.datasource import DataSource
    except Exception:  # noqa: BLE001 - whatever is wrong with pyspark, this is not the place to say so
        DataSource = object

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """``df.write.format("magic").mode("append").save("s3://bucket/dataset")``."""

    _job: str | None = None

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

    def schema(self) -> StructType:
        """The columns of a dataset; called by Spark once for each ``load`` without a schema.

        The instant of the dataset is fixed with it, and goes to ``reader`` in the pickle of this.

        Raises:
            MagicError: The options cannot be right, or nothing was published.
        """
        from magicfs.spark.published.reader import find_schema

        found, self._job = find_schema(self.options)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the published files; called by Spark for every query, on the driver's machine.

        Raises:
            MagicError: The options or the schema cannot be right.
        """
        from magicfs.spark.published.reader import make_reader

        return make_reader(self.options, schema, self._job)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """A writer for the batches of a stream; called by Spark, for every batch twice.

        Raises:
            MagicError: The options or the schema cannot be right; no task was started.
        """
        self._require_arrow_writer()
        from magicfs.spark.stream_writer import make_stream_writer

        return make_stream_writer(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """A reader of what jobs publish from now on; called by Spark on the driver's machine.

        Raises:
            MagicError: The options or the schema cannot be right.
        """
        from magicfs.spark.published.stream import make_stream_reader

        return make_stream_reader(self.options, schema)

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
