"""The job commit on Spark's executors: they complete the files, and the driver keeps the record.

For jobs of more files than one process should complete. The commit point, the record, recovery and what a
failure means are those of every job commit: an executor only reports which files it knows to be visible, and
the driver completes by itself every file that none has reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.workers import CompleteFiles, CompletionResult, FileRange
from magicfs.report import JobReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["FILES_PER_TASK", "commit", "grouped"]

FILES_PER_TASK = 1000
"""Most files that one Spark task completes: some seconds of requests, and one chunk of the job's facts."""

_Completer = Callable[[CompleteFiles, Sequence[FileRange]], list[CompletionResult]]
_SCHEMA = "chunk string, start bigint, etags array<string>, trouble string"


def commit(
    job: Job,
    commits: Iterable[TaskCommit] | None = None,
    *,
    spark: SparkSession | None = None,
    files_per_task: int = FILES_PER_TASK,
    storage_options: Mapping[str, Any] | None = None,
    tasks: int | None = None,
) -> JobReport:
    """Commit a job as ``Job.commit`` does, its files completed by Spark tasks; runs one action.

    Tasks that Spark repeats, or runs twice at once, do no harm, nor do executors that die: what no task has
    reported in the end, the driver completes, and a warning in the report says how many files that were. A
    second call goes on where the first one stopped.

    The job was set up in this process. ``spark`` is a session, classic or Connect; by default the active one.
    ``files_per_task`` is the most files of a task, ``tasks`` how many tasks there must be, if that is known.
    ``storage_options`` are for the tasks, secrets included, which then travel with the function; None takes
    the job's without secrets, and executors find their own credentials. Raises UsageError, with nothing
    changed, if no session is active, or the job's committer completes nothing in its job commit.
    """
    if files_per_task < 1:
        raise UsageError(f"files_per_task={files_per_task} is out of range; choose 1 or more")
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise UsageError("no Spark session is active in this thread; pass spark=")
    tag = f"magicfs-commit-{job.id}"

    @_as_this_thread(session)
    def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> list[CompletionResult]:
        groups = grouped(ranges, files_per_task)
        if storage_options is not None:
            work = work.with_storage_options(storage_options)
        session.addTag(tag)
        try:
            numbers = session.range(0, len(groups), 1, len(groups))
            rows = numbers.mapInArrow(_Function(work, groups), _SCHEMA).collect()
        finally:
            session.removeTag(tag)
        return [
            CompletionResult(row["chunk"], row["start"], tuple(row["etags"]), row["trouble"]) for row in rows
        ]

    try:
        return job.commit(commits, tasks=tasks, completer=completer)
    except (KeyboardInterrupt, SystemExit):
        # Spark's job would keep the cluster busy; the record says how far the job is.
        with suppress(Exception):
            session.interruptTag(tag)
        raise


def _as_this_thread(session: SparkSession) -> Callable[[_Completer], _Completer]:
    """Gives the thread that collects the pool, the description and the tags of this one."""
    from pyspark import inheritable_thread_target
    from pyspark.sql import SparkSession as Classic
    from pyspark.sql import is_remote

    if not is_remote() and not isinstance(session, Classic):
        # Of a Connect session that was made by its own class, without SPARK_REMOTE or builder.remote of
        # pyspark.sql, PySpark expects a classic one here.
        return lambda function: function
    inherit: Callable[[_Completer], _Completer] = inheritable_thread_target(session)
    return inherit


def grouped(ranges: Iterable[FileRange], files: int) -> list[list[FileRange]]:
    """The ranges of each task, of at most so many files together, in the order of the files."""
    groups: list[list[FileRange]] = []
    room = 0
    for file_range in ranges:
        for piece in file_range.cut(files):
            size = piece.stop - piece.start
            if size > room:
                groups.append([])
                room = files
            groups[-1].append(piece)
            room -= size
    return groups


@dataclass(frozen=True)
class _Function:
    """What ``mapInArrow`` runs: a row is the number of a group. Pickles with the options meant for tasks."""

    work: CompleteFiles = field(repr=False)
    groups: list[list[FileRange]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        schema = pa.schema(
            [
                ("chunk", pa.string()),
                ("start", pa.int64()),
                ("etags", pa.list_(pa.string())),
                ("trouble", pa.string()),
            ]
        )
        # Spark numbers the attempts of a task, speculative ones included; only the first meets new files.
        first = TaskContext.get().attemptNumber() == 0
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = [asdict(self.work(file_range, first=first)) for file_range in self.groups[number]]
                yield pa.RecordBatch.from_pylist(done, schema)
