"""What committers without a job object share: the look at the destination, ``_SUCCESS``, the report.

They are as safe as their protocols always were, no more, and their ``guarantees`` say it.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from magicfs.engine import Engine
from magicfs.errors import (
    CommitOutcomeUnknown,
    FormatError,
    ObjectNotFound,
    ProtocolViolation,
    Unavailable,
    UsageError,
)
from magicfs.formats.statistics import ROWS, Statistics
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import TaskId
from magicfs.protocol.winners import Attempt, check_attempts
from magicfs.report import JobReport, job_report
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.record import new_token, now_ms
from magicfs.transaction.setup import check_destination

__all__ = ["ClassicCommitter", "Published", "counted"]


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


def counted(commits: Sequence[TaskCommit] | None) -> Statistics:
    """How many rows the tasks counted, where no file says it."""
    rows = [commit.rows for commit in commits or () if commit.rows is not None]
    return Statistics(counters={ROWS: sum(rows)} if rows else {})


class ClassicCommitter:
    """Base of the committers that have no job object."""

    name = ""

    def __init__(self, context: JobContext, engine: Engine) -> None:
        self.context = context
        self.engine = engine

    @property
    def is_recovery_supported(self) -> bool:
        return False

    @property
    def is_commit_job_repeatable(self) -> bool:
        return False

    @property
    def is_task_commit_repeatable(self) -> bool:
        return True

    async def setup_job(self) -> JobSetup:
        """Check the destination; nothing is written. A second call checks again."""
        await check_destination(self.engine, self.context)
        return JobSetup(driver=new_token())

    async def recover_tasks(self) -> list[TaskCommit]:
        raise UsageError(
            f"committer={self.name!r} cannot use what an earlier attempt of the job has committed; run the "
            "tasks again"
        )

    def final_key(self, relative: str, task: TaskId) -> str:
        """The key of a file that a task wrote under a relative path."""
        elements = paths.elements(relative)
        if self.context.options.unique_names:
            elements = unique_name(elements, task, self.context.job)
        return paths.join(self.context.layout.destination, *elements)

    def check_commits(self, commits: Sequence[TaskCommit], tasks: int | None) -> None:
        """Raise ProtocolViolation for two commits of a task, another job's, or a wrong number of them."""
        check_attempts(self.context.job, (Attempt(c.job_id, c.task_id, c.attempt_id) for c in commits))
        if tasks is not None and len(commits) != tasks:
            raise ProtocolViolation(
                f"{len(commits)} tasks of job {self.context.job} are committed and {tasks} are expected; "
                "nothing was published; pass the commits of all tasks"
            )

    async def write_success(self, published: Published) -> None:
        """Write ``_SUCCESS``, whoever's is there."""
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
                f"the files of job {self.context.job} are at {self.context.url}, and it is not known whether "
                f"_SUCCESS was written; nothing was removed; commit the job again: {error}"
            ) from error

    def success_of(self, published: Published) -> SuccessData:
        """What ``_SUCCESS`` says of a job."""
        return SuccessData.of_job(
            self.context.job,
            self.name,
            self.context.options.conflict,
            hostname=socket.gethostname(),
            ended_ms=now_ms(),
            filenames=(f"/{key}" for key in published.keys),
            statistics=published.statistics,
            diagnostics={"magicfs.concurrency": str(self.engine.concurrency)},
        )

    def report(self, published: Published, started: float) -> JobReport:
        """What the job commit returns; it began at ``started``, as ``time.monotonic()`` has it."""
        return job_report(
            self.context.job,
            self.context.url,
            self.name,
            self.context.options.conflict,
            started=started,
            tasks=published.tasks,
            files=published.files,
            size=published.bytes,
            keys=published.keys,
            warnings=published.warnings,
            statistics=published.statistics,
        )
