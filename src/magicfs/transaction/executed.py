"""What became of a job that somebody brought to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from magicfs.errors import MagicError
from magicfs.transaction.output import JobOutput

__all__ = ["JobEnd", "JobOutcome"]


class JobEnd(Enum):
    """How a job ended."""

    PUBLISHED = "published"
    REVERTED = "reverted"
    ABORTED = "aborted"
    ELSEWHERE = "ended by another process"


@dataclass(slots=True)
class JobOutcome:
    """What an execution did.

    Attributes:
        ending: How the job ended.
        output: Its files, if they were read.
        aborted: Uploads that were discarded.
        unlisted: Why uploads that nothing records could not be looked for; None if they were.
        deleted: Old files that were removed.
        warnings: Troubles after the files were published; ``recover`` finishes what is left.
        failure: Why a job that could not be published was taken back.
        lists: Keys that were done, failed and not started then.
    """

    ending: JobEnd = JobEnd.ELSEWHERE
    output: JobOutput = field(default_factory=JobOutput)
    aborted: int = 0
    unlisted: MagicError | None = None
    deleted: int = 0
    warnings: list[str] = field(default_factory=list)
    failure: Exception | None = None
    lists: dict[str, list[str]] = field(default_factory=dict)
