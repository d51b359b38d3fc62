"""Which commands there are: the core's own, by a table, and those of guests, by entry points."""

from __future__ import annotations

import math
from importlib import import_module
from types import ModuleType
from typing import Final

from magicfs.errors import UsageError
from magicfs.runtime import registered

__all__ = ["GROUP", "commands"]

GROUP: Final = "magicfs.commands"
"""The entry points of guests' commands; the core's own names are not theirs."""

_OWN: Final = {
    "job": 10,
    "doctor": 30,
    "pending": 40,
    "recover": 50,
    "commit": 60,
    "abort": 70,
    "publish": 80,
    "discard": 90,
    "verify": 100,
    "adopt": 110,
    "show": 200,
    "completion": 210,
}
"""Each is a module of ``magicfs.cli`` with ``HELP``, ``configure(parser)`` and ``run(arguments)``; with its
place in ``--help``.
"""


def commands(asked: str | None = None) -> dict[str, ModuleType]:
    """The command that is asked for, or all in the order of ``--help`` if there is none of this name.

    Raises UsageError if the command that is asked for cannot be loaded. Among all it has a line that says so.
    """
    if asked in _OWN:
        return {asked: _own(asked)}
    guests = {*registered.names(GROUP)} - _OWN.keys()
    if asked in guests:
        return {asked: _of(asked)}
    found = {name: _own(name) for name in _OWN} | {name: _line_of(name) for name in guests}

    def place(name: str) -> tuple[float, str]:
        return _OWN.get(name, getattr(found[name], "PLACE", math.inf)), name

    return {name: found[name] for name in sorted(found, key=place)}


def _own(name: str) -> ModuleType:
    return import_module(f"magicfs.cli.{name}")


def _of(name: str) -> ModuleType:
    module: ModuleType = registered.load(GROUP, name, "HELP", "configure", "run")
    return module


def _line_of(name: str) -> ModuleType:
    try:
        return _of(name)
    except UsageError:
        lost = ModuleType(name)
        says = f"cannot be loaded; magicfs {name} says why"
        vars(lost).update(HELP=says, configure=lambda _: None, run=None)
        return lost
