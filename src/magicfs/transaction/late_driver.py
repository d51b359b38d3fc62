"""What a driver hears whose job another process has brought to its end.

The other one has published what it knew of, from facts that a driver wrote or from a listing. A task that has
committed meanwhile is not among that, and its rows would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, FormatError, ProtocolViolation
from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.manifest import Manifest
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import TaskCommit, unpack
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.protocol.identity import CommittedFile, unpublished
from magicfs.protocol.ids import JobId, TaskId
from magicfs.protocol.winners import last_committed
from magicfs.transaction.attempt_output import TaskSets
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord

__all__ = ["Committed", "check", "committed_files", "compare", "manifests_of", "published_by_manifests"]

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Committed:
    """What a driver was to publish."""

    files: list[CommittedFile] = field(default_factory=list)
    unknown: list[TaskId] = field(default_factory=list)
    """Tasks that wrote files, of which nobody can tell any more which ones."""


async def committed_files(
    context: JobContext, sets: TaskSets, commits: Sequence[TaskCommit] | None, tasks: int | None
) -> Committed:
    """What commits carry or name; without commits, what is still listed. Raises ProtocolViolation if there
    are not as many commits as the engine has tasks.
    """
    found = Committed()
    if tasks is not None and commits is not None and len(commits) != tasks:
        raise ProtocolViolation(
            f"{len(commits)} tasks of job {context.job} are committed and {tasks} are expected, but another "
            "process has ended the job; check what was published"
        )
    if commits is None:
        for one in last_committed(await sets.listed()) if context.options.tracking == "store" else ():
            await _add_stored(found, sets, one.task, one.key)
        return found
    for commit in commits:
        if commit.content is not None:
            _add_carried(found, commit.task_id, commit.content)
        elif (key := sets.key_of(commit)) is not None:
            await _add_stored(found, sets, commit.task_id, key)
        elif commit.files:
            found.unknown.append(commit.task_id)
    return found


def _add_carried(found: Committed, task: TaskId, content: bytes) -> None:
    name = f"commit of task {task}"
    try:
        _add(found, task, PendingSet.from_bytes(name, unpack(name, content)))
    except FormatError:
        found.unknown.append(task)


async def _add_stored(found: Committed, sets: TaskSets, task: TaskId, key: str) -> None:
    try:
        async with aclosing(sets.read_ahead([key])) as read:
            _, raw = await anext(read)
        _add(found, task, sets.parsed(sets.where(key), raw))
    except (CommitFailed, FormatError):  # who ended the job has removed it
        found.unknown.append(task)


def _add(found: Committed, task: TaskId, pending_set: PendingSet) -> None:
    found.files.extend(
        CommittedFile(task, one.destination_key, write_id_of(one)) for one in pending_set.commits
    )


async def manifests_of(engine: Engine, context: JobContext, record: JobRecord) -> list[Manifest]:
    """What a job has published, by destinations; empty if it was not published."""

    async def read(destination: str) -> Manifest | None:
        return await chain.read(engine.store, destination, context.job, record.conditions)

    own = await read(context.layout.destination)
    if own is None:
        return []
    others = [await read(extra) for extra in context.options.places.extra]
    return [own, *(one for one in others if one is not None)]


def published_by_manifests(manifests: Sequence[Manifest]) -> dict[str, str | None]:
    """What has been published of a job that has ended."""
    return {paths.join(each.destination, one.key): one.write_id for each in manifests for one in each.files}


async def check(
    engine: Engine, context: JobContext, record: JobRecord, committed: Committed, output: JobOutput
) -> tuple[str, ...]:
    """As ``compare``, for a driver that has published what another process had decided on, ``output``."""
    published = {one.key: one.write_id for one in output.steps()}
    if not published:  # the facts were gone already, and the manifest was there
        published = published_by_manifests(await manifests_of(engine, context, record))
    return compare(context, committed, published)


def compare(
    context: JobContext, committed: Committed | None, published: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Raise CommitDenied if something that was committed is not published; returns warnings about what cannot
    be told.
    """
    if committed is None:
        return ()
    lost = unpublished(committed.files, published)
    if lost:
        tasks = sorted({one.task for one in lost})
        named = ", ".join(one.key for one in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
        others = " (another attempt's file is there)" if any(one.key in published for one in lost) else ""
        raise CommitDenied(
            f"job {context.job} was ended by another process, which published {len(published)} files. "
            f"{len(lost)} committed files, of tasks {', '.join(tasks)}, are not among them and will not be "
            f"published: {named}{more}{others}; published files stay; write the data of these tasks again "
            "with another job",
            failed=[one.key for one in lost],
        )
    unknown = [task for task in committed.unknown if not _is_named(context, task, published)]
    if not unknown:
        return ()
    warning = (
        f"files of tasks {', '.join(sorted(unknown))} may or may not have been published, because their "
        "pending sets are gone; compare the dataset with what they wrote"
    )
    return (warning,)


def _is_named(context: JobContext, task: TaskId, published: Mapping[str, str | None]) -> bool:
    """Whether the names of published files show that a task's were among them: a set is published whole."""
    return context.options.unique_names and any(_writer(key, context.job) == task for key in published)


def _writer(key: str, job: JobId) -> TaskId | None:
    """The task in the unique name of a file that was called without a hyphen; None where none is seen."""
    stem, found, _ = key.rpartition("/")[2].rpartition(f"-{job}")
    return TaskId(stem.rpartition("-")[2]) if found and "-" in stem else None
