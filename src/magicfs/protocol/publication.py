"""Whether what another process has published of a job is what its driver was to publish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from magicfs.protocol.ids import TaskId

__all__ = ["CommittedFile", "unpublished"]


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A file that a task has committed."""

    task: TaskId
    key: str
    write_id: str | None  # None for an upload that Hadoop opened


def unpublished(
    committed: Iterable[CommittedFile], published: Mapping[str, str | None]
) -> list[CommittedFile]:
    """The committed files that are not among the published ones: keys, each with its write id.

    The same key with another write id is another attempt's file. Where one of the two is not known, the key
    has to do.
    """
    return [one for one in committed if not _is_published(one, published)]


def _is_published(one: CommittedFile, published: Mapping[str, str | None]) -> bool:
    if one.key not in published:
        return False
    there = published[one.key]
    return there is None or one.write_id is None or there == one.write_id
