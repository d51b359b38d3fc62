"""Jobs whose tasks write at the destination at once, in memory or on this machine: for tests.

Several processes are played in one: ``another_process`` forgets what this one knows.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from fsspec.asyn import get_loop, sync
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from magicfs.committers import registry
from magicfs.committers.base import Committer, Conflict, JobContext
from magicfs.engine import Engine
from magicfs.final_files import FinalFileSystem
from magicfs.final_tracking import final_tracker
from magicfs.formats.success import SuccessData
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.layout import WorkLayout
from magicfs.report import JobReport
from magicfs.stores.local import LocalStore
from magicfs.stores.memory import MemoryStore, World
from magicfs.stores.memory_filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.task_commit import TaskCommit
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault

__all__ = ["FinalAttempt", "FinalJob", "FinalScene", "another_process"]

_T = TypeVar("_T")


def another_process() -> None:
    """What follows happens in a process that has written nothing."""
    final_tracker().clear()


class FinalScene:
    """A destination, and what lies there.

    Args:
        committer: Name of the committer.
        directory: Where the destination lies on this machine; None for a bucket in memory.
    """

    def __init__(self, committer: str, directory: Path | None = None) -> None:
        self.committer = committer
        self.filesystem: AbstractFileSystem
        self.store: Store
        if directory is None:
            self.filesystem = MemoryFileSystem(world=World())
            self.filesystem.world.create_bucket("bucket")
            self.store = MemoryStore("bucket", self.filesystem.world)
            self.location = paths.Location("memory", "bucket", "sales")
        else:
            self.filesystem = LocalFileSystem()
            self.store = LocalStore("")
            self.location = paths.parse_url(f"file://{directory}/sales")

    def run(self, work: Callable[..., Coroutine[Any, Any, _T]], *args: Any) -> _T:
        """Call a coroutine on the loop of the store.

        Raises:
            Crash: The process died of it; what it still tries does not reach the store.
        """
        crashes: list[Crash] = []

        async def process() -> Any:
            try:
                return await work(*args)
            except Crash as crash:  # which would end the loop's task without a word
                crashes.append(crash)

        result: _T = sync(get_loop(), process)
        for crash in crashes:
            raise crash
        return result

    def put(self, name: str, body: bytes = b"old\n") -> None:
        """Write a file below the destination, past every protocol."""
        self.run(self.store.put, paths.join(self.location.key, name), body)

    def files(self) -> dict[str, bytes]:
        """Every file below the destination, by its name there."""

        async def read() -> dict[str, bytes]:
            prefix = paths.prefix_of(self.location.key)
            keys = [info.key async for info in self.store.list(prefix)]
            return {key[len(prefix) :]: await self.store.get(key) for key in keys}

        return self.run(read)

    def data(self) -> dict[str, bytes]:
        """What a reader who lists the destination takes for data."""
        return {name: body for name, body in self.files().items() if paths.is_visible(f"d/{name}", "d")}

    def bodies(self) -> list[bytes]:
        """The contents of that, sorted."""
        return sorted(self.data().values())

    def success(self) -> SuccessData | None:
        """What ``_SUCCESS`` says; None if there is none."""
        raw = self.files().get("_SUCCESS")
        return None if raw is None else SuccessData.from_bytes("_SUCCESS", raw)

    def job(self, conflict: Conflict = "append", job_id: str = "", *, unique_names: bool = True) -> FinalJob:
        """A job that is not set up."""
        layout = WorkLayout(self.location.key, ids.job_id(job_id or str(uuid4())))
        return FinalJob(
            self, JobContext(self.location.url, layout, conflict, unique_names, "store", "string")
        )


@dataclass
class FinalJob:
    """One job at the destination.

    Attributes:
        scene: Where.
        context: What it is.
        traffic: Its requests, with their faults.
    """

    scene: FinalScene
    context: JobContext
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def id(self) -> JobId:
        """The job's id."""
        return self.context.job

    def with_faults(self, *faults: Fault) -> FinalJob:
        """The same job in a process whose requests fail as told."""
        return FinalJob(self.scene, self.context, Traffic(faults))

    @property
    def committer(self) -> Committer:
        """Its committer, made anew as every process does."""
        store = faulty(self.scene.store, self.traffic, Actor("process"))
        return registry.make(self.scene.committer, self.context, Engine(store, 4))

    def setup(self) -> FinalJob:
        """Set it up."""
        self.scene.run(self.committer.setup_job)
        return self

    def attempt(self, task: int | str = 0) -> FinalAttempt:
        """A new attempt of a task."""
        name = ids.task_id(task)
        return FinalAttempt(self, name, ids.attempt_id(name, uuid4().hex[:12]))

    def wrote(self, *tasks: dict[str, bytes]) -> list[TaskCommit]:
        """Run a task for each of the given."""
        commits = []
        for number, files in enumerate(tasks):
            attempt = self.attempt(number)
            for name, body in files.items():
                attempt.write(name, body)
            commits.append(attempt.commit())
        return commits

    def commit(self, commits: Sequence[TaskCommit] | None, tasks: int | None = None) -> JobReport:
        """Commit it."""
        return self.scene.run(self.committer.commit_job, commits, None, tasks)

    def abort(self, commits: Sequence[TaskCommit] = ()) -> None:
        """Abort it."""
        self.scene.run(self.committer.abort_job, commits)


@dataclass
class FinalAttempt:
    """One attempt of a task, in this process.

    Attributes:
        job: Its job.
        task: The task.
        id: The attempt.
    """

    job: FinalJob
    task: TaskId
    id: AttemptId

    @property
    def path(self) -> str:
        """The destination, where it writes."""
        return self.job.scene.location.path

    @property
    def filesystem(self) -> FinalFileSystem:
        """Through which it writes."""
        label = self.id if self.job.scene.committer == "stocator" else self.task
        return FinalFileSystem(self.job.scene.filesystem, self.path, (label, self.job.id))

    def write(self, name: str, body: bytes = b"row\n") -> None:
        """Write a file."""
        self.filesystem.pipe_file(f"{self.path}/{name}", body)

    def needs_commit(self) -> bool:
        """Whether there is anything to commit."""
        return self.job.scene.run(self.job.committer.needs_task_commit, self.id)

    def commit(self) -> TaskCommit:
        """Commit it."""
        return self.job.scene.run(self.job.committer.commit_task, self.task, self.id)

    def abort(self) -> None:
        """Abort it."""
        self.job.scene.run(self.job.committer.abort_task, self.id)
