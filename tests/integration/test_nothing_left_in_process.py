"""What a job leaves in its process: no thread, task, temporary file, memory; only pooled connections.

s3fs keeps connections to the store for the next request, as every HTTP client does. They are the
filesystem's, not the job's: at most ``concurrency`` of them, the same for the next job, closed when the
filesystem is let go of (fsspec's instance caches cleared).
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec.asyn
import pytest
from s3fs import S3FileSystem

from magicfs.errors import MagicError
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.tracking import tracker
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

CONCURRENCY = 8


def sockets_to(endpoint: str) -> Counter[str]:
    """The sockets of this process that lead to a server, by the state of TCP."""
    port = f"{urllib.parse.urlsplit(endpoint).port:04X}"
    inodes = set()
    for fd in Path("/proc/self/fd").iterdir():
        try:
            target = str(fd.readlink())
        except OSError:
            continue  # the descriptor of the directory itself
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    states: Counter[str] = Counter()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[2].endswith(f":{port}") and fields[9] in inodes:
            states[{"01": "established", "08": "close-wait"}.get(fields[3], fields[3])] += 1
    return states


def loop_tasks() -> list[str]:
    """What is still to be done on the loop of fsspec, told by the loop itself."""

    async def look() -> list[str]:
        await asyncio.sleep(0)
        me = asyncio.current_task()
        return [repr(task) for task in asyncio.all_tasks() if task is not me]

    found: list[str] = fsspec.asyn.sync(fsspec.asyn.get_loop(), look)
    return found


def write(task: Task, files: int = 5) -> None:
    task.filesystem.pipe({f"{task.path}/{n}.txt": b"row\n" for n in range(files)})
    with task.filesystem.open(f"{task.path}/stream.bin", "wb") as file:
        file.write(bytes(6 * 2**20))
    with task.filesystem.open(f"{task.path}/text.csv.gz", "wt", compression="gzip") as text:
        text.write("a,b\n")


def succeed(job: Job, proxy: FaultProxy) -> None:
    with job:
        for number in range(3):
            with job.task(number) as task:
                write(task)


def start_all_threads_of_the_loop() -> None:
    """The loop keeps a few threads, which hash bodies among other things, and starts them one by one."""
    number = min(32, (os.cpu_count() or 1) + 4)  # as ``ThreadPoolExecutor`` counts
    barrier = threading.Barrier(number)

    async def meet() -> None:
        await asyncio.gather(*(asyncio.to_thread(barrier.wait, 60) for _ in range(number)))

    fsspec.asyn.sync(fsspec.asyn.get_loop(), meet)


def map_threads(job: Job, proxy: FaultProxy) -> None:
    with ThreadPoolExecutor(3) as pool, job:
        job.map(write, range(3), executor=pool)


def abort(job: Job, proxy: FaultProxy) -> None:
    job.setup()
    with job.task(0) as task:
        write(task)
    write(job.task(1).setup())
    job.abort()


def fail_in_a_task(job: Job, proxy: FaultProxy) -> None:
    with pytest.raises(ZeroDivisionError), job, job.task(0) as task:
        write(task)
        raise ZeroDivisionError


def fail_in_mid_write(job: Job, proxy: FaultProxy) -> None:
    proxy.add(Rule("UploadPart", Action.RESET, skip=2))
    with pytest.raises(MagicError), job, job.task(0) as task:
        write(task)


def fail_at_the_job_commit(job: Job, proxy: FaultProxy) -> None:
    proxy.add(Rule("CompleteMultipartUpload", Action.ERROR, skip=2, status=403, code="AccessDenied"))
    with pytest.raises(MagicError):
        succeed(job, proxy)


def fall_silent(job: Job, proxy: FaultProxy) -> None:
    proxy.add(Rule("AbortMultipartUpload", Action.HANG))
    with pytest.raises(ZeroDivisionError), job, job.task(0) as task:
        write(task)
        raise ZeroDivisionError


ENDS = [
    map_threads,
    abort,
    fail_in_a_task,
    fail_in_mid_write,
    fail_at_the_job_commit,
    pytest.param(fall_silent, marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("tracking", ["store", pytest.param("memory", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_job_leaves_nothing_in_its_process_however_it_ends(
    ministack: Server,
    bucket_factory: Callable[..., str],
    end: Callable[[Job, FaultProxy], None],
    tracking: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if end is fall_silent:
        monkeypatch.setattr("magicfs.engine.STALL_TIMEOUT_S", 1.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bucket = bucket_factory(ministack, "left")
    with FaultProxy(ministack.endpoint) as proxy:
        options = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
        options["config_kwargs"] = {"retries": {"total_max_attempts": 1}, "max_pool_connections": CONCURRENCY}

        def job() -> Job:
            return Job(
                f"s3://{bucket}/sales",
                mode="append",
                concurrency=CONCURRENCY,
                storage_options=options,
                options={"tracking": tracking},
            )

        succeed(job(), proxy)  # starts what is started once for a process, such as fsspec's own thread
        start_all_threads_of_the_loop()
        threads = set(threading.enumerate())
        known = set(tracker()._scopes)  # of other tests, which leave files open on purpose
        for _ in range(2):
            end(job(), proxy)
            proxy.clear()
            gc.collect()
            assert set(threading.enumerate()) <= threads
            assert loop_tasks() == []
            assert set(tracker()._scopes) <= known
            assert list(tmp_path.iterdir()) == []
            assert sum(sockets_to(proxy.endpoint).values()) <= CONCURRENCY
        job().setup().abort()
        assert sockets_to(proxy.endpoint)["established"] >= 1, "pooled, or this test sees no sockets"
        S3FileSystem.clear_instance_cache()
        MagicFileSystem.clear_instance_cache()
        deadline = time.monotonic() + 20
        while (sockets_to(proxy.endpoint) or loop_tasks()) and time.monotonic() < deadline:
            gc.collect()  # of connections that were reset or closed the loop lets go a little later
            time.sleep(0.1)
        assert loop_tasks() == []
        assert sockets_to(proxy.endpoint) == {}
