"""Which commands there are: the core's own, by a table, and those of guests, by entry points.

Each is a module with ``HELP``, ``configure(parser)`` and ``run(arguments)``, and with the ``PLACE`` that
``magicfs --help`` gives it: a group, and a number in that.
"""

from __future__ import annotations

import math
from importlib import import_module
from types import ModuleType
from typing import Final

from magicfs.errors import UsageError
from magicfs.runtime import registered

POINTS: Final = "magicfs.commands"
"""The entry points of guests' commands; the core's own names are not theirs."""

_OWN: Final = ("job", "recover")
"""Modules of ``magicfs.cli``."""
_GROUPS: Final = ("publish", "look", "repair", "past", "maintain")
_NO_PLACE: Final = ("more", math.inf)


def commands(asked: str | None = None) -> dict[str, ModuleType]:
    """The command that is asked for, or all in the order of ``--help`` if there is none of this name.

    Raises UsageError if the command that is asked for cannot be loaded. Among all it has a line that says so.
    """
    if asked in _OWN:
        return {asked: _own(asked)}
    guests = names() - {*_OWN}
    if asked in guests:
        return {asked: _of(asked)}
    found = {name: _own(name) for name in _OWN} | {name: _line_of(name) for name in guests}

    def place(name: str) -> tuple[float, str, float, str]:
        group, number = getattr(found[name], "PLACE", _NO_PLACE)
        return _GROUPS.index(group) if group in _GROUPS else math.inf, group, number, name

    return {name: found[name] for name in sorted(found, key=place)}


def names() -> set[str]:
    """Of all commands. None is imported."""
    return {*_OWN, *registered.names(POINTS)}


def group_of(command: ModuleType) -> str:
    """The group of ``--help`` that a command is in."""
    group: str = getattr(command, "PLACE", _NO_PLACE)[0]
    return group


def _own(name: str) -> ModuleType:
    return import_module(f"magicfs.cli.{name}")


def _of(name: str) -> ModuleType:
    module: ModuleType = registered.load(POINTS, name, "HELP", "configure", "run")
    return module


def _line_of(name: str) -> ModuleType:
    try:
        return _of(name)
    except UsageError:
        lost = ModuleType(name)
        says = f"cannot be loaded; run magicfs {name} to see why"
        vars(lost).update(HELP=says, configure=lambda _: None, run=None)
        return lost
