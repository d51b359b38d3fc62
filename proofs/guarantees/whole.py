"""Whole jobs as engines run them, one request of one process cut: what the crash loops add to the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from magicfs.errors import CommitDenied, CommitOutcomeUnknown, MagicError
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.task import Task
from proofs.guarantees.case import Case, Cut, Process, cuts_of, died_of
from proofs.guarantees.judging import commit, cut_of, left, rows, same
from proofs.guarantees.subjects import Subject

__all__ = ["STEPS", "aborted", "finished", "restarted", "variants_of"]

STEPS: Final = ("setup", "loser", "task 0", "task 1")
"""Before the job commit. The loser is an attempt of task 0 that the engine aborts."""


class _JobFailed(Exception):
    """A task died in a commit that cannot be repeated."""


class _Cut(Exception):
    """The job ends at its cut."""


@dataclass
class _Whole:
    """One job.

    Attributes:
        case: Where.
        step: Whose request is cut; empty for none.
        cut: Which.
        stops: Whether everybody dies at the end of that step.
        token: The driver's.
        driver: The driver.
        commits: What the engine accepted.
        winners: The attempts that it accepted.
        attempts: All of them, by their ids.
        requests: How many each step has made.
        written: How many a task makes until it commits.
        number: Of the job's attempt.
    """

    case: Case
    step: str = ""
    cut: Cut | None = None
    stops: bool = False
    token: str = ""
    driver: Process = field(init=False)
    commits: list[TaskCommit] = field(default_factory=list)
    winners: list[Task] = field(default_factory=list)
    attempts: dict[str, Task] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    written: int = 0
    number: int = 0

    def run(self) -> None:
        """All that comes before the job commit.

        Raises:
            _JobFailed: The job cannot be committed any more.
            _Cut: The step was cut, and nobody goes on.
        """
        self._set_up()
        self._lose()
        for number in range(2):
            self._commit(number)

    def process(self, step: str) -> Process:
        """Who does a step."""
        return self.case.process(self.cut if step == self.step else None, attempt=self.number)

    def again(self) -> Process:
        """Who does a step once more."""
        return self.case.process(attempt=self.number)

    def end(self, step: str, process: Process) -> None:
        """Note the end of a step.

        Raises:
            _Cut: It was the last.
        """
        self.requests[step] = process.requests
        if self.stops and step == self.step:
            self.case.forget()
            raise _Cut(step)

    def _set_up(self) -> None:
        self.driver = driver = self.process("setup")
        try:
            setup = driver.call(driver.committer.setup_job)
        except MagicError:
            setup = None
        self.end("setup", driver)
        if setup is None:
            self.driver = driver = self.again()
            try:
                setup = driver.call(driver.committer.setup_job)
            except CommitDenied:  # it was set up, and that driver may be alive: as told, the next attempt
                self.number = 1
                self.driver = driver = self.again()
                setup = driver.call(driver.committer.setup_job)
        self.token = setup.driver

    def _lose(self) -> None:
        worker = self.process("loser")
        attempt = self._attempt(worker, 0)
        try:
            worker.write(attempt)
            died_of(worker, attempt.abort)
        except (MagicError, OSError):
            self._discard(worker, attempt)
        self.end("loser", worker)
        if worker.died:
            self._discard(worker, attempt)

    def _commit(self, number: int) -> None:
        """Run a task; once more, if its first attempt fails."""
        step = f"task {number}"
        worker = self.process(step)
        attempt = self._attempt(worker, number)
        found = self._committed(worker, attempt)
        self.end(step, worker)
        if found is None:
            if attempt.began_commit and not worker.committer.is_task_commit_repeatable:
                raise _JobFailed(step)
            self._discard(worker, attempt)
            worker = self.again()
            attempt = self._attempt(worker, number)
            worker.write(attempt)
            found = attempt.commit()
        self.commits.append(found)
        self.winners.append(attempt)

    def _committed(self, worker: Process, attempt: Task) -> TaskCommit | None:
        try:
            worker.write(attempt)
            self.written = worker.requests
            if worker.died:
                return None
            try:
                return died_of(worker, attempt.commit)  # type: ignore[no-any-return]
            except CommitOutcomeUnknown:
                return attempt.commit()
        except (MagicError, OSError):
            return None

    def _attempt(self, worker: Process, number: int) -> Task:
        attempt = worker.task(number)
        self.attempts[attempt.attempt_id] = attempt
        return attempt

    def _discard(self, worker: Process, attempt: Task) -> None:
        """As an engine does: the attempt's process aborts it, or, if that is gone, the driver."""
        if not worker.died:
            try:
                attempt.abort()
            except MagicError:
                pass
            else:
                return
        self.case.forget()
        self.driver.call(self.driver.committer.abort_task, attempt.attempt_id)


