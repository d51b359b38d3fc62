"""Calls about ordinary paths: the wrapped filesystem's own methods take them, as they were made.

A call is about ordinary paths if none of the paths that it names lies below a magic path. Methods that
have no coroutine, as all of local files, run in threads.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fsspec.spec import AbstractFileSystem

from magicfs.errors import UsageError
from magicfs.runtime.interrupt import run_on

if TYPE_CHECKING:
    from magicfs.filesystem.connection import Connection

_OTHER_NAMES = {"_mv_file": "mv"}
"""Coroutines whose blocking methods are called otherwise."""


class Coroutines:
    """The coroutines of a filesystem: ``_info`` is its own, or ``info`` in a thread.

    ``info`` is the method: ``_info`` if that is what it runs, and otherwise itself in a thread.
    """

    def __init__(self, fs: AbstractFileSystem) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Callable[..., Any]:
        blocking = name.removeprefix("_")
        own = getattr(self._fs, f"_{blocking}", None) if self._fs.async_impl else None
        if inspect.iscoroutinefunction(own) and (
            name != blocking or hasattr(getattr(self._fs, blocking), "__wrapped__")
        ):
            return own
        method = getattr(self._fs, _OTHER_NAMES.get(name, blocking))

        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return call

    async def walk_through(self, path: str, **kwargs: Any) -> AsyncIterator[Any]:
        """Its ``_walk``, or all that ``walk`` finds."""
        if inspect.isasyncgenfunction(walk := getattr(self._fs, "_walk", None)):
            async for step in walk(path, **kwargs):
                yield step
            return
        for step in await asyncio.to_thread(lambda: list(self._fs.walk(path, **kwargs))):
            yield step

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """As the filesystem has it; refused by one that has no such files."""
        if self._fs.async_impl:
            return await self._fs.open_async(path, mode, **kwargs)
        raise UsageError(
            f"{path}: {type(self._fs).__name__} has no asynchronous files; open it with "
            f"filesystem.open({path!r}, {mode!r}) in a thread"
        )


_Kind = TypeVar("_Kind", bound=type)

_ONE = ("path",)
_TWO = ("path1", "path2")
_CALLS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(("_info", "_exists", "_isdir", "_isfile", "_ls", "_glob", "_find"), (_ONE, ())),
    **dict.fromkeys(("_du", "_size", "_cat_file", "_cat", "_getxattr"), (_ONE, ())),
    **dict.fromkeys(("walk", "lexists", "getxattr", "created", "modified", "expand_path"), (_ONE, ())),
    **dict.fromkeys(("_checksum", "checksum", "ukey", "cat", "makedir"), (_ONE, ())),
    **dict.fromkeys(("_sizes", "_cat_ranges"), (("paths",), ())),
    **dict.fromkeys(("_get_file", "_get"), (("rpath", "lpath"), ())),
    **dict.fromkeys(("_mkdir", "_makedirs", "_rmdir", "rmdir"), (_ONE, ())),
    **dict.fromkeys(("_touch", "touch", "_pipe", "_rm_file", "_rm"), (_ONE, _ONE)),
    **dict.fromkeys(("_put_file", "_put"), (("lpath", "rpath"), ("rpath",))),
    **dict.fromkeys(("_cp_file", "_copy"), (_TWO, ("path2",))),
    **dict.fromkeys(("_mv_file", "mv"), (_TWO, _TWO)),
}
"""Methods and coroutines: their first arguments, and which of these are paths of files that they change."""
_OF_THIS_MACHINE = "lpath"
_NAMES = frozenset({"_info", "_ls", "_find", "expand_path"})
"""Those that return names of files."""


def handed_over(kind: _Kind) -> _Kind:
    """Decorate ``MagicFileSystem``: calls about ordinary paths go to the wrapped filesystem."""
    for name, (leading, changed) in _CALLS.items():
        own = getattr(kind, name)
        wrap = _coroutine if inspect.iscoroutinefunction(own) else _method
        setattr(kind, name, wrap(own, functools.partial(_wrapped_call, name, leading, changed)))
    return kind


def _coroutine(own: Any, find: Callable[..., Any]) -> Any:
    @functools.wraps(own)
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        wrapped = find(self, args, kwargs)
        return await (own(self, *args, **kwargs) if wrapped is None else wrapped())

    return call


def _method(own: Any, find: Callable[..., Any]) -> Any:
    @functools.wraps(own)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        wrapped = find(self, args, kwargs)
        return own(self, *args, **kwargs) if wrapped is None else run_on(self.loop, wrapped)

    return call


def _wrapped_call(
    name: str,
    leading: tuple[str, ...],
    changed: tuple[str, ...],
    filesystem: Connection,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Callable[[], Any] | None:
    """The same call of the wrapped filesystem; None if a path lies below a magic one, or is missing."""
    named = {**kwargs, **dict(zip(leading, args, strict=False))}
    if not named.keys() >= {*leading}:
        return None
    paths = {one: named[one] for one in leading if one != _OF_THIS_MACHINE}
    if any(filesystem.locate(path) is not None for value in paths.values() for path in _each(value)):
        return None
    for one in changed:
        for path in _each(paths[one]):
            filesystem.warn_outside(path)
    # Other filesystems have other names for their paths, so these go by position.
    handed = [filesystem.handed(named[one]) if one in paths else named[one] for one in leading]
    others = {one: value for one, value in kwargs.items() if one not in leading[len(args) :]}
    method = getattr(filesystem.coroutines, name)
    call = functools.partial(method, *handed, *args[len(leading) :], **others)
    if name not in _NAMES:
        return call
    return functools.partial(_as_asked, filesystem, next(iter(_each(paths["path"])), ""), call)


async def _as_asked(filesystem: Connection, path: Any, call: Callable[[], Any]) -> Any:
    return filesystem.as_asked(path, await call())


def _each(value: Any) -> Iterable[str | os.PathLike[str]]:
    """Every path in an argument: one, several, or those that are written, with their contents."""
    if isinstance(value, str | os.PathLike):
        return (value,)
    return value if isinstance(value, Collection) else ()
