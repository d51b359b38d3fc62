"""What the errors of a POSIX system mean to the port."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unavailable,
    Unsupported,
)
from magicfs.stores.local.places import NotOursError

_OWNER = "check the owner and the mode of the file and of the directories above it"
_SPACE = "free space on the filesystem, then run the job again"
_MOUNT = "check the filesystem and its mount, then try again"
_NAME = "choose a shorter name"
_OTHER = "see the system's answer above"
_NOT_OURS = "nothing was changed; find out which program created it, remove it, then try again"

# What the codes of the system mean to us; codes that a system does not have are left out.
_KINDS: dict[str, tuple[type[StoreError], str]] = {
    "ENOENT": (ObjectNotFound, "check the path"),
    "EEXIST": (ObjectExists, ""),
    "EACCES": (PermissionDenied, _OWNER),
    "EPERM": (PermissionDenied, _OWNER),
    "EROFS": (PermissionDenied, "the filesystem is read-only; choose another destination"),
    "ENOSPC": (StoreError, _SPACE),
    "EDQUOT": (StoreError, _SPACE),
    "EFBIG": (StoreError, "the file is too large for the filesystem or for a limit of this process"),
    "ENAMETOOLONG": (StoreError, _NAME),
    "EXDEV": (Unsupported, "put the destination and everything below it on one filesystem"),
    "ENOTSUP": (Unsupported, ""),
    "EOPNOTSUPP": (Unsupported, ""),
    "ENOSYS": (Unsupported, ""),
    "EMFILE": (Unavailable, "raise the limit of open files (ulimit -n), or keep fewer open"),
    "ENFILE": (Unavailable, "raise the system's limit of open files (fs.file-max)"),
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
    if isinstance(error, NotOursError):
        where = "" if error.filename == path else f"{error.filename}: "
        return StoreError(operation, path, f"{where}{error.strerror}", hint=_NOT_OURS)
    kind, hint = _BY_NUMBER.get(error.errno or 0, (StoreError, _OTHER))
    code = errno.errorcode.get(error.errno or 0, type(error).__name__)
    return kind(operation, path, f"{error.strerror or error} ({code})", hint=hint)
