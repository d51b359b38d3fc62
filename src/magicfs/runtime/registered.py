"""What distributions register by entry points, ours as any other: found by name, imported when asked for.

::

    [project.entry-points."magicfs.extensions"]
    keep = "magicfs.past.extension:Past"

And packages whose names are loaded when they are first used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def names(group: str) -> list[str]:
    """All names of a group, sorted. Nothing is imported."""
    return sorted({one.name for one in _points(group)})


@cache
def load(group: str, name: str, *needed: str) -> Any:
    """What is registered under a name. A second call returns the same.

    Raises UsageError if nothing is, if two distributions register it, or if it cannot be loaded, or lacks one
    of the names that are ``needed``.
    """
    points = _named(group, name)
    if not points:
        raise UsageError(
            f"{name!r} of {group} is not installed; nothing was changed; install the package that provides "
            "it, or a newer magicfs"
        )
    if len(points) > 1:
        said = " and ".join(map(_distribution, points))
        raise UsageError(f"{name!r} of {group} is registered by {said}; nothing was changed; uninstall one")
    try:
        loaded = points[0].load()
        for one in needed:
            getattr(loaded, one)
    except Exception as error:  # whatever a guest raises; all others work without it
        raise unusable(group, name, f"{type(error).__name__}: {error}") from error
    return loaded


def unusable(group: str, name: str, why: str) -> UsageError:
    """The error for what is registered and cannot be used."""
    point = _named(group, name)[0]
    return UsageError(
        f"{name!r} of {group} comes from {_distribution(point)} and cannot be used ({why}); everything else "
        f"works; install it again: python -m pip install --force-reinstall {_distribution(point)}"
    )


def _named(group: str, name: str) -> list[EntryPoint]:
    return [one for one in _points(group) if one.name == name]


@cache
def _points(group: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package, for names by the modules that have them.

    Some functions bear the names of their modules, which imports would put in their places.
    """

    class Package(ModuleType):
        def __setattr__(self, name: str, value: object) -> None:
            if not (name in homes and isinstance(value, ModuleType)):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *homes})

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    sys.modules[package].__class__ = Package
    return load
