"""What committers under a job object share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from magicfs.committers.base import Committer
from magicfs.engine import Engine
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import TaskId
from magicfs.report import JobReport
from magicfs.transaction import attempt_output
from magicfs.transaction.attempt_output import StoreSets, TaskSets
from magicfs.transaction.context import JobContext, JobSetup

if TYPE_CHECKING:
    from magicfs.transaction.driver import JobTransaction
    from magicfs.transaction.extension import Extension
    from magicfs.transaction.output import JobOutput

DRIVEN = Guarantees(
    speculative_tasks=True,
    recoverable_job=True,
    abortable_task=True,
    abortable_job=True,
    atomic_task_commit=True,
    atomic_job_commit_manifest=True,
    partitioned_executor_resilience=True,
    repeatable_job_commit=True,
    survives_driver_loss=True,
)
"""What delayed uploads and a job object give."""


class DrivenCommitter(Committer):
    """A committer whose job is a ``JobTransaction``: it only says how tasks write and what they persist."""

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        self._sets: TaskSets = StoreSets(engine, context)
        self.given: Sequence[Extension] = ()
        """Extensions that the job's driver has made itself, for it knows more than their names."""

    @cached_property
    def _transaction(self) -> JobTransaction:
        # Imported by drivers alone: a worker's first file does not wait for it.
        from magicfs.transaction.driver import JobTransaction

        return JobTransaction(self.engine, self.context)

    @property
    def guarantees(self) -> Guarantees:
        return DRIVEN

    @property
    def is_recovery_supported(self) -> bool:
        return True

    async def setup_job(self) -> JobSetup:
        return await self._transaction.set_up()

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> JobReport:
        from magicfs.transaction.late_driver import committed_files

        committed = partial(committed_files, self.context, self._sets, commits, tasks)
        return await self._transaction.commit(
            partial(self._load, commits, tasks), driver, committed, self.given
        )

    async def _load(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> JobOutput:
        from magicfs.transaction import output

        return await output.load(self.engine, self.context, self._sets, commits, tasks)

    async def committed_tasks(self) -> list[TaskId]:
        return [one.task for one in await self._sets.listed()]

    async def recover_tasks(self) -> list[TaskCommit]:
        return await attempt_output.recovered(self.context, self._sets)

    async def _abort_job(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        from magicfs.transaction import output

        carried = list(output.carried(self.engine, self.context, commits))
        await self._transaction.abort(carried, driver, given=bool(commits))
