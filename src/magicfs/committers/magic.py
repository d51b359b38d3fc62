"""The magic committer: attempts write delayed uploads under magic paths.

Hadoop's ``MagicS3GuardCommitter``.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from magicfs.committers.driven import DRIVEN, DrivenCommitter
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, MagicError, StoreError, UsageError
from magicfs.filesystem import in_hand
from magicfs.filesystem.job_settings import known_jobs
from magicfs.filesystem.tracking import PlaceName, Scope, name_in, settled, tracker
from magicfs.formats.audit import Said
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import INLINE_LIMIT, Counters, TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.magic import PENDING, PathOwner, locate
from magicfs.report import JobReport
from magicfs.runtime.interrupt import hold
from magicfs.runtime.parallel import raise_first
from magicfs.transaction import attempt_output
from magicfs.transaction.attempt_output import StoreSets, TaskOutput


class MagicCommitter(DrivenCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract."""

    name = "magic"

    @property
    def guarantees(self) -> Guarantees:
        # What only the first driver was given, no second one can publish.
        return replace(DRIVEN, recoverable_job=self.is_recovery_supported)

    @property
    def is_recovery_supported(self) -> bool:
        return self.context.options.tracking == "store"

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        scope = tracker().snapshot(self._scope(attempt))
        written = bool(scope.finished or scope.open or scope.lost)
        if written or self.context.options.tracking == "memory":
            return written
        prefix = paths.prefix_of(self._directory(attempt))
        return bool([info async for info in self.engine.store.list(prefix, limit=1)])

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        await settled(self._scope(attempt))
        scope = tracker().snapshot(self._scope(attempt))
        try:
            said = await self._look(scope)
            output = await self._written(attempt, scope)
            output.pendings = attempt_output.with_said(output.pendings, said)
            try:
                pending_set = attempt_output.merged(self.context, task, attempt, output.pendings, counters)
            except UsageError as error:
                output.problems.append(error)
            if output.problems:
                raise await self._task_failed(task, attempt, output)
            commit = await self._persist(task, attempt, pending_set)
        except StoreError as error:
            await self._abort_after(error, attempt)
            raise
        self._ended(attempt)
        cleanup = self.engine.for_cleanup()
        await attempt_output.abort_uploads(cleanup, scope.replaced)
        await attempt_output.delete_keys(cleanup, output.keys)
        return commit

    async def abort_task(self, attempt: AttemptId) -> None:
        await settled(self._scope(attempt))
        output, problems = TaskOutput(), []
        if self.context.options.tracking == "store":
            try:
                scope = tracker().snapshot(self._scope(attempt))
                output = await self._load_attempt(self.engine.for_cleanup(), attempt, scope)
            except StoreError as error:
                problems.append(error)
        raise_first([*problems, *await self._discard(attempt, output)])

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> JobReport:
        await settled(self._job_name)  # of tasks that nobody ended: the cleanup is to find all of it
        report = await super()._commit(commits, driver, tasks)
        self._forget()
        return report

    async def recover_tasks(self) -> list[TaskCommit]:
        if not self.is_recovery_supported:
            raise UsageError(
                f"job {self.context.job} has tracking='memory', and only the driver of that attempt knows "
                "what its tasks committed; run the tasks again, or use tracking='store'"
            )
        return await super().recover_tasks()

    async def _abort_job(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        await settled(self._job_name)
        await super()._abort_job(commits, driver)
        self._forget()

    # -- places ----------------------------------------------------------------------------------------

    def _directory(self, attempt: AttemptId) -> str:
        return self.context.layout.task_attempt_directory(attempt)

    def _scope(self, attempt: AttemptId) -> PlaceName:
        return name_in(self.engine.store, f"{self.engine.store.bucket}/{self._directory(attempt)}")

    @property
    def _job_name(self) -> PlaceName:
        store = self.engine.store
        return name_in(store, f"{store.bucket}/{self.context.layout.job_directory}")

    def _forget(self) -> None:
        tracker().forget(paths.prefix_of(self._job_name))
        known_jobs().forget(self._job_name)

    def _ended(self, attempt: AttemptId) -> Scope:
        """Forget an attempt; returns what was known of it."""
        known_jobs().ended(self._job_name, self._scope(attempt))
        return tracker().take(self._scope(attempt))

    # -- the task commit -------------------------------------------------------------------------------

    async def _load_attempt(self, engine: Engine, attempt: AttemptId, scope: Scope) -> TaskOutput:
        bucket = engine.store.bucket
        known = {
            f"{path.removeprefix(f'{bucket}/')}{PENDING}": (record, scope.finished[path])
            for path, record in scope.records.items()
        }
        directory = self._directory(attempt)
        return await attempt_output.load(engine, directory, bucket, self.context.destinations, known)

    async def _written(self, attempt: AttemptId, scope: Scope) -> TaskOutput:
        if self.context.options.tracking == "memory":
            await self._bundle_all(attempt, scope)
            opened = sorted(scope.finished.items())
            output = TaskOutput(pendings=[pending for _, pending in opened])
        else:
            output = await self._load_attempt(self.engine, attempt, scope)
            opened, missing = [], dict(scope.finished)
            for pending in output.pendings:
                opened.append((path := (pending.filename or "").removesuffix(PENDING), pending))
                if path in missing and missing[path].upload_id == pending.upload_id:
                    del missing[path]
            why = "missing, although this process wrote it: the job has ended, or somebody removed it"
            for path in sorted(missing):
                output.problems.append(FormatError(f"{path}.pending", "", why))
        attempt_output.refuse_others(self.context, attempt, opened, output)
        failed = dict(scope.lost)
        for path in scope.open:
            failed[path] = UsageError(f"{path} is still open; close every file before the task commits")
        output.problems += map(failed.__getitem__, sorted(failed))
        return output

    async def _look(self, scope: Scope) -> dict[str, Said]:
        """What the checks of the job say of the content of files that are in hand, by final keys."""
        found: dict[str, Said] = {}
        context, store = self.context, self.engine.store
        for path, pending in scope.finished.items() if context.file_checks else ():
            key, place = pending.destination_key, locate(path)
            if pending.body is None or place is None:
                why = f"it is larger than small_files={context.options.small_files}, and was already uploaded"
                said = attempt_output.not_looked_at(context, key, why)
            else:
                body = await in_hand.read(store, place, pending)
                said = await attempt_output.look_at_content(
                    context, key, len(body), partial(io.BytesIO, body)
                )
            if said is not None:
                found[key] = said
        return found

    async def _bundle_all(self, attempt: AttemptId, scope: Scope) -> None:
        """Put the small files of an attempt into bundles, which then stand in what is known of them."""
        if self.context.options.small_files is None:
            return
        owner = PathOwner(
            self.context.job,
            ids.task_of_attempt(attempt),
            attempt,
            f"{self.engine.store.bucket}/{self._directory(attempt)}",
        )
        await in_hand.bundle_all(self.engine.store, self._scope(attempt), owner)
        scope.finished = tracker().snapshot(self._scope(attempt)).finished

    async def _persist(self, task: TaskId, attempt: AttemptId, pending_set: PendingSet) -> TaskCommit:
        hold()  # from here on the set may be there, and count
        if self.context.options.tracking == "memory":
            commit = TaskCommit.of(self.context.job, task, attempt, pending_set, None)
            limit = (
                INLINE_LIMIT
                if self.context.options.inline_limit is None
                else self.context.options.inline_limit
            )
            if commit.content is not None and len(commit.content) <= limit:
                return commit
        return (await StoreSets(self.engine, self.context).keep(task, attempt, pending_set)).commit

    async def _task_failed(self, task: TaskId, attempt: AttemptId, output: TaskOutput) -> CommitFailed:
        first, *others = output.problems
        error = CommitFailed(
            f"task {task} was not committed, and its {len(output.pendings)} readable uploads were aborted: "
            f"{first}",
            failed=[p.destination_key for p in output.pendings],
        )
        for other in (*others, *await self._discard(attempt, output)):
            error.add_note(f"and: {other}")
        error.__cause__ = (
            ExceptionGroup("files that cannot be committed", output.problems) if others else first
        )
        return error

    async def _discard(self, attempt: AttemptId, output: TaskOutput) -> list[MagicError]:
        """Abort what this process or the store knows of an attempt; then delete its directory.

        While an upload could not be aborted its ``.pending`` stays, so that the next try finds it.
        """
        engine = self.engine.for_cleanup()
        scope = self._ended(attempt)
        uploads = {p.upload_id: p for p in (*scope.finished.values(), *scope.replaced, *output.pendings)}
        problems = await attempt_output.abort_uploads(engine, list(uploads.values()))
        return problems or await attempt_output.delete_keys(engine, [*output.keys, *scope.bundles])

    async def _abort_after(self, error: MagicError, attempt: AttemptId) -> None:
        try:
            await self.abort_task(attempt)
        except MagicError as second:
            error.add_note(f"and attempt {attempt} could not be fully aborted: {second}")
