"""Jobs of the staging committers at one destination in memory, their tasks writing plain files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import magicfs
from magicfs.engine import Engine
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.task import Task
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault
from proofs.scenes.job_scene import BUCKET, Files, JobScene

__all__ = ["StagedScene", "write"]


def write(directory: str, files: Mapping[str, bytes]) -> None:
    """Write files as any program would."""
    for name, body in files.items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


class _FaultyFileSystem(MemoryFileSystem):
    """Every request of a process passes a traffic."""

    def __init__(self, world: World, traffic: Traffic) -> None:
        super().__init__(world=world)
        self._traffic = traffic

    def store(self, bucket: str) -> Store:
        return faulty(super().store(bucket), self._traffic, Actor("worker"))


class StagedScene(JobScene):
    """As ``JobScene``, for ``directory`` and ``partitioned``.

    Args:
        work: An empty local directory.
        committer: Which of them.
        cluster: URL of a cluster directory, if there is one.
        destination: The destination's key.
    """

    def __init__(
        self,
        work: Path,
        committer: str = "directory",
        *,
        cluster: str | None = None,
        destination: str = "sales",
    ) -> None:
        super().__init__(destination)
        self.directory = work / "staged"
        self.committer = committer
        self.options: dict[str, Any] = {"work_directory": str(self.directory)}
        if cluster is not None:
            self.options["cluster_directory"] = cluster

    def job(self, mode: Any = "append", **options: Any) -> magicfs.Job:
        """A job of this destination that is set up."""
        given = {"committer": self.committer, "committer_options": self.options} | options
        return super().job(mode, **given)

    def local(self) -> list[str]:
        """Everything in the local work directory, locks included."""
        if not self.directory.exists():
            return []
        return sorted(str(path.relative_to(self.directory)) for path in self.directory.rglob("*"))

    def wrote(self, job: magicfs.Job, *tasks: Files) -> list[TaskCommit]:
        """Run one task for each of the given; nothing is handed over to the job."""
        commits = []
        for number, files in enumerate(tasks):
            task = Task(job.spec, job.task(number).id).setup()
            write(task.path, files)
            commits.append(task.commit())
        return commits

    def worker(self, job: magicfs.Job, *faults: Fault, **traffic: Any) -> tuple[magicfs.Job, Traffic]:
        """The same job in a process whose requests meet faults, and the log of these."""
        met = Traffic(faults, **traffic)
        filesystem = _FaultyFileSystem(self.filesystem.world, met)
        spec = job.spec
        other = magicfs.Job(
            self.url,
            mode=cast("Any", spec.options.mode),
            filesystem=filesystem,
            committer=spec.options.committer,
            concurrency=spec.concurrency,
            job_id=spec.job,
            options={
                **self.options,
                "unique_names": spec.options.unique_names,
                "part_size": spec.options.part_size,
                "attempt": spec.attempt,
            },
        )
        other.__setstate__(job.__getstate__() | {"spec": other.spec})  # as a pickle would bring it there
        return other, met

    def engine(self, traffic: Traffic, concurrency: int = 1) -> Engine:
        """A process's way to the bucket."""
        return Engine(faulty(self.plain, traffic, Actor("process")), concurrency)

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return BUCKET
