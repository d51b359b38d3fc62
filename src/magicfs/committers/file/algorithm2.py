"""Algorithm 2: a task's files are moved to the destination when the task commits.

Nothing can take back what was moved, so a task commit that dies leaves a part of its files visible. Hadoop
runs such a task again, and publishes both. Here an attempt claims its task before it moves the first file:
no other attempt commits that task in this job any more, and the job cannot commit while a claim is there
whose attempt has not finished. What is visible of it stays visible when the job is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from magicfs.committers.classic import Published
from magicfs.committers.file.algorithm import FileWork, absent, chosen_of
from magicfs.committers.file.merge import Merge
from magicfs.committers.file.obstacles import Obstacles
from magicfs.errors import CommitDenied, CommitFailed, CommitOutcomeUnknown, StoreError, Unavailable
from magicfs.formats.commit_marker import Chosen, Mark
from magicfs.formats.file_task import TaskRecord
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId

__all__ = ["MovedAtOnce"]

_START_ANEW = "abort the job, remove what it has made visible, and run it again under another job id"


class MovedAtOnce:
    """See ``algorithm.Algorithm``."""

    is_task_commit_repeatable = False

    def __init__(self, work: FileWork) -> None:
        self._work = work

    @property
    def guarantees(self) -> Guarantees:
        """The same on all stores: a task has many files, and no store renames many in one step.

        An attempt that was given up and commits before its successor has published its files for good; the
        successor is refused, so they are not published twice, but nobody asked for them.
        """
        return Guarantees(
            speculative_tasks=True,
            recoverable_job=True,
            abortable_task=True,
            abortable_job=False,
            uncommitted_output_observable=False,
            committed_task_output_observable=True,
            atomic_task_commit=False,
            atomic_job_commit_list=False,
            atomic_job_commit_manifest=False,
            partitioned_executor_resilience=False,
            repeatable_job_commit=True,
            survives_driver_loss=True,
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    async def commit_task(self, task: TaskId, attempt: AttemptId) -> TaskRecord:
        work = self._work
        new = work.record(task, attempt, await work.written(task, attempt))
        await Obstacles(work).refuse(new)
        try:
            claim = await work.records.claim(new)
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"task {task}, {attempt}: the store did not say whether the task was claimed; none of its "
                f"files is visible; commit the same attempt again: {error}"
            ) from error
        if claim.attempt != attempt:
            raise _taken(claim, attempt)
        if claim.finished:
            return claim
        merge = await self._move(claim)
        try:
            return await work.records.finish(replace(claim, renames=merge.renames, copied=merge.copied))
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"task {task}, {attempt}: all its files are visible, and the store did not say whether that "
                f"was written down; commit the same attempt again: {error}"
            ) from error

    async def _move(self, claim: TaskRecord) -> Merge:
        work, unique = self._work, self._work.context.unique_names
        merge = work.merge_into_destination()
        done: list[str] = []
        merge.moved = lambda key, _: done.append(key)
        final = work.naming(claim.task)
        try:
            await merge.merge(work.layout.task_attempt_directory(claim.attempt), final if unique else None)
            lost = []
            if len(done) != len(claim.files):
                lost = await absent(work.engine, [(final(path), size) for path, size in claim.files])
        except (StoreError, CommitFailed) as error:
            kind = CommitOutcomeUnknown if isinstance(error, Unavailable) else CommitFailed
            again = "commit the same attempt again, or else " if isinstance(error, Unavailable) else ""
            raise kind(
                f"task {claim.task}, {claim.attempt}: stopped while {len(claim.files)} files were moved to "
                f"the destination, and some are visible; {again}{_START_ANEW}: {error}",
                done=done,
                failed=merge.failed,
            ) from error
        if lost:
            raise CommitFailed(
                f"task {claim.task}, {claim.attempt}: {len(lost)} of its files were removed while it "
                f"committed, and the others are visible; {_START_ANEW}",
                done=done,
                failed=lost,
            )
        return merge

    async def tasks(self) -> list[TaskId]:
        return await self._work.records.claimed_tasks()

    async def recover(self) -> list[Chosen]:
        found: list[Chosen] = []
        left: list[str] = []

        def visit(claim: TaskRecord) -> None:
            if not claim.finished:
                left.append(f"{claim.attempt} of task {claim.task}")
            elif claim.number < self._work.context.layout.attempt:
                found.append(chosen_of(claim))

        await self._work.records.visit_claims(visit)
        _require_finished(left)
        return sorted(found, key=lambda one: one.task)

    async def visible_files(self) -> int:
        count: list[int] = []
        await self._work.records.visit_claims(lambda claim: count.append(len(claim.files)))
        return sum(count)

    # -- the job -------------------------------------------------------------------------------------------

    async def choose(self, commits: Sequence[TaskCommit] | None) -> tuple[list[Chosen], int]:
        found: dict[TaskId, Chosen] = {}
        left: list[str] = []
        names = self._work.names()

        def visit(claim: TaskRecord) -> None:
            names.add(claim)
            found[claim.task] = chosen_of(claim)
            if not claim.finished:
                left.append(f"{claim.attempt} of task {claim.task}")

        await self._work.records.visit_claims(visit)
        _require_finished(left)
        if commits is not None:
            accepted = {one.task_id: one.attempt_id for one in commits}
            visible = {task: one.attempt for task, one in found.items()}
            if wrong := sorted(set(accepted.items()) ^ set(visible.items())):
                task = wrong[0][0]
                raise CommitFailed(
                    f"the destination does not hold exactly the {len(accepted)} accepted tasks of job "
                    f"{self._work.context.job}: of task {task} the accepted attempt is "
                    f"{accepted.get(task, 'none')}, and the visible one {visible.get(task, 'none')}; "
                    f"{_START_ANEW}",
                    failed=[one for one, _ in wrong],
                )
        return list(found.values()), names.replaced

    async def publish(self, started: Mark, published: Published) -> list[str]:
        for chosen in started.tasks:
            if len(published.keys) >= SUCCESS_MARKER_FILE_LIMIT:
                break
            claim = await self._work.records.claimed(chosen.task)
            for path, size in claim.files if claim is not None else ():
                published.add(self._work.final_key(path, chosen.task), size)
        return []


def _require_finished(left: Sequence[str]) -> None:
    if left:
        raise CommitFailed(
            f"{len(left)} task commits began and did not end, so a part of their files may be visible: "
            f"{', '.join(sorted(left)[:10])}; algorithm 2 cannot repeat them; {_START_ANEW}"
        )


def _taken(claim: TaskRecord, attempt: AttemptId) -> CommitDenied | CommitFailed:
    """Why an attempt may not commit a task that another one has claimed."""
    if claim.finished:
        return CommitDenied(
            f"task {claim.task} is committed by {claim.attempt} already, in attempt {claim.number} of the "
            f"job; nothing of {attempt} is visible; use the commit of that attempt (after a restart "
            "recover_tasks() has it)"
        )
    return CommitFailed(
        f"task {claim.task} is being committed by {claim.attempt}, or was when that died, so a part of its "
        f"files may be visible; nothing of {attempt} is; algorithm 2 cannot repeat a task commit; "
        f"{_START_ANEW}"
    )
