"""Jobs at one destination in memory, whose drivers die or meet faults where a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fsspec.asyn import sync

import magicfs
from magicfs.committers import registry
from magicfs.engine import Engine
from magicfs.formats.job_object import JobObject
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.report import JobReport, RecoverReport
from magicfs.stores.conditions import Conditions
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.stores.register import Register
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault
from proofs.scenes.arranged import arranged
from proofs.scenes.hadoop_form import in_form
from proofs.scenes.known import all_ended

__all__ = ["BUCKET", "Files", "JobScene"]

_T = TypeVar("_T")

BUCKET = "bucket"
"""The bucket of every scene."""

Files = Mapping[str, bytes]
"""Contents of files by their names below a task's path."""


class JobScene:
    """One bucket in a world of its own, a destination in it, and what lies there.

    Args:
        destination: The destination's key.
        ignores: Conditions that the store does not look at.
        world: The world; None for a new one of the memory store, which looks at all others.
    """

    def __init__(
        self,
        destination: str = "sales",
        *,
        ignores: frozenset[str] = frozenset(),
        world: World | None = None,
    ) -> None:
        self.destination = destination
        self.filesystem = MemoryFileSystem(world=world or World(ignores=ignores))
        self.filesystem.world.create_bucket(BUCKET)
        self.conditions = Conditions(**dict.fromkeys(self.filesystem.world.ignores, False))
        self.plain = self.filesystem.world.store(BUCKET)

    @property
    def url(self) -> str:
        """URL of the destination."""
        return f"memory://{BUCKET}/{self.destination}"

    # -- what lies there -------------------------------------------------------------------------------

    def put(self, name: str, body: bytes = b"") -> None:
        """Write an object below the destination, past every protocol."""
        _now(self.plain.put(paths.prefix_of(self.destination) + name, body))

    def delete(self, name: str) -> None:
        """Remove an object below the destination."""
        _now(self.plain.delete([paths.prefix_of(self.destination) + name]))

    def objects(self) -> dict[str, tuple[bytes, str, float | None]]:
        """Everything in the bucket by its key: body, ETag and when it was written."""
        all_ended()
        return _now(self._objects())

    def everything(self) -> Any:
        """Objects and uploads: equal before and after, if nothing was changed."""
        return self.objects(), self.uploads()

    def below(self, name: str = "") -> list[str]:
        """The names of all objects below the destination, or below a directory of it."""
        prefix = paths.prefix_of(self.destination)
        found = [key[len(prefix) :] for key in self.objects() if key.startswith(prefix)]
        return [one for one in found if one.startswith(name)]

    def data(self) -> dict[str, bytes]:
        """What engines take for data, by its name below the destination."""
        prefix = paths.prefix_of(self.destination)
        return {
            key[len(prefix) :]: body
            for key, (body, _, _) in self.objects().items()
            if key.startswith(prefix) and paths.is_visible(key, self.destination)
        }

    def bodies(self) -> list[bytes]:
        """The contents of all data, sorted."""
        return sorted(self.data().values())

    def aside(self) -> list[bytes]:
        """The contents of all files that jobs have moved aside, sorted."""
        start = f"{paths.prefix_of(self.destination)}_magicfs/kept/"
        return sorted(body for key, (body, *_) in self.objects().items() if key.startswith(start))

    def uploads(self) -> list[tuple[str, str]]:
        """Key and id of every pending upload."""
        all_ended()
        return _now(self._uploads())

    def work(self) -> list[str]:
        """Names of work objects of all jobs."""
        return self.below("__magic")

    def success(self) -> SuccessData | None:
        """What ``_SUCCESS`` says; None if there is none."""
        found = self.objects().get(paths.join(self.destination, "_SUCCESS"))
        return None if found is None else SuccessData.from_bytes("_SUCCESS", found[0])

    def state(self, job: magicfs.Job) -> str | None:
        """The state of a job; None if its object is not there."""
        held = self.job_object(job)
        return None if held is None else held.state.value

    def job_object(self, job: magicfs.Job) -> JobObject | None:
        """What a job's object says; None if it is not there."""
        return _now(self._job_object(job))

    def manifest_files(self) -> set[str]:
        """What a reader of manifests sees."""
        return _now(self._manifest_files())

    # -- jobs ------------------------------------------------------------------------------------------

    def job(
        self, mode: Any = "append", *, form: Mapping[str, Any] | None = None, **options: Any
    ) -> magicfs.Job:
        """A job of this destination that is set up; ``form`` as for ``in_form``."""
        job = magicfs.Job(self.url, mode=mode, filesystem=self.filesystem, **arranged(**options))
        return in_form(job, **form or {}).setup()

    def wrote(self, job: magicfs.Job, *tasks: Files) -> list[TaskCommit]:
        """Run one task for each of the given; nothing is handed over to the job."""
        commits = []
        for number, files in enumerate(tasks):
            task = magicfs.Task(job.spec, job.task(number).id).setup()
            for name, body in files.items():
                task.filesystem.pipe_file(f"{task.path}/{name}", body)
            commits.append(task.commit())
        return commits

    def published(self, *tasks: Files, mode: Any = "append", **options: Any) -> magicfs.Job:
        """A job that was published."""
        job = self.job(mode, **options)
        job.commit(self.wrote(job, *tasks))
        return job

    def traffic(self, *faults: Fault) -> Traffic:
        """A traffic with faults, for ``commit`` and ``recover``."""
        return Traffic(faults)

    def commit(
        self,
        job: magicfs.Job,
        commits: Sequence[TaskCommit] | None,
        *faults: Fault,
        traffic: Traffic | None = None,
        concurrency: int = 1,
    ) -> JobReport | None:
        """Commit a job in a process of its own; None if that died."""
        engine = self.engine(traffic or Traffic(faults), concurrency)
        committer = registry.make(job.spec.options.committer, job.spec.context, engine)
        report: JobReport | None = self.lived(lambda: committer.commit_job(commits, job.found.driver))
        return report

    def recover(self, *faults: Fault, **how: Any) -> RecoverReport | None:
        """Recover the destination; in a process of its own that may die, if faults are given."""
        if not faults:
            return magicfs.Dataset(self.url, filesystem=self.filesystem).recover(**how)
        from magicfs.datasets import recover_jobs

        engine, place = self.engine(Traffic(faults)), paths.parse_url(self.url)
        report: RecoverReport | None = self.lived(lambda: recover_jobs(engine, place, **how))
        return report

    def engine(self, traffic: Traffic, concurrency: int = 1) -> Engine:
        """A process's way to the bucket."""
        store: Store = faulty(self.plain, traffic, Actor("process"))
        return Engine(store, concurrency)

    def elsewhere(self, work: Callable[[Engine], Coroutine[Any, Any, _T]]) -> _T:
        """Run a process of its own to its end, even within a request of another one."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(work(Engine(self.plain, 1)))).result()

    def lived(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run a process; None if it died."""

        async def process() -> Any:
            try:
                return await work()
            except Crash:
                return None

        return sync(self.filesystem.loop, process)

    async def _objects(self) -> dict[str, tuple[bytes, str, float | None]]:
        return {
            info.key: (await self.plain.get(info.key), info.etag, info.modified)
            async for info in self.plain.list("")
        }

    async def _uploads(self) -> list[tuple[str, str]]:
        return sorted([(info.key, info.upload_id) async for info in self.plain.list_uploads("")])

    async def _job_object(self, job: magicfs.Job) -> JobObject | None:
        key = job.spec.work_layout.job_object_key
        entry = await Register(self.plain, key, self.conditions).read()  # one request after the other
        return None if entry is None else JobObject.from_bytes(key, entry.body)

    async def _manifest_files(self) -> set[str]:
        view = await chain.view(self.plain, self.destination, self.conditions)
        return set() if view is None else set(view.files)


def _now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run what only asks the memory store, which never waits: even within a request."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _T = end.value
        return result
    raise AssertionError("it waited")
