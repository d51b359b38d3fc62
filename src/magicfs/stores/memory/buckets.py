"""What the buckets of the memory store hold: objects, uploads, and versions of objects."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from magicfs.stores.port import UNVERSIONED, ObjectInfo, Rule, Version

Versioning = Literal["Enabled", "Suspended"] | None
"""Whether a bucket keeps versions, has kept some before, or never has."""

_STALE_MAX = 1000


@dataclass(frozen=True, slots=True)
class Held:
    """An object."""

    info: ObjectInfo
    body: bytes


@dataclass(slots=True)
class HeldUpload:
    """A pending upload."""

    key: str
    initiated: float
    metadata: dict[str, str]
    description: dict[str, Any]
    parts: dict[int, bytes] = field(default_factory=dict)
    written: float | None = None  # when the last part was


class Objects(dict[str, Held]):
    """Objects by their keys, which it can tell in order: a listing looks at no more than what it shows.

    Sorting waits for the next listing. Keys that are gone stay in the order until they are many.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sorted: list[str] = []
        self._fresh: list[str] = []

    def __setitem__(self, key: str, value: Held) -> None:
        if key not in self:
            self._fresh.append(key)
        super().__setitem__(key, value)

    def update(self, other: Mapping[str, Held]) -> None:  # type: ignore[override]
        """Take in the objects of another bucket."""
        for key, value in other.items():
            self[key] = value

    def below(self, prefix: str) -> Iterator[str]:
        """The keys that start with the prefix, in order. Text sorts as its UTF-8 does."""
        if len(self._sorted) + len(self._fresh) > 2 * len(self) + _STALE_MAX:
            self._sorted = sorted(self)
        elif self._fresh:
            self._sorted += self._fresh
            self._sorted.sort()
        self._fresh, keys, last = [], self._sorted, None
        for place in range(bisect.bisect_left(keys, prefix), len(keys)):
            key = keys[place]
            if not key.startswith(prefix):
                return
            if key != last and key in self:
                yield key
            last = key


@dataclass(frozen=True, slots=True)
class _Kept:
    version: str
    held: Held | None  # None of a marker


@dataclass(slots=True)
class Bucket:
    """All that is in a bucket."""

    objects: Objects = field(default_factory=Objects)
    uploads: dict[str, HeldUpload] = field(default_factory=dict)
    keeping: Versioning = None
    versions: dict[str, list[_Kept]] = field(default_factory=dict)  # of a key, the oldest first
    rules: tuple[Rule, ...] | None = None  # of its lifecycle; None if it knows none
    added: int = 0  # how many versions there have been

    def put(self, key: str, held: Held) -> ObjectInfo:
        """Write an object; the one that it replaces stays as a version where the bucket keeps any."""
        if self.keeping is not None:
            version = self._added(key)
            if version != UNVERSIONED:
                held = replace(held, info=replace(held.info, version=version))
            self.versions[key].append(_Kept(version, held))
        self.objects[key] = held
        return held.info

    def remove(self, key: str) -> None:
        """Delete what is at a key; where the bucket keeps versions, by a marker."""
        if self.keeping is not None:
            version = self._added(key)
            self.versions[key].append(_Kept(version, None))
        self.objects.pop(key, None)

    def forget(self, key: str, version: str) -> None:
        """Delete a version for good; what lies below it comes up again."""
        line = self._line(key)
        left = [one for one in line if one.version != version]
        if len(left) == len(line):
            return
        self.versions[key] = left
        if left and left[-1].held is not None:
            self.objects[key] = left[-1].held
        else:
            self.objects.pop(key, None)
        if not left:
            del self.versions[key]

    def version(self, key: str, version: str) -> Held | None:
        """What a version holds; None if there is none, or it is a marker."""
        return next((one.held for one in self._line(key) if one.version == version), None)

    def shown(self, key: str) -> Iterator[Version]:
        """The versions of a key as a listing shows them."""
        line = self._line(key)
        for number, one in enumerate(reversed(line)):
            info = one.held.info if one.held is not None else None
            size, etag = (info.size, info.etag) if info is not None else (0, "")
            yield Version(key, one.version, size, etag, is_marker=info is None, is_latest=not number)

    def _added(self, key: str) -> str:
        """The id of one version more; one without an id takes the place of another one without."""
        line = self._line(key)
        if self.keeping == "Enabled":
            self.added += 1
            return f"version-{self.added}"
        line[:] = [one for one in line if one.version != UNVERSIONED]
        return UNVERSIONED

    def _line(self, key: str) -> list[_Kept]:
        held = self.objects.get(key)
        if key in self.versions or (held is None and self.keeping is None):
            return self.versions.get(key, [])
        line = [] if held is None else [_Kept(UNVERSIONED, held)]
        if self.keeping is not None:
            self.versions[key] = line
        return line
