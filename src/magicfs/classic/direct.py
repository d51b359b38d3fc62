"""The direct committer: tasks write final files, and the job commit adds ``_SUCCESS``.

What ``DirectParquetOutputCommitter`` of Spark before 2.0 did. It costs nothing and promises next to nothing:

* Files are visible while tasks write, and whatever becomes of task and job.
* Attempts of a task share their names: two that run at once replace, and by aborting delete, each other's
  files. Of an attempt that died, the files that its successor does not name again stay and are read.
* Only the process that wrote a file knows it. Nothing that other processes have left is ever deleted.

Use it for tasks that are neither retried nor speculative, or whose every attempt writes the same files.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from magicfs.classic.final_files import FinalFilesCommitter, files_of
from magicfs.classic.records import FileList
from magicfs.errors import CommitFailed, FormatError
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.guarantees import Guarantees
from magicfs.protocol.ids import AttemptId
from magicfs.report import JobReport
from magicfs.runtime.parallel import drained, raise_first
from magicfs.stores.register import found_at
from magicfs.transaction.attempt_output import delete_keys


class DirectCommitter(FinalFilesCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract, and ``guarantees`` for how little it is."""

    name = "direct"

    @property
    def guarantees(self) -> Guarantees:
        """A job commit that died can be repeated, by who has the tasks' commits.

        There is nothing atomic about a task: its files are published one by one, as they are closed.
        """
        return Guarantees(
            uncommitted_output_observable=True,
            committed_task_output_observable=True,
            repeatable_job_commit=True,
        )

    def label(self, attempt: AttemptId) -> str:
        """The task: its attempts share their names."""
        return ids.task_of_attempt(attempt)

    async def _commit(
        self, commits: Sequence[TaskCommit] | None, _: str | None, tasks: int | None
    ) -> JobReport:
        """Check that the files of the commits are there, and write ``_SUCCESS``. A second call does the same
        again.

        Raises ProtocolViolation without commits; CommitFailed if a file is gone or has another size, which
        other attempts of its task may cause, or a commit is malformed: no ``_SUCCESS`` was written, and files
        stay.
        """
        started = time.monotonic()
        lists = self.load(commits, tasks)
        await self._check_present(lists)
        published = self.published(lists, commits)
        await self.decide(self.write_success(published))
        return await self.finish(published, started)

    async def _abort_job(self, commits: Sequence[TaskCommit], _: str | None) -> None:
        """Delete the files of the commits, and those that this process knows. Others stay.

        Files of tasks that ran elsewhere and did not commit, or whose commits are not given, are not known.
        For a published job and without commits it only aborts uploads that tasks have left.
        """
        if await self.is_published():
            if commits:
                raise self.already_published()
            raise_first((await self.sweep_uploads()).problems)
            return
        keys = []
        for commit in commits:
            with suppress(FormatError):
                if commit.job_id == self.context.job:
                    keys += [self.key_of(key) for key, _ in files_of(commit).files]
        problems = await delete_keys(self.engine.for_cleanup(), keys)
        for scope in self.scopes():
            problems += await self.discard(scope)
        raise_first([*problems, *(await self.sweep_uploads()).problems])

    async def _check_present(self, lists: Sequence[FileList]) -> None:
        lost: list[str] = []

        async def look(file: tuple[str, int]) -> bool:
            key, size = file
            there = await found_at(self.engine.store, self.key_of(key))
            if there is None or there.size != size:
                lost.append(key)
            return True

        await drained((file for one in lists for file in one.files), look, self.engine.concurrency)
        if lost:
            lost.sort()
            raise CommitFailed(
                f"{len(lost)} files that tasks have committed are gone or were replaced, such as {lost[0]}; "
                "another attempt of their task may have done that; no _SUCCESS was written, and the other "
                "files stay; run the job again",
                failed=lost,
            )
