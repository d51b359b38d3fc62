"""The nine columns of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from magicfs.committers.registry import committer_info
from magicfs.job.spec import Publish
from magicfs.protocol.conflict import Conflict
from proofs.guarantees.ground import FolderGround, Ground, LocalGround, MemoryGround

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
        publish: As the job's option.
        conflict: Likewise.
    """

    column: str
    committer: str
    ground: Callable[[], Ground] = MemoryGround
    place: str = MemoryGround.name
    options: Mapping[str, Any] = field(default_factory=dict)
    publish: Publish = "files"
    conflict: Conflict = "append"

    @property
    def takes_the_place(self) -> bool:
        """Whether its jobs publish all of a destination, and leave nothing of what was there."""
        return self.conflict == "replace"

    @property
    def finds_nothing(self) -> bool:
        """Whether its jobs are refused where something is."""
        return self.conflict == "fail"


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

_FLIPS: Final[Mapping[str, tuple[Callable[[], Ground], Conflict]]] = {
    "flip": (LocalGround, "replace"),
    "flip-new": (LocalGround, "fail"),
    "flip-gcs": (partial(FolderGround, "gcs"), "replace"),
    "flip-gcs-new": (partial(FolderGround, "gcs"), "fail"),
    "flip-azure": (partial(FolderGround, "azure"), "replace"),
    "flip-azure-new": (partial(FolderGround, "azure"), "fail"),
}

OTHERS: Final = ("gcs", "azure", "local", *_FLIPS)
"""The other stores: models of Google Cloud Storage and Azure, and files of this machine. Then jobs with
``publish="flip"``: on these files, which are exchanged in one step, and on the models with folders, where it
takes two renames; each over old data, and where nothing was there before (``-new``)."""


def subjects_on(store: str) -> tuple[Subject, ...]:
    """The same columns on one of the others.

    ``manifest`` is refused where a rename copies. ``direct`` writes local files by fsspec's own filesystem,
    which is one request here: cuts within it, which are what tells, cannot be made.
    """
    if store in _FLIPS:
        ground, conflict = _FLIPS[store]
        able = (one for one in SUBJECTS if _flips(one, conflict))
        return tuple(
            replace(one, ground=ground, place=store, publish="flip", conflict=conflict) for one in able
        )
    if store == LocalGround.name:
        known = (one for one in SUBJECTS if one.committer != "direct")
        return tuple(replace(one, ground=LocalGround, place=store) for one in known)
    model = partial(MemoryGround, store)
    known = (one for one in SUBJECTS if one.place == MemoryGround.name)
    return tuple(replace(one, ground=model, place=store) for one in known)


def _flips(subject: Subject, conflict: Conflict) -> bool:
    info = committer_info(subject.committer)
    return info.driven and conflict in info.conflicts and subject.options.get("algorithm") != 2


def is_elsewhere(subject: Subject) -> bool:
    """Whether a subject is tried on another store than the table has it on."""
    return subject not in SUBJECTS
