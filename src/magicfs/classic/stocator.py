"""The committer of Stocator: final names carry the attempt, and ``_SUCCESS`` lists the attempts that count.

Section 3 of "Stocator: A High Performance Object Store Connector for Spark" (arXiv 1709.01812). Tasks write
final files; which of them count is decided by one atomic write, that of ``_SUCCESS``, whose field
``magicfs.winners`` lists every winning attempt. A reader that honours it
(``magicfs.hadoop.stocator_files``) sees exactly old or exactly new. One that lists the destination sees files
as they are written, those of losers until the job commit has deleted them, and those of zombies for good.

Stocator's other half, a filesystem of Hadoop that catches writes under ``_temporary`` and gives them final
names, is left out: tasks write through ``Task.filesystem``.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from magicfs.classic.base import Published
from magicfs.classic.final_files import FinalFilesCommitter
from magicfs.classic.records import FileList, Winners, attempts_named, is_unfinished
from magicfs.classic.tracking import final_tracker
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    FormatError,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    Unsupported,
    UsageError,
)
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId
from magicfs.report import JobReport
from magicfs.runtime.parallel import raise_first
from magicfs.stores.port import PutMode, Update
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import JobContext

_TRIES = 5


_Won = dict[str, tuple[int, int]]
"""Number and bytes of files by winning attempt."""


class StocatorCommitter(FinalFilesCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract, and ``guarantees`` for how far it goes.
    Raises UsageError for ``unique_names=False``, or a job id that names of other files may contain by chance.
    """

    name = "stocator"

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        if not context.uploads_found_by_name:
            raise UsageError(
                f"committer={self.name!r} finds its files by the job id in their names, and {context.job!r} "
                "contains no UUID; leave job_id out"
            )

    @property
    def guarantees(self) -> Guarantees:
        """Readers of the list in ``_SUCCESS`` never see files of zombies; those that LIST do."""
        return Guarantees(
            speculative_tasks=True,
            abortable_task=True,
            abortable_job=True,
            uncommitted_output_observable=True,
            committed_task_output_observable=True,
            atomic_task_commit=True,
            atomic_job_commit_manifest=True,
            repeatable_job_commit=True,
            survives_driver_loss=True,
        )

    async def abort_task(self, attempt: AttemptId) -> None:
        """Delete what this process wrote for an attempt, or else what a listing of the destination shows."""
        scope = self.scope(attempt)
        if final_tracker().snapshot(scope):
            raise_first(await self.discard(scope))
            return
        engine = self.engine.for_cleanup()
        raise_first(await delete_keys(engine, await self._files_of(engine, attempt)))

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, _: str | None, tasks: int | None
    ) -> JobReport:
        """Check by a listing that the winners' files are there, write ``_SUCCESS``, delete the losers' files.

        With ``mode="append"`` the winners of earlier jobs are taken over from the ``_SUCCESS`` that is
        there. A second call does the same again. Raises ProtocolViolation without commits; CommitFailed if a
        file is gone, a commit or the old list is malformed, or the list grows too long: ``_SUCCESS`` is as it
        was, and so are all files; CommitDenied if other jobs wrote ``_SUCCESS`` each time: call again.
        """
        started = time.monotonic()
        lists = self.load(commits, tasks)
        attempts = {one.attempt_id: len(one.files) for one in lists}
        won, lost = await self._find(self.engine, attempts)
        self._check_present(lists, won)
        published = self.published(lists, commits)
        await self.decide(self._publish(published, attempts))
        problems = await delete_keys(self.engine.for_cleanup(), lost)
        published.warnings += [
            f"a file that readers do not use could not be deleted: {one}" for one in problems
        ]
        return await self.finish(published, started)

    async def _abort_job(self, commits: Sequence[TaskCommit], _: str | None) -> None:
        """Delete all files whose names carry the job, and abort its uploads.

        A second call deletes what tasks that were still alive have left since. For a published job and
        without commits, that is all it does: files of winners stay. Raises FormatError if the list in
        ``_SUCCESS`` is malformed; nothing was removed.
        """
        engine = self.engine.for_cleanup()
        old, _ = await self._old_success(engine)
        jobs = {} if old is None else (Winners.of(self._success_path, old) or Winners()).jobs
        if commits and self.context.job in jobs:
            raise self.already_published()
        for scope in self.scopes():
            final_tracker().take(scope)
        found = await self._find(engine, jobs.get(self.context.job, ()))
        problems = await delete_keys(engine, found[1])
        raise_first([*problems, *(await self.sweep_uploads()).problems])

    # -- the destination -------------------------------------------------------------------------------

    async def _find(self, engine: Engine, winners: Collection[str]) -> tuple[_Won, list[str]]:
        """Every file of the job, by one listing of the destination: those of winners, and keys of others."""
        won: _Won = {}
        lost = []
        async for info in engine.store.list(paths.prefix_of(self.context.layout.destination)):
            name = info.key.rpartition("/")[2]
            attempts = list(attempts_named(name, self.context.job))
            winner = next((one for one in attempts if one in winners), None)
            if winner is not None and not is_unfinished(name):
                files, size = won.get(winner, (0, 0))
                won[winner] = files + 1, size + info.size
            elif attempts:
                lost.append(info.key)
        return won, lost

    async def _files_of(self, engine: Engine, attempt: AttemptId) -> list[str]:
        prefix = paths.prefix_of(self.context.layout.destination)
        return [
            info.key
            async for info in engine.store.list(prefix)
            if attempt in attempts_named(info.key.rpartition("/")[2], self.context.job)
        ]

    def _check_present(self, lists: Sequence[FileList], won: _Won) -> None:
        for one in lists:
            there = won.get(one.attempt_id, (0, 0))
            if there != (len(one.files), one.size):
                raise CommitFailed(
                    f"attempt {one.attempt_id} committed {len(one.files)} files of {one.size} bytes, and "
                    f"{there[0]} files of {there[1]} bytes exist: somebody removed or replaced them; nothing "
                    "was published; run the task again",
                    failed=[self.key_of(key) for key, _ in one.files],
                )

    # -- _SUCCESS --------------------------------------------------------------------------------------

    @property
    def _success_path(self) -> str:
        return f"{self.engine.store.bucket}/{self.context.layout.success_key}"

    async def _old_success(self, engine: Engine) -> tuple[SuccessData | None, str | None]:
        """What is there, None if it is not JSON, and its ETag, None if there is nothing."""
        key = self.context.layout.success_key
        try:
            etag = (await engine.store.head(key)).etag
            raw = await engine.store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
        except ObjectNotFound:
            return None, None
        try:
            return SuccessData.from_bytes(self._success_path, raw), etag
        except FormatError:
            return None, etag

    async def _publish(self, published: Published, attempts: dict[str, int]) -> None:
        """Write ``_SUCCESS`` in place of the one that was read, so that no other job's winners are lost."""
        store, key = self.engine.store, self.context.layout.success_key
        refused: str | None = None
        for number in range(_TRIES):
            old, etag = await self._old_success(self.engine)
            if number and old is not None and self._lists(old, attempts):
                return  # what refused the last request was its own work, whose answer was lost
            raw = self._success(published, attempts, old)
            mode = PutMode.CREATE if etag is None else Update(etag)
            if etag is not None and etag == refused:
                mode = PutMode.OVERWRITE  # nobody wrote since: a store that refuses all, as Ceph does
            try:
                await store.put(key, raw, mode=mode)
            except (ObjectExists, PreconditionFailed):
                refused = etag
                continue
            except Unsupported:
                await store.put(key, raw)
            return
        raise CommitDenied(
            f"other jobs wrote {self._success_path} {_TRIES} times while job {self.context.job} tried to; "
            "nothing was published; commit it again"
        )

    def _lists(self, success: SuccessData, attempts: dict[str, int]) -> bool:
        try:
            winners = Winners.of(self._success_path, success)
        except FormatError:
            return False
        return winners is not None and winners.jobs.get(self.context.job) == attempts

    def _success(self, published: Published, attempts: dict[str, int], old: SuccessData | None) -> bytes:
        winners = Winners()
        if old is not None and self.context.options.mode == "append":
            try:
                winners = Winners.of(self._success_path, old) or winners
            except FormatError as error:
                raise CommitFailed(
                    f"the file lists of earlier jobs cannot be read: {error}; nothing was published; fix or "
                    "remove the file"
                ) from error
        success = winners.added(self.context.job, attempts).written_into(self.success_of(published))
        if len(raw := success.to_bytes()) > SUCCESS_SIZE_LIMIT:
            raise CommitFailed(
                f"_SUCCESS would list too many attempts: it would have {len(raw)} bytes, and readers take "
                f"{SUCCESS_SIZE_LIMIT}; nothing was published; publish to another destination, or with "
                "another committer"
            )
        return raw
