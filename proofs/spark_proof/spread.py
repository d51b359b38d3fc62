"""The job commit of many files, by the driver and by the executors, where a store takes its time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import magicfs
from magicfs.formats.task_commit import TaskCommit
from magicfs.report import JobReport
from magicfs.spark.executor_commit import commit
from magicfs.testing.fault_proxy import Action, FaultProxy, Rule
from proofs.doubles.servers import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run"]

_TASKS = 8
_EXECUTORS = 2
_COMPLETE_SECONDS = 0.5
"""A store takes so long for an upload of some parts; those here on loopback take no time to speak of."""


def run(
    spark: SparkSession, server: Server, rounds: int, files: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Commit jobs by either side in turn; returns the ratio of medians.

    Args:
        spark: A session of two cores.
        server: The store.
        rounds: How often each side is measured.
        files: How many files a job has, rounded to a multiple of the tasks.
        say: Told the medians.

    Raises:
        RuntimeError: A job did not publish all its files, or the executors left some to the driver.
    """
    each = max(files // _TASKS, 1)
    with FaultProxy(server.endpoint) as proxy:
        proxy.add(Rule("CompleteMultipartUpload", Action.DELAY, seconds=_COMPLETE_SECONDS))
        storage = server.storage_options() | {"endpoint_url": proxy.endpoint}
        url = f"s3://{server.create_bucket('spread')}"

        def on_executors(job: magicfs.Job, commits: list[TaskCommit]) -> JobReport:
            share = -(-each * _TASKS // _EXECUTORS)
            return commit(job, commits, spark=spark, files_per_task=share, storage_options=storage)

        def on_the_driver(job: magicfs.Job, commits: list[TaskCommit]) -> JobReport:
            return job.commit(commits)

        seconds: dict[str, list[float]] = {"driver": [], "executors": []}
        for number in range(rounds):
            for name, side in (("driver", on_the_driver), ("executors", on_executors)):
                job = magicfs.Job(
                    f"{url}/{name}-{number}", storage_options=storage, tracking="memory"
                ).setup()
                commits = _written(job, each)
                started = time.perf_counter()
                report = side(job, commits)
                seconds[name].append(time.perf_counter() - started)
                if report.files != each * _TASKS or report.warnings:
                    raise RuntimeError(f"{name}: {report}")
    driver, executors = (statistics.median(seconds[name]) for name in ("driver", "executors"))
    say(
        f"{each * _TASKS} files of a store that takes {_COMPLETE_SECONDS} s to complete one: job commit by "
        f"the driver {driver:.2f} s, by {_EXECUTORS} executors {executors:.2f} s"
    )
    return {"ratio_commit_on_executors": round(executors / driver, 3)}


def _written(job: magicfs.Job, each: int) -> list[TaskCommit]:
    def written(task: magicfs.Task) -> TaskCommit:
        with task:
            for number in range(each):
                task.filesystem.pipe_file(f"{task.path}/part-{number:05d}.bin", b"x")
        assert task.committed is not None
        return task.committed

    with ThreadPoolExecutor(_TASKS) as pool:
        return list(pool.map(written, [job.task(number) for number in range(_TASKS)]))
