"""What every committer is, and the facts that it works from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from magicfs.engine import Engine
from magicfs.formats.pending import EtagFormat
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.layout import WorkLayout
from magicfs.report import JobReport
from magicfs.task_commit import TaskCommit

__all__ = ["Committer", "JobContext"]

Conflict = Literal["fail", "append", "replace", "replace_partitions"]


@dataclass(frozen=True, slots=True)
class JobContext:
    """The facts of one job attempt, the same in every process.

    Attributes:
        url: URL of the destination.
        layout: Where the job keeps its work.
        conflict: What to do about data that is there already.
        unique_names: Whether final names carry task and job.
        tracking: Where finished uploads are remembered until their task commits.
        etag_format: Which generation of Hadoop shall read the files.
        hadoop_sets: Whether pending sets are copied to where Hadoop's job commit looks for them.
    """

    url: str
    layout: WorkLayout
    conflict: Conflict
    unique_names: bool
    tracking: Literal["store", "memory"]
    etag_format: EtagFormat
    hadoop_sets: bool = False

    @property
    def job(self) -> JobId:
        """The job."""
        return self.layout.job

    @property
    def names_tell(self) -> bool:
        """Whether every upload of the job can be told by its final name."""
        return self.unique_names and ids.is_random(self.job)


class Committer(Protocol):
    """One commit protocol, bound to a job and its store. Coroutines on the store's loop.

    All facts come from the context and the store, so any process may call any method.
    """

    context: JobContext
    engine: Engine

    async def setup_job(self) -> None:
        """Check that the destination can be written. Nothing is created. A second call checks again.

        Raises:
            UsageError: The destination is a file.
            ObjectNotFound: No such bucket.
            PermissionDenied: The credentials do not work.
        """

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything."""

    async def commit_task(self, task: TaskId, attempt: AttemptId) -> TaskCommit:
        """Persist what an attempt wrote, in one atomic write; nothing becomes visible.

        A second call for the same attempt returns what the first persisted; where that is nothing
        (``tracking="memory"`` and a small set), it returns an empty commit, so engines must not ask twice.

        Raises:
            CommitFailed: A file is unreadable, incomplete or still open, or two have one final name; the
                attempt's uploads are aborted.
            CommitOutcomeUnknown: The store did not say whether the write took place; nothing is aborted;
                call again.
            StoreError: The store refused or failed before that write; the attempt's uploads are aborted as
                far as the store lets us.
        """

    async def abort_task(self, attempt: AttemptId) -> None:
        """Discard what an attempt wrote. A second call, or one for an unknown attempt, does nothing.

        Raises:
            StoreError: Something could not be discarded, or the store has been silent for a minute; the
                job's cleanup tries again.
        """

    async def commit_job(self, commits: Sequence[TaskCommit] | None) -> JobReport:
        """Publish the given commits, or those that a listing of the job attempt shows.

        Raises:
            ProtocolViolation: The commits do not belong together; nothing was changed.
            CommitFailed: Known not to have succeeded; what had become visible was removed again.
            CommitOutcomeUnknown: Nothing was removed; call again.
            StoreError: The commits could not be read; nothing was changed; call again or abort.
        """

    async def committed_tasks(self) -> list[TaskId]:
        """The tasks whose pending sets a listing of the job attempt shows, once for each set."""

    async def abort_job(self, commits: Sequence[TaskCommit]) -> None:
        """Discard everything of the job: uploads of all attempts, work objects.

        Where a job commit died half-way, files of the given commits are visible already; those that bear the
        write id of their upload are removed. A second call does nothing. After a job commit it removes, if no
        commits are given, what attempts have left since.

        Args:
            commits: Commits that are known here, belonging together or not; others are found in the store.

        Raises:
            ProtocolViolation: Commits are given and the job is published, as its ``_SUCCESS`` tells; nothing
                was removed.
            StoreError: Something could not be discarded, or the store has been silent for a minute; call
                again.
        """
