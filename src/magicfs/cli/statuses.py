"""What the exit status of a command means. Each has one meaning, so that scripts can go by it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Self

from magicfs.errors import (
    AuditFailed,
    CommitDenied,
    CommitError,
    CommitOutcomeUnknown,
    CommitUnfinished,
    FormatError,
    OutputExists,
    StoreError,
)
from magicfs.report import Advice


class Status(IntEnum):
    """The exit statuses, with their meanings."""

    FINE = 0, "fine"
    FOUND = 1, "something needs your decision, or `--dry-run` found something to do"
    USAGE = 2, "usage: change the call"
    STORE = 3, "the store refused or did not answer, or nothing is published under that name"
    DENIED = 4, "conflict or denied: data exists, or another job or attempt was chosen"
    UNKNOWN = 5, "outcome unknown: the store did not report the result of a commit; run `magicfs recover`"
    UNFINISHED = 6, "partly done: the message or the warnings show what is left"
    MALFORMED = 7, "a file is malformed, or of the wrong kind"
    UNSOUND = 8, "the audit failed; nothing was published"
    TASK_FAILED = 9, "the command of a task failed; nothing was uploaded"
    INTERRUPTED = 130, "interrupted"
    READER_GONE = 141, "the program reading the output exited"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Self:
        """A status is an ``int``."""
        one = int.__new__(cls, value)
        one._value_, one.meaning = value, meaning
        return one


_OF_ERRORS: Final = (
    (CommitOutcomeUnknown, Status.UNKNOWN),
    (CommitUnfinished, Status.UNFINISHED),
    ((CommitDenied, OutputExists), Status.DENIED),
    (AuditFailed, Status.UNSOUND),
    ((CommitError, StoreError), Status.STORE),
    (FormatError, Status.MALFORMED),
    (KeyboardInterrupt, Status.INTERRUPTED),
)


def exit_code(error: BaseException) -> Status:
    """The exit status that stands for an error."""
    return next((status for kind, status in _OF_ERRORS if isinstance(error, kind)), Status.USAGE)


def status_of(*, found: object, unfinished: Iterable[str] = ()) -> Status:
    """The status of something that was done, or of what was found. Advice leaves nothing to do."""
    left = any(type(one) is not Advice for one in unfinished)
    return Status.UNFINISHED if left else Status.FOUND if found else Status.FINE


def worst(statuses: Iterable[int]) -> int:
    """The status of several things: that of the first error, else whether anything was found."""
    found = list(statuses)
    return next((one for one in found if one > Status.FOUND), max(found, default=Status.FINE))
