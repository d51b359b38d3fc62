"""What every committer is, and the facts that it works from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, cast

from magicfs.committers.options import CommitterOptions, NoOptions
from magicfs.engine import Engine
from magicfs.formats.job_object import JobObject
from magicfs.formats.pending import EtagFormat
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import conflict, ids
from magicfs.protocol.conflict import Conflict
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.parts import DEFAULT_PART_SIZE
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.report import JobReport

__all__ = ["Committer", "Conflict", "FoundJob", "FoundUpload", "JobContext", "JobSetup"]


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
        run_id: Name of the run, by which a second one finds the first.
        allow_empty: Whether a job without files may replace what is there.
        single_driver: Whether the caller vouches that nobody else moves the job, where the store cannot.
        options: What else the committer was told.
        committer: Name of the committer.
        part_size: Bytes of the first parts of uploads that the committer itself makes.
        extra_destinations: Further directories of the bucket that tasks write to, as keys.
        inline_limit: Bytes of the largest pending set inside a task commit; None for the default.
    """

    url: str
    layout: WorkLayout
    conflict: Conflict
    unique_names: bool
    tracking: Literal["store", "memory"]
    etag_format: EtagFormat
    hadoop_sets: bool = False
    run_id: str | None = None
    allow_empty: bool = False
    single_driver: bool = False
    options: CommitterOptions = field(default_factory=NoOptions)
    committer: str = "magic"
    part_size: int = DEFAULT_PART_SIZE
    extra_destinations: tuple[str, ...] = ()
    inline_limit: int | None = None

    @property
    def destinations(self) -> tuple[str, ...]:
        """All directories that the job publishes to: no other key is ever its own."""
        return (self.layout.destination, *self.extra_destinations)

    @property
    def job(self) -> JobId:
        """The job."""
        return self.layout.job

    @property
    def temporary(self) -> TemporaryLayout:
        """Where committers that move files keep the job's work."""
        return TemporaryLayout(self.layout.destination, self.job, self.layout.attempt)

    @property
    def names_tell(self) -> bool:
        """Whether every upload of the job can be told by its final name."""
        return self.unique_names and ids.is_random(self.job)

    @property
    def minds_partitions(self) -> bool:
        """Whether the conflict mode is about the partitions that the job writes to, not the destination."""
        return conflict.is_by_partition(self.conflict, self.committer)

    def of(self, job: JobObject) -> JobContext:
        """The facts of another job at the same destination, as its job object tells them."""
        layout = WorkLayout(self.layout.destination, job.job_id, job.attempt, cast("LayoutName", job.layout))
        return replace(
            self,
            layout=layout,
            conflict=cast("Conflict", job.conflict),
            unique_names=job.unique_names,
            tracking=cast('Literal["store", "memory"]', job.tracking),
            hadoop_sets=False,
            run_id=job.run_id,
            committer=job.committer,
            extra_destinations=tuple(one.key for one in job.extra_destinations),
        )


