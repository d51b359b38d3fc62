"""The pending sets that a job publishes: choosing them, reading them once, turning them into steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, ProtocolViolation
from magicfs.formats.audit import Audit, Said, said_in
from magicfs.formats.fields import LONG_MAX
from magicfs.formats.footer import Footer, footers_in
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pending import CHECKSUM, Pending
from magicfs.formats.plain_set import extra_data_of, pending_of
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import TaskCommit, unpack
from magicfs.protocol import paths
from magicfs.protocol.final_names import is_named_by
from magicfs.protocol.readback import etag_of_parts
from magicfs.protocol.steps import Abort, Complete, Publication, Put, Rename
from magicfs.protocol.temporary import RENAMING
from magicfs.protocol.winners import Attempt, KeyCheck, check_attempts, last_committed
from magicfs.transaction import spool
from magicfs.transaction.attempt_output import StoreSets, TaskSets
from magicfs.transaction.context import JobContext
from magicfs.transaction.spool import SetFiles, TakenFiles
from magicfs.transaction.task_manifests import TaskManifests

if TYPE_CHECKING:
    from magicfs.transaction.planning import Look, Planner

_Named = tuple[str, bytes]
_Read = Callable[[str, bytes], SetFiles]
_SUMMED_AT_ONCE = 1000


@dataclass(slots=True)
class JobOutput:
    """The checked pending sets of a job, in the order of their tasks. They take no memory for every file."""

    tasks: int = 0  # how many tasks wrote them
    files: int = 0  # how many files they hold
    bytes: int = 0
    bundles: dict[str, int] = field(default_factory=dict)
    """Keys of the objects that hold bodies of its small files, with how many bytes each has at least."""
    statistics: Statistics = field(default_factory=Statistics)  # sum of what the tasks counted
    oldest_ms: int | None = None
    """When the oldest upload of ours was closed; None if none tells."""
    without_write_id: int = 0  # how many files were uploaded by Hadoop
    renames: int = 0  # how many files are renamed
    obstacles: Sequence[str] = ()
    """Keys of old files in the places of directories that its files need; they are deleted before."""
    with_footer: int = 0  # how many files say something of themselves
    unread_footers: int = 0  # how many of those nobody can read, once all were looked at
    with_checksum: int = 0  # of how many files their tasks have made a checksum
    restored: Mapping[str, ManifestFile] = field(default_factory=dict)
    """Of a rollback the files that it shows again, by keys relative to the destination."""
    planner: Callable[[Look], Planner] | None = None
    """What plans what the job replaces, if its mode does not."""
    audit: Audit | None = None  # what was said of them; None without an audit, or before it
    names: list[str] = field(default_factory=list)  # of the sets
    characters: int = 0  # of the JSON of all files
    attempts: set[str] = field(default_factory=set)  # that wrote files of theirs
    _taken: TakenFiles = field(default_factory=TakenFiles, repr=False)

    def add(self, name: str, files: SetFiles) -> None:
        """Take one more set in, which was checked."""
        self.names.append(name)
        self.attempts |= files.attempts
        self._taken.append(files.texts, files.steps)
        self.files += len(files.steps)
        self.characters += sum(map(len, files.texts))
        self.bytes += sum([step.length for step in files.steps])
        self.with_footer += files.with_footer
        self.with_checksum += files.with_checksum
        closed = []
        for step, created_ms in zip(files.steps, files.created_ms, strict=True):
            if isinstance(step, Put):
                end = step.offset + step.length
                self.bundles[step.bundle] = max(end, self.bundles.get(step.bundle, 0))
            elif isinstance(step, Rename):
                self.renames += 1
                self.without_write_id += step.write_id is None
            elif step.write_id is None:
                self.without_write_id += 1
            elif created_ms:
                closed.append(created_ms)
        if closed:
            self.oldest_ms = min(closed) if self.oldest_ms is None else min(*closed, self.oldest_ms)

    def texts(self) -> Iterator[str]:
        """The JSON of every file, as a set has it, with one set at a time in memory."""
        for number in range(len(self.names)):
            yield from self._taken.texts(number)

    def pendings(self) -> Iterator[Pending]:
        """Every file with all that is known of it, which takes much more time."""
        return map(pending_of, self.texts())

    def figures(self) -> dict[str, Any]:
        """What the job object says of them."""
        found: dict[str, Any] = {"tasks": self.tasks, "files": self.files, "size": self.bytes}
        return found if self.audit is None else {**found, "audit": self.audit}

    def footers(self) -> Iterator[Footer | None]:
        """What each file says of itself, in the same order; None where nobody knows."""
        if not self.with_footer:
            return repeat(None, self.files)
        return self._footers()

    def _footers(self) -> Iterator[Footer | None]:
        unread = self.with_footer
        for footer in footers_in(map(extra_data_of, self.texts())):
            unread -= footer is not None
            yield footer
        self.unread_footers = unread

    @property
    def left_out(self) -> list[str]:
        """A warning about footers that nobody can read, once all were looked at; none if there are none."""
        if not self.unread_footers:
            return []
        warning = (
            f"{self.unread_footers} files are published without rows, schema and statistics, because the "
            "records of their tasks cannot be read; find out what wrote those records"
        )
        return [warning]

    def checksums(self) -> Iterator[str | None]:
        """The checksum that its task made of each file, in the same order; None where there is none."""
        if not self.with_checksum:
            return repeat(None, self.files)
        return (extra.get(CHECKSUM) for extra in map(extra_data_of, self.texts()))

    def said(self) -> Iterator[Said]:
        """What checks of its content have said of each file in its task, in the same order."""
        return map(said_in, map(extra_data_of, self.texts()))

    def steps(self, *, if_absent: bool = False) -> Iterator[Publication]:
        """The step that makes each file visible, in the same order."""
        for _, steps in self.steps_by_set(if_absent=if_absent):
            yield from steps

    def steps_by_set(self, *, if_absent: bool = False) -> Iterator[tuple[str, Sequence[Publication]]]:
        for number, name in enumerate(self.names):
            yield name, self._taken.steps(number, if_absent=if_absent)

    def final_keys(self) -> Iterator[str]:
        return chain.from_iterable(map(self._taken.keys, range(len(self.names))))

    def restored_keys(self, destination: str) -> Iterator[str]:
        """Where the files lie that a rollback shows again."""
        return (paths.join(destination, key) for key in self.restored)

    def shown_keys(self, destination: str) -> Iterator[str]:
        """Where every file is that the job shows: its own, and those of the past."""
        return chain(self.final_keys(), self.restored_keys(destination))


def keys_that_may_be_taken(context: JobContext, output: JobOutput) -> dict[str, str | None]:
    """The keys of a job's files at which others may lie, each with the ETag by which its own is told.

    Only those that Hadoop has published and those that are renamed have one; uploads of ours have None.
    """
    job, by_name = context.job, context.uploads_found_by_name
    return {
        step.key: _etag_of(step)
        for step in output.steps()
        if not (by_name and is_named_by(step.key.rpartition("/")[2], job))
    }


def _etag_of(step: Publication) -> str | None:
    if isinstance(step, Rename):
        return step.etag.strip('"') or None
    return etag_of_parts(step.etags) if isinstance(step, Complete) and step.write_id is None else None


def aborts(output: JobOutput) -> Iterator[Abort]:
    """The steps that discard a job's uploads."""
    for step in output.steps():
        if isinstance(step, Complete):
            yield Abort(step.key, step.upload_id)


