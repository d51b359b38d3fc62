"""What is tried with jobs: drivers that abort, die while they commit, and are replaced."""

from __future__ import annotations

from magicfs.errors import MagicError
from magicfs.formats.task_commit import TaskCommit
from proofs.guarantees import cures, watching
from proofs.guarantees.case import Case, Cut, Process
from proofs.guarantees.ground import visible
from proofs.guarantees.judging import commit, cut_of, rows, same
from proofs.guarantees.subjects import Subject

__all__ = ["abortable", "atomic", "recoverable", "repeatable", "requests", "survives"]


def recoverable(subject: Subject, _variant: str) -> str | None:
    """A second attempt of a job takes what a task committed in the first, and publishes it."""
    with Case(subject) as case:
        case.set_up()
        first = (worker := case.process()).task(0)
        worker.write(first)
        first.commit()
        second = case.process(attempt=1)
        token = second.call(second.committer.setup_job).driver
        try:
            commits = second.call(second.committer.recover_tasks)
        except MagicError as error:
            return f"refused: {error}"
        other = (worker := case.process(attempt=1)).task(1)
        worker.write(other)
        commits = [*commits, other.commit()]
        return commit(second, token, commits) or same(case, rows(first, other), "published")


def abortable(subject: Subject, variant: str) -> str | None:
    """A job is aborted before its commit; the bucket is to be as it was."""
    with Case(subject) as case:
        before = case.ground.objects()
        driver, token = case.set_up()
        commits = [case.committed(0)]
        if variant == "with a task that has not committed":
            worker = case.process()
            worker.write(worker.task(1))
        elif variant == "with a commit that nobody was told of":
            case.committed(1)
        case.forget()
        driver.call(driver.committer.abort_job, commits, token)
        if case.ground.objects() != before or case.ground.uploads():
            changed = sorted(set(case.ground.objects()) ^ set(before))
            return f"after the abort: {changed} {case.ground.uploads()}"
        return None


def atomic(subject: Subject, variant: str) -> str | None:
    """A reader looks after every request of a job, and is to see all of it or nothing."""
    seen = watching.every_moment(subject)
    if seen.problem:
        return seen.problem
    for number, objects in enumerate(seen.moments):
        if variant == "a LIST":
            found = sorted(visible(objects).values())
        else:
            read = watching.as_manifests_say(subject, objects)
            if read is None:
                return "there are no manifests"
            found = sorted(read)
        if found not in ([], sorted(seen.new)):
            return f"after request {number} a reader sees {len(found)} files"
    return None


def _committing(
    subject: Subject, cut: Cut | None
) -> tuple[Case, Process, str, list[TaskCommit], list[bytes]]:
    """A job of two tasks whose driver has died while it committed."""
    case = Case(subject)
    case.__enter__()
    _, token = case.set_up()
    attempts = []
    for number in range(2):
        worker = case.process()
        attempt = worker.task(number)
        worker.write(attempt)
        attempts.append(attempt)
    commits = [attempt.commit() for attempt in attempts]
    case.forget()
    driver = case.process(cut)
    try:
        driver.call(driver.committer.commit_job, commits, token)
    except MagicError:
        if cut is None or cut.dies:
            raise
    return case, driver, token, commits, rows(*attempts)


def requests(subject: Subject) -> int:
    """How many requests a job commit makes."""
    case, driver, *_ = _committing(subject, None)
    case.__exit__()
    return driver.requests


def repeatable(subject: Subject, variant: str) -> str | None:
    """A driver dies while it commits; the same call is made again, from another process."""
    case, _, token, commits, rows = _committing(subject, cut_of(variant))
    try:
        return commit(case.process(), token, commits) or same(case, rows, "published")
    finally:
        case.__exit__()


def survives(subject: Subject, variant: str) -> str | None:
    """A driver dies while it commits; one of the cures is to give exactly old or exactly new."""
    wrong = []
    for cure in cures.CURES:
        case, *_, rows = _committing(subject, cut_of(variant))
        try:
            problem = cures.apply(cure, case)
            # A job that is published says so, and one that is not does not.
            told = case.success() == case.job_id
            seen = same(case, rows if told else [], cure)
            if problem is None and seen is None:
                return None
            wrong.append(problem or seen or "")
        finally:
            case.__exit__()
    return "; ".join(wrong)
