"""``Dataset.rewrite``: small Parquet files of a dataset become larger ones, as a job of its own.

The rows stay what they are, and in their order. The job replaces exactly the files that were read: if another
one has replaced any of them meanwhile it is denied, and what others have added is none of its business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Unpack
from uuid import uuid4

from magicfs.datasets.commit import commit_or_abort
from magicfs.datasets.connection import Destination, Way, open_destination, told_as_newest
from magicfs.datasets.read import current_view, shown_files
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, MagicError, ObjectNotFound, UsageError
from magicfs.formats.job_options import JobOptions, Keep
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.spec import JobSpec, destination_of
from magicfs.job.task import Task
from magicfs.past.commands.settings import size
from magicfs.past.drop import Order, choose
from magicfs.protocol import ids, paths
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.protocol.period import Period, kept_for
from magicfs.report import JobReport, Report
from magicfs.runtime.interrupt import run_on
from magicfs.stores import object_settings, resolve
from magicfs.tables.rewriting import Group, groups_of
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import StoreSets
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import Choice, naming

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from fsspec.spec import AbstractFileSystem

    from magicfs.tables.parquet_kinds import ParquetKind

TARGET_SIZE: Final = 128 * 2**20
_TASK: Final = 0
_READERS: Final = 16
_WHOLE_BYTES: Final = 4 * 2**20
_BUFFER_BYTES: Final = 64 * 2**20
_BATCH_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class RewriteReport(Report):
    """The result of ``rewrite``.

    Attributes:
        url: The destination.
        job_id: The job that did it; None if there was nothing to rewrite, or with ``dry_run``.
        files: How many files were replaced.
        bytes: Their size.
        new_files: How many files replaced them.
        new_bytes: Their size; with ``dry_run``, the size of the old files.
        rows: How many rows they have; None with ``dry_run``.
        left: How many small files stay because pyarrow cannot write the same schema.
        kept: Whether the old files are kept for a time, according to ``keep``.
        published_before: Whether an earlier job with this ``run_id`` made this rewrite, and this one nothing.
        warnings: Problems after the files were replaced; ``magicfs recover`` finishes the rest.
    """

    url: str | PathLike[str]
    job_id: str | None
    files: int = 0
    bytes: int = 0
    new_files: int = 0
    new_bytes: int = 0
    rows: int | None = None
    left: int = 0
    kept: bool = False
    published_before: bool = False
    warnings: tuple[str, ...] = ()


def rewrite(
    url: str | PathLike[str],
    *,
    target_size: int | str = TARGET_SIZE,
    partitions: str | Sequence[str] | None = None,
    dry_run: bool = False,
    keep: Period | None = None,
    keep_in_place: bool = False,
    run_id: str | None = None,
    **way: Unpack[Way],
) -> RewriteReport:
    """See ``magicfs.Dataset.rewrite``."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise UsageError("rewrite needs pyarrow; pip install 'magicfs[arrow]'") from error
    is_number = isinstance(target_size, int | float) and target_size >= 1
    target = int(target_size) if is_number else size("target_size", target_size)
    order = Order() if partitions is None else Order.of(partitions)
    ms = kept_for(keep, keep_in_place=keep_in_place)
    kept = Keep(ms=ms, in_place=keep_in_place, rule=getattr(keep, "rule", ""))
    destination = open_destination(url, **way)
    filesystem = way.get("filesystem")
    _, options = destination_of(url, way.get("storage_options"), filesystem)
    spec = _spec(destination, options, filesystem)
    context = spec.context.asked(mode="rewrite", keep=kept, run_id=run_id)
    if dry_run or run_id is None:
        work = _Work.planned(destination, spec, order, target)
        if dry_run or not work.groups:
            return work.report(None, ms, **(work.expected() if dry_run else {}))
        job = _Job.begun(destination, context)
    else:
        # First, as it may end a job of the same run, which changes what there is to rewrite.
        job = _Job.begun(destination, context)
        if job.setup.published is not None:
            job.abort()
            return RewriteReport(destination.location.url, job.setup.published, published_before=True)
        with job.aborted_if_it_fails():
            work = _Work.planned(destination, spec, order, target)
        if not work.groups:
            job.abort()
            return work.report(None, ms)
    with job.aborted_if_it_fails():
        commit, rows = work.written()
    report = job.committed(commit, work.chosen)
    figures = {"new_files": report.files, "new_bytes": report.bytes, "rows": rows}
    return work.report(report.job_id, ms, **figures, warnings=report.warnings)


