"""Every committer by name: what is known of it before it is made, and making it.

No committer is imported before it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from magicfs.committers.options import (
    CommitterOptions,
    FileOptions,
    ManifestOptions,
    NoOptions,
    StagingOptions,
    options_from,
)
from magicfs.errors import UsageError
from magicfs.protocol.conflict import Conflict

if TYPE_CHECKING:
    from magicfs.committers.base import Committer
    from magicfs.engine import Engine
    from magicfs.stores.port import Store
    from magicfs.transaction.context import JobContext

__all__ = [
    "COMMITTERS",
    "CommitterInfo",
    "Writes",
    "best_for",
    "check_store",
    "committer_info",
    "make",
    "names",
    "options_of",
]

# Uploads through ``MagicFileSystem``; files on the task's machine; below ``_temporary``; at the destination.
Writes = Literal["delayed uploads", "local files", "work files", "final files"]
# Multipart uploads that another process can complete; a rename that is one step.
Needs = Literal["uploads", "rename", "nothing"]

_ADDING: Final[tuple[Conflict, ...]] = ("fail", "append")


@dataclass(frozen=True, slots=True)
class CommitterInfo:
    """A committer from outside."""

    home: str  # module, and class or function that makes one
    writes: Writes  # what task attempts write
    needs: Needs  # what the store must have
    conflicts: tuple[Conflict, ...]
    options: type[CommitterOptions]
    driven: bool = False  # whether it works under a job object


COMMITTERS: Final[Mapping[str, CommitterInfo]] = MappingProxyType(
    {
        "magic": CommitterInfo(
            "magicfs.committers.magic:MagicCommitter",
            "delayed uploads",
            "uploads",
            ("fail", "append", "replace", "replace_partitions"),
            NoOptions,
            driven=True,
        ),
        "directory": CommitterInfo(
            "magicfs.committers.staging.committer:DirectoryCommitter",
            "local files",
            "uploads",
            ("fail", "append", "replace"),
            StagingOptions,
            driven=True,
        ),
        "partitioned": CommitterInfo(
            "magicfs.committers.staging.committer:PartitionedCommitter",
            "local files",
            "uploads",
            ("fail", "append", "replace_partitions"),
            StagingOptions,
            driven=True,
        ),
        "manifest": CommitterInfo(
            "magicfs.committers.renaming.manifest:ManifestCommitter",
            "work files",
            "rename",
            ("fail", "append", "replace", "replace_partitions"),
            ManifestOptions,
            driven=True,
        ),
        "file": CommitterInfo(
            "magicfs.committers.file.choose:make",
            "work files",
            "nothing",
            ("fail", "append", "replace", "replace_partitions"),
            FileOptions,
            driven=True,
        ),
        "direct": CommitterInfo(
            "magicfs.committers.final.direct:DirectCommitter", "final files", "nothing", _ADDING, NoOptions
        ),
        "stocator": CommitterInfo(
            "magicfs.committers.final.stocator:StocatorCommitter",
            "final files",
            "nothing",
            _ADDING,
            NoOptions,
        ),
        "task-completing": CommitterInfo(
            "magicfs.committers.task_completing:TaskCompletingCommitter",
            "delayed uploads",
            "uploads",
            _ADDING,
            NoOptions,
        ),
    }
)
"""Every committer by its name, as Hadoop spells it where it has the committer."""


def committer_info(name: str) -> CommitterInfo:
    """What is known of a committer. Raises UsageError for an unknown name, with the choices."""
    try:
        return COMMITTERS[name]
    except KeyError:
        raise UsageError(f"committer={name!r} is unknown; choose one of {', '.join(COMMITTERS)}") from None


def options_of(name: str, given: Mapping[str, Any]) -> CommitterOptions:
    """The options of a committer from those that a caller named; unknown ones are refused by name."""
    return options_from(committer_info(name).options, name, given)


_LACKS = {
    "uploads": "has no multipart uploads that one process could open and another complete",
    "rename": (
        "renames by copying every byte and deleting, one file after the other, so that a job commit would "
        "be slow and could stop half-way"
    ),
    "folders": (
        "renames in one step only where the bucket has a hierarchical namespace; this one has none, or who "
        "asks may not know; nothing was changed. Such renames are what"
    ),
}
_PREFERRED = ("magic", "manifest", "file")


def names() -> tuple[str, ...]:
    """Names of all committers, as Hadoop spells them."""
    return tuple(COMMITTERS)


def check_store(name: str, store: Store) -> None:
    """Raise UsageError, with the possible ones, for a committer that the store cannot carry."""
    needs = committer_info(name).needs
    if needs != "nothing" and not _has(store, needs):
        raise _refusal(name, store, f"{_LACKS[needs]}, which", ("uploads", "rename"))


def without_folders(name: str, store: Store) -> UsageError:
    """The same of a committer that needs rename, for a bucket that has turned out to have no folders."""
    return _refusal(name, store, _LACKS["folders"], ("uploads",))


def _refusal(name: str, store: Store, lacks: str, offered: Collection[str]) -> UsageError:
    able = [
        one
        for one, traits in COMMITTERS.items()
        if traits.needs == "nothing" or (traits.needs in offered and _has(store, traits.needs))
    ]
    return UsageError(
        f"the store {store.name!r} {lacks} committer={name!r} needs; best here is "
        f"committer={best_for(store)[0]!r}; possible are {', '.join(able)}"
    )


def best_for(store: Store) -> tuple[str, str]:
    """The committer to choose for a store, and why, in a sentence."""
    first = ("manifest",) if store.capabilities.prefers_rename else ()
    for name in (*first, *_PREFERRED):
        needs = committer_info(name).needs
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
    # Of a store whose buckets differ the committer asks when it is set up.
    return capabilities.uploads.delayed if needs == "uploads" else capabilities.rename != "copy"


def make(name: str, context: JobContext, engine: Engine) -> Committer:
    """The committer of a name for one job. Raises UsageError as ``committer_info`` and ``check_store`` do."""
    module, _, kind = committer_info(name).home.partition(":")
    check_store(name, engine.store)
    committer: Committer = getattr(import_module(module), kind)(context, engine)
    return committer
