"""Uploads of local files: hidden directories beside the files that they shall become.

An upload lies in ``.magicfs-uploads/<id>`` in the deepest directory on the way to its key that is there when
it is opened: so on the device of its file, also where a partition is a mount or a link, and no directory is
made before the file appears. ``upload.json`` is the record; the rest are its parts (``parts``). The
upload is open while record and data are there.

Looking for uploads changes nothing. What processes have left that died goes when the next upload is opened or
aborted in the same directory.

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
from magicfs.stores.local import files
from magicfs.stores.local.held import (
    DATA,
    RECORD,
    UPLOADS,
    Held,
    directory_of,
    held_in,
    held_of,
    open_place,
    place_of,
    remove_place,
)
from magicfs.stores.local.parts import OpenUpload, boot_id
from magicfs.stores.local.places import (
    DIRECTORY,
    NO_LINK,
    NotOursError,
    Places,
    open_directory,
)
from magicfs.stores.port import UploadInfo

# How many elements of the key lie below the directory where the upload is listed, and below the one where it
# is kept; inode and time of the file; what makes it unique.
_ID = re.compile(r"(\d{1,4})\.(\d{1,4})\.([0-9a-f]{1,16})-([0-9a-f]{1,16})\.([0-9a-f]{16})")
_NEW = ".new"
_NEW_LASTS_S = 3600.0
"""Seconds after which nobody opens an upload any more that is not open yet: it takes none."""
_RECORD_BYTES_MAX = 2**20
_TRIES = 500
_tidied: dict[str, float] = {}
"""When this process has tidied up last, by directories of uploads."""
_TIDIED_MAX = 1000


def open_upload(root: Path, key: str, metadata: Mapping[str, str]) -> str:
    """Open an upload of a key below a root; returns its id. OSError if the key can be no file."""
    names = key.split("/")
    for _ in range(_TRIES):
        listed, kept = _places(root, names)
        with contextlib.suppress(FileNotFoundError):
            return _open(root, names, metadata, listed, kept)
        if not root.is_dir():
            break
    raise files.too_fast(root)


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
            raise NotADirectoryError(errno.ENOTDIR, "a file has the name of a directory", path)
        depth += 1
    directory = "/".join((str(root).rstrip("/"), *names[:depth]))
    for name in names[depth:]:  # whether it is too long
        with contextlib.suppress(FileNotFoundError):
            os.lstat(f"{directory}/{name}")
    above = (link for link in links if os.access(root.joinpath(*names[:link]), os.W_OK | os.X_OK))
    return next(above, depth), depth


def _open(root: Path, names: Sequence[str], metadata: Mapping[str, str], listed: int, kept: int) -> str:
    token = secrets.token_hex(8)
    place = _make(root, names[:kept], f"{token}{_NEW}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(DATA, flags, 0o666, dir_fd=place.descriptor)
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
            _write_record(place, raw)
            _name(place, upload_id)
            return upload_id
        _name(place, upload_id)
        _list_elsewhere(root, names[:listed], upload_id, raw)
    except BaseException:
        with contextlib.suppress(OSError):
            place.unlink(DATA)
            place.remove()
            remove_place(root, place_of(names[:kept]))
        raise
    return upload_id


def _make(root: Path, names: Sequence[str], new: str) -> Held:
    """Make a directory for an upload, and the one that holds it.

    Raises NotOursError if that is no directory, or somebody else's.
    """
    with Places(root) as places:
        path, above = places.at(place_of(names))
        try:
            place, was_there = open_place(root, names, path, above), True
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, dir_fd=above)
            place, was_there = open_place(root, names, path, above), False
    try:
        if was_there:
            _tidy_once(root, names, place)
        os.mkdir(new, dir_fd=place)
        return Held(place, new, os.open(new, DIRECTORY | NO_LINK, dir_fd=place))
    except BaseException:
        os.close(place)
        raise


def _name(new: Held, upload_id: str) -> None:
    os.rename(new.name, upload_id, src_dir_fd=new.place, dst_dir_fd=new.place)
    new.name = upload_id


def _write_record(held: Held, record: bytes, *, lasting: bool = False) -> None:
    """Write the record into a directory that nobody knows yet.

    Without ``lasting`` it may be empty after the machine has stopped, as the parts.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(RECORD, flags, 0o666, dir_fd=held.descriptor)
    try:
        files.write_into(descriptor, record)
        if lasting:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _list_elsewhere(root: Path, names: Sequence[str], upload_id: str, record: bytes) -> None:
    held = _make(root, names, f"{upload_id}{_NEW}")
    try:
        _write_record(held, record, lasting=True)  # nobody finds the parts without it
        _name(held, upload_id)
    except BaseException:
        with contextlib.suppress(OSError):
            held.remove()
            remove_place(root, place_of(names))
        raise


def find(root: Path, key: str, upload_id: str) -> tuple[OpenUpload | None, bool]:
    """The upload of that id and key, or what is left of it, and whether it is open.

    None if it was never opened, or is another key's.
    """
    match = _ID.fullmatch(upload_id)
    names = key.split("/")
    if match is None or not paths.can_be_a_file(key) or not 0 < int(match[2]) <= int(match[1]) <= len(names):
        return None, False
    above, near = names[: len(names) - int(match[1])], names[: len(names) - int(match[2])]
    listed = held_of(root, above, upload_id)
    held = listed if above == near else held_of(root, near, upload_id)
    record = _record_of(listed)
    relative = _key_of(record)
    boot = record.get("boot")
    known = boot if isinstance(boot, str) else ""
    places = (place_of(near), place_of(above))
    upload = OpenUpload(root, key, upload_id, listed, held, places, int(match[4], 16), known)
    if relative is not None and relative != "/".join(names[len(names) - int(match[1]) :]):
        return None, False
    return upload, relative is not None and held is not None and held.has(DATA)


