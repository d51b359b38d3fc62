"""What distributions register by entry points: found by its name, and imported when somebody asks for it.

::

    [project.entry-points."magicfs.extensions"]
    keep = "magicfs.past.extension:Past"

The groups are ``magicfs.committers``, ``magicfs.extensions``, ``magicfs.finders``, ``magicfs.commands`` and
``magicfs.recover``. Guests of this distribution register as those of any other do.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["load", "names"]


def names(group: str) -> list[str]:
    """All names that are registered in a group, sorted. Nothing is imported."""
    return sorted({one.name for one in _points(group)})


@cache
def load(group: str, name: str, *needed: str) -> Any:
    """What is registered under a name. A second call returns the same.

    Raises UsageError if nothing is, if two distributions register different things, or if it cannot be
    imported, or lacks one of the names that are ``needed``.
    """
    points = {one.value: one for one in reversed(_points(group)) if one.name == name}
    if not points:
        raise UsageError(
            f"{name!r} of {group} is not installed; nothing was changed; install the distribution that "
            "brings it, or a newer magicfs"
        )
    if len(points) > 1:
        said = " and ".join(sorted(f"{value} of {_distribution(one)}" for value, one in points.items()))
        raise UsageError(f"{name!r} of {group} is registered twice, as {said}; uninstall one of them")
    [point] = points.values()
    try:
        loaded = point.load()
        for one in needed:
            getattr(loaded, one)
    except Exception as error:  # whatever a guest raises; all others work without it
        named = point.dist.name if point.dist else point.value
        raise UsageError(
            f"{name!r} of {group} comes from {_distribution(point)}, and cannot be loaded "
            f"({type(error).__name__}: {error}); everything else works; install it again: "
            f"python -m pip install --force-reinstall {named}"
        ) from error
    return loaded


def _points(group: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
