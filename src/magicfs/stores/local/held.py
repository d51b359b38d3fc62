"""The hidden directories of uploads: opened without a link, and emptied of what uploads make in them alone.

Whatever else is there is passed over: a link, a pipe, or what belongs to another user
(``places.is_trusted``) is no upload.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from magicfs.stores.local.places import DIRECTORY, NO_LINK, NotOursError, Places, is_trusted, refusal

UPLOADS: Final = ".magicfs-uploads"
"""The directory in which uploads wait, next to the files that they will become; readers skip such names."""

NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})

DATA: Final = "data"
"""What becomes the file."""

RECORD: Final = "upload.json"

MADE: Final = re.compile(
    r"data|stride|lock|upload\.json|\d{5}\.(?:claim|[0-9a-f]+\.[0-9a-f]{16}(?:\.in)?)|\.magicfs-[0-9a-f]{16}\.tmp"
)
"""Names in the directory of an upload; no other is ever removed."""

_TRIES = 500


class Held:
    """The open directory of an upload, with the one that holds it; closed with the last reference."""

    __slots__ = ("descriptor", "name", "place")

    def __init__(self, place: int, name: str, descriptor: int) -> None:
        self.place: int = place
        self.name: str = name
        self.descriptor: int = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)
        os.close(self.place)

    def remove(self) -> None:
        """Remove what uploads make in it, and the directory, unless something else lies there."""
        for _ in range(_TRIES):
            for name in filter(MADE.fullmatch, os.listdir(self.descriptor)):
                self.unlink(name)
            try:
                os.rmdir(self.name, dir_fd=self.place)
            except OSError as error:
                if error.errno not in NOT_EMPTY:
                    break  # it is gone
                if not any(map(MADE.fullmatch, os.listdir(self.descriptor))):
                    break
            else:
                break

    def unlink(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=self.descriptor)

    def has(self, name: str) -> bool:
        """Whether a plain file of that name is there."""
        try:
            found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return stat.S_ISREG(found.st_mode)


def place_of(names: Sequence[str]) -> str:
    """The key of the directory of uploads in one."""
    return "/".join((*names, UPLOADS))


def directory_of(root: Path, names: Sequence[str]) -> str:
    """The path of a directory below a root."""
    return "/".join((str(root).rstrip("/"), *names))


def open_place(root: Path, names: Sequence[str], path: str, above: int | None) -> int:
    """Open the directory of uploads in another one. Raises NotOursError if it is none, or somebody else's."""
    try:
        descriptor = os.open(path, DIRECTORY | NO_LINK, dir_fd=above)
    except FileNotFoundError:
        raise
    except OSError as error:
        found = os.stat(path, dir_fd=above, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            raise
        raise refusal(found, f"{directory_of(root, names)}/{UPLOADS}") from error
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        parent = os.stat(os.path.dirname(path)) if above is None else os.fstat(above)
        if not is_trusted(found, parent):
            os.close(descriptor)
            problem = f"there is a directory of user {found.st_uid}, which this user does not trust"
            raise NotOursError(errno.EPERM, problem, f"{directory_of(root, names)}/{UPLOADS}")
    return descriptor


def held_of(root: Path, names: Sequence[str], upload_id: str) -> Held | None:
    """The directory of an upload; None if there is none, or something else is in its place."""
    try:
        with Places(root) as places:
            place = open_place(root, names, *places.at(place_of(names)))
    except (FileNotFoundError, NotADirectoryError, NotOursError):
        return None
    return held_in(place, upload_id)


def held_in(place: int, name: str) -> Held | None:
    """That of an upload in an open directory of uploads, which is closed with it."""
    try:
        descriptor = os.open(name, DIRECTORY | NO_LINK, dir_fd=place)
    except OSError as error:
        os.close(place)
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return None
        raise
    held, found = Held(place, name, descriptor), os.fstat(descriptor)
    if found.st_uid == os.geteuid() or is_trusted(found, os.fstat(place)):
        return held
    return None


def remove_place(root: Path, key: str) -> None:
    """Remove a directory of uploads if nothing is in it."""
    with contextlib.suppress(OSError), Places(root) as places:
        name, directory = places.at(key)
        os.rmdir(name, dir_fd=directory)
