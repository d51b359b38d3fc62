"""Which tests concern which committers: each says so by a trait, and what is left out is on record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from magicfs.committers.registry import committer_info
from magicfs.protocol.modes import is_by_partition

__all__ = ["LeftOut", "Trait", "concerns", "select", "traits"]

Trait = Literal[
    "uploads", "delayed uploads", "local files", "overwrite_partitions", "fail at setup", "fail by partition"
]

_TRAIT = "magicfs_exam_trait"
_Test = TypeVar("_Test", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Stands for a test that does not concern the committer; pytest does not collect it.

    Attributes:
        test: The test.
        trait: What the committer has not.
    """

    test: Any
    trait: str


def concerns(trait: Trait) -> Callable[[_Test], _Test]:
    """A test is only for committers that have a trait."""

    def mark(test: _Test) -> _Test:
        setattr(test, _TRAIT, trait)
        return test

    return mark


def traits(committer: str) -> frozenset[str]:
    """What tests can ask for: how attempts write, what the store must have, the modes, and where
    ``error`` looks, and when.
    """
    known = committer_info(committer)
    fails = "fail by partition" if is_by_partition("error", committer) else "fail at setup"
    return frozenset({known.writes, known.needs, *known.modes, fails})


def select(examined: type, committer: str) -> dict[str, str]:
    """Leave out, of a class, the tests that do not concern its committer.

    Returns:
        Which, and what trait each asks for.
    """
    has, left_out = traits(committer), dict[str, str]()
    for name in dir(examined):
        found = getattr(examined, name)
        test = found.test if isinstance(found, LeftOut) else found
        trait = getattr(test, _TRAIT, None)
        if trait is None:
            continue
        if trait not in has:
            left_out[name] = trait
            setattr(examined, name, LeftOut(test, trait))
        elif test is not found:
            setattr(examined, name, test)
    return left_out
