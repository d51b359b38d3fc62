"""Algorithm 2 of the file committer: a task's files are moved to the destination when the task commits.

Nothing can take back what readers have seen. Hadoop runs a task again whose commit died half-way, and
publishes both attempts. Here an attempt claims its task before it moves the first file, by the manifest of
what it wrote: no other attempt commits that task in this job any more, and the job commit moves what the
attempt has not. What is visible stays visible when the job is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from magicfs.committers.driven import DRIVEN
from magicfs.committers.renaming.base import in_the_way
from magicfs.committers.renaming.file import FileCommitter
from magicfs.errors import (
    CommitDenied,
    CommitError,
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    ObjectNotFound,
    StoreError,
    Unavailable,
)
from magicfs.formats.job_object import JobObject
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.formats.task_manifest import EntryStatus, TaskManifest
from magicfs.protocol import ids
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.job_state import BEFORE_COMMIT, PUBLISHES
from magicfs.protocol.steps import Rename
from magicfs.runtime.interrupt import hold
from magicfs.transaction import facts, spool, sweep
from magicfs.transaction.output import JobOutput
from magicfs.transaction.visible import rename_files

_START_ANEW: Final = "abort the job, remove its visible files, and run it again under another job id"


class TaskPublishingCommitter(FileCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract, and ``guarantees`` for what it lacks."""

    at_task_commit = True

    @property
    def guarantees(self) -> Guarantees:
        """The same on all stores. Once a task is claimed, its commit is whole: the job commit moves the rest.
        Until then readers may see a part of it, because no store renames many files in one step.

        If an attempt that was given up commits before its successor, its files are published, and the
        successor is refused, so nothing is published twice.
        """
        return replace(
            DRIVEN,
            abortable_job=False,
            committed_task_output_observable=True,
            partitioned_executor_resilience=False,
        )

    @property
    def is_task_commit_repeatable(self) -> bool:
        return False

    # -- tasks -----------------------------------------------------------------------------------------

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Claim a task, and move what its attempt wrote to the destination.

        A second call for the same attempt moves the rest, and returns the same. Raises CommitDenied if the
        job is not open any more, a later attempt of it has begun, or another attempt has claimed the task;
        nothing of this one is visible then, and its files were deleted. CommitFailed: a file cannot be
        published under its name, and nothing was moved; or a part of the files is visible, and the job commit
        moves the others.
        """
        try:
            claim = await self._manifests.claimed(task) or await self._claim(task, attempt, counters)
            if claim.attempt_id != attempt:
                raise CommitDenied(
                    f"task {task} was already committed by {claim.attempt_id}, in attempt "
                    f"{claim.job_attempt} of the job; nothing of {attempt} is visible; use the commit of "
                    "that attempt (after a restart recover_tasks() has it)"
                )
        except CommitOutcomeUnknown:
            raise  # the claim may count, and then needs the files
        except Unavailable as error:
            raise _unknown(task, attempt, error) from error
        except MagicError as error:
            with suppress(MagicError):
                await self._discard(attempt)
                if isinstance(error, CommitDenied):
                    await self._remove_empty()
            raise
        await self._publish(claim)
        return self._manifests.commit_of(claim, self.context.temporary.claim_key(task))

    async def _claim(self, task: TaskId, attempt: AttemptId, counters: Counters | None) -> TaskManifest:
        """Claim a task, in a job that has not begun to commit meanwhile; returns the claim that counts."""
        await self._require_open(attempt)
        new = await self._scanned(task, attempt, counters)
        await self._refuse_old_files(new)
        hold()  # from here on the claim may be there, and count
        claim = await self._manifests.claim(new)
        if claim.attempt_id != attempt:
            return claim
        try:
            if await self._counts(attempt):
                return claim
            await self._manifests.withdraw(claim)
            job = await self._transaction.job()
        except MagicError as error:
            raise _unknown(task, attempt, error) from error
        raise self._too_late(attempt, job)

    async def _counts(self, attempt: AttemptId) -> bool:
        """Whether a claim that was just made is the job's: it has not begun to commit, or publishes it. For
        who commits the job may have found the claim at once, and then needs its files.
        """
        job = await self._transaction.job()
        if job is None or job.state in BEFORE_COMMIT:
            return job is not None
        if job.state not in PUBLISHES:
            return False
        try:
            return attempt in (await facts.read_output(self.engine, self.context, job)).attempts
        except ObjectNotFound:
            return False  # it has ended meanwhile, and needs them no more

    async def _require_open(self, attempt: AttemptId) -> None:
        job, number = await self._transaction.job(), self.context.layout.attempt
        if job is None or job.state not in BEFORE_COMMIT:
            raise self._too_late(attempt, job)
        if job.attempt > number:
            raise CommitDenied(
                f"attempt {job.attempt} of job {job.job_id} has started, and {attempt} belongs to attempt "
                f"{number}; none of its files is visible"
            )

    def _too_late(self, attempt: AttemptId, job: JobObject | None) -> CommitDenied:
        return CommitDenied(
            f"{attempt} comes too late: job {self.context.job} "
            f"{'has ended, or was never set up' if job is None else f'is {job.state}'}; nothing of it is "
            "visible"
        )

    async def _refuse_old_files(self, manifest: TaskManifest) -> None:
        """Raise CommitFailed for what lies where the files shall be; none of them has been moved."""
        places = self._manifests.places
        if not self.deletes_obstacles:
            for one in manifest.directories:
                if EntryStatus.of(one.status) is EntryStatus.FILE:
                    raise in_the_way(places.destination_key(one.path), "directory")
        if self.context.options.unique_names:
            return
        for file in manifest.files:
            key = places.destination_key(file.destination)
            there = await self.tree.look(key)
            if there is not None and (there.kind == "directory" or not self.deletes_obstacles):
                raise in_the_way(key, "file", there.kind)

    async def _publish(self, claim: TaskManifest) -> None:
        files = self._manifests.set_of(f"claim of task {claim.task_id}", claim).commits
        steps = [one for one in map(spool.step_of, files) if isinstance(one, Rename)]
        done: list[str] = []
        try:
            await sweep.delete_obstacles(self.engine, self._manifests.obstacles)
            result = await rename_files(self.engine, steps, lambda number, _: done.append(steps[number].key))
        except StoreError as error:
            raise self._stopped(claim, error, done, []) from error
        if not result.ok:
            failed = [one.step.key for one in result.failures]
            first = result.failures[0].error
            raise self._stopped(claim, first, done, failed) from first
        if not await self.tree.is_atomic():
            # So that no copy that comes late brings a file back.
            await sweep.delete_sources(self.engine, steps)

    def _stopped(
        self, claim: TaskManifest, error: Exception, done: Sequence[str], failed: Sequence[str]
    ) -> CommitError:
        unknown = isinstance(error, Unavailable)
        kind = CommitOutcomeUnknown if unknown else CommitFailed
        return kind(
            f"task {claim.task_id}, {claim.attempt_id}: stopped while {len(claim.files)} files were moved "
            f"to the destination, and some are visible; commit the same attempt again, or {_START_ANEW}: "
            f"{error}",
            done=list(done),
            failed=list(failed),
        )

    async def abort_task(self, attempt: AttemptId) -> None:
        """Discard what an attempt wrote. A second call does nothing, nor does one for an attempt that has
        claimed its task: its files are the job's.
        """
        task = None
        with suppress(MagicError):
            task = ids.task_of_attempt(attempt)
        claim = None if task is None else await self._manifests.claimed(task)
        if claim is None or claim.attempt_id != attempt:
            await self._discard(attempt)

    # -- the job ---------------------------------------------------------------------------------------

    async def _load(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> JobOutput:
        output = await super()._load(commits, tasks)
        if commits is None:
            return output
        accepted = {one.task_id for one in commits}
        wrong: list[str] = sorted({one.task for one in await self._manifests.claims()} - accepted)
        wrong += sorted(output.attempts - {one.attempt_id for one in commits})
        if wrong:
            raise CommitFailed(
                f"the destination does not hold exactly the {len(commits)} accepted tasks of job "
                f"{self.context.job}, such as {wrong[0]}; {_START_ANEW}",
                failed=wrong,
            )
        return output


def _unknown(task: TaskId, attempt: AttemptId, error: MagicError) -> CommitOutcomeUnknown:
    return CommitOutcomeUnknown(
        f"the store did not say whether task {task} was claimed by {attempt}; none of its files is "
        f"visible; commit the same attempt again: {error}"
    )
