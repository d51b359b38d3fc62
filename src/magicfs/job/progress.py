"""Reporting to a caller how far a commit is."""

from __future__ import annotations

from collections.abc import Iterable

from magicfs.engine import Event, SentPart
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Complete, Rename
from magicfs.report import Progress, ProgressCallback


class _SafeCallback:
    """Calls a progress callback. The callback is the caller's and runs in the middle of a commit: one that
    raises is not called again, and changes nothing about the commit.
    """

    def __init__(self, callback: ProgressCallback) -> None:
        self.error: BaseException | None = None  # what the callback raised
        self._callback = callback

    @property
    def trouble(self) -> str | None:
        """A warning about the callback; None if it did not raise."""
        if self.error is None:
            return None
        return f"the progress callback raised {self.error!r} and is not called again; fix the callback"

    def tell(self, progress: Progress) -> None:
        """Call it, unless it has raised before."""
        if self.error is not None:
            return
        try:
            self._callback(progress)
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the thread that does all I/O
            self.error = error


class Meter(_SafeCallback):
    """An observer that turns finished steps of a job commit into calls of a progress callback.

    The callback gets a ``Progress`` after every file. ``commits`` is what is going to be published, if known.
    """

    def __init__(self, callback: ProgressCallback, commits: Iterable[TaskCommit] | None) -> None:
        super().__init__(callback)
        known = list(commits or ())
        self._files_total = sum(commit.files for commit in known)
        self._bytes_total = sum(commit.bytes for commit in known)
        self._files = 0
        self._bytes = 0

    def __call__(self, event: Event) -> None:
        if not isinstance(event.step, Complete | Rename) or event.outcome is not Outcome.DONE:
            return
        self._files += 1
        self._bytes += event.step.length
        files_total = max(self._files, self._files_total)
        bytes_total = max(self._bytes, self._bytes_total)
        self.tell(Progress("complete", self._files, files_total, self._bytes, bytes_total))


class UploadMeter(_SafeCallback):
    """The same for the uploads of a task commit, after every part."""

    def __init__(self, callback: ProgressCallback) -> None:
        super().__init__(callback)
        self._files = 0
        self._bytes = 0

    def __call__(self, event: Event) -> None:
        part = event.step
        if isinstance(part, SentPart):
            self._files += part.last
            self._bytes += part.size
            self.tell(Progress("upload", self._files, part.files_total, self._bytes, part.bytes_total))
