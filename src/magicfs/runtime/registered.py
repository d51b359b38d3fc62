"""What is registered by entry points: found by its name, and imported when somebody asks for it.

Guests of this distribution register as those of any other do.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from magicfs.errors import UsageError

__all__ = ["load", "names"]


@cache
def _found(group: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=group):
        if one not in found.setdefault(one.name, []):
            found[one.name].append(one)
    return found


def names(group: str) -> list[str]:
    """All names that are registered in a group, sorted. Nothing is imported."""
    return sorted(_found(group))


def load(group: str, name: str) -> Any:
    """What is registered under a name. A second call returns the same.

    Raises UsageError if nothing is, if two distributions register it, or if it cannot be imported.
    """
    found = _found(group).get(name, [])
    if not found:
        known = ", ".join(names(group)) or "none"
        raise UsageError(
            f"{name!r} is none of the entry points {group!r}, which are {known}; install the "
            "distribution that brings it, or a newer magicfs"
        )
    if len(found) > 1:
        registered = " and ".join(map(_said, found))
        raise UsageError(
            f"{name!r} of the entry points {group!r} is registered twice, as {registered}; uninstall one"
        )
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{name!r} of the entry points {group!r}, {_said(found[0])}, cannot be imported: {error}; "
            "install what it needs, or uninstall it"
        ) from error


def _said(one: EntryPoint) -> str:
    return f"{one.value} of {'an unknown distribution' if one.dist is None else one.dist.name}"
