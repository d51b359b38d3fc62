"""Uploads of local files: hidden directories beside the files that they shall become.

An upload lies in ``.magicfs-uploads/<id>`` in the deepest directory on the way to its key that is there when
it is opened: so on the device of its file, also where a partition is a mount or a link, and no directory is
made before the file appears. ``upload.json`` is the record; the rest are its parts (``local_parts``). The
upload is open while record and data are there.

The id tells the ETag of the file, its inode and the time that it will bear
(``protocol.readback.etag_of_upload``), so that a lost reply is told from a lost upload.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from magicfs.protocol import paths
from magicfs.stores import local_files
from magicfs.stores.local_files import UPLOADS
from magicfs.stores.local_parts import DATA, OpenUpload, boot_id, remove
from magicfs.stores.port import UploadInfo

__all__ = ["find", "open_upload", "pending"]

# How many elements of the key lie below the directory where the upload is listed, and below the one where it
# is kept; inode and time of the file; what makes it unique.
_ID = re.compile(r"(\d{1,4})\.(\d{1,4})\.([0-9a-f]{1,16})-([0-9a-f]{1,16})\.([0-9a-f]{16})")
_NEW = ".new"
_NEW_LASTS_S = 3600.0
"""Seconds after which nobody opens an upload any more that is not open yet: it takes none."""
_RECORD = "upload.json"
_RECORD_BYTES_MAX = 2**20
_TRIES = 500


def open_upload(root: Path, key: str, metadata: Mapping[str, str]) -> str:
    """Open an upload of a key below a root; returns its id. OSError if the key can be no file."""
    names = key.split("/")
    for _ in range(_TRIES):
        listed, kept = _places(root, names)
        with contextlib.suppress(FileNotFoundError):
            return _open(root, names, metadata, listed, kept)
        if not root.is_dir():
            break
    raise local_files.too_fast(root)


def _places(root: Path, names: Sequence[str]) -> tuple[int, int]:
    """How many elements of a key lead to the directories where an upload is listed, and where it is kept.

    Listings do not enter links. So the record lies above the first link below which it can be written, and
    every listing that may enter the directory of the link meets it.
    """
    if not root.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(root))
    depth, links, path = 0, list[int](), str(root).rstrip("/")
    for name in names[:-1]:
        path = f"{path}/{name}"
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            break
        if stat.S_ISLNK(found.st_mode):
            links.append(depth)
        elif not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "a file is in the place of a directory", path)
        depth += 1
    directory = "/".join((str(root).rstrip("/"), *names[:depth]))
    for name in names[depth:]:  # whether it is too long
        with contextlib.suppress(FileNotFoundError):
            os.lstat(f"{directory}/{name}")
    above = (link for link in links if os.access(root.joinpath(*names[:link]), os.W_OK | os.X_OK))
    return next(above, depth), depth


def _open(root: Path, names: Sequence[str], metadata: Mapping[str, str], listed: int, kept: int) -> str:
    token = secrets.token_hex(8)
    place = _place(root, names[:kept])
    new = f"{place}/{token}{_NEW}"
    _make(place, new)
    try:
        descriptor = os.open(f"{new}/{DATA}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            now = time.time_ns()
            os.utime(descriptor, ns=(now, now))
            found = os.fstat(descriptor)  # the time as the filesystem keeps it
        finally:
            os.close(descriptor)
        below = f"{len(names) - listed}.{len(names) - kept}"
        upload_id = f"{below}.{found.st_ino:x}-{found.st_mtime_ns:x}.{token}"
        record = {"key": "/".join(names[listed:]), "metadata": dict(metadata), "boot": boot_id()}
        raw = json.dumps(record).encode()
        if listed == kept:
            _write_record(new, raw)
            os.rename(new, f"{place}/{upload_id}")
            return upload_id
        os.rename(new, f"{place}/{upload_id}")
        new = f"{place}/{upload_id}"
        _list_elsewhere(_place(root, names[:listed]), upload_id, raw)
    except BaseException:
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{new}/{DATA}")
            remove(new)
        raise
    return upload_id


def _place(root: Path, names: Sequence[str]) -> str:
    return "/".join((str(root).rstrip("/"), *names, UPLOADS))


def _make(place: str, new: str) -> None:
    """Make a directory for an upload, and the one that holds it."""
    try:
        os.mkdir(new)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
        os.mkdir(new)


def _write_record(directory: str, record: bytes, *, lasting: bool = False) -> None:
    """Write the record into a directory that nobody knows yet.

    Without ``lasting`` it may be empty after the machine has stopped, as the parts.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(f"{directory}/{_RECORD}", flags, 0o666)
    try:
        local_files.write_into(descriptor, record)
        if lasting:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_elsewhere(place: str, upload_id: str, record: bytes) -> None:
    new = f"{place}/{upload_id}{_NEW}"
    _make(place, new)
    try:
        _write_record(new, record, lasting=True)  # nobody finds the parts without it
        os.rename(new, f"{place}/{upload_id}")
    except BaseException:
        with contextlib.suppress(OSError):
            remove(new)
        raise


