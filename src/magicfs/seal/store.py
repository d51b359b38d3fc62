"""A store around a store: what decides is sealed when it is written, and checked when it is read.

What the core reads through it is what it has written itself: the bytes without their seal. So neither the
core nor a format knows of seals.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Final, NoReturn, TypeVar

from magicfs.errors import ObjectNotFound, Unavailable, UsageError
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.runtime.process_end import after_fork_in_child
from magicfs.seal.keys import Key, SealingKey
from magicfs.seal.seals import SEAL_MAX, Opened, Place, kind_of
from magicfs.stores import resolve
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Body, ObjectInfo, PutMode, Update
from magicfs.stores.register import DIGEST

_T = TypeVar("_T")
_LOOKS: Final = 10
_SEEN_MAX: Final = 100_000


@dataclass(slots=True)
class Ring:
    """The keys of the datasets at and below a location: the first one seals, all of them check."""

    location: Location
    name: str
    keys: tuple[SealingKey, ...]
    seen: dict[str, int] = field(default_factory=dict)
    """The highest count that this process has met at each key. What has a lower one was put back."""

    def note(self, key: str, count: int) -> None:
        """Remember a count. Of very many keys, those that were met last are remembered."""
        self.seen[key] = max(count, self.seen.pop(key, 0))
        if len(self.seen) > _SEEN_MAX:
            del self.seen[next(iter(self.seen))]

    def holds(self, bucket: str, key: str) -> bool:
        """Whether an object is of one of its datasets."""
        at = self.location
        return bucket == at.bucket and (key == at.key or paths.is_under(key, at.key))


_rings: list[Ring] = []


def use(url: str | PathLike[str], *keys: SealingKey | bytes, name: str | None = None) -> None:
    """Seal what this process publishes at a URL and below it, and refuse there what is not sealed.

    A second call for the same URL replaces the keys. Neither jobs nor tasks carry them to other processes.

    Args:
        url: A dataset, or a directory or bucket of datasets.
        keys: The first one seals, and all of them check: give the old one second while you rotate.
        name: What seals are bound to, besides a record's place below the URL; by default the bucket and path
            of the URL. A dataset that was moved or copied keeps its seals under its old name.

    Raises:
        UsageError: There is no key, or one is too short.
    """
    location = resolve.location_of(fspath(url), any_scheme=True)
    made = tuple(Key(one) if isinstance(one, bytes) else one for one in keys)
    if not made:
        raise UsageError(f"give a key for {location.url}, such as magicfs.seal.from_file('sales.key')")
    name = f"{location.bucket}/{location.key}" if name is None else name
    ring = next((one for one in _rings if one.location == location), None)
    if ring is None:
        _rings.append(Ring(location, name, made))
    else:
        ring.keys, ring.name = made, name
    if SealedStore not in resolve.AROUND:
        resolve.AROUND.append(SealedStore)


def forget() -> None:
    """Drop all keys: this process then works as if it had never had any."""
    _rings.clear()
    if SealedStore in resolve.AROUND:
        resolve.AROUND.remove(SealedStore)


def has_keys() -> bool:
    """Whether this process has any key."""
    return bool(_rings)


def ring_of(bucket: str, key: str) -> Ring | None:
    """The keys for what lies at or below a key; None if this process has none."""
    held = [one for one in _rings if one.holds(bucket, key)]
    return max(held, key=lambda one: len(one.location.key), default=None)


class SealedStore(DelegatingStore):
    """Writes records with their seals, and returns them without, checked. All other objects pass through."""

    def __reduce__(self) -> NoReturn:
        raise UsageError("a store with keys is not sent to other processes")

    def place_of(self, key: str) -> tuple[Ring, Place] | None:
        """Whose keys seal what lies at a key, and where it is sealed to; None for what is not sealed."""
        kind = kind_of(key)
        ring = None if kind is None else ring_of(self.bucket, key)
        if kind is None or ring is None:
            return None
        relative = paths.relative_to(key, ring.location.key)
        return ring, Place(f"{self.bucket}/{key}", kind, ring.name, relative)

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        if (at := self.place_of(key)) is None:
            return await self.inner.put(key, body, metadata=metadata, mode=mode)
        ring, place = at
        count = max(time.time_ns() // 10**6, ring.seen.get(key, -1) + 1)
        raw = place.sealed(bytes(body), count, ring.keys[0])
        if metadata and DIGEST in metadata:
            metadata = {**metadata, DIGEST: hashlib.sha256(raw).hexdigest()}
        info = await self.inner.put(key, raw, metadata=metadata, mode=mode)
        ring.note(key, count)
        return info

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        if (at := self.place_of(key)) is None:
            return await self.inner.get(key, size_max=size_max)
        return (await self._opened(key, *at, size_max))[0].body

    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        if self.place_of(key) is None:
            return await self.inner.get_range(key, start, size, etag=etag)
        return (await self.get(key))[start : start + size]

    async def head(self, key: str) -> ObjectInfo:
        """That a record is there decides, too: so it is read, and its seal checked."""
        if (at := self.place_of(key)) is None:
            return await self.inner.head(key)
        for _ in range(_LOOKS):
            info = await self._there(key, *at, self.inner.head(key))
            opened, raw = await self._opened(key, *at, None)
            if info.metadata.get(DIGEST) in {None, hashlib.sha256(raw).hexdigest()}:
                break
        else:
            raise Unavailable("head", at[1].path, f"other processes changed it {_LOOKS} times in a row")
        metadata = dict(info.metadata)
        if DIGEST in metadata:
            metadata[DIGEST] = hashlib.sha256(opened.body).hexdigest()
        return replace(info, metadata=metadata, size=len(opened.body))

    async def _opened(self, key: str, ring: Ring, place: Place, size_max: int | None) -> tuple[Opened, bytes]:
        # What was acknowledged before this request is what it meets, or something newer.
        least = ring.seen.get(key, 0)
        whole = None if size_max is None else size_max + SEAL_MAX
        raw = await self._there(key, ring, place, self.inner.get(key, size_max=whole))
        opened = place.opened(raw, ring.keys)
        if opened.count < least:
            raise place.broken("is older than the one this process has read: it was put back; find out who")
        ring.note(key, opened.count)
        return opened, raw

    async def _there(self, key: str, ring: Ring, place: Place, asked: Awaitable[_T]) -> _T:
        """What is there. A pointer never goes once it was there."""
        try:
            return await asked
        except ObjectNotFound as error:
            if place.kind == "pointer" and key in ring.seen and key.endswith("/current.json"):
                raise place.broken("is gone, but this process has read it; find out who did it") from error
            raise


after_fork_in_child(forget)