def carried(engine: Engine, context: JobContext, commits: Sequence[TaskCommit]) -> Iterator[Pending]:
    """The uploads that commits carry inside; what is malformed is left out."""
    for commit in commits:
        if commit.content is None:
            continue
        name = f"commit of task {commit.task_id}"
        try:
            files = spool.read(name, unpack(name, commit.content))
            _check(name, files, context, _keys_of(engine, context))
        except (CommitFailed, FormatError):
            continue
        yield from map(pending_of, files.texts)


async def load(
    engine: Engine,
    context: JobContext,
    sets: TaskSets,
    commits: Sequence[TaskCommit] | None,
    tasks: int | None,
) -> JobOutput:
    """Take what a job commit was told to publish; without commits, all that a listing shows.

    Raises ProtocolViolation if the commits do not belong together or are not all; CommitFailed if a set is
    malformed or two tasks write one key. Nothing was published.
    """
    if commits is None and context.options.tracking == "memory":
        raise ProtocolViolation(
            "with tracking='memory' a listing cannot show what tasks committed; pass their TaskCommits to "
            "job.commit"
        )
    if commits is None:
        output = await load_listed(engine, context, sets)
    else:
        output = await load_commits(engine, context, sets, commits)
    if tasks is not None and output.tasks != tasks:
        raise ProtocolViolation(
            f"{output.tasks} tasks of job {context.job} were committed, but {tasks} were expected; nothing "
            "was published; pass the commits of all tasks"
        )
    return output


async def load_commits(
    engine: Engine, context: JobContext, sets: TaskSets, commits: Sequence[TaskCommit]
) -> JobOutput:
    """Take the pending sets that an engine's accepted commits carry or name. Raises as ``load``."""
    check_attempts(context.job, (Attempt(c.job_id, c.task_id, c.attempt_id) for c in commits))
    chosen = sorted(commits, key=lambda c: c.task_id)
    stored = sets.read_ahead([_set_key(context, sets, c) for c in chosen if c.content is None])
    taking, read_set = Taking(engine, context), _reading(sets)
    async with aclosing(stored):
        for commit in chosen:
            if commit.content is None:
                taking.take(*await anext(stored), read_set)
                continue
            name = f"commit of task {commit.task_id}"
            try:
                raw = unpack(name, commit.content)
            except FormatError as error:
                raise _malformed(error) from error
            taking.take(name, raw)
    return taking.finish()


