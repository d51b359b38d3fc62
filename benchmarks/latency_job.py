"""Whole jobs of every committer on a store that is far away, in virtual time.

What runs is the shipped code: the job's specification, its tasks, the filesystem that they write through, and
the committers, each process with a connection of its own. Left out is only the thread between a caller and
the loop, which a virtual clock has no place for: the coroutines behind the calls are awaited instead.

Workers run one task after the other, and a task writes one file after the other, as Spark's tasks do.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from benchmarks.latency_store import BUCKET, LatencyStore, Rates, Server, Tally
from magicfs.classic.filesystem import FinalFileSystem
from magicfs.committers.registry import StagingOptions, committer_info
from magicfs.errors import MagicError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.job_options import JobOptions
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.spec import JobSpec
from magicfs.job.task import Task
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId
from magicfs.report import JobReport
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.stores.retrying import RetryingStore
from proofs.doubles import virtual_time

__all__ = ["BY_NAME", "SUBJECTS", "Phase", "Played", "Subject", "play"]

_URL: Final = f"memory://{BUCKET}/sales"
_JOB: Final = JobId(str(UUID(int=14, version=4)))
_BODY: Final = b"x" * 16
_ATTEMPTS: Final = 4
"""Of a task, before its job fails; as Spark has it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A committer as the page has it.

    Attributes:
        name: What the page calls it.
        committer: Its name.
        options: Its own options.
        job: Further arguments of the job.
        renames: Whether its store renames in one request; all others run on an object store.
    """

    name: str
    committer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    job: Mapping[str, Any] = field(default_factory=dict)
    renames: bool = False


SUBJECTS: Final = (
    Subject("magic", "magic", job={"tracking": "store"}),
    Subject("magic, memory", "magic", job={"tracking": "memory"}),
    Subject("directory", "directory"),
    Subject("partitioned", "partitioned"),
    Subject("manifest", "manifest", renames=True),
    Subject("file v1", "file", options={"algorithm": 1}),
    Subject("file v2", "file", options={"algorithm": 2}),
    Subject("direct", "direct"),
    Subject("stocator", "stocator"),
    Subject("task-completing", "task-completing"),
)
"""All committers; the magic one by where it remembers uploads."""

BY_NAME: Final = {one.name: one for one in SUBJECTS}


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a job.

    Attributes:
        seconds: How long it took, in virtual time.
        tally: What the store was asked meanwhile.
        began: When it began.
    """

    seconds: float
    tally: Tally
    began: float = 0.0

    def around(self, operation: str) -> tuple[float, float, float]:
        """Seconds before the first request of an operation, from that to the last answer, and after it."""
        first, last = self.tally.spans[operation]
        return first - self.began, last - first, self.began + self.seconds - last


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a job.

    Attributes:
        tasks: How many tasks it had.
        files: How many files, of all tasks.
        setup: Its setup.
        work: All tasks: writing, and their commits.
        commit: The job commit.
        failed: Task attempts that the store refused until they gave up; each was run again.
    """

    tasks: int
    files: int
    setup: Phase
    work: Phase
    commit: Phase
    failed: int = 0

    @property
    def total_s(self) -> float:
        """The whole job."""
        return self.setup.seconds + self.work.seconds + self.commit.seconds


class _Files(MemoryFileSystem):
    """One process's files."""

    def __init__(self, server: Server) -> None:
        super().__init__(world=server.world)
        self._way: Store = RetryingStore(LatencyStore(server))

    def store(self, bucket: str) -> Store:
        assert bucket == BUCKET
        return self._way


def play(
    subject: Subject,
    tasks: int,
    files: int,
    rates: Rates,
    *,
    workers: int = 100,
    concurrency: int | None = None,
    seed: int = 0,
) -> Played:
    """Run one job to its end, and see that it published what it should.

    Args:
        subject: The committer.
        tasks: How many.
        files: How many, of all tasks; the first tasks have one more if it does not come out even.
        rates: How fast the store is.
        workers: Most tasks at once.
        concurrency: As the job's option; None for its default.
        seed: Of the jitter, and of everything else that is drawn.

    Raises:
        AssertionError: Files or uploads are there that should not be, or some are missing.
    """
    server = Server(rates, renames=subject.renames, seed=seed)
    with _work_directory() as directory:
        program = _Program(subject, server, directory, tasks, files, workers, concurrency)
        with virtual_time.deterministic(seed, server.now):
            return virtual_time.run(program.run(), inline=lambda: None)