def _spec(
    destination: Destination, options: Mapping[str, Any], filesystem: AbstractFileSystem | None
) -> JobSpec:
    """What the task that writes has to know."""
    engine = destination.run(told_as_newest)
    return JobSpec(
        location=destination.location,
        job=ids.job_id(uuid4()),
        options=JobOptions(committer="magic", mode="append", tracking="memory"),
        storage_options=options,
        filesystem=filesystem,
        object_settings=object_settings.of_store(engine.store),
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """The job that replaces files, once it is set up."""

    destination: Destination
    transaction: JobTransaction
    setup: JobSetup

    @classmethod
    def begun(cls, destination: Destination, context: JobContext) -> _Job:
        return cls(destination, *destination.run(begun, context))

    def abort(self) -> None:
        loop = resolve.loop_of(self.destination.filesystem)
        run_on(loop, self.transaction.abort, (), self.setup.driver, given=False)

    @contextmanager
    def aborted_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            try:
                self.abort()
            except MagicError as second:
                error.add_note(f"and job {self.transaction.context.job} could not be aborted: {second}")
            raise

    def committed(self, commit: TaskCommit, choice: Choice) -> JobReport:
        filesystem = self.destination.filesystem
        loop = resolve.loop_of(filesystem)
        report: JobReport = run_on(loop, committed, self.transaction, self.setup.driver, commit, choice)
        filesystem.invalidate_cache()
        return report


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be rewritten, and where."""

    destination: Destination
    spec: JobSpec
    files: Mapping[str, ManifestFile]  # that were looked at
    groups: Sequence[Group]
    left: int

    @classmethod
    def planned(cls, destination: Destination, spec: JobSpec, order: Order, target_size: int) -> _Work:
        location = destination.location
        view = destination.run(current_view)
        files = choose(location, order, shown_files(location, view), None)
        files = {key: one for key, one in files.items() if is_data(key, "") and key.endswith(".parquet")}
        sizes = {key: one.size for key, one in files.items()}
        label = ids.task_id(_TASK)
        # Twice: of what may be put together by its size the footers are read, all at once.
        maybe = [key for group in groups_of(sizes, target_size, label, spec.job) for key in group.keys]
        with _told_if_gone(location):
            kinds = _kinds(destination, files, maybe)
        groups = list(groups_of(sizes, target_size, label, spec.job, kinds.get))
        return cls(destination, spec, files, groups, sum(kinds[key] is None for key in maybe))

    @property
    def old(self) -> dict[str, ManifestFile]:
        """The files that are replaced."""
        return {key: self.files[key] for group in self.groups for key in group.keys}

    def expected(self) -> dict[str, int]:
        """What would come in their place."""
        return {"new_files": len(self.groups), "new_bytes": sum(one.size for one in self.old.values())}

    def report(self, job: str | None, keep: int | None, **new: Any) -> RewriteReport:
        old = [one.size for one in self.old.values()]
        more = {"left": self.left, "kept": keep is not None and bool(old), **new}
        return RewriteReport(self.destination.location.url, job, len(old), sum(old), **more)

    def chosen(self, shown: Mapping[str, ManifestFile]) -> Mapping[str, ManifestFile]:
        """Of the files that are shown those to replace. Raises CommitDenied if some are gone."""
        return the_same(self.destination.location, self.old, shown)

    def written(self) -> tuple[TaskCommit, int]:
        """Write the new files; what the task has written, and the rows."""
        self.spec.tell_filesystem()
        with (
            _told_if_gone(self.destination.location),
            Task(self.spec, ids.task_id(_TASK)) as task,
            closing(self._read_ahead()) as files,
        ):
            rows = sum(self._put_together(task, group, files) for group in self.groups)
            commit = task.commit()
        return commit, rows

    def _read_ahead(self) -> Generator[pq.ParquetFile]:
        """The files of all groups in order; the next ones are opened meanwhile, and small ones read whole."""
        with ThreadPoolExecutor(_READERS) as pool:
            opened: deque[Future[pq.ParquetFile]] = deque()
            try:
                for key in self.old:
                    opened.append(pool.submit(_read, self.destination, self.files[key]))
                    if len(opened) == _READERS:
                        yield opened.popleft().result()
                while opened:
                    yield opened.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _put_together(self, task: Task, group: Group, files: Iterator[pq.ParquetFile]) -> int:
        import pyarrow.parquet as pq

        from magicfs.tables.parquet_kinds import codecs_of, kind_of, options_like

        first = next(files)
        options = dict(options_like(kind_of(first)) or {})
        if codecs := codecs_of(first.metadata):
            options["compression"] = codecs
        expected = 0
        with (
            task.filesystem.open(f"{task.path}/{group.name}", "wb") as sink,
            pq.ParquetWriter(sink, first.schema_arrow, **options) as writer,
        ):
            rest = islice(files, len(group.keys) - 1)
            for table in _tables(zip(group.keys, chain((first,), rest), strict=True)):
                writer.write_table(table)
                expected += table.num_rows
        return expected


def _tables(files: Iterable[tuple[str, pq.ParquetFile]]) -> Iterator[Any]:
    """The rows of some files, in lumps that make row groups of a good size."""
    import pyarrow as pa

    from magicfs.tables.column_types import bytes_of

    batches, size = list[Any](), 0
    for key, file in files:
        rows = 0
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            batches.append(batch)
            rows += batch.num_rows
            size += bytes_of(batch)
            if size >= _BUFFER_BYTES:
                yield pa.Table.from_batches(batches, file.schema_arrow)
                batches, size = [], 0
        if rows != (listed := file.metadata.num_rows):
            raise UsageError(f"{key} has {listed} rows according to its footer, but {rows} were read")
        schema = file.schema_arrow
    if batches:
        yield pa.Table.from_batches(batches, schema)


@contextmanager
def _told_if_gone(location: Location) -> Iterator[None]:
    """Say what to do where a file that was to be read is gone."""
    try:
        yield
    except FileNotFoundError as error:
        problem = f"a file of the dataset is gone, perhaps replaced by another job meanwhile: {error}"
        hint = f"call again; if it happens again run magicfs verify {location.url}; nothing was changed"
        raise ObjectNotFound("rewrite", location.path, problem, hint=hint) from error


def _read(destination: Destination, file: ManifestFile) -> pq.ParquetFile:
    """A file of which all rows are needed: a small one is read whole, in one request."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened = _opened(destination, file)
    if file.size > _WHOLE_BYTES:
        return pq.ParquetFile(opened)
    with opened:
        return pq.ParquetFile(pa.BufferReader(opened.read_buffer()))


def _opened(destination: Destination, file: ManifestFile) -> pa.NativeFile:
    from pyarrow.fs import PyFileSystem

    from magicfs.reading.arrow_files import PublishedFiles

    path = paths.prefix_of(destination.location.path) + file.key
    arrow = PyFileSystem(PublishedFiles(destination.filesystem, {path: file}, destination.location))
    return arrow.open_input_file(path)


def _kinds(
    destination: Destination, files: Mapping[str, ManifestFile], keys: Sequence[str]
) -> dict[str, ParquetKind | None]:
    """The kind of each file, by its footer; None of one whose schema pyarrow cannot write."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from magicfs.tables.parquet_kinds import kind_of, options_like

    def look(key: str) -> ParquetKind | None:
        try:
            kind = kind_of(pq.ParquetFile(_opened(destination, files[key])))
        except pa.ArrowException as error:
            url = destination.location.url
            raise UsageError(
                f"{key} of {url} cannot be read as Parquet: {error}; nothing was changed; run magicfs "
                f"verify {url}"
            ) from error
        return kind if options_like(kind) is not None else None

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(keys, pool.map(look, keys), strict=True))


def the_same(
    location: Location, old: Mapping[str, ManifestFile], shown: Mapping[str, ManifestFile]
) -> Mapping[str, ManifestFile]:
    """The files that were read, if the dataset still shows them."""
    gone = [key for key, one in old.items() if key not in shown or not _is_one(one, shown[key])]
    if gone:
        raise CommitDenied(
            f"{len(gone)} of {len(old)} files of {location.url} that were rewritten, such as {gone[0]}, were "
            "replaced by another job meanwhile; nothing was changed; call again"
        )
    return old


def _is_one(first: ManifestFile, second: ManifestFile) -> bool:
    return (first.size, first.etag, first.write_id) == (second.size, second.etag, second.write_id)


async def begun(engine: Engine, location: Location, context: JobContext) -> tuple[JobTransaction, JobSetup]:
    """Set the job up; returns it, and what that found."""
    transaction = JobTransaction(await told_as_newest(engine, location), context)
    return transaction, await transaction.set_up()


async def committed(
    transaction: JobTransaction, driver: str, commit: TaskCommit, choice: Choice
) -> JobReport:
    """Publish what a task has written in place of the files that ``choice`` takes of those that are shown."""

    async def load() -> JobOutput:
        sets = StoreSets(transaction.engine, transaction.context)
        output = await job_output.load_commits(transaction.engine, transaction.context, sets, [commit])
        output.planner = naming(choice)
        return output

    return await commit_or_abort(transaction, load, driver)
