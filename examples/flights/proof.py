"""What was seen, and whether it proves what it should."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from examples.flights.fingerprint import Fingerprint
from examples.flights.readback import PublishedDataset
from examples.flights.victim import Killed
from examples.flights.watcher import Watcher

__all__ = ["LOOKS_MIN", "Attempts", "Publication", "Report"]

LOOKS_MIN = 20


@dataclass(frozen=True, slots=True)
class Attempts:
    """What an engine itself has seen of its task attempts."""

    killed: tuple[tuple[int, int], ...]  # task and attempt number of each that lost its process
    retried: int  # how many were not the first of their task

    def of_task(self, task: int) -> int | None:
        """The number of the attempt of a task that lost its process; None if there is none."""
        return next((attempt for index, attempt in self.killed if index == task), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One dataset that was published."""

    how: str
    expected: Fingerprint
    found: PublishedDataset
    looks: int  # how often the destination was looked at before the job commit
    visible_before_commit: int  # the most keys that a look saw then
    pending_before_commit: int  # the most pending uploads that a look saw then
    saw_all: bool  # whether one looked after the last task had ended
    pending_after: int

    @classmethod
    def seen(
        cls, how: str, expected: Fingerprint, found: PublishedDataset, watcher: Watcher, pending_after: int
    ) -> Publication:
        """Put together what a watcher saw before, and a reader afterwards."""
        return cls(
            how=how,
            expected=expected,
            found=found,
            looks=watcher.looks,
            visible_before_commit=watcher.visible_before_commit,
            pending_before_commit=watcher.pending_before_commit,
            saw_all=watcher.saw_all,
            pending_after=pending_after,
        )

    @property
    def content_equal(self) -> bool:
        """Whether the reader found exactly the rows of the input."""
        return self.found.content == self.expected

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "rows_in": self.expected.rows,
            "rows_out": self.found.content.rows,
            "content_equal": self.content_equal,
            "files": self.found.files,
            "looks": self.looks,
            "visible_before_commit": self.visible_before_commit,
            "pending_before_commit": self.pending_before_commit,
            "pending_after": self.pending_after,
        }

    def failures(self) -> Iterator[str]:
        """What is not proven, in words."""
        if not self.content_equal:
            yield f"{self.how}: {self.found.content} were read, and {self.expected} were written"
        if self.visible_before_commit:
            yield f"{self.how}: {self.visible_before_commit} files were visible before the job commit"
        if self.pending_before_commit < (self.found.files if self.saw_all else 1):
            yield (
                f"{self.how}: {self.pending_before_commit} uploads were pending before the job commit, "
                f"fewer than the {self.found.files} files"
            )
        if self.pending_after:
            yield f"{self.how}: {self.pending_after} uploads are still pending after the job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole demo."""

    engine: str  # ``spark`` or ``processes``
    engine_reason: str  # why it is not Spark; empty if it is, or was not asked for
    server: Mapping[str, object]  # name, version and process of the S3 server
    main: Publication
    killed: Killed | None
    attempts: Attempts
    also: tuple[Publication, ...] = field(default=())
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        failures = self.failures()
        return {
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "server": dict(self.server),
            **self.main.to_dict(),
            "killed": self._killed(),
            "killed_attempts": len(self.attempts.killed),
            "retried_attempts": self.attempts.retried,
            "also": [{"how": one.how, **one.to_dict()} for one in self.also],
            "seconds": round(self.seconds, 1),
            "ok": not failures,
            "failures": failures,
        }

    def failures(self) -> list[str]:
        """What is not proven, in words; empty if everything is."""
        failures = [failure for one in (self.main, *self.also) for failure in one.failures()]
        if self.main.looks < LOOKS_MIN:
            failures.append(
                f"the destination was looked at {self.main.looks} times before the job commit; "
                f"{LOOKS_MIN} are needed"
            )
        if self.killed is None:
            failures.append("no worker could be killed while it was writing")
        elif self.attempts.of_task(self.killed.task) is None:
            failures.append(
                f"{self.engine} lost no attempt of task {self.killed.task}, whose worker was killed"
            )
        if not self.attempts.retried:
            failures.append(f"{self.engine} retried no task")
        return failures

    def _killed(self) -> dict[str, object] | None:
        if self.killed is None:
            return None
        return {
            "task": self.killed.task,
            "attempt": self.attempts.of_task(self.killed.task),
            "pid": self.killed.pid,
            "signal": int(signal.SIGKILL),
            "uploads": self.killed.uploads,
        }
