"""How much memory the bodies of all files of this process take, and who waits for some.

A body is *held* while it is filled and until the store has acknowledged it, and *flies* while its request is
under way. Where more is held than the limit, writers wait, but only while something flies: a request comes to
its end without any writer's doing, a body that is being filled may wait for the very thread that waits here.
So a file with a part that is too small to be sent can always go on, and the limit is exceeded by such files
alone.

Nothing here blocks, so that the garbage collector may give back what a lost file held, in any thread and in
the middle of any line.

How what is written is cut into the bodies of parts.

Copies of small files whose uploads are finished, for the task that wrote them to read back.

A store shows nobody the parts of an upload. So the bytes of a file of one part stay here until its task
commits: in the memory that all files of the process share, of which copies take a quarter at most, and from
which they go as soon as files that are being written need it. The largest go first: what libraries read back
is small.
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from magicfs.errors import UsageError
from magicfs.filesystem.upload.footers import TakesBytes, take_ends
from magicfs.runtime import process_end
from magicfs.stores.object_settings import PlacedPart
from magicfs.stores.port import Body, PartBody

_OVERHEAD: Final = 512
"""Bytes that a copy takes beside its own: a task may have empty files by the thousand."""

Content = bytes | io.BytesIO | Callable[[], bytes]
"""The bytes of a file, or what reads them from elsewhere, or raises OSError."""


class Copy:
    """The bytes of one file, and what its object shall have beside them; the bytes may go at any time."""

    def __init__(self, content: Content, options: Mapping[str, Any]) -> None:
        self.options = options
        self.size: int = _OVERHEAD + (0 if callable(content) else size_of(content))
        self._content: Content | None = content
        self._shared, self._own = memory(), _copies_of_this_process()
        self._shared.change(self.size)
        self._own.memory.change(self.size)
        self._own.take(self)

    def read(self) -> bytes | None:
        """All of the file; None if the bytes are gone."""
        content = self._content
        if content is None or isinstance(content, bytes):
            return content
        if isinstance(content, io.BytesIO):
            return content.getvalue()
        try:
            return content()
        except OSError:
            return None

    @property
    def is_there(self) -> bool:
        """Whether the bytes are still there."""
        return self._content is not None

    def drop(self) -> None:
        """Let the bytes go. A second call does nothing."""
        if self._content is not None:
            self._content = None
            self._shared.change(-self.size)
            self._own.memory.change(-self.size)

    def __del__(self) -> None:
        if hasattr(self, "_own"):
            self.drop()


class _Copies:
    """The copies of a process."""

    def __init__(self, shared: Memory) -> None:
        self.memory = Memory(shared.limit // 4)
        self._shared = shared
        self._alive: weakref.WeakSet[Copy] = weakref.WeakSet()
        self._lock = threading.Lock()

    def take(self, copy: Copy) -> None:
        """One more; others go where they take too much."""
        with self._lock:
            self._alive.add(copy)
        self.make_room()

    def make_room(self) -> None:
        """Let copies go while there is too little memory, and some more: so that it is seldom looked for."""
        if not (self.memory.is_short or (self._shared.is_short and self.memory.held)):
            return
        with self._lock:
            alive = sorted(self._alive, key=lambda one: one.size, reverse=True)
        enough = self.memory.limit - self.memory.limit // 8
        for one in alive:
            if self.memory.held <= enough and not self._shared.is_short:
                break
            one.drop()
            with self._lock:
                self._alive.discard(one)


_copies: list[_Copies] = []


def _copies_of_this_process() -> _Copies:
    if not _copies:
        _copies.append(_Copies(memory()))
    return _copies[0]


def make_room() -> None:
    """Let copies go if files that are being written need their memory."""
    if _copies:
        _copies[0].make_room()


def copy_sizes_max() -> int:
    """How many bytes the copies of this process may take together."""
    return _copies_of_this_process().memory.limit


def copy_size_max() -> int:
    """How many bytes the largest file has of which a copy is kept, if it is one part."""
    return _copies_of_this_process().memory.limit // 4


# What the parent wrote is the parent's to read back.
process_end.after_fork_in_child(_copies.clear)


LIMIT_VARIABLE: Final = "MAGICFS_UPLOAD_MEMORY_MIB"
"""The environment variable that holds the limit, in MiB."""

_DEFAULT_MIB = 256  # six files at full speed
_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Memory:
    """Counts bytes of bodies; ``limit`` in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: int = 0
        self.flying: int = 0
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
        self.memory: Memory = memory()
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
        raise UsageError(f"{LIMIT_VARIABLE}={given!r} is not a number of MiB; write it like {_DEFAULT_MIB}")
    return int(given or _DEFAULT_MIB) * 2**20


_of_this_process: list[Memory] = []


