"""The nine columns of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proofs.guarantees.ground import Ground, LocalGround, MemoryGround

__all__ = ["SUBJECTS", "Subject"]


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
