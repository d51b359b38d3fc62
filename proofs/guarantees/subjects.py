"""The nine columns of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from proofs.guarantees.ground import Ground, LocalGround, MemoryGround

__all__ = ["OTHERS", "SUBJECTS", "Subject", "is_elsewhere", "subjects_on"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A committer as the table has it.

    Attributes:
        column: What the table calls it.
        committer: Its name.
        ground: Makes what it is tried on.
        place: What the table calls that.
        options: Its options.
    """

    column: str
    committer: str
    ground: Callable[[], Ground] = MemoryGround
    place: str = MemoryGround.name
    options: Mapping[str, Any] = field(default_factory=dict)


SUBJECTS: Final = (
    Subject("magic", "magic"),
    Subject("directory", "directory"),
    Subject("partitioned", "partitioned"),
    Subject("manifest", "manifest", LocalGround, LocalGround.name),
    Subject("file-v1", "file", options={"algorithm": 1}),
    Subject("file-v2", "file", options={"algorithm": 2}),
    Subject("direct", "direct"),
    Subject("stocator", "stocator"),
    Subject("task-completing", "task-completing"),
)

OTHERS: Final = ("gcs", "azure", "local")
"""The other stores: models of Google Cloud Storage and Azure, and files of this machine."""


def subjects_on(store: str) -> tuple[Subject, ...]:
    """The same columns on one of the others.

    ``manifest`` is refused where a rename copies. ``direct`` writes local files by fsspec's own filesystem,
    which is one request here: cuts within it, which are what tells, cannot be made.
    """
    if store == LocalGround.name:
        known = (one for one in SUBJECTS if one.committer != "direct")
        return tuple(replace(one, ground=LocalGround, place=store) for one in known)
    model = partial(MemoryGround, store)
    known = (one for one in SUBJECTS if one.place == MemoryGround.name)
    return tuple(replace(one, ground=model, place=store) for one in known)


def is_elsewhere(subject: Subject) -> bool:
    """Whether a subject is tried on another store than the table has it on."""
    return subject not in SUBJECTS
