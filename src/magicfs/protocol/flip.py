"""Where a job that flips makes the new dataset: a hidden directory beside its destination.

::

    PARENT/sales                          the destination, as readers see it
    PARENT/.sales.magicfs-<job>           the new dataset until the flip, what is left of the old one after it
"""

from __future__ import annotations

from typing import Final

from magicfs.errors import UsageError
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId

__all__ = ["ASIDE", "job_of", "listing_prefix", "new_directory"]

ASIDE: Final = "~old"
"""How the path ends under which the old dataset lies between the renames of a flip; no id of a job does."""

_MARK: Final = ".magicfs-"
_NAME_BYTES_MAX: Final = 255  # of one element, on the filesystems of Linux


def new_directory(destination: str, job: JobId) -> str:
    """The directory beside a destination in which a job makes the new dataset.

    Raises UsageError for a whole bucket, which has nothing beside it, and for a name that would be too long.
    """
    parent, _, name = destination.rpartition("/")
    if _MARK in job:
        raise UsageError(
            f"job id {job!r} holds {_MARK!r}, by which publish='flip' tells directories apart; choose another"
        )
    if not name:
        raise UsageError(
            "publish='flip' makes the new dataset beside the destination, and there is nothing beside a "
            "whole bucket; choose a directory in it"
        )
    new = f".{name}{_MARK}{job}"
    if len(f"{new}{ASIDE}".encode("utf-8", "surrogateescape")) > _NAME_BYTES_MAX:
        raise UsageError(
            f"publish='flip' makes the new dataset in {new!r} beside the destination, and no file may have "
            "so long a name; choose a shorter name for the destination"
        )
    return paths.join(parent, new)


def listing_prefix(destination: str) -> str:
    """How the paths of all such directories of a destination begin."""
    parent, _, name = destination.rpartition("/")
    return paths.join(parent, f".{name}{_MARK}")


def job_of(destination: str, directory: str) -> JobId | None:
    """The job to which a directory beside a destination belongs, set aside or not; None if to none."""
    prefix = listing_prefix(destination)
    name = directory.rstrip("/").removesuffix(ASIDE)
    if not name.startswith(prefix) or _MARK in name.removeprefix(prefix):  # of sales.magicfs-1, not of sales
        return None
    try:
        return ids.job_id(name.removeprefix(prefix))
    except UsageError:
        return None
