"""What is known of every committer before one is made. Pure: no committer is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from magicfs.committers.options import (
    CommitterOptions,
    FileOptions,
    ManifestOptions,
    NoOptions,
    StagingOptions,
)
from magicfs.errors import UsageError
from magicfs.protocol.conflict import Conflict

__all__ = ["TRAITS", "Traits", "Writes", "traits_of"]

Writes = Literal["delayed uploads", "local files", "work files", "final files"]
Needs = Literal["uploads", "rename", "nothing"]

_ADDING: Final[tuple[Conflict, ...]] = ("fail", "append")


@dataclass(frozen=True, slots=True)
class Traits:
    """A committer from outside.

    Attributes:
        home: Module and class.
        writes: What task attempts write: ``delayed uploads`` through ``MagicFileSystem``; ``local files``
            on their machine; ``work files`` below ``_temporary``; or ``final files`` at the destination.
        needs: What the store must have: multipart ``uploads`` that another process can complete, or a
            ``rename`` that is one step.
        conflicts: The conflict modes that it has.
        options: Its options.
        driven: Whether it works under a job object.
    """

    home: str
    writes: Writes
    needs: Needs
    conflicts: tuple[Conflict, ...]
    options: type[CommitterOptions]
    driven: bool = False


TRAITS: Final[Mapping[str, Traits]] = MappingProxyType(
    {
        "magic": Traits(
            "magicfs.committers.magic:MagicCommitter",
            "delayed uploads",
            "uploads",
            ("fail", "append", "replace", "replace_partitions"),
            NoOptions,
            driven=True,
        ),
        "directory": Traits(
            "magicfs.committers.staging.committer:DirectoryCommitter",
            "local files",
            "uploads",
            ("fail", "append", "replace"),
            StagingOptions,
            driven=True,
        ),
        "partitioned": Traits(
            "magicfs.committers.staging.committer:PartitionedCommitter",
            "local files",
            "uploads",
            ("fail", "append", "replace_partitions"),
            StagingOptions,
            driven=True,
        ),
        "manifest": Traits(
            "magicfs.committers.manifest.committer:ManifestCommitter",
            "work files",
            "rename",
            _ADDING,
            ManifestOptions,
        ),
        "file": Traits(
            "magicfs.committers.file.committer:FileCommitter", "work files", "nothing", _ADDING, FileOptions
        ),
        "direct": Traits(
            "magicfs.committers.final.direct:DirectCommitter", "final files", "nothing", _ADDING, NoOptions
        ),
        "stocator": Traits(
            "magicfs.committers.final.stocator:StocatorCommitter",
            "final files",
            "nothing",
            _ADDING,
            NoOptions,
        ),
        "task-completing": Traits(
            "magicfs.committers.task_completing:TaskCompletingCommitter",
            "delayed uploads",
            "uploads",
            _ADDING,
            NoOptions,
        ),
    }
)
"""Every committer by its name, as Hadoop spells it where it has the committer."""


def traits_of(name: str) -> Traits:
    """The traits of a committer.

    Raises:
        UsageError: No such committer, with the choices.
    """
    try:
        return TRAITS[name]
    except KeyError:
        raise UsageError(f"committer={name!r} is unknown; choose one of {', '.join(TRAITS)}") from None
