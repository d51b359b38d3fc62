"""A job as engines see it that call a sink in every task, as Ray Data and Daft do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from magicfs.engines.arrow_output import ArrowOutput
from magicfs.engines.late_tasks import discard_if_ended, sweep_again
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.report import JobReport

if TYPE_CHECKING:
    import pyarrow as pa

    from magicfs.formats.task_commit import TaskCommit
    from magicfs.protocol.ids import TaskId

__all__ = ["ArrowSink", "report_of_same_run"]


class ArrowSink:
    """One job, whose tasks write Arrow tables. It is used once.

    Args:
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: Columns whose values become directories, outermost first.
        file_format: As pyarrow names it: ``parquet``, ``csv``, ``feather`` or ``orc``.
        **job: What ``magicfs.Job`` takes; ``tracking`` is ``memory`` if it is not given.

    Attributes:
        job: The job; its ``report`` says what was published.
    """

    def __init__(
        self, url: str, *, partition_by: str | Sequence[str] = (), file_format: str = "parquet", **job: Any
    ) -> None:
        self.job = Job(url, **{"tracking": "memory", **job})
        self._output = ArrowOutput.of(partition_by, file_format)

    def publish(self, run: Callable[[], Any]) -> JobReport:
        """Set the job up, have the engine run, which commits it, and abort it if that raises.

        Where the same run is published already, nothing is run. An engine that has failed ends its other
        tasks a little later: what these leave is looked for once more, for some seconds.
        """
        try:
            with self.job as made:
                if (report := report_of_same_run(made)) is not None:
                    return report
                run()
        except Exception:
            sweep_again(self.job.spec)
            raise
        return made.report

    def _commit(self, task_id: TaskId, tables: Iterable[pa.Table]) -> TaskCommit:
        """The whole of one task, in a worker."""
        commit = self._output.commit(Task(self.job.spec, task_id), tables)
        discard_if_ended(self.job.spec, commit)
        return commit


def report_of_same_run(job: Job) -> JobReport | None:
    """End a job whose run is published already, so that nothing needs to be computed; None if it is not."""
    if job.found.published is None or job.spec.rerun != "skip":
        return None
    return job.commit(())
