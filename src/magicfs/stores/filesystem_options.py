"""The options that a filesystem of fsspec was made with."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["options_of"]


def options_of(filesystem: AbstractFileSystem) -> dict[str, Any]:
    """Everything that a filesystem was made with, by name, what was given by position included."""
    names = list(inspect.signature(type(filesystem).__init__).parameters)[1:]
    return {**dict(zip(names, filesystem.storage_args, strict=False)), **filesystem.storage_options}
