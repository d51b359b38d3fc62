"""What guests add to the command line, found by entry points.

::

    [project.entry-points."magicfs.commands"]
    rollback = "magicfs.past.commands.rollback"

    [project.entry-points."magicfs.recover"]
    catalogs = "magicfs.catalogs.commands.catch_up"

The first is a command: a module as those of the core have, with the ``PLACE`` that ``--help`` gives it. The
second goes along with ``magicfs recover``: a module with ``configure(parser)``, and with ``run(arguments)``,
which returns what it has ``Mended``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Mended", "load", "registered"]


@dataclass(frozen=True, slots=True)
class Mended:
    """What a guest did after a recovery.

    Attributes:
        member: The member of the JSON document that lists it.
        documents: What that lists.
        blocks: The same for people: names and values, of which some may be empty.
        undecided: Whether somebody has to look again.
    """

    member: str
    documents: Sequence[Mapping[str, object]] = ()
    blocks: Sequence[Sequence[tuple[str, object]]] = ()
    undecided: bool = False


def registered(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by their names; of two of one name the first on the path counts."""
    from importlib.metadata import entry_points

    return {one.name: one for one in reversed(tuple(entry_points(group=group)))}


def load(point: EntryPoint, *needed: str) -> ModuleType:
    """The module of an entry point. Raises UsageError if it cannot be imported, or lacks a name."""
    try:
        module: ModuleType = point.load()
        for name in needed:
            getattr(module, name)
    except Exception as error:  # a guest may raise anything; all others work without it
        named = point.dist.name if point.dist else point.value
        version = f" {point.dist.version}" if point.dist else ""
        raise UsageError(
            f"{point.name!r} of {point.group} comes from {named}{version}, and cannot be loaded "
            f"({type(error).__name__}: {error}); everything else works; install it again: "
            f"python -m pip install --force-reinstall {named}"
        ) from error
    return module
