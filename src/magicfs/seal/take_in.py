"""Sealing what is published already: a dataset that is taken in, or whose keys are rotated.

The pointer is sealed last. Until then a dataset counts as one that is not sealed, so a second call goes on
where the first one was cut; readers without a key see the same at every moment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Final, Unpack

from magicfs.datasets.connection import Way, open_destination
from magicfs.engine import Engine
from magicfs.errors import FormatError, PreconditionFailed, SealBroken, Unavailable, UsageError
from magicfs.formats import document, kinds, limits
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.report import Report
from magicfs.runtime.parallel import drained, gathered
from magicfs.seal.seals import FIELD, Place
from magicfs.seal.store import Ring, SealedStore, ring_of
from magicfs.stores.conditions import conditions_of
from magicfs.stores.port import ObjectInfo, PutMode, Store, Update
from magicfs.transaction.others import find_unfinished_jobs

_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class SealReport(Report):
    """The result of ``seal``.

    Attributes:
        url: The dataset.
        key: The id of the key that seals.
        records: How many records there are.
        sealed: Those that were sealed, relative to the dataset; with ``dry_run``, those that would be.
        rotated: How many of these another key of this process had sealed.
    """

    url: str
    key: str
    records: int
    sealed: tuple[str, ...] = ()
    rotated: int = 0


@dataclass(frozen=True, slots=True)
class _Record:
    info: ObjectInfo
    ring: Ring
    place: Place
    sealed_by: str | None  # the id of a key of ours; empty if none has sealed it, None for a wrong seal
    problem: SealBroken | None = None  # of a record that no key has sealed

    @property
    def is_due(self) -> bool:
        return self.sealed_by != self.ring.keys[0].id


def seal(
    url: str | PathLike[str],
    *,
    rotate: bool = False,
    accept: bool = False,
    dry_run: bool = False,
    **way: Unpack[Way],
) -> SealReport:
    """Seal the records of a dataset with the first key that ``use`` was given for it.

    You vouch for what is there: look at it first, with ``magicfs verify --deep`` and ``magicfs log``. What
    this key has sealed already stays as it is, so a second call does nothing, and goes on where one was cut.

    Args:
        url: The dataset.
        rotate: Only seal again what another one of the keys has sealed; refuse what none has.
        accept: Seal also what has no seal or a wrong one, such as what a job without the key has left.
        dry_run: Change nothing; report what would be sealed.

    Raises:
        UsageError: This process has no key for it, a job is unfinished, or there is nothing to seal.
        SealBroken: A seal is wrong, or in a sealed dataset a record has none. Nothing was changed.
        Unavailable: Another process changed a record meanwhile; call again.
    """
    destination = open_destination(url, for_reading=True, **way)
    how = {"rotate": rotate, "accept": accept, "dry_run": dry_run}
    return destination.run(_seal, **how)


async def _seal(
    engine: Engine, location: Location, *, rotate: bool, accept: bool, dry_run: bool
) -> SealReport:
    store, ring = await _to_seal(engine, location)
    records = await _records(store, location)
    _refuse_doubtful(records, rotate=rotate, accept=accept)
    due = [one for one in records if one.is_due]
    if not dry_run:
        await _write(engine, store, location, due)
    return SealReport(
        location.url,
        ring.keys[0].id,
        len(records),
        tuple(paths.relative_to(one.info.key, location.key) for one in due),
        sum(bool(one.sealed_by) for one in due),
    )


async def _to_seal(engine: Engine, location: Location) -> tuple[SealedStore, Ring]:
    """The store and the keys. Raises UsageError if there are none, or a job is at work."""
    store, ring = engine.store, ring_of(location.bucket, location.key)
    if ring is None or not isinstance(store, SealedStore):
        raise UsageError(f"this process has no key of {location.url}; nothing was changed; call seal.use")
    if found := await find_unfinished_jobs(engine, location.key):
        raise UsageError(
            f"job {found[0].job_id} at {location.url} is unfinished; nothing was changed; wait for it, or "
            f"run magicfs recover {location.url}"
        )
    return store, ring


def _refuse_doubtful(records: Sequence[_Record], *, rotate: bool, accept: bool) -> None:
    """Raise SealBroken for a record that nobody vouches for. The last one is the pointer."""
    is_taken_in = records[-1].sealed_by != ""
    doubtful = {None, ""} if rotate or is_taken_in else {None}
    for one in records:
        if one.problem and one.sealed_by in doubtful and not (accept and not rotate):
            raise one.problem


async def _write(engine: Engine, store: SealedStore, location: Location, due: Sequence[_Record]) -> None:
    """Seal them, the pointer last. They bear the settings of the newest job's objects."""
    plain = store.inner
    newest = await chain.newest_job(plain, location.key, chain.READING)
    manifest = newest and await chain.read(plain, location.key, newest, chain.READING, files=False)
    writing = engine.told(manifest.object_settings) if manifest else engine
    conditions = await conditions_of(plain, paths.join(location.key, MANIFESTS))

    async def write(one: _Record) -> bool:
        info, raw = await _read(plain, one.info.key)
        changed = Unavailable("seal", one.place.path, "another process changed it meanwhile; seal again")
        if info.etag != one.info.etag:
            raise changed
        mode: PutMode | Update = Update(info.etag) if conditions.put_if_match else PutMode.OVERWRITE
        try:
            await writing.store.put(info.key, _body(one, raw), metadata=info.metadata, mode=mode)
        except PreconditionFailed as error:
            raise changed from error
        return True

    await drained([one for one in due if one.place.kind != "pointer"], write, _AT_ONCE)
    await drained([one for one in due if one.place.kind == "pointer"], write, 1)


