"""What is tried with tasks: attempts that are aborted, die, run twice, or rise again."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from magicfs.errors import MagicError
from magicfs.job.task import Task
from proofs.guarantees.case import Case, Process, died_of
from proofs.guarantees.judging import commit, cut_of, left, rows, same
from proofs.guarantees.subjects import Subject

__all__ = [
    "abortable",
    "atomic",
    "observed",
    "requests",
    "requests_of_writing",
    "speculative",
    "zombie",
    "zombies",
]


def speculative(subject: Subject, variant: str) -> str | None:
    """Two attempts of one task run at once, and the engine lets one commit."""
    winner, fate = variant.split(", ")
    with Case(subject) as case:
        driver, token = case.set_up()
        workers = [case.process(), case.process()]
        attempts = [worker.task(0) for worker in workers]
        order = (0, 1) if winner == "the first wins" else (1, 0)
        for worker, attempt in zip(workers, attempts, strict=True):
            worker.write(attempt)
        best, other = (attempts[one] for one in order)
        if fate == "the other is aborted before":
            other.abort()
        try:
            commits = [best.commit()]
        except MagicError as error:
            return f"the task commit failed: {error}"
        if fate == "the other is aborted after":
            other.abort()
        task = (worker := case.process()).task(1)
        worker.write(task)
        commits.append(task.commit())
        return commit(driver, token, commits) or same(case, rows(best, task), "published")


def abortable(subject: Subject, variant: str) -> str | None:
    """An attempt is aborted, by its process, or from another one after that died."""
    with Case(subject) as case:
        driver, token = case.set_up()
        cut = None if variant == "by its process" else cut_of(variant)
        worker = case.process(cut)
        attempt = worker.task(0)
        try:
            worker.write(attempt)
            if cut is None or not cut.dies:
                attempt.abort()
        except (MagicError, OSError):
            case.forget()
        if cut is not None:
            case.forget()
            driver.call(driver.committer.abort_task, attempt.attempt_id)
        if seen := case.new_bodies():
            return f"after the abort a LIST shows {seen}"
        other = (worker := case.process()).task(1)
        worker.write(other)
        wrong = commit(driver, token, [other.commit()]) or same(case, rows(other), "published")
        return wrong or left(case)


def observed(subject: Subject, variant: str) -> str | None:
    """A reader looks before the job commits."""
    with Case(subject) as case:
        case.set_up()
        worker = case.process()
        attempt = worker.task(0)
        worker.write(attempt)
        if variant == "after the task commit":
            attempt.commit()
        return f"{variant} a LIST shows {case.new_bodies()}" if case.new_bodies() else None


def atomic(subject: Subject, variant: str) -> str | None:
    """A worker dies at a request, and the job publishes what a listing shows."""
    with Case(subject) as case:
        driver, token = case.set_up()
        worker = case.process(cut_of(variant))
        attempt = worker.task(0)
        try:
            worker.write(attempt)
            died_of(worker, attempt.commit)
        except (MagicError, OSError):
            case.forget()  # the engine was told, and lets the process go
        try:
            driver.call(driver.committer.commit_job, None, token)
        except MagicError:
            if wrong := commit(driver, token, []):
                return wrong
        found, whole = case.new_bodies(), sorted(rows(attempt))
        return None if found in ([], whole) else f"published in part: {len(found)} of {len(whole)} files"


def requests(subject: Subject) -> int:
    """How many requests a task makes, up to the end of its commit."""
    with Case(subject) as case:
        case.set_up()
        worker = case.process()
        attempt = worker.task(0)
        worker.write(attempt)
        attempt.commit()
        return worker.requests


def zombie(subject: Subject, variant: str) -> str | None:
    """An attempt that was given up goes on, and another one is published."""
    with Case(subject) as case:
        driver, token = case.set_up()
        lost, worker = case.process(), case.process()
        zombie = lost.task(0)
        lost.write(zombie, files=1)
        asleep = None
        if variant.startswith("it sleeps"):
            asleep = _falls_asleep(lost, zombie, int(variant.rpartition(" ")[2]))
        best = worker.task(0)
        worker.write(best)
        try:
            commits = [best.commit()]
            if variant == "it commits before the job":
                _rises(lost, zombie)
            driver.call(driver.committer.commit_job, commits, token)
        except MagicError as error:
            return f"the job failed of it: {error}"
        finally:
            if asleep is not None:
                lost.traffic.awake.set()
                asleep.join()
        if variant == "it commits after the job":
            _rises(lost, zombie)
        return same(case, rows(best), "after the zombie")


def _rises(lost: Process, zombie: Task) -> None:
    """A task attempt that everybody has given up goes on, to its end."""
    try:
        lost.write(zombie, "late")
        zombie.commit()
    except MagicError:
        return  # it was told, and nothing of it counts


def _falls_asleep(lost: Process, zombie: Task, request: int) -> threading.Thread:
    """It goes on, and sleeps before one of its requests."""
    lost.traffic.pause = lost.requests + request
    thread = threading.Thread(target=_rises, args=(lost, zombie))
    thread.start()
    while thread.is_alive() and not lost.traffic.asleep.wait(0.001):
        pass
    return thread


def zombies(subject: Subject) -> Iterable[str]:
    """When it goes on."""
    yield from ("it commits before the job", "it commits after the job")
    with Case(subject) as case:
        case.set_up()
        lost = case.process()
        zombie = lost.task(0)
        lost.write(zombie, files=1)
        before = lost.requests
        _rises(lost, zombie)
        number = lost.requests - before
    yield from (f"it sleeps before request {one}" for one in range(1, number + 1))


def requests_of_writing(subject: Subject) -> int:
    """How many requests a task makes until it commits."""
    with Case(subject) as case:
        case.set_up()
        worker = case.process()
        worker.write(worker.task(0))
        return worker.requests
