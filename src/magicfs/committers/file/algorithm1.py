"""Algorithm 1: a task's files are moved aside when it commits, and to the destination when the job does.

Hadoop moves them to a directory of the task, and deletes what another attempt of the task had put there: a
crash between the two loses a task that the engine has accepted, and so does an attempt that was given up and
commits late. Here each attempt has a directory of its own below the task's, so nothing is deleted before the
job has ended, and no attempt can touch what another has committed. What counts is the attempt's record,
written when all its files are there, which makes the task commit one step on any store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from magicfs.committers.classic import Published
from magicfs.committers.file.algorithm import FileWork, absent, chosen_of
from magicfs.committers.file.merge import Merge, walk
from magicfs.committers.file.obstacles import Obstacles
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
    Unsupported,
)
from magicfs.formats.commit_marker import Chosen, Mark
from magicfs.formats.file_task import TaskRecord
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.layout import SUCCESS

__all__ = ["MovedAside", "standing"]


class MovedAside:
    """See ``algorithm.Algorithm``."""

    is_task_commit_repeatable = True

    def __init__(self, work: FileWork) -> None:
        self._work = work
        self._number = work.context.layout.attempt

    @property
    def guarantees(self) -> Guarantees:
        """The same on all stores: none of it rests on a rename being one step.

        An abort leaves the destination as it was, or is refused: once the job commit has begun, only the
        commit can end the job.
        """
        return Guarantees(
            speculative_tasks=True,
            recoverable_job=True,
            abortable_task=True,
            abortable_job=True,
            uncommitted_output_observable=False,
            committed_task_output_observable=False,
            atomic_task_commit=True,
            atomic_job_commit_list=False,
            atomic_job_commit_manifest=False,
            partitioned_executor_resilience=True,
            repeatable_job_commit=True,
            survives_driver_loss=True,
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    async def commit_task(self, task: TaskId, attempt: AttemptId) -> TaskRecord:
        work = self._work
        if (held := await work.records.read(task, attempt)) is not None:
            return held
        written = await work.written(task, attempt)
        aside = self._aside(task, attempt)
        merge = self._merge(aside)
        await merge.merge(work.layout.task_attempt_directory(attempt))
        found = [one async for one in walk(work.engine.store, aside) if one[0] != SUCCESS]
        if lost := sorted(set(written) - set(found)):
            raise CommitFailed(
                f"task {task}, {attempt}: {len(lost)} of its files were changed or removed while it "
                f"committed, the first is {lost[0][0]}; nothing was committed; run the task again",
                failed=[f"{aside}/{relative}" for relative, _ in lost],
            )
        record = work.record(task, attempt, found, merge)
        try:
            await work.records.write(record)
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"task {task}, {attempt}: the store did not say whether its record was written; nothing was "
                f"removed; commit the task again, or run it again: {error}"
            ) from error
        return record

    async def tasks(self) -> list[TaskId]:
        found = await self._work.records.committed()
        return [task for task, attempts in found.items() for _ in attempts]

    async def recover(self) -> list[Chosen]:
        records, found = self._work.records, dict[TaskId, Chosen | None]()
        for number in range(self._number, -1, -1):
            left = [one for one in (await records.committed(number)).items() if one[0] not in found]

            async def one(item: tuple[TaskId, list[AttemptId]], number: int = number) -> bool:
                record = await records.last(*item, number)
                if record is not None:
                    if number < self._number:
                        await self._take(number, record)
                    # What this job attempt has committed by itself stands before what earlier ones have.
                    found[record.task] = chosen_of(record) if record.number < self._number else None
                return True

            await drained(left, one, self._work.engine.concurrency)
        return [chosen for _, chosen in sorted(found.items()) if chosen is not None]

    async def _take(self, number: int, record: TaskRecord) -> None:
        """Move a committed attempt from an earlier job attempt. A second call does the rest."""
        here = self._aside(record.task, record.attempt)
        await self._merge(here).merge(self._aside(record.task, record.attempt, number))
        there = {one async for one in walk(self._work.engine.store, here)}
        if not there >= set(record.files):
            raise CommitFailed(
                f"task {record.task}, {record.attempt} has committed in attempt {number} of the job, and "
                "files of it are missing; abort the job, and run it again under another job id"
            )
        await self._work.records.write(record)
        await self._work.records.remove(record, number)

    async def visible_files(self) -> int:
        return 0

    # -- the job -------------------------------------------------------------------------------------------

    async def choose(self, commits: Sequence[TaskCommit] | None) -> tuple[list[Chosen], int]:
        records, names, obstacles = self._work.records, self._work.names(), Obstacles(self._work)
        if commits is None:
            asked = await records.committed()
        else:
            asked = {one.task_id: [one.attempt_id] for one in commits}
        found: list[Chosen] = []
        missing: list[tuple[TaskId, AttemptId]] = []

        async def one(item: tuple[TaskId, list[AttemptId]]) -> bool:
            record = await records.last(*item)
            if record is None:
                missing.append((item[0], item[1][0]))
            else:
                names.add(record)
                await obstacles.refuse(record)
                found.append(chosen_of(record))
            return True

        await drained(asked.items(), one, self._work.engine.concurrency)
        if missing:
            some = ", ".join(f"{attempt} of task {task}" for task, attempt in missing[:10])
            raise CommitFailed(
                f"{len(missing)} accepted attempts have not committed in attempt {self._number} of the job, "
                f"or their work was removed: {some}; nothing was published; run these tasks again, or call "
                "recover_tasks() for those of an earlier attempt of the job",
                failed=[records.key(*one) for one in missing],
            )
        return found, names.replaced

    async def publish(self, started: Mark, published: Published) -> list[str]:
        work = self._work
        unique = work.context.unique_names
        await self._drop_success()
        merge = work.merge_into_destination()
        merge.moved = published.add
        short: list[Chosen] = []

        async def one(chosen: Chosen) -> bool:
            final = work.naming(chosen.task) if unique else None
            moved = 0
            for number in self._numbers(started):
                moved += await merge.merge(self._aside(chosen.task, chosen.attempt, number), final)
            if moved != chosen.files:
                short.append(chosen)
            return True

        # Where tasks may use each other's names the last one counts, in the order of their ids, as in Hadoop.
        try:
            await drained(started.tasks, one, work.engine.concurrency if unique else 1)
        except (StoreError, CommitFailed) as error:
            raise CommitOutcomeUnknown(
                f"job {work.context.job}: stopped while its {started.files} files were moved to the "
                f"destination, {published.files} of them in this call; nothing was removed; commit again, "
                f"which moves the rest: {error}",
                done=published.keys,
                failed=merge.failed,
            ) from error
        published.statistics += merge.statistics
        if not short:
            return []
        return await self._missing(started, short if unique else started.tasks, published)

    async def _drop_success(self) -> None:
        """Remove an older job's ``_SUCCESS``, whose readers wait; but not our own, of an earlier call."""
        store, key = self._work.engine.store, self._work.context.layout.success_key
        try:
            etag = (await store.head(key)).etag
            raw = await store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
        except ObjectNotFound:
            return
        with suppress(FormatError):
            if SuccessData.from_bytes(key, raw).job_id == self._work.context.job:
                return
        # Where the store ignores the condition, it may be a later one that goes.
        with suppress(PreconditionFailed):
            try:
                await store.delete_matching(key, etag)
            except Unsupported:
                await store.delete([key])

    async def _missing(self, started: Mark, tasks: Iterable[Chosen], published: Published) -> list[str]:
        """Final keys of files that were not moved now, and not by an earlier call either."""
        files: list[tuple[str, int]] = []
        for chosen in tasks:
            for number in self._numbers(started):
                record = await self._work.records.read(chosen.task, chosen.attempt, number)
                if record is not None:
                    files += [(self._work.final_key(path, chosen.task), size) for path, size in record.files]
                    break
            else:
                files.append((self._aside(chosen.task, chosen.attempt), chosen.bytes))
        left = standing(files)
        for key in left:
            if len(published.keys) < SUCCESS_MARKER_FILE_LIMIT and key not in published.keys:
                published.keys.append(key)
        return await absent(self._work.engine, left.items())

    def _numbers(self, started: Mark) -> range:
        """The job attempts in which published work may lie: a successor may have moved it before it knew."""
        return range(started.attempt, max(started.attempt, self._number) + 1)

    def _aside(self, task: TaskId, attempt: AttemptId, number: int | None = None) -> str:
        return f"{self._work.layout.committed_task_directory(task, number)}/{attempt}"

    def _merge(self, directory: str) -> Merge:
        return Merge(self._work.engine, directory, overwrite="never")


def standing(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    """What is left of files that are written one after the other, by key: the last of each place.

    A file takes the place of a directory, and of everything below it, and the other way round.
    """
    left: dict[str, int] = {}
    directories: set[str] = set()
    for key, size in files:
        if key in directories:
            prefix = paths.prefix_of(key)
            left = {other: there for other, there in left.items() if not other.startswith(prefix)}
        elements = key.split("/")
        above = ["/".join(elements[:depth]) for depth in range(1, len(elements))]
        for directory in above:
            left.pop(directory, None)
        directories.update(above)
        left[key] = size
    return left