async def _records(store: SealedStore, location: Location) -> Sequence[_Record]:
    """All records of a dataset, its pointer last and the first version of that after the others."""
    prefix, last = paths.prefix_of(paths.join(location.key, MANIFESTS)), chain.pointer_key(location.key)
    keys = [info.key async for info in store.list(prefix)]
    places = {key: at for key in keys if (at := store.place_of(key)) is not None}
    if last not in places:
        raise UsageError(f"magicfs has not published anything at {location.url}; nothing was changed")

    async def look(key: str) -> _Record:
        ring, place = places[key]
        info, raw = await _read(store.inner, key)
        try:
            return _Record(info, ring, place, place.opened(raw, ring.keys).key)
        except SealBroken as error:
            return _Record(info, ring, place, _seal_of(raw, place), error)

    keys = sorted(places, key=lambda one: (one == last, places[one][1].kind == "pointer", one))
    return await gathered(keys, look, _AT_ONCE)


async def _read(store: Store, key: str) -> tuple[ObjectInfo, bytes]:
    info = await store.head(key)
    raw = await store.get(key, size_max=kinds.SIZE_LIMIT + 1)
    if (await store.head(key)).etag != info.etag:
        raise Unavailable("seal", f"{store.bucket}/{key}", "another process changed it; seal again")
    return info, raw


def _seal_of(raw: bytes, place: Place) -> str | None:
    """Empty for a record without a seal, None for one with a wrong one.

    Raises FormatError for what is no record of its kind.
    """
    kind = kinds.detect(place.path, raw)
    if kind != place.kind:
        raise FormatError(place.path, "", f"is a {kind}, but should be a {place.kind}; nothing was changed")
    kinds.load(place.path, raw)
    return None if FIELD in _document(place, raw) else ""


def _body(one: _Record, raw: bytes) -> bytes:
    """What is sealed: the record without the seal that it has."""
    if one.sealed_by:
        return one.place.opened(raw, one.ring.keys).body
    found = _document(one.place, raw)
    if FIELD not in found and raw.endswith(b"}"):
        return raw
    return document.render({name: value for name, value in found.items() if name != FIELD})


def _document(place: Place, raw: bytes) -> Mapping[str, object]:
    limit, values = kinds.SIZE_LIMIT, limits.MANIFEST_VALUE_LIMIT
    return document.parse(place.path, raw, size_limit=limit, value_limit=values)
