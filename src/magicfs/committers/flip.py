"""Publishing a whole destination by one exchange of directories: ``Job(publish="flip")``.

Another committer makes the new dataset beside the destination, as where nothing is; then the two change
places.
``transaction.flip`` says how.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from magicfs.committers.base import Committer
from magicfs.committers.driven import DrivenCommitter
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, MagicError, ProtocolViolation, Unavailable, UsageError
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.protocol.paths import Location
from magicfs.report import JobReport
from magicfs.stores.conditions import conditions_of
from magicfs.stores.tree_port import Exchange
from magicfs.transaction import flip_checks, flip_remains
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.current_driver import IsCurrentDriver, require_current_driver
from magicfs.transaction.delegate import CompleteRemotely
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.outcome import ENDED_ELSEWHERE, published
from magicfs.transaction.output import JobOutput

__all__ = ["FlipCommitter"]


class FlipCommitter(DrivenCommitter):
    """Another committer, bound to the directory beside the destination, and the job that exchanges both."""

    def __init__(self, context: JobContext, inner: Committer, engine: Engine) -> None:
        self.name = inner.context.committer
        super().__init__(replace(context, allow_empty=True), engine)
        self._inner = inner
        self._allow_empty = context.allow_empty
        self._how: Exchange | None = None  # known once it was tried
        self._made: JobReport | None = None  # what the inner job has made, once it has

    @property
    def guarantees(self) -> Guarantees:
        # Between two renames nothing is at the destination; where nothing was before, that is the old state.
        one_step = self.engine.store.capabilities.exchanges if self._how is None else self._how == "one step"
        # The manifests lie at the destination, too.
        atomic, inner = one_step or self.context.conflict == "fail", self._inner.guarantees
        return replace(
            inner,
            atomic_job_commit_list=atomic,
            atomic_job_commit_manifest=atomic and inner.atomic_job_commit_manifest,
        )

    @property
    def is_recovery_supported(self) -> bool:
        return self._inner.is_recovery_supported

    @property
    def is_commit_job_repeatable(self) -> bool:
        return self._inner.is_commit_job_repeatable

    @property
    def is_task_commit_repeatable(self) -> bool:
        return self._inner.is_task_commit_repeatable

    async def setup_job(self) -> JobSetup:
        self._how = await flip_checks.how_exchanged(self.engine, self.context)
        found = await self._transaction.set_up()
        if found.published is not None:
            return replace(found, driver=_joined(found.driver, None))
        try:
            if not found.created:
                await self._finish_inner()
            if await self._is_made():
                return replace(found, driver=_joined(found.driver, None))
            inner = await self._inner.setup_job()
        except BaseException as error:
            # One that was taken over stays for the next driver. A silent store is not asked more.
            if found.created and not isinstance(error, Unavailable):
                with suppress(MagicError):
                    await self._transaction.abort((), found.driver, given=False)
            raise
        return replace(found, driver=_joined(found.driver, inner.driver))

    @property
    def _inner_transaction(self) -> JobTransaction:
        return JobTransaction(self.engine, self._inner.context)

    async def _finish_inner(self) -> None:
        """Finish what a driver that died was making: nobody sees it before the exchange."""
        state = await self._inner_transaction.state()
        if state is not None and state not in BEFORE_COMMIT:
            await self._inner_transaction.finish()

    async def _is_made(self) -> bool:
        """Whether an earlier attempt has made the new dataset, and only the exchange is left."""
        assert self.context.new is not None
        made = await chain.read(self.engine.store, self.context.new, self.context.job, chain.READING)
        return made is not None

    async def _is_alive(self) -> bool:
        """Whether the new dataset is there, made or not: of a job that has ended nothing is."""
        return await self._is_made() or await self._inner_transaction.state() is not None

    async def _beside(self) -> flip_remains.Beside:
        return await flip_remains.beside_of(self.engine, self.context.layout.destination, self.context.job)

    async def _clear(self, left: flip_remains.Beside) -> tuple[bool, int, list[str]]:
        """Bring what lies beside the destination to its end; see ``flip_remains.clear_beside``."""
        conditions = await conditions_of(self.engine.store, f"{left.directory}/__magic")
        return await flip_remains.clear_beside(self.engine, self.context, conditions, left)

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        return await self._inner.needs_task_commit(attempt)

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        return await self._inner.commit_task(task, attempt, counters)

    async def abort_task(self, attempt: AttemptId) -> None:
        await self._inner.abort_task(attempt)

    async def committed_tasks(self) -> list[TaskId]:
        return await self._inner.committed_tasks()

    async def recover_tasks(self) -> list[TaskCommit]:
        return await self._inner.recover_tasks()

    async def commit_job(
        self,
        commits: Sequence[TaskCommit] | None,
        driver: str | None = None,
        tasks: int | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
        complete_remotely: CompleteRemotely | None = None,
    ) -> JobReport:
        await require_current_driver(is_current_driver, self.context.job)
        outer, inner = _apart(driver)
        denied = None
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            state = await self._transaction.state()
            if state is not None and state not in BEFORE_COMMIT:
                return await self._go_on(outer)
            if state is None:
                left = await self._beside()
                if left.stage != "new":  # it is past its commit point, and perhaps half exchanged
                    _, deleted, warnings = await self._clear(left)
                    told = await self._transaction.commit(_nothing, outer)
                    return self._whole(replace(told, files_deleted=deleted), warnings)
                if not await self._is_alive():
                    return self._whole(await self._transaction.commit(_nothing, outer), [])  # it has ended
            try:
                if state is None:
                    # Another job that flips has taken its object away, and nothing else of it.
                    outer = (await self._transaction.set_up()).driver
                return await self._commit_both(commits, outer, inner, tasks, complete_remotely)
            except CommitDenied as error:
                if await self._transaction.state() is not None:
                    raise
                denied = error
        raise CommitDenied(
            f"job {self.context.job} is not published: other jobs published {self.context.url} as a whole "
            f"each of {_TRIES} times; commit again"
        ) from denied

    async def _go_on(self, outer: str | None) -> JobReport:
        """Finish what has passed its commit point, and tell what it published."""
        first = await self._transaction.commit(_nothing, outer)
        told = await self._transaction.commit(_nothing, outer)  # as the manifest has it
        return self._whole(replace(told, files_deleted=first.files_deleted, warnings=first.warnings), [])

    async def _commit_both(
        self,
        commits: Sequence[TaskCommit] | None,
        outer: str | None,
        inner: str | None,
        tasks: int | None,
        complete_remotely: CompleteRemotely | None,
    ) -> JobReport:
        if self._made is None:
            if await self._is_made():
                self._made = await self._made_before(commits, tasks)
            else:
                how: dict[str, Any] = (
                    {} if complete_remotely is None else {"complete_remotely": complete_remotely}
                )
                made = await self._inner.commit_job(commits, inner, tasks, **how)
                if await self._inner_transaction.state() is not None:
                    raise CommitFailed(
                        f"{'; '.join(made.warnings)}; nothing was changed at {self.context.url}; fix the "
                        "cause, then commit again"
                    )
                self._made = made
        made = self._made
        self._check_files(made)
        output = JobOutput(tasks=made.tasks, files=made.files, bytes=made.bytes)

        async def load() -> JobOutput:
            return output

        return self._whole(await self._transaction.commit(load, outer), [])

    async def _made_before(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> JobReport:
        """What was made of these commits before; or, of others, by an earlier attempt: then these go."""
        try:
            made = await self._inner.commit_job(commits, None, tasks)
            warnings = tuple(one for one in made.warnings if one != ENDED_ELSEWHERE)
            return replace(made, tasks=len(commits or ()), warnings=warnings)
        except (CommitDenied, ProtocolViolation):
            with suppress(MagicError):
                await self._inner.abort_job((), None)
        made = await self._inner_transaction.commit(_nothing, None)
        warning = (
            "an earlier attempt of the job had made the dataset whole; what its tasks have written since was "
            "discarded"
        )
        return replace(made, warnings=(warning,))

    def _check_files(self, made: JobReport) -> None:
        if made.files or self._allow_empty or not self.context.is_replacing:
            return
        raise UsageError(
            f"job {self.context.job} has no files, and conflict={self.context.conflict!r} would only delete "
            "what is there; nothing was changed; pass allow_empty=True if that is meant"
        )

    def _whole(self, report: JobReport, warnings: Sequence[str]) -> JobReport:
        """What both jobs together did, at the destination; ``report`` and warnings are of the exchange."""
        made = self._made
        if made is None:
            return replace(report, warnings=(*report.warnings, *warnings))
        location = paths.parse_url(self.context.url)
        beside = Location(location.scheme, location.bucket, self.context.new or "").url
        names = (f"{self.context.url}{name.removeprefix(beside)}" for name in made.filenames)
        return replace(
            made,
            destination=report.destination,
            conflict=report.conflict,
            seconds=made.seconds + report.seconds,
            uploads_aborted=made.uploads_aborted + report.uploads_aborted,
            files_deleted=report.files_deleted,
            manifest=report.manifest,
            filenames=tuple(names),
            warnings=(
                *made.warnings,
                *(one for one in report.warnings if one != ENDED_ELSEWHERE),  # it was this one
                *warnings,
            ),
        )

    async def abort_job(
        self,
        commits: Sequence[TaskCommit],
        driver: str | None = None,
        *,
        is_current_driver: IsCurrentDriver | None = None,
    ) -> None:
        await require_current_driver(is_current_driver, self.context.job)
        outer, inner = _apart(driver)
        if await self._transaction.state() is not None:
            with suppress(ProtocolViolation):  # its files are there, where nobody sees them
                await self._inner.abort_job(commits, inner)
        elif (left := await self._beside()).stage != "new":
            await self._clear(left)
            raise published(self.context)
        await self._transaction.abort((), outer, given=bool(commits))
        if (await self._clear(await self._beside()))[0]:
            raise published(self.context)


_TRIES: Final = 5
_PAUSE_S: Final = 0.1


async def _nothing() -> JobOutput:
    return JobOutput()


def _joined(outer: str, inner: str | None) -> str:
    return f"{outer}/{inner or ''}"


def _apart(driver: str | None) -> tuple[str | None, str | None]:
    outer, _, inner = (driver or "").partition("/")
    return outer or None, inner or None
