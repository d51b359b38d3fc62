"""The public face as text: every name with its signature, and every command with its help."""

from __future__ import annotations

import inspect
from argparse import Action, ArgumentParser
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from fsspec.asyn import AsyncFileSystem

import magicfs
from magicfs.cli.main import commands_of

__all__ = ["ROOMS", "face"]

ROOMS: Final = ("audit", "catalogs", "errors", "hadoop")
"""Rooms of public names that need no engine."""


def face() -> str:
    """Names in their order, a line each; then the commands and their options."""
    lines = [*_names("magicfs", magicfs)]
    for room in ROOMS:
        lines += _names(f"magicfs.{room}", import_module(f"magicfs.{room}"))
    lines += _commands(commands_of())
    return "\n".join(lines) + "\n"


def _names(module: str, where: Any) -> Iterator[str]:
    for name in where.__all__:
        value = getattr(where, name)
        yield f"{module}.{name}{_signature(value)}"
        if inspect.isclass(value):
            for member, one in sorted(vars(value).items()):
                if not member.startswith("_") and (callable(one) or isinstance(one, property | str | bool)):
                    yield f"{module}.{name}.{member}{_of_fsspec(value, member) or _signature(one)}"


def _of_fsspec(kind: type, member: str) -> str:
    """What stands for a signature that is fsspec's own, whose releases may change it."""
    if not issubclass(kind, AsyncFileSystem) or not callable(
        theirs := getattr(AsyncFileSystem, member, None)
    ):
        return ""
    return " as fsspec has it" if _signature(theirs) == _signature(getattr(kind, member)) else ""


def _signature(value: Any) -> str:
    if not callable(value):
        return ""
    try:
        return str(inspect.signature(value))
    except ValueError:
        return "(...)"


def _commands(commands: Mapping[str, ArgumentParser]) -> Iterator[str]:
    for name, command in sorted(commands.items()):
        yield f"$ magicfs {name}: {command.description}"
        yield from (f"$ magicfs {name} {_option(one)}" for one in command._actions)  # noqa: SLF001 - no other list


def _option(action: Action) -> str:
    named = " ".join(action.option_strings) or action.dest
    return f"{named} [{action.nargs}, {action.choices}, {action.default}]: {action.help}"
