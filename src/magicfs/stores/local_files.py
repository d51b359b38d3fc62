"""Files of a POSIX filesystem, taken for objects: what ``LocalStore`` and ``LocalTree`` do in threads.

Files appear whole: they are written under a temporary name in the directory where they shall lie, which
listings skip. After a power failure a file is whole or not there; but what was done last may be undone, for
directories are not synchronised.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unavailable,
    Unsupported,
)
from magicfs.protocol.magic import MAGIC
from magicfs.stores.port import Body, ObjectInfo

__all__ = [
    "NOT_EMPTY",
    "OURS",
    "UPLOADS",
    "children",
    "copy_into",
    "describe",
    "info_of",
    "link",
    "make_directories",
    "opened",
    "prune",
    "read_from",
    "read_small",
    "size_of",
    "too_fast",
    "translate",
    "translated",
    "write",
    "write_in",
    "write_into",
]

UPLOADS: Final = ".magicfs-uploads"
"""The directory in which uploads wait beside the files that they shall become; readers skip names like it."""

NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})

OURS: Final = re.compile(r"\.magicfs-(?:[0-9a-f]{16}\.tmp|uploads)")
"""Temporary files of writers, and the directory of uploads: no objects."""
# Somebody who deletes directories may be faster; nobody is so for ever.
_TRIES = 500
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_COPY_BYTES = 2**30

_OWNER = "check the owner and the mode of the file and of the directories above it"
_SPACE = "free space on the filesystem, then run the job again"
_MOUNT = "check the filesystem and its mount, then try again"
_NAME = "choose a shorter name"
_OTHER = "look at the system's answer above"

# What the codes of the system mean to us; codes that a system does not have are left out.
_KINDS: dict[str, tuple[type[StoreError], str]] = {
    "ENOENT": (ObjectNotFound, "check the path"),
    "EEXIST": (ObjectExists, ""),
    "EACCES": (PermissionDenied, _OWNER),
    "EPERM": (PermissionDenied, _OWNER),
    "EROFS": (PermissionDenied, "the filesystem can only be read; choose another destination"),
    "ENOSPC": (StoreError, _SPACE),
    "EDQUOT": (StoreError, _SPACE),
    "EFBIG": (StoreError, "the filesystem, or a limit of this process, takes no file of that size"),
    "ENAMETOOLONG": (StoreError, _NAME),
    "EXDEV": (Unsupported, "put the destination on one filesystem, with everything below it"),
    "ENOTSUP": (Unsupported, ""),
    "EOPNOTSUPP": (Unsupported, ""),
    "ENOSYS": (Unsupported, ""),
    "EMFILE": (Unavailable, "let the process have more open files (ulimit -n), or keep fewer open"),
    "ENFILE": (Unavailable, "let the system have more open files (fs.file-max)"),
    # Whether anything took place is open: a disk or a server failed, or the process ran out of something.
    **dict.fromkeys(
        (
            *("EIO", "ESTALE", "EAGAIN", "EBUSY", "EINTR", "ETIMEDOUT", "ENOLCK", "EREMOTEIO"),
            *("ENETDOWN", "ENETUNREACH", "EHOSTDOWN", "EHOSTUNREACH", "ECONNRESET", "ECONNREFUSED"),
            *("ENOTCONN", "ESHUTDOWN", "ENOMEM", "ENOBUFS"),
        ),
        (Unavailable, _MOUNT),
    ),
}
_BY_NUMBER = {getattr(errno, name): kind for name, kind in _KINDS.items() if hasattr(errno, name)}


def describe(path: Path, key: str) -> ObjectInfo | None:
    """The object at a path; None for a directory; OSError if nothing is there.

    A symbolic link is an object: what it leads to if that is a file, and else only itself.
    """
    found = path.lstat()
    return None if stat.S_ISDIR(found.st_mode) else info_of(key, _followed(found, path.stat))


def _followed(
    found: os.stat_result, follow: Callable[[], os.stat_result], wanted: Callable[[int], bool] = stat.S_ISREG
) -> os.stat_result:
    """What a symbolic link leads to, if it is wanted; else the thing itself."""
    if stat.S_ISLNK(found.st_mode):
        with contextlib.suppress(OSError):
            leads_to = follow()
            return leads_to if wanted(leads_to.st_mode) else found
    return found


def info_of(key: str, found: os.stat_result) -> ObjectInfo:
    """The object of a key, from what the system says of its file."""
    # Not the time of the inode's last change: a rename changes that.
    etag = f'"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"'
    return ObjectInfo(key, found.st_size, etag, found.st_mtime)


def opened(path: str | Path) -> BufferedReader:
    """Open a file to be read. What is no file, such as a directory, raises FileNotFoundError."""
    return os.fdopen(_opened(path), "rb")


def read_small(path: str, size_max: int) -> bytes:
    """The first bytes of a file, whose size is told right. FileNotFoundError as for ``opened``."""
    descriptor = _opened(path)
    try:
        return os.read(descriptor, min(size_max, os.fstat(descriptor).st_size))
    finally:
        os.close(descriptor)


def _opened(path: str | Path) -> int:
    # Nobody may ever write into a named pipe: do not wait for it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "no file is there, but something else", str(path))
    return descriptor


def etag_of(file: BufferedReader) -> str:
    """The ETag of an open file."""
    return info_of("", os.fstat(file.fileno())).etag


def read_from(file: BufferedReader, size_max: int | None) -> bytes:
    """Read a file whole, or its first ``size_max`` bytes; the limit itself takes no memory."""
    return file.read() if size_max is None else file.read(size_of(file, size_max))


def size_of(file: BufferedReader, size_max: int | None) -> int:
    """How many bytes ``read_from`` reads of a file, as far as it is known."""
    size = os.fstat(file.fileno()).st_size
    return size if size_max is None else min(size_max, size)


def write(
    path: Path,
    root: Path,
    fill: Callable[[int], object],
    key: str,
    *,
    if_absent: bool = False,
    changed_ns: int | None = None,
) -> ObjectInfo:
    """Write a file whole, and make the directories between it and the root, which must be there.

    ``fill`` writes the content to a descriptor, and is called again if the directory went away meanwhile.
    With ``if_absent`` it succeeds only if nothing is at the path, in one step that has one winner; else it
    raises ``FileExistsError``. After any ``OSError`` the file is as it was. ``changed_ns`` is when it was
    changed last; None for now.
    """
    for _ in range(_TRIES):
        make_directories(path.parent, root)
        with contextlib.suppress(FileNotFoundError):
            return write_in(path, fill, key, if_absent=if_absent, changed_ns=changed_ns)
    raise too_fast(path.parent)


def write_in(
    path: str | Path,
    fill: Callable[[int], object],
    key: str,
    *,
    if_absent: bool = False,
    lasting: bool = True,
    changed_ns: int | None = None,
) -> ObjectInfo:
    """As ``write``, into a directory that is there; FileNotFoundError if it is gone.

    Without ``lasting`` it may be empty after the machine has stopped.
    """
    temporary = f"{os.path.dirname(path)}/.magicfs-{secrets.token_hex(8)}.tmp"
    is_there = True
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            fill(descriptor)
            # The system's clock for files may stand still for milliseconds, in which an inode is used again.
            changed = time.time_ns() if changed_ns is None else changed_ns
            with contextlib.suppress(OSError):
                os.utime(descriptor, ns=(changed, changed))
            if lasting:
                os.fsync(descriptor)
            written = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if if_absent:
            link(temporary, path)
        else:
            os.replace(temporary, path)
            is_there = False
    finally:
        if is_there:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return info_of(key, written)


def link(temporary: str, path: str | Path) -> None:
    """Give a file a second name, if nothing is there; FileExistsError if another file is."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        # A network filesystem repeats a request whose answer was lost, and meets its own work (open(2)).
        if not os.path.samestat(os.lstat(temporary), os.lstat(path)):
            raise
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise OSError(
                errno.ENOTSUP, "the filesystem has no hard links, so nothing can be written only if absent"
            ) from error
        raise