def memory() -> Memory:
    """That of this process. UsageError if the environment names no limit that can be read."""
    if not _of_this_process:
        _of_this_process.append(Memory(_limit()))
    return _of_this_process[0]


# What the parent's files hold is the parent's, and its requests never land in a child.
process_end.after_fork_in_child(_of_this_process.clear)


class Sizes(Protocol):
    """What says how large parts shall be: an upload."""

    @property
    def next_part_size(self) -> int:
        """How many bytes the next part should have."""

    @property
    def next_part_size_early(self) -> int:
        """From how many bytes on the next part should set out."""

    @property
    def next_part_size_min(self) -> int:
        """How many bytes the next part must have, if others follow."""


class Spares:
    """Bodies that were sent, whose memory is there already."""

    def __init__(self) -> None:
        self._bodies: list[io.BytesIO] = []

    def pop(self) -> tuple[io.BytesIO, int]:
        """A body to be filled from its start, and the size of its memory, which may hold anything."""
        with suppress(IndexError):
            body = self._bodies.pop()
            size = body.seek(0, io.SEEK_END)
            body.seek(0)
            return body, size
        return io.BytesIO(), 0

    def keep(self, body: io.BytesIO) -> bool:
        """Keep a body; False if whoever sent it has closed it, or still holds on to it."""
        with suppress(BufferError, ValueError):
            body.truncate(body.seek(0, io.SEEK_END))
            self._bodies.append(body)
            return True
        return False

    def clear(self) -> None:
        """Let go of all."""
        self._bodies.clear()


class PlacedBuffer:
    """As ``Buffer``, of a file that is written where it will be: nothing is held back but small writes."""

    def __init__(self, part: PlacedPart, taker: TakesBytes | None = None) -> None:
        self._part: PlacedPart | None = part
        self._taker = taker

    def add(self, data: Body) -> Iterator[io.BytesIO]:
        """Take data in; there is nothing to be sent."""
        assert self._part is not None
        view = bytes_of(data)
        self._part.write(view)
        if self._taker is not None and self._taker.is_slow and len(view):
            self._taker.take(view)
        yield from ()

    def take(self) -> PlacedPart:
        """All of the file, which is given up here: whoever holds it last closes it."""
        part, self._part = self._part, None
        assert part is not None
        return part

    def finish(self) -> PlacedPart:
        """All of the file, which is closed here; blocks. StoreError if it could not be written."""
        part = self.take()
        part.close()
        if self._taker is not None and not self._taker.is_slow:
            take_ends(self._taker, part.size, part.read)
        return part


class Buffer:
    """Cuts what is written into bodies as large as the upload asks for, or less where memory is short."""

    def __init__(self, sizes: Sizes, share: Share, spares: Spares) -> None:
        self._sizes = sizes
        self._share = share
        self._spares = spares
        self._filling: io.BytesIO | None = None
        self._target = 0
        self._early = 0
        self._held = 0  # what the memory of the body is counted as

    def add(self, data: Body) -> Iterator[io.BytesIO]:
        """Take data in; yields each body that is to be sent."""
        view = bytes_of(data)
        while len(view):
            if self._filling is None:  # only now: the last part that the store takes may be the last one
                self._target = self._sizes.next_part_size
                self._early = self._sizes.next_part_size_early
                self._filling, self._held = self._spares.pop()
            room = self._target - self._filling.tell()
            self._filling.write(view[:room])
            view = view[room:]
            filled = self._filling.tell()
            if filled > self._held:
                self._share.hold(filled - self._held)
                self._held = filled
            if filled >= self._early or self._is_wanted(filled):
                yield self.take()

    def _is_wanted(self, filled: int) -> bool:
        if self._share.memory.is_short:
            make_room()
        return self._share.memory.is_short and filled >= self._sizes.next_part_size_min

    def finish(self) -> io.BytesIO:
        """The last body."""
        return self.take()

    def take(self) -> io.BytesIO:
        """What has been filled so far, handed over without copying it."""
        body, self._filling = self._filling or io.BytesIO(), None
        body.truncate()
        self._share.hold(body.tell() - self._held)
        self._held = 0
        return body


def bytes_of(data: Body) -> memoryview:
    """The bytes of a buffer of any shape."""
    view = memoryview(data)
    # What has no bytes may have a shape that cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")


def size_of(body: PartBody | PlacedPart) -> int:
    """The bytes of a body."""
    if isinstance(body, io.BytesIO):
        return body.getbuffer().nbytes
    return memoryview(body).nbytes if isinstance(body, bytes | bytearray | memoryview) else body.size


def content_of(body: PartBody | PlacedPart) -> bytes | io.BytesIO | Callable[[], bytes]:
    """The bytes of a body that was sent, or what reads them from where they were placed.

    Only what its owner may change is copied.
    """
    if isinstance(body, bytes | io.BytesIO):
        return body
    return bytes(body) if isinstance(body, bytearray | memoryview) else body.reader()