@dataclass(frozen=True, slots=True)
class FoundUpload:
    """An upload that was pending under the destination before the job began.

    Attributes:
        key: The key that it will have.
        upload_id: The upload.
        initiated: Seconds since the epoch.
    """

    key: str
    upload_id: str
    initiated: float


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job that has not ended, at the same destination.

    Attributes:
        job_id: The job.
        state: Its state; None if its object cannot be read.
        created: When it was set up, in seconds since the epoch; 0 if that is not known.
        changed: When it was moved last.
        host: Where that happened.
        run_id: Name of its run.
        problem: Why its object cannot be read; empty otherwise.
    """

    job_id: str
    state: str | None
    created: float
    changed: float
    host: str
    run_id: str | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class JobSetup:
    """What setting a job up found.

    Attributes:
        driver: Token of the one who may commit the job.
        jobs: Other jobs at the destination that have not ended.
        uploads: Uploads that were pending there; None where listing them is not allowed.
        published: The job that has published the same run already; None if none has.
    """

    driver: str
    jobs: tuple[FoundJob, ...] = ()
    uploads: tuple[FoundUpload, ...] | None = ()
    published: str | None = None


class Committer(Protocol):
    """One commit protocol, bound to a job and its store. Coroutines on the store's loop.

    All facts come from the context and the store, so any process may call any method.
    """

    context: JobContext
    engine: Engine

    @property
    def guarantees(self) -> Guarantees:
        """What it promises on this store."""

    @property
    def is_recovery_supported(self) -> bool:
        """Whether ``recover_tasks`` works (Hadoop's ``isRecoverySupported``)."""

    @property
    def is_commit_job_repeatable(self) -> bool:
        """Whether anybody may call ``commit_job`` again after it died (``isCommitJobRepeatable``)."""

    @property
    def is_task_commit_repeatable(self) -> bool:
        """Whether a task may be run and committed again after its commit died; if not, the job has failed."""

    async def setup_job(self) -> JobSetup:
        """Check the destination and write the job object. Old data and ``_SUCCESS`` stay as they are.

        A second call, by whomever, takes the job over: only the newest driver may commit it.

        Raises:
            UsageError: The destination is a file, or a table of Delta Lake or Apache Iceberg.
            OutputExists: ``conflict="fail"``, and data is there.
            CommitDenied: The job is past its commit point, or has ended.
            ObjectNotFound: No such bucket.
            PermissionDenied: The credentials do not work.
        """

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything."""

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Persist what an attempt wrote, in one atomic write; nothing becomes visible.

        A second call for the same attempt returns what the first persisted; where that is nothing
        (``tracking="memory"`` and a small set), it returns an empty commit, so engines must not ask twice.

        Args:
            task: The task.
            attempt: The attempt.
            counters: What the task has counted, for the job's statistics.

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

    async def commit_job(
        self, commits: Sequence[TaskCommit] | None, driver: str | None = None, tasks: int | None = None
    ) -> JobReport:
        """Publish the given commits, or those that a listing of the job attempt shows.

        A second call goes on where the first one stopped, by whatever it was stopped.

        Args:
            commits: Those that an engine accepted.
            driver: What ``setup_job`` returned; None commits whoever set the job up.
            tasks: How many tasks there must be, if that is known.

        Raises:
            ProtocolViolation: The commits do not belong together; nothing was changed.
            OutputExists: The conflict mode forbids to publish onto what is there; nothing was changed.
            CommitDenied: Another driver or another job was faster; nothing of this one is visible.
            CommitFailed: Known not to have succeeded; what had become visible was removed again.
            CommitOutcomeUnknown: Nothing was removed; call again, or recover.
            StoreError: The commits could not be read; nothing was changed; call again or abort.
        """

    async def committed_tasks(self) -> list[TaskId]:
        """The tasks whose pending sets a listing of the job attempt shows, once for each set."""

    async def recover_tasks(self) -> list[TaskCommit]:
        """What earlier attempts of the job have committed, as commits of this one (``recoverTask``).

        The last committed attempt of each task. A second call returns the same.

        Raises:
            UsageError: ``is_recovery_supported`` is false; run the tasks again.
            FormatError: Something committed cannot be believed; nothing was changed.
        """

    async def abort_job(self, commits: Sequence[TaskCommit], driver: str | None = None) -> None:
        """Discard everything of the job: uploads of all attempts, work objects, and what had become visible.

        A second call does nothing. For a job that has ended it removes, if no commits are given, what
        attempts have left since.

        Args:
            commits: Commits that are known here, belonging together or not; others are found in the store.
            driver: What ``setup_job`` returned; None aborts whoever set the job up.

        Raises:
            ProtocolViolation: The job is published; nothing was removed.
            CommitDenied: Another driver took the job over; nothing was removed.
            StoreError: Something could not be discarded, or the store has been silent for a minute; call
                again.
        """