def make_directories(path: Path, root: Path) -> None:
    """Make a directory and its parents below a root; those that are there stay.

    Raises FileNotFoundError if the root is not there, NotADirectoryError for a file in the place of one.
    """
    if os.path.isdir(path):
        return None
    if not root.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(root))
    for _ in range(_TRIES):
        try:
            return path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            # Or a directory was there, and has been deleted since.
            if any(_is_in_the_way(one) for one in (path, *path.parents)):
                problem = "a file is in the place of a directory"
                raise NotADirectoryError(errno.ENOTDIR, problem) from error
        except FileNotFoundError:
            continue
    raise too_fast(path)


def _is_in_the_way(path: Path) -> bool:
    try:
        held = path.lstat()
    except OSError:
        return False
    return not stat.S_ISDIR(_followed(held, path.stat, stat.S_ISDIR).st_mode)


def prune(root: Path, key: str) -> None:
    """Remove the directories above a key that are empty, up to that of all magic paths; no others."""
    names = key.split("/")[:-1]
    top = next((n for n, name in enumerate(names) if name.startswith(MAGIC)), len(names))
    with contextlib.suppress(OSError):  # not empty, or gone
        for depth in range(len(names), top, -1):
            root.joinpath(*names[:depth]).rmdir()


def too_fast(path: Path) -> OSError:
    """The error where others undid the work each time."""
    return OSError(errno.EBUSY, f"{path} was deleted {_TRIES} times while something was written there")


def write_into(descriptor: int, body: Body) -> None:
    """Write all of a body to a descriptor."""
    left = memoryview(body).cast("B")
    while left:
        left = left[os.write(descriptor, left) :]


def copy_into(descriptor: int, source: BufferedReader) -> None:
    """Write all of a file to a descriptor that is new; within the system where it can do that."""
    source.seek(0)
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):
            position = 0
            while copied := os.copy_file_range(source.fileno(), descriptor, _COPY_BYTES, position, position):
                position += copied
            if position >= os.fstat(source.fileno()).st_size:
                return
    os.ftruncate(descriptor, 0)
    with os.fdopen(descriptor, "wb", closefd=False) as target:
        shutil.copyfileobj(source, target, 2**20)


def children(path: Path, prefix: str) -> list[tuple[str, ObjectInfo | None]]:
    """Every name in a directory with its object, or None for a directory; in order of their bytes.

    Keys of objects begin with the prefix. All of it is of one directory, even if that is renamed meanwhile.
    Temporary files are left out.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if OURS.fullmatch(entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    held = entry.stat(follow_symlinks=False)
                    is_directory = stat.S_ISDIR(held.st_mode)
                    info = None if is_directory else info_of(prefix + entry.name, _followed(held, entry.stat))
                    found.append((entry.name, info))
    finally:
        os.close(descriptor)
    return sorted(found, key=lambda child: os.fsencode(child[0]))


@contextlib.contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Raise what ``translate`` makes of an ``OSError`` within."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise translate(error, operation, path) from error


def translate(error: OSError, operation: str, path: str) -> StoreError:
    """The error of the port for one of the system."""
    kind, hint = _BY_NUMBER.get(error.errno or 0, (StoreError, _OTHER))
    code = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return kind(operation, path, f"{error.strerror or error} ({code})", hint=hint)
