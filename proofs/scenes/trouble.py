"""What a proof raises that has found a rule broken."""

from __future__ import annotations

__all__ = ["Trouble", "require"]


class Trouble(AssertionError):
    """A rule was broken."""


def require(holds: object, what: object) -> None:
    """Raise Trouble, with what is wrong, unless something holds."""
    if not holds:
        raise Trouble(what)
