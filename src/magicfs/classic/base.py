"""What committers without a job object share: the look at the destination, ``_SUCCESS``, the report.

They are as safe as their protocols always were, no more, and their ``guarantees`` say it.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from magicfs.committers.base import Committer
from magicfs.errors import (
    CommitOutcomeUnknown,
    FormatError,
    ObjectNotFound,
    ProtocolViolation,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.winners import Attempt, check_attempts
from magicfs.report import JobReport, job_report
from magicfs.transaction.context import JobSetup
from magicfs.transaction.record import new_token, now_ms
from magicfs.transaction.setup import check_destination
from magicfs.transaction.sweep import Swept, sweep


@dataclass(slots=True)
class Published:
    """What a job commit made visible, counted as it goes."""

    tasks: int = 0
    files: int = 0
    bytes: int = 0
    keys: list[str] = field(default_factory=list)  # the first ``SUCCESS_MARKER_FILE_LIMIT``
    warnings: list[str] = field(default_factory=list)  # troubles after the files were published
    statistics: Statistics = field(default_factory=Statistics)

    def add(self, key: str, size: int) -> None:
        """Count one file."""
        self.files += 1
        self.bytes += size
        if len(self.keys) < SUCCESS_MARKER_FILE_LIMIT:
            self.keys.append(key)


class ClassicCommitter(Committer):
    """Base of the committers that have no job object. They cannot distinguish drivers."""

    @property
    def is_recovery_supported(self) -> bool:
        return False

    async def setup_job(self) -> JobSetup:
        """Check the destination; nothing is written. A second call checks again."""
        await check_destination(self.engine, self.context)
        return JobSetup(driver=new_token())

    async def recover_tasks(self) -> list[TaskCommit]:
        raise UsageError(
            f"committer={self.name!r} cannot reuse task commits of an earlier job attempt; run the tasks "
            "again"
        )

    def check_commits(self, commits: Sequence[TaskCommit], tasks: int | None) -> None:
        """Raise ProtocolViolation for two commits of a task, another job's, or a wrong number of them."""
        check_attempts(self.context.job, (Attempt(c.job_id, c.task_id, c.attempt_id) for c in commits))
        if tasks is not None and len(commits) != tasks:
            raise ProtocolViolation(
                f"{len(commits)} tasks of job {self.context.job} were committed, but {tasks} were expected; "
                "nothing was published; pass the commits of all tasks"
            )

    async def write_success(self, published: Published) -> None:
        """Write ``_SUCCESS``, even over that of another job."""
        await self.engine.store.put(self.context.layout.success_key, self.success_of(published).to_bytes())

    async def is_published(self) -> bool:
        """Whether ``_SUCCESS`` names the job: not after a later job replaced it, nor if it is not JSON
        (Hadoop's is empty).
        """
        key = self.context.layout.success_key
        with suppress(ObjectNotFound, FormatError):
            raw = await self.engine.store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
            success = SuccessData.from_bytes(f"{self.engine.store.bucket}/{key}", raw)
            return success.job_id == self.context.job
        return False

    def already_published(self) -> ProtocolViolation:
        """The error for aborting a job that is published."""
        return ProtocolViolation(
            f"job {self.context.job} is published, as _SUCCESS of {self.context.url} says; nothing was "
            "removed; delete its files by hand if they are not wanted"
        )

    async def decide(self, write: Awaitable[object]) -> None:
        """Write ``_SUCCESS``. After CommitOutcomeUnknown (no answer) nothing may be removed."""
        try:
            await write
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"the files of job {self.context.job} are at {self.context.url}, and _SUCCESS may or may not "
                f"have been written; nothing was removed; commit the job again: {error}"
            ) from error

    def success_of(self, published: Published) -> SuccessData:
        """What ``_SUCCESS`` says of a job."""
        return SuccessData.of_job(
            self.context.job,
            self.name,
            self.context.options.mode,
            hostname=socket.gethostname(),
            ended_ms=now_ms(),
            filenames=(f"/{key}" for key in published.keys),
            statistics=published.statistics,
            diagnostics={"magicfs.concurrency": str(self.engine.concurrency)},
        )

    async def sweep_uploads(self) -> Swept:
        """Abort pending uploads with the job's id in their names, such as those of killed writers."""
        if not self.engine.store.capabilities.uploads.delayed:
            return Swept()
        return await sweep(self.engine.for_cleanup(), self.context)

    async def finish(self, published: Published, started: float) -> JobReport:
        """Clean up after ``_SUCCESS``; every trouble becomes a warning of the report that it returns.

        The job commit began at ``started``, as ``time.monotonic()`` has it.
        """
        warnings, swept = published.warnings, Swept()
        lost = "uploads that tasks left behind could not be listed"
        try:
            swept = await self.sweep_uploads()
        except StoreError as error:
            warnings.append(f"{lost}: {error}")
        warnings += [
            f"an upload that a task left behind could not be aborted: {one}" for one in swept.problems
        ]
        if swept.unlisted is not None:
            warnings.append(f"{lost}, and a lifecycle rule has to collect them: {swept.unlisted}")
        report = job_report(
            self.context.job,
            self.context.url,
            self.name,
            self.context.options.mode,
            started=started,
            tasks=published.tasks,
            files=published.files,
            size=published.bytes,
            keys=published.keys,
            warnings=warnings,
            statistics=published.statistics,
        )
        return replace(report, uploads_aborted=swept.aborted)
