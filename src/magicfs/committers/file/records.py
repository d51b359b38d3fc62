"""What the file committer writes down beside the files: whose the job is, and what each task has committed.

::

    DEST/_temporary/<job>/job.json                            how the job was begun; gone when it has ended
    DEST/_temporary/<job>/driver.json                         which driver has taken it over
    DEST/_temporary/<job>/<NN>/records/<task>/<attempt>.json  algorithm 1: an attempt that has committed
    DEST/_temporary/<job>/claims/<task>.json                  algorithm 2: which attempt may commit the task

The record is what commits a task with algorithm 1: files that were moved aside and have none do not count.
With algorithm 2 nothing can be undone once the first file has been moved, so an attempt claims its task
before, and says afterwards that it has finished.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectExists, ObjectNotFound, UsageError
from magicfs.formats.file_job import FILE_JOB_SIZE_LIMIT, JobFile
from magicfs.formats.file_task import FILE_TASK_SIZE_LIMIT, TaskRecord
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.parallel import drained
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.layout import SUCCESS
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.stores.tree_port import Tree
from magicfs.transaction.record import now_ms

__all__ = ["Records", "new_job_file"]

_JSON: Final = ".json"


def new_job_file(job: JobId, algorithm: int, unique_names: bool, attempt: int, driver: str) -> JobFile:
    """A job that is set up here and now."""
    return JobFile(job, algorithm, unique_names, attempt, driver, now_ms(), socket.gethostname())


class Records:
    """The records of one job."""

    def __init__(self, tree: Tree, engine: Engine, layout: TemporaryLayout) -> None:
        self._tree = tree
        self._engine = engine
        self._layout = layout

    # -- the job -------------------------------------------------------------------------------------------

    @property
    def job_key(self) -> str:
        """The file that says how the job was begun. It is written once, and the job has ended without it."""
        return f"{self._layout.job_directory}/job{_JSON}"

    @property
    def driver_key(self) -> str:
        """The file that says who has taken the job over."""
        return f"{self._layout.job_directory}/driver{_JSON}"

    async def job(self) -> JobFile | None:
        """How the job was begun, and whose it is now; None if it has ended, or was never set up."""
        job, heir = [await self._job_file(key) for key in (self.job_key, self.driver_key)]
        if job is None or heir is None:
            return job
        return replace(job, attempt=heir.attempt, driver=heir.driver, host=heir.host)

    async def set_up(self, job: JobFile) -> bool:
        """Begin the job; False if it has begun already, and nothing was changed."""
        try:
            await self._tree.write(self.job_key, job.to_bytes(), if_absent=True)
        except ObjectExists:
            return False
        return True

    async def take_over(self, job: JobFile) -> bool:
        """Make the job another driver's; False if it has ended meanwhile, and nothing was changed."""
        await self._tree.write(self.driver_key, job.to_bytes())
        if await self._job_file(self.job_key) is not None:
            return True
        await self._tree.delete(self.driver_key)
        return False

    async def _job_file(self, key: str) -> JobFile | None:
        raw = await self._read(key, FILE_JOB_SIZE_LIMIT)
        return None if raw is None else JobFile.from_bytes(self._place(key), raw, self._layout.job)

    async def is_published(self) -> bool:
        """Whether the ``_SUCCESS`` that is there is this job's."""
        key = paths.join(self._layout.destination, SUCCESS)
        try:
            raw = await self._tree.read(key, size_max=SUCCESS_SIZE_LIMIT + 1)
            return SuccessData.from_bytes(self._place(key), raw).job_id == self._layout.job
        except (ObjectNotFound, FormatError):
            return False

    async def require_place(self) -> None:
        """Raise UsageError if a file is in the place of the directory for work."""
        there = await self._tree.look(self._layout.temporary)
        if there is not None and there.kind == "file":
            raise UsageError(
                f"{there.path} is a file, where the job needs a directory; remove the file, or choose "
                "another destination"
            )

    # -- tasks, algorithm 1 --------------------------------------------------------------------------------

    def key(self, task: TaskId, attempt: AttemptId, number: int | None = None) -> str:
        """The record of an attempt in a job attempt, by default this one."""
        return f"{self._directory(number)}/{task}/{attempt}{_JSON}"

    async def read(self, task: TaskId, attempt: AttemptId, number: int | None = None) -> TaskRecord | None:
        """The record of an attempt; None if it has not committed."""
        return await self._record(self.key(task, attempt, number), task, attempt)

    async def write(self, record: TaskRecord) -> None:
        """Say that an attempt has committed. A second call does the same again."""
        await self._tree.write(self.key(record.task, record.attempt), record.to_bytes())

    async def remove(self, record: TaskRecord, number: int) -> None:
        """Forget an attempt of another job attempt. A second call does nothing."""
        await self._tree.delete(self.key(record.task, record.attempt, number))

    async def committed(self, number: int | None = None) -> dict[TaskId, list[AttemptId]]:
        """The attempts that have committed, by task, in order of tasks."""
        directory = self._directory(number)
        found: dict[TaskId, list[AttemptId]] = {}
        async for info in self._engine.store.list(paths.prefix_of(directory)):
            task, slash, name = paths.relative_to(info.key, directory).partition("/")
            if slash and "/" not in name and name.endswith(_JSON):
                with suppress(UsageError):  # no name of ours
                    attempt = ids.check_attempt(name.removesuffix(_JSON))
                    found.setdefault(ids.task_id(task), []).append(attempt)
        return dict(sorted(found.items()))

    async def last(
        self, task: TaskId, attempts: Sequence[AttemptId], number: int | None = None
    ) -> TaskRecord | None:
        """The record of that of a task's attempts that committed last; None if they are gone.

        Clocks of different machines differ, and any attempt that has committed will do.
        """
        records = [await self.read(task, attempt, number) for attempt in attempts]
        return max(filter(None, records), key=lambda one: (one.committed_ms, one.attempt), default=None)

    # -- tasks, algorithm 2 --------------------------------------------------------------------------------

    async def claim(self, record: TaskRecord) -> TaskRecord:
        """Claim a task for an attempt; returns the claim that counts, which may be another's.

        Where the store honours If-None-Match at most one attempt ever holds a task.
        """
        key = self._claim_key(record.task)
        try:
            await self._tree.write(key, replace(record, finished=False).to_bytes(), if_absent=True)
        except ObjectExists:
            held = await self.claimed(record.task)
            if held is not None:
                return held
            # The job has ended meanwhile.
            raise
        return replace(record, finished=False)

    async def claimed(self, task: TaskId) -> TaskRecord | None:
        """Who has claimed a task; None if nobody has."""
        return await self._record(self._claim_key(task), task, None)

    async def finish(self, record: TaskRecord) -> TaskRecord:
        """Say that the attempt that claimed its task has moved all its files."""
        finished = replace(record, finished=True, committed_ms=now_ms())
        await self._tree.write(self._claim_key(record.task), finished.to_bytes())
        return finished

    async def claimed_tasks(self) -> list[TaskId]:
        """All tasks that were claimed."""
        directory = f"{self._layout.job_directory}/claims"
        found = []
        async for info in self._engine.store.list(paths.prefix_of(directory)):
            name = paths.relative_to(info.key, directory)
            if "/" not in name and name.endswith(_JSON):
                with suppress(UsageError):  # no name of ours
                    found.append(ids.task_id(name.removesuffix(_JSON)))
        return sorted(found)

    async def visit_claims(self, visit: Callable[[TaskRecord], None]) -> None:
        """Show every claim to somebody, one after the other, in any order."""

        async def one(task: TaskId) -> bool:
            if (claim := await self.claimed(task)) is not None:
                visit(claim)
            return True

        await drained(await self.claimed_tasks(), one, self._engine.concurrency)

    # -- places --------------------------------------------------------------------------------------------

    def _directory(self, number: int | None) -> str:
        return f"{self._layout.attempt_directory(number)}/records"

    def _claim_key(self, task: TaskId) -> str:
        return f"{self._layout.job_directory}/claims/{task}{_JSON}"

    async def _record(self, key: str, task: TaskId, attempt: AttemptId | None) -> TaskRecord | None:
        raw = await self._read(key, FILE_TASK_SIZE_LIMIT)
        if raw is None:
            return None
        record = TaskRecord.from_bytes(self._place(key), raw, self._layout.job)
        if record.task != task or attempt not in (None, record.attempt):
            raise FormatError(
                self._place(key), "attemptId", f"is {record.attempt} of task {record.task}; it was moved here"
            )
        return record

    async def _read(self, key: str, size_limit: int) -> bytes | None:
        try:
            return await self._tree.read(key, size_max=size_limit + 1)
        except ObjectNotFound:
            return None

    def _place(self, key: str) -> str:
        return f"{self._tree.bucket}/{key}"
