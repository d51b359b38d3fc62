"""Daft: ``magicfs.daft.write_parquet``, and the ``MagicDataSink`` behind it.

::

    report = magicfs.daft.write_parquet(
        df, "s3://bucket/sales", partition_by="day", mode="overwrite_partitions"
    )
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from magicfs.engines.arrow_sink import ArrowSink
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport

try:
    from daft import DataType, Schema
    from daft.io.sink import DataSink, WriteResult
    from daft.recordbatch import MicroPartition
except ImportError as _error:
    raise ImportError("magicfs.daft needs Daft: pip install 'magicfs[daft]'") from _error

if TYPE_CHECKING:
    from daft import DataFrame

__all__ = ["MagicDataSink", "write_parquet"]

_TASK_BYTES = 6


class MagicDataSink(ArrowSink, DataSink):
    """Publishes what ``df.write_sink`` writes, all or nothing, as files.

    One sink is one job: use it once. Its arguments are ``url``, ``partition_by``, ``file_format``,
    ``check_schema`` and those of ``magicfs.Job``; ``job.report`` is the result. Daft does not notify a sink
    of a failure: use the sink's job in a ``with`` block, as ``write_parquet`` does, to abort it. Each
    micropartition is a task.
    """

    def name(self) -> str:
        """The name of the sink in plans."""
        return "magicfs"

    def schema(self) -> Any:
        """The schema of the row about the job that ``write_sink`` returns."""
        return Schema.from_pydict({"job_id": DataType.string(), "files": DataType.int64()})

    def start(self) -> None:
        """Set the job up, unless it is; Daft pickles the sink for the tasks afterwards."""
        self._set_up()

    def write(self, micropartitions: Iterator[Any]) -> Iterator[Any]:
        """Write some micropartitions, in a worker; yields one commit."""
        # Daft numbers no tasks; what ran twice is distinguished by what it accepted.
        task = ids.task_id(f"t{secrets.token_hex(_TASK_BYTES)}")
        commit = self._commit(task, (one.to_arrow() for one in micropartitions))
        yield WriteResult(result=commit, bytes_written=commit.bytes, rows_written=commit.rows or 0)

    def finalize(self, write_results: list[Any]) -> Any:
        """Publish the commits that Daft has accepted."""
        commits: list[TaskCommit] = [one.result for one in write_results]
        report = self.job.commit(commits)
        return MicroPartition.from_pydict({"job_id": [report.job_id], "files": [report.files]})


def write_parquet(
    df: DataFrame,
    url: str,
    *,
    partition_by: str | Sequence[str] = (),
    mode: WriteMode = "error",
    run_id: str | None = None,
    check_schema: bool = True,
    **job: Any,
) -> JobReport:
    """Publish a frame of Daft as Parquet, all or nothing, on its native runner or on Ray's.

    A second call writes again, according to ``mode``; with the same ``run_id`` it computes and publishes
    nothing and returns a report that is ``published_before``.

    Args:
        df: The frame.
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: Columns whose values become directories, outermost first.
        mode: What to do about existing data: ``error``, ``append``, ``overwrite`` or
            ``overwrite_partitions``.
        run_id: Name of the run, such as a scheduler's: it is published once, no matter how often you run it.
        check_schema: With ``append`` or ``overwrite_partitions``, whether to compare the rows with one
            existing file and refuse rows that do not fit it.
        **job: Other arguments of ``magicfs.Job``, such as ``storage_options``, whose secrets stay in this
            process, or ``progress`` for the commit; Daft shows its own progress while it writes.

    Returns:
        The report of the job.

    Raises:
        UsageError: The rows do not fit the existing ones; no task has run.
        MagicError: As ``Job.setup`` and ``Job.commit``.
        Exception: What Daft raises for a failed task.
    """
    sink = MagicDataSink(
        url, partition_by=partition_by, mode=mode, run_id=run_id, check_schema=check_schema, **job
    )
    return sink.publish(lambda: df.write_sink(sink), df.schema().to_pyarrow_schema())
