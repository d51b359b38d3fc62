"""What a task attempt wrote: finding it, checking it, discarding it, and handing it to its job as one set."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO, TypeVar

from magicfs.engine import BatchResult, Engine
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.audit import Said, carried_by
from magicfs.formats.footer import once_each
from magicfs.formats.limits import PENDING_SIZE_LIMIT, PENDINGSET_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.rows import has_dots
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import final_key
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.magic import PENDING, PENDING_SET, locate
from magicfs.protocol.steps import Abort, Batch, Delete, Step
from magicfs.protocol.winners import StoredSet, last_committed
from magicfs.runtime.parallel import drained, in_order
from magicfs.stores.port import ObjectInfo, PutMode
from magicfs.stores.register import body_at
from magicfs.transaction.context import ContentCheck, JobContext, StagedFile

_TOLD_MAX = 1000
"""Characters of what one check may tell of one file."""


async def look_at_content(
    context: JobContext, key: str, size: int, opened: Callable[[], BinaryIO]
) -> Said | None:
    """What all checks say of a file, in a thread; None of one that is none of the destination's."""
    if (relative := _relative(context, key)) is None:
        return None
    return await asyncio.to_thread(_look, context.file_checks, relative, size, opened)


def not_looked_at(context: JobContext, key: str, why: str) -> Said | None:
    """The same of a file that nobody can read any more."""
    if _relative(context, key) is None:
        return None
    return {str(one): f"could not be read: {why}" for one in context.file_checks}


def with_said(pendings: Sequence[Pending], said: Mapping[str, Said]) -> list[Pending]:
    """Files of a task with what was said of them, by their final keys."""
    return [
        one
        if one.destination_key not in said
        else replace(one, extra_data={**one.extra_data, **carried_by(said[one.destination_key])})
        for one in pendings
    ]


def _look(checks: Sequence[ContentCheck], key: str, size: int, opened: Callable[[], BinaryIO]) -> Said:
    with ExitStack() as left_open:
        file = StagedFile(key, size, lambda: left_open.enter_context(opened()))
        return {str(one): _plain(one.look(file)) for one in checks}


def _plain(told: str | None) -> str | None:
    return None if told is None else told.encode("utf-8", "replace").decode()[:_TOLD_MAX]


def _relative(context: JobContext, key: str) -> str | None:
    destination = context.layout.destination
    return paths.relative_to(key, destination) if paths.is_under(key, destination) else None


@dataclass(slots=True)
class TaskOutput:
    """The files of one attempt."""

    pendings: list[Pending] = field(default_factory=list)  # those that can be committed
    problems: list[MagicError] = field(default_factory=list)  # why the others cannot
    keys: list[str] = field(default_factory=list)  # everything that lies in the attempt's directory


Known = Mapping[str, tuple[ObjectInfo, Pending]]
"""What this process has written itself: by the key of each ``.pending`` file its object and what it says."""


async def load(
    engine: Engine, directory: str, bucket: str, destinations: Sequence[str], known: Known
) -> TaskOutput:
    """Read every ``.pending`` file of an attempt, in parallel: one LIST per page, one GET per file.

    The listing tells which files there are. One that it shows as this process has written it is not read
    back: ``known`` says what is in it. A file that is malformed, names a place outside the destinations, or
    is a marker without its ``.pending`` becomes a problem, not an exception.
    """
    output = TaskOutput()
    listed = [info async for info in engine.store.list(paths.prefix_of(directory))]
    output.keys = [info.key for info in listed]
    described = {key.removesuffix(PENDING) for key in output.keys if key.endswith(PENDING)}
    for key in output.keys:
        # Names with a slash at the end are directories that other tools have marked.
        if not key.endswith((PENDING, "/")) and key not in described:
            output.problems.append(
                FormatError(
                    f"{bucket}/{key}",
                    "",
                    "the marker has no .pending file, because closing the file failed; write it again",
                )
            )
    written = {info.key: known[info.key][1] for info in listed if _is_as_written(info, known)}
    await read_pending(engine, output.keys, bucket, destinations, output, written)
    return output


