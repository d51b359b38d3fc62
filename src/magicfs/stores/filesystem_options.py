"""The options of filesystems of fsspec: those that one was made with, and those that one knows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["OF_EVERY_FILESYSTEM", "check_few", "named_by", "options_of"]

OF_EVERY_FILESYSTEM: Final = frozenset(
    {"batch_size", "listings_expiry_time", "max_paths", "skip_instance_cache", "use_listings_cache"}
)
_OF_EVERY_LOOP: Final = frozenset({"asynchronous", "loop"})


def options_of(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """Everything that a filesystem was made with, by name, what was given by position included."""
    names = list(inspect.signature(type(filesystem).__init__).parameters)[1:]
    return {**dict(zip(names, filesystem.storage_args, strict=False)), **filesystem.storage_options}


def named_by(function: Callable[..., Any]) -> frozenset[str]:
    """The arguments of a function that have names."""
    return frozenset(inspect.signature(function).parameters) - {"self", "kwargs"}


def check_few(scheme: str, options: Mapping[str, Any], own: Collection[str]) -> None:
    """Raise UsageError for an option of a filesystem that takes anything, and has a few options of its own.

    What nobody reads was meant for another store: a key, or an endpoint.
    """
    for name in options:
        if name in own or name in OF_EVERY_FILESYSTEM or name in _OF_EVERY_LOOP:
            continue
        near = get_close_matches(str(name), own, 1, 0.7)
        meant = f"did you mean {near[0]}?" if near else "leave it out, or give the URL of the store it is for"
        where = "files of this machine know" if scheme != "memory" else "memory:// knows"
        raise UsageError(f"{where} no option {name!r}; {meant}; nothing was changed")
