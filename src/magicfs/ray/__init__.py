"""Ray: ``magicfs.ray.write_parquet``, the ``MagicDatasink`` behind it, and an executor for ``Job.map``.

::

    report = magicfs.ray.write_parquet(
        ds, "s3://bucket/sales", partition_by="day", mode="overwrite_partitions"
    )
    job.map(function, range(100), executor=magicfs.ray.RayExecutor())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from magicfs.engines.arrow_sink import ArrowSink
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport

try:
    import ray
    from ray.data import Datasink
    from ray.data.block import BlockAccessor
except ImportError as _error:
    raise ImportError("magicfs.ray needs Ray Data: pip install 'magicfs[ray]'") from _error

if TYPE_CHECKING:
    from ray.data import Dataset
    from ray.data._internal.execution.interfaces import TaskContext
    from ray.data.datasource import WriteResult

__all__ = ["MagicDatasink", "RayExecutor", "write_parquet"]


class MagicDatasink(ArrowSink, Datasink):
    """Publishes what ``ds.write_datasink`` writes, all or nothing, as files.

    One sink is one job: use it once. Its arguments are ``url``, ``partition_by``, ``file_format``,
    ``check_schema`` and those of ``magicfs.Job``; ``job.report`` is the result. Ray retries a write task
    whose worker died, and one that raised only with ``ray_remote_args={"retry_exceptions": True}``.
    """

    def on_write_start(self, schema: Any = None) -> None:  # noqa: ARG002 - Ray's
        """Set the job up, unless it is; Ray pickles the sink for the tasks afterwards."""
        self._set_up()

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> TaskCommit:
        """Write one task's blocks, in a worker; returns its commit."""
        return self._commit(ids.task_id(ctx.task_idx), _tables(blocks))

    def on_write_complete(self, write_result: WriteResult[TaskCommit]) -> None:
        """Publish the commits that Ray has accepted."""
        self.job.setup()  # Ray does not call on_write_start if there is no block
        self.job.commit(write_result.write_returns)

    def on_write_failed(self, error: Exception) -> None:
        """Abort the job, unless it has ended or is past its commit point."""
        self.job.__exit__(type(error), error, None)

    def get_name(self) -> str:
        """The name of the write tasks."""
        return "Magic"


def write_parquet(
    ds: Dataset,
    url: str,
    *,
    partition_by: str | Sequence[str] = (),
    mode: WriteMode = "error",
    run_id: str | None = None,
    retries: int | None = None,
    tasks: int | None = None,
    check_schema: bool = True,
    **job: Any,
) -> JobReport:
    """Publish a dataset of Ray Data as Parquet, all or nothing.

    Ray retries a task that lost its worker, and the first attempt leaves no trace; a task that raises fails
    the write, unless you give ``retries``. A second call writes again, according to ``mode``; with the same
    ``run_id`` it computes and publishes nothing and returns a report that is ``published_before``.

    Args:
        ds: The dataset.
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: Columns whose values become directories, outermost first.
        mode: What to do about existing data: ``error``, ``append``, ``overwrite`` or
            ``overwrite_partitions``.
        run_id: Name of the run, such as a scheduler's: it is published once, no matter how often you run it.
        retries: How often Ray retries a write that raised. The write is then a separate task, and its blocks
            go through Ray's object store; without it, Ray writes where the blocks are created.
        tasks: Maximum number of write tasks at once; by default Ray decides.
        check_schema: With ``append`` or ``overwrite_partitions``, whether to compare the rows with one
            existing file and refuse rows that do not fit it. The write tasks compare, because Ray knows no
            schema before it runs.
        **job: Other arguments of ``magicfs.Job``, such as ``storage_options``, whose secrets stay in this
            process, or ``progress`` for the commit; Ray shows its own progress while it writes.

    Returns:
        The report of the job.

    Raises:
        MagicError: As ``Job.setup`` and ``Job.commit``.
        Exception: What Ray raises for a failed task, including rows that do not fit the existing ones.
    """
    sink = MagicDatasink(
        url, partition_by=partition_by, mode=mode, run_id=run_id, check_schema=check_schema, **job
    )
    again = {} if retries is None else {"max_retries": retries, "retry_exceptions": True}
    return sink.publish(lambda: ds.write_datasink(sink, ray_remote_args=again, concurrency=tasks))


class RayExecutor:
    """Runs the tasks of ``Job.map`` as Ray tasks. Ray retries a task whose worker died.

    Args:
        **options: Options of ``ray.remote``, such as ``num_cpus`` or ``max_retries``.
    """

    def __init__(self, **options: Any) -> None:
        self._run = ray.remote(_run)
        if options:
            self._run = self._run.options(**options)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Run a call in a worker."""
        future: Future[Any] = self._run.remote(function, *arguments).future()
        return future


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _tables(blocks: Iterable[Any]) -> Iterator[Any]:
    return (BlockAccessor.for_block(block).to_arrow() for block in blocks)