def _is_as_written(listed: ObjectInfo, known: Known) -> bool:
    ours = known[listed.key][0] if listed.key in known and listed.etag else None
    return ours is not None and (listed.size, listed.etag) == (ours.size, ours.etag)


async def read_pending(
    engine: Engine,
    keys: Sequence[str],
    bucket: str,
    destinations: Sequence[str],
    output: TaskOutput,
    written: Mapping[str, Pending] | None = None,
) -> None:
    """Read those of the keys that are ``.pending`` files into ``output``, in the order of their keys, and
    problems; also when it raises. What ``written`` says of some is taken for read.
    """
    written = written or {}
    pending_keys = [key for key in keys if key.endswith(PENDING) and key not in written]
    found: dict[str, Pending] = {}

    def take(key: str, pending: Pending) -> None:
        _check_place(f"{bucket}/{key}", pending, bucket, destinations)
        found[key] = replace(pending, filename=f"{bucket}/{key}")

    async def read(key: str) -> None:
        try:
            raw = await engine.store.get(key, size_max=PENDING_SIZE_LIMIT + 1)
            take(key, Pending.from_bytes(f"{bucket}/{key}", raw))
        except (FormatError, ObjectNotFound) as error:
            output.problems.append(error)

    try:
        for key, pending in written.items():
            try:
                take(key, pending)
            except FormatError as error:
                output.problems.append(error)
        await drained(pending_keys, read, engine.concurrency)
    finally:
        output.pendings += [found[key] for key in sorted(found)]


def _check_place(where: str, pending: Pending, bucket: str, destinations: Sequence[str]) -> None:
    if pending.bucket != bucket:
        raise FormatError(where, "bucket", f"{pending.bucket!r} is not {bucket!r}, the job's")
    if paths.which_holds(pending.destination_key, destinations) is None or has_dots(pending.destination_key):
        places = " and ".join(repr(one) for one in destinations)
        raise FormatError(where, "destinationKey", f"{pending.destination_key!r} lies outside {places}")


def refuse_others(
    context: JobContext, attempt: AttemptId, opened: Iterable[tuple[str, Pending]], output: TaskOutput
) -> None:
    """Make a problem of every file that is not what the job's settings make of the path that was opened.

    ``opened`` are the attempt's files by path, ``bucket/key``. One whose owner or place is another's stays in
    the store as it is; one that only lacks the unique name is the attempt's own, and is discarded with it.
    """
    for path, pending in opened:
        located = locate(path)
        assert located is not None
        expected = plain = None
        with suppress(UsageError):  # outside of __base nothing has a unique name
            plain = located.final_key
            expected = final_key(located, unique_names=context.options.unique_names)
        key = pending.destination_key
        whose = {pending.job_id, pending.task_id} - {"", context.job, attempt}
        if key == expected and not whose:
            continue
        what = f"belongs to {' and '.join(sorted(whose))}" if whose else f"would be published as {key!r}"
        output.problems.append(
            UsageError(
                f"{path} {what}, but for attempt {attempt} of job {context.job}, with "
                f"unique_names={context.options.unique_names}, its final name is {expected!r}; write it "
                "again through task.filesystem, or give storage_options=task.storage_options together with "
                "task.url"
            )
        )
        if whose or key != plain:
            output.pendings.remove(pending)


async def abort_uploads(engine: Engine, pendings: Sequence[Pending]) -> list[MagicError]:
    """Abort uploads, trying each; returns what could not be aborted."""
    uploads = [one for one in pendings if one.is_upload]
    return await run_all(engine, "abort", [Abort(p.destination_key, p.upload_id) for p in uploads])


async def delete_keys(engine: Engine, keys: Sequence[str]) -> list[MagicError]:
    """Delete objects in bulk, trying each batch; returns what could not be deleted."""
    size = engine.store.capabilities.bulk_delete_max
    steps = [Delete(tuple(keys[start : start + size])) for start in range(0, len(keys), size)]
    return await run_all(engine, "delete", steps)


