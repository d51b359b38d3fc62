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
from collections.abc import Callable, Sequence
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Final

from magicfs.errors import StoreError
from magicfs.protocol import paths
from magicfs.protocol.layout import SUCCESS
from magicfs.protocol.magic import BASE, MAGIC
from magicfs.stores.local import errors as local_errors
from magicfs.stores.local.held import DATA
from magicfs.stores.local.places import (
    REGULAR,
    Places,
    check_regular,
    is_own,
    open_directory,
    own_part,
)
from magicfs.stores.port import Body, ObjectInfo

_UPLOAD: Final = re.compile(r".*/\.magicfs-uploads/(?:(\d+)\.\1\.[^/]*|[^/]*(\.new))")
OURS: Final = re.compile(r"\.magicfs-(?:[0-9a-f]{16}\.tmp|uploads)")
"""Temporary files of writers, and the directory of uploads: no objects."""
# Somebody who deletes directories may be faster; nobody is so for ever.
_TRIES = 500
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_COPY_BYTES = 2**30


def describe(root: Path, key: str) -> ObjectInfo | None:
    """The object of a key below a root; None for a directory; OSError if nothing is there.

    A symbolic link is an object: what it leads to if that is a file, and else only itself. Under a name of
    ours NotOursError says that it is one, or anything else that is no file; but a link named ``_SUCCESS`` is
    nothing: nobody reads it, and the next job replaces it.
    """
    with Places(root) as places:
        name, directory = places.at(key)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if directory is not None and (_is_record(key) or not stat.S_ISDIR(found.st_mode)):
        _check_record(found, root, key)
    if stat.S_ISDIR(found.st_mode):
        return None
    return info_of(key, found if directory is not None else _followed(found, (root / key).stat))


def _is_record(key: str) -> bool:
    """Whether a key under a name of ours is that of a record, where no directory can be."""
    return key.endswith((".json", ".pendingset", SUCCESS)) and "/tasks/" not in key and f"/{BASE}/" not in key


def _is_marker(key: str) -> bool:
    return key.rpartition("/")[2] == SUCCESS


def _check_record(found: os.stat_result, root: Path, key: str) -> None:
    """Raise NotOursError unless something in the place of a file of ours is a file."""
    if _is_marker(key) and not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, "there is something other than a file", key)
    check_regular(found, str(root / key))


def listed(places: Places, key: str) -> ObjectInfo | None:
    """As ``describe``, of a key that a listing shows: anything under a name of ours is as it is."""
    name, directory = places.at(key)
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        return None
    return info_of(key, found if directory is not None else _followed(found, partial(os.stat, name)))


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


def opened(root: Path, key: str) -> BufferedReader:
    """Open a file to be read. What is no file, such as a directory, raises FileNotFoundError; NotOursError
    under a name of ours.
    """
    if is_own(key):
        with Places(root) as places:
            name, directory = places.at(key)
            check = partial(_check_record, root=root, key=key)
            return os.fdopen(_opened_own(name, directory, check), "rb")
    # Nobody may ever write into a named pipe: do not wait for it.
    descriptor = os.open(root / key, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "there is something other than a file", key)
    return os.fdopen(descriptor, "rb")


def read_small(name: str, directory: int, size_max: int) -> bytes:
    """The first bytes of a file of ours in an open directory. NotOursError if it is no file."""
    descriptor = _opened_own(name, directory, partial(check_regular, path=name))
    try:
        return os.read(descriptor, min(size_max, os.fstat(descriptor).st_size))
    finally:
        os.close(descriptor)


