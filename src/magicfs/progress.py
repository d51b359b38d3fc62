"""Telling a caller how far a job commit is."""

from __future__ import annotations

from collections.abc import Iterable

from magicfs.engine import Event
from magicfs.protocol.plan import Complete
from magicfs.protocol.readback import Outcome
from magicfs.report import Progress, ProgressCallback
from magicfs.task_commit import TaskCommit

__all__ = ["Meter"]


class Meter:
    """An observer that turns finished steps into calls of a progress callback.

    The callback is the caller's and runs in the middle of a commit: one that raises is not called again, and
    changes nothing about the commit.

    Args:
        callback: Called with a ``Progress`` after every file.
        commits: What is going to be published, if that is known beforehand.

    Attributes:
        error: What the callback raised.
    """

    def __init__(self, callback: ProgressCallback, commits: Iterable[TaskCommit] | None) -> None:
        known = list(commits or ())
        self.error: BaseException | None = None
        self._callback = callback
        self._files_total = sum(commit.files for commit in known)
        self._bytes_total = sum(commit.bytes for commit in known)
        self._files = 0
        self._bytes = 0

    @property
    def trouble(self) -> str | None:
        """What to tell the caller about the callback; None if it did not raise."""
        if self.error is None:
            return None
        return f"the progress callback raised {self.error!r} and was not called again; mend it"

    def __call__(self, event: Event) -> None:
        """Count a step, and tell."""
        if not isinstance(event.step, Complete) or event.outcome is not Outcome.DONE:
            return
        self._files += 1
        self._bytes += event.step.length
        if self.error is not None:
            return
        try:
            self._callback(
                Progress(
                    "complete",
                    self._files,
                    max(self._files, self._files_total),
                    self._bytes,
                    max(self._bytes, self._bytes_total),
                )
            )
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the thread that does all I/O
            self.error = error
