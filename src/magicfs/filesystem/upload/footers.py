"""Taking the footer of a file out of the bytes that its writer hands over: nothing is read a second time."""

from __future__ import annotations

import asyncio
import io
import re
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from magicfs.formats.footer import Footer
from magicfs.formats.parquet import END, MAGIC, TAIL_MAX, read_footer
from magicfs.stores.port import PartBody

_AT_ONCE: Final = 64 * 1024
"""Bytes from which on a body, or a footer, is looked through in a thread."""
_CSV: Final = (".csv", ".tsv")
_JSON_LINES: Final = (".jsonl", ".ndjson")
_BEFORE: Final = frozenset((b"\n", b",", b";", b"|", b"\t"))
"""What stands before a value."""
_AFTER: Final = _BEFORE | {b"\r", b'"'}
_QUOTED: Final = re.compile(rb'(?:\A|(?<=[\n,;|\t]))"[^"]*"(?=[,;|\t\r\n]|\Z)')


class TakesBytes(Protocol):
    """What is handed all bytes of a file, in their order."""

    def take(self, data: memoryview) -> None:
        """Look at more bytes; none of them is held afterwards."""

    @property
    def is_slow(self) -> bool:
        """Whether all bytes are looked through, and not only the last ones."""


class FooterTaker(TakesBytes, Protocol):
    """Tells the footer of the file in the end."""

    def footer(self) -> Footer | None:
        """The footer of the file; None if it has none, or none that is certain."""


def taker_of(name: str) -> FooterTaker:
    """What takes the footer of a file of this name. Compressed files tell nothing."""
    if name.lower().endswith(_CSV):
        return _CsvTaker()
    return _JsonLinesTaker() if name.lower().endswith(_JSON_LINES) else _ParquetTaker()


async def take(taker: TakesBytes, body: PartBody) -> None:
    """Have a body looked at, a large one in a thread."""
    view = body.getbuffer() if isinstance(body, io.BytesIO) else memoryview(body)
    with view:
        if not view.nbytes:
            return
        with view.cast("B") as data:
            if taker.is_slow and len(data) > _AT_ONCE:
                await asyncio.to_thread(taker.take, data)
            else:
                taker.take(data)


def take_ends(taker: TakesBytes, size: int, read: Callable[[int, int], bytes]) -> None:
    """Have a whole file looked at by what is not slow. ``read`` is given a place and a number of bytes."""
    end = read(max(size - _AT_ONCE, 0), _AT_ONCE)
    wanted = min(int.from_bytes(end[-END:-4], "little") + END, TAIL_MAX, size)
    if wanted > len(end):
        end = read(size - wanted, wanted)
    if size > len(end):
        taker.take(memoryview(read(0, len(MAGIC))))
    taker.take(memoryview(end))


async def footer_of(taker: FooterTaker) -> Footer | None:
    """The footer, taken apart in a thread if it is long."""
    if isinstance(taker, _ParquetTaker) and taker.is_long:
        return await asyncio.to_thread(taker.footer)
    return taker.footer()


class _ParquetTaker:
    """Keeps the first bytes of a file and its last ones."""

    is_slow = False

    def __init__(self) -> None:
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._size = 0  # of what is kept of the tail

    def take(self, data: memoryview) -> None:
        if len(self._head) < 4:
            self._head += bytes(data[: 4 - len(self._head)])
        self._tail.append(bytes(data[-TAIL_MAX:]))
        self._size += len(self._tail[-1])
        while self._size - len(self._tail[0]) >= TAIL_MAX:
            self._size -= len(self._tail.popleft())

    @property
    def is_long(self) -> bool:
        """Whether the footer may take a moment."""
        end = self._tail[-1][-8:] if self._tail else b""
        return len(end) == 8 and int.from_bytes(end[:4], "little") > _AT_ONCE

    def footer(self) -> Footer | None:
        return read_footer(self._head, b"".join(self._tail))


class _JsonLinesTaker:
    """Counts lines: text in JSON has no line ends."""

    is_slow = True

    def __init__(self) -> None:
        self._rows = 0
        self._last = b"\n"

    def take(self, data: memoryview) -> None:
        raw = bytes(data)
        self._rows += raw.count(b"\n")
        self._last = raw[-1:]

    def footer(self) -> Footer | None:
        return Footer(rows=self._rows + (self._last != b"\n"), format="json lines")


class _CsvTaker:
    """Counts lines that end outside of quotation marks; a line of names counts as any other.

    Where a quotation mark stands amid a value nobody knows what it means: then the rows are not known.
    """

    is_slow = True

    def __init__(self) -> None:
        self._rows = 0
        self._last = b"\n"
        self._in_quotes = False
        self._is_certain = True

    def take(self, data: memoryview) -> None:
        if not self._is_certain:
            return
        raw, last = bytes(data), self._last
        self._last = raw[-1:]
        if not self._in_quotes and last == b'"':
            # A mark of two, or the end of a value.
            self._is_certain = raw[:1] in _AFTER
            if raw[:1] == b'"':
                self._in_quotes, raw = True, raw[1:]
        elif not self._in_quotes and raw[:1] == b'"':
            self._is_certain = last in _BEFORE
        if self._in_quotes or b'"' in raw:
            raw = self._outside(raw)
        self._rows += raw.count(b"\n")

    def _outside(self, raw: bytes) -> bytes:
        """What stands outside of quotation marks, but for line ends amid them."""
        raw = (b'"' + raw if self._in_quotes else raw).replace(b'""', b"")
        raw = _QUOTED.sub(b"", raw)
        before, mark, after = raw.partition(b'"')
        self._in_quotes = bool(mark)
        # What is left is the begin of a value that the next bytes end.
        if mark and (b'"' in after or (before and before[-1:] not in _BEFORE)):
            self._is_certain = False
        return before

    def footer(self) -> Footer | None:
        if not self._is_certain or self._in_quotes:
            return None
        return Footer(rows=self._rows + (self._last != b"\n"), format="csv")
