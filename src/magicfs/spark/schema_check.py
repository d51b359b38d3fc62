"""Whether the rows of a frame fit those that stay, before a task runs or a batch is visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magicfs.errors import UsageError
from magicfs.job.job import Job
from magicfs.spark.options import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["check_rows"]

_ADVICE = "cast the columns, or check_schema=False (as option checkSchema='false') writes them as they are"


def check_rows(job: Job, chosen: WriteOptions, frame: StructType) -> None:
    """Abort the job and raise UsageError where rows of the frame do not fit those that stay.

    Three small reads, and none for a format other than Parquet, or a mode that leaves nothing.
    """
    if not chosen.check_schema:
        return
    from magicfs.spark.schema import arrow_schema
    from magicfs.tables.append_check import check_rows_fit

    columns = chosen.partition_cols
    arrow = arrow_schema(frame, columns)
    try:
        check_rows_fit(job.spec, arrow, chosen.file_format, partition_by=columns, advice=_ADVICE)
    except UsageError as error:
        try:
            job.abort()
        except Exception as second:  # noqa: BLE001 - the first error must not be hidden
            error.add_note(f"and job {job.id} could not be aborted whole: {second}")
        raise
