"""What the committers share whose tasks write at the destination at once: direct and stocator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from magicfs.classic.base import ClassicCommitter, Published
from magicfs.classic.records import FileList
from magicfs.classic.tracking import Scope, Written, final_tracker
from magicfs.engine import Engine
from magicfs.errors import (
    CommitFailed,
    FormatError,
    MagicError,
    ObjectNotFound,
    ProtocolViolation,
    UsageError,
)
from magicfs.formats.statistics import ROWS, Statistics
from magicfs.formats.task_commit import Counters, TaskCommit, pack, unpack
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.winners import KeyCheck
from magicfs.report import JobReport
from magicfs.runtime.parallel import drained, raise_first
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import JobContext


class FinalFilesCommitter(ClassicCommitter):
    """Base of the committers whose tasks write final files through ``FinalFileSystem``.

    Only the process that ran a task attempt knows what it wrote, until it returns its ``TaskCommit``. Nothing
    is stored next to the files, so no listing shows what tasks have committed. Raises UsageError for
    ``unique_names=False``: files of equal names would replace each other before any commit.
    """

    def __init__(self, context: JobContext, engine: Engine) -> None:
        super().__init__(context, engine)
        if not context.options.unique_names:
            raise UsageError(
                f"committer={self.name!r} needs unique_names=True: its tasks write at the destination at "
                "once, and files of equal names would replace each other before any commit"
            )

    def label(self, attempt: AttemptId) -> str:
        """What stands before the job in the names of an attempt's files."""
        return attempt

    # -- tasks -----------------------------------------------------------------------------------------

    async def needs_task_commit(self, attempt: AttemptId) -> bool:
        """Whether this process wrote anything for an attempt; others' files are not looked for."""
        return bool(final_tracker().snapshot(self.scope(attempt)))

    async def commit_task(
        self, task: TaskId, attempt: AttemptId, counters: Counters | None = None
    ) -> TaskCommit:
        """Look at every file that this process wrote for the attempt, and return their names and sizes.

        The files are visible already; nothing is stored. A second call returns an empty commit, for the first
        has forgotten the files: engines must not ask twice. Raises CommitFailed if a file is still open,
        failed to be written, or is gone; the others were deleted. After StoreError they were deleted as far
        as possible.
        """
        scope = self.scope(attempt)
        try:
            files = await self._look(task, final_tracker().snapshot(scope))
            one = FileList(self.context.job, task, attempt, files)
            content = pack(self._rendered(one))
        except MagicError as error:
            try:
                await self.abort_task(attempt)
            except MagicError as second:
                error.add_note(f"and attempt {attempt} could not be fully aborted: {second}")
            raise
        final_tracker().take(scope)
        return TaskCommit(
            self.context.job, task, attempt, len(files), one.size, None, content, (counters or {}).get(ROWS)
        )

    async def abort_task(self, attempt: AttemptId) -> None:
        """Delete what this process wrote for an attempt. Files still open can no longer be published."""
        raise_first(await self.discard(self.scope(attempt)))

    # -- jobs ------------------------------------------------------------------------------------------

    async def committed_tasks(self) -> list[TaskId]:
        """None: nothing in the store shows what tasks have committed."""
        return []

    def load(self, commits: Sequence[TaskCommit] | None, tasks: int | None) -> list[FileList]:
        """The file lists of commits, in the order of their tasks. Raises ProtocolViolation if none are given
        or they do not belong together; CommitFailed if one is malformed, or two tasks wrote one file.
        """
        if commits is None:
            raise ProtocolViolation(
                f"with committer={self.name!r} a listing cannot show what tasks committed; pass their "
                "TaskCommits to job.commit"
            )
        self.check_commits(commits, tasks)
        keys = KeyCheck(self.engine.store.bucket, self.context.layout.destination)
        lists = []
        for commit in sorted(commits, key=lambda one: one.task_id):
            try:
                lists.append(one := files_of(commit))
            except FormatError as error:
                raise CommitFailed(
                    f"a commit is malformed or inconsistent: {error}; no _SUCCESS was written; run its task "
                    "again"
                ) from error
            places = [(self.engine.store.bucket, self.key_of(key)) for key, _ in one.files]
            keys.add(places, f"task {one.task_id}")
        files = ((one.task_id, key) for one in lists for key, _ in one.files)
        keys.finish(lambda: ((f"task {task}", self.key_of(key)) for task, key in files))
        return lists

    def published(self, lists: Sequence[FileList], commits: Sequence[TaskCommit] | None) -> Published:
        """What a job commit makes of its tasks' files."""
        published = Published(tasks=len(lists))
        for one in lists:
            for key, size in one.files:
                published.add(self.key_of(key), size)
        counters = {
            "committer_bytes_committed": published.bytes,
            "committer_commits_completed": published.files,
            "committer_jobs_completed": 1,
            "committer_tasks_completed": published.tasks,
        }
        rows = [one.rows for one in commits or () if one.rows is not None]
        published.statistics = Statistics(counters=counters | ({ROWS: sum(rows)} if rows else {}))
        return published

    async def finish(self, published: Published, started: float) -> JobReport:
        report = await super().finish(published, started)
        for scope in self.scopes():
            final_tracker().take(scope)
        return report

    # -- places ----------------------------------------------------------------------------------------

    @property
    def root(self) -> str:
        """``bucket/key`` of the destination, as ``FinalFileSystem`` has it."""
        return paths.Location("", self.engine.store.bucket, self.context.layout.destination).path

    def scope(self, attempt: AttemptId) -> Scope:
        """The files of an attempt in this process."""
        return Scope(self.engine.store.identity, self.root, self.context.job, self.label(attempt))

    def scopes(self) -> list[Scope]:
        """The files of all attempts in this process."""
        return final_tracker().scopes_of(self.engine.store.identity, self.root, self.context.job)

    def key_of(self, relative: str) -> str:
        """The key of a file by its name below the destination."""
        return paths.join(self.context.layout.destination, relative)

    async def discard(self, scope: Scope) -> list[MagicError]:
        """Delete what this process wrote; what could not be deleted is remembered."""
        written = final_tracker().take(scope)
        names = sorted(written.finished | written.doubtful)
        keys = [self.key_of(paths.relative_to(name, self.root)) for name in names]
        problems = await delete_keys(self.engine.for_cleanup(), keys)
        if problems:
            final_tracker().doubtful(scope, names)
        return problems

    async def _look(self, task: TaskId, written: Written) -> tuple[tuple[str, int], ...]:
        wrong: dict[str, Iterable[str]] = {
            "is still open; close every file before the task commits": written.open.values(),
            "could not be written": written.doubtful,
            "was opened and never closed, and was discarded when Python collected it": written.dropped,
        }
        problems: list[MagicError] = [
            UsageError(f"{name} {what}") for what, names in wrong.items() for name in sorted(names)
        ]
        found: dict[str, int] = {}

        async def one(name: str) -> bool:
            relative = paths.relative_to(name, self.root)
            try:
                found[relative] = (await self.engine.store.head(self.key_of(relative))).size
            except ObjectNotFound as error:
                problems.append(error)
            return True

        await drained(sorted(written.finished), one, self.engine.concurrency)
        if problems:
            first, *others = problems
            error = CommitFailed(
                f"task {task} was not committed, and its files were deleted: {first}",
                failed=[paths.relative_to(name, self.root) for name in sorted(written.doubtful)],
            )
            for other in others:
                error.add_note(f"and: {other}")
            raise error from first
        return tuple(sorted(found.items()))

    def _rendered(self, one: FileList) -> bytes:
        try:
            return one.to_bytes()
        except UsageError as error:
            raise CommitFailed(
                f"task {one.task_id} was not committed, and its files were deleted: {error}"
            ) from error


def files_of(commit: TaskCommit) -> FileList:
    """The list of an attempt's files in its commit; raises FormatError if it is malformed."""
    name = f"commit of task {commit.task_id}"
    if commit.content is None:
        raise FormatError(name, "content", "missing: another committer made it")
    one = FileList.from_bytes(name, unpack(name, commit.content))
    if (one.job_id, one.task_id, one.attempt_id) != (commit.job_id, commit.task_id, commit.attempt_id):
        raise FormatError(name, "content", f"is of attempt {one.attempt_id} of job {one.job_id}")
    return one
