"""Drivers that die on the way, are denied a request, or are overtaken: on any store, by wrapping it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from fsspec.asyn import sync

from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.engine import Engine
from magicfs.errors import PermissionDenied
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.paths import is_visible
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind, Request

__all__ = ["Denying", "Overtaken", "driver_on", "dying", "dying_task"]

_T = TypeVar("_T")


def _is_same(operation: str, wanted: str) -> bool:
    """Whether an operation is the wanted one; ``complete_upload`` stands for a rename, too."""
    return operation == wanted or (wanted == "complete_upload" and operation in {"rename", "copy"})


class Denying(DelegatingStore):
    """A store whose policy denies one operation.

    Args:
        inner: The store.
        denied: The port's name of the operation.
    """

    def __init__(self, inner: Store, denied: str) -> None:
        super().__init__(inner)
        self.denied = denied

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        if operation == self.denied:
            raise PermissionDenied(operation, f"{self.bucket}/{key}", "403 AccessDenied, as the test wants")
        return await super()._around(operation, key, request)


class Overtaken(DelegatingStore):
    """A store on which somebody else does something right after the first request of one operation.

    Args:
        inner: The store.
        operation: The port's name of it; ``complete_upload`` stands for a rename, too.
        deed: What is done, once.
        inside: A text that the key must hold.
    """

    def __init__(
        self, inner: Store, operation: str, deed: Callable[[Store], Awaitable[None]], inside: str = ""
    ) -> None:
        super().__init__(inner)
        self.operation = operation
        self.inside = inside
        self._deed: Callable[[Store], Awaitable[None]] | None = deed

    @property
    def done(self) -> bool:
        """Whether it was done."""
        return self._deed is None

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        result = await super()._around(operation, key, request)
        if _is_same(operation, self.operation) and self.inside in key and self._deed is not None:
            deed, self._deed = self._deed, None
            await deed(self.inner)
        return result


def driver_on(job: Job, store: Store, concurrency: int | None = None) -> Committer:
    """A job's committer, by way of another store."""
    spec = job.spec
    return registry.make(spec.options.committer, spec.context, Engine(store, concurrency or spec.concurrency))


def dying(job: Job, commits: Sequence[TaskCommit] | None, operation: str, after: int, key: str = "") -> None:
    """Commit a job by a driver that is killed.

    Args:
        job: The job, which is set up.
        commits: As for ``Job.commit``.
        operation: It dies of one of these, by the port's name of it; ``complete_upload`` stands for all that
            makes a file visible.
        after: How many of these succeed; it dies before the next is sent.
        key: Beginning of the keys that count.
    """
    _die(job, operation, after, key, lambda driver: driver.commit_job(commits, job.found.driver))


def dying_task(job: Job, task: Task, operation: str, after: int) -> None:
    """Commit a task by a process that is killed.

    Args:
        job: The job.
        task: Its task, which is set up.
        operation: As for ``dying``.
        after: As for ``dying``.
    """
    _die(job, operation, after, "", lambda worker: worker.commit_task(task.id, task.attempt_id))


class _OfVisible(Fault):
    """A fault of what makes a file visible: a complete, a rename, or the put of a small file."""

    def matches(self, request: Request) -> bool:
        puts_file = request.operation == "put" and is_visible(request.key, "")
        renames_file = request.operation in {"rename", "copy"} and is_visible(request.target, "")
        return request.operation == "complete_upload" or puts_file or renames_file


def _die(
    job: Job, operation: str, after: int, key: str, call: Callable[[Committer], Awaitable[object]]
) -> None:
    kind = _OfVisible if operation == "complete_upload" else Fault
    fault = kind(Kind.CRASH_BEFORE, operation=operation, skip=after, prefix=key)
    committer = driver_on(job, faulty(job.spec.store(), Traffic([fault]), Actor("driver")), 1)

    async def commit() -> bool:
        try:
            await call(committer)
        except Crash:
            return True
        return False

    assert sync(job.spec.loop, commit), f"it did not live to see {operation} number {after + 1}"
