"""What another process may do about a job whose driver has died while it committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fsspec.asyn import sync

from magicfs.datasets import recover_jobs
from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.protocol.paths import parse_url
from proofs.guarantees.case import Case

__all__ = ["CURES", "apply"]


def _recover(case: Case) -> None:
    """``magicfs recover``, and for a job that is open ``magicfs recover --abort``."""
    spec = case.process().spec
    engine, place = Engine(spec.store(), 1), parse_url(case.ground.url)
    report = sync(spec.loop, recover_jobs, engine, place)
    if report.undecided:
        sync(spec.loop, lambda: recover_jobs(engine, place, abort=True))


def _second_attempt(case: Case) -> None:
    """The engine starts the driver again, which takes what tasks have committed."""
    driver = case.process(attempt=1)
    token = driver.call(driver.committer.setup_job).driver
    driver.call(driver.committer.commit_job, driver.call(driver.committer.recover_tasks), token)


def _listing(case: Case) -> None:
    """Somebody commits what a listing shows."""
    driver = case.process()
    driver.call(driver.committer.commit_job, None, None, 2)


def _abort(case: Case) -> None:
    """Somebody aborts the job, of which only the id is known."""
    driver = case.process()
    driver.call(driver.committer.abort_job, ())


CURES: Final[dict[str, Callable[[Case], None]]] = {
    "recover": _recover,
    "a second attempt": _second_attempt,
    "a commit of what is listed": _listing,
    "an abort": _abort,
}


def apply(cure: str, case: Case) -> str | None:
    """Try one; what it said against it."""
    try:
        CURES[cure](case)
    except MagicError as error:
        return f"{cure}: {error}"
    return None
