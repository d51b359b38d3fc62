"""Listings of local files as objects: short ones at once, long ones page by page in threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from magicfs.protocol import paths
from magicfs.stores.local.files import OURS, listed
from magicfs.stores.local.places import Places, open_directory
from magicfs.stores.port import ObjectInfo

_P = ParamSpec("_P")

QUICK_S = 0.002
"""What a loop may stand still for a call."""


class Calls:
    """The calls to one filesystem. A thread costs more than most of them take.

    A brief one is made on the loop itself as long as the one before it was quick. The first of all, and those
    after a slow one, as on a filesystem of a network, are made in threads until one is quick again.
    """

    def __init__(self) -> None:
        self._is_quick = False

    async def brief(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call what moves few bytes, and waits for no disk to be written."""
        if self._is_quick:
            return self._timed(work, *args, **kwargs)
        return await asyncio.to_thread(lambda: self._timed(work, *args, **kwargs))

    async def long(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call whatever may take its time."""
        return await asyncio.to_thread(work, *args, **kwargs)

    def _timed(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        started = time.perf_counter()
        try:
            return work(*args, **kwargs)
        finally:
            self._is_quick = time.perf_counter() - started < QUICK_S


@lru_cache(maxsize=256)
def calls_below(root: Path) -> Calls:  # noqa: ARG001 - what they are known by
    """The calls of all stores below a root: each file that is written asks for a store of its own."""
    return Calls()


_T = TypeVar("_T")

FEW: Final = 64
"""Names that are looked at, or files that are deleted, while a loop stands still."""
_PAGE: Final = 1000


async def objects_of(
    calls: Calls, root: Path, prefix: str, limit: int | None
) -> AsyncIterator[list[ObjectInfo]]:
    """What ``walk`` finds, at most so many, page by page."""
    few = await calls.brief(_or_none, lambda: list(walk(root, prefix, FEW)))
    if few is not None:
        yield few[:limit]
        return
    found, left = walk(root, prefix), limit
    while left is None or left > 0:
        most = _PAGE if left is None else min(left, _PAGE)
        page = await calls.long(lambda: list(islice(found, most)))  # noqa: B023 - called at once
        yield page
        if len(page) < most:
            return
        left = left and left - most


async def directories_of(calls: Calls, root: Path, prefix: str) -> list[str]:
    """What ``directories`` finds."""
    few = await calls.brief(_or_none, lambda: directories(root, prefix, FEW))
    return few if few is not None else await calls.long(directories, root, prefix)


def _or_none(look: Callable[[], _T]) -> _T | None:
    try:
        return look()
    except TooManyError:
        return None


class TooManyError(Exception):
    """More names than a caller would look at."""


def _names(root: Path, key: str, most: int | None = None, *, follow: bool = True) -> list[str]:
    """The names in a directory, those of directories with a slash; symbolic links are none.

    TooManyError beyond a limit, before more of them are read.
    """
    descriptor = open_directory(root, key.removesuffix("/"), follow=follow)
    try:
        with os.scandir(descriptor) as entries:
            found = list(islice(entries, None if most is None else most + 1))
            # Before temporary files are left out, or the rest of the directory would be, too.
            if most is not None and len(found) > most:
                raise TooManyError
            return [
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in found
                if not OURS.fullmatch(entry.name)
            ]
    finally:
        os.close(descriptor)


def walk(root: Path, prefix: str, most: int | None = None) -> Iterator[ObjectInfo]:
    """Every object whose key begins with a prefix, in order of the bytes of keys.

    What is deleted meanwhile may be left out. A link, pipe or socket under a name of ours is an object of its
    own, which nobody can read. OSError if a directory cannot be read. TooManyError once more than so many
    names would have to be looked at.
    """
    start, slash, beginning = prefix.rpartition("/")
    if slash and not paths.can_be_a_file(start):
        return
    waiting, follow = [start + slash], True
    with Places(root) as places:
        while waiting:
            key = waiting.pop()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if key and not key.endswith("/"):
                    if (info := listed(places, key)) is not None:
                        yield info
                    continue
                names = _names(root, key, most, follow=follow)
                most = None if most is None else most - len(names)
                below = (key + name for name in names if name.startswith(beginning))
                waiting += sorted(below, key=os.fsencode, reverse=True)
                beginning = ""
                follow = False


def directories(root: Path, prefix: str, most: int | None = None) -> list[str]:
    """Every directory whose path begins with a prefix, and none below it, in order of their bytes.

    Each ends with a slash. OSError if the directory that holds them cannot be read. TooManyError if it has
    more than so many names.
    """
    start, slash, beginning = prefix.rpartition("/")
    start += slash
    if slash and not paths.can_be_a_file(start.removesuffix("/")):
        return []
    try:
        names = _names(root, start, most)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (start + name for name in names if name.endswith("/") and name.startswith(beginning))
    return sorted(found, key=os.fsencode)
