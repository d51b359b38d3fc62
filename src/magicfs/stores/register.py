"""One small object that many processes move by compare-and-swap: the job object, the manifest pointer.

Three ways, by what the store was seen to honour:

* PUT If-Match, on one key.
* Where only If-None-Match is honoured: every version is a key of its own that is written once, ``job.json``,
  ``job.00001.json``, ``job.00002.json`` and so on; the highest counts. Without the first there is no entry,
  whatever else is left. A number is written only once the one before is there, and all go at the end: what
  lies behind a gap was written by a copy of a request that came late, and counts for nothing.
* Where neither is: plain writes, for callers who know that nobody else writes.

The first version says in its metadata whether versions are numbered, so that two processes which saw the
store differently do the same; on a store without metadata they are, wherever a key can be written once. If
the store has not been probed yet the first version is marked ``undecided``; the next writer has probed it and
decides. Two who decide otherwise at once look for each other after they
have written, and at least one of them gives way.

Bodies must differ from version to version, by a nonce for instance: after a refused or unanswered write the
key is read, and the same bytes there count as the caller's own write.

Each version bears the SHA-256 of its body in its metadata. So a HEAD and a GET are known to have met the same
version, without a third request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed, StoreError, Unavailable
from magicfs.runtime.parallel import at_once
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.port import ObjectInfo, PutMode, Store, Update

KEPT: Final = 64
"""How many of the newest numbered versions of a lasting register are kept; the first is kept always."""

_SUFFIX: Final = ".json"
# What follows the stem in the key of a version.
_VERSION: Final = re.compile(r"(?:\.(\d{5,9}))?\.json")
_NUMBERED: Final = "magicfs-numbered"
_YES: Final = "yes"
_UNDECIDED: Final = "undecided"
DIGEST: Final = "magicfs-sha256"
_LOOKS: Final = 10
_BODY_MAX: Final = 256 * 1024**2 + 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a register."""

    key: str
    body: bytes
    etag: str
    number: int = 0
    """Of a numbered version; 0 for the first, and where versions are not numbered."""
    numbered: bool = False
    """Whether versions are numbered, or may be."""
    undecided: bool = False
    """Whether the next writer decides if versions are numbered."""
    modified: float | None = field(default=None, compare=False)
    """When it was written, or an earlier version, by the store's clock; None if it was not read."""
    version: str = field(default="", compare=False)
    """Its id where the bucket keeps versions; else empty."""


