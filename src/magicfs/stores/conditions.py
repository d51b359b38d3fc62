"""Which conditional requests a store honours: found out by trying.

A store that does not know a condition mostly ignores it, silently.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from magicfs.errors import (
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    Unsupported,
    UploadNotFound,
)
from magicfs.protocol import paths
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import PutMode, Store, Update
from magicfs.stores.retrying import checked_again

_T = TypeVar("_T")

_REMEMBERED_MAX = 1000
_PROBE = "probe-"
_PROBE_NAME = re.compile(r"probe-[0-9a-f]{16}(-upload)?")
PROBES_LAST_S = 3600.0
"""Seconds after which nobody tries conditions on an object any more. It takes a few; the clocks of a store
and of a machine may differ."""
# The ETag of no object.
_ANOTHER = f'"{"0" * 32}"'
_NEEDS = {
    "put": "s3:PutObject, and s3:GetObject for If-Match",
    "delete": "s3:DeleteObject and s3:GetObject",
    "complete": "s3:PutObject, s3:GetObject and s3:AbortMultipartUpload",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a store was seen to honour. *Honoured* is not *atomic*: one client was tried."""

    put_if_absent: bool = True  # put(mode=PutMode.CREATE)
    put_if_match: bool = True  # put(mode=Update(etag))
    delete: bool = True  # delete_matching
    bulk_delete: bool = True  # delete_all_matching
    complete_if_absent: bool = True  # complete_upload(if_absent=True)

    @property
    def create(self) -> PutMode:
        """The mode that writes a new object: ``CREATE`` if the store honours it, else ``OVERWRITE``."""
        return PutMode.CREATE if self.put_if_absent else PutMode.OVERWRITE

    def update(self, etag: str) -> PutMode | Update:
        """The mode that replaces an object: ``Update`` if the store honours it, else ``OVERWRITE``."""
        return Update(etag) if self.put_if_match else PutMode.OVERWRITE


_known: OrderedDict[str, Conditions] = OrderedDict()
_Loop = asyncio.AbstractEventLoop
_locks: weakref.WeakKeyDictionary[_Loop, weakref.WeakValueDictionary[str, asyncio.Lock]] = (
    weakref.WeakKeyDictionary()
)


async def conditions_of(store: Store, directory: str) -> Conditions:
    """What the store honours, found out by 13 small requests and then remembered by this process.

    The requests are about two objects and an upload of random names in a directory that no reader looks
    into. All are gone afterwards, whatever happens. Callers at the same time wait for one of them to find
    out. Nothing is remembered of a failure. ``PermissionDenied`` names the permission that is missing.
    """
    if store.identity not in _known:
        of_loop = _locks.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
        async with of_loop.setdefault(store.identity, asyncio.Lock()):
            if store.identity not in _known:
                key = paths.join(directory, f"{_PROBE}{secrets.token_hex(8)}")
                assume(store, await _Probe(store, key).run())
    return _known[store.identity]


def is_probe(key: str) -> bool:
    """Whether a key is that of an object or of the upload on which conditions are tried."""
    return key.rpartition("/")[2].startswith(_PROBE)


_Seen = tuple[str, float | None, str]
"""A key, since when something is there, and the id of an upload."""


async def sweep_probes(store: Store, directory: str, *, older_than_s: float | None = None) -> int:
    """Remove what trials of ``conditions_of`` in a directory have left whose process has died; how many.

    One of a trial that may be at work stays: the clock of the store decides, which all share. A second call
    finds nothing. Where something may not be listed or removed it stays, too: nobody but a bill shows it.
    """
    prefix = paths.prefix_of(directory) + _PROBE
    lasts_s = PROBES_LAST_S if older_than_s is None else older_than_s
    removed = 0

    def is_left(one: _Seen, now: float) -> bool:
        key, since, _ = one
        name = key.removeprefix(paths.prefix_of(directory))
        return since is not None and since < now - lasts_s and _PROBE_NAME.fullmatch(name) is not None

    async def left(seen: Sequence[_Seen]) -> list[_Seen]:
        old = [one for one in seen if is_left(one, time.time())]
        now = min(time.time(), await now_of(store, directory)) if old else 0.0
        return [one for one in old if is_left(one, now)]

    with contextlib.suppress(MagicError):
        objects = [(info.key, info.modified, "") async for info in store.list(prefix)]
        if keys := [key for key, *_ in await left(objects)]:
            removed = len(keys)
            await store.delete(keys)
    with contextlib.suppress(MagicError):
        # Where uploads are not apart, one shows only once no object is there.
        uploads = [(one.key, one.initiated, one.upload_id) async for one in store.list_uploads(prefix)]
        for key, _, upload_id in await left(uploads):
            await store.abort_upload(key, upload_id)
            removed += 1
    return removed