async def load_listed(engine: Engine, context: JobContext, sets: TaskSets | None = None) -> JobOutput:
    """Take the last committed pending set of every task, found by listing (Hadoop's way). Raises as
    ``load``.
    """
    sets = sets or sets_of(engine, context)
    chosen = last_committed(await sets.listed())
    taking, read_set = Taking(engine, context), _reading(sets)
    async with aclosing(sets.read_ahead([one.key for one in chosen])) as read:
        async for name, raw in read:
            taking.take(name, raw, read_set)
    return taking.finish()


def sets_of(engine: Engine, context: JobContext) -> TaskSets:
    """Where tasks of a job leave their sets in the destination's store."""
    return (TaskManifests if context.options.committer in RENAMING else StoreSets)(engine, context)


def _reading(sets: TaskSets) -> _Read:
    if isinstance(sets, TaskManifests):
        return lambda name, raw: spool.of_set(sets.parsed(name, raw), name)
    return spool.read


def _set_key(context: JobContext, sets: TaskSets, commit: TaskCommit) -> str:
    """Where a commit's set is stored, which must be among the job's own files."""
    if (key := sets.key_of(commit)) is None:
        raise CommitFailed(
            f"the commit of task {commit.task_id} has no pending set and names {commit.set_key!r}, which "
            f"does not belong to job {context.job}; nothing was published; pass what task.commit returned"
        )
    return key


def checked(engine: Engine, context: JobContext, sets: Iterable[_Named]) -> JobOutput:
    """Parse and check pending sets, and keep them packed; one that is malformed raises CommitFailed."""
    taking = Taking(engine, context)
    for name, raw in sets:
        taking.take(name, raw)
    return taking.finish()


class Taking:
    """Takes pending sets in, one by one, and checks them."""

    def __init__(self, engine: Engine, context: JobContext) -> None:
        self.output: JobOutput = JobOutput()
        self._context = context
        self._keys = _keys_of(engine, context)
        self._statistics: list[Statistics] = []

    def take(self, name: str, raw: bytes, read: _Read = spool.read) -> None:
        """Take one more in; CommitFailed if it is malformed, or is not the job's."""
        try:
            files = read(name, raw)
        except FormatError as error:
            raise _malformed(error) from error
        _check(name, files, self._context, self._keys)
        self.output.tasks += 1
        self.output.add(name, files)
        self._statistics.append(files.statistics)
        if len(self._statistics) == _SUMMED_AT_ONCE:
            self._statistics = [Statistics.aggregate(self._statistics)]

    def finish(self) -> JobOutput:
        """All that was taken in; CommitFailed if two tasks write one key."""
        output = self.output
        if output.bytes > LONG_MAX:
            raise CommitFailed(
                f"the files of job {self._context.job} have {output.bytes} bytes according to its tasks, "
                "more than any store holds; nothing was published; find out which pending set something "
                "else wrote, and run its task again"
            )
        self._keys.finish(lambda: ((n, step.key) for n, steps in output.steps_by_set() for step in steps))
        output.statistics = Statistics.aggregate(self._statistics)
        return output


def _keys_of(engine: Engine, context: JobContext) -> KeyCheck:
    return KeyCheck(engine.store.bucket, context.layout.destination, context.options.places.extra)


def _check(name: str, files: SetFiles, context: JobContext, keys: KeyCheck) -> None:
    if others := files.jobs - {"", context.job}:
        raise CommitFailed(
            f"{name} belongs to job {min(others)}, not {context.job}; nothing was published; "
            "remove it or commit the other job"
        )
    keys.add(zip(files.buckets, [step.key for step in files.steps], strict=True), name)
    renames, work = context.options.committer in RENAMING, paths.prefix_of(context.temporary.job_directory)
    for step in files.steps:
        if renames or isinstance(step, Rename):
            _check_source(name, step, work if renames else None)
        if isinstance(step, Put) and not (_is_bundle(context, step.bundle) and step.write_id):
            raise CommitFailed(
                f"{name} names {step.bundle!a} as the bundle of {step.key}, but it is not a bundle of job "
                f"{context.job}, or the file has no write id; nothing was published; find out who wrote it"
            )


def _is_bundle(context: JobContext, key: str) -> bool:
    carries = context.options.committer not in RENAMING and context.options.small_files is not None
    return carries and context.layout.is_bundle(key) and paths.can_be_a_file(key)


def _check_source(name: str, step: Publication, work: str | None) -> None:
    source = step.source if isinstance(step, Rename) else None
    if work is None or source is None or not paths.can_be_a_file(source) or not source.startswith(work):
        raise CommitFailed(
            f"{name} names {source and source!a} as the source of {step.key}, which is not a file of the "
            "job's tasks; nothing was published; find out who wrote it",
            failed=[step.key],
        )


def _malformed(error: FormatError) -> CommitFailed:
    return CommitFailed(
        f"a pending set is malformed or inconsistent: {error}; nothing was published; run its task again"
    )
