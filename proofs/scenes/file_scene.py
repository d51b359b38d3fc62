"""A destination of the file committer, on files or on objects, and processes that may die at any request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from magicfs.committers import registry
from magicfs.committers.registry import FileOptions
from magicfs.committers.renaming.file import FileCommitter
from magicfs.engine import Engine
from magicfs.formats.job_options import JobOptions
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Request
from magicfs.transaction.context import JobContext

__all__ = ["JOB", "FileScene", "Process", "attempt_of", "run"]

JOB = "b7d9e1c2-0a34-4f56-8e78-9a0bcdef1234"
"""The job, where a test has one."""

_T = TypeVar("_T")


@dataclass
class Process:
    """A process that drives a job or runs its tasks.

    Attributes:
        scene: Where.
        committer: What it calls.
        traffic: Its requests.
        actor: Dead once it has died.
        driver: What ``setup`` returned.
    """

    scene: FileScene
    committer: FileCommitter
    traffic: Traffic
    actor: Actor
    driver: str | None = None

    async def setup(self) -> Process:
        """Set the job up; returns itself."""
        self.driver = (await self.committer.setup_job()).driver
        return self

    async def write(self, attempt: AttemptId, files: Mapping[str, bytes]) -> None:
        """Write the files of an attempt."""
        directory = self.committer.context.temporary.task_attempt_directory(attempt)
        for relative, body in files.items():
            await self.scene.store.put(f"{directory}/{relative}", body)

    async def task(self, task: int, files: Mapping[str, bytes], suffix: str = "0") -> TaskCommit:
        """Run an attempt of a task to its end."""
        name, attempt = attempt_of(task, suffix)
        await self.write(attempt, files)
        return await self.committer.commit_task(name, attempt)

    async def commit(self, commits: Sequence[TaskCommit] | None, **how: Any) -> Any:
        """Commit the job, as the driver that it is."""
        return await self.committer.commit_job(commits, self.driver, **how)

    async def abort(self, commits: Sequence[TaskCommit] = (), **how: Any) -> None:
        """Abort the job, as the driver that it is."""
        await self.committer.abort_job(commits, self.driver, **how)

    async def dies(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """Do something; None if the process died of it."""
        try:
            return await work
        except Crash:
            return None
        except Exception:
            if not self.actor.dead:
                raise
            return None


class FileScene:
    """One destination.

    Args:
        store: The bucket, empty.
        root: Key of a directory in it that is the test's own.
    """

    def __init__(self, store: Store, root: str) -> None:
        self.store = store
        self.destination = paths.join(root, "sales 1+#%")

    def process(
        self,
        algorithm: Literal[1, 2] = 1,
        *,
        job: str = JOB,
        attempt: int = 0,
        faults: Sequence[Fault] = (),
        before: Callable[[Request], None] | None = None,
        unique: bool = True,
        mode: WriteMode = "append",
        concurrency: int = 4,
        single_driver: bool = False,
        delete_obstacles: bool = False,
        run_id: str | None = None,
    ) -> Process:
        """A new process."""
        traffic, actor = Traffic(faults, before=before), Actor("process")
        layout = WorkLayout(self.destination, ids.job_id(job), attempt)
        context = JobContext(
            url=f"{self.store.name}://{self.store.bucket}/{self.destination}",
            layout=layout,
            options=JobOptions(
                committer="file",
                mode=mode,
                run_id=run_id,
                single_driver=single_driver,
                unique_names=unique,
            ),
            committer_options=FileOptions(algorithm=algorithm, delete_obstacles=delete_obstacles),
        )
        engine = Engine(faulty(self.store, traffic, actor), concurrency)
        return Process(self, cast("FileCommitter", registry.make("file", context, engine)), traffic, actor)

    async def put(self, relative: str, body: bytes) -> None:
        """Write a file below the destination, as somebody else would."""
        await self.store.put(f"{self.destination}/{relative}", body)

    async def keys(self) -> dict[str, bytes]:
        """Every file below the destination, by relative path."""
        prefix = paths.prefix_of(self.destination)
        found = [info.key async for info in self.store.list(prefix)]
        return {key[len(prefix) :]: await self.store.get(key) for key in found}

    async def visible(self, job: str = JOB) -> dict[str, bytes]:
        """What a reader takes for data; the job's suffixes are taken off the names."""
        return {
            _plain(name, job): body
            for name, body in (await self.keys()).items()
            if paths.is_visible(f"{self.destination}/{name}", self.destination)
        }

    async def work(self) -> list[str]:
        """Every file of committers' work."""
        return [name for name in await self.keys() if name.startswith(("_temporary", "__magic"))]


def attempt_of(task: int, suffix: str = "0") -> tuple[TaskId, AttemptId]:
    """A task and an attempt of it."""
    name = ids.task_id(task)
    return name, ids.attempt_id(name, suffix)


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a test to its end."""
    return asyncio.run(work)


def _plain(name: str, job: str) -> str:
    return name.replace(f"-{job}", "")
