"""Who may end a job of the file committer: the markers of its commit, and what they allow.

By the markers a driver that was started again learns how far its predecessor came. They have the names that
Hadoop's application master gives them, and lie in the job's directory:

* ``COMMIT_STARTED`` is written before the first file is published, only where none is: of several drivers at
  once exactly one gets it. It names the attempts that are published, so that whoever carries on publishes
  the same. An abort takes it, too, so that no commit begins while the job is being removed.
* ``COMMIT_SUCCESS`` is written when everything is published.
* ``COMMIT_FAIL`` is written by the one who holds ``COMMIT_STARTED``, and by nobody else, when the job can
  never be published as a whole.

Hadoop asks for recent contact with the engine after it has written ``COMMIT_STARTED``, so that a driver that
was cut off stops everybody else; and the loser of two writes ``COMMIT_FAIL``, which fails the winner's job.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from magicfs.errors import (
    CommitDenied,
    CommitOutcomeUnknown,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.formats.commit_marker import COMMIT_MARKER_SIZE_LIMIT, Chosen, Mark
from magicfs.formats.file_job import JobFile
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.ids import JobId
from magicfs.stores.tree_port import Tree
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import new_token, now_ms

__all__ = [
    "CommitMarkers",
    "MarkerName",
    "Marks",
    "ended",
    "new_mark",
    "require_driver",
    "require_heir",
    "require_not_given_up",
    "require_not_over",
    "require_same_way",
    "same_tasks",
]

MarkerName = Literal["COMMIT_STARTED", "COMMIT_SUCCESS", "COMMIT_FAIL"]

_STARTED: Final = "COMMIT_STARTED"
_SUCCESS: Final = "COMMIT_SUCCESS"
_FAIL: Final = "COMMIT_FAIL"


@dataclass(frozen=True, slots=True)
class Marks:
    """The markers that are there."""

    started: Mark | None = None
    success: Mark | None = None
    failed: Mark | None = None


class CommitMarkers:
    """The markers of one job."""

    def __init__(self, tree: Tree, job: JobId, directory: str) -> None:
        self._tree = tree
        self._job = job
        self._directory = directory

    def key(self, name: MarkerName) -> str:
        """Where a marker lies."""
        return f"{self._directory}/{name}"

    async def read(self) -> Marks:
        """Look at all three. Raises FormatError if one is malformed."""
        # In this order: what begins and ends between two of the looks is seen to have ended.
        started = await self._read(_STARTED)
        success = await self._read(_SUCCESS)
        return Marks(started, success, await self._read(_FAIL))

    async def start(self, mark: Mark) -> Mark:
        """Begin, unless somebody has; returns what ``COMMIT_STARTED`` says then. Raises CommitOutcomeUnknown
        if the store did not say whether the marker was written.
        """
        try:
            await self._tree.write(self.key(_STARTED), mark.to_bytes(), if_absent=True)
        except (ObjectExists, Unavailable) as error:
            try:
                # Perhaps refused by our own write, whose answer was lost.
                found = await self._read(_STARTED)
            except StoreError as second:
                raise self.unknown(second) from error
            if found is not None:
                return found
            if isinstance(error, ObjectExists):
                raise CommitDenied(
                    f"job {self._job} was ended by another driver at this moment; nothing was changed here"
                ) from error
            raise self.unknown(error) from error
        return mark

    def unknown(self, error: StoreError) -> CommitOutcomeUnknown:
        """What to raise when it is not known whether the job has begun to end."""
        return CommitOutcomeUnknown(
            f"job {self._job}: the store did not say whether {self.key(_STARTED)} was written, or what "
            f"became of the job since; nothing of the job was moved or removed; call again: {error}"
        )

    async def succeed(self, started: Mark) -> None:
        """Say that everything is published. A second call does the same again."""
        body = replace(started, tasks=(), written_ms=now_ms()).to_bytes()
        await self._tree.write(self.key(_SUCCESS), body)

    async def fail(self, started: Mark, reason: str) -> None:
        """Say that the job can never be published; only for the one who holds ``COMMIT_STARTED``."""
        body = replace(started, tasks=(), reason=reason, written_ms=now_ms()).to_bytes()
        await self._tree.write(self.key(_FAIL), body)

    async def _read(self, name: MarkerName) -> Mark | None:
        key = self.key(name)
        try:
            raw = await self._tree.read(key, size_max=COMMIT_MARKER_SIZE_LIMIT + 1)
        except ObjectNotFound:
            return None
        return Mark.from_bytes(f"{self._tree.bucket}/{key}", raw, self._job)


def new_mark(
    job: JobId,
    action: Literal["commit", "abort"],
    driver: str,
    attempt: int,
    tasks: Iterable[Chosen] = (),
    replaced: int = 0,
) -> Mark:
    """What is begun here and now."""
    chosen = tuple(sorted(tasks, key=lambda one: one.task))
    return Mark(
        job=job,
        action=action,
        driver=driver,
        attempt=attempt,
        nonce=new_token(),
        tasks=chosen,
        files=sum(one.files for one in chosen),
        bytes=sum(one.bytes for one in chosen),
        replaced=replaced,
        written_ms=now_ms(),
        host=socket.gethostname(),
    )


def ended(context: JobContext) -> CommitDenied:
    """What to raise when there is no job of that id."""
    return CommitDenied(
        f"job {context.job} has ended, or was never set up; nothing was changed; use another job id"
    )


def require_driver(job: JobFile, driver: str | None, attempt: int) -> None:
    """Raise CommitDenied unless the driver is the newest; None stands for whoever set the attempt up."""
    if job.attempt > attempt or driver not in (None, job.driver):
        raise CommitDenied(
            f"job {job.job} was taken over by attempt {job.attempt} on {job.host}; nothing was changed here; "
            "leave the job to it"
        )


def require_same_way(job: JobFile, context: JobContext, algorithm: int) -> None:
    """Raise UsageError if the job was begun with another algorithm, or another choice of ``unique_names``."""
    if (job.algorithm, job.unique_names) != (algorithm, context.unique_names):
        raise UsageError(
            f"job {job.job} was begun with algorithm={job.algorithm} and unique_names={job.unique_names}; go "
            "on with these, or use another job id"
        )


def require_not_given_up(marks: Marks) -> None:
    """Raise CommitDenied for a job that was aborted, or can never be published."""
    mark = marks.failed or marks.started
    if mark is not None and (marks.failed is not None or mark.action == "abort"):
        why = f" ({mark.reason})" if mark.reason else ""
        raise CommitDenied(
            f"job {mark.job} was given up on {mark.host}{why}; nothing was changed now; abort "
            "it, and run it again under another job id"
        )


def require_not_over(job: JobFile, marks: Marks, context: JobContext, algorithm: int) -> None:
    """Raise CommitDenied if the job is a later attempt's, or its commit has begun and that driver may be
    alive; UsageError if the job was begun in another way.
    """
    attempt = context.layout.attempt
    require_same_way(job, context, algorithm)
    if job.attempt > attempt:
        raise CommitDenied(
            f"attempt {job.attempt} of job {job.job} has taken it over from attempt {attempt}; nothing was "
            "changed; leave the job to it"
        )
    require_not_given_up(marks)
    if marks.started is not None and marks.started.attempt >= attempt:
        raise CommitDenied(
            f"the commit of job {job.job} began in attempt {marks.started.attempt} on {marks.started.host}; "
            "nothing was changed; if that driver is dead, use a greater attempt"
        )


def require_heir(started: Mark, job: JobFile, driver: str | None, attempt: int) -> None:
    """Raise CommitDenied if another driver began the job commit and may be alive. A greater number of the job
    attempt means that it is dead: the engine has started this driver in its place.
    """
    if started.attempt < attempt:
        require_driver(job, driver, attempt)
    elif job.attempt > attempt or driver not in (None, started.driver):
        raise CommitDenied(
            f"the commit of job {job.job} was begun by another driver, on {started.host}; nothing was "
            "changed here; leave the job to it, or if it is dead use a greater attempt"
        )


def same_tasks(started: Mark, commits: Sequence[TaskCommit] | None) -> list[str]:
    """Compare what the job commit that began is publishing with what its next driver was given. Returns a
    warning if other attempts of the same tasks are published; raises CommitDenied if other tasks are.
    """
    if commits is None:
        return []
    given = {one.task_id: one.attempt_id for one in commits}
    begun = {one.task: one.attempt for one in started.tasks}
    if strange := sorted(set(given) ^ set(begun)):
        raise CommitDenied(
            f"the commit of job {started.job} began with other tasks ({len(begun)} of them; {strange[0]} is "
            "one that differs); nothing was changed now; commit what recover_tasks() returns"
        )
    others = sorted(task for task in given if given[task] != begun[task])
    if not others:
        return []
    told = (
        f"attempt {started.attempt} of the job had begun to commit other attempts of {len(others)} tasks, "
        f"such as {begun[others[0]]}, and these were published; the given ones were discarded"
    )
    return [told]
