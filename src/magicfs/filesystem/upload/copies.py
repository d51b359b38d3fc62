"""Copies of small files whose uploads are finished, for the task that wrote them to read back.

A store shows nobody the parts of an upload. So the bytes of a file of one part stay here until its task
commits: in the memory that all files of the process share, of which copies take a quarter at most, and from
which they go as soon as files that are being written need it. The largest go first: what libraries read back
is small.
"""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

from magicfs.filesystem.upload.memory import Memory, memory
from magicfs.runtime import fork_safety

__all__ = ["Copy", "copy_size_max", "copy_sizes_max", "make_room"]

_OVERHEAD: Final = 512
"""Bytes that a copy takes beside its own: a task may have empty files by the thousand."""

Content = bytes | io.BytesIO | Callable[[], bytes]
"""The bytes of a file, or what reads them from elsewhere, or raises OSError."""


class Copy:
    """The bytes of one file, and what its object shall have beside them; the bytes may go at any time."""

    def __init__(self, content: Content, options: Mapping[str, Any]) -> None:
        self.options = options
        self.size = _size_of(content) + _OVERHEAD
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


_of_this_process: list[_Copies] = []


def _copies_of_this_process() -> _Copies:
    if not _of_this_process:
        _of_this_process.append(_Copies(memory()))
    return _of_this_process[0]


def make_room() -> None:
    """Let copies go if files that are being written need their memory."""
    if _of_this_process:
        _of_this_process[0].make_room()


def copy_sizes_max() -> int:
    """How many bytes the copies of this process may take together."""
    return _copies_of_this_process().memory.limit


def copy_size_max() -> int:
    """How many bytes the largest file has of which a copy is kept, if it is one part."""
    return copy_sizes_max() // 4


def _size_of(content: Content) -> int:
    if isinstance(content, io.BytesIO):
        return content.getbuffer().nbytes
    return len(content) if isinstance(content, bytes) else 0


# What the parent wrote is the parent's to read back.
fork_safety.after_fork_in_child(_of_this_process.clear)