def variants_of(subject: Subject, *steps: str) -> Iterator[str]:
    """Every request of some steps, lost and cut on both sides.

    Args:
        subject: The committer.
        steps: Any of ``STEPS``, ``abort``, and the parts ``task 0: writing`` and ``task 0: commit``.
    """
    with Case(subject) as case:
        whole = _Whole(case)
        whole.run()
        whole.requests["abort"] = _abort(whole, None).requests
    for step in steps:
        name, _, part = step.partition(": ")
        first, last = 1, whole.requests[name]
        if part == "writing":
            last = whole.written
        elif part == "commit":
            first = whole.written + 1
        for cut in cuts_of(last, losses=True):
            if cut.number >= first:
                yield f"{name}, {cut}"


def finished(subject: Subject, variant: str) -> str | None:
    """The engine goes on after the cut, and publishes the job."""
    step, _, cut = variant.partition(", ")
    with Case(subject) as case:
        whole = _Whole(case, step, cut_of(cut))
        try:
            whole.run()
        except _JobFailed as failed:
            return f"{failed} cannot be committed any more"
        driver = whole.again()
        wrong = commit(driver, whole.token, whole.commits)
        return wrong or same(case, rows(*whole.winners), "published") or left(case)


def aborted(subject: Subject, variant: str) -> str | None:
    """The job ends at the cut, and somebody aborts it; the bucket is to be as it was."""
    step, _, cut = variant.partition(", ")
    with Case(subject) as case:
        before = case.ground.objects()
        whole = _Whole(case, step, cut_of(cut), stops=True)
        try:
            whole.run()
        except _Cut:
            pass
        else:
            _abort(whole, whole.cut)
        _abort(whole, None)
        if case.ground.objects() != before or case.ground.uploads():
            changed = sorted(set(case.ground.objects()) ^ set(before))
            return f"after the abort: {changed} {case.ground.uploads()}"
        return None


def _abort(whole: _Whole, cut: Cut | None) -> Process:
    whole.case.forget()
    driver = whole.case.process(cut, attempt=whole.number)
    try:
        driver.call(driver.committer.abort_job, whole.commits)
    except MagicError:
        if cut is None:
            raise
    return driver


def restarted(subject: Subject, variant: str) -> str | None:
    """The job ends at the cut, and a second attempt of it publishes what was committed, and runs the rest."""
    step, _, cut = variant.partition(", ")
    with Case(subject) as case:
        whole = _Whole(case, step, cut_of(cut), stops=True)
        with suppress(_Cut):
            whole.run()
        driver = case.process(attempt=1)
        token = driver.call(driver.committer.setup_job).driver
        try:
            commits = driver.call(driver.committer.recover_tasks)
        except MagicError as error:
            return f"refused: {error}"
        published = [whole.attempts[one.attempt_id] for one in commits]
        for number in range(2):
            if any(one.id == f"{number:06d}" for one in published):
                continue
            worker = case.process(attempt=1)
            attempt = worker.task(number)
            worker.write(attempt)
            commits = [*commits, attempt.commit()]
            published.append(attempt)
        return commit(driver, token, commits) or same(case, rows(*published), "published") or left(case)
