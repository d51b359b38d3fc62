"""Task attempts that were begun in this process and have come to no end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Literal

from magicfs.errors import ProtocolViolation
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId

__all__ = ["OpenAttempts"]

_NAMED = 10


class OpenAttempts:
    """Those of one job. What they wrote is published by nobody, and their writer may believe it is."""

    def __init__(self) -> None:
        self._open: set[AttemptId] = set()
        self._lock = threading.Lock()

    def note(self, attempt: AttemptId, state: Literal["open", "committed", "aborted"]) -> None:
        """An attempt has got into another state."""
        with self._lock:
            if state == "open":
                self._open.add(attempt)
            else:
                self._open.discard(attempt)

    def forgotten(self, commits: Sequence[TaskCommit]) -> list[str]:
        """Tasks that were set up and have no commit, by any attempt."""
        with self._lock:
            return sorted({ids.task_of_attempt(one) for one in self._open} - {c.task_id for c in commits})

    def warnings(self, commits: Sequence[TaskCommit]) -> tuple[str, ...]:
        """What to tell about a job that publishes these commits; it is logged, too."""
        forgotten = self.forgotten(commits)
        if not forgotten:
            return ()
        warning = (
            f"{_named(forgotten)} set up and never committed: nothing of that is published; use with "
            "job.task(…) as task, or call task.commit()"
        )
        logging.getLogger("magicfs").warning("%s", warning)
        return (warning,)

    def require_some(self, job: str, commits: Sequence[TaskCommit] | None, *, allow_empty: bool) -> None:
        """Refuse to publish nothing although tasks were set up."""
        if commits is None or commits or allow_empty or not (forgotten := self.forgotten(commits)):
            return
        raise ProtocolViolation(
            f"no task of job {job} was committed, and {_named(forgotten)} set up; nothing was published; "
            "commit each task (use with job.task(…) as task), or abort it; pass allow_empty=True to Job if "
            "nothing is to be published"
        )


def _named(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
    return f"{'task' if len(tasks) == 1 else 'tasks'} {', '.join(tasks[:_NAMED])}{more} " + (
        "was" if len(tasks) == 1 else "were"
    )
