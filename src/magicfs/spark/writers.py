"""Tasks for functions that Spark runs on its executors: ``mapInPandas``, ``mapInArrow``.

::

    def write(frames):
        with current_task(job) as task:
            for number, frame in enumerate(frames):
                name = task.url(f"part-{number}.parquet")
                frame.to_parquet(name, storage_options=task.storage_options)
        yield commit_row(task)

    with magicfs.Job("s3://bucket/sales", conflict="append") as job:
        for commit in collect_commits(df.mapInPandas(write, COMMIT_SCHEMA)):
            job.add(commit)

Spark returns the rows of one attempt of each task, so exactly the attempts that won are published. Run
one action on the mapped frame, and once: every further one writes everything again.

A job pickles without secrets. Where executors find no credentials by themselves (environment, profile, role,
fsspec's configuration), hand them to ``current_task`` and they travel with the function, in Spark's hands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from magicfs.errors import ProtocolViolation, UsageError
from magicfs.job import Job, Task
from magicfs.job_spec import JobSpec
from magicfs.protocol import ids
from magicfs.task_commit import TaskCommit

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["COMMIT_SCHEMA", "collect_commits", "commit_batch", "commit_row", "current_task"]

COMMIT_SCHEMA = (
    "job_id string, task_id string, attempt_id string, files bigint, bytes bigint, "
    "set_key string, content binary"
)
"""The columns of a task commit, for ``mapInPandas`` and ``mapInArrow``."""


@contextmanager
def current_task(job: Job | JobSpec, *, storage_options: Mapping[str, Any] | None = None) -> Iterator[Task]:
    """The task that Spark runs here: named after its partition, its attempt after Spark's.

    Commits at the end of the ``with`` block, and aborts if the body raises.

    Args:
        job: The job, or what it was asked to do.
        storage_options: To be used in place of the job's, which lost their secrets on the way.

    Raises:
        ProtocolViolation: Not called by a Spark task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise ProtocolViolation(
            "current_task was called outside of a Spark task; call it in the function given to mapInPandas"
        )
    spec = job.spec if isinstance(job, Job) else job
    if storage_options is not None:
        spec = replace(spec, storage_options=dict(storage_options))
    task = Task(spec, ids.task_id(context.partitionId()))
    # Unlike the attempt number, this one is never used twice, stages that are run again included.
    task.setup(suffix=str(context.taskAttemptId()))
    with ExitStack() as ends:
        ends.push(task)
        yield task


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
    import pyarrow as pa

    kinds: dict[str, Any] = {"bigint": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    columns = [column.split() for column in COMMIT_SCHEMA.split(", ")]
    schema = pa.schema([(name, kinds[kind]) for name, kind in columns])
    return pa.RecordBatch.from_pylist([asdict(_commit_of(task))], schema)


def collect_commits(mapped: DataFrame) -> list[TaskCommit]:
    """Run the tasks of a mapped frame and return the commits of those that won.

    Every call runs the tasks, and writes, again.

    Raises:
        UsageError: The rows are no commits.
    """
    names = [one.name for one in fields(TaskCommit)]
    if missing := [name for name in names if name not in mapped.columns]:
        raise UsageError(
            f"the frame has no column {', '.join(missing)}; yield commit_row(task) and map with COMMIT_SCHEMA"
        )
    return [
        TaskCommit(**{name: _plain(row[name]) for name in names}) for row in mapped.select(*names).collect()
    ]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _commit_of(task: Task) -> TaskCommit:
    commit = task.committed
    if commit is None:
        raise ProtocolViolation(
            f"task {task.id} is not committed yet; yield its row after the with block of current_task"
        )
    return commit
