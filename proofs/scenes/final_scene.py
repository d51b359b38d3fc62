"""Jobs whose files are visible before the job commit, in memory or on this machine: for tests.

Several processes are played in one: ``another_process`` forgets what this one knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from magicfs.classic.filesystem import FinalFileSystem
from magicfs.classic.tracking import final_tracker
from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.engine import Engine
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.job_options import JobOptions
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.report import JobReport
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault
from magicfs.transaction.context import JobContext
from proofs.scenes.destination_scene import DestinationScene

__all__ = ["FinalAttempt", "FinalJob", "FinalScene", "another_process"]


def another_process() -> None:
    """What follows happens in a process that has written nothing."""
    final_tracker().clear()


class FinalScene(DestinationScene):
    """A destination, and what lies there.

    Args:
        committer: Name of the committer.
        directory: Where the destination lies on this machine; None for a bucket in memory.
    """

    def __init__(self, committer: str, directory: Path | None = None) -> None:
        self.committer = committer
        self.filesystem: AbstractFileSystem
        if directory is None:
            self.filesystem = MemoryFileSystem(world=World())
            self.filesystem.world.create_bucket("bucket")
            memory = MemoryStore("bucket", self.filesystem.world)
            super().__init__(memory, paths.Location("memory", "bucket", "sales"))
        else:
            self.filesystem = LocalFileSystem()
            super().__init__(LocalStore(""), paths.parse_url(f"file://{directory}/sales"))

    def users_job(self) -> Job:
        """A job at the destination as users make it; not set up."""
        return Job(self.location.url, committer=self.committer, filesystem=self.filesystem)

    def job(self, mode: WriteMode = "append", job_id: str = "", *, unique_names: bool = True) -> FinalJob:
        """A job that is not set up."""
        layout = WorkLayout(self.location.key, ids.job_id(job_id or str(uuid4())))
        asked = JobOptions(committer=self.committer, mode=mode, unique_names=unique_names)
        return FinalJob(self, JobContext(self.location.url, layout, asked))


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

    def dies(self, fault: Fault, commits: Sequence[TaskCommit]) -> bool:
        """Commit it in a process that meets a fault; whether it died of that. What follows is another one."""
        died = self.scene.dies(self.with_faults(fault).committer.commit_job, commits)
        if died:
            another_process()
        return died

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
        """Where it writes: at the destination, or under a magic path."""
        scene = self.job.scene
        if scene.committer != "task-completing":
            return scene.location.path
        return f"{scene.location.bucket}/{self.job.context.layout.work_directory(self.id)}"

    @property
    def filesystem(self) -> AbstractFileSystem:
        """Through which it writes."""
        scene = self.job.scene
        if scene.committer == "task-completing":
            names = self.job.context.options.unique_names
            return MagicFileSystem(scene.filesystem, unique_names=names, job_object=False)
        label = self.id if scene.committer == "stocator" else self.task
        return FinalFileSystem(scene.filesystem, self.path, (label, self.job.id))

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
