"""The staging committers: attempts write local files, which are uploaded when their task commits.

Hadoop's ``DirectoryStagingCommitter`` and ``PartitionedStagingCommitter``, under a job object: uploads are
completed when the job commits, and what is replaced goes only after everything new is visible.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from magicfs.committers.driven import DrivenCommitter
from magicfs.committers.registry import StagingOptions
from magicfs.committers.staging import attempts
from magicfs.committers.staging.cluster import ClusterSets
from magicfs.committers.staging.local_output import LocalOutput, read_all
from magicfs.committers.staging.upload import Source, Uploads, open_source
from magicfs.committers.work_places import local_directory
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, CommitOutcomeUnknown, MagicError, StoreError, UsageError
from magicfs.formats.audit import Said
from magicfs.formats.statistics import LEFT_OUT, Statistics
from magicfs.formats.task_commit import Counters, TaskCommit
from magicfs.protocol import modes, paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.protocol.steps import Abort
from magicfs.report import JobReport
from magicfs.runtime.interrupt import hold
from magicfs.runtime.parallel import raise_first
from magicfs.transaction import attempt_output
from magicfs.transaction.attempt_output import StoreSets
from magicfs.transaction.context import JobContext, JobSetup
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import refuse_data

_LOGGER = logging.getLogger("magicfs")


class StagingCommitter(DrivenCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract.

    Local directories belong to one machine: only there can an attempt be committed, or its directory removed.
    """

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        given = context.committer_options
        self._options = given if isinstance(given, StagingOptions) else StagingOptions()
        self._loaded = JobOutput()
        self._cluster: ClusterSets | None = None
        self._kept: StoreSets | ClusterSets = StoreSets(engine, self.context)
        if self._options.cluster_directory is not None:
            self._kept = self._cluster = ClusterSets(engine, self.context, self._options)
        self._sets = self._kept

    # -- the job ---------------------------------------------------------------------------------------

    async def setup_job(self) -> JobSetup:
        """As ``Committer.setup_job``; raises UsageError first if ``cluster_directory`` cannot be written."""
        is_new = self._cluster is not None and await self._cluster.prepare()
        try:
            return await super().setup_job()
        except MagicError:
            if self._cluster is not None and is_new:
                # Not what lies there: another driver may have taken over, and its tasks have committed.
                with suppress(StoreError):
                    await self._cluster.withdraw()
            raise

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, driver: str | None, tasks: int | None
    ) -> JobReport:
        self._loaded = JobOutput()
        try:
            report = await super()._commit(commits, driver, tasks)
        except MagicError as error:
            await self._clean_up_after(error)
            raise
        # Without winners, if an earlier call has loaded them: they are completed, and cannot be aborted.
        aborted, problems = await self._clean_up(self._loaded.attempts)
        warnings = [f"the files are published but cleaning up failed: {one}" for one in problems]
        # Facts of a job without files hold no counters.
        counters = (self._loaded.statistics if self._loaded.names else report.statistics).counters
        if left_out := counters.get(LEFT_OUT):
            warnings.append(_left_out(left_out))
        aborted += report.uploads_aborted
        return replace(report, uploads_aborted=aborted, warnings=(*report.warnings, *warnings))

    async def _load(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> JobOutput:
        self._loaded = await super()._load(commits, tasks)
        return self._loaded

    async def _abort_job(self, commits: Sequence[TaskCommit], driver: str | None) -> None:
        """As ``Committer.abort_job``; local directories on this machine whose attempts are dead go, too."""
        try:
            await super()._abort_job(commits, driver)
        except MagicError as error:
            await self._clean_up_after(error)
            raise
        raise_first((await self._clean_up())[1])

    async def _clean_up_after(self, error: MagicError) -> None:
        """Clean up, if nobody will ask the cluster's sets again."""
        try:
            match await self._transaction.state():
                case state if state in BEFORE_COMMIT:
                    pass
                case JobState.COMMITTING:
                    # Some uploads are to be completed. If names do not show who has won, sets do.
                    if self.context.uploads_found_by_name:
                        await self._remove_leftovers()
                case _:
                    await self._clean_up()
        except MagicError as second:
            error.add_note(f"and leftovers of the job were not searched for: {second}")

    async def _clean_up(self, winners: Collection[str] = ()) -> tuple[int, list[MagicError]]:
        """Abort uploads that only the cluster's sets record, then remove what is left. Returns how many were
        aborted, and what could not be done, which the next call tries again.
        """
        if self._cluster is None:
            return 0, await self._remove_leftovers()
        aborted, problems = await self._cluster.discard(self.engine.for_cleanup(), but=winners)
        return aborted, problems or await self._remove_leftovers()

    async def _remove_leftovers(self) -> list[MagicError]:
        """Remove the job's directory in the cluster, and what dead attempts have left on this machine."""
        problems: list[MagicError] = []
        if self._cluster is not None:
            try:
                await self._cluster.clear()
            except StoreError as error:
                problems.append(error)
        work_directory, job = self._options.work_directory, self.context.job
        left = await asyncio.to_thread(attempts.remove_dead, work_directory, job)
        return problems + [_not_removed(one) for one in left]

    # -- the task --------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether an attempt wrote anything; raises CommitFailed if its directory is not on this machine."""
        if not await self._is_here(attempt):
            raise self._not_here(attempt)
        found = (await self._read(attempt)).values()
        return any(output.files or output.problems or output.left_out for output in found)

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Upload what an attempt wrote, and persist the uploads as one set; nothing becomes visible.

        A second call returns what the first persisted. Files with hidden names are left out, with a warning,
        unless the options say that they are data.
        Raises OutputExists, with nothing uploaded, if a partition holds data (``partitioned`` with
        ``mode="error"``); CommitFailed also if the attempt's directory is not on this machine, a file
        changed meanwhile, or the disk is full, so that files may be short. After both CommitFailed and
        StoreError the uploads are aborted and the directory is removed; after CommitOutcomeUnknown neither:
        call again.
        """
        if not await self._is_here(attempt):
            earlier = await self._sets.find(task, attempt)
            if earlier is None:
                raise self._not_here(attempt)
            return earlier
        uploads = Uploads(self.engine, self.context)
        try:
            found = await self._read(attempt)
            sources = self._sources(task, found)
            await self._check_partitions([source.key for source in sources])
            said = await self._look(sources)
            pendings = attempt_output.with_said(await uploads.run(sources), said)
            if not await self._is_here(attempt):
                raise self._not_here(attempt)
        except (Exception, asyncio.CancelledError) as error:
            await self._discard_after(error, attempt, uploads.opened)
            raise
        hold()  # from here on the set may be there, and count
        pending_set = attempt_output.merged(self.context, task, attempt, pendings, counters)
        if left_out := [name for output in found.values() for name in output.left_out]:
            _LOGGER.warning("task %s: %s; the first is %a", task, _left_out(len(left_out)), left_out[0])
            counted = pending_set.statistics + Statistics(counters={LEFT_OUT: len(left_out)})
            pending_set = replace(pending_set, statistics=counted)
        try:
            kept = await self._kept.keep(task, attempt, pending_set)
        except CommitOutcomeUnknown:
            raise
        except MagicError as error:
            await self._discard_after(error, attempt, uploads.opened)
            raise
        # An earlier call may have persisted other uploads, and this one's are not needed then.
        persisted = {pending.upload_id for pending in kept.pending_set.commits}
        await self._abort([one for one in uploads.opened if one.upload_id not in persisted])
        with suppress(StoreError):  # the job's end removes it
            await self._remove(attempt)
        return kept.commit

    async def abort_task(self, attempt: AttemptId) -> None:
        """Remove what an attempt wrote, if that is on this machine."""
        await self._remove(attempt)

    async def _look(self, sources: Sequence[Source]) -> dict[str, Said]:
        """What the checks of the job say of the content of files, by final keys."""
        found: dict[str, Said] = {}
        for one in sources if self.context.file_checks else ():
            opened = partial(open_source, one)
            said = await attempt_output.look_at_content(self.context, one.key, one.file.size, opened)
            if said is not None:
                found[one.key] = said
        return found

    async def _check_partitions(self, keys: Sequence[str]) -> None:
        """Refuse files that the mode forbids; the job commit looks again."""

    def _sources(self, task: TaskId, found: Mapping[str, LocalOutput]) -> list[Source]:
        """The files to upload, and their keys. Raises CommitFailed if some cannot be, or are not whole."""
        problems: list[str] = []
        by_key: dict[str, Source] = {}
        for destination, output in found.items():
            problems += output.problems
            for file in output.files:
                if modes.is_reserved(file.name):
                    problems.append(f"{file.name!a} has an element that is reserved for committers")
                elements = file.relative
                if self.context.options.unique_names:
                    elements = unique_name(elements, task, self.context.job)
                key = paths.join(destination, *elements)
                try:
                    paths.check_length(key, "the final key", "shorten the name, or its directories")
                except UsageError as error:
                    problems.append(str(error))
                if key in by_key:
                    problems.append(
                        f"{file.name!a} and {by_key[key].file.name!a} have the same final name, {key!a}"
                    )
                by_key[key] = Source(file, key)
        if problems:
            first, *others = problems
            failed = CommitFailed(f"task {task} was not committed: {first}; fix this and run the task again")
            for other in others:
                failed.add_note(f"and: {other}")
            raise failed
        return list(by_key.values())

    # -- the attempt's local directory -----------------------------------------------------------------

    def _directory(self, attempt: AttemptId) -> str:
        return local_directory(self._options.work_directory, self.context.job, attempt)

    async def _is_here(self, attempt: AttemptId) -> bool:
        try:
            return await asyncio.to_thread(attempts.is_own, self._directory(attempt))
        except OSError as error:
            raise CommitFailed(f"attempt {attempt} was not committed: {error}; run its task again") from error

    async def _read(self, attempt: AttemptId) -> dict[str, LocalOutput]:
        """What lies in an attempt's directory, by destination."""
        try:
            return await asyncio.to_thread(
                read_all,
                self._directory(attempt),
                self.context.destinations,
                with_hidden=self._options.hidden_files == "data",
            )
        except OSError as error:
            raise CommitFailed(
                f"the local files of attempt {attempt} cannot be listed: {error}; run its task again"
            ) from error

    def _not_here(self, attempt: AttemptId) -> CommitFailed:
        return CommitFailed(
            f"the local directory {self._directory(attempt)} of attempt {attempt} is not on this machine, "
            f"{platform.node()}, or was removed; nothing was committed; run the task again, and commit it "
            "in the place where it was set up and wrote its files"
        )

    async def _remove(self, attempt: AttemptId) -> None:
        work_directory, job = self._options.work_directory, self.context.job
        try:
            await asyncio.to_thread(attempts.remove, work_directory, job, attempt)
        except OSError as error:
            raise _not_removed(error) from error

    # -- discarding ------------------------------------------------------------------------------------

    async def _abort(self, uploads: Sequence[Abort]) -> list[MagicError]:
        return await attempt_output.run_all(self.engine.for_cleanup(), "abort", uploads)

    async def _discard_after(
        self, error: BaseException, attempt: AttemptId, uploads: Sequence[Abort]
    ) -> None:
        problems = await self._abort(uploads)
        try:
            await self._remove(attempt)
        except StoreError as second:
            problems.append(second)
        for problem in problems:
            error.add_note(f"and: {problem}; the job's end tries again")


class DirectoryCommitter(StagingCommitter):
    """Its modes are about the destination as a whole (``DirectoryStagingCommitter``)."""

    name = "directory"


class PartitionedCommitter(StagingCommitter):
    """Its modes are about the partitions that tasks write to (``PartitionedStagingCommitter``)."""

    name = "partitioned"

    async def _check_partitions(self, keys: Sequence[str]) -> None:
        # What is there may be the run's own, published by an earlier job: its driver knows, and looks.
        if self.context.options.mode == "error" and self.context.options.run_id is None:
            destination = self.context.layout.destination
            keys = [key for key in keys if paths.is_under(key, destination)]
            await refuse_data(self.engine, self.context, modes.partitions_to_check(keys, destination))


def _not_removed(error: OSError) -> StoreError:
    return StoreError("delete", str(error.filename or "a local directory"), str(error))


def _left_out(number: int) -> str:
    files = "1 local file was" if number == 1 else f"{number} local files were"
    return (
        f"{files} left out, because readers skip names that begin with _ or a dot; rename data files, or "
        "give the job options={'hidden_files': 'data'}"
    )