def _opened_own(name: str, directory: int | None, check: Callable[[os.stat_result], None]) -> int:
    try:
        descriptor = os.open(name, os.O_RDONLY | REGULAR, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError:
        # A link, or a socket, which cannot be opened.
        check(os.stat(name, dir_fd=directory, follow_symlinks=False))
        raise
    try:
        check(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
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
    root: Path,
    key: str,
    fill: Callable[[int], object],
    *,
    if_absent: bool = False,
    changed_ns: int | None = None,
    like: os.stat_result | None = None,
) -> ObjectInfo:
    """Write a file whole, and make the directories between it and the root, which must be there.

    ``fill`` writes the content to a descriptor, and is called again if the directory went away meanwhile.
    With ``if_absent`` it succeeds only if nothing is at the path, in one step that has one winner; else it
    raises ``FileExistsError``. After any ``OSError`` the file is as it was. ``changed_ns`` is when it was
    changed last; None for now. Nobody may read the file who may not read ``like``.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError), Places(root) as places:
            name, directory = places.at(key, make=True)
            if directory is None:
                make_directories_of(root, key)
            if directory is not None and if_absent and _is_marker(key):
                _remove_what_is_none(name, directory)
            return write_in(name, fill, key, directory, if_absent=if_absent, changed_ns=changed_ns, like=like)
        make_directories_of(root, key)
    raise too_fast(root / key)


def _remove_what_is_none(name: str, directory: int) -> None:
    """Remove a link, a pipe or a socket in the place of a ``_SUCCESS``: it counts as none."""
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if not stat.S_ISREG(found) and not stat.S_ISDIR(found):
            os.unlink(name, dir_fd=directory)


def write_in(
    path: str,
    fill: Callable[[int], object],
    key: str,
    directory: int | None = None,
    *,
    if_absent: bool = False,
    lasting: bool = True,
    changed_ns: int | None = None,
    like: os.stat_result | None = None,
) -> ObjectInfo:
    """As ``write``, into a directory that is there; FileNotFoundError if it is gone.

    Without ``lasting`` it may be empty after the machine has stopped.
    """
    above = "" if directory is not None else f"{os.path.dirname(path)}/"
    temporary = f"{above}.magicfs-{secrets.token_hex(8)}.tmp"
    is_there = True
    flags, mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if like is None else 0o600
    descriptor = os.open(temporary, flags, mode, dir_fd=directory)
    try:
        try:
            if like is not None:
                take_mode(descriptor, like)
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
            link(temporary, path, directory, directory)
        else:
            os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
            is_there = False
    finally:
        if is_there:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
    return info_of(key, written)


def take_mode(descriptor: int, source: os.stat_result) -> None:
    """Let nobody read a file that is new who may not read another one: its mode, and its group if that may be
    given.
    """
    mode = source.st_mode & 0o777
    if os.fstat(descriptor).st_gid != source.st_gid:
        try:
            os.fchown(descriptor, -1, source.st_gid)
        except OSError:
            mode &= 0o707
    os.fchmod(descriptor, mode)


def link(temporary: str, path: str, source: int | None, directory: int | None) -> None:
    """Give a file a second name, if nothing is there; FileExistsError if another file is.

    Both names are relative to descriptors of directories, if these are given.
    """
    try:
        os.link(temporary, path, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        # A network filesystem repeats a request whose answer was lost, and meets its own work (open(2)).
        one = os.stat(temporary, dir_fd=source, follow_symlinks=False)
        if not os.path.samestat(one, os.stat(path, dir_fd=directory, follow_symlinks=False)):
            raise
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise OSError(
                errno.ENOTSUP,
                "the filesystem has no hard links, so magicfs cannot create files only if absent",
            ) from error
        raise


def linked(root: Path, source: str, key: str, file: BufferedReader) -> bool:
    """Give a file, which is open, a second name; False if it takes a copy, such as of a symbolic link."""
    with contextlib.suppress(OSError), Places(root) as sources, Places(root) as targets:
        name, directory = sources.at(source)
        target, place = targets.at(key, make=True)
        if os.path.samestat(os.stat(name, dir_fd=directory, follow_symlinks=False), os.fstat(file.fileno())):
            link(name, target, directory, place)
            if os.path.samestat(os.stat(target, dir_fd=place), os.fstat(file.fileno())):
                return True
            os.unlink(target, dir_fd=place)  # of a file that has taken its name meanwhile
    return False


def make_directories_of(root: Path, key: str) -> None:
    """Make the directories in which a key lies, as ``make_directories``; those of ours follow no link."""
    start = own_part(key)
    if start < 0:
        return make_directories(root / key.rpartition("/")[0], root)
    base = (root / key[:start]) if start else root
    for _ in range(_TRIES):
        make_directories(base, root)
        with contextlib.suppress(FileNotFoundError), Places(root) as places:
            places.at(key, make=True)
            return None
    raise too_fast(base)


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
                problem = "a file has the name of a directory"
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


def too_fast(path: Path) -> OSError:
    """The error where others undid the work each time."""
    return OSError(errno.EBUSY, f"{path} was deleted {_TRIES} times during writes")


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


def children(root: Path, directory: str, prefix: str) -> list[tuple[str, ObjectInfo | None]]:
    """Every name in a directory with its object, or None for a directory; in order of their bytes.

    Keys of objects begin with the prefix. All of it is of one directory, even if that is renamed meanwhile.
    Temporary files are left out.
    """
    descriptor, own = open_directory(root, directory), is_own(directory)
    try:
        found = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if OURS.fullmatch(entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    held = entry.stat(follow_symlinks=False)
                    is_directory = stat.S_ISDIR(held.st_mode)
                    if not own:
                        held = _followed(held, entry.stat)
                    info = None if is_directory else info_of(prefix + entry.name, held)
                    found.append((entry.name, info))
    finally:
        os.close(descriptor)
    return sorted(found, key=lambda child: os.fsencode(child[0]))


def remove_all(root: Path, keys: Sequence[str], place: Callable[[str], str]) -> None:
    """Delete files and links; directories stay. Raises StoreError of the first that could not be, after all
    others are gone. ``place`` is what messages call a key.
    """
    errors = []
    files = [key for key in keys if paths.can_be_a_file(key)]
    with Places(root) as places:
        for key in files:
            try:
                with local_errors.translated("delete", place(key)):
                    _remove(places, key)
            except StoreError as error:
                errors.append(error)
    # One of the files of each directory: the last of them takes it along.
    for key in {key.rpartition("/")[0]: key for key in files}.values():
        _prune(root, key)
    if errors:
        first = errors[0]
        problem = f"{len(errors)} of {len(keys)} refused: {first.problem}"
        raise type(first)("delete", first.key, problem, hint=first.hint) from first


def remove(root: Path, key: str) -> None:
    """Delete a file or a link, if one is there; a directory stays."""
    if paths.can_be_a_file(key):
        with Places(root) as places:
            _remove(places, key)
        _prune(root, key)


def _remove(places: Places, key: str) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        name, directory = places.at(key)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=directory)


def _prune(root: Path, key: str) -> None:
    """Remove the directories above a key that are empty, up to that of all magic paths; no others."""
    names = key.split("/")[:-1]
    top = next((n for n, name in enumerate(names) if name.startswith(MAGIC)), len(names))
    if len(names) == top + 2:  # of a job itself, whose object goes last
        with contextlib.suppress(OSError):
            _clear(root, "/".join(names))
    with contextlib.suppress(OSError):  # not empty, or gone
        for depth in range(len(names), top, -1):
            with Places(root) as places:
                name, directory = places.at("/".join(names[:depth]))
                os.rmdir(name, dir_fd=directory)


def _left(path: str, files: Sequence[str]) -> Sequence[str]:
    """Which files of a directory of a job writers have left that died."""
    upload = _UPLOAD.fullmatch(path)
    is_over = upload is not None and (upload[2] or DATA not in files)
    return files if is_over else [one for one in files if OURS.fullmatch(one)]


def _clear(root: Path, directory: str) -> None:
    """Remove what writers that died have left, if nothing else is there: temporary files, and uploads that
    are not open. One that still writes begins again, as if the directory had gone.
    """
    descriptor = open_directory(root, directory)
    try:
        if all(len(_left(path, files)) == len(files) for path, _, files, _ in os.fwalk(dir_fd=descriptor)):
            for path, below, files, at in os.fwalk(topdown=False, dir_fd=descriptor):
                for name in _left(path, files):
                    os.unlink(name, dir_fd=at)
                for name in below:
                    os.rmdir(name, dir_fd=at)
    finally:
        os.close(descriptor)
