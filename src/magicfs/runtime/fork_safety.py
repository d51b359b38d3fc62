"""What a forked process must forget, and what it must not close.

A child shares its parent's sockets, and with them the kernel's list of sockets to watch. fsspec lets go of
cached filesystems in a child, s3fs then closes their connections and so takes them off that list, and the
parent hears nothing on them any more: its next requests wait until they time out. So a child keeps what it
inherits, and uses none of it.

Systems that do not fork, such as Windows, need none of this.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["after_fork_in_child", "keep_inherited_filesystems"]

_held: list[Any] = []
_registered = False


def after_fork_in_child(function: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def keep_inherited_filesystems() -> None:
    """Keep, in every process that is forked from this one, the filesystems that fsspec has cached here.

    A second call does nothing.
    """
    global _registered  # noqa: PLW0603
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        # Not after the fork in the child: there fsspec would be first.
        os.register_at_fork(before=_hold, after_in_parent=_held.clear)


def _hold() -> None:
    from fsspec.spec import AbstractFileSystem

    classes: list[Any] = [AbstractFileSystem]
    for cls in classes:
        _held.extend(cls._cache.values())
        classes.extend(cls.__subclasses__())
