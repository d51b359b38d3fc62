"""From a name to a committer, and to the committer that a store can carry."""

from __future__ import annotations

from importlib import import_module

from magicfs.committers.base import Committer, JobContext
from magicfs.committers.traits import TRAITS, traits_of
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.stores.port import Store

__all__ = ["best_for", "check_store", "make", "names"]

_LACKS = {
    "uploads": "has no multipart uploads that one process could open and another complete",
    "rename": (
        "renames by copying every byte and deleting, one file after the other, so that a job commit would "
        "be slow and could stop half-way"
    ),
}
_PREFERRED = ("magic", "manifest", "file")


def names() -> tuple[str, ...]:
    """Names of all committers, as Hadoop spells them."""
    return tuple(TRAITS)


def check_store(name: str, store: Store) -> None:
    """Refuse a committer that a store cannot carry.

    Raises:
        UsageError: With the ones that it can.
    """
    needs = traits_of(name).needs
    if needs == "nothing" or _has(store, needs):
        return
    able = [one for one, traits in TRAITS.items() if traits.needs == "nothing" or _has(store, traits.needs)]
    raise UsageError(
        f"the store {store.name!r} {_LACKS[needs]}, which committer={name!r} needs; best here is "
        f"committer={best_for(store)[0]!r}; possible are {', '.join(able)}"
    )


def best_for(store: Store) -> tuple[str, str]:
    """The committer to choose for a store, and why, in a sentence."""
    for name in _PREFERRED:
        needs = traits_of(name).needs
        if needs == "nothing" or _has(store, needs):
            return name, _WHY[name].format(store=store.name)
    raise AssertionError("the last of the preferred committers needs nothing")


_WHY = {
    "magic": "{store} can delay uploads: nothing is copied or renamed, and a dead job commit can be finished",
    "manifest": "{store} renames in one step: each file is moved once, when the job commits",
    "file": "{store} can neither delay uploads nor rename in one step: files are copied when the job commits",
}


def _has(store: Store, needs: str) -> bool:
    capabilities = store.capabilities
    return capabilities.multipart if needs == "uploads" else capabilities.rename == "atomic"


def make(name: str, context: JobContext, engine: Engine) -> Committer:
    """The committer of a name for one job.

    Raises:
        UsageError: Unknown name, or the store cannot carry it.
    """
    module, _, kind = traits_of(name).home.partition(":")
    check_store(name, engine.store)
    committer: Committer = getattr(import_module(module), kind)(context, engine)
    return committer
