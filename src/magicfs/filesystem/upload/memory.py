"""How much memory the bodies of all files of this process take, and who waits for some.

A body is *held* while it is filled and until the store has acknowledged it, and *flies* while its request is
under way. Where more is held than the limit, writers wait, but only while something flies: a request comes to
its end without any writer's doing, a body that is being filled may wait for the very thread that waits here.
So a file with a part that is too small to be sent can always go on, and the limit is exceeded by such files
alone.

Nothing here blocks, so that the garbage collector may give back what a lost file held, in any thread and in
the middle of any line.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from typing import Final

from magicfs.errors import UsageError
from magicfs.runtime import fork_safety

__all__ = ["LIMIT_VARIABLE", "Memory", "Share", "memory"]

LIMIT_VARIABLE: Final = "MAGICFS_UPLOAD_MEMORY_MIB"
"""The environment variable that holds the limit, in MiB."""

_DEFAULT_MIB = 256  # six files at full speed
_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Memory:
    """Counts bytes of bodies; ``limit`` in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.flying = 0
        self._changes: deque[tuple[int, int]] = deque()
        self._waiting: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    @property
    def is_short(self) -> bool:
        """Whether more is held than the limit."""
        return self.held > self.limit

    @property
    def must_wait(self) -> bool:
        """Whether a writer should wait for ``room``."""
        return self.flying > 0 and self.held > self.limit

    def change(self, held: int = 0, flying: int = 0) -> None:
        """So many bytes more are held, or fly; negative for fewer."""
        self._changes.append((held, flying))
        # Who has the lock looks again once it has given it up, so that no change stays behind.
        while self._changes and self._lock.acquire(blocking=False):
            try:
                self._take_changes()
            finally:
                self._lock.release()

    def _take_changes(self) -> None:
        while self._changes:
            held, flying = self._changes.popleft()
            self.held += held
            self.flying += flying
        if self._waiting and not self.must_wait:
            self._wake(self._waiting.popleft())

    async def room(self) -> None:
        """Wait while too much is held and something flies."""
        while self.must_wait:
            loop = asyncio.get_running_loop()
            waiter = loop, loop.create_future()
            self._waiting.append(waiter)
            self.change()  # it may have landed meanwhile
            try:
                await waiter[1]
            except asyncio.CancelledError:
                try:
                    self._waiting.remove(waiter)
                except ValueError:  # it was this one's turn
                    self.change()
                raise
        if self._waiting:
            self.change()  # the next one's turn

    def _wake(self, waiter: _Waiter) -> None:
        loop, future = waiter
        try:
            loop.call_soon_threadsafe(_let_go, future)
        except RuntimeError:  # the loop is closed
            self._changes.append((0, 0))


def _let_go(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Share:
    """What one upload holds. Given back when the upload ends, or is collected."""

    def __init__(self) -> None:
        self.memory = memory()
        self._taken = 0  # counted by the writer
        self._given_back = 0  # counted on the store's loop
        self._ended = False

    def hold(self, size: int) -> None:
        """So many bytes more, or fewer."""
        if not self._ended:
            self._taken += size
            self.memory.change(size)

    def fly(self, size: int) -> None:
        """A request with a body of so many bytes begins."""
        self.memory.change(0, size)

    def land(self, size: int, *, kept: bool) -> None:
        """It has ended; ``kept``: the body's memory is used again."""
        if not kept and not self._ended:
            self._given_back += size
            self.memory.change(-size, -size)
        else:
            self.memory.change(0, -size)

    def end(self) -> None:
        """Nothing is held any more. A second call does nothing."""
        if not self._ended:
            self._ended = True
            self.memory.change(self._given_back - self._taken)

    def __del__(self) -> None:
        if hasattr(self, "_ended"):
            self.end()


def _limit() -> int:
    given = os.environ.get(LIMIT_VARIABLE, "").strip()
    if given and not (given.isascii() and given.isdigit()):
        raise UsageError(f"{LIMIT_VARIABLE}={given!r} is no number of MiB; write it like {_DEFAULT_MIB}")
    return int(given or _DEFAULT_MIB) * 2**20


_of_this_process: list[Memory] = []


def memory() -> Memory:
    """That of this process. UsageError if the environment names no limit that can be read."""
    if not _of_this_process:
        _of_this_process.append(Memory(_limit()))
    return _of_this_process[0]


# What the parent's files hold is the parent's, and its requests never land in a child.
fork_safety.after_fork_in_child(_of_this_process.clear)