async def now_of(store: Store, directory: str) -> float:
    """Seconds since the epoch by the clock of the store: when an object is written to it."""
    key = paths.join(directory, f"{_PROBE}{secrets.token_hex(8)}")
    await store.put(key, b"")
    try:
        modified = (await store.head(key)).modified
    finally:
        await store.delete([key])
    return time.time() if modified is None else modified


def remembered(store: Store) -> Conditions | None:
    """What ``conditions_of`` has found out or ``assume`` has set; None if it has to try. No request is
    made.
    """
    return _known.get(store.identity)


def assume(store: Store, conditions: Conditions | None) -> None:
    """Say what a store honours, so that it is not tried; None forgets it."""
    _known.pop(store.identity, None)
    if conditions is not None:
        _known[store.identity] = conditions
        if len(_known) > _REMEMBERED_MAX:
            _known.popitem(last=False)


class _Probe:
    """Two objects on which every condition is tried, at once: their requests do not wait for one another.

    Two, for a store that is asked for two conditions on one key at once may refuse one because of the other.
    """

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._whole, self._uploaded = _Object(store, key), _Object(store, f"{key}-upload")

    async def run(self) -> Conditions:
        try:
            trials = (self._whole.put_trials, self._uploaded.upload_trials)
            found = dict(chain.from_iterable(await gathered(trials, _done, 2)))
        except BaseException:
            with contextlib.suppress(MagicError):
                await self._search_and_tidy_up()
            raise
        return Conditions(**found)

    async def _search_and_tidy_up(self) -> None:
        # A request whose answer was lost may have left something.
        try:
            await self._store.delete([self._whole.key, self._uploaded.key])
        finally:
            left = [info async for info in self._store.list_uploads(self._whole.key)]  # of either
            for info in left:
                await self._store.abort_upload(info.key, info.upload_id)


_Verdicts = Sequence[tuple[str, bool]]


async def _done(trial: Callable[[], Awaitable[_T]]) -> _T:
    return await trial()


