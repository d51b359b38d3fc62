"""Pending sets handed to the job through a filesystem of the cluster, by any fsspec URL.

The algorithm is Hadoop's ``FileOutputCommitter``, version 1, which its staging committers wrap: a task commit
writes its set and renames a copy of it to the committed task, so of several attempts the last one that
committed counts (HADOOP-17258). The attempt's own set stays until the job has ended, so that a commit that an
engine accepted leads to that very attempt, whoever came later. ``ClusterLayout`` has the places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, TypeVar

from fsspec.core import url_to_fs

from magicfs.committers.registry import StagingOptions
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, CommitOutcomeUnknown, FormatError, MagicError, StoreError, UsageError
from magicfs.formats.limits import PENDINGSET_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.magic import PENDING_SET
from magicfs.protocol.temporary import TEMPORARY
from magicfs.protocol.winners import StoredSet
from magicfs.runtime.parallel import drained
from magicfs.transaction import attempt_output
from magicfs.transaction.attempt_output import Kept, TaskSets, foreign_set
from magicfs.transaction.context import JobContext


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The paths of one job below ``cluster_directory``.

    ::

        <user>/<job>/staging-uploads/_temporary/<N>/_temporary/<attempt>/<task>.pendingset   an attempt's set
        <user>/<job>/staging-uploads/_temporary/<N>/_temporary/<attempt>/<task>              a copy of it
        <user>/<job>/staging-uploads/_temporary/<N>/<task>                                   a committed task

    That is the layout of Hadoop's staging committers, which wrap its ``FileOutputCommitter``; only the
    attempt's own set is not there, for its copy is all that they write.
    """

    user: str
    job: str

    @property
    def job_directory(self) -> str:
        """Everything that the job writes there lies under here."""
        return f"{self.user}/{self.job}"

    @property
    def uploads_directory(self) -> str:
        """Hadoop's ``Paths.getStagingUploadsParentDirectory``."""
        return f"{self.job_directory}/staging-uploads"

    @property
    def attempts_directory(self) -> str:
        """What holds the directories of all job attempts."""
        return f"{self.uploads_directory}/{TEMPORARY}"

    def attempt_directory(self, number: int | str) -> str:
        """A job attempt's directory (``FileOutputCommitter.getJobAttemptPath``)."""
        return f"{self.attempts_directory}/{number}"

    def work(self, number: int | str) -> str:
        """What holds the directories of a job attempt's task attempts."""
        return f"{self.attempt_directory(number)}/{TEMPORARY}"

    def committed(self, number: int, task: TaskId) -> str:
        """A committed task (``FileOutputCommitter.getCommittedTaskPath``)."""
        return f"{self.attempt_directory(number)}/{task}"

    def work_directory(self, number: int, attempt: AttemptId) -> str:
        """What one attempt writes (``FileOutputCommitter.getTaskAttemptPath``)."""
        return f"{self.work(number)}/{attempt}"

    def own_set(self, number: int, attempt: AttemptId, task: TaskId) -> str:
        """An attempt's set, which no other attempt replaces."""
        return f"{self.work_directory(number, attempt)}/{task}{PENDING_SET}"

    def copy(self, number: int, attempt: AttemptId, task: TaskId) -> str:
        """What an attempt renames to the committed task."""
        return f"{self.work_directory(number, attempt)}/{task}"


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Files below a directory of any fsspec filesystem; every error is the filesystem's own."""

    fs: Any
    directory: str  # as the filesystem takes it

    def at(self, name: str) -> str:
        """A name as the filesystem takes it."""
        return f"{self.directory.rstrip('/')}/{name}"

    def is_there(self, name: str) -> bool:
        """Whether a file or directory is there; fsspec's own ``exists`` takes every error for a no."""
        try:
            self.fs.info(self.at(name))
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, size_max: int = PENDINGSET_SIZE_LIMIT + 1) -> bytes:
        """The content of a set, at most so many bytes."""
        raw: bytes = self.fs.cat_file(self.at(name), start=0, end=size_max)
        return raw

    def write(self, name: str, raw: bytes) -> None:
        """Write a file, in a directory that is there."""
        self.fs.pipe_file(self.at(name), raw)

    def move(self, name: str, to: str) -> None:
        """Rename a file."""
        self.fs.mv(self.at(name), self.at(to))

    def names(self, directory: str) -> list[str]:
        """The names in a directory, which need not be there."""
        self.fs.invalidate_cache()
        try:
            listed = self.fs.ls(self.at(directory), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in listed)

    def remove_empty(self, *directories: str) -> None:
        """Remove directories, each if it is there; the first that is not empty stays, and all after it."""
        for directory in directories:
            if self.names(directory):
                return  # not for rmdir to tell: pyarrow's filesystems delete what is in it, too
            if self.is_there(directory):
                self.fs.rmdir(self.at(directory))

    def remove(self, directory: str) -> None:
        """Remove a directory with all that is in it; one that is not there counts as removed."""
        self.fs.invalidate_cache()
        with suppress(FileNotFoundError):
            self.fs.rm(self.at(directory), recursive=True)


