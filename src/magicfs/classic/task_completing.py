"""The task-completing committer: delayed uploads that are completed when their task commits.

What Amazon's EMRFS S3-optimized committer does ("files written by task attempts only appear in the job's
output location upon task commit", Amazon EMR Release Guide). Nothing of an uncommitted task is ever visible,
and the job commit is one request whatever the number of files; but everything of a committed task is:

* A job that fails or is aborted leaves what its committed tasks have published. ``abort_job`` removes what
  the commits that it is given name; EMR's removes nothing.
* A task commit that dies leaves some of its files visible. The next attempt replaces those whose names it
  gives again.
* Of two attempts that commit, the later one replaces the files of the other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from magicfs.classic.base import ClassicCommitter, Published
from magicfs.committers.magic import MagicCommitter
from magicfs.engine import BatchResult, Engine
from magicfs.errors import (
    CommitError,
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ProtocolViolation,
    StoreError,
)
from magicfs.filesystem.tracking import PlaceName, Scope, name_in, settled, tracker
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Batch
from magicfs.report import JobReport
from magicfs.runtime.parallel import raise_first
from magicfs.stores.conditions import conditions_of
from magicfs.transaction import attempt_output, revert
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import StoreSets
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.publish import job_statistics


class TaskCompletingCommitter(ClassicCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract, and ``guarantees`` for how far it goes."""

    name = "task-completing"

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        # Its tasks write, and find what they wrote, in the same way.
        self._magic = MagicCommitter(context, engine)
        self._sets = StoreSets(engine, context)

    @property
    def guarantees(self) -> Guarantees:
        """Speculation is safe only where the engine lets but one attempt of a task commit."""
        return Guarantees(
            speculative_tasks=True,
            abortable_task=True,
            committed_task_output_observable=True,
            repeatable_job_commit=True,
        )

    # -- tasks -----------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything."""
        return await self._magic.needs_task_commit(attempt)

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Write down what the attempt uploaded, as the magic committer does, and complete it: it is visible.

        A second call completes what the first has left, and returns the same; with ``tracking="memory"`` only
        if the first ended in ``CommitOutcomeUnknown``, else it returns an empty commit. After CommitFailed
        what had become visible of the attempt was removed again. After CommitOutcomeUnknown files may be
        visible and nothing was removed; call again, or run the task again.
        """
        await settled(self._scope(attempt))
        before = tracker().snapshot(self._scope(attempt))
        commit = await self._magic.commit_task(task, attempt, counters)
        output = await job_output.load_commits(self.engine, self.context, self._sets, [commit])
        result = await self.engine.run(Batch("complete", output.steps()), keep=True)
        if result.ok:
            return commit
        raise await self._not_completed(commit, output, result, before)

    async def abort_task(self, attempt: AttemptId) -> None:
        """Abort an attempt's uploads. What its commit has made visible stays."""
        await self._magic.abort_task(attempt)

    async def _not_completed(
        self, commit: TaskCommit, output: JobOutput, result: BatchResult, before: Scope
    ) -> CommitError:
        lists = result.lists(output.final_keys())
        undecided = next((one for one in result.failures if one.outcome is Outcome.UNKNOWN), None)
        if undecided is not None:
            if (
                self.context.options.tracking == "memory"
            ):  # nothing else remembers the uploads for a second call
                for path, pending in before.finished.items():
                    tracker().finished(self._scope(commit.attempt_id), path, pending)
            unknown = CommitOutcomeUnknown(
                f"task {commit.task_id}: {len(result.completed)} of {output.files} files are visible, and "
                f"the state of {undecided.step.key} is unknown; nothing was removed; commit the task again, "
                f"or run it again: {undecided.error}",
                **lists,
            )
            unknown.__cause__ = undecided.error
            return unknown
        first = result.failures[0]
        error = CommitFailed(
            f"task {commit.task_id} was not committed, and its visible files were removed again: "
            f"{first.step.key} could not be completed: {first.error}",
            **lists,
        )
        error.__cause__ = first.error
        for problem in await self._take_back(commit, output):
            error.add_note(f"and: {problem}")
        return error

    async def _take_back(self, commit: TaskCommit, output: JobOutput) -> list[MagicError]:
        """Abort a task's uploads and delete those of its files that have their write ids."""
        engine = self.engine.for_cleanup()
        result = await engine.run(Batch("abort", job_output.aborts(output)), stop_on_failure=False)
        problems = [f.error for f in result.failures if isinstance(f.error, MagicError)]
        try:
            conditions = await conditions_of(engine.store, self.context.layout.job_directory)
            problems += await revert.remove_files(engine, conditions, output)
        except StoreError as error:
            problems.append(error)
        if not problems and commit.set_key is not None:
            problems += await attempt_output.delete_keys(engine, [commit.set_key])
        return problems

    # -- jobs ------------------------------------------------------------------------------------------

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, _: str | None, tasks: int | None
    ) -> JobReport:
        """Write ``_SUCCESS``, then abort uploads of attempts that did not commit. Files are not looked at.

        A second call does the same again. Raises ProtocolViolation without commits; CommitFailed if one is
        malformed, or two tasks wrote one key: no ``_SUCCESS`` was written, and the files of committed tasks
        stay visible.
        """
        started = time.monotonic()
        if commits is None:
            raise ProtocolViolation(
                f"with committer={self.name!r} a listing does not show whether a task's commit completed; "
                "pass the TaskCommits to job.commit"
            )
        self.check_commits(commits, tasks)
        await settled(self._job_name)
        try:
            output = await job_output.load_commits(self.engine, self.context, self._sets, commits)
        except CommitFailed as error:
            error.add_note("files of committed tasks are already visible, and stay; no _SUCCESS")
            raise
        published = Published(tasks=output.tasks, statistics=job_statistics(output))
        for step in output.steps():
            published.add(step.key, step.length)
        await self.decide(self.write_success(published))
        report = await self.finish(published, started)
        self._forget()
        return report

    async def committed_tasks(self) -> list[TaskId]:
        """The tasks whose commits have begun, as a listing shows, once for each attempt.

        Not all of their files need be visible: their commits may have died. With ``tracking="memory"`` none.
        """
        if self.context.options.tracking == "memory":
            return []
        return [one.task for one in await self._sets.listed()]

    async def _abort_job(self, commits: Sequence[TaskCommit], _: str | None) -> None:
        """Delete the files that the commits name, and abort every upload of the job.

        Files of tasks that died, or whose commits are not given, stay. For a published job and without
        commits it only aborts uploads that tasks have left.
        """
        if commits and await self.is_published():
            raise self.already_published()
        await settled(self._job_name)
        problems: list[MagicError] = []
        engine = self.engine.for_cleanup()
        sets = StoreSets(engine, self.context)
        for commit in commits:
            try:
                output = await job_output.load_commits(engine, self.context, sets, [commit])
            except (CommitFailed, FormatError, ProtocolViolation):
                continue  # not ours, or removed by an earlier call
            problems += await self._take_back(commit, output)
        raise_first(problems)
        raise_first((await self.sweep_uploads()).problems)
        self._forget()

    # -- places ----------------------------------------------------------------------------------------

    def _scope(self, attempt: AttemptId) -> PlaceName:
        store, directory = self.engine.store, self.context.layout.task_attempt_directory(attempt)
        return name_in(store, f"{store.bucket}/{directory}")

    @property
    def _job_name(self) -> PlaceName:
        store = self.engine.store
        return name_in(store, f"{store.bucket}/{self.context.layout.job_directory}")

    def _forget(self) -> None:
        tracker().forget(paths.prefix_of(self._job_name))
