"""Jobs as people run them: two at once, in threads, in a fork, beside an operator, half written."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import magicfs
from magicfs import datasets
from magicfs.errors import CommitDenied, CommitFailed, MagicError, ProtocolViolation
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.job.task import Task
from proofs.crash.store_models import world_of
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene
from proofs.scenes.known import forget_job
from proofs.scenes.trouble import require

__all__ = [
    "alternately",
    "at_exit",
    "elsewhere",
    "forked",
    "in_threads",
    "late",
    "not_closed",
    "not_committed",
    "not_handed_over",
]

_JOBS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"hadoop": "3.3"},
    {"unique_names": False},
    {"tracking": "memory"},
)
"""Jobs that differ in what has to be known of them where they are written."""


def _wrote(task: Task, number: int = 0) -> None:
    task.filesystem.pipe_file(f"{task.path}/part {number}.bin", f"{task.job_id} {number}".encode())


def _published(scene: JobScene, *jobs: Job, tasks: int = 1) -> None:
    wanted = sorted(f"{job.id} {number}".encode() for job in jobs for number in range(tasks))
    require(scene.bodies() == wanted, f"{len(wanted)} files were written, and there are {scene.bodies()}")
    require((scene.work(), scene.uploads()) == ([], []), f"left over: {scene.work()} {scene.uploads()}")
    for job in jobs:
        require(job.report.files == tasks, f"job {job.id} tells of {job.report.files} files")


# -- two jobs at once ----------------------------------------------------------------------------------


def alternately(store: str = "s3") -> Iterator[int]:
    """Two jobs at one destination take turns in one thread; one filesystem writes for both."""
    for one in _JOBS:
        for other in _JOBS:
            scene = JobScene("sales%20 é", world=world_of(store))
            jobs = [scene.job(**one), scene.job(**other)]
            tasks = [job.task(0).setup() for job in jobs]
            writer = MagicFileSystem(scene.filesystem)
            for job, task in zip(jobs, tasks, strict=True):
                writer.pipe_file(f"{task.path}/part {len(jobs)} {job.id}.bin", f"{job.id} 0".encode())
            for task in reversed(tasks):
                _ended(task.commit)
            for job in jobs:
                _ended(job.commit, job.commits)
            _published(scene, *jobs)
            yield 1


def in_threads(store: str = "s3") -> Iterator[int]:
    """Two jobs, the tasks of each in four threads."""
    for options in _JOBS:
        scene = JobScene(world=world_of(store))
        jobs = [scene.job(**{**options, "unique_names": True}) for _ in range(2)]

        def run(job: Job, number: int) -> None:
            with job.task(number) as task:
                _wrote(task, number)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(run, jobs * 4, [number for number in range(4) for _ in jobs]))
        for job in jobs:
            _ended(job.commit, job.commits)
        _published(scene, *jobs, tasks=4)
        yield 1


def _ended(call: Callable[..., Any], *args: Any) -> None:
    """Of what goes well without a fault each error is a trouble."""
    try:
        call(*args)
    except MagicError as error:
        require(False, repr(error))


def elsewhere(store: str = "s3") -> Iterator[int]:
    """A process in which neither the job nor its task was set up writes with a filesystem of its own."""
    for options in _JOBS:
        scene = JobScene(world=world_of(store))
        job = scene.job(**options)
        task = job.task(0).setup()
        forget_job(job)
        writer = MagicFileSystem(scene.filesystem)
        try:
            writer.pipe_file(f"{task.path}/part.bin", f"{job.id} 0".encode())
        except ProtocolViolation:
            require("tracking" in options, "it is refused, though the store remembers it")
            job.abort()
            _published(scene)
        else:
            require("tracking" not in options, "it is taken, and nobody will commit it")
            _ended(task.commit)
            _ended(job.commit, job.commits)
            _published(scene, job)
        yield 1


# -- a task that is not whole --------------------------------------------------------------------------


def not_closed(store: str = "s3") -> Iterator[int]:
    """A file that nobody closed before it was collected fails its task."""
    for options in _JOBS:
        scene = JobScene(world=world_of(store))
        task = scene.job(**options).task(0).setup()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task.filesystem.open(f"{task.path}/a.bin", "wb").write(b"half")
            gc.collect()
        try:
            task.commit()
        except CommitFailed:
            yield 1
        else:
            require(False, "a file that was written and never closed is missing, and the task has committed")


def not_committed(store: str = "s3") -> Iterator[int]:
    """A task that was set up and never committed is told of."""
    for options in _JOBS:
        scene = JobScene(world=world_of(store))
        job = scene.job(**options)
        with job.task(0) as task:
            _wrote(task)
        _wrote(job.task(1).setup(), 1)
        job.commit(job.commits)
        _published(scene, job)
        require(any("000001" in one for one in job.report.warnings), "nobody hears of task 1")
        yield 1


def not_handed_over(store: str = "s3") -> Iterator[int]:
    """A ``with`` block in which a task committed, and nobody handed its commit over, publishes nothing."""
    for options in _JOBS:
        if "tracking" in options:
            continue
        scene = JobScene(world=world_of(store))
        with suppress(ProtocolViolation):
            with magicfs.Job(
                scene.url, mode="append", filesystem=scene.filesystem, **arranged(**options)
            ) as job:
                task = magicfs.Task(job.spec, job.task(0).id).setup()
                _wrote(task)
                task.commit()
            require(False, "the block ended well, and the rows of a committed task are gone")
        _published(scene)
        yield 1


def late(store: str = "s3") -> Iterator[int]:
    """An operator publishes a job while one of its tasks is still at work: its driver hears what is lost."""
    for mode in ("append", "overwrite"):
        scene = JobScene(world=world_of(store))
        job = scene.job(mode)
        with job.task(0) as task:
            _wrote(task)
        datasets.commit(scene.url, job.id, filesystem=scene.filesystem)
        commits = [*job.commits]
        with suppress(CommitDenied, CommitFailed, ProtocolViolation):
            second = magicfs.Task(job.spec, job.task(1).id).setup()
            _wrote(second, 1)
            commits.append(second.commit())
            job.commit(commits)
            require(False, f"the job says that it is published, with {len(scene.bodies())} of 2 files")
        yield 1


# -- the end of a process ------------------------------------------------------------------------------

_LEFT: Final = """
import atexit, sys
import magicfs
from magicfs.stores.memory.filesystem import MemoryFileSystem
from proofs.crash.store_models import world_of

