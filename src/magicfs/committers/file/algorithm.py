"""What the two algorithms of the file committer have in common: what is asked of them, what they work with.

They differ in what a task commit moves, and what is left for the job commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from magicfs.committers.classic import Published
from magicfs.committers.file import markers
from magicfs.committers.file.markers import CommitMarkers, MarkerName, Marks
from magicfs.committers.file.merge import Merge, Overwrite, walk
from magicfs.committers.file.records import Records
from magicfs.committers.options import FileOptions
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, ObjectNotFound, PermissionDenied, StoreError, Unavailable
from magicfs.formats.commit_marker import Chosen, Mark
from magicfs.formats.file_job import JobFile
from magicfs.formats.file_task import TaskRecord
from magicfs.formats.task_commit import TaskCommit
from magicfs.parallel import drained
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.layout import SUCCESS
from magicfs.protocol.winners import KeyCheck
from magicfs.stores.object_tree import tree_of
from magicfs.stores.tree_port import Entry
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import now_ms

__all__ = ["Algorithm", "FileWork", "absent", "chosen_of"]


class Algorithm(Protocol):
    """One of the two."""

    @property
    def guarantees(self) -> Guarantees:
        """See ``Committer.guarantees``."""

    @property
    def is_task_commit_repeatable(self) -> bool:
        """See ``Committer.is_task_commit_repeatable``."""

    async def commit_task(self, task: TaskId, attempt: AttemptId) -> TaskRecord:
        """Commit what an attempt wrote. A second call for the same attempt goes on, or returns the same."""

    async def tasks(self) -> list[TaskId]:
        """The tasks of which an attempt has committed."""

    async def choose(self, commits: Sequence[TaskCommit] | None) -> tuple[list[Chosen], int]:
        """The attempts to publish, given or listed, and how many of their files others replace. Raises
        CommitFailed if they cannot be published; nothing was changed.
        """

    async def publish(self, started: Mark, published: Published) -> list[str]:
        """Make the attempts that ``started`` names visible; returns final keys of files that are nowhere. A
        second call does the rest. Raises CommitOutcomeUnknown if it stopped half-way; nothing was removed.
        """

    async def recover(self) -> list[Chosen]:
        """Take over what earlier job attempts have committed. A second call returns the same. Raises
        CommitFailed if it cannot be used.
        """

    async def visible_files(self) -> int:
        """How many files of the job are visible before its commit."""


class FileWork:
    """What the committer and both algorithms work with.

    ``final_key`` gives the key of a file that a task wrote under a relative path.
    """

    def __init__(self, context: JobContext, engine: Engine, final_key: Callable[[str, TaskId], str]) -> None:
        self.context = context
        self.engine = engine
        self.final_key = final_key
        options = context.options if isinstance(context.options, FileOptions) else FileOptions()
        self.algorithm = options.algorithm
        self.deletes_obstacles = options.delete_obstacles
        self.layout = context.temporary
        self.tree = tree_of(engine.store)
        self.records = Records(self.tree, engine, self.layout)
        self.markers = CommitMarkers(self.tree, context.job, self.layout.job_directory)

    async def look(self) -> tuple[Marks, JobFile | None, bool]:
        """The markers, how the job was begun (None if it has ended), and whether it is published."""
        marks, job = await self.markers.read(), await self.records.job()
        published = marks.success is not None or (job is None and await self.records.is_published())
        return marks, job, published

    async def require_driver(self, driver: str | None) -> None:
        """Refuse a driver whose job has ended, or was taken over meanwhile."""
        job = await self.records.job()
        if job is None:
            raise markers.ended(self.context)
        markers.require_driver(job, driver, self.context.layout.attempt)

    async def start(self, mark: Mark) -> Mark:
        """Write ``COMMIT_STARTED`` into a job that has not ended meanwhile; returns what it says then. Raises
        CommitDenied if the job has ended, or a later attempt has taken it over, which carries on.
        """
        found = await self.markers.start(mark)
        if found.nonce == mark.nonce:
            try:
                job = await self.records.job()
            except StoreError as error:
                raise self.markers.unknown(error) from error
            if job is None:
                await self.tree.delete(self.markers.key("COMMIT_STARTED"))
                await self.prune()
                raise markers.ended(self.context)
            markers.require_driver(job, None, mark.attempt)
        return found

    def naming(self, task: TaskId) -> Callable[[str], str]:
        """What gives a file of a task its final key."""
        return lambda relative: self.final_key(relative, task)

    async def written(self, task: TaskId, attempt: AttemptId) -> tuple[tuple[str, int], ...]:
        """Relative path and size of every file that an attempt has written and not moved yet. Raises
        CommitFailed for a name that is kept for committers, or that no path can have.
        """
        directory = self.layout.task_attempt_directory(attempt)
        found = tuple([one async for one in walk(self.engine.store, directory) if one[0] != SUCCESS])
        for relative, _ in found:
            if is_reserved(relative) or not all(relative.split("/")):
                why = "is kept for committers" if is_reserved(relative) else "has an empty element"
                raise CommitFailed(
                    f"task {task}, {attempt} wrote {relative!r}, a name that {why}; nothing was committed; "
                    "write the file under another name",
                    failed=[f"{directory}/{relative}"],
                )
        finals: dict[str, str] = {}
        for relative, _ in found:
            if (other := finals.setdefault(self.final_key(relative, task), relative)) != relative:
                raise CommitFailed(
                    f"task {task}, {attempt}: {relative!r} and {other!r} have one final name; nothing was "
                    "committed; write one of them under another name",
                    failed=[f"{directory}/{relative}"],
                )
        return found

    async def own_files(self) -> set[str]:
        """Final keys of the files of task commits that have begun, which may be visible: with algorithm 2."""
        found: set[str] = set()

        def visit(claim: TaskRecord) -> None:
            found.update(self.final_key(relative, claim.task) for relative, _ in claim.files)

        await self.records.visit_claims(visit)
        return found

    def merge_into_destination(self) -> Merge:
        """What moves files of tasks to where they are visible; ``Obstacles`` has looked there before."""
        if not self.context.unique_names:
            how: Overwrite = "always"  # one task's files may take the place of another's
        else:
            how = "files" if self.deletes_obstacles else "refuse"
        return Merge(self.engine, self.layout.destination, overwrite=how)

    def names(self) -> NameCheck:
        """What looks at the final names of all files of the job."""
        return NameCheck(self)

    def record(
        self, task: TaskId, attempt: AttemptId, files: Iterable[tuple[str, int]], merge: Merge | None = None
    ) -> TaskRecord:
        """What an attempt commits in this job attempt."""
        return TaskRecord(
            self.context.job,
            task,
            attempt,
            tuple(files),
            now_ms(),
            number=self.context.layout.attempt,
            renames=merge.renames if merge is not None else 0,
            copied=merge.copied if merge is not None else 0,
        )

    # -- removing it ---------------------------------------------------------------------------------------

    async def clean(self, last: MarkerName) -> None:
        """Remove the job's directory, and nothing else. A second call does the rest. The job's file goes
        first, so that attempts that nobody waits for do not commit any more; the marker that says how the job
        has ended goes last.
        """
        tree, directory, marker = self.tree, self.layout.job_directory, self.markers.key(last)

        async def remove(entry: Entry) -> bool:
            await tree.delete_tree(entry.path)
            return True

        await tree.delete(self.records.job_key)
        with suppress(ObjectNotFound):
            found = [one async for one in tree.entries(directory) if one.path != marker]
            await drained(found, remove, self.engine.concurrency)
        await tree.delete(marker)
        # What has been written meanwhile.
        await tree.delete_tree(directory)
        await self.prune()

    async def clean_published(self) -> list[str]:
        """Remove the work of the published job; returns a warning if that fails."""
        try:
            await self.clean("COMMIT_SUCCESS")
        except StoreError as error:
            return [f"the job is published, and its work could not be removed whole: {error}"]
        return []

    async def prune(self) -> None:
        """Remove the directories above the job's work that are empty; those of other jobs stay."""
        layout = self.layout
        above = [layout.tasks_directory, layout.attempt_directory(), layout.job_directory, layout.temporary]
        for directory in above:
            try:
                await self.tree.delete(directory)
            except (PermissionDenied, Unavailable):
                raise
            except StoreError:
                return  # it is not empty


