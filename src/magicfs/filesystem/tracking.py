"""What this process knows of the files that it writes under magic paths.

Files are kept by *scope*: the directory of their task attempt, or the magic directory where the layout is
not a committer's, named by ``name_in``. With ``tracking="memory"`` this is the only place that knows a
finished upload, as in Hadoop's ``InMemoryMagicCommitTracker``; with ``tracking="store"`` it knows which files
are still open, which upload a second write of the same path replaced, and what it need not read back.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NewType

from magicfs.formats.pending import Pending
from magicfs.stores import fork_safety
from magicfs.stores.port import ObjectInfo, Store

__all__ = ["PlaceName", "Scope", "Tracker", "name_in", "tracker"]


PlaceName = NewType("PlaceName", str)
"""What this process calls a directory ``bucket/key`` of one store."""


def name_in(store: Store, path: str) -> PlaceName:
    """The name of a directory ``bucket/key``: two stores may have buckets of one name."""
    return PlaceName(f"{store.identity}{path.removeprefix(store.bucket)}")


@dataclass(slots=True)
class Scope:
    """The files of one task attempt that this process wrote."""

    open: dict[str, int] = field(default_factory=dict)
    """Paths of files that are not closed yet, with how many hold each."""
    finished: dict[str, Pending] = field(default_factory=dict)
    """The last finished upload of each path, as it was opened."""
    records: dict[str, ObjectInfo] = field(default_factory=dict)
    """The object of each finished upload's ``.pending`` file, as the store answered its PUT."""
    replaced: list[Pending] = field(default_factory=list)
    """Finished uploads that a later write of the same path replaced."""
    dropped: set[str] = field(default_factory=set)
    """Paths of files that were collected unclosed, and not written again."""


class Tracker:
    """Scopes by name, safe for threads. Every method is quick and does no I/O."""

    def __init__(self) -> None:
        self._scopes: dict[PlaceName, Scope] = {}
        self._lock = threading.Lock()

    def opened(self, scope: PlaceName, path: str, *, exclusive: bool = False) -> bool:
        """A file is open; False if it shall be the only one of its path and is not, and nothing is noted."""
        with self._lock:
            known = self._scopes.get(scope)
            if exclusive and known is not None and (path in known.open or path in known.finished):
                return False
            counts = self._scopes.setdefault(scope, Scope()).open
            counts[path] = counts.get(path, 0) + 1
            return True

    def closed(self, scope: PlaceName, path: str) -> None:
        with self._lock:
            found = self._scopes.get(scope)
            if found is None:
                return
            left = found.open.get(path, 0) - 1
            if left > 0:
                found.open[path] = left
            else:
                found.open.pop(path, None)
            self._drop_if_empty(scope)

    def dropped(self, scope: PlaceName, path: str) -> None:
        """A file was collected unclosed: its writer may believe that it is there."""
        with self._lock:
            self._scopes.setdefault(scope, Scope()).dropped.add(path)

    def finished(
        self, scope: PlaceName, path: str, pending: Pending, record: ObjectInfo | None = None
    ) -> None:
        """A file's upload is finished; an earlier one of the same path is replaced."""
        with self._lock:
            found = self._scopes.setdefault(scope, Scope())
            old = found.finished.get(path)
            if old is not None and old.upload_id != pending.upload_id:
                found.replaced.append(old)
            found.finished[path] = pending
            if record is not None:
                found.records[path] = record
            found.dropped.discard(path)

    def withdraw(self, scope: PlaceName, path: str, upload_id: str) -> None:
        """Forget a finished upload, if it is still the one of its path."""
        with self._lock:
            found = self._scopes.get(scope)
            if found is not None and path in found.finished and found.finished[path].upload_id == upload_id:
                del found.finished[path]
                found.records.pop(path, None)
                self._drop_if_empty(scope)

    def find(self, scope: PlaceName, path: str) -> Pending | None:
        with self._lock:
            found = self._scopes.get(scope)
            return found.finished.get(path) if found else None

    def below(self, name: PlaceName, path: str) -> list[dict[str, Pending]]:
        """The finished uploads of a path, of that name, and below it; for each scope by path."""
        with self._lock:
            found = [
                {file: one for file, one in scope.finished.items() if f"{file}/".startswith(f"{path}/")}
                for scoped, scope in self._scopes.items()
                if f"{name}/".startswith(f"{scoped}/") or f"{scoped}/".startswith(f"{name}/")
            ]
        return [files for files in found if files]

    def snapshot(self, scope: PlaceName) -> Scope:
        """A copy of what is known of a scope."""
        with self._lock:
            found = self._scopes.get(scope, Scope())
            return Scope(
                dict(found.open),
                dict(found.finished),
                dict(found.records),
                list(found.replaced),
                set(found.dropped),
            )

    def take(self, scope: PlaceName) -> Scope:
        """What is known of a scope, which is forgotten."""
        with self._lock:
            return self._scopes.pop(scope, Scope())

    def forget(self, prefix: str) -> None:
        """Forget every scope whose name begins with the prefix: its job has ended."""
        with self._lock:
            for scope in [scope for scope in self._scopes if scope.startswith(prefix)]:
                del self._scopes[scope]

    def _drop_if_empty(self, scope: PlaceName) -> None:
        found = self._scopes[scope]
        if not (found.open or found.finished or found.replaced or found.dropped):
            del self._scopes[scope]


_TRACKER = Tracker()


def tracker() -> Tracker:
    """The tracker of this process."""
    return _TRACKER


def _forget_after_fork() -> None:
    # The parent's files are not the child's: both would commit or abort them.
    global _TRACKER  # noqa: PLW0603
    _TRACKER = Tracker()


fork_safety.after_fork_in_child(_forget_after_fork)
