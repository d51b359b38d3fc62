"""What the wrapped filesystem can do beyond fsspec, such as s3fs's ``url``: with paths in any spelling."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["is_about_a_path", "is_change", "on_stripped_path"]

_LOOKS = frozenset({"url", "metadata", "get_tags", "object_version_info", "split_path", "islink"})
_CHANGES = frozenset({"setxattr", "setxattrs", "chmod", "put_tags"})


def is_about_a_path(name: str) -> bool:
    """Whether a method, or its coroutine ``_name``, takes a path first."""
    return name.removeprefix("_") in _LOOKS | _CHANGES


def is_change(name: str) -> bool:
    """Whether it changes what lies there."""
    return name.removeprefix("_") in _CHANGES


def on_stripped_path(method: Callable[..., Any], strip: Callable[[str], str]) -> Callable[..., Any]:
    """The method for paths as ``strip`` takes them: s3fs knows no ``magic::s3://``."""
    if not inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        def call(path: str, *args: Any, **kwargs: Any) -> Any:
            return method(strip(path), *args, **kwargs)

        return call

    @functools.wraps(method)
    async def work(path: str, *args: Any, **kwargs: Any) -> Any:
        return await method(strip(path), *args, **kwargs)

    return work
