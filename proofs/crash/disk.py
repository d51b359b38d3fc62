"""The disk of the one machine of a scene: a real directory, whose content can be kept and brought back."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["Contents", "Disk", "disk", "move_to", "room"]

_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - where there is such a place, it is many times faster
_PREFIX: Final = "magicfs-crash-"

Contents = dict[str, bytes | None]
"""Files, and directories as None, by their names."""


class Disk:
    """A directory for one scene after the other.

    Args:
        directory: Where; it need not be there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def take(self) -> Contents:
        """What lies there."""
        return {
            str(path.relative_to(self.directory)): None if path.is_dir() else path.read_bytes()
            for path in self.directory.rglob("*")
        }

    def lay(self, contents: Mapping[str, bytes | None]) -> None:
        """Let exactly this lie there; nobody holds a lock on it."""
        if self.take() == contents:
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        for name, body in contents.items():
            path = self.directory / name
            if body is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)


@functools.cache
def disk() -> Disk:
    """The disk of this process, in which scenes are played one at a time."""
    if not _rooms:
        top = tempfile.mkdtemp(prefix=_PREFIX, dir=_place())
        atexit.register(shutil.rmtree, top, ignore_errors=True)
        _rooms.append(top)
    return Disk(Path(_rooms[0], f"staged-{os.getpid()}"))


_rooms: list[str] = []


@contextmanager
def room() -> Iterator[str]:
    """A directory for the disks of several processes, which are told by ``move_to``; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_place()) as top:
        yield top


def move_to(top: str) -> None:
    """Have the disk of this process in a directory that somebody else removes; before it is used."""
    _rooms.append(top)


def _place() -> str | None:
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
