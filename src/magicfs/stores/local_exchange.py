"""Exchanging two local directories in one step, where the system can, and under a lock that dies with us."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["can_exchange", "exchange", "locked", "nearest", "take_rights", "why_not"]

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_ACLS: Final = "system.posix_acl_"
_UNKNOWN_TO_SYSTEM: Final = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}


@cache
def _renameat2() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    function: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return function


def exchange(one: Path, other: Path) -> bool:
    """Give two files or directories each other's names, in one step (renameat2(2)); False where nobody can.

    OSError if something is wrong with these two.
    """
    function = _renameat2()
    if function is None:
        return False
    if function(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        code = ctypes.get_errno()
        if code in _UNKNOWN_TO_SYSTEM:
            return False
        raise OSError(code, os.strerror(code), str(one))
    return True


def take_rights(source: Path, target: Path) -> None:
    """Give a directory the owner, the mode and the ACLs of another, as far as this process may."""
    try:
        found = source.stat()
        with contextlib.suppress(PermissionError):
            os.chown(target, found.st_uid, found.st_gid)
        if hasattr(os, "listxattr"):
            with contextlib.suppress(OSError):
                for name in os.listxattr(source):
                    if name.startswith(_ACLS):
                        os.setxattr(target, name, os.getxattr(source, name))
        target.chmod(stat.S_IMODE(found.st_mode))
    except FileNotFoundError:
        return  # one of them is gone, which the exchange tells


def can_exchange(parent: Path) -> bool:
    """Whether directories of a parent can be exchanged in one step: tried on two that are made for it."""
    if _renameat2() is None:
        return False
    names = [parent / f".magicfs-{secrets.token_hex(8)}.tmp" for _ in range(2)]
    try:
        for name in names:
            name.mkdir()
        return exchange(*names)
    finally:
        for name in names:
            with contextlib.suppress(OSError):
                name.rmdir()


def why_not(directory: Path) -> str:
    """Why a directory cannot be exchanged with one beside it; empty if nothing is known against it."""
    if directory.is_symlink():
        return "it is a symbolic link; give the directory to which it leads"
    if directory.is_mount():
        return "it is a mount point; choose a directory in it"
    if not os.access(nearest(directory.parent), os.W_OK | os.X_OK):
        return (
            "nothing may be written in its parent directory, beside it; ask for that, or choose another one"
        )
    return ""


def nearest(directory: Path) -> Path:
    """A directory, or the first above it that is there."""
    return next(one for one in (directory, *directory.parents) if one.is_dir())


@contextlib.contextmanager
def locked(parent: Path) -> Iterator[None]:
    """Be the only one who exchanges directories of a parent (flock(2) on the parent)."""
    import fcntl  # POSIX alone has it

    descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
