"""fsspec's transactions on a shared instance: each thread and task has its own.

Libraries such as pyarrow open files in threads of their own making, which know nothing of the thread that
asked for them. Such a file joins the transaction that has looked at the same task attempt (or magic
directory), or else the only one that has looked at none yet. Threads that Python started join nothing.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

from fsspec.transaction import Transaction

from magicfs.errors import UsageError

__all__ = ["MagicTransaction", "Transactions"]


class MagicTransaction(Transaction):
    """fsspec's, known to its filesystem's ``Transactions`` while it is open.

    ``scopes``: what its own thread has looked at, by the names that the tracker uses. ``ended``: whether
    files can no longer join.
    """

    fs: Any

    def __init__(self, fs: Any, **kwargs: Any) -> None:
        super().__init__(fs, **kwargs)
        self.scopes: set[str] = set()
        self.ended = False

    def start(self) -> None:
        super().start()
        self.ended = False
        self.fs.transactions.opened(self)

    def complete(self, commit: bool = True) -> None:
        """Record every file, or abort every one; after one that fails, the others are aborted.

        fsspec's own leaves them, and the transaction open, before release 2026.9.
        """
        self.ended = True
        self.fs.transactions.closed(self)
        try:
            while self.files:
                if commit:
                    self.files[0].commit()
                else:
                    self.files[0].discard()
                self.files.popleft()
        finally:
            for file in self.files:
                with contextlib.suppress(Exception):
                    file.discard()
            self.files.clear()
            self.fs._intrans = False
            self.fs._transaction = None
            self.fs = None


class Transactions:
    """The transactions of one filesystem instance."""

    def __init__(self) -> None:
        self.current: contextvars.ContextVar[MagicTransaction | None]
        self.current = contextvars.ContextVar("transaction", default=None)
        self.active = contextvars.ContextVar("in_transaction", default=False)
        self._open: list[MagicTransaction] = []
        self._lock = threading.Lock()

    def opened(self, transaction: MagicTransaction) -> None:
        with self._lock:
            self._open.append(transaction)

    def closed(self, transaction: MagicTransaction) -> None:
        """A second call does nothing."""
        with self._lock, contextlib.suppress(ValueError):
            self._open.remove(transaction)

    def looked_at(self, scope: str) -> None:
        """The thread that runs here has looked at a scope."""
        if self.active.get() and (current := self.current.get()) is not None:
            current.scopes.add(scope)

    def to_join(self, scope: str, path: str) -> MagicTransaction | None:
        """The transaction to which a file belongs that a thread of unknown origin opens; None for none.

        Raises UsageError if it could be any of several.
        """
        # Python's own threads say what they are; these are stand-ins for threads of C libraries.
        if self.active.get() or not isinstance(threading.current_thread(), threading._DummyThread):
            return None
        with self._lock:
            candidates = [one for one in self._open if scope in one.scopes]
            candidates = candidates or [one for one in self._open if not one.scopes]
        if len(candidates) > 1:
            raise UsageError(
                f"{path}: the file could belong to any of {len(candidates)} transactions that are open; "
                "look at its directory inside its transaction first, with filesystem.exists"
            )
        return candidates[0] if candidates else None

    @contextlib.contextmanager
    def joined(self, transaction: MagicTransaction, scope: str) -> Iterator[None]:
        """Run as a part of another thread's transaction, to open a file of a scope."""
        transaction.scopes.add(scope)
        current, active = self.current.set(transaction), self.active.set(True)
        try:
            yield
        finally:
            self.current.reset(current)
            self.active.reset(active)
