"""The pending sets that a job publishes: choosing them, reading them once, turning them into steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, ProtocolViolation
from magicfs.filesystem.recording import write_id_of
from magicfs.formats.audit import Audit
from magicfs.formats.footer import FOOTER, Footer, footers_in
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pending import Body, Pending, Source
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import TaskCommit, unpack
from magicfs.protocol import paths
from magicfs.protocol.steps import Abort, Complete, Publication
from magicfs.protocol.temporary import RENAMING
from magicfs.protocol.winners import Attempt, LateKeyCheck, check_attempts, last_committed
from magicfs.transaction import pack
from magicfs.transaction.context import JobContext
from magicfs.transaction.sets import StoreSets, TaskSets
from magicfs.transaction.spool import Spool
from magicfs.transaction.task_manifests import TaskManifests

__all__ = [
    "Choice",
    "JobOutput",
    "Taking",
    "aborts",
    "carried",
    "checked",
    "load",
    "load_commits",
    "load_listed",
    "sets_of",
]

Choice = Callable[[Mapping[str, ManifestFile]], Mapping[str, ManifestFile]]
"""Chooses files from all that a dataset shows, by keys relative to the destination."""

_Named = tuple[str, bytes]
_Parse = Callable[[str, bytes], PendingSet]
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
    restored: Mapping[str, ManifestFile] = field(default_factory=dict)
    """Of a rollback the files that it shows again, by keys relative to the destination."""
    choice: Choice | None = None
    """Of a job that names the files that it replaces, how they are chosen from those that are shown."""
    audit: Audit | None = None  # what was said of them; None without an audit, or before it
    names: list[str] = field(default_factory=list)  # of the sets
    _kept: Spool = field(default_factory=Spool, repr=False)

    def add(self, name: str, files: Sequence[Pending]) -> None:
        """Take one more set in, which was checked."""
        self.names.append(name)
        self._kept.append(pack.pack(files))
        self._kept.append(pack.pack_steps(files))
        self.files += len(files)
        self.bytes += sum([one.length for one in files])
        closed = [one.created_ms for one in files if write_id_of(one) is not None and one.is_upload]
        self.with_footer += sum([FOOTER in one.extra_data for one in files])
        self.without_write_id += sum([write_id_of(one) is None for one in files])
        self.renames += sum([one.source is not None for one in files])
        for one in files:
            if one.body is not None:
                end = one.body.offset + one.length
                self.bundles[one.body.bundle] = max(end, self.bundles.get(one.body.bundle, 0))
        if any(closed):
            oldest = min(filter(None, closed))
            self.oldest_ms = oldest if self.oldest_ms is None else min(oldest, self.oldest_ms)

    def pendings(self) -> Iterator[Pending]:
        """Every file, unpacking one set at a time."""
        for number in range(len(self.names)):
            yield from pack.unpack(self._kept.read(2 * number))

    def figures(self) -> dict[str, Any]:
        """What the job object says of them."""
        found: dict[str, Any] = {"tasks": self.tasks, "files": self.files, "size": self.bytes}
        return found if self.audit is None else {**found, "audit": self.audit}

    def footers(self) -> Iterator[Footer | None]:
        """What each file says of itself, in the same order; None where nobody knows."""
        if not self.with_footer:
            return repeat(None, self.files)
        return footers_in(one.extra_data for one in self.pendings())

    def steps(self, *, if_absent: bool = False) -> Iterator[Publication]:
        """The step that makes each file visible, in the same order; takes much less time."""
        for _, steps in self.steps_by_set(if_absent=if_absent):
            yield from steps

    def steps_by_set(self, *, if_absent: bool = False) -> Iterator[tuple[str, list[Publication]]]:
        """The name of every set, and the steps of its files."""
        for number, name in enumerate(self.names):
            yield name, pack.unpack_steps(self._kept.read(2 * number + 1), if_absent=if_absent)

    def final_keys(self) -> Iterator[str]:
        """Where every file will be."""
        return (step.key for step in self.steps())

    def restored_keys(self, destination: str) -> Iterator[str]:
        """Where the files lie that a rollback shows again."""
        return (paths.join(destination, key) for key in self.restored)

    def shown_keys(self, destination: str) -> Iterator[str]:
        """Where every file is that the job shows: its own, and those of the past."""
        return chain(self.final_keys(), self.restored_keys(destination))


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
            yield from _parsed(name, unpack(name, commit.content), context, _keys_of(engine, context)).commits
        except (CommitFailed, FormatError):
            continue


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
    if commits is None and context.tracking == "memory":
        raise ProtocolViolation(
            "with tracking='memory' no listing shows what tasks committed; pass their TaskCommits to "
            "job.commit"
        )
    if commits is None:
        output = await load_listed(engine, context, sets)
    else:
        output = await load_commits(engine, context, sets, commits)
    if tasks is not None and output.tasks != tasks:
        raise ProtocolViolation(
            f"{output.tasks} tasks of job {context.job} are committed and {tasks} are expected; "
            "nothing was published; pass the commits of all tasks"
        )
    return output


async def load_commits(
    engine: Engine, context: JobContext, sets: TaskSets, commits: Sequence[TaskCommit]
) -> JobOutput:
    """Take the pending sets that an engine's accepted commits carry or name. Raises as ``load``."""
    check_attempts(context.job, (Attempt(c.job_id, c.task_id, c.attempt_id) for c in commits))
    chosen = sorted(commits, key=lambda c: c.task_id)
    stored = sets.read_ahead([_set_key(context, sets, c) for c in chosen if c.content is None])

    async def found() -> AsyncIterator[tuple[str, bytes, _Parse]]:
        async with aclosing(stored):
            for commit in chosen:
                if commit.content is None:
                    yield *(await anext(stored)), sets.parsed
                    continue
                name = f"commit of task {commit.task_id}"
                try:
                    yield name, unpack(name, commit.content), PendingSet.from_bytes
                except FormatError as error:
                    raise _malformed(error) from error

    return await _checked(engine, context, found())


