"""``magicfs.spark.write``: publish a frame as one job that begins and ends in the caller's own process."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Never, cast
from uuid import UUID

from magicfs import errors
from magicfs.committers.registry import committer_info
from magicfs.errors import (
    CommitError,
    CommitOutcomeUnknown,
    CommitUnfinished,
    MagicError,
    OutputExists,
    StoreError,
    UsageError,
)
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.checks import check_words
from magicfs.job.job import Job
from magicfs.job.spec import JobSpec
from magicfs.job.task import Task
from magicfs.past.retention import Keep
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport, ProgressCallback
from magicfs.spark import late_writers as late
from magicfs.spark import options as write_options
from magicfs.spark.options import LateWriters, WriteOptions
from magicfs.spark.worker_python import check_worker_python
from magicfs.spark.writers import COMMIT_SCHEMA, batch_of, collect_commits, current_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from magicfs.tables.output_files import OutputFile
    from magicfs.tables.partition_writer import PartitionWriter
    from magicfs.tables.release import Release

_ADVICE = (
    "cast the columns, or pass check_schema=False (option checkSchema='false') to write them as they are"
)


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
            error.add_note(f"and job {job.id} could not be fully aborted: {second}")
        raise


COMMIT_TRIES = 3

Mode = WriteMode | Literal["errorifexists", "ignore"]
_MODES = ("append", "overwrite", "overwrite_partitions", "error", "errorifexists", "ignore")
_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"
_TRACEBACK = "Traceback (most recent call last):"

# Spark hands on no exception of Python, but the text of its traceback. The error begins the first line of the
# last part that is not indented; its notes follow, up to an empty line or Spark's own words.
_RAISED = re.compile(
    r"(?:\n[ \t][^\n]*)*\nmagicfs\.errors\.(?P<name>[A-Z]\w+): (?P<text>.*?)(?=\n\s*\n|\n[ \t]|\Z)", re.DOTALL
)
_tasks = count()


def write(
    df: DataFrame,
    url: str,
    *,
    partition_by: str | Sequence[str] = (),
    mode: Mode = "error",
    sort: bool = False,
    format: str = "parquet",  # noqa: A002 - as in pyarrow
    compression: str | None = None,
    row_group_size: int | None = None,
    max_rows_per_file: int | None = None,
    max_open_files: int = 64,
    committer: str = "magic",
    run_id: str | None = None,
    job_id: UUID | str | None = None,
    concurrency: int = 32,
    late_writers: LateWriters = "background",
    storage_options: Mapping[str, Any] | None = None,
    worker_storage_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
    check_schema: bool = True,
    keep: str | None = None,
    release: str | Release | None = None,
    options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> JobReport:
    """Publish a frame, all or nothing. Spark runs one action; this process sets the job up and commits it.

    A second call writes again, according to ``mode``; with the same ``run_id`` it finds the published files,
    runs no task and reports ``published_before``.

    Args:
        df: The frame.
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: The partition columns, outermost first.
        mode: As in Spark. If data exists, ``error`` (``errorifexists``) raises, and ``ignore`` writes nothing
            and returns a report that is ``skipped``; both check before any task runs, and again at the
            commit. ``overwrite_partitions`` replaces the partitions that you write, and so does
            ``overwrite`` if ``spark.sql.sources.partitionOverwriteMode`` is ``dynamic``.
        sort: Sort every partition of the frame by the partition columns, so that a task has one file open.
        format: ``parquet``, ``csv``, ``json``, ``orc`` or ``arrow``.
        compression: Spark's name of the codec; None for the format's default.
        row_group_size: Rows of a row group; None for the format's default.
        max_rows_per_file: Maximum rows of a file.
        max_open_files: Maximum open partition files per task.
        committer: Name of the committer.
        run_id: Name of the run, such as a scheduler's: it is published once, no matter how often you run it.
        job_id: The job's id; by default a new one.
        concurrency: Maximum number of requests at once, in tasks and in the job commit.
        late_writers: What to do about attempts that are still running when the job ends: ``background``
            removes their uploads some seconds later, in a thread that the process joins before it exits;
            ``wait`` does so before it returns; ``leave`` leaves them to ``magicfs recover --abort``, or to a
            lifecycle rule.
        storage_options: Options of the filesystem, for this process.
        worker_storage_options: The same for the tasks; by default ``storage_options``, including secrets,
            which are then sent with the function. With ``{}``, executors find their own.
        progress: Called with a ``Progress`` after every file of the job commit; it must be quick.
        check_schema: With Parquet, and ``append`` or ``overwrite_partitions``, whether to compare the rows
            with one existing file first, and to refuse them if a column is missing or has another type, or
            if the partition columns differ.
        keep: How long replaced files stay, such as ``7d``: ``docs/history.md``.
        release: An open ``magicfs.Release``, or the URL of one, which then shows this publication.
        options: Other options of the job and its committer: ``docs/job-options.md``.
        **unknown: Refused; the error names the right argument.

    Raises:
        UsageError: An argument or a column is wrong, or the rows do not fit the existing ones; no task ran.
        OutputExists: Data exists and ``mode="errorifexists"``; nothing was changed.
        CommitOutcomeUnknown: The store did not answer in the job commit; run ``magicfs recover URL``.
        CommitUnfinished: Every file is visible, but readers of manifests may not see them; run ``magicfs
            recover URL``.
        MagicError: Any other error, including errors of tasks; nothing is visible.
        Exception: An error of Spark that magicfs did not cause; nothing is visible.
    """
    if unknown:
        check_words("magicfs.spark.write", unknown, signature(write).parameters)
    _check_frame(df, mode)
    columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if sort and not columns:
        raise UsageError("sort=True sorts by the partition columns, and there are none; give partition_by")
    meant = _meant(df, mode, partitioned=bool(columns))
    rest = dict(options or {})
    named = {name: rest.pop(name) for name in write_options.OF_JOB if name in rest}
    chosen = write_options.build(
        df.columns,
        overwrite=meant.startswith("overwrite"),
        path=url,
        partition_cols=columns,
        mode=meant,
        run_id=run_id,
        check_schema=check_schema,
        keep=keep,
        concurrency=concurrency,
        file_format=format,
        compression=compression,
        row_group_size=row_group_size,
        max_records_per_file=max_rows_per_file,
        max_open_files=max_open_files,
        committer=committer,
        committer_options=rest,
        late_writers=late_writers,
        storage_options=dict(storage_options or {}),
        **named,
    )
    from magicfs.spark import schema

    schema.check(df.schema, chosen.partition_cols, chosen.file_format, months=True)
    plain = _plain(df, columns if sort else (), schema.month_columns(df.schema, chosen.file_format))
    job = job_of(chosen, job_id=job_id, progress=progress)
    try:
        job.setup()
        if job.found.published is not None:
            report = job.commit(())
        else:
            check_rows(job, chosen, df.schema)
            given = storage_options if worker_storage_options is None else worker_storage_options
            workers = replace(chosen, input_sorted=sort, storage_options=dict(given or {}))
            report = _run(job, plain, _Function(job.spec, workers, df.schema))
    except OutputExists as error:
        if mode == "ignore":
            return JobReport(job.id, job.url, committer, chosen.mode, 0, 0, 0, 0.0, skipped=True)
        raise told_of_modes(error, mode) from None
    if release is not None:
        from magicfs.tables.release import released_with

        released_with(report, release, url, storage_options=storage_options)
    return report


def told_of_modes(error: OutputExists, mode: str) -> OutputExists:
    """The error with the advice that a caller of ``write`` can follow, who gives a mode."""
    if mode not in {"append", "overwrite"}:
        problem, _, _ = error.message.rpartition("; ")
        error.message = f"{problem}; choose another destination, or mode='append' or 'overwrite'"
    return error


def job_of(
    chosen: WriteOptions, *, job_id: UUID | str | None = None, progress: ProgressCallback | None = None
) -> Job:
    """The job that a write asks for, not set up yet."""
    delayed = committer_info(chosen.committer).writes == "delayed uploads"
    return Job(
        chosen.path,
        committer=chosen.committer,
        mode=chosen.mode,
        run_id=chosen.run_id,
        keep=Keep.or_period("keep", chosen.keep),
        concurrency=chosen.concurrency,
        options={
            "unique_names": chosen.unique_names,
            "tracking": chosen.tracking if delayed else "store",
            "allow_empty": chosen.allow_empty,
            "also_overwrite": chosen.also_overwrite,
            "keep_in_place": chosen.keep_in_place,
            "part_size": chosen.part_size,
            **chosen.committer_options,
        },
        storage_options=chosen.storage_options,
        progress=progress,
        job_id=job_id,
    )


def write_partition(
    spec: JobSpec, chosen: WriteOptions, frame: StructType, batches: Iterable[pa.RecordBatch]
) -> TaskCommit:
    """Write one partition of a frame; called on an executor, once for every attempt of its task.

    ``chosen`` has the options of the filesystem for this process.
    """
    from pyspark import TaskContext

    # What a task needs is imported before the heap is frozen.
    from magicfs.spark import schema  # noqa: F401
    from magicfs.tables import partition_writer  # noqa: F401

    freeze_heap()
    with current_task(spec, storage_options=chosen.storage_options) as task:
        with task_files(chosen, frame, task, TaskContext.get().partitionId()) as files:
            for batch in batches:
                files.write(batch)
        task.count("records_written", files.rows)
    assert task.committed is not None
    return task.committed


def task_files(chosen: WriteOptions, frame: StructType, task: Task, partition_id: int) -> PartitionWriter:
    """What writes one partition of a frame in a task that is set up.

    No request is made, and no file is opened where no row comes. The files are named by the number of the
    frame's partition.
    """
    from magicfs.spark import schema
    from magicfs.tables.output_files import FileName
    from magicfs.tables.partition_writer import PartitionWriter

    filesystem, path = task.filesystem, task.path

    def open_file(name: str) -> OutputFile:
        file: OutputFile = filesystem.open(f"{path}/{name}", "wb")
        return file

    return PartitionWriter(
        open_file,
        FileName(f"part-{partition_id:05d}", chosen.extension),
        partition_by=chosen.partition_cols,
        file_format=chosen.file_format,
        compression=chosen.codec,
        metadata=schema.row_metadata(frame, chosen.partition_cols, chosen.file_format),
        row_group_size=chosen.row_group_size,
        max_records_per_file=chosen.max_records_per_file,
        input_sorted=chosen.input_sorted,
        files_max=chosen.max_open_files,
        convert=schema.converter(frame, chosen.partition_cols),
    )


def freeze_heap() -> None:
    """From the second task of a worker on, have garbage collections skip what the worker has imported.

    Spark's daemon runs a full collection after every task, before the worker is free for the next one
    (``pyspark.daemon``), and the modules of pyarrow and of a store's client make that 20 to 30 ms, which is
    more than the rest of a small task. They stay, so no collection needs to look at them again
    (``gc.freeze``). When the second task begins, all that a task needs is imported, and no garbage is left
    that would be kept.
    """
    if next(_tasks) == 1:
        gc.freeze()


@dataclass(frozen=True)
class _Function:
    """What ``mapInArrow`` runs. Pickles with the storage options that are meant for the tasks."""

    spec: JobSpec
    chosen: WriteOptions = field(repr=False)
    frame: StructType = field(repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = self.frame.fieldNames()
        named = (batch.rename_columns(names) for batch in batches)
        yield batch_of(write_partition(self.spec, self.chosen, self.frame, named))


def _run(job: Job, df: DataFrame, function: _Function) -> JobReport:
    """Write and commit; whatever goes wrong, the job is discarded unless it may be published."""
    try:
        for one in collect_commits(df.mapInArrow(function, COMMIT_SCHEMA)):
            job.add(one)
        report = _committed(job)
    except (CommitOutcomeUnknown, CommitUnfinished):
        raise
    except BaseException as error:
        raised = error if isinstance(error, MagicError) else raised_in_task(error) or error
        _abort(job, raised)
        late.sweep_late(job, function.chosen.late_writers)
        if raised is error:
            raise
        raise raised from error
    late.sweep_late(job, function.chosen.late_writers)
    return report


def _committed(job: Job) -> JobReport:
    for _ in range(COMMIT_TRIES - 1):
        try:
            return job.commit(job.commits)
        except (CommitOutcomeUnknown, CommitUnfinished):
            continue
    return job.commit(job.commits)


def raised_in_task(error: BaseException) -> MagicError | None:
    """The error of magicfs that made a task fail; None if it was another one.

    Its class and message are the task's; what else it had stayed on the executor. The cause is Spark's error.
    """
    found = _RAISED.match(str(error).rpartition(_TRACEBACK)[2])
    kind = getattr(errors, found["name"], None) if found is not None else None
    if found is None or not (isinstance(kind, type) and issubclass(kind, MagicError)):
        return None
    message, *notes = found["text"].strip().splitlines() or [""]
    raised: MagicError = kind.__new__(kind)
    MagicError.__init__(raised, message)
    if isinstance(raised, CommitError):
        raised.done = raised.failed = raised.not_started = ()
    if isinstance(raised, StoreError):
        raised.errno = raised.code
        raised.operation = raised.key = raised.problem = raised.hint = ""
    for note in notes:
        raised.add_note(note)
    raised.__cause__ = error
    return raised


def _abort(job: Job, error: BaseException) -> None:
    try:
        job.abort()
    except Exception as second:  # noqa: BLE001 - the first error must not be hidden
        error.add_note(f"and job {job.id} could not be fully aborted: {second}")


def _check_frame(df: DataFrame, mode: str) -> None:
    if not hasattr(df, "mapInArrow"):
        raise UsageError(
            f"{type(df).__name__} is not a DataFrame; pass the frame itself to write(), not its writer"
        )
    if df.isStreaming:
        raise UsageError("the frame is a stream; write its batches with magicfs.spark.sink and foreachBatch")
    if mode not in _MODES:
        raise UsageError(f"mode={mode!r} is unknown; choose one of {', '.join(_MODES)}")
    names = [name.lower() for name in df.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"the frame has more than one column {', '.join(twice)}; rename all but one")
    # Spark Connect has no context here.
    if (context := getattr(df.sparkSession, "sparkContext", None)) is not None:
        check_worker_python(context)


def _meant(df: DataFrame, mode: Mode, *, partitioned: bool) -> WriteMode:
    if mode in {"errorifexists", "ignore"}:
        return "error"
    if (
        mode == "overwrite"
        and partitioned
        and df.sparkSession.conf.get(_OVERWRITE, "static").lower() == "dynamic"
    ):
        return "overwrite_partitions"
    return cast("WriteMode", mode)


def _plain(df: DataFrame, sort_by: Sequence[str], months: Mapping[int, str]) -> DataFrame:
    """The frame as tasks can have it: under plain names, and with intervals of months as numbers.

    ``mapInArrow`` takes a dot for a path and stumbles over backticks, and pyarrow knows no such intervals.
    """
    if sort_by:
        df = df.sortWithinPartitions(*(f"`{name.replace('`', '``')}`" for name in sort_by))
    names = [f"column_{number}" for number in range(len(df.columns))]
    plain = df.toDF(*names)
    if not months:
        return plain
    return plain.selectExpr(
        *(f"{months.get(place, '{0}').format(name)} AS {name}" for place, name in enumerate(names))
    )
