"""The partitions that somebody names: directories relative to the destination, with all below."""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.errors import UsageError
from magicfs.protocol.conflict import is_data

__all__ = ["partition_names"]


def partition_names(partitions: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The directories, without slashes at their ends, sorted and none twice; None for none given.

    Raises UsageError for what is no partition, and for an empty list, which nobody may have meant.
    """
    if partitions is None:
        return None
    named = [partitions] if isinstance(partitions, str) else partitions
    if not named:
        raise UsageError("partitions=[] names none; name some, or leave it out; nothing was changed")
    return tuple(sorted({_partition(one) for one in named}))


def _partition(text: str) -> str:
    found = text.strip("/")
    if not found or any(one in {"", ".", ".."} for one in found.split("/")) or not is_data(f"{found}/x", ""):
        raise UsageError(
            f"{text!r} is no partition: give a directory relative to the destination, such as "
            "'day=2026-01-01'; nothing was changed"
        )
    return found