async def load_listed(engine: Engine, context: JobContext, sets: TaskSets | None = None) -> JobOutput:
    """Take the last committed pending set of every task, found by listing (Hadoop's way). Raises as
    ``load``.
    """
    sets = sets or sets_of(engine, context)
    chosen = last_committed(await sets.listed())
    taking = Taking(engine, context)
    async with aclosing(sets.read_ahead([one.key for one in chosen])) as read:
        async for name, raw in read:
            taking.take(name, raw, sets.parsed)
    return taking.finish()


def sets_of(engine: Engine, context: JobContext) -> TaskSets:
    """Where tasks of a job leave their sets in the destination's store."""
    return (TaskManifests if context.committer in RENAMING else StoreSets)(engine, context)


def _set_key(context: JobContext, sets: TaskSets, commit: TaskCommit) -> str:
    """Where a commit's set is stored, which must be among the job's own files."""
    if (key := sets.key_of(commit)) is None:
        raise CommitFailed(
            f"the commit of task {commit.task_id} carries no pending set and names {commit.set_key!r}, which "
            f"is none of job {context.job}; nothing was published; pass what task.commit returned"
        )
    return key


def checked(engine: Engine, context: JobContext, sets: Iterable[_Named]) -> JobOutput:
    """Parse and check pending sets, and keep them packed; one that is malformed raises CommitFailed."""
    taking = Taking(engine, context)
    for name, raw in sets:
        taking.take(name, raw)
    return taking.finish()


async def _checked(
    engine: Engine, context: JobContext, sets: AsyncIterator[tuple[str, bytes, _Parse]]
) -> JobOutput:
    taking = Taking(engine, context)
    async for name, raw, parse in sets:
        taking.take(name, raw, parse)
    return taking.finish()


class Taking:
    """Takes pending sets in, one by one, and checks them."""

    def __init__(self, engine: Engine, context: JobContext) -> None:
        self.output = JobOutput()
        self._context = context
        self._keys = _keys_of(engine, context)
        self._statistics: list[Statistics] = []

    def take(self, name: str, raw: bytes, parse: _Parse = PendingSet.from_bytes) -> None:
        """Take one more in; CommitFailed if it is malformed, or is not the job's."""
        one = _parsed(name, raw, self._context, self._keys, parse)
        self.add(name, one.commits, one.statistics)

    def add(self, name: str, files: Sequence[Pending], statistics: Statistics) -> None:
        """Take in what was checked before."""
        self.output.tasks += 1
        self.output.add(name, files)
        self._statistics.append(statistics)
        if len(self._statistics) == _SUMMED_AT_ONCE:
            self._statistics = [Statistics.aggregate(self._statistics)]

    def finish(self) -> JobOutput:
        """All that was taken in; CommitFailed if two tasks write one key."""
        output = self.output
        self._keys.finish(lambda: ((n, step.key) for n, steps in output.steps_by_set() for step in steps))
        output.statistics = Statistics.aggregate(self._statistics)
        return output


def _keys_of(engine: Engine, context: JobContext) -> LateKeyCheck:
    return LateKeyCheck(engine.store.bucket, context.layout.destination, context.extra_destinations)


def _parsed(
    name: str,
    raw: bytes,
    context: JobContext,
    keys: LateKeyCheck,
    parse: _Parse = PendingSet.from_bytes,
) -> PendingSet:
    try:
        one = parse(name, raw)
    except FormatError as error:
        raise _malformed(error) from error
    for job in {one.job_id, *[pending.job_id for pending in one.commits]}:
        if job not in {"", context.job}:
            raise CommitFailed(
                f"{name} belongs to job {job}, not {context.job}; nothing was published; "
                "remove it or commit the other job"
            )
    renames, work = context.committer in RENAMING, paths.prefix_of(context.temporary.job_directory)
    for pending in one.commits:
        keys.add(pending.bucket, pending.destination_key, name)
        if pending.body is not None:
            _check_body(name, pending, pending.body, context)
        if renames or pending.source is not None:
            _check_source(name, pending, pending.source, work if renames else None)
    return one


def _check_source(name: str, pending: Pending, source: Source | None, work: str | None) -> None:
    if (
        work is None
        or source is None
        or not paths.can_be_a_file(source.key)
        or not source.key.startswith(work)
    ):
        raise CommitFailed(
            f"{name} names {source and source.key!a} as what becomes {pending.destination_key}, which is no "
            "file of the job's tasks; nothing was published; find out who wrote it",
            failed=[pending.destination_key],
        )


def _check_body(name: str, pending: Pending, body: Body, context: JobContext) -> None:
    if not context.layout.is_bundle(body.bundle) or write_id_of(pending) is None:
        raise CommitFailed(
            f"{name} names {body.bundle!a} as what holds {pending.destination_key}, which is no bundle of "
            f"job {context.job}, or gives the file no write id; nothing was published; find out who wrote it"
        )


def _malformed(error: FormatError) -> CommitFailed:
    return CommitFailed(
        f"a pending set is malformed or inconsistent: {error}; nothing was published; run its task again"
    )
