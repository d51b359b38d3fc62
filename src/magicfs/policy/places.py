"""The places of a destination that differ in who may use them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from magicfs.protocol import paths

__all__ = ["Destination", "place_of"]

RESERVED: Final = ("decisions", "records", "success")
"""Places below the data that decide what readers see."""
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
        above = [one for one in destination.parents() if key.startswith(one)]
        rest = [key[len(one) :] for one in above]
        return (
            "above" if any(one == "_" or one.startswith(("__magic", "_magicfs/")) for one in rest) else None
        )
    names = key[len(destination.prefix) :].split("/")
    if names[0].startswith("__magic"):
        decides = names[-1] in {"job.json", "job-location.json"} or "facts" in names
        return "decisions" if decides else "work"
    return {"_magicfs": "records", "_SUCCESS": "success"}.get(names[0], "data")
