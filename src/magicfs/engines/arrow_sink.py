"""A job as engines see it that call a sink in every task, as Ray Data and Daft do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from magicfs.engines.arrow_output import ArrowOutput
from magicfs.job.checks import with_defaults
from magicfs.job.job import Job
from magicfs.job.late_tasks import sweep_again
from magicfs.job.task import Task
from magicfs.report import JobReport

if TYPE_CHECKING:
    import pyarrow as pa

    from magicfs.formats.task_commit import TaskCommit
    from magicfs.protocol.ids import TaskId


class ArrowSink:
    """One job, whose tasks write Arrow tables. It is used once.

    Args:
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: Columns whose values become directories, outermost first.
        file_format: As pyarrow names it: ``parquet``, ``csv``, ``feather`` or ``orc``.
        check_schema: With Parquet, and ``append`` or ``overwrite_partitions``, whether to compare the rows
            with one existing file first and refuse rows that do not fit it.
        **job: Arguments of ``magicfs.Job``; the default of option ``tracking`` is ``memory``.

    Attributes:
        job: The job; its ``report`` is the result.
    """

    def __init__(
        self,
        url: str,
        *,
        partition_by: str | Sequence[str] = (),
        file_format: str = "parquet",
        check_schema: bool = True,
        **job: Any,
    ) -> None:
        self.job: Job = Job(url, **with_defaults(job, tracking="memory"))
        self._output = ArrowOutput.of(partition_by, file_format)
        self._checks = check_schema

    def publish(self, run: Callable[[], Any], schema: pa.Schema | None = None) -> JobReport:
        """Set the job up, have the engine run, which commits it, and abort it if that raises.

        Where the same run is published already, nothing is run. Nor is it where the rows' schema is known and
        does not fit: UsageError. An engine that has failed ends its other tasks a little later: what these
        leave is looked for once more, for some seconds.
        """
        began = False
        try:
            with self.job as made:
                if (report := report_of_same_run(made)) is not None:
                    return report
                self._set_up()
                if schema is not None:
                    self._output.check(schema)
                began = True
                run()
        except Exception:
            if began:
                sweep_again(self.job.spec)
            raise
        return made.report

    def _set_up(self) -> None:
        """Set the job up, unless it is, and learn what its rows must fit, which is pickled for tasks."""
        self.job.setup()
        if self._checks and self.job.found.published is None:
            self._output, self._checks = self._output.beside_rows_of(self.job.spec), False

    def _commit(self, task_id: TaskId, tables: Iterable[pa.Table]) -> TaskCommit:
        """The whole of one task, in a worker."""
        return self._output.commit(Task(self.job.spec, task_id, is_elsewhere=True), tables)


def report_of_same_run(job: Job) -> JobReport | None:
    """End a job whose run is published already, so that nothing needs to be computed; None if it is not."""
    if job.found.published is None or job.spec.options.rerun != "skip":
        return None
    return job.commit(())