_T = TypeVar("_T")
_HINT = (
    "check cluster_directory and cluster_storage_options, and that every process of the job can write there"
)


class ClusterSets(TaskSets):
    """See ``magicfs.transaction.attempt_output.TaskSets`` for the contract.

    The filesystem is used in threads, for most of fsspec's have no coroutines.
    """

    def __init__(self, engine: Engine, context: JobContext, options: StagingOptions) -> None:
        super().__init__(engine, context)
        self._options = options
        self._number = context.layout.attempt
        self.layout: ClusterLayout = ClusterLayout(options.cluster_user, context.job)

    # -- the job's directory ---------------------------------------------------------------------------

    async def prepare(self) -> bool:
        """Make the job's directory, and try whether files can be written there, renamed and removed.

        Returns whether the directory was made just now. Raises UsageError if it cannot be used; nothing was
        left.
        """
        layout = self.layout
        probe = f"{layout.uploads_directory}/probe-{token_hex(4)}"

        def work(place: ClusterFiles) -> bool:
            is_new = not place.is_there(layout.job_directory)
            try:
                place.fs.makedirs(place.at(layout.uploads_directory), exist_ok=True)
                place.write(probe, b"probe")
                place.move(probe, f"{probe}-moved")
                if place.read(f"{probe}-moved") != b"probe":
                    raise OSError("a file written there could not be read back")
                place.fs.rm_file(place.at(f"{probe}-moved"))
            except Exception:
                if is_new:
                    with suppress(Exception):
                        for name in filter(place.is_there, (probe, f"{probe}-moved")):
                            place.fs.rm_file(place.at(name))
                        place.remove_empty(layout.uploads_directory, layout.job_directory)
                raise
            return is_new

        try:
            return await self._call(work)
        except Exception as error:
            raise UsageError(
                f"cluster_directory={self._options.cluster_directory!r} cannot be used: {error!r}; nothing "
                f"was changed; {_HINT}"
            ) from error

    async def withdraw(self) -> None:
        """Remove the directory that ``prepare`` made, unless somebody else's tasks have written there."""
        layout = self.layout
        made = layout.uploads_directory, layout.job_directory
        await self._asked("delete", "", lambda place: place.remove_empty(*made))

    async def clear(self) -> None:
        """Remove the job's directory. A second call does nothing."""
        await self._asked("delete", "", lambda place: place.remove(self.layout.job_directory))

    # -- one task --------------------------------------------------------------------------------------

    async def keep(self, task: TaskId, attempt: AttemptId, pending_set: PendingSet) -> Kept:
        """As ``StoreSets.keep``."""
        if task == TEMPORARY:
            raise UsageError(f"a task cannot be named {task!r} with cluster_directory; give it another name")
        context, layout = self._context, self.layout
        own = layout.own_set(self._number, attempt, task)
        raw = pending_set.to_bytes(context.options.hadoop.etag_format)

        def write(place: ClusterFiles) -> bytes:
            place.fs.makedirs(place.at(layout.work_directory(self._number, attempt)), exist_ok=True)
            if place.is_there(own):
                stored = place.read(own)
            else:
                place.write(own, stored := raw)
            place.write(layout.copy(self._number, attempt, task), stored)
            return stored

        stored = await self._asked("put", own, write)
        await self._rename(task, attempt, stored)
        if stored != raw:
            pending_set = PendingSet.from_bytes(self.where(own), stored)
        return Kept(self._commit_of(task, attempt, pending_set, own), pending_set)

    async def _rename(self, task: TaskId, attempt: AttemptId, stored: bytes) -> None:
        """Rename an attempt's copy to the committed task: the moment of the task commit."""
        copy = self.layout.copy(self._number, attempt, task)
        committed = self.layout.committed(self._number, task)

        def rename(place: ClusterFiles) -> None:
            try:
                place.move(copy, committed)
            except Exception:
                # Not every filesystem replaces; and the reply of a rename that took place may be lost.
                if not place.is_there(committed) or place.read(committed) == stored:
                    raise
                place.fs.rm_file(place.at(committed))
                place.move(copy, committed)

        def look(place: ClusterFiles) -> bool:
            place.fs.invalidate_cache()
            return place.is_there(committed) and place.read(committed) == stored

        try:
            await self._asked("put", committed, rename)
        except StoreError as error:
            try:
                is_committed = await self._asked("get", committed, look)
            except StoreError as second:
                raise CommitOutcomeUnknown(
                    f"task {task}, {attempt}: the rename of its pending set to the committed task may or "
                    "may not have happened; nothing was aborted; commit the task again, or run it again: "
                    f"{error}"
                ) from second
            if not is_committed:
                raise

    async def find(self, task: TaskId, attempt: AttemptId) -> TaskCommit | None:
        own = self.layout.own_set(self._number, attempt, task)
        raw = await self._asked("get", own, lambda place: place.read(own) if place.is_there(own) else None)
        if raw is None:
            return None
        return self._commit_of(task, attempt, PendingSet.from_bytes(self.where(own), raw), own)

    # -- all tasks -------------------------------------------------------------------------------------

    async def listed(self) -> list[StoredSet]:
        return await self._committed(self._number)

    async def earlier(self) -> list[StoredSet]:
        """The committed tasks of the job attempts before this one; of a task the latest attempt's."""
        found: dict[TaskId, StoredSet] = {}
        for number in range(self._number):
            found |= {one.task: one for one in await self._committed(number)}
        return list(found.values())

    async def _committed(self, number: int) -> list[StoredSet]:
        directory = self.layout.attempt_directory(number)
        found = []
        for name in await self._asked("list", directory, lambda place: place.names(directory)):
            if name == TEMPORARY or name.startswith("."):
                continue  # Hadoop's local filesystem keeps checksums in files with a dot
            key = f"{directory}/{name}"
            try:
                found.append(StoredSet(key, ids.task_id(name), 0.0))
            except UsageError as error:
                raise foreign_set(self._context, self.where(key), error) from error
        return found

    async def _read(self, key: str, size_max: int = PENDINGSET_SIZE_LIMIT + 1) -> bytes:
        try:
            return await self._asked("get", key, lambda place: place.read(key, size_max))
        except StoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise self._gone(self.where(key)) from error

    def _gone(self, where: str) -> CommitFailed:
        return CommitFailed(
            f"the pending set {where} is gone: job {self._context.job} has ended, or somebody removed its "
            "directory; nothing was published; run the job again"
        )

    def where(self, key: str) -> str:
        return f"{str(self._options.cluster_directory).rstrip('/')}/{key}"

    def key_of(self, commit: TaskCommit) -> str | None:
        attempt, task = commit.attempt_id, commit.task_id
        known = {self.layout.own_set(number, attempt, task) for number in range(self._number + 1)}
        return commit.set_key if commit.set_key in known else None

    def lasting_key(self, stored: StoredSet, attempt: AttemptId) -> str:
        number = int(stored.key.split("/")[-2])
        return self.layout.own_set(number, attempt, stored.task)

    async def uploads(self, *, but: Collection[str] = ()) -> list[Pending]:
        """The uploads that the job's sets name, of all attempts but some; malformed sets name none."""
        layout, found = self.layout, list[Pending]()
        bucket, destinations = self._engine.store.bucket, self._context.destinations

        def find(place: ClusterFiles) -> list[str]:
            keys = []
            for number in place.names(layout.attempts_directory):
                work = layout.work(number)
                for attempt in place.names(work):
                    if attempt not in but:
                        keys += [f"{work}/{attempt}/{name}" for name in place.names(f"{work}/{attempt}")]
            return [key for key in keys if key.endswith(PENDING_SET)]

        async def one(key: str) -> None:
            with suppress(CommitFailed, FormatError):
                stored = PendingSet.from_bytes(key, await self._read(key))
                found.extend(
                    each
                    for each in stored.commits
                    if {stored.job_id, each.job_id} <= {"", self._context.job}
                    and each.bucket == bucket
                    and paths.which_holds(each.destination_key, destinations) is not None
                )

        await drained(await self._asked("list", layout.job_directory, find), one, self._engine.concurrency)
        return found

    async def discard(self, engine: Engine, *, but: Collection[str] = ()) -> tuple[int, list[MagicError]]:
        """Abort the uploads that the job's sets name, of all attempts but some. A second call does nothing.

        It returns how many there were that only the sets show to be the job's, for others are found by their
        names; and what could not be done.
        """
        try:
            uploads = await self.uploads(but=but)
        except StoreError as error:
            return 0, [error]
        problems = await attempt_output.abort_uploads(engine, uploads)
        return 0 if self._context.uploads_found_by_name else len(uploads) - len(problems), problems

    # -- the filesystem --------------------------------------------------------------------------------

    async def _call(self, work: Callable[[ClusterFiles], _T]) -> _T:
        def call() -> _T:
            options = self._options
            return work(
                ClusterFiles(*url_to_fs(options.cluster_directory, **options.cluster_storage_options))
            )

        return await asyncio.to_thread(call)

    async def _asked(self, operation: str, key: str, work: Callable[[ClusterFiles], _T]) -> _T:
        """Call, and make every error of whatever filesystem one of ours."""
        try:
            return await self._call(work)
        except MagicError:
            raise
        except Exception as error:
            raise StoreError(operation, self.where(key), repr(error), hint=_HINT) from error