def _died_with_the_machine(upload_id: re.Match[str]) -> bool:
    """Whether an upload that has no record lost it when the machine stopped: nobody else could tidy up."""
    lies_elsewhere = upload_id[1] != upload_id[2]  # then only the place where it is listed has the record
    if lies_elsewhere or not hasattr(time, "CLOCK_BOOTTIME"):
        return False
    started = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return int(upload_id[4], 16) / 1e9 < started


def _record_of(held: Held | None) -> dict[str, Any]:
    """The record of an upload; empty if there is none."""
    if held is None:
        return {}
    try:
        found = json.loads(files.read_small(RECORD, held.descriptor, _RECORD_BYTES_MAX))
    except (FileNotFoundError, NotOursError, ValueError, RecursionError):
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
    names = paths.elements(start)
    found: dict[str, UploadInfo] = {}
    for depth in _depths(root, names):
        # What others keep hidden further up is not ours.
        with contextlib.suppress(*(() if depth == len(names) else (PermissionError,))):
            _look(root, names[:depth], prefix, found)
    waiting, follow = [start + slash], True
    while waiting:
        directory = waiting.pop()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            below = [name for name in _directories(root, directory, follow) if name.startswith(beginning)]
            waiting += [f"{directory}{name}/" for name in below]
            for name in below:
                _look(root, f"{directory}{name}".split("/"), prefix, found)
        beginning, follow = "", False
    return sorted(found.values(), key=lambda info: (os.fsencode(info.key), info.initiated))


def _depths(root: Path, names: Sequence[str]) -> list[int]:
    """How many elements of a directory lead to the directories, its own last, that may list uploads for it.

    Those above it count up to the first that belongs to another user than the directory, that one included.
    """
    depths, owner = list[int](), None
    for depth in range(len(names), -1, -1):
        try:
            found = os.stat(directory_of(root, names[:depth]) or "/").st_uid
        except OSError:
            continue
        depths.append(depth)
        if owner is None:
            owner = found if depth == len(names) else os.geteuid()
        if found != owner:
            break
    return depths[::-1]


def _directories(root: Path, directory: str, follow: bool) -> list[str]:
    descriptor = open_directory(root, directory.removesuffix("/"), follow=follow)
    try:
        with os.scandir(descriptor) as entries:
            found = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    finally:
        os.close(descriptor)
    return [name for name in found if name != UPLOADS]


def _look(root: Path, names: Sequence[str], prefix: str, found: dict[str, UploadInfo]) -> None:
    """Add the uploads that are listed in one directory."""
    try:
        with Places(root) as places:
            place = open_place(root, names, *places.at(place_of(names)))
    except (FileNotFoundError, NotADirectoryError, NotOursError):
        return
    directory = "".join(f"{name}/" for name in names)
    try:
        for upload_id in os.listdir(place):
            match = _ID.fullmatch(upload_id)
            if match is None:
                continue
            relative = _key_of(_record_of(held_in(os.dup(place), upload_id)))
            if relative is None or not f"{directory}{relative}".startswith(prefix):
                continue
            key = f"{directory}{relative}"
            _, is_open = find(root, key, upload_id)
            if is_open:
                found[upload_id] = UploadInfo(key, upload_id, int(match[4], 16) / 1e9)
    finally:
        os.close(place)


def abort(root: Path, key: str, upload_id: str) -> None:
    """Remove an upload, or what is left of it, and what dead processes have left next to it."""
    upload, _ = find(root, key, upload_id)
    if upload is None:
        return
    upload.remove()
    if upload.held is not None:
        _tidy_once(root, upload.places[0].split("/")[:-1], upload.held.place)


def _tidy_once(root: Path, names: Sequence[str], place: int) -> None:
    """Remove from a directory of uploads what processes have left that died. What cannot be removed stays.

    A process does it once in a while, not for each upload.
    """
    path, now = f"{directory_of(root, names)}/{UPLOADS}", time.monotonic()
    if now - _tidied.get(path, -_NEW_LASTS_S) < _NEW_LASTS_S:
        return
    if len(_tidied) >= _TIDIED_MAX:
        _tidied.clear()
    _tidied[path] = now
    left = list[str]()
    with contextlib.suppress(FileNotFoundError):  # it went with its last upload
        left = os.listdir(place)
    for name in left:
        match = _ID.fullmatch(name)
        if match is None and not name.endswith(_NEW):
            continue
        with contextlib.suppress(OSError):
            held = held_in(os.dup(place), name)
            if held is not None and (_is_left(held) if match is None else _is_over(held, match)):
                held.remove()
    remove_place(root, place_of(names))


def _is_left(held: Held) -> bool:
    """Whether a process has died that was opening an upload."""
    return time.time() - os.fstat(held.descriptor).st_mtime > _NEW_LASTS_S


def _is_over(held: Held, upload_id: re.Match[str]) -> bool:
    """Whether an upload was completed or aborted by a process that died then: what would become the file goes
    first. Not where that lies elsewhere, on a mount that may not be there now.
    """
    record = _record_of(held)
    if held.has(DATA):
        return not record and _died_with_the_machine(upload_id)
    return not record or (upload_id[1] == upload_id[2] and _key_of(record) is not None)
