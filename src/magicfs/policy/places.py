"""The places of a destination that differ in who may use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from magicfs.protocol import paths

Document = dict[str, object]
"""What is printed as JSON."""

RESERVED: Final = ("decisions", "records", "success")
"""Places below the data that decide what readers see."""
_DECISIONS: Final = re.compile("/facts/|/job(-location)?[.]json$")
_RECORDS: Final = re.compile("__magic|_magicfs/")
_PATTERNS: Final = {
    "data": ("*",),
    "work": ("__magic*",),
    "decisions": ("__magic*/job.json", "__magic*/job-location.json", "__magic*/facts/*"),
    "records": ("_magicfs/*",),
    "success": ("_SUCCESS",),
}


@dataclass(frozen=True, slots=True)
class Destination:
    """A bucket and a key without a slash at its end, empty for the whole bucket."""

    bucket: str
    key: str

    @property
    def prefix(self) -> str:
        """What all its keys begin with."""
        return paths.prefix_of(self.key)

    def parents(self) -> Iterator[str]:
        """The prefixes of the directories above it."""
        names = self.key.split("/") if self.key else []
        yield from ("".join(f"{one}/" for one in names[:depth]) for depth in range(len(names)))

    def patterns(self, place: str) -> Iterator[tuple[str, str]]:
        """The keys of a place: a literal start, and a pattern of our own after it, with stars."""
        match place:
            case "self":
                yield self.key, ""
            case "above":
                for one in self.parents():
                    yield one, "__magic*"
                    yield one, "_magicfs/*"
            case _:
                yield from ((self.prefix, pattern) for pattern in _PATTERNS[place])

    def listed(self, place: str) -> Iterator[tuple[str, str]]:
        """The prefixes that listings of a place name, in the same form."""
        if place == "above":
            yield from ((one, "_*") for one in self.parents())
        elif place != "bucket":
            yield from self.patterns(place)


def place_of(destination: Destination, key: str) -> str | None:
    """Where a key lies, or a prefix that is listed; None if it is no place of this destination."""
    if key == destination.key:
        return "self"
    if not key.startswith(destination.prefix):
        rest = [key[len(one) :] for one in destination.parents() if key.startswith(one)]
        return "above" if any(one == "_" or _RECORDS.match(one) for one in rest) else None
    name, _, below = key[len(destination.prefix) :].partition("/")
    if name.startswith("__magic"):
        return "decisions" if _DECISIONS.search(f"/{below}") else "work"
    return {"_magicfs": "records", "_SUCCESS": "success"}.get(name, "data")
