"""What this process wrote at destinations at once: nobody else remembers it.

Files are kept by *scope*: store, destination, job, and the label in their names. A scope is forgotten when
its task commits or aborts, and a file that is still open then is not published any more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from magicfs.runtime import process_end


class Scope(NamedTuple):
    """Whose files they are."""

    store: str  # the identity of the destination's store
    root: str  # ``bucket/key`` of the destination
    job: str = ""  # empty for names that contain none
    label: str = ""  # what stands before the job in the names: a task, or an attempt


@dataclass(slots=True)
class Written:
    """The files of one scope, by their final paths."""

    open: dict[int, str] = field(default_factory=dict)  # those that are being written, by ticket
    finished: set[str] = field(default_factory=set)
    # Those whose writing failed: nobody knows whether they are there.
    doubtful: set[str] = field(default_factory=set)
    # Those that were collected unclosed, and not written again.
    dropped: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.open or self.finished or self.doubtful or self.dropped)


class FinalTracker:
    """Files by scope, safe for threads. Every method is quick and does no I/O."""

    def __init__(self) -> None:
        self._scopes: dict[Scope, Written] = {}
        self._tickets = itertools.count()
        self._lock = threading.RLock()  # garbage collection reports files from any thread

    def opened(self, scope: Scope, path: str) -> int:
        """A file is being written; returns its ticket."""
        with self._lock:
            ticket = next(self._tickets)
            self._scopes.setdefault(scope, Written()).open[ticket] = path
            return ticket

    def is_open(self, scope: Scope, ticket: int) -> bool:
        """Whether a file may be published: its task has neither committed nor aborted."""
        with self._lock:
            return ticket in self._scopes.get(scope, Written()).open

    def finished(self, scope: Scope, ticket: int, path: str) -> None:
        with self._lock:
            found = self._scopes.setdefault(scope, Written())
            found.open.pop(ticket, None)
            found.finished.add(path)
            found.doubtful.discard(path)
            found.dropped.discard(path)

    def dropped(self, scope: Scope, ticket: int) -> None:
        """A file was collected unclosed: its writer may believe that it is there."""
        with self._lock:
            found = self._scopes.get(scope)
            if found is not None and (path := found.open.pop(ticket, None)) is not None:
                found.dropped.add(path)

    def discarded(self, scope: Scope, ticket: int) -> None:
        with self._lock:
            if (found := self._scopes.get(scope)) is not None:
                found.open.pop(ticket, None)
                self._drop_if_empty(scope)

    def doubtful(self, scope: Scope, paths: Iterable[str]) -> None:
        """Files may be there, or not."""
        with self._lock:
            self._scopes.setdefault(scope, Written()).doubtful.update(paths)
            self._drop_if_empty(scope)

    def removed(self, scope: Scope, path: str) -> None:
        with self._lock:
            if (found := self._scopes.get(scope)) is not None:
                found.finished.discard(path)
                found.doubtful.discard(path)
                self._drop_if_empty(scope)

    def wrote(self, scope: Scope, path: str) -> bool:
        """Whether a file was published under its final path."""
        with self._lock:
            return path in self._scopes.get(scope, Written()).finished

    def snapshot(self, scope: Scope) -> Written:
        """A copy of what is known of a scope."""
        with self._lock:
            found = self._scopes.get(scope, Written())
            return Written(dict(found.open), set(found.finished), set(found.doubtful), set(found.dropped))

    def take(self, scope: Scope) -> Written:
        """What is known of a scope, which is forgotten."""
        with self._lock:
            return self._scopes.pop(scope, Written())

    def clear(self) -> None:
        """Forget everything, as a process does that dies: for tests that play several in one."""
        with self._lock:
            self._scopes.clear()

    def scopes_of(self, store: str, root: str, job: str) -> list[Scope]:
        """The scopes of a job, for ``take``."""
        with self._lock:
            return [scope for scope in list(self._scopes) if scope[:3] == (store, root, job)]

    def _drop_if_empty(self, scope: Scope) -> None:
        if not self._scopes[scope]:
            del self._scopes[scope]


_TRACKER = FinalTracker()


def final_tracker() -> FinalTracker:
    """The tracker of this process."""
    return _TRACKER


def _forget_after_fork() -> None:
    # The parent's files are not the child's: both would report or delete them.
    global _TRACKER  # noqa: PLW0603
    _TRACKER = FinalTracker()


process_end.after_fork_in_child(_forget_after_fork)