async def run_all(engine: Engine, name: str, steps: Sequence[Step]) -> list[MagicError]:
    """Carry out steps that do not depend on each other, trying each; returns what could not be done."""
    return problems_of(await engine.run(Batch(name, steps), stop_on_failure=False))


def problems_of(result: BatchResult) -> list[MagicError]:
    """What could not be done of a batch in which every step was tried."""
    return [one.error for one in result.failures if isinstance(one.error, MagicError)]


ATTEMPT = "task.attempt.id"
"""Under which name a set's extra data tells the attempt that wrote it."""

READ_AHEAD = 16
"""Most sets, or chunks of facts, that are held as they were read: each may have a megabyte."""

READ_AHEAD_SIZE = 16 * 1024**2
"""Most bytes of each of them: what 25,000 files need. A larger one is read whole only when it is its turn."""

_Named = TypeVar("_Named")


@dataclass(frozen=True, slots=True)
class Kept:
    """A persisted pending set."""

    commit: TaskCommit  # for the job
    pending_set: PendingSet  # what is persisted, which an earlier call for the same attempt may have written


class TaskSets(ABC):
    """Where tasks hand their pending sets to the job that they belong to."""

    def __init__(self, engine: Engine, context: JobContext) -> None:
        self._engine = engine
        self._context = context

    @abstractmethod
    async def find(self, task: TaskId, attempt: AttemptId) -> TaskCommit | None:
        """What an earlier call for the same attempt has persisted; None if that is nothing."""

    @abstractmethod
    async def listed(self) -> list[StoredSet]:
        """The sets of this job attempt. A file that is named like one, but after no task, raises
        CommitFailed.
        """

    @abstractmethod
    async def earlier(self) -> list[StoredSet]:
        """The sets of the job attempts before this one."""

    @abstractmethod
    def key_of(self, commit: TaskCommit) -> str | None:
        """Where a commit's set is; None if it cannot be one of the job's."""

    @abstractmethod
    def _gone(self, where: str) -> CommitFailed:
        """The error for a set that is gone."""

    def read_ahead(self, keys: Sequence[str]) -> AsyncGenerator[tuple[str, bytes]]:
        """The sets of these keys, in their order, a few of them read ahead; one that is gone raises
        CommitFailed.
        """
        return read_some_ahead(self._engine, keys, self._read, PENDINGSET_SIZE_LIMIT)

    async def _read(self, key: str, size_max: int) -> bytes:
        try:
            return await self._engine.store.get(key, size_max=size_max)
        except ObjectNotFound as error:
            raise self._gone(self.where(key)) from error

    def parsed(self, name: str, raw: bytes) -> PendingSet:
        """What a set that was read says. FormatError if it is malformed."""
        return PendingSet.from_bytes(name, raw)

    def where(self, key: str) -> str:
        """What messages call a set."""
        return f"{self._engine.store.bucket}/{key}"

    def lasting_key(self, stored: StoredSet, attempt: AttemptId) -> str:  # noqa: ARG002
        """Where a listed set stays, whatever other attempts of its task do."""
        return stored.key

    def _commit_of(self, task: TaskId, attempt: AttemptId, stored: PendingSet, key: str) -> TaskCommit:
        limit = self._context.options.inline_limit
        return TaskCommit.of(self._context.job, task, attempt, stored, key, limit)