class _Object:
    """One object, and one upload of its key, on which conditions are tried one after another.

    ``etag`` is that of the object that is there, empty while none is; ``upload_id`` that of the open upload.
    """

    def __init__(self, store: Store, key: str) -> None:
        self.store = store
        self.key = key
        self.etag = ""
        self.upload_id = ""
        self.writes = 0

    async def put_trials(self) -> _Verdicts:
        """Try what is about whole objects."""
        found = [
            ("put_if_absent", await self._tried("put", self._put_if_absent)),
            ("put_if_match", await self._tried("put", self._put_if_match)),
            ("delete", await self._tried("delete", self._delete)),
        ]
        await self._tidy_up()
        return found

    async def upload_trials(self) -> _Verdicts:
        """Try the others."""
        found = [
            ("complete_if_absent", await self._tried("complete", self._complete_if_absent)),
            ("bulk_delete", await self._tried("delete", self._bulk_delete)),
        ]
        await self._tidy_up()
        return found

    async def _tried(self, kind: str, trial: Callable[[], Awaitable[bool]]) -> bool:
        try:
            if await trial():
                return True
            # Whoever ends the job removes what lies in its directory, in the middle of a trial, too.
            await self._begin_again()
            return await trial()
        except Unsupported:
            return False
        except PermissionDenied as error:
            raise PermissionDenied(
                error.operation,
                error.key,
                f"a conditional request, which jobs depend on, was denied: {error.problem}",
                hint=f"allow {_NEEDS[kind]} below the destination, or check the credentials",
            ) from error

    async def _put_if_absent(self) -> bool:
        try:
            await self._put(PutMode.CREATE)
        except ObjectExists:
            if not await self._is_written():
                return False  # nothing is there
        try:
            await self._put(PutMode.CREATE)
        except ObjectExists:
            return True
        return False

    async def _put_if_match(self) -> bool:
        await self._ensure()
        try:
            await self._put(Update(self.etag))
        except PreconditionFailed:
            if not await self._is_written():
                return False  # Ceph's gateway takes no ETag in quotes, not even the right one
        try:
            await self._put(Update(_ANOTHER))
        except PreconditionFailed:
            return True
        return False

    async def _complete_if_absent(self) -> bool:
        try:
            return await self._completed_if_absent()
        except UploadNotFound:
            # A late copy of the PUT has dropped it, where a name has one list of parts.
            return await self._completed_if_absent()

    async def _completed_if_absent(self) -> bool:
        await gathered((self._ensure, self._begin_upload), _done, 2)
        try:
            part = await self.store.put_part(self.key, self.upload_id, 1, b"part")
            done = await self.store.complete_upload(self.key, self.upload_id, [part], if_absent=True)
        except (ObjectExists, Unsupported) as error:
            await self.store.abort_upload(self.key, self.upload_id)
            self.upload_id = ""
            if isinstance(error, Unsupported):
                raise
            return True
        self.upload_id = ""
        self.etag = done.etag or (await self.store.head(self.key)).etag
        return False

    async def _begin_upload(self) -> None:
        self.upload_id = await self.store.create_upload(self.key, metadata={})

    async def _bulk_delete(self) -> bool:
        await self._ensure()
        if await self.store.delete_all_matching([(self.key, _ANOTHER)]) == [self.key]:
            return True
        self.etag = ""
        return False

    async def _delete(self) -> bool:
        await self._ensure()
        try:
            await self.store.delete_matching(self.key, _ANOTHER)
        except PreconditionFailed:
            pass
        else:
            self.etag = ""
            return False
        try:
            await self.store.delete_matching(self.key, self.etag)
        except PreconditionFailed:
            return False
        self.etag = ""
        return True

    async def _put(self, mode: PutMode | Update = PutMode.OVERWRITE) -> None:
        self.writes += 1
        self.etag = (await self.store.put(self.key, b"%d" % self.writes, mode=mode)).etag

    async def _is_written(self) -> bool:
        """Whether what was refused is there: a request that was sent again is refused by its own work."""
        try:
            if await self.store.get(self.key) != b"%d" % self.writes:
                return False
            self.etag = (await self.store.head(self.key)).etag
        except ObjectNotFound:
            return False
        return True

    async def _ensure(self) -> None:
        if not self.etag:
            await self._put()

    async def _begin_again(self) -> None:
        await self.store.delete([self.key])
        self.etag = ""

    async def _tidy_up(self) -> None:
        if self.etag:
            await self.store.delete([self.key])


async def remove_matching(
    store: Store,
    conditions: Conditions,
    objects: Sequence[tuple[str, str]],
    concurrency: int,
    *,
    check: Callable[[], Awaitable[None]] | None = None,
) -> list[str]:
    """Delete objects that are still the ones of their ETags, by the best means that the store honours.

    That is deleting in bulk by ETag; one by one by ETag; or else a HEAD, a comparison and a delete for each,
    between which another writer may come. ``check`` is awaited before each request, also before it is made
    again, and stops it by raising.
    Returns the keys that hold another object, untouched, in the given order.

    On a failure no further request is begun, those in flight end, and the first error is raised. A second
    call does the rest.
    """
    size = store.capabilities.bulk_delete_max if conditions.bulk_delete else 1
    one = _delete_one if conditions.delete else _compare_and_delete

    async def delete(batch: Sequence[tuple[str, str]]) -> list[str]:
        if check is not None:
            await check()
        with checked_again(check):
            return await (
                store.delete_all_matching(batch) if conditions.bulk_delete else one(store, *batch[0])
            )

    batches = [objects[start : start + size] for start in range(0, len(objects), size)]
    left = await gathered(batches, delete, concurrency)
    kept = {key for keys in left for key in keys}
    return [key for key, _ in objects if key in kept]


async def _delete_one(store: Store, key: str, etag: str) -> list[str]:
    try:
        await store.delete_matching(key, etag)
    except PreconditionFailed:
        return [key]
    return []


async def _compare_and_delete(store: Store, key: str, etag: str) -> list[str]:
    try:
        if (await store.head(key)).etag != etag:
            return [key]
    except ObjectNotFound:
        return []
    await store.delete([key])
    return []
