"""Committers by name."""

from __future__ import annotations

from magicfs.committers.base import Committer, JobContext
from magicfs.committers.magic import MagicCommitter
from magicfs.engine import Engine
from magicfs.errors import UsageError

__all__ = ["make", "names"]

_COMMITTERS = {"magic": MagicCommitter}


def names() -> tuple[str, ...]:
    """Names of all committers, as Hadoop spells them."""
    return tuple(sorted(_COMMITTERS))


def check(name: str) -> None:
    """Refuse an unknown name.

    Raises:
        UsageError: With the choices.
    """
    if name not in _COMMITTERS:
        raise UsageError(f"committer={name!r} is unknown; choose one of {', '.join(names())}")


def make(name: str, context: JobContext, engine: Engine) -> Committer:
    """The committer of a name for one job.

    Raises:
        UsageError: Unknown name.
    """
    check(name)
    return _COMMITTERS[name](context, engine)