class StoreSets(TaskSets):
    """Pending sets in the destination's store: one object an attempt, never replaced."""

    async def keep(self, task: TaskId, attempt: AttemptId, pending_set: PendingSet) -> Kept:
        """Persist the set of an attempt, unless there is one already.

        Raises CommitOutcomeUnknown if it is not known whether it was persisted; after any other error it was
        not.
        """
        context = self._context
        key = context.layout.set_key(attempt)
        where = self.where(key)
        raw = pending_set.to_bytes(context.options.hadoop.etag_format)
        try:
            stored = await self._store_once(key, raw)
            if context.options.hadoop.sets:
                await self._keep_hadoops(task)
                await self._engine.store.put(context.layout.hadoop_set_key(task), stored)
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"task {task}, {attempt}: the store did not say whether its pending set {where} was written; "
                f"nothing was aborted; commit the task again, or run it again: {error}"
            ) from error
        if stored != raw:
            pending_set = PendingSet.from_bytes(where, stored)
        return Kept(self._commit_of(task, attempt, pending_set, key), pending_set)

    async def _keep_hadoops(self, task: TaskId) -> None:
        """Put the set of an attempt of Hadoop's aside that the copy of this one replaces.

        Nothing else records its uploads, which have lost now, and are discarded when the job ends.
        """
        key = self._context.layout.hadoop_set_key(task)
        if not self._context.layout.is_hadoops(key):
            return  # no JVM gives a task such a name
        try:
            raw = await self._engine.store.get(key, size_max=PENDINGSET_SIZE_LIMIT + 1)
            there = PendingSet.from_bytes(self.where(key), raw)
        except (ObjectNotFound, FormatError):
            return
        if any(write_id_of(one) is None for one in there.commits):
            name = hashlib.sha256(raw).hexdigest()[:16]
            await self._engine.store.put(self._context.layout.replaced_set_key(task, name), raw)

    async def _store_once(self, key: str, raw: bytes) -> bytes:
        """Write an attempt's set if there is none, and return what is there."""
        try:
            await self._engine.store.put(key, raw, mode=PutMode.CREATE)
        except ObjectExists:
            # An earlier call for this attempt, or our own reply that was lost. The attempt may have been
            # accepted: whatever goes wrong from here on, its uploads must not be aborted.
            try:
                return await self._engine.store.get(key, size_max=PENDINGSET_SIZE_LIMIT + 1)
            except StoreError as error:
                raise Unavailable(
                    "get", self.where(key), f"the set exists but cannot be read: {error}"
                ) from error
        return raw

    async def find(self, task: TaskId, attempt: AttemptId) -> TaskCommit | None:
        key = self._context.layout.set_key(attempt)
        if (raw := await body_at(self._engine.store, key, PENDINGSET_SIZE_LIMIT + 1)) is None:
            return None
        return self._commit_of(task, attempt, PendingSet.from_bytes(self.where(key), raw), key)

    async def listed(self) -> list[StoredSet]:
        """The pending sets of a job attempt: ours under ``sets/``, Hadoop's beside it."""
        layout = self._context.layout
        prefix = paths.prefix_of(layout.attempt_directory)
        found = []
        async for info in self._engine.store.list(prefix):
            attempt = layout.attempt_of_set(info.key)
            name = info.key[len(prefix) :]
            try:
                if attempt is not None:
                    task = ids.task_of_attempt(attempt)
                elif "/" not in name and name.endswith(PENDING_SET):
                    task = ids.task_id(name.removesuffix(PENDING_SET))
                else:
                    continue
            except UsageError as error:
                raise foreign_set(self._context, self.where(info.key), error) from error
            found.append(StoredSet(info.key, task, info.modified or 0.0))
        return found

    async def earlier(self) -> list[StoredSet]:
        found = []
        for number in range(self._context.layout.attempt):
            layout = replace(self._context.layout, attempt=number)
            async for info in self._engine.store.list(paths.prefix_of(layout.sets_directory)):
                attempt = layout.attempt_of_set(info.key)
                if attempt is not None:
                    found.append(StoredSet(info.key, ids.task_of_attempt(attempt), info.modified or 0.0))
        return found

    def key_of(self, commit: TaskCommit) -> str | None:
        key = commit.set_key
        return key if key and paths.is_under(key, self._context.layout.job_directory) else None

    def _gone(self, where: str) -> CommitFailed:
        return CommitFailed(
            f"the pending set {where} is gone: job {self._context.job} has ended, or somebody removed its "
            "work directory; nothing was published; run the job again"
        )


