"""A job of the manifest committer on files of this machine, whose requests can be made to fail."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import magicfs
from magicfs.committers.registry import ManifestOptions
from magicfs.committers.renaming.manifest import ManifestCommitter
from magicfs.engine import Engine, Event
from magicfs.formats.job_options import JobOptions
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.paths import is_hidden
from magicfs.report import RecoverReport
from magicfs.stores.local.store import LocalStore
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault
from magicfs.transaction.context import JobContext

__all__ = ["Driver", "ManifestScene"]

_T = TypeVar("_T")


@dataclass
class Driver:
    """One process of the job.

    Attributes:
        committer: Bound to the process.
        traffic: Its requests.
        actor: Dead once one of them has crashed.
        told: What the observer of its engine was told.
    """

    committer: ManifestCommitter
    traffic: Traffic
    actor: Actor
    told: list[Event] = field(default_factory=list)

    def operations(self, name: str) -> list[str]:
        """The keys that requests of a name were about."""
        return [request.key for request in self.traffic.log if request.operation == name]


class ManifestScene:
    """A destination in a directory, and one job at it.

    Args:
        directory: An empty directory; the destination is ``dest`` in it.
        job: The job's id; by default a random UUID.
        mode: The mode.
        unique_names: Whether final names carry task and job.
        concurrency: Most requests at once.
        options: Of the committer.
    """

    def __init__(
        self,
        directory: Path,
        *,
        job: str = "",
        mode: WriteMode = "append",
        unique_names: bool = False,
        concurrency: int = 4,
        **options: Any,
    ) -> None:
        self.directory = directory
        self.destination = directory / "dest"
        self.job = ids.job_id(job or uuid4())
        self.mode = mode
        self.unique_names = unique_names
        self.concurrency = concurrency
        self.options = ManifestOptions(**options)

    # -- processes -------------------------------------------------------------------------------------

    def driver(self, *faults: Fault, attempt: int = 0) -> Driver:
        """A new process of a job attempt, whose requests fail as told."""
        key = str(self.destination).strip("/")
        context = JobContext(
            url=f"file:///{key}",
            layout=WorkLayout(key, self.job, attempt),
            options=JobOptions(committer="manifest", mode=self.mode, unique_names=self.unique_names),
            committer_options=self.options,
        )
        told: list[Event] = []
        traffic, actor = Traffic(faults), Actor("driver")
        engine = Engine(faulty(LocalStore(), traffic, actor), self.concurrency, told.append)
        committer = ManifestCommitter(context, engine)
        committer.pause_s = 0.0
        return Driver(committer, traffic, actor, told)

    def set_up(self, attempt: int = 0) -> Driver:
        """A process that has set the job attempt up."""
        driver = self.driver(attempt=attempt)
        self.run(driver.committer.setup_job())
        return driver

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end."""
        return asyncio.run(work)

    # -- tasks -----------------------------------------------------------------------------------------

    def work_directory(self, attempt: str, job_attempt: int = 0) -> Path:
        """Where a task attempt writes."""
        return self.job_directory / f"{job_attempt:02d}" / "tasks" / attempt

    def write(
        self, number: int, files: Mapping[str, bytes], *, suffix: str = "0", job_attempt: int = 0
    ) -> AttemptId:
        """Write the files of a new attempt of a task."""
        attempt = ids.attempt_id(ids.task_id(number), suffix)
        directory = self.work_directory(attempt, job_attempt)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return attempt

    def commit_task(
        self,
        number: int,
        files: Mapping[str, bytes],
        *,
        suffix: str = "0",
        job_attempt: int = 0,
        driver: Driver | None = None,
    ) -> TaskCommit:
        """Run an attempt of a task in a process of its own, and commit it."""
        attempt = self.write(number, files, suffix=suffix, job_attempt=job_attempt)
        process = driver or self.driver(attempt=job_attempt)
        return self.run(process.committer.commit_task(ids.task_id(number), attempt))

    # -- what is there ---------------------------------------------------------------------------------

    @property
    def job_directory(self) -> Path:
        """Where the job keeps its work."""
        return self.destination / "_temporary" / self.job

    def manifest_path(self, task: int | TaskId, attempt: int = 0, suffix: str = "0") -> Path:
        """Where the manifest of a task's attempt is until the job has ended."""
        name = ids.attempt_id(ids.task_id(task), suffix)
        return self.job_directory / f"{attempt:02d}" / "manifests" / f"{name}-manifest.json"

    def manifest(self, task: int) -> TaskManifest:
        """A task's manifest."""
        path = self.manifest_path(task)
        return TaskManifest.from_bytes(str(path), path.read_bytes())

    def recover(self, **how: bool) -> RecoverReport:
        """End what is unfinished at the destination, as another process does."""
        return magicfs.Dataset(f"file://{self.destination}").recover(**how)  # type: ignore[arg-type]

    def visible(self) -> dict[str, bytes]:
        """What a reader of the destination takes for data, by relative name."""
        found = {}
        for path in self.destination.rglob("*"):
            relative = path.relative_to(self.destination)
            if path.is_file() and not any(map(is_hidden, relative.parts)):
                found[relative.as_posix()] = path.read_bytes()
        return found

    def everything(self) -> Sequence[str]:
        """Every file and directory below the destination, sorted."""
        return sorted(path.relative_to(self.destination).as_posix() for path in self.destination.rglob("*"))

    def success(self) -> SuccessData:
        """What ``_SUCCESS`` says."""
        path = self.destination / "_SUCCESS"
        return SuccessData.from_bytes(str(path), path.read_bytes())
