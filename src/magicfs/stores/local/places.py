"""Where a key leads on this machine: by any links to the data of users, by none to what is ours.

Users may reach a destination, or a partition, through a symbolic link. From the first element on that is a
name of ours no link is followed: the directory is opened element by element, and the last
element is used relative to its descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from magicfs.protocol.temporary import TEMPORARY

DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
"""How a directory is opened."""

NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
"""What makes opening a symbolic link an error."""

REGULAR: Final = NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""How a file of ours is opened: it is no link, and nobody waits for the other end of a named pipe."""

_OWN = re.compile(
    r"(?:^|/)(?:(?:__magic(?:_job-[^/]*)?|_magicfs|_temporary|_delta_log|_symlink_format_manifest)(?:/|$)|_SUCCESS$)"
)
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISREG, "a file"),
)
_LINKS = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}  # how systems refuse one; ENOTDIR with O_DIRECTORY
_OPENAT2: Final = 437
_NO_SYMLINKS: Final = 4


class NotOursError(OSError):
    """Something lies under a name of ours that magicfs has not made."""


def own_part(key: str) -> int:
    """Where in a key the first element begins that is a name of ours; -1 if none is."""
    if "/_" not in key and not key.startswith("_"):
        return -1
    found = _OWN.search(key)
    if found is None:
        return -1
    return found.start() + (key[found.start()] == "/")


def is_own(key: str) -> bool:
    """Whether a key lies under a name of ours, where no link is followed."""
    return own_part(key) >= 0


def is_trusted(found: os.stat_result, parent: os.stat_result) -> bool:
    """Whether something in a directory counts as ours, or as put there by somebody who may do anything there.

    It belongs to this user, to root or to the owner of the directory; or everybody who may write to the
    directory may rename and delete what others have made in it, so that its owner says nothing.
    """
    if found.st_uid in {os.geteuid(), 0, parent.st_uid}:
        return True
    return bool(parent.st_mode & 0o022) and not parent.st_mode & stat.S_ISVTX


class Places:
    """The directories in which keys of a root lie. Keys of one directory that follow each other open it once.

    ``at`` gives a name and the descriptor that it is relative to: None with the whole path of an ordinary
    key. The descriptor is open until the next key of another directory, or the end of the ``with`` block.
    """

    __slots__ = ("_directory", "_held", "_root")

    def __init__(self, root: Path) -> None:
        self._root = str(root).rstrip("/")
        self._held: int | None = None
        self._directory = ""

    def at(self, key: str, *, make: bool = False) -> tuple[str, int | None]:
        """The place of a key; with ``make`` its directory is made, if it is one of ours.

        Raises FileNotFoundError or NotADirectoryError if there is no such directory, NotOursError if a link
        lies in the place of one of ours.
        """
        start = own_part(key)
        if start < 0:
            return f"{self._root}/{key}", None
        directory, _, name = key.rpartition("/")
        if self._held is None or directory != self._directory:
            self._close()
            base = f"{self._root}/{key[:start]}"
            names = directory[start:].split("/") if len(directory) > start else []
            self._held = _entered(base, names, make=make)
            self._directory = directory
        return name, self._held

    def _close(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def open_directory(root: Path, key: str, *, follow: bool = True) -> int:
    """Open the directory of a key, which ends with no slash; of an ordinary one the last link is followed.

    Raises FileNotFoundError, NotADirectoryError or NotOursError as ``Places.at``.
    """
    with Places(root) as places:
        name, directory = places.at(key)
        if directory is not None:
            return _step(directory, name, key, make=False)
        return os.open(name, DIRECTORY | (0 if follow else NO_LINK))


def make_below(root: Path, key: str, names: Sequence[str]) -> None:
    """Make a directory in one of ours, and the next one in that; those that are there stay.

    Raises FileNotFoundError if the first one is not there, NotOursError if a link lies in the place of one.
    """
    with Places(root) as places:
        for one in names:
            key = f"{key}/{one}"
            name, directory = places.at(key)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
        places.at(f"{key}/")


def check_regular(found: os.stat_result, path: str) -> None:
    """Raise NotOursError unless something is a plain file."""
    if not stat.S_ISREG(found.st_mode):
        raise refusal(found, path)


def refusal(found: os.stat_result, path: str) -> NotOursError:
    """The error about what lies in the place of a file or directory of ours."""
    kind = next((name for test, name in _KINDS if test(found.st_mode)), "a device")
    return NotOursError(errno.EPERM, f"there is {kind} that magicfs did not create and does not use", path)


def _entered(base: str, names: Sequence[str], *, make: bool) -> int:
    """Open the directory of these names below one that may be reached by links."""
    descriptor = os.open(base, DIRECTORY)
    if not names:
        return descriptor
    try:
        quick = _opened_at_once(descriptor, "/".join(names))
        if quick is not None:
            return quick
        path, above = base.rstrip("/"), descriptor
        for name in names:
            path = f"{path}/{name}"
            try:
                below = _step(above, name, path, make=make)
            finally:
                if above != descriptor:
                    os.close(above)
            above = below
        return above
    finally:
        os.close(descriptor)


def _step(above: int, name: str, path: str, *, make: bool) -> int:
    """Open a directory in another one, which is no link; with ``make`` make it if nothing is there."""
    try:
        return _opened(name, above)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):  # by somebody else, in this moment
            os.mkdir(name, dir_fd=above)
        return _opened(name, above)
    except OSError as error:
        if error.errno in _LINKS:
            found = os.stat(name, dir_fd=above, follow_symlinks=False)
            # A file in the place of work holds none; in that of records it would hide that some are gone.
            is_record = _OWN.fullmatch(name) is not None and name != TEMPORARY
            if not stat.S_ISREG(found.st_mode) or is_record:
                raise refusal(found, path) from error
        raise


def _opened(name: str, above: int) -> int:
    return os.open(name, DIRECTORY | NO_LINK, dir_fd=above)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _openat2() -> Any:
    """What calls openat2(2); None where there is no such call."""
    if sys.platform != "linux":
        return None
    how = _How(DIRECTORY, 0, _NO_SYMLINKS)
    call, given, size = ctypes.CDLL(None).syscall, ctypes.byref(how), ctypes.sizeof(how)
    return lambda above, name: call(_OPENAT2, above, name, given, size)


def _opened_at_once(above: int, relative: str) -> int | None:
    """Open a directory by one call, which meets no link; None if that cannot be, for any reason."""
    call = _openat2()
    descriptor: int = -1 if call is None else call(above, os.fsencode(relative))
    return None if descriptor < 0 else descriptor