@dataclass(slots=True)
class NameCheck:
    """Looks at the final names of a job, record by record."""

    _work: FileWork
    # Files whose place another task's file takes, as in Hadoop; only with ``unique_names=False``.
    replaced: int = 0
    _files: int = 0
    _seen: set[bytes] = field(default_factory=set)
    _check: KeyCheck = field(init=False)

    def __post_init__(self) -> None:
        context = self._work.context
        self._check = KeyCheck(self._work.engine.store.bucket, context.layout.destination)

    def add(self, record: TaskRecord) -> None:
        """Look at one more task; a second file of one name raises CommitFailed with ``unique_names=True``."""
        bucket, unique = self._work.engine.store.bucket, self._work.context.unique_names
        for relative, _ in record.files:
            key = self._work.final_key(relative, record.task)
            if unique:
                self._check.add(bucket, key, record.attempt)
            else:
                self._seen.add(blake2b(key.encode(), digest_size=16).digest())
        if not unique:
            self._files += len(record.files)
            self.replaced = self._files - len(self._seen)


def chosen_of(record: TaskRecord) -> Chosen:
    """A committed attempt, as one to be published."""
    return Chosen(record.task, record.attempt, len(record.files), record.size, record.renames, record.copied)


async def absent(engine: Engine, files: Iterable[tuple[str, int]]) -> list[str]:
    """The keys among the given ones at which there is no file of the given size."""
    found: list[str] = []

    async def one(file: tuple[str, int]) -> bool:
        key, size = file
        try:
            if (await engine.store.head(key)).size != size:
                found.append(key)
        except ObjectNotFound:
            found.append(key)
        return True

    await drained(files, one, engine.concurrency)
    return sorted(found)
