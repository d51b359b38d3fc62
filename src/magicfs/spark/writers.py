"""Tasks for functions that Spark runs on its executors: ``mapInPandas``, ``mapInArrow`` and their relatives.

::

    def write(task, frames):
        for number, frame in enumerate(frames):
            frame.to_csv(task.url(f"part-{number}.csv"), storage_options=task.storage_options)

    job = magicfs.Job("s3://bucket/sales", mode="append").setup()
    mapped = df.mapInPandas(pandas_function(job, write), COMMIT_SCHEMA)
    report = job.commit(collect_commits(mapped))

Spark returns the rows of one attempt of each task, so exactly the attempts that won are published. Run
one action on the mapped frame, and once: every further one writes everything again.

A job pickles without secrets. If executors cannot find credentials by themselves (environment, profile, role,
fsspec's configuration), pass them as ``storage_options``: they travel with the function, and Spark can read
them.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from magicfs.errors import ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.spec import JobSpec
from magicfs.job.task import Task
from magicfs.protocol import ids
from magicfs.spark.exiting import ExitSignals

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

COMMIT_SCHEMA = (
    "job_id string, task_id string, attempt_id string, files bigint, bytes bigint, "
    "set_key string, content binary, rows bigint"
)
"""The columns of a task commit, for ``mapInPandas`` and ``mapInArrow``."""

INLINE_LIMIT = 8 * 1024
"""Maximum bytes of a pending set that goes through Spark to the driver, whose sum Spark limits by
``spark.driver.maxResultSize``; larger ones go to the store, and only their keys travel."""

_StorageOptions = Mapping[str, Any] | None
# How often current_task was called for each job by the Spark task that runs here.
_calls: tuple[int, Counter[str]] = (-1, Counter())


@contextmanager
def current_task(job: Job | JobSpec, *, storage_options: _StorageOptions = None) -> Iterator[Task]:
    """Return a task of the job for the Spark task that runs here, named after its partition.

    Commits at the end of the ``with`` block, and aborts if the body raises or a signal ends the process
    (SIGTERM, SIGHUP). A second call in one Spark task, for the next group or batch, creates another task,
    such as ``000003-1``.

    Args:
        job: The job, or its ``spec``.
        storage_options: Options to use instead of the job's, whose secrets were not pickled.

    Raises:
        ProtocolViolation: Called outside of a Spark task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise ProtocolViolation(
            "current_task was called outside of a Spark task; call it in the function that you pass to "
            "mapInPandas"
        )
    given: dict[str, Any] = {} if storage_options is None else {"storage_options": dict(storage_options)}
    spec = job.spec if isinstance(job, Job) else job
    spec = replace(spec, options=replace(spec.options, inline_limit=INLINE_LIMIT), **given)
    # Unlike the attempt number, this one is never used twice, stages that are run again included.
    attempt = context.taskAttemptId()
    task = Task(spec, _task_id(spec.job, context.partitionId(), attempt))
    with ExitSignals() as signals:
        task.setup(suffix=str(attempt))
        with ExitStack() as ends:
            ends.push(task)
            with signals.writing():
                yield task


def _task_id(job: str, partition: int, attempt: int) -> ids.TaskId:
    global _calls  # noqa: PLW0603 - of the process, which runs one Spark task at a time
    if _calls[0] != attempt:
        _calls = (attempt, Counter())
    number = _calls[1][job]
    _calls[1][job] += 1
    return ids.task_id(f"{partition:06d}-{number}" if number else partition)


# -- functions that are given their task ------------------------------------------------------------------


def pandas_function(
    job: Job | JobSpec,
    function: Callable[[Task, Iterator[pd.DataFrame]], object],
    *,
    storage_options: _StorageOptions = None,
) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Return a function for ``df.mapInPandas(…, COMMIT_SCHEMA)`` that runs yours in a task.

    Args:
        job: The job.
        function: Gets the task, and the frames of one partition; its result is ignored.
        storage_options: As for ``current_task``.
    """

    def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        with current_task(job, storage_options=storage_options) as task:
            function(task, frames)
        yield commit_row(task)

    return run


def arrow_function(
    job: Job | JobSpec,
    function: Callable[[Task, Iterator[pa.RecordBatch]], object],
    *,
    storage_options: _StorageOptions = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """As ``pandas_function``, for ``df.mapInArrow(…, COMMIT_SCHEMA)``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with current_task(job, storage_options=storage_options) as task:
            function(task, batches)
        yield commit_batch(task)

    return run


