"""Moving the record of a release: each change is one compare-and-swap, made again if another was faster.

A driver reads the record, writes holds into the datasets, and swaps the record. A sweep (``expire``) reads
the record, looks for holds that it does not name, swaps it with one more in ``sweeps``, and only then ends
them. So a driver whose swap succeeds has written its holds after the last sweep had looked, or else it sees
that there was one, and writes them again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias
from uuid import uuid4

from magicfs.datasets.connection import Destination
from magicfs.datasets.read import not_published
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    Unavailable,
    UsageError,
)
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past.as_of import job_as_of
from magicfs.past.keeping import TRIES, pause
from magicfs.past.named import check_name
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.releases import holds
from magicfs.releases.holds import Held
from magicfs.releases.reading import as_released, read_record, same_place
from magicfs.releases.record import Member, Record, Released, key_of
from magicfs.stores.conditions import conditions_of
from magicfs.stores.register import Entry, Register

_AT_WORK_MS: Final = 3_600_000
"""A hold that no release names may be of a driver at work, which would have to write it again."""
_Change: TypeAlias = Callable[[Record], Record]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A publication that is to be released."""

    name: str
    destination: Destination
    job: str

    def is_shown_by(self, one: Member | None) -> bool:
        """Whether a release shows exactly this."""
        location = self.destination.location
        return one is not None and one.job_id == self.job and same_place(one.location, location)


def published(
    release: Destination,
    wanted: Sequence[Wanted],
    *,
    base: Record,
    without: Iterable[str] = (),
    run_id: str | None = None,
) -> Released:
    """Release these publications together, and of all other datasets those of the newest release.

    ``base``: the record when the caller began. ``without``: names of datasets that are left out.

    Raises CommitDenied if another release has changed one of the datasets since.
    """
    left_out = set(without)
    held: dict[str, Held] = {}
    sweeps: int | None = None
    for attempt in range(TRIES):
        record, entry = release.run(read_record)
        if (done := record.of_run(run_id) or _shown_already(record, wanted, left_out, run_id)) is not None:
            return _given_up(held, wanted, done)
        try:
            _refuse_changed(release.location, base, record, wanted, left_out)
        except CommitDenied:
            _end(held, wanted)
            raise
        if record.sweeps != sweeps:
            held, sweeps = _held(release.location, record, wanted), record.sweeps
        members = _members(record, wanted, held, left_out)
        news = record.with_next(uuid4().hex, _now_ms(), members, run_id)
        if release.run(_swapped, entry, news):
            assert news.newest is not None
            return news.newest
        release.run(_paused, attempt)
    raise _moved(release)


def restored(release: Destination, to: str) -> Released:
    """Release once more what an older release shows."""

    def again(record: Record) -> Record:
        one = as_released(release.location, record, to)
        return record.with_next(uuid4().hex, _now_ms(), one.members, restores=one.id)

    found = change(release, again).newest
    assert found is not None
    return found


def tagged(release: Destination, name: str, as_of: str | None, *, move: bool) -> Released:
    """Give a release a name; it is kept for as long as it has one."""
    check_name(name)

    def named(record: Record) -> Record:
        one = as_released(release.location, record, as_of)
        before = record.tags.get(name, one.id)
        if before != one.id and not move:
            raise UsageError(
                f"tag {name!r} already names release {before}; nothing was changed; choose another name, or "
                "pass move=True (--move)"
            )
        return replace(record, tags={**record.tags, name: one.id})

    return as_released(release.location, change(release, named), f"tag:{name}")


def untagged(release: Destination, name: str) -> bool:
    """Take the name away; False if no release has it."""
    check_name(name)
    had: list[str] = []

    def without(record: Record) -> Record:
        had[:] = [name] if name in record.tags else []
        return replace(record, tags={one: named for one, named in record.tags.items() if one != name})

    change(release, without)
    return bool(had)


def expired(release: Destination, before_ms: int, *, last: int = 1) -> tuple[Record, tuple[Released, ...]]:
    """The record without releases that were superseded before a moment, and those; nothing is changed.

    The newest ones stay, and those with a tag.
    """
    record, _ = release.run(read_record)
    return record, _old(record, before_ms, last)


def stray_holds(
    release: Destination, datasets: Sequence[Destination], base: Record, gone: Sequence[Released]
) -> list[tuple[Destination, set[str]]]:
    """The holds of each dataset that no release names once some are gone, of no driver at work."""
    named = replace(base, releases=tuple(one for one in base.releases if one not in gone)).holds
    young = _now_ms() - _AT_WORK_MS
    mentioned = base.holds
    found = []
    for one in datasets:
        there = one.run(holds.holds_at, release=release.location) - named
        stray = {name for name in there if name in mentioned or holds.begun_ms(name) <= young}
        if stray:
            found.append((one, stray))
    return found


def end_holds(
    release: Destination,
    base: Record,
    gone: Sequence[Released],
    stray: Sequence[tuple[Destination, set[str]]],
) -> int | None:
    """Take releases out of the record as it was read, then end holds; None if the record was moved since."""
    if gone or stray:
        left = tuple(one for one in base.releases if one not in gone)
        news = replace(base, releases=left, sweeps=base.sweeps + 1)
        _, entry = found = release.run(read_record)
        if found[0] != base or not release.run(_swapped, entry, news):
            return None
    return sum(one.run(holds.let_go, names=names) for one, names in stray)


