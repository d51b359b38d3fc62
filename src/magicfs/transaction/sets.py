"""Pending sets of committed tasks: made of what an attempt wrote, persisted once, found and read again."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from magicfs.engine import Engine
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.footer_texts import once_each
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT, PendingSet
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.magic import PENDING_SET
from magicfs.protocol.winners import StoredSet, last_committed
from magicfs.runtime.parallel import in_order
from magicfs.stores.port import PutMode
from magicfs.transaction.context import JobContext

__all__ = [
    "ATTEMPT",
    "READ_AHEAD",
    "Kept",
    "StoreSets",
    "TaskSets",
    "foreign_set",
    "merged",
    "read_some_ahead",
    "recovered",
]

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


class TaskSets(Protocol):
    """Where tasks hand their pending sets to the job that they belong to."""

    async def find(self, task: TaskId, attempt: AttemptId) -> TaskCommit | None:
        """What an earlier call for the same attempt has persisted; None if that is nothing."""

    async def listed(self) -> list[StoredSet]:
        """The sets of this job attempt. A file that is named like one, but after no task, raises
        CommitFailed.
        """

    async def earlier(self) -> list[StoredSet]:
        """The sets of the job attempts before this one."""

    def read_ahead(self, keys: Sequence[str]) -> AsyncGenerator[tuple[str, bytes]]:
        """The sets of these keys, in their order, a few of them read ahead; one that is gone raises
        CommitFailed.
        """

    def parsed(self, name: str, raw: bytes) -> PendingSet:
        """What a set that was read says. FormatError if it is malformed."""

    def where(self, key: str) -> str:
        """What messages call a set."""

    def key_of(self, commit: TaskCommit) -> str | None:
        """Where a commit's set is; None if it cannot be one of the job's."""

    def lasting_key(self, stored: StoredSet, attempt: AttemptId) -> str:
        """Where a listed set stays, whatever other attempts of its task do."""


class StoreSets:
    """Pending sets in the destination's store: one object an attempt, never replaced."""

    def __init__(self, engine: Engine, context: JobContext) -> None:
        self._engine = engine
        self._context = context

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
        commit = TaskCommit.of(context.job, task, attempt, pending_set, key, context.options.inline_limit)
        return Kept(commit, pending_set)

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
        try:
            raw = await self._engine.store.get(key, size_max=PENDINGSET_SIZE_LIMIT + 1)
        except ObjectNotFound:
            return None
        stored = PendingSet.from_bytes(self.where(key), raw)
        return TaskCommit.of(
            self._context.job, task, attempt, stored, key, self._context.options.inline_limit
        )

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

    def read_ahead(self, keys: Sequence[str]) -> AsyncGenerator[tuple[str, bytes]]:
        async def read(key: str, size_max: int) -> bytes:
            try:
                return await self._engine.store.get(key, size_max=size_max)
            except ObjectNotFound as error:
                raise CommitFailed(
                    f"the pending set {self.where(key)} is gone: job {self._context.job} has ended, or "
                    "somebody removed its work directory; nothing was published; run the job again"
                ) from error

        return read_some_ahead(self._engine, keys, read, PENDINGSET_SIZE_LIMIT)

    def parsed(self, name: str, raw: bytes) -> PendingSet:
        return PendingSet.from_bytes(name, raw)

    def where(self, key: str) -> str:
        return f"{self._engine.store.bucket}/{key}"

    def key_of(self, commit: TaskCommit) -> str | None:
        key = commit.set_key
        return key if key and paths.is_under(key, self._context.layout.job_directory) else None

    def lasting_key(self, stored: StoredSet, attempt: AttemptId) -> str:  # noqa: ARG002
        return stored.key


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