def find(root: Path, key: str, upload_id: str) -> tuple[OpenUpload | None, bool]:
    """The upload of that id and key, or what is left of it, and whether it is open.

    None if it was never opened, or is another key's.
    """
    match = _ID.fullmatch(upload_id)
    names = key.split("/")
    if match is None or not paths.can_be_a_file(key) or not 0 < int(match[2]) <= int(match[1]) <= len(names):
        return None, False
    listed, directory = (
        f"{_place(root, names[: len(names) - int(below)])}/{upload_id}" for below in (match[1], match[2])
    )
    record = _record_of(listed)
    relative = _key_of(record)
    boot = record.get("boot")
    known = boot if isinstance(boot, str) else ""
    upload = OpenUpload(root, key, upload_id, listed, directory, int(match[4], 16), known)
    if relative is not None and relative != "/".join(names[len(names) - int(match[1]) :]):
        return None, False
    return upload, relative is not None and os.path.exists(f"{directory}/{DATA}")


def _died_with_the_machine(upload_id: re.Match[str]) -> bool:
    """Whether an upload that has no record lost it when the machine stopped: nobody else could tidy up."""
    lies_elsewhere = upload_id[1] != upload_id[2]  # then only the place where it is listed has the record
    if lies_elsewhere or not hasattr(time, "CLOCK_BOOTTIME"):
        return False
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return int(upload_id[4], 16) / 1e9 < started


def _record_of(directory: str) -> dict[str, Any]:
    """The record of an upload; empty if there is none."""
    try:
        found = json.loads(local_files.read_small(f"{directory}/{_RECORD}", _RECORD_BYTES_MAX))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _key_of(record: Mapping[str, Any]) -> str | None:
    """The key in a record, from the directory in which the upload is listed; None if it has none."""
    key = record.get("key")
    return key if isinstance(key, str) and paths.can_be_a_file(key) else None


def pending(root: Path, prefix: str) -> list[UploadInfo]:
    """Every open upload whose key begins with a prefix, in the order of keys and of opening."""
    start, slash, beginning = prefix.rpartition("/")
    if slash and not paths.can_be_a_file(start):
        return []
    names = start.split("/") if start else []
    found: dict[str, UploadInfo] = {}
    for depth in range(len(names) + 1):
        # What others keep hidden further up is not ours.
        with contextlib.suppress(*(() if depth == len(names) else (PermissionError,))):
            _look(root, "".join(f"{name}/" for name in names[:depth]), prefix, found)
    waiting = [start + slash]
    while waiting:
        directory = waiting.pop()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with os.scandir(root / directory) as entries:
                below = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
            below = [name for name in below if name.startswith(beginning) and name != UPLOADS]
            waiting += [f"{directory}{name}/" for name in below]
            for name in below:
                _look(root, f"{directory}{name}/", prefix, found)
        beginning = ""
    return sorted(found.values(), key=lambda info: (os.fsencode(info.key), info.initiated))


def _look(root: Path, directory: str, prefix: str, found: dict[str, UploadInfo]) -> None:
    """Add the uploads that are listed in one directory."""
    try:
        names = [path.name for path in (root / directory / UPLOADS).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return
    for upload_id in names:
        match = _ID.fullmatch(upload_id)
        place = f"{root / directory / UPLOADS}/{upload_id}"
        record = _record_of(place) if match else {}
        relative = _key_of(record)
        if upload_id.endswith(_NEW) and _is_left(place):
            with contextlib.suppress(OSError):
                remove(place)
        if match is not None and not record and (_died_with_the_machine(match) or _is_over(place)):
            with contextlib.suppress(OSError):  # others may be allowed to
                remove(place)
        if match is None or relative is None or not f"{directory}{relative}".startswith(prefix):
            continue
        key = f"{directory}{relative}"
        upload, is_open = find(root, key, upload_id)
        if is_open:
            found[upload_id] = UploadInfo(key, upload_id, int(match[4], 16) / 1e9)
        elif upload is not None and upload.listed == upload.directory:  # no mount that is not there now
            # It was completed or aborted by a process that died before it had tidied up.
            with contextlib.suppress(OSError):
                upload.remove()


def _is_left(place: str) -> bool:
    """Whether a process has died that was opening an upload."""
    with contextlib.suppress(OSError):
        return time.time() - os.stat(place).st_mtime > _NEW_LASTS_S
    return False


def _is_over(place: str) -> bool:
    """Whether what would become the file is gone, which goes first when an upload ends."""
    return not os.path.exists(f"{place}/{DATA}")
