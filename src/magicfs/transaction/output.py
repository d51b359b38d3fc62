"""The pending sets that a job publishes: choosing them, reading them once, turning them into steps."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, ProtocolViolation
from magicfs.filesystem.recording import write_id_of
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import TaskCommit, unpack
from magicfs.protocol.steps import Abort, Complete
from magicfs.protocol.winners import Attempt, KeyCheck, check_attempts, last_committed
from magicfs.transaction.context import JobContext
from magicfs.transaction.sets import StoreSets, TaskSets

__all__ = [
    "JobOutput",
    "aborts",
    "carried",
    "checked",
    "completing",
    "load",
    "load_commits",
    "load_listed",
]

_Named = tuple[str, bytes]


@dataclass(slots=True)
class JobOutput:
    """The checked pending sets of a job, packed, in the order of their tasks."""

    sets: list[_Named] = field(default_factory=list)
    """Name of each, and its files as this process has packed them, checked."""
    tasks: int = 0  # how many tasks wrote them
    files: int = 0  # how many files they hold
    bytes: int = 0
    statistics: Statistics = field(default_factory=Statistics)  # sum of what the tasks counted

    def pendings(self) -> Iterator[Pending]:
        """Every file, unpacking one set at a time."""
        for _, pendings in self.by_set():
            yield from pendings

    def by_set(self) -> Iterator[tuple[str, Sequence[Pending]]]:
        """The name of every set, and its files."""
        for name, packed in self.sets:
            yield name, pickle.loads(zlib.decompress(packed))  # noqa: S301 - made in _take, never stored


def completing(pending: Pending, *, if_absent: bool = False) -> Complete:
    """The step that makes one file visible; with ``if_absent`` only if no file is there."""
    return Complete(
        pending.destination_key,
        pending.upload_id,
        tuple(part.etag for part in pending.parts),
        pending.length,
        write_id_of(pending),
        _checksums(pending),
        if_absent,
    )


def _checksums(pending: Pending) -> tuple[tuple[str, str] | None, ...]:
    found = tuple(
        (part.checksum_algorithm, part.checksum) if part.checksum_algorithm and part.checksum else None
        for part in pending.parts
    )
    return found if any(found) else ()


def aborts(output: JobOutput) -> Iterator[Abort]:
    """The steps that discard a job's uploads."""
    for pending in output.pendings():
        yield Abort(pending.destination_key, pending.upload_id)


def carried(engine: Engine, context: JobContext, commits: Sequence[TaskCommit]) -> Iterator[Pending]:
    """The uploads that commits carry inside; what is malformed is left out."""
    for commit in commits:
        if commit.content is None:
            continue
        name = f"commit of task {commit.task_id}"
        output = JobOutput()
        try:
            raw = unpack(name, commit.content)
            _take(output, name, raw, context, KeyCheck(engine.store.bucket, *_places(context)))
        except (CommitFailed, FormatError):
            continue
        yield from output.pendings()


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
    read = await sets.read([_set_key(context, sets, c) for c in commits if c.content is None])
    found = []
    for commit in sorted(commits, key=lambda c: c.task_id):
        if commit.content is None:
            key = _set_key(context, sets, commit)
            found.append((key, read[key]))
            continue
        name = f"commit of task {commit.task_id}"
        try:
            found.append((name, unpack(name, commit.content)))
        except FormatError as error:
            raise _malformed(error) from error
    return checked(engine, context, found)


async def load_listed(engine: Engine, context: JobContext, sets: TaskSets | None = None) -> JobOutput:
    """Take the last committed pending set of every task, found by listing (Hadoop's way). Raises as
    ``load``.
    """
    sets = sets or StoreSets(engine, context)
    chosen = last_committed(await sets.listed())
    read = await sets.read([one.key for one in chosen])
    return checked(engine, context, [(one.key, read[one.key]) for one in chosen])


def _set_key(context: JobContext, sets: TaskSets, commit: TaskCommit) -> str:
    """Where a commit's set is stored, which must be among the job's own files."""
    if (key := sets.key_of(commit)) is None:
        raise CommitFailed(
            f"the commit of task {commit.task_id} carries no pending set and names {commit.set_key!r}, which "
            f"is none of job {context.job}; nothing was published; pass what task.commit returned"
        )
    return key


def checked(engine: Engine, context: JobContext, sets: Sequence[_Named]) -> JobOutput:
    """Parse and check pending sets, and keep them packed; one that is malformed raises CommitFailed."""
    output = JobOutput(tasks=len(sets))
    keys = KeyCheck(engine.store.bucket, *_places(context))
    output.statistics = Statistics.aggregate([_take(output, name, raw, context, keys) for name, raw in sets])
    return output


def _places(context: JobContext) -> tuple[str, tuple[str, ...]]:
    return context.layout.destination, context.extra_destinations


def _take(output: JobOutput, name: str, raw: bytes, context: JobContext, keys: KeyCheck) -> Statistics:
    try:
        one = PendingSet.from_bytes(name, raw)
    except FormatError as error:
        raise _malformed(error) from error
    for job in (one.job_id, *(pending.job_id for pending in one.commits)):
        if job not in {"", context.job}:
            raise CommitFailed(
                f"{name} belongs to job {job}, not {context.job}; nothing was published; "
                "remove it or commit the other job"
            )
    for pending in one.commits:
        keys.add(pending.bucket, pending.destination_key, name)
    # Parsing again for every pass would take ten times as long.
    output.sets.append((name, zlib.compress(pickle.dumps(one.commits), 1)))
    output.files += len(one.commits)
    output.bytes += sum(pending.length for pending in one.commits)
    return one.statistics


def _malformed(error: FormatError) -> CommitFailed:
    return CommitFailed(
        f"a pending set is malformed or inconsistent: {error}; nothing was published; run its task again"
    )
