"""Deleting local files as objects, with the directories of jobs that they leave empty."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from magicfs.errors import StoreError
from magicfs.protocol import paths
from magicfs.protocol.magic import MAGIC
from magicfs.stores.local import errors as local_errors
from magicfs.stores.local.files import OURS
from magicfs.stores.local.places import Places, open_directory

__all__ = ["remove", "remove_all"]


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


def _clear(root: Path, directory: str) -> None:
    """Remove the temporary files that writers which died have left, if there is nothing else. One that still
    writes begins again, as if the directory had gone.
    """
    descriptor = open_directory(root, directory)
    try:
        if all(OURS.fullmatch(name) for _, _, files, _ in os.fwalk(dir_fd=descriptor) for name in files):
            for _, below, files, at in os.fwalk(topdown=False, dir_fd=descriptor):
                for name in filter(OURS.fullmatch, files):
                    os.unlink(name, dir_fd=at)
                for name in below:
                    os.rmdir(name, dir_fd=at)
    finally:
        os.close(descriptor)
