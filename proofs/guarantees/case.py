"""One job of a committer under trial: its processes, its attempts, and what a reader sees of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import magicfs
from magicfs.classic.tracking import final_tracker
from magicfs.committers.base import Committer
from magicfs.errors import MagicError
from magicfs.filesystem.tracking import tracker
from magicfs.formats.success import SUCCESS_FILE, SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.spec import JobSpec
from magicfs.job.task import Task
from magicfs.protocol import ids
from magicfs.testing.store_faults import Actor, Fault, Kind, Request
from proofs.guarantees.ground import DESTINATION, Dead, Ground, MortalTraffic, traffic_of, visible
from proofs.guarantees.subjects import Subject

__all__ = ["OLD", "Case", "Cut", "Process", "cuts_of", "died_of", "row"]

OLD = {"day=1/old.csv": b"old\n"}
"""What lies at the destination before."""

_KINDS = {
    (True, False): Kind.CRASH_BEFORE,
    (True, True): Kind.CRASH_AFTER,
    (False, False): Kind.ERROR_BEFORE,
    (False, True): Kind.REPLY_LOST,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a process dies: at a request of its own, before or after the store does it.

    Attributes:
        number: The request.
        after: Whether the store does it.
        dies: Whether the process dies of it; otherwise the request, or its reply, is lost.
    """

    number: int
    after: bool
    dies: bool = True

    @property
    def fault(self) -> Fault:
        """The fault that does it."""
        return Fault(_KINDS[self.dies, self.after], number=self.number)

    def __str__(self) -> str:
        return f"{'cut' if self.dies else 'loss'} {'after' if self.after else 'before'} {self.number}"


@dataclass
class Process:
    """One process: its way to the store, and how many requests it has made.

    Attributes:
        case: The job.
        spec: The job as the process knows it.
        actor: Dead once it has died.
        traffic: Its requests.
    """

    case: Case
    spec: JobSpec
    actor: Actor
    traffic: MortalTraffic

    @property
    def requests(self) -> int:
        """How many requests it has made."""
        return self.traffic.count

    @property
    def died(self) -> bool:
        """Whether it has died."""
        return self.actor.dead

    @property
    def committer(self) -> Committer:
        """The committer, bound to this process."""
        return self.spec.make_committer()

    def call(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Call a coroutine of the committer; None if the process died of it.

        Raises:
            MagicError: What it raised, if the process lives.
        """
        from fsspec.asyn import sync

        try:
            result = sync(self.spec.loop, work, *args)
        except Dead:
            return None
        except Exception:
            if self.died:
                return None
            raise
        return None if self.died else result

    def task(self, number: int) -> Task:
        """A new attempt of a task in this process."""
        return Task(self.spec, ids.task_id(number)).setup()

    def write(self, task: Task, mark: str = "", files: int = 2) -> None:
        """Write some files; their content tells task, attempt and file."""
        for one in range(files):
            try:
                task.filesystem.pipe_file(f"{task.path}/day={one % 2}/part-{one}.csv", row(task, one, mark))
            except Exception:
                if not self.died:
                    raise
                return


def row(task: Task, number: int, mark: str = "") -> bytes:
    """What an attempt writes into a file."""
    return f"{task.id} {task.attempt_id} {number} {mark}\n".encode()


@dataclass
class Case:
    """A job at a destination that may hold old data.

    Attributes:
        subject: The committer.
        ground: Where.
        job_id: The job.
    """

    subject: Subject
    old: bool = True
    ground: Ground = field(init=False)
    job_id: str = field(init=False)
    _processes: int = 0

    def __enter__(self) -> Self:
        self.ground = self.subject.ground()
        self.job_id = str(uuid4())
        if self.old:
            for name, body in OLD.items():
                self.ground.write(f"{DESTINATION}/{name}", body)
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        self.ground.close()

    def forget(self) -> None:
        """Let go of what one process remembers and others do not know: all of a case run in this one."""
        tracker().forget("")
        final_tracker().clear()

    def process(
        self, cut: Cut | None = None, *, attempt: int = 0, after: Callable[[Request], None] | None = None
    ) -> Process:
        """A new process of the job, which may die."""
        self._processes += 1
        actor = Actor(f"process {self._processes}")
        traffic = traffic_of([cut.fault] if cut else [], after)
        options = dict(self.subject.options)
        if self.subject.committer in {"directory", "partitioned"}:
            options["work_directory"] = str(self.ground.directory)
        job = magicfs.Job(
            self.ground.url,
            committer=self.subject.committer,
            mode="append",
            filesystem=self.ground.filesystem(traffic, actor),
            job_id=self.job_id,
            concurrency=1,
            options={**options, "attempt": attempt},
        )
        return Process(self, job.spec, actor, traffic)

    def set_up(self) -> tuple[Process, str]:
        """A driver, and its token."""
        driver = self.process()
        return driver, driver.call(driver.committer.setup_job).driver

    def committed(self, number: int, process: Process | None = None) -> TaskCommit:
        """Run a task in a process of its own."""
        worker = process or self.process()
        task = worker.task(number)
        worker.write(task)
        return task.commit()

    def bodies(self) -> list[bytes]:
        """The contents of what a LIST shows, sorted."""
        return sorted(visible(self.ground.objects()).values())

    def new_bodies(self) -> list[bytes]:
        """The same without what was there before."""
        return [one for one in self.bodies() if one not in OLD.values()]

    def success(self) -> str | None:
        """The job that ``_SUCCESS`` names; None if there is none."""
        raw = self.ground.objects().get(f"{DESTINATION}/{SUCCESS_FILE}")
        return None if raw is None else SuccessData.from_bytes(SUCCESS_FILE, raw).job_id

    def work(self) -> list[str]:
        """Keys of everything below the destination that a reader does not take for data."""
        objects = self.ground.objects()
        shown = {f"{DESTINATION}/{name}" for name in visible(objects)}
        return [key for key in objects if key.startswith(f"{DESTINATION}/") and key not in shown]


def died_of(process: Process, work: Callable[[], Any]) -> Any:
    """Do something at the face; None if the process died of it."""
    try:
        result = work()
    except (Dead, MagicError):
        if not process.died:
            raise
        return None
    return None if process.died else result


def cuts_of(requests: int, *, losses: bool = False) -> Sequence[Cut]:
    """Both sides of every request; with ``losses`` also the request and its reply lost."""
    return [
        Cut(number, after, dies)
        for dies in ((True, False) if losses else (True,))
        for number in range(1, requests + 1)
        for after in (False, True)
    ]
