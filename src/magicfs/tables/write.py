"""``magicfs.write``: publish a table of any engine in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

from magicfs.committers.registry import committer_info
from magicfs.errors import UsageError
from magicfs.job.checks import check_words, with_defaults
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport, ProgressCallback

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pyarrow as pa
    import pyarrow.dataset
    from fsspec.spec import AbstractFileSystem

    from magicfs.tables.append_check import RowsThere
    from magicfs.tables.column_types import ColumnTypes
    from magicfs.tables.output_files import FileName
    from magicfs.tables.partition_writer import PartitionWriter
    from magicfs.tables.polars_files import Written
    from magicfs.tables.release import Release
    from magicfs.tables.sources import Source

FileFormat = Literal["parquet", "csv", "json", "orc", "arrow"]
_TASKS_MAX = 10_000


def write(
    data: Any,
    url: str,
    *,
    partition_by: str | Sequence[str] | None = None,
    partitioning: Literal["hive", "directory"] = "hive",
    mode: WriteMode = "error",
    format: FileFormat = "parquet",  # noqa: A002 - as in pyarrow
    compression: str | None = None,
    row_group_size: int | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    max_open_files: int = 64,
    schema: pa.Schema | None = None,
    check_schema: bool = True,
    index: bool | None = None,
    tasks: int = 1,
    executor: Executor | None = None,
    run_id: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
    progress: ProgressCallback | None = None,
    release: str | PathLike[str] | Release | None = None,
    **job: Any,
) -> JobReport:
    """Publish a table, all or nothing: if the data or the store fails, nothing is published.

    Rows stream: each task holds about 128 MiB (twice that for a partitioned LazyFrame of Polars), plus the
    data on its way to the store. A second call writes again, according to ``mode``; with the same ``run_id``
    it finds the published files, reads no row and reports ``published_before``.

    Data without rows creates no file. ``overwrite`` and ``overwrite_partitions`` refuse it, because a failed
    query would delete the dataset: pass ``options={"allow_empty": True}`` if you mean it.

    Args:
        data: A pandas DataFrame, a Polars DataFrame or LazyFrame, a DuckDB relation, a pyarrow table,
            dataset, scanner or record batch reader, anything with ``__arrow_c_stream__``, or an iterable
            of those, which is read once and whose first element defines the columns.
        url: The destination directory, such as ``s3://bucket/sales``.
        partition_by: The partition columns, outermost first. Their values become directory names and are not
            in the files: text, whole numbers, booleans, decimals, dates, and timestamps, in UTC with a ``Z``
            if they have a zone. Null and empty text become ``__HIVE_DEFAULT_PARTITION__``, which readers
            treat as null.
        partitioning: ``hive`` creates ``day=mon``, ``directory`` creates ``mon`` and does not allow nulls.
        mode: What to do about existing data, as for ``Job``: ``error``, ``append``, ``overwrite`` or
            ``overwrite_partitions``.
        format: ``parquet``, ``csv``, ``json`` (one object per line), ``orc`` or ``arrow``.
        compression: The codec; by default zstd for Parquet and ORC, none for the others.
        row_group_size: Maximum rows of a row group, or of a record batch of ``arrow``.
        max_rows_per_file: Maximum rows of a file.
        max_bytes_per_file: Approximate maximum bytes of a file: within a few percent, and within a quarter
            for compressed text.
        max_open_files: Maximum open files per task; beyond that, partitions get several files.
        schema: Convert the data to this schema, which needs the same column names.
        check_schema: With Parquet, and ``append`` or ``overwrite_partitions``, whether to compare the rows
            with one existing file first, and to refuse them if a column is missing or has another type, or
            if the partition columns differ.
        index: Whether to write the pandas index; by default all but a range without a name.
        tasks: Number of threads that share the rows, each writing its own files. With 1, rows keep their
            order. Leave it at 1 for Polars, which then encodes on all processors.
        executor: Runs the tasks elsewhere, each with a part of the files of a ``pyarrow.dataset``: a process
            pool, or anything with ``submit``. A failed task is retried.
        run_id: Name of the run, such as a scheduler's: it is published once, no matter how often you run it.
        storage_options: Options of the store's filesystem, as for fsspec.
        filesystem: The filesystem itself, instead of options.
        progress: Called with a ``Progress`` after every file of the job commit; it must be quick.
        release: An open ``Release``, or the URL of one, which then shows this publication at once.
        **job: Other arguments of ``Job``: ``rerun``, ``keep``, ``audit``, ``committer``, ``options`` …

    Raises:
        UsageError: An argument, a column or a value is wrong, the rows do not fit the existing ones, or
            pyarrow is not installed.
        OutputExists: Data exists and ``mode="error"``; no row was read.
        CommitOutcomeUnknown: The store did not answer in the job commit; run ``magicfs recover URL``.
        CommitUnfinished: Every file is visible, but readers of manifests may not see them; run ``magicfs
            recover URL``.
        MagicError: Any other error; nothing is visible.
        Exception: The data could not be read; nothing is visible.
    """
    _require_pyarrow(data)
    check_words("magicfs.write", job, [*signature(write).parameters, *signature(Job).parameters])
    by = () if partition_by is None else partition_by
    names = tuple(by) if hasattr(by, "__iter__") and not isinstance(by, str) else (cast("str", by),)
    _check(partitioning, names, tasks, max_rows_per_file, max_bytes_per_file, max_open_files, row_group_size)
    from magicfs.tables.sources import source_of

    source = source_of(data, schema=schema, index=index)
    if executor is not None and source.fragments is None:
        raise UsageError(
            f"executor= splits the files of a pyarrow.dataset into tasks, and {type(data).__name__} is not "
            "one (or is filtered); leave executor out: tasks= then runs threads"
        )
    files = _files(
        source.schema,
        partition_by=names,
        partitioning=partitioning,
        file_format=format,
        compression=compression,
        row_group_size=row_group_size,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_open_files=max_open_files,
    )
    made = Job(
        url,
        mode=mode,
        run_id=run_id,
        storage_options=storage_options,
        filesystem=filesystem,
        progress=progress,
        **_with_tracking(job),
    )
    with made:
        if made.found.published is None:
            if check_schema:
                files = replace(files, there=_check_rows(made, files))
            _run(made, source, files, tasks, executor)
    if release is not None:
        from magicfs.tables.release import released_with

        released_with(made.report, release, url, storage_options=storage_options, filesystem=filesystem)
    return made.report


@dataclass(frozen=True, kw_only=True)
class _Files:
    """How tasks write their files. Pickles."""

    source: pa.Schema
    partition_by: tuple[str, ...]
    partitioning: Literal["hive", "directory"]
    file_format: str
    codec: str
    extension: str
    row_group_size: int | None
    max_rows_per_file: int | None
    max_bytes_per_file: int | None
    max_open_files: int
    types: ColumnTypes = field(repr=False)
    there: RowsThere | None = None  # what the directories must fit

    def write(
        self, batches: Iterable[pa.RecordBatch], task: Task, numbers: Mapping[str, int] | None = None
    ) -> None:
        """Write what one task has got, in a task that is set up. ``numbers``: of files that are there."""
        import pyarrow as pa

        reading = False
        try:
            with self._writer(task, numbers) as writer:
                reading = True
                for batch in batches:
                    reading = False
                    writer.write(self.types.convert(batch))
                    reading = True
                reading = False
        except pa.ArrowException as error:
            if reading:  # the caller's own
                raise
            raise UsageError(
                f"{self.file_format} files cannot store a value: {error}; nothing was published; cast the "
                "column, or choose another format"
            ) from error
        task.count("records_written", writer.rows)

    def write_all(self, source: Source, task: Task) -> None:
        """Write all rows in one task: those of Polars by its own writer, as far as it does what is asked."""
        if source.polars is None or self.file_format != "parquet":
            written = None
        else:
            written = self._write_polars(source, task)
        if written is None:
            self.write((batch for piece in source.pieces() for batch in source.batches(piece)), task)
            return
        task.count("records_written", written.rows)
        left = (batch for piece in written.left for batch in source.batches(piece))
        self.write(left, task, written.numbers)

    def _write_polars(self, source: Source, task: Task) -> Written | None:
        """None if Polars cannot write these files; then nothing was read."""
        from magicfs.tables.polars_files import PolarsFiles

        files = PolarsFiles(
            open_file=partial(_opened, task.filesystem, task.path, self.there),
            name=self._name(task),
            partition_by=self.partition_by,
            partitioning=self.partitioning,
            codec=self.codec,
            row_group_size=self.row_group_size,
            files_max=self.max_open_files,
        )
        frame = source.polars
        is_lazy = hasattr(frame, "collect_schema") and not hasattr(frame, "height")
        empty = frame.collect_schema().to_frame(eager=True) if is_lazy else frame.clear()
        limited = self.max_rows_per_file is not None or self.max_bytes_per_file is not None
        if limited or not files.fits(empty, self.types.schema):
            return None
        return files.write_pieces(source.pieces()) if is_lazy and self.partition_by else files.write(frame)

    def _name(self, task: Task) -> FileName:
        from magicfs.tables.output_files import FileName

        number = int(task.id) if task.id.isdecimal() else 0
        return FileName(f"part-{number:05d}", self.extension)

    def _writer(self, task: Task, numbers: Mapping[str, int] | None) -> PartitionWriter:
        from magicfs.tables.partition_writer import PartitionWriter

        return PartitionWriter(
            partial(_opened, task.filesystem, task.path, self.there),
            self._name(task),
            partition_by=self.partition_by,
            partitioning=self.partitioning,
            file_format=self.file_format,
            compression=self.codec,
            metadata=self.source.metadata,
            row_group_size=self.row_group_size,
            max_records_per_file=self.max_rows_per_file,
            max_bytes_per_file=self.max_bytes_per_file,
            files_max=self.max_open_files,
            numbers=numbers,
        )


def _opened(filesystem: AbstractFileSystem, path: str, there: RowsThere | None, name: str) -> Any:
    return filesystem.open(f"{path}/{there.fitting(name) if there else name}", "wb")


def _files(
    source: pa.Schema,
    *,
    file_format: str,
    partition_by: tuple[str, ...],
    compression: str | None,
    **more: Any,
) -> _Files:
    """Check what can be known before a row is read."""
    import pyarrow as pa

    from magicfs.tables.column_types import ColumnTypes, check_columns
    from magicfs.tables.formats import FORMATS, FileSettings, open_writer
    from magicfs.tables.partition_split import check_column

    if file_format not in FORMATS:
        raise UsageError(f"format={file_format!r} is unknown; choose one of {', '.join(FORMATS)}")
    kind = FORMATS[file_format]
    if compression is not None and compression not in kind.codecs:
        raise UsageError(
            f"compression={compression!r} is not a codec of {kind.name}; "
            f"choose one of {', '.join(kind.codecs)}"
        )
    if more["row_group_size"] is not None and not kind.row_groups:
        raise UsageError(f"{kind.name} files have no row groups; leave row_group_size out")
    check_columns(source, partition_by)
    types = ColumnTypes(source, partition_by=partition_by, file_format=file_format)
    for name in partition_by:
        check_column(types.schema, name)
    in_files = pa.schema([one for one in types.schema if one.name not in partition_by])
    codec = kind.codecs[compression or kind.default][0]
    open_writer(kind, pa.BufferOutputStream(), in_files, FileSettings(compression=codec)).close()
    return _Files(
        source=source,
        file_format=file_format,
        partition_by=partition_by,
        codec=codec,
        extension=kind.extension(compression),
        types=types,
        **more,
    )


def _run(job: Job, source: Source, files: _Files, tasks: int, executor: Executor | None) -> None:
    """Write everything; each task hands its commit over to the job."""
    from magicfs.tables.shared_stream import SharedStream, Stopped

    if executor is not None and source.fragments is not None:
        count = max(1, min(tasks, sum(1 for _ in source.fragments.get_fragments())))
        part = partial(_write_part, files, source.fragments, source.schema, count)
        job.map(part, range(count), executor=executor)
        return
    if tasks == 1:
        with job.task(0) as task:
            files.write_all(source, task)
        return
    stream = SharedStream(source, tasks)
    pool = ThreadPoolExecutor(tasks, thread_name_prefix="magicfs-write")
    try:
        job.map(partial(_write_shared, files, stream), range(tasks), executor=pool, retries=0)
    except ExceptionGroup as group:
        _, errors = group.split(Stopped)
        if errors is not None and len(errors.exceptions) == 1:
            raise errors.exceptions[0] from None
        raise (errors or group) from None
    finally:
        stream.stop()
        pool.shutdown()


def _check_rows(job: Job, files: _Files) -> RowsThere | None:
    from magicfs.tables.append_check import rows_there

    if (there := rows_there(job.spec, files.file_format)) is not None:
        there.check(
            files.types.schema,
            partition_by=files.partition_by,
            partitioning=files.partitioning,
            advice="cast the columns, pass schema=, or pass check_schema=False to write them as they are",
        )
    return there


def _write_shared(files: _Files, stream: Any, task: Task) -> None:
    try:
        files.write(stream.batches(), task)
    except BaseException:
        stream.stop()
        raise


def _write_part(
    files: _Files, dataset: pyarrow.dataset.Dataset, schema: pa.Schema, count: int, task: Task
) -> None:
    """What a task of an executor does: the fragments whose turn it is."""
    from magicfs.tables.sources import fragment_batches

    files.write(fragment_batches(dataset, schema, int(task.id), count), task)


def _with_tracking(job: Mapping[str, Any]) -> dict[str, Any]:
    """Every task writes and commits in one process, so that nothing needs to be recorded in the store."""
    options, committer = job.get("options") or {}, job.get("committer", "magic")
    if options.get("unique_names", True) and job.get("job_id") is None and committer != "auto":
        with suppress(UsageError):  # of an unknown committer, which the job refuses
            if committer_info(committer).writes == "delayed uploads":
                return with_defaults(job, tracking="memory")
    return dict(job)


def _require_pyarrow(data: Any) -> None:
    try:
        import pyarrow.dataset  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "magicfs.write needs pyarrow; nothing was changed; pip install 'magicfs[arrow]', or let "
            f"{type(data).__name__} write itself to a file of a task: task.filesystem.open(…, 'wb')"
        ) from error


def _check(partitioning: str, partition_by: Sequence[str], tasks: int, *limits: int | None) -> None:
    from magicfs.job.checks import check_choice

    check_choice("partitioning", partitioning, ("hive", "directory"))
    if partitioning == "directory" and not partition_by:
        raise UsageError("partitioning='directory' needs partition_by=; nothing was changed; name columns")
    if not 1 <= tasks <= _TASKS_MAX:
        raise UsageError(f"tasks={tasks} is out of range; choose 1 to {_TASKS_MAX}")
    if any(limit is not None and limit < 1 for limit in limits):
        raise UsageError("a limit of rows, bytes or files is below 1; choose a larger one, or leave it out")
