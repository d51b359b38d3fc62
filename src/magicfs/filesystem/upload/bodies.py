"""How what is written is cut into the bodies of parts."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

from magicfs.filesystem.upload.copies import make_room
from magicfs.filesystem.upload.footers import TakesBytes, take_ends
from magicfs.filesystem.upload.memory import Share
from magicfs.stores.placing import PlacedPart
from magicfs.stores.port import Body, PartBody

__all__ = ["Buffer", "PlacedBuffer", "Sizes", "Spares", "bytes_of", "content_of", "size_of"]


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
