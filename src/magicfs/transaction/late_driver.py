"""What a driver hears whose job another process, or a JVM, has brought to its end.

The other one has published what it knew of, from facts that a driver wrote or from a listing. A task that has
committed meanwhile is not among that, and its rows would be lost without a word.

A committer of Hadoop that has committed a job of ours writes ``_SUCCESS`` and no manifest, and removes the
job's work, our job object included. ``_SUCCESS`` shows that the job was published, so its driver writes the
manifest that is missing, and never says that the job is to be run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    FormatError,
    ObjectNotFound,
    ProtocolViolation,
    UsageError,
)
from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit, unpack
from magicfs.manifests import chain
from magicfs.protocol import modes, paths
from magicfs.protocol.identity import CommittedFile, unpublished
from magicfs.protocol.ids import JobId, TaskId
from magicfs.protocol.readback import WRITE_ID
from magicfs.protocol.winners import last_committed
from magicfs.runtime.parallel import drained
from magicfs.stores import object_settings
from magicfs.stores.conditions import conditions_of
from magicfs.stores.register import found_at
from magicfs.transaction.attempt_output import TaskSets
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord

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


_COMMITTED: Final = "committer_commits_completed"
_OURS: Final = "magicfs"


@dataclass(frozen=True, slots=True)
class Adopted:
    """A job that a JVM has committed."""

    manifest: Manifest  # which was missing
    warnings: tuple[str, ...]


async def seen_of_jvm(engine: Engine, destination: str, job: str) -> SuccessData | None:
    """What ``_SUCCESS`` says if a committer of Hadoop's has published this job; else None."""
    path = paths.join(destination, "_SUCCESS")
    try:
        raw = await engine.store.get(path, size_max=SUCCESS_SIZE_LIMIT + 1)
        found = SuccessData.from_bytes(f"{engine.store.bucket}/{path}", raw)
    except (ObjectNotFound, FormatError, UsageError):
        return None
    is_its = found.success and found.job_id == job and found.job_id_source != _OURS
    return found if is_its else None


async def adopt_of_jvm(
    engine: Engine, context: JobContext, success: SuccessData, committed: Committed | None
) -> Adopted:
    """Publish the manifest of a job that a JVM has committed. A second call changes nothing.

    Its files are those that its tasks have committed, and those that ``_SUCCESS`` names, which are the first
    hundred; the ones that are not there are left out. Warnings tell what no manifest names.
    """
    destination = context.layout.destination
    conditions = await conditions_of(engine.store, paths.join(destination, modes.MANIFESTS))
    files = await _files(engine, destination, success, committed)
    pointer = await chain.read_pointer(engine.store, destination, conditions)
    manifest = Manifest(
        job_id=context.job,
        run_id=context.options.run_id,
        bucket=engine.store.bucket,
        destination=destination,
        mode="append",  # whatever the job was told: that is all that Hadoop's can do
        committed_ms=success.timestamp_ms,
        older_files=pointer is None and await _others_are_there(engine, destination, files),
        files=tuple(files[key] for key in sorted(files)),
        object_settings=object_settings.of_store(engine.store),
    )
    await chain.publish(engine.store, conditions, destination, manifest)
    warnings = [f"Hadoop's {success.committer} committer committed the job; magicfs added its manifest"]
    if context.is_replacing:
        warnings.append(f"it appended, although mode={context.options.mode!r} was given")
    left = success.statistics.counters.get(_COMMITTED, len(files)) - len(files)
    if left > 0:
        warnings.append(
            f"{left} files of the job are not in its manifest, because neither its tasks' commits nor "
            f"_SUCCESS name them; run magicfs adopt {context.url} while no job writes there"
        )
    return Adopted(manifest, tuple(warnings))


async def _files(
    engine: Engine, destination: str, success: SuccessData, committed: Committed | None
) -> dict[str, ManifestFile]:
    """The job's files that are there, by relative keys."""
    wanted: dict[str, str | None] = {name.removeprefix("/"): None for name in success.filenames}
    wanted |= {one.key: one.write_id for one in (committed.files if committed else ())}
    found: dict[str, ManifestFile] = {}

    async def look(key: str) -> None:
        if (info := await found_at(engine.store, key)) is None:
            return
        own, borne = wanted[key], info.metadata.get(WRITE_ID)
        if own is None or own == borne:
            name = paths.relative_to(key, destination)
            found[name] = ManifestFile(
                key=name, size=info.size, etag=info.etag, version=info.version or None, write_id=borne
            )

    inside = [key for key in wanted if paths.is_under(key, destination) and modes.is_data(key, destination)]
    await drained(inside, look, engine.concurrency)
    return found


async def _others_are_there(engine: Engine, destination: str, files: dict[str, ManifestFile]) -> bool:
    async for info in engine.store.list(paths.prefix_of(destination)):
        name = paths.relative_to(info.key, destination)
        if modes.is_data(info.key, destination) and name not in files:
            return True
    return False
