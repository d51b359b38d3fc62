"""Dask: ``magicfs.dask.to_parquet``, on a cluster or on any local scheduler.

::

    report = magicfs.dask.to_parquet(
        ddf, "s3://bucket/sales", partition_by="day", mode="overwrite_partitions"
    )

To run your own functions, pass Dask's client: ``job.map(function, range(100), executor=client)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from magicfs.engines.arrow_output import ArrowOutput
from magicfs.engines.arrow_sink import report_of_same_run
from magicfs.errors import ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.checks import with_defaults
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport

try:
    import dask
    from dask.base import get_scheduler
except ImportError as _error:
    raise ImportError("magicfs.dask needs Dask: pip install 'magicfs[dask]'") from _error

if TYPE_CHECKING:
    from dask.dataframe import DataFrame

__all__ = ["to_parquet"]


def to_parquet(
    ddf: DataFrame,
    url: str,
    *,
    partition_by: str | Sequence[str] = (),
    mode: WriteMode = "error",
    index: bool = True,
    run_id: str | None = None,
    retries: int = 3,
    client: Any = None,
    check_schema: bool = True,
    **job: Any,
) -> JobReport:
    """Publish a Dask frame as Parquet, all or nothing: each of its partitions is a task.

    On a cluster, Dask retries a partition that raised or lost its worker, and the first attempt leaves no
    trace. If the write fails, it waits for all partitions that have started, and nothing is visible. A second
    call writes again, according to ``mode``; with the same ``run_id`` it computes and publishes nothing and
    returns a report that is ``published_before``.

    Args:
        ddf: The frame.
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: Columns whose values become directories, outermost first.
        mode: What to do about existing data: ``error``, ``append``, ``overwrite`` or
            ``overwrite_partitions``.
        index: Whether to write the index, too.
        run_id: Name of the run, such as a scheduler's: it is published once, no matter how often you run it.
        retries: How often the cluster retries a failed partition; local schedulers do not retry.
        client: Dask's client; by default the scheduler that Dask would use.
        check_schema: With ``append`` or ``overwrite_partitions``, whether to compare the rows with one
            existing file and refuse rows that do not fit it: by the frame's meta before a partition is
            computed, and for object columns, whose type only partitions know, before it is written.
        **job: Other arguments of ``magicfs.Job``, such as ``storage_options``, whose secrets stay in this
            process.

    Returns:
        The report of the job.

    Raises:
        UsageError: ``client`` is not a client of Dask, a partition column is missing, or rows do not fit what
            is there; nothing was changed.
        MagicError: As ``Job.setup`` and ``Job.commit``.
        Exception: The last error of a partition.
    """
    output = ArrowOutput.of(partition_by, "parquet")
    schema = _schema(ddf, index=index)
    output.check(schema)
    if client is not None and not hasattr(client, "submit"):
        raise UsageError(f"client is {client!r:.80}; pass a distributed.Client, or leave it out")
    with Job(url, mode=mode, run_id=run_id, **with_defaults(job, tracking="memory")) as made:
        if (report := report_of_same_run(made)) is not None:
            return report
        if check_schema:
            output = output.beside_rows_of(made.spec)
            output.check(schema)
        if client is None:
            client = getattr(get_scheduler(collections=[ddf]), "__self__", None)
        parts = ddf.to_delayed()
        write = dask.delayed(_write, pure=False)
        if hasattr(client, "submit"):
            writes = [write(part, _Tasks(made, n), output, index) for n, part in enumerate(parts)]
            with client.as_current():  # it need not be the default one
                return made.commit(_on_cluster(client, writes, made.id, retries))
        # In threads of this process a task knows its job, and what runs on after an error is not committed.
        writes = [write(part, made.task(n), output, index) for n, part in enumerate(parts)]
        return made.commit(dask.compute(*writes))


class _Tasks:
    """Makes a task for each attempt: a cluster in this process runs the same object again."""

    def __init__(self, job: Job, number: int) -> None:
        self._spec, self._id = job.spec, job.task(number).id

    def __call__(self) -> Task:
        from distributed import Event

        if Event(_stop_name(self._spec.job)).is_set():
            raise ProtocolViolation(
                f"task {self._id} was not started: another task of job {self._spec.job} failed"
            )
        return Task(self._spec, self._id, is_elsewhere=True)


def _stop_name(job: str) -> str:
    return f"magicfs-{job}-failed"


def _on_cluster(client: Any, writes: Sequence[Any], job: str, retries: int) -> list[TaskCommit]:
    """Compute on a cluster. Raises what a partition raised, once no partition is being written any more.

    A partition that the scheduler starts while others are being cancelled sees the event and writes nothing.
    Nothing stays with the scheduler: it would compute what a worker holds again once that has died.
    """
    from distributed import Event, as_completed, wait

    stop = Event(_stop_name(job), client=client)
    futures = client.compute(list(writes), retries=retries)
    try:
        for future in as_completed(futures):
            if future.status != "finished":
                stop.set()
                begun = {key for keys in client.processing().values() for key in keys}
                client.cancel([one for one in futures if not one.done() and one.key not in begun])
                wait([one for one in futures if one.key in begun])
                stop.clear()
                future.result()
        commits: list[TaskCommit] = client.gather(futures)
    finally:
        client.cancel(futures, force=True)
    return commits


def _write(frame: Any, task: Task | _Tasks, output: ArrowOutput, index: bool) -> TaskCommit:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=index)
    return output.commit(task if isinstance(task, Task) else task(), [table])


def _schema(ddf: DataFrame, *, index: bool) -> Any:
    import pyarrow as pa

    return pa.Schema.from_pandas(ddf._meta, preserve_index=index)  # noqa: SLF001 - Dask's word for it
