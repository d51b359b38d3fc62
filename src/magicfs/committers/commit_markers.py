"""Markers of a job commit, by which a driver that was started again learns how far its predecessor came.

They bear the names that Hadoop's application master gives them, and lie in the job's directory:

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

import asyncio
import builtins
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, cast, runtime_checkable

from magicfs.committers.file_documents import SIZE_LIMIT, fields_of
from magicfs.committers.job_record import mint, now_ms
from magicfs.errors import (
    CommitDenied,
    CommitOutcomeUnknown,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    Unavailable,
)
from magicfs.formats.document import render
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.stores.tree import Tree

__all__ = ["Asking", "Chosen", "CommitMarkers", "Mark", "Marks", "require_wanted"]

FORMAT: Final = "magicfs.commit-marker/1"
_STARTED: Final = "COMMIT_STARTED"
_SUCCESS: Final = "COMMIT_SUCCESS"
_FAIL: Final = "COMMIT_FAIL"


@runtime_checkable
class Asking(Protocol):
    """A committer that asks by itself whether its driver is still wanted.

    Attributes:
        still_wanted: Returns whether the engine still wants this driver to end the job; None asks nobody.
    """

    still_wanted: Callable[[], bool] | None


async def require_wanted(still_wanted: Callable[[], bool] | None, job: JobId) -> None:
    """Ask whether the engine still wants this driver, in a thread, since it may take a request to find out.

    Raises:
        CommitDenied: It does not, or could not be asked.
    """
    advice = "nothing was changed; the job is left to the driver that the engine has started in its place"
    if still_wanted is None:
        return
    try:
        wanted = await asyncio.to_thread(still_wanted)
    except Exception as error:
        raise CommitDenied(f"job {job}: no contact with the engine ({error!r}); {advice}") from error
    if not wanted:
        raise CommitDenied(f"job {job}: the engine does not want this driver any more; {advice}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A task attempt that is published.

    Attributes:
        task: The task.
        attempt: The attempt.
        files: How many files.
        bytes: Their size.
        renames: How many renames the task commit took.
        copied: Bytes that the store copied for them.
    """

    task: TaskId
    attempt: AttemptId
    files: int
    bytes: int
    renames: int = 0
    copied: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """What a marker says.

    Attributes:
        job: The job.
        action: What was begun.
        driver: Token of the driver that began it.
        attempt: Number of its job attempt.
        nonce: Tells this write from all others.
        tasks: What is published, in order of tasks.
        files: How many files.
        bytes: Their size.
        replaced: How many of the files others of the job replace, which have the same names.
        reason: Why it failed; empty otherwise.
        written_ms: When, in milliseconds since the epoch.
        host: Where.
    """

    job: JobId
    action: Literal["commit", "abort"]
    driver: str
    attempt: int
    nonce: str
    tasks: tuple[Chosen, ...] = ()
    files: int = 0
    bytes: int = 0
    replaced: int = 0
    reason: str = ""
    written_ms: int = 0
    host: str = ""

    @classmethod
    def new(
        cls,
        job: JobId,
        action: Literal["commit", "abort"],
        driver: str,
        attempt: int,
        tasks: Iterable[Chosen] = (),
        replaced: int = 0,
    ) -> Mark:
        """What is begun here and now."""
        chosen = tuple(sorted(tasks, key=lambda one: one.task))
        return cls(
            job=job,
            action=action,
            driver=driver,
            attempt=attempt,
            nonce=mint(),
            tasks=chosen,
            files=sum(one.files for one in chosen),
            bytes=sum(one.bytes for one in chosen),
            replaced=replaced,
            written_ms=now_ms(),
            host=socket.gethostname(),
        )

    @classmethod
    def from_bytes(cls, path: str, raw: builtins.bytes, job: JobId) -> Mark:
        """Read one.

        Raises:
            FormatError: It cannot be believed, or is another job's.
        """
        fields = fields_of(path, raw, FORMAT, job)
        if (action := fields.required_text("action")) not in ("commit", "abort"):
            raise fields.error("action", "is neither commit nor abort")
        return cls(
            job=job,
            action=cast("Literal['commit', 'abort']", action),
            driver=fields.required_text("driver"),
            attempt=fields.required_integer("attempt", minimum=0),
            nonce=fields.required_text("nonce"),
            tasks=tuple(
                Chosen(
                    TaskId(one.required_text("taskId")),
                    AttemptId(one.required_text("attemptId")),
                    one.required_integer("files", minimum=0),
                    one.required_integer("bytes", minimum=0),
                    one.integer("renames", minimum=0),
                    one.integer("bytesCopied", minimum=0),
                )
                for one in fields.objects("tasks")
            ),
            files=fields.required_integer("files", minimum=0),
            bytes=fields.required_integer("bytes", minimum=0),
            replaced=fields.integer("replaced", minimum=0),
            reason=fields.text("reason"),
            written_ms=fields.integer("writtenMs"),
            host=fields.text("host"),
        )

    def to_bytes(self) -> builtins.bytes:
        """One line of JSON."""
        return render(
            {
                "format": FORMAT,
                "jobId": self.job,
                "action": self.action,
                "driver": self.driver,
                "attempt": self.attempt,
                "nonce": self.nonce,
                "files": self.files,
                "bytes": self.bytes,
                "replaced": self.replaced,
                "reason": self.reason,
                "writtenMs": self.written_ms,
                "host": self.host,
                "tasks": [
                    {
                        "taskId": one.task,
                        "attemptId": one.attempt,
                        "files": one.files,
                        "bytes": one.bytes,
                        "renames": one.renames,
                        "bytesCopied": one.copied,
                    }
                    for one in self.tasks
                ],
            }
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The markers that are there.

    Attributes:
        started: ``COMMIT_STARTED``.
        success: ``COMMIT_SUCCESS``.
        failed: ``COMMIT_FAIL``.
    """

    started: Mark | None = None
    success: Mark | None = None
    failed: Mark | None = None


class CommitMarkers:
    """The markers of one job.

    Args:
        tree: The tree of its bucket.
        job: The job.
        directory: Where they lie.
    """

    def __init__(self, tree: Tree, job: JobId, directory: str) -> None:
        self._tree = tree
        self._job = job
        self._directory = directory

    def key(self, name: Literal["COMMIT_STARTED", "COMMIT_SUCCESS", "COMMIT_FAIL"]) -> str:
        """Where a marker lies."""
        return f"{self._directory}/{name}"

    async def read(self) -> Marks:
        """Look at all three.

        Raises:
            FormatError: One of them cannot be believed.
        """
        # In this order: what begins and ends between two of the looks is seen to have ended.
        started = await self._read(_STARTED)
        success = await self._read(_SUCCESS)
        return Marks(started, success, await self._read(_FAIL))

    async def start(self, mark: Mark) -> Mark:
        """Begin, unless somebody has; returns what ``COMMIT_STARTED`` says then.

        Raises:
            CommitOutcomeUnknown: The store did not say whether the marker was written.
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

    async def _read(self, name: Literal["COMMIT_STARTED", "COMMIT_SUCCESS", "COMMIT_FAIL"]) -> Mark | None:
        key = self.key(name)
        try:
            raw = await self._tree.read(key, size_max=SIZE_LIMIT + 1)
        except ObjectNotFound:
            return None
        return Mark.from_bytes(f"{self._tree.bucket}/{key}", raw, self._job)
