"""What guests add to the command line, found by entry points.

::

    [project.entry-points."magicfs.commands"]
    rollback = "magicfs.tables.commands.rollback"

    [project.entry-points."magicfs.recover"]
    catalogs = "magicfs.catalogs.commands.catch_up"

    [project.entry-points."magicfs.maintain"]
    expire = "magicfs.past.commands.expire"

The first is a command: a module as those of the core (``commands``). The others are parts of a command:
modules with ``configure(parser)``, and ``run(arguments)``, which returns the ``Part`` that it did, or None.
They run in the order of their ``PLACE``, a number, once ``check(arguments)`` of all that have one has passed.
Those of ``maintain`` may say in ``POLICY`` what a policy sets (``magicfs.upkeep.policy``).
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType

from magicfs.cli.printing import Field, error_document
from magicfs.cli.statuses import Status, exit_code
from magicfs.errors import MagicError, UsageError
from magicfs.runtime import registered


@dataclass(frozen=True, slots=True)
class Part:
    """What a guest did."""

    line: str = ""  # for people: what was done
    document: object = None  # the same for JSON
    blocks: Sequence[Sequence[Field]] = ()  # more for people
    status: int = Status.FINE  # the exit status that it asks for
    name: str = ""  # of the entry point


def configure(points: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all parts."""
    for name in registered.names(points):
        with suppress(UsageError):  # run says so
            _loaded(points, name).configure(parser)


def run(points: str, arguments: argparse.Namespace, only: Collection[str] = ()) -> list[Part]:
    """Run the parts, or some of them. An error of one keeps no other from running; it is returned, too.

    Raises UsageError for arguments that make no sense together; nothing was done.
    """
    done, found = [], {}
    for name in only or registered.names(points):
        try:
            found[name] = _loaded(points, name)
        except UsageError as error:
            done.append(_failed(name, error))
    for module in found.values():
        getattr(module, "check", lambda _: None)(arguments)
    for name, module in sorted(found.items(), key=lambda one: getattr(one[1], "PLACE", 0)):
        try:
            part: Part | None = module.run(arguments)
        except MagicError as error:
            part = _failed(name, error)
        if part is not None:
            done.append(replace(part, name=name))
    return done


def _failed(name: str, error: MagicError) -> Part:
    document = error_document(error)
    return Part(f"failed: {document['message']}", {"error": document}, (), exit_code(error), name)


def _loaded(points: str, name: str) -> ModuleType:
    module: ModuleType = registered.load(points, name, "configure", "run")
    return module