class Register:
    """A small object with compare-and-swap, at a key that ends in ``.json``.

    Any call may raise ``Unavailable``: whether the change took place is unknown, and ``read`` shows it.
    Reading does not depend on the conditions. A ``lasting`` register is never removed, so its old numbered
    versions are cleaned up.
    """

    def __init__(self, store: Store, key: str, conditions: Conditions, *, lasting: bool = False) -> None:
        assert key.endswith(_SUFFIX)
        self.key = key
        self._store = store
        self._conditions = conditions
        self._stem = key.removesuffix(_SUFFIX)
        self._lasting = lasting

    async def read(self, *, expected: bool = False) -> Entry | None:
        """The newest version, its body and its ETag; None if there is none.

        ``expected``: whether there most likely is one. Then its body is asked for beside its description, and
        the two take the time of one request. Where there is none, that is a request more.

        Raises Unavailable if others moved it each time, between the two requests that read it.
        """
        # Without metadata nothing tells that two answers are of one version, if not their order.
        beside = expected and self._store.capabilities.metadata
        for left in reversed(range(_LOOKS)):
            try:
                reads = [body_at(self._store, self.key, _BODY_MAX)] if beside else []
                first, *bodies = await at_once(self._store.head(self.key), *reads)
            except ObjectNotFound:
                return None
            numbered = self._is_numbered(first)
            versions = await self._versions() if numbered else {0: first}
            number = self._newest(versions)
            info = versions.get(number, first)
            try:
                body = await self._body_of(info.key, number, first, bodies)
            except ObjectNotFound:  # removed, or superseded and cleaned up, between the two requests
                if number and not left:
                    raise
                continue
            if body is not None:
                undecided = not number and first.metadata.get(_NUMBERED) == _UNDECIDED
                seen = first.modified, first.version
                return Entry(info.key, body, info.etag, number, numbered, undecided, *seen)
            if not left:
                problem = f"others changed it each time it was read, {_LOOKS} times"
                raise Unavailable("get", self._shown(self.key), problem)
        return None

    async def _body_of(self, key: str, number: int, first: ObjectInfo, bodies: list[bytes]) -> bytes | None:
        """The body of a version; None if the key without a number was written over since the look at it."""
        seen = bodies[0] if bodies else None
        if not number and seen is not None and first.metadata.get(DIGEST) == _digest(seen)[DIGEST]:
            return seen
        body = await self._store.get(key, size_max=_BODY_MAX)
        # Each number is written once, but the key without one is written over.
        return body if number or await self._is_of(first, body) else None

    def numbers(self, entry: Entry | None = None, *, tried: bool = True) -> bool:
        """Whether what follows an entry is numbered, or may be; without one, what a first version is."""
        conditions = self._conditions
        if entry is None:
            return not tried or (conditions.put_if_absent and not conditions.put_if_match)
        plain = conditions.put_if_match or not conditions.put_if_absent
        told = entry.number > 0 or (self._store.capabilities.metadata and not entry.undecided)
        return entry.numbered and (told or not plain)

    async def create(self, body: bytes, *, tried: bool = True) -> Entry:
        """Write the first version. A second call with the same body finds its own and returns it.

        If the conditions have not been tried, only If-None-Match is asked for, and the next writer decides
        whether versions are numbered. Raises ObjectExists if there is one; nothing changed.
        """
        conditions = self._conditions
        numbered = self.numbers(tried=tried)
        looks: list[Coroutine[Any, Any, Entry | None]] = [self.clear(tried=tried)] if numbered else []
        if not (tried and conditions.put_if_absent):
            looks.append(self.read())
        if any(await at_once(*looks)):
            raise ObjectExists("put", self._shown(self.key), "an object is there")
        try:
            info = await self._store.put(
                self.key,
                body,
                metadata=_digest(body) | ({_NUMBERED: _YES if tried else _UNDECIDED} if numbered else {}),
                mode=conditions.create,
            )
        except (ObjectExists, Unavailable) as error:
            return await self._ours(self.key, body, 0, error)
        return Entry(self.key, body, info.etag, 0, numbered, not tried, version=info.version)

    async def swap(self, entry: Entry, body: bytes) -> Entry:
        """Put another version in place of the one that was read, created or swapped in.

        Raises PreconditionFailed if somebody else changed the register, or it is gone.
        """
        conditions = self._conditions
        if self.numbers(entry):
            return await self._append(entry, body)
        # Who left a version that is not numbered saw If-Match honoured, unless this store honours nothing.
        safe = conditions.put_if_match or conditions.put_if_absent
        mode = Update(entry.etag) if safe else PutMode.OVERWRITE
        try:
            if not safe and ((found := await self.read()) is None or found.etag != entry.etag):
                raise self._moved("put", self.key)
            written: Entry | ObjectInfo = await self._store.put(
                self.key, body, metadata=_digest(body), mode=mode
            )
        except (PreconditionFailed, Unavailable) as error:
            written = await self._ours(self.key, body, 0, error)
        if entry.undecided and await is_there(self._store, self._numbered_key(1)):
            raise self._moved("put", self.key)
        return Entry(self.key, body, written.etag, version=written.version)

    async def remove(self, entry: Entry) -> None:
        """Remove the register. One that is not there counts as removed, so a second call does nothing.

        For states that nobody leaves any more: where versions are numbered, a swap that begins after this has
        looked may succeed, and is removed with the rest. Raises PreconditionFailed if another version is
        there by now; nothing changed.
        """
        if not entry.numbered:
            if await remove_matching(self._store, self._conditions, [(self.key, entry.etag)], 1):
                raise self._moved("remove", self.key)
            return
        versions = await self._versions()
        if 0 in versions and self._newest(versions) > entry.number:
            raise self._moved("remove", self.key)
        # The first one first: a writer who is late looks for it.
        await self._delete(versions[number].key for number in sorted(versions))

    async def clear(self, *, tried: bool = False) -> None:
        """Delete what the removal of a numbered register left when it was cut; nothing where there is one.

        Another process may make it anew meanwhile: a version is deleted only if it is still the one that was
        listed. If the conditions have not been ``tried``, or deletes know none, that is looked at before, and
        a register that is made anew between the look and the delete loses a version.
        """
        left = await self._versions()
        if 0 in left:
            return
        looking = replace(self._conditions, delete=False, bulk_delete=False)
        conditions = self._conditions if tried else looking
        await remove_matching(
            self._store, conditions, [(left[number].key, left[number].etag) for number in sorted(left)], 1
        )

    async def _append(self, entry: Entry, body: bytes) -> Entry:
        number = entry.number + 1
        key = self._numbered_key(number)
        try:
            written: Entry | ObjectInfo = await self._store.put(key, body, mode=PutMode.CREATE)
        except ObjectExists as error:
            refused = self._moved("put", key)
            refused.__cause__ = error
            written = await self._ours(key, body, number, refused)
        except Unavailable as error:
            written = await self._ours(key, body, number, error)
        if await self._has_moved_on(entry) or (self._lasting and not await self._clean_up(number)):
            await self._delete([key])
            raise self._moved("put", key)
        return Entry(key, body, written.etag, number, numbered=True, version=written.version)

    async def _has_moved_on(self, entry: Entry) -> bool:
        """Whether the version before the one just written, or the first, is not what it was.

        A late copy of the request that wrote the first one brings that back alone. A register that was moved
        here has another one of each number.
        """
        first = await found_at(self._store, self.key)
        before = await found_at(self._store, entry.key) if entry.number else first
        if first is None or before is None:
            return True
        is_another = bool(entry.etag and before.etag) and before.etag != entry.etag
        return is_another or not self._is_numbered(first)

    async def _clean_up(self, number: int) -> bool:
        """Delete old versions; False if the number just written had itself been deleted long ago.

        Then its key was free, and writing it proves nothing.
        """
        versions = await self._versions()
        newest = max(versions, default=number)
        old = [one for one in versions if 0 < one <= newest - KEPT]
        await self._delete(versions[one].key for one in sorted(old))
        return newest - number < KEPT

    async def _ours(self, key: str, body: bytes, number: int, error: StoreError) -> Entry:
        """What is there, if it is what we wrote: a lost reply, and the store or its client sent it again.

        Raises ``error`` if it is not.
        """
        try:
            info = await self._store.head(key)
            there = await self._store.get(key, size_max=_BODY_MAX)
            is_ours = there == body and await self._is_of(info, body)
        except ObjectNotFound:
            raise error from None
        if not is_ours:
            raise error
        numbered = bool(number) or self._is_numbered(info)
        undecided = info.metadata.get(_NUMBERED) == _UNDECIDED
        return Entry(key, body, info.etag, number, numbered, undecided, version=info.version)

    def _is_numbered(self, first: ObjectInfo) -> bool:
        """Whether numbered versions may follow the first: it says so, or nothing on this store could."""
        return _NUMBERED in first.metadata or not self._store.capabilities.metadata

    async def _is_of(self, info: ObjectInfo, body: bytes) -> bool:
        """Whether a body that was read after a HEAD is that of the version which the HEAD met."""
        digest = info.metadata.get(DIGEST)
        if digest is not None:
            return _digest(body)[DIGEST] == digest
        # Written by hand or by an older magicfs, or the store has no metadata.
        return (await self._store.head(info.key)).etag == info.etag

    async def _versions(self) -> dict[int, ObjectInfo]:
        """All versions by their numbers."""
        found = {}
        async for info in self._store.list(f"{self._stem}."):
            if match := _VERSION.fullmatch(info.key, len(self._stem)):
                found[int(match[1] or 0)] = info
        return found

    def _newest(self, versions: Mapping[int, ObjectInfo]) -> int:
        if self._lasting:  # old ones are cleaned up, but for the first
            return max(versions, default=0)
        return next(number for number in count() if number + 1 not in versions)

    async def _delete(self, keys: Iterable[str]) -> None:
        """One by one and in order, so that whatever is seen in between is the state before or after."""
        for key in keys:
            await self._store.delete([key])

    def _numbered_key(self, number: int) -> str:
        return f"{self._stem}.{number:05d}{_SUFFIX}" if number else self.key

    def _shown(self, key: str) -> str:
        return f"{self._store.bucket}/{key}"

    def _moved(self, operation: str, key: str) -> PreconditionFailed:
        return PreconditionFailed(operation, self._shown(key), "there is another version, or none")


async def found_at(store: Store, key: str) -> ObjectInfo | None:
    """What a HEAD of a key shows; None if there is no object."""
    try:
        return await store.head(key)
    except ObjectNotFound:
        return None


async def body_at(store: Store, key: str, size_max: int) -> bytes | None:
    """What a GET of a key returns, as ``Store.get``; None if there is no object."""
    try:
        return await store.get(key, size_max=size_max)
    except ObjectNotFound:
        return None


async def is_there(store: Store, key: str) -> bool:
    """Whether there is an object at a key. One HEAD."""
    return await found_at(store, key) is not None


def _digest(body: bytes) -> dict[str, str]:
    return {DIGEST: hashlib.sha256(body).hexdigest()}
