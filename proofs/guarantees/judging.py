"""Holding what a reader sees against what was to be published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from magicfs.errors import MagicError
from magicfs.formats.task_commit import TaskCommit
from proofs.guarantees.case import OLD, Case, Cut, Process, row

__all__ = ["FILES", "commit", "cut_of", "left", "rows", "same"]

FILES: Final = 2
"""How many files a task writes."""


def same(case: Case, wanted: Iterable[bytes], when: str) -> str | None:
    """What is wrong with what a LIST shows; None if it is what was there before and the given."""
    found, expected = case.bodies(), sorted([*OLD.values(), *wanted])
    if found == expected:
        return None
    missing = [one.decode().strip() for one in expected if one not in found]
    surplus = [one.decode().strip() for one in found if one not in expected]
    return f"{when}: missing {missing}, not expected {surplus}"


def rows(*tasks: object) -> list[bytes]:
    """The contents of all files of some attempts."""
    return [row(task, one) for task in tasks for one in range(FILES)]  # type: ignore[arg-type]


def commit(driver: Process, token: str, commits: list[TaskCommit]) -> str | None:
    """Commit a job; what was said against it."""
    try:
        driver.call(driver.committer.commit_job, commits, token)
    except MagicError as error:
        return f"the job commit failed: {error}"
    return None


def cut_of(variant: str) -> Cut:
    """The cut that a variant names."""
    how, side, number = variant.split(" ")
    return Cut(int(number), side == "after", dies=how == "cut")


def left(case: Case) -> str | None:
    """What a job has left that has ended; None if that is nothing."""
    found = [key for key in case.work() if "/_magicfs/" not in key and not key.endswith("/_SUCCESS")]
    if found or case.ground.uploads():
        return f"left over: {found} {case.ground.uploads()}"
    return None
