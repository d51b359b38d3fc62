"""What this process knows of the files that it writes under magic paths.

Files are kept by *scope*: the directory of their task attempt, or the magic directory where the layout is
not a committer's, named by ``name_in``. With ``tracking="memory"`` this is the only place that knows a
finished upload, as in Hadoop's ``InMemoryMagicCommitTracker``; with ``tracking="store"`` it knows which files
are still open, which upload a second write of the same path replaced, and what it need not read back.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NewType

from magicfs.filesystem.upload.copies import Copy
from magicfs.formats.limits import BUNDLE_SIZE_LIMIT
from magicfs.formats.pending import Body, Pending
from magicfs.protocol.readback import WRITE_ID
from magicfs.runtime import fork_safety
from magicfs.stores.port import ObjectInfo, Store

__all__ = ["BUNDLE_SIZE", "PlaceName", "Scope", "Tracker", "identity_of", "name_in", "tracker"]

BUNDLE_SIZE: Final = BUNDLE_SIZE_LIMIT // 2
"""Bytes of bodies in hand of one task attempt from which they go to the store as a bundle."""
_BODIES_MAX: Final = 8 * BUNDLE_SIZE
"""The same of all attempts of this process."""


PlaceName = NewType("PlaceName", str)
"""What this process calls a directory ``bucket/key`` of one store."""


def name_in(store: Store, path: str) -> PlaceName:
    """The name of a directory ``bucket/key``: two stores may have buckets of one name."""
    return PlaceName(f"{store.identity}{path.removeprefix(store.bucket)}")


def identity_of(pending: Pending) -> str:
    """What tells a file from another write of its path: its upload, or the write id of a body."""
    return pending.upload_id or pending.extra_data.get(WRITE_ID, "")


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
    bodies: dict[str, bytes] = field(default_factory=dict)
    """By identity, the bodies of small files that are in no bundle yet."""
    leaving: set[str] = field(default_factory=set)
    """Identities of those that are on their way into one."""
    bundles: dict[str, str] = field(default_factory=dict)
    """Keys of bundles in the store, with their ETags."""
    bundles_begun: int = 0
    copies: dict[str, Copy] = field(default_factory=dict)
    """By identity, the bytes of small files that have uploads, as far as they are kept."""
    in_hand: int = 0
    """Bytes of the bodies that are in no bundle, and not on their way into one."""

    @property
    def is_empty(self) -> bool:
        return not (self.open or self.finished or self.replaced or self.dropped or self.bundles_begun)

    def put(self, path: str, pending: Pending) -> None:
        """A file is finished."""
        old = self.finished.get(path)
        if old is not None and identity_of(old) != identity_of(pending):
            if old.body is None:
                self.replaced.append(old)
            self.drop_body(identity_of(old))
            self.copies.pop(identity_of(old), None)
        self.finished[path] = pending
        self.dropped.discard(path)

    def drop_body(self, identity: str) -> None:
        """Nobody wants the bytes of a small file any more."""
        body = self.bodies.pop(identity, b"")
        if identity not in self.leaving:
            self.in_hand -= len(body)


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
        self,
        scope: PlaceName,
        path: str,
        pending: Pending,
        record: ObjectInfo | None = None,
        copy: Copy | None = None,
    ) -> None:
        """A file's upload is finished; an earlier one of the same path is replaced."""
        with self._lock:
            found = self._scopes.setdefault(scope, Scope())
            found.put(path, pending)
            if record is not None:
                found.records[path] = record
            if copy is not None:
                found.copies[identity_of(pending)] = copy

    def copy(self, scope: PlaceName, path: str) -> tuple[Copy, ObjectInfo | None] | None:
        """The bytes of a small file that has an upload, and the object of its ``.pending``, if it has one."""
        with self._lock:
            found = self._scopes.get(scope)
            pending = found.finished.get(path) if found else None
            if found is None or pending is None or (copy := found.copies.get(identity_of(pending))) is None:
                return None
            return copy, found.records.get(path)

    def keep(self, scope: PlaceName, path: str, pending: Pending, body: bytes) -> bool:
        """A small file is finished; an earlier one of the same path is replaced.

        Returns whether so many bodies are in hand that they should leave for a bundle.
        """
        with self._lock:
            found = self._scopes.setdefault(scope, Scope())
            found.put(path, pending)
            found.bodies[identity_of(pending)] = body
            found.in_hand += len(body)
            if found.in_hand >= BUNDLE_SIZE:
                return True
            return sum(one.in_hand for one in self._scopes.values()) >= _BODIES_MAX

    def rename(self, scope: PlaceName, path: str, new_path: str, pending: Pending) -> bool:
        """Give a small file another path, where ``pending`` is to stand; False if it is gone."""
        with self._lock:
            found = self._scopes.get(scope)
            old = found.finished.get(path) if found else None
            if found is None or old is None or identity_of(old) != identity_of(pending):
                return False
            del found.finished[path]
            found.put(new_path, pending)
            return True

    def body(self, scope: PlaceName, pending: Pending) -> bytes | None:
        """The bytes of a small file that is in no bundle yet."""
        with self._lock:
            found = self._scopes.get(scope)
            return found.bodies.get(identity_of(pending)) if found else None

    def leave(self, scope: PlaceName) -> tuple[int, dict[str, bytes]]:
        """Take bodies out of hand, at most as many as fit into a bundle; returns its number and the bodies,
        which ``arrived`` or ``came_back`` must follow.
        """
        with self._lock:
            found = self._scopes.get(scope, Scope())
            taken, size = dict[str, bytes](), 0
            for one, body in found.bodies.items():
                if one in found.leaving:
                    continue
                if taken and size + len(body) > 2 * BUNDLE_SIZE:
                    break
                taken[one], size = body, size + len(body)
            found.leaving |= taken.keys()
            found.in_hand -= size
            found.bundles_begun += bool(taken)
            return found.bundles_begun, taken

    def arrived(self, scope: PlaceName, offsets: Mapping[str, int], key: str, etag: str) -> None:
        """Bodies are in a bundle now, each at its offset there."""
        with self._lock:
            found = self._scopes.get(scope)
            if found is None:
                return
            found.bundles[key] = etag
            for path, pending in found.finished.items():
                if pending.body is not None and (offset := offsets.get(identity_of(pending))) is not None:
                    found.finished[path] = replace(pending, body=Body(key, offset, pending.body.sha256))
            for one in offsets:
                found.bodies.pop(one, None)
            found.leaving -= offsets.keys()

    def came_back(self, scope: PlaceName, taken: Collection[str]) -> None:
        """Bodies did not come into a bundle, and are in hand again."""
        with self._lock:
            if (found := self._scopes.get(scope)) is not None:
                found.leaving -= set(taken)
                found.in_hand += sum(len(found.bodies.get(one, b"")) for one in taken)

    def bundle(self, scope: PlaceName, key: str) -> str:
        """The ETag of a bundle; empty if this process has not written it."""
        with self._lock:
            found = self._scopes.get(scope)
            return found.bundles.get(key, "") if found else ""

    def withdraw(self, scope: PlaceName, path: str, identity: str) -> None:
        """Forget a finished file, if it is still the one of its path."""
        with self._lock:
            found = self._scopes.get(scope)
            if found is not None and path in found.finished and identity_of(found.finished[path]) == identity:
                del found.finished[path]
                found.records.pop(path, None)
                found.copies.pop(identity, None)
                found.drop_body(identity)
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
        if self._scopes[scope].is_empty:
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