@contextlib.contextmanager
def _work_directory() -> Iterator[Path]:
    """Where the tasks of staging committers write; in memory where the machine has such a place."""
    shm = Path("/dev/shm")  # noqa: S108 - only looked for
    directory = tempfile.mkdtemp(prefix="magicfs-latency-", dir=shm if shm.is_dir() else None)
    try:
        yield Path(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass
class _Program:
    subject: Subject
    server: Server
    directory: Path
    tasks: int
    files: int
    workers: int
    concurrency: int | None
    failed: int = 0

    async def run(self) -> Played:
        driver = self._spec()
        committer = driver.make_committer()
        setup, found = await self._phase(committer.setup_job)
        work, commits = await self._phase(self._work)
        publish = committer.commit_job
        commit, report = await self._phase(lambda: publish(commits, found.driver, self.tasks))
        self._check(report)
        return Played(self.tasks, self.files, setup, work, commit, self.failed)

    async def _phase(self, work: Callable[[], Awaitable[Any]]) -> tuple[Phase, Any]:
        self.server.new_tally()
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await work()
        seconds = loop.time() - began
        return Phase(seconds, self.server.new_tally(), began), result

    def _spec(self) -> JobSpec:
        """The job as a new process knows it."""
        given = dict(self.subject.options)
        if committer_info(self.subject.committer).options is StagingOptions:
            given["work_directory"] = str(self.directory)
        found: dict[str, Any] = {} if self.concurrency is None else {"concurrency": self.concurrency}
        return JobSpec(
            location=paths.parse_url(_URL),
            job=_JOB,
            options=JobOptions(committer=self.subject.committer, mode="append", **self.subject.job),
            committer_options=committer_info(self.subject.committer).options(**given),
            filesystem=_Files(self.server),
            **found,
        )

    # -- tasks -----------------------------------------------------------------------------------------

    async def _work(self) -> list[TaskCommit]:
        left = iter(range(self.tasks))
        commits: dict[int, TaskCommit] = {}

        async def worker() -> None:
            spec = self._spec()
            for number in left:
                commits[number] = await self._task(spec, number)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.workers, self.tasks)):
                group.create_task(worker())
        return [commits[number] for number in range(self.tasks)]

    async def _task(self, spec: JobSpec, number: int) -> TaskCommit:
        """Run a task as engines do: again, if its attempt fails."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._attempt(spec, number)
            except MagicError:
                self.failed += 1
        return await self._attempt(spec, number)

    async def _attempt(self, spec: JobSpec, number: int) -> TaskCommit:
        task = Task(spec, ids.task_id(number)).setup()
        filesystem, below = task.filesystem, task.path
        more = number < self.files % self.tasks
        committer = spec.make_committer()
        try:
            for file in range(self.files // self.tasks + more):
                await _write(filesystem, f"{below}/part-{number:05}-{file:05}.bin")
            return await committer.commit_task(task.id, task.attempt_id)
        except MagicError:
            with contextlib.suppress(MagicError):  # the job's cleanup tries again
                await committer.abort_task(task.attempt_id)
            raise

    def _check(self, report: JobReport) -> None:
        held = self.server.world.find(BUCKET)
        assert held is not None
        data = [key for key in held.objects if paths.is_visible(key, "sales") and not key.endswith("/")]
        assert len(data) == self.files, f"{len(data)} files are visible instead of {self.files}"
        assert not held.uploads, f"{len(held.uploads)} uploads are still open"
        assert report.files == self.files, f"the report says {report.files} files"


async def _write(filesystem: Any, path: str) -> None:
    """Write one file as the filesystem's own calls do, whose thread is not there."""
    if isinstance(filesystem, FinalFileSystem):
        with filesystem._recorded(path) as final:  # noqa: SLF001 - what its own copying does
            await filesystem.fs._pipe_file(final, _BODY)  # noqa: SLF001
    elif isinstance(filesystem, MagicFileSystem | MemoryFileSystem):
        await filesystem._pipe_file(path, _BODY)  # noqa: SLF001
    else:
        filesystem.pipe_file(path, _BODY)  # of this machine: no request, and no time
