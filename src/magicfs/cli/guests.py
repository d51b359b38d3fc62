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

__all__ = ["Mended"]


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