async def read_some_ahead(
    engine: Engine,
    keys: Sequence[_Named],
    read: Callable[[_Named, int], Awaitable[bytes]],
    size_limit: int,
) -> AsyncGenerator[tuple[_Named, bytes]]:
    """Objects in their order, a few of them read ahead. One that is too large is not read to its end.

    ``read`` is given a key, and the most bytes to return.
    """

    async def begin(key: _Named) -> tuple[_Named, bytes]:
        return key, await read(key, min(READ_AHEAD_SIZE, size_limit) + 1)

    async with aclosing(in_order(keys, begin, min(engine.concurrency, READ_AHEAD))) as begun:
        async for key, raw in begun:
            yield key, raw if len(raw) <= READ_AHEAD_SIZE else await read(key, size_limit + 1)


def foreign_set(context: JobContext, where: str, error: UsageError) -> CommitFailed:
    """The error for a file among the pending sets that is none."""
    return CommitFailed(
        f"{where} is no pending set of job {context.job}: {error}; nothing was published; find out who wrote "
        "the file and remove it"
    )


def merged(
    context: JobContext,
    task: TaskId,
    attempt: AttemptId,
    pendings: Sequence[Pending],
    counters: Counters | None = None,
) -> PendingSet:
    """The files of an attempt as one set; UsageError if two have one destination key, or it is too large."""
    extras = once_each([one.extra_data for one in pendings])
    named = [
        replace(one, job_id=context.job, task_id=attempt, extra_data=extra)
        for one, extra in zip(pendings, extras, strict=True)
    ]
    pending_set = PendingSet.merge(context.job, named, {ATTEMPT: attempt, "task.id": task})
    ours = {"committer_tasks_completed": 1, "committer_commits_created": len(named)}
    counted = Statistics(counters={**(counters or {}), **ours}) + _measured(counters, named)
    found = replace(pending_set, statistics=pending_set.statistics + counted)
    if sum(_size_at_most(one) for one in named) > PENDINGSET_SIZE_LIMIT // 2:
        found.to_bytes(context.options.hadoop.etag_format)  # nobody would read it: UsageError
    return found


def _size_at_most(pending: Pending) -> int:
    extra = sum(map(len, pending.extra_data.values()))
    key = len(pending.destination_key.encode("utf-8", "replace"))
    return 4000 + 6 * key + 250 * len(pending.parts) + 6 * extra


def _measured(counters: Counters | None, pendings: Sequence[Pending]) -> Statistics:
    """What a task that counts has counted, and its bytes, as values of one task among others."""
    if not counters:
        return Statistics()
    values = {**counters, "bytes_written": sum(pending.length for pending in pendings)}
    return Statistics(
        minimums={f"{name}.min": value for name, value in values.items()},
        maximums={f"{name}.max": value for name, value in values.items()},
        meanstatistics={f"{name}.mean": MeanStatistic(1, value) for name, value in values.items()},
    )


async def recovered(context: JobContext, sets: TaskSets) -> list[TaskCommit]:
    """See ``Committer.recover_tasks``."""
    if context.layout.attempt == 0:
        raise UsageError(
            f"job {context.job}, attempt 0, has no earlier attempt to recover tasks from; give the number "
            "of this job attempt, or run the tasks"
        )
    chosen = last_committed(await sets.earlier())
    named = iter(chosen)
    async with aclosing(sets.read_ahead([one.key for one in chosen])) as read:
        return [_recovered(context, sets, next(named), raw) async for _, raw in read]


def _recovered(context: JobContext, sets: TaskSets, stored: StoredSet, raw: bytes) -> TaskCommit:
    where = sets.where(stored.key)
    pending_set = sets.parsed(where, raw)
    if pending_set.job_id != context.job:
        raise FormatError(where, "jobId", f"is {pending_set.job_id!a}, not {context.job}; remove the file")
    try:
        attempt = ids.check_attempt(pending_set.extra_data.get(ATTEMPT, ""))
        if ids.task_of_attempt(attempt) != stored.task:
            raise UsageError(f"{attempt} is no attempt of task {stored.task}")
    except UsageError as error:
        raise FormatError(where, f"extraData.{ATTEMPT}", str(error)) from error
    key = sets.lasting_key(stored, attempt)
    return TaskCommit.of(context.job, stored.task, attempt, pending_set, key)
