"""What runs in the processes that are killed: a driver, its workers, and the commands of recovery.

Nothing here knows that it will be killed, and nothing but the public face of magicfs is used.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.dataset

import magicfs
from magicfs.cli import main as cli
from proofs.kill.phases import DRIVER
from proofs.kill.stores import enter, take_role

__all__ = [
    "SLOTS",
    "WORKERS",
    "CommitterName",
    "Files",
    "Order",
    "Result",
    "WorkerLost",
    "WriteMode",
    "command",
    "drive",
]

SLOTS = 2
"""Tasks that run at once."""
WORKERS = SLOTS + 1
"""Worker processes; one is there in case another is lost."""

_DAY = pyarrow.dataset.HivePartitioning(pa.schema({"day": pa.string()}))

WriteMode = Literal["error", "append", "overwrite", "overwrite_partitions"]
Tracking = Literal["store", "memory", "small"]
CommitterName = Literal["magic", "manifest", "file-v1"]
Files = Mapping[str, Sequence[str]]
"""The rows of one task, by day."""
_SMALL = 64 * 1024
"""Bytes of the largest file that rides in a bundle."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a driver is to publish, and how.

    Attributes:
        url: The destination.
        storage_options: How to reach the store; secrets are in the environment.
        mode: The mode.
        tracking: Where unfinished work is recorded; ``small``: in memory, and small files ride in bundles.
        winners: Whether the driver hands the commits of its tasks over, or has them listed.
        on_loss: Whether a task whose worker is lost is tried again, or ends the job.
        format: What the files are.
        tasks: The rows of each task.
        committer: The committer.
    """

    url: str
    storage_options: Mapping[str, Any]
    mode: WriteMode
    tracking: Tracking
    winners: Literal["engine", "listing"]
    on_loss: Literal["retry", "abort"]
    format: Literal["parquet", "text"]
    tasks: tuple[Files, ...]
    committer: CommitterName = "magic"


@dataclass(frozen=True, slots=True)
class Result:
    """How a driver ended that was not killed.

    Attributes:
        published: Whether its job was.
        lost: How many tasks lost their worker.
        said: What it says about it.
    """

    published: bool
    lost: int
    said: str


class WorkerLost(RuntimeError):
    """A worker died with a task."""


def drive(order: Order, environment: Mapping[str, str], log: str, control: Connection) -> None:
    """A driver's process: fork the workers, tell their pids, wait for a word, run the job, tell the result.

    Workers hold ``control`` open too: who waits at its other end learns when the last of them is gone.
    """
    begin(environment, log)
    workers = _fork_workers()
    control.send([process.pid for process, _ in workers])
    control.recv()
    take_role(DRIVER)
    run = _Run(order, [pipe for _, pipe in workers])
    try:
        job = magicfs.Job(
            order.url,
            committer=order.committer.removesuffix("-v1"),
            mode=order.mode,
            storage_options=order.storage_options,
            options={
                "tracking": "store" if order.tracking == "store" else "memory",
                "small_files": _SMALL if order.tracking == "small" else None,
            },
        )
        with job:
            run.tasks(job)
            if order.winners == "listing":
                job.commit()
        result = Result(published=True, lost=run.lost, said=str(job.report))
    except Exception as error:  # noqa: BLE001 - whatever a job ends with is the result
        notes = getattr(error, "__notes__", ())
        result = Result(published=False, lost=run.lost, said="\n".join([repr(error), *notes]))
    control.send(result)
    for process, _ in workers:
        process.join()


def command(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """A process that is ``magicfs ARGUMENTS``; all it says goes to the log."""
    begin(environment, log)
    sys.exit(cli.main(list(arguments)))


class _Run:
    """The tasks of one job, on worker processes that may die."""

    def __init__(self, order: Order, workers: Sequence[Connection]) -> None:
        self._order = order
        self._idle = deque(workers)
        self._busy: dict[Connection, int] = {}
        self._waiting = deque(range(len(order.tasks)))
        self.lost = 0

    def tasks(self, job: magicfs.Job) -> None:
        """Run every task; on return all workers have been let go."""
        try:
            while self._waiting or self._busy:
                self._hand_out(job)
                for ready in wait(list(self._busy)):
                    assert isinstance(ready, Connection)
                    self._take(job, ready)
        finally:
            for pipe in (*self._idle, *self._busy):
                pipe.close()

    def _hand_out(self, job: magicfs.Job) -> None:
        while self._waiting and self._idle and len(self._busy) < SLOTS:
            pipe, task = self._idle.popleft(), self._waiting.popleft()
            self._busy[pipe] = task
            # One that is dead already is noticed by what cannot be read from it.
            with suppress(ConnectionError):
                pipe.send((job.task(task), self._order.tasks[task], self._order.format))

    def _take(self, job: magicfs.Job, pipe: Connection) -> None:
        task = self._busy.pop(pipe)
        try:
            answer = pipe.recv()
        except (EOFError, ConnectionError):
            pipe.close()
            self.lost += 1
            if self._order.on_loss == "abort" or not (self._idle or self._busy):
                answer = WorkerLost(f"task {task} lost its worker")
            else:
                self._waiting.appendleft(task)
                return
        else:
            self._idle.appendleft(pipe)
        if isinstance(answer, Exception):
            raise answer
        if self._order.winners == "engine":
            job.add(answer)


def _fork_workers() -> list[tuple[Any, Connection]]:
    # This process was forked a moment ago and has no threads yet.
    context = multiprocessing.get_context("fork")
    workers: list[tuple[Any, Connection]] = []
    for number in range(WORKERS):
        ours, theirs = context.Pipe()
        inherited = [ours, *(pipe for _, pipe in workers)]
        process = context.Process(target=_serve, args=(theirs, f"worker-{number}", inherited))
        process.start()
        theirs.close()
        workers.append((process, ours))
    return workers


def _serve(pipe: Connection, role: str, inherited: Sequence[Connection]) -> None:
    """A worker's process: do what the pipe says until its other end is gone."""
    take_role(role)
    for other in inherited:
        other.close()
    while True:
        try:
            task, files, form = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            with task:
                _WRITERS[form](task, files)
            answer: object = task.committed
        except Exception as error:  # noqa: BLE001 - raised in the driver
            answer = error
        try:
            pipe.send(answer)
        except ConnectionError:
            return


def _write_parquet(task: magicfs.Task, files: Files) -> None:
    rows = [(day, row) for day, found in files.items() for row in found]
    table = pa.table({"day": [day for day, _ in rows], "row": [row for _, row in rows]})
    pyarrow.dataset.write_dataset(
        table, task.path, filesystem=task.filesystem, format="parquet", partitioning=_DAY
    )


def _write_text(task: magicfs.Task, files: Files) -> None:
    for day, rows in files.items():
        with task.filesystem.open(f"{task.path}/day={day}/rows.txt", "wb") as file:
            file.write("".join(f"{row}\n" for row in rows).encode())


_WRITERS: Mapping[str, Callable[[magicfs.Task, Files], None]] = {
    "parquet": _write_parquet,
    "text": _write_text,
}


def begin(environment: Mapping[str, str], log: str) -> None:
    """Take on the environment, and write to the log in place of the terminal."""
    enter(environment)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