world = world_of()
world.create_bucket("bucket")

def look():
    print(sorted(key for key in world.find("bucket").objects if "__magic" not in key))

atexit.register(look)  # what is registered first comes last
job = magicfs.Job("memory://bucket/sales", mode="append", filesystem=MemoryFileSystem(world=world), {})
job.setup()
task = job.task(0).setup()
task.filesystem.pipe_file(f"{task.path}/whole.bin", b"whole")
open_file = task.filesystem.open(f"{task.path}/half.bin", "wb")
open_file.write(b"half")
"""


def at_exit(store: str = "s3") -> Iterator[int]:
    """An interpreter that ends amid a job comes to its end, and publishes nothing of it."""
    for options in _JOBS[:: len(_JOBS) - 1]:
        code = _LEFT.replace("world_of()", f"world_of({store!r})").replace("{})", f"options={options!r})")
        command = [sys.executable, "-W", "ignore", "-c", code]
        # Whoever runs this may have gone to another directory than that to which relative paths lead.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run(  # noqa: S603 - ourselves
            command, capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        require(ended.returncode == 0 and ended.stdout == "[]\n", f"{ended.stdout}{ended.stderr}")
        yield 1


# -- forks ---------------------------------------------------------------------------------------------


def forked(store: str = "s3") -> Iterator[int]:
    """A fork that leaves the block of its parent, by its end or by an error, does nothing to the job."""
    for raises in (False, True):
        for options in _JOBS:
            scene = JobScene(world=world_of(store))
            job = scene.job(**options)
            with job.task(0) as task:
                _wrote(task)
            state = scene.state(job)
            held = scene.everything()

            def leave(
                job: Job = job, scene: JobScene = scene, raises: bool = raises, held: Any = held
            ) -> bool:
                error = ZeroDivisionError() if raises else None
                with suppress(ProtocolViolation):
                    job.__exit__(type(error) if error else None, error, None)
                return bool(scene.everything() == held)

            require(state == "open" and _in_fork(leave), "a fork has ended the job of its parent")
            _ended(job.commit, job.commits)
            _published(scene, job)
            yield 1


def _in_fork(deed: Callable[[], bool]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads
        child = os.fork()
    if not child:
        code = 99
        try:
            code = int(not deed())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