def group_function(
    job: Job | JobSpec,
    function: Callable[[Task, tuple[Any, ...], pd.DataFrame], object],
    *,
    storage_options: _StorageOptions = None,
) -> Callable[[tuple[Any, ...], pd.DataFrame], pd.DataFrame]:
    """Return a function for ``df.groupBy(…).applyInPandas(…, COMMIT_SCHEMA)``: every group is one task.

    Args:
        job: The job.
        function: Gets the task, the group's key as a tuple, and its rows.
        storage_options: As for ``current_task``.
    """

    def run(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        with current_task(job, storage_options=storage_options) as task:
            function(task, key, frame)
        return commit_row(task)

    return run


# -- from the task to the driver --------------------------------------------------------------------------


def commit_row(task: Task) -> pd.DataFrame:
    """The commit of a task as a frame of one row, for ``mapInPandas`` with ``COMMIT_SCHEMA``.

    Raises:
        ProtocolViolation: The task is not committed yet.
    """
    import pandas as pd

    return pd.DataFrame([asdict(_commit_of(task))])


def commit_batch(task: Task) -> pa.RecordBatch:
    """The commit of a task as a batch of one row, for ``mapInArrow`` with ``COMMIT_SCHEMA``.

    Raises:
        ProtocolViolation: The task is not committed yet.
    """
    return batch_of(_commit_of(task))


def batch_of(commit: TaskCommit) -> pa.RecordBatch:
    """A commit as a batch of one row with ``COMMIT_SCHEMA``."""
    import pyarrow as pa

    kinds: dict[str, Any] = {"bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    columns = [column.split() for column in COMMIT_SCHEMA.split(", ")]
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns])
    return pa.RecordBatch.from_pylist([asdict(commit)], schema)


def commit_text(task: Task) -> str:
    """Return the commit of a task as text, for pandas UDFs that return strings.

    An aggregating UDF returns it; one that maps a series returns it for one row and None for all others.

    Raises:
        ProtocolViolation: The task is not committed yet.
    """
    values = asdict(_commit_of(task))
    if values["content"] is not None:
        values["content"] = b64encode(values["content"]).decode()
    return json.dumps(values)


def collect_commits(mapped: DataFrame) -> list[TaskCommit]:
    """Run the tasks of a mapped frame and return the winning commits.

    Every call runs the tasks, and writes, again.

    Args:
        mapped: A frame with the columns of ``COMMIT_SCHEMA``, or one column of ``commit_text`` or null.

    Raises:
        UsageError: The rows are not commits.
    """
    names = [one.name for one in fields(TaskCommit)]
    if mapped.dtypes == [(mapped.columns[0], "string")]:
        # Not filtered by Spark, which may run a function a second time to find its nulls.
        return [_from_text(row[0]) for row in mapped.collect() if row[0] is not None]
    if missing := [name for name in names if name not in mapped.columns]:
        raise UsageError(
            f"the frame has no column {', '.join(missing)}; yield commit_row(task) and map with COMMIT_SCHEMA"
        )
    return [
        TaskCommit(**{name: _plain(row[name]) for name in names}) for row in mapped.select(*names).collect()
    ]


def _from_text(text: str) -> TaskCommit:
    try:
        values = json.loads(text)
        if values["content"] is not None:
            values["content"] = b64decode(values["content"], validate=True)
        return TaskCommit(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{text[:50]!r} is not a commit; return commit_text(task)") from error


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _commit_of(task: Task) -> TaskCommit:
    commit = task.committed
    if commit is None:
        raise ProtocolViolation(
            f"task {task.id} is not committed yet; yield its row after the with block of current_task"
        )
    return commit
