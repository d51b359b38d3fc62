"""One spelling of a path, however it was given: without scheme, and without the slashes around it.

Where a store has buckets ``/bucket/key`` is ``bucket/key``, as in s3fs. Local files have none: their paths
are absolute and keep their first slash. Which it is, an instance knows by the filesystem that it wraps, and
its class by the scheme alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fsspec.utils import stringify_path

from magicfs.stores import resolve, urls

__all__ = ["either", "handed", "has_buckets", "parent", "rooted", "stripped"]

_T = TypeVar("_T")


class either(Generic[_T]):  # noqa: N801 - a decorator, as classmethod
    """A method of the instance, and where there is none of the class: fsspec calls some on both."""

    def __init__(self, method: Callable[..., _T]) -> None:
        self._method = method
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., _T]:
        return functools.partial(self._method, owner if instance is None else instance)


def has_buckets(instance_or_class: Any) -> bool:
    """Whether paths begin with a bucket; a class cannot know, and takes it for so."""
    found = getattr(instance_or_class, "_has_buckets", True)
    return bool(found)


def stripped(path: Any, buckets: bool) -> Any:
    """A path, or a list of them, without scheme and without slashes at its ends, but the first of files."""
    if isinstance(path, list):
        return [stripped(one, buckets) for one in path]
    text = _without_ours(stringify_path(path))
    scheme, separator, _ = text.partition("://")
    if separator and scheme in resolve.SCHEMES:
        text = urls.split(text)[0].partition("://")[2]
        buckets = buckets and resolve.scheme_has_buckets(scheme)
    if buckets:
        return text.strip("/")
    return text.rstrip("/") or "/"


def handed(path: Any) -> Any:
    """A path, or several of them, without the schemes of magicfs: as the wrapped filesystem reads it."""
    if isinstance(path, dict):
        return {handed(one): value for one, value in path.items()}
    if isinstance(path, list | tuple | set):
        return type(path)(handed(one) for one in path)
    text = stringify_path(path)
    return path if not isinstance(text, str) or (plain := _without_ours(text)) == text else plain


def _without_ours(text: str) -> str:
    return text.removeprefix("magic::").removeprefix("magic://").removeprefix("magic+")


def rooted(found: Any) -> Any:
    """What lists files, names or entries of them, with a slash before each name."""
    if isinstance(found, str):
        return f"/{found}"
    if isinstance(found, list):
        return [rooted(one) for one in found]
    if "name" in found and isinstance(found["name"], str):
        return {**found, "name": f"/{found['name']}"}
    return {f"/{name}": rooted(entry) for name, entry in found.items()}


def parent(path: Any, buckets: bool) -> str:
    """The directory that holds a path; of a bucket nothing, of the root itself."""
    above, slash, _ = stripped(path, buckets).rpartition("/")
    return above or ("" if buckets else slash)
