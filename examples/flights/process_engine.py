"""The main job without Java: the same joins by pandas, on processes, one of which is killed."""

from __future__ import annotations

import multiprocessing
import queue
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset

from examples.flights import delays, flights
from examples.flights.proof import Attempts
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task

__all__ = ["MONTHS", "PARTITIONING", "Runner", "is_worker", "joined_flights"]

MONTHS = range(1, 13)
"""Each month is a task."""

_PARTITION_COLUMNS: dict[str, pa.DataType] = {"month": pa.int64(), "carrier": pa.string()}
PARTITIONING = pyarrow.dataset.HivePartitioning(pa.schema(_PARTITION_COLUMNS))

_SLOTS = 2
_ATTEMPTS = 4


class Runner:
    """Runs the tasks on two processes. A task whose process dies is tried again in a new one.

    ``on_progress``: called with how many tasks are done, and of how many.
    """

    def __init__(self, job: Job, files: Mapping[str, Path], on_progress: Callable[[int, int], None]) -> None:
        self._job = job
        self._files = tuple(sorted(files.items()))
        self._on_progress = on_progress
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._commits: list[TaskCommit] = []
        self._lost: list[tuple[int, int]] = []
        self._retried = 0

    @property
    def attempts(self) -> Attempts:
        """What became of the attempts."""
        return Attempts(tuple(self._lost), self._retried)

    def attempts_lost(self) -> int:
        """How many attempts have lost their process so far."""
        return len(self._lost)

    def run(self) -> list[TaskCommit]:
        """Run every task; returns the commits of those attempts that lived.

        Raises BrokenProcessPool if a task lost its process in every attempt.
        """
        for month in MONTHS:
            self._waiting.put(month)
        with ThreadPoolExecutor(_SLOTS, thread_name_prefix="magicfs-demo-slot") as slots:
            for slot in [slots.submit(self._work) for _ in range(_SLOTS)]:
                slot.result()
        return self._commits

    def _work(self) -> None:
        workers = _one_worker()
        try:
            while (task := self._next()) is not None:
                for attempt in range(_ATTEMPTS):
                    self._retried += attempt > 0
                    try:
                        arguments = (self._job.task(task), self._files)
                        self._commits.append(workers.submit(_write_month, *arguments).result())
                        break
                    except BrokenProcessPool:
                        self._lost.append((task, attempt))
                        workers.shutdown()
                        if attempt == _ATTEMPTS - 1:
                            raise
                        workers = _one_worker()
                self._on_progress(len(self._commits), len(MONTHS))
        finally:
            workers.shutdown()

    def _next(self) -> int | None:
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            return None


def is_worker(command_line: str) -> bool:
    """Whether a command line is that of a process which runs tasks."""
    return command_line.endswith("--multiprocessing-fork")


def joined_flights(files: Mapping[str, Path]) -> pd.DataFrame:
    """Every flight once, with its weather, its plane and its delay explained."""
    departures, weather, planes = (
        flights.read(table, files[table.file]).to_pandas(types_mapper=pd.ArrowDtype)
        for table in flights.TABLES
    )
    joined = departures.merge(weather, how="left", on=["origin", "time_hour"], validate="many_to_one")
    joined = joined.merge(planes, how="left", on=["tailnum"], validate="many_to_one")
    return pd.concat([joined, delays.explain(joined)], axis="columns")


def _one_worker() -> ProcessPoolExecutor:
    # A pool of several would lose all of their tasks with one of its processes.
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _write_month(task: Task, files: tuple[tuple[str, Path], ...]) -> TaskCommit:
    frame = _joined_once(files)
    table = pa.Table.from_pandas(frame[frame["month"] == int(task.id)], preserve_index=False)
    with task:
        pyarrow.dataset.write_dataset(
            table, task.path, filesystem=task.filesystem, format="parquet", partitioning=PARTITIONING
        )
        return task.commit()


@cache
def _joined_once(files: tuple[tuple[str, Path], ...]) -> pd.DataFrame:
    return joined_flights(dict(files))