def change(release: Destination, news: _Change) -> Record:
    """Change the record; ``news`` is called again if another was faster."""
    for attempt in range(TRIES):
        record, entry = release.run(read_record)
        if record.newest is None:
            raise ObjectNotFound(
                "read",
                f"{release.location.bucket}/{key_of(release.location)}",
                f"nothing was released at {release.location.url}",
                hint="check the URL",
            )
        changed = news(record)
        if changed == record or release.run(_swapped, entry, changed):
            return changed
        release.run(_paused, attempt)
    raise _moved(release)


async def publication(engine: Engine, location: Location, job: str | None) -> str:
    """The job that somebody wants released: by its id, run or tag; the newest if none is named."""
    if job is not None:
        return await job_as_of(engine, location, job)
    newest = await chain.newest_job(engine.store, location.key, READING)
    if newest is None:
        raise await not_published("release", engine, location, more="; nothing was released")
    return newest


def _shown_already(
    record: Record, wanted: Sequence[Wanted], left_out: set[str], run_id: str | None
) -> Released | None:
    """The newest release, if there is nothing to change."""
    shown = record.newest
    if shown is None or run_id is not None or any(shown.member(name) for name in left_out):
        return None
    return shown if all(one.is_shown_by(shown.member(one.name)) for one in wanted) else None


def _refuse_changed(
    location: Location, base: Record, record: Record, wanted: Sequence[Wanted], left_out: Iterable[str]
) -> None:
    """Two that release the same dataset at once: the first one counts, for the second has not seen it."""
    before, now = base.newest, record.newest
    if now is None or now == before:
        return
    ours = {one.name for one in wanted if one.is_shown_by(now.member(one.name))}
    for name in (*(one.name for one in wanted), *left_out):
        if name not in ours and now.member(name) != (before.member(name) if before is not None else None):
            raise CommitDenied(
                f"release {now.number} of {location.url} has changed dataset {name!r} since this one began; "
                "nothing was released; the jobs are published, so look at them, then release again"
            )


def _held(release: Location, record: Record, wanted: Sequence[Wanted]) -> dict[str, Held]:
    """Keep what is to be released, if the newest release does not keep it already."""
    shown = record.newest
    new = [one for one in wanted if shown is None or not one.is_shown_by(shown.member(one.name))]
    found: dict[str, Held] = {}
    try:
        for one in new:
            found[one.name] = one.destination.run(holds.hold, job=one.job, release=release)
    except (CommitDenied, ObjectNotFound, UsageError):
        _end(found, wanted)
        raise
    return found


def _end(held: Mapping[str, Held], wanted: Sequence[Wanted]) -> None:
    """End the holds of a release that is given up. Who dies before that leaves them to ``expire``."""
    for one in wanted:
        if one.name in held:
            one.destination.run(holds.let_go, names={held[one.name].hold})


def _given_up(held: Mapping[str, Held], wanted: Sequence[Wanted], done: Released) -> Released:
    named = {one.hold for one in done.members}
    _end({name: one for name, one in held.items() if one.hold not in named}, wanted)
    return done


def _members(
    record: Record, wanted: Sequence[Wanted], held: Mapping[str, Held], left_out: set[str]
) -> tuple[Member, ...]:
    members = {one.name: one for one in (record.newest.members if record.newest else ())}
    for one in wanted:
        if one.name in held:
            members[one.name] = Member(
                name=one.name,
                url=one.destination.location.url,
                job_id=one.job,
                manifest=held[one.name].manifest,
                hold=held[one.name].hold,
            )
    return tuple(one for name, one in members.items() if name not in left_out)


def _old(record: Record, before_ms: int, last: int) -> tuple[Released, ...]:
    named = set(record.tags.values())
    superseded = pairwise(record.releases)
    kept = {one.id for one in record.releases[-max(last, 1) :]} | named
    return tuple(one for one, by in superseded if by.published_ms <= before_ms and one.id not in kept)


async def _swapped(engine: Engine, location: Location, entry: Entry | None, news: Record) -> bool:
    """Put another record in place of the one that was read; False if it is not there any more."""
    store, key = engine.store, key_of(location)
    conditions = await conditions_of(store, paths.join(location.key, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {store.name!r} ignores conditional writes, so two drivers could undo each other; "
            "nothing was released; use another store"
        )
    register = Register(store, key, conditions, lasting=True)
    body = replace(news, nonce=uuid4().hex, changed_ms=_now_ms()).to_bytes()
    try:
        await (register.create(body) if entry is None else register.swap(entry, body))
    except (ObjectExists, PreconditionFailed):
        return False
    return True


async def _paused(_: Engine, __: Location, attempt: int) -> None:
    await pause(attempt)


def _moved(release: Destination) -> Unavailable:
    key = f"{release.location.bucket}/{key_of(release.location)}"
    return Unavailable("release", key, f"others changed it each time, {TRIES} times; release again")


def _now_ms() -> int:
    return int(time.time() * 1000)
