"""Bringing an alias to what its dataset shows.

A process reads the claim, then the pointer. So what it is about to copy is at least as new as what the claim
names, and two conditions hold all others off: the claim is moved by compare-and-swap before the copy, and the
copy replaces only the object that was read. Not every store honours the second one, and two objects of equal
bytes may have one ETag. So the pointer is read again afterwards, and a copy that came late is recognized by
the claim and replaced. ``docs/design/034-alias.md`` has the reasons.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal

from magicfs.alias.places import AliasPlace, own_name
from magicfs.alias.records import Claim, Copy
from magicfs.datasets.read import shown_files
from magicfs.engine import Engine
from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    Unavailable,
    Unsupported,
    UsageError,
)
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.comparison import is_file
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS, is_data
from magicfs.stores.conditions import Conditions, conditions_of, remove_matching
from magicfs.stores.port import ObjectInfo, PutMode, Store, Update
from magicfs.stores.register import Entry, Register, found_at, is_there

_TRIES: Final = 50
_PAUSE_S: Final = 0.02
_PAUSE_MAX_S: Final = 1.0

Done = Literal["right", "moved", "removed"]
"""What became of an alias; ``right``: it showed the newest publication, and was left as it is."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of an alias."""

    done: Done
    job_id: str  # the publication
    files: int  # how many files that shows: the alias shows it if there is one
    url: str  # of the alias


@dataclass(frozen=True, slots=True)
class _Seen:
    """An alias, as it was read."""

    claim: Claim
    entry: Entry
    there: ObjectInfo | None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a dataset shows."""

    job_id: str
    files: int
    file: ManifestFile | None  # the only one


@dataclass(frozen=True, slots=True)
class _Alias:
    """One alias, and the way to it."""

    engine: Engine
    conditions: Conditions
    place: AliasPlace

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def register(self) -> Register:
        return Register(self.store, self.place.claim, self.conditions, lasting=True)

    async def claimed(self) -> tuple[Claim, Entry] | None:
        """The claim; None if there is none. Raises UsageError if it is another dataset's."""
        entry = await self.register.read()
        if entry is None:
            return None
        path = f"{self.store.bucket}/{entry.key}"
        found = Claim.from_bytes(path, entry.body)
        if (found.dataset, found.name) != (self.place.dataset.key, self.place.name):
            raise UsageError(
                f"{self.place.url()} is the alias of {self.store.bucket}/{found.dataset}, as {path} says; "
                "choose another name, or remove that alias first with magicfs.alias.remove"
            )
        return found, entry

    async def seen(self, claimed: tuple[Claim, Entry], file: str) -> _Seen:
        """The alias of a file of this own name. Raises UsageError if another program wrote it;
        PreconditionFailed if another process has moved it since the claim was read.
        """
        there = await found_at(self.store, self.place.key(file))
        if there and not claimed[0].knows(there):
            now = await self.claimed()
            if now is None or now[0].nonce != claimed[0].nonce:
                raise PreconditionFailed("look at", self.place.url(file), "it was moved meanwhile")
            raise UsageError(
                f"magicfs did not write {self.place.url(file)}, and does not replace it; move it away, then "
                f"run magicfs recover {self.place.dataset.url}, or publish with another alias"
            )
        return _Seen(*claimed, there)

    async def remove(self, claimed: tuple[Claim, Entry]) -> None:
        """Remove the alias of the file that was copied last, if it is there and is ours."""
        if claimed[0].file:
            seen = await self.seen(claimed, claimed[0].file)
            if seen.there is not None:
                objects = [(seen.there.key, seen.there.etag)]
                if await remove_matching(self.store, self.conditions, objects, 1):
                    raise PreconditionFailed("remove", self.place.url(), "another object is there")


async def claim(engine: Engine, place: AliasPlace, conditions: Conditions, others: Iterable[str]) -> None:
    """Claim the place of an alias for a job that is set up; a second call changes nothing.

    ``others``: directories in which no alias may lie. Raises UsageError if it is another dataset's, if
    another program has written something there, or if it lies in a dataset.
    """
    key = place.key("file")
    above = paths.which_holds(key, others)
    for parent in paths.parents(key) if above is None else ():
        if await is_there(engine.store, chain.pointer_key(parent)):
            above = parent
            break
    if above is not None:
        raise UsageError(
            f"the alias {place.url()} lies in the dataset {engine.store.bucket}/{above}, whose readers would "
            "take it for data; nothing was changed; choose a name outside of it"
        )
    alias = _Alias(engine, conditions, place)
    for _ in range(_TRIES):
        with suppress(ObjectExists, PreconditionFailed):  # another job of this dataset, or of another
            if (found := await alias.claimed()) is not None:
                if name := place.name or found[0].file:
                    await alias.seen(found, name)
                return
            await alias.register.create(Claim(dataset=place.dataset.key, name=place.name).to_bytes())
    raise Unavailable("claim", place.url(), f"others changed it {_TRIES} times in a row")


async def follow(engine: Engine, place: AliasPlace, *, dry_run: bool = False) -> Followed:
    """Let an alias show the newest publication of its dataset; remove it if that has no single file.

    Any number of processes may do this at once, and each may die between any two requests. ``dry_run``
    changes nothing, and returns what would be done.

    Raises UsageError if no job has claimed the place, or another program's file is there; Unavailable if
    others changed the alias all the time.
    """
    conditions = await conditions_of(engine.store, paths.join(place.dataset.key, MANIFESTS))
    alias = _Alias(engine, conditions, place)
    done: Done = "right"
    for attempt in range(_TRIES):
        with suppress(ObjectExists, ObjectNotFound, PreconditionFailed):
            found = await alias.claimed()
            if found is None:
                raise UsageError(
                    f"no job has claimed {place.url()} for {place.dataset.url}; nothing was changed there; "
                    f"publish with options={{'alias': {place.text!r}}}"
                )
            shown, moved = await _brought(alias, found, dry_run)
            done = moved if moved != "right" else done
            if await chain.newest_job(engine.store, place.dataset.key, chain.READING) == shown.job_id:
                name = own_name(shown.file.key) if shown.file else found[0].file
                return Followed(done, shown.job_id, shown.files, place.url(name))
        await asyncio.sleep(random.uniform(0, min(_PAUSE_S * 2**attempt, _PAUSE_MAX_S)))  # noqa: S311
    raise Unavailable("copy", place.url(), f"others changed it or its dataset {_TRIES} times in a row")


async def withdraw(engine: Engine, place: AliasPlace) -> bool:
    """Remove an alias and its claim; whether there was a claim. A second call changes nothing.

    Raises UsageError if another program's file is there; nothing was changed.
    """
    conditions = await conditions_of(engine.store, paths.join(place.dataset.key, MANIFESTS))
    alias = _Alias(engine, conditions, place)
    for _ in range(_TRIES):
        with suppress(ObjectNotFound, PreconditionFailed):
            if (found := await alias.claimed()) is None:
                return False
            await alias.remove(found)
            await alias.register.remove(found[1])
            return True
    raise Unavailable("remove", place.url(), f"others changed it {_TRIES} times in a row")


async def _brought(alias: _Alias, found: tuple[Claim, Entry], dry_run: bool) -> tuple[_Shown, Done]:
    """Bring an alias to what its dataset shows once the claim was read; raises if others are faster."""
    last = found[0].file
    before = await alias.seen(found, last) if last else None
    shown = await _shown(alias.engine, alias.place)
    name = own_name(shown.file.key) if shown.file is not None else ""
    if before is not None and _is_right(before, shown, name):
        return shown, "right"
    if dry_run:
        return shown, "moved" if shown.file is not None else "removed"
    if shown.file is None:
        return shown, await _gone(alias, found, before, shown.job_id)
    await _replaced(alias, found, before, shown.job_id, shown.file)
    return shown, "moved"


async def _gone(alias: _Alias, found: tuple[Claim, Entry], before: _Seen | None, job_id: str) -> Done:
    begun = found[0].begun(job_id, found[0].file, None)
    entry = await alias.register.swap(found[1], begun.to_bytes())
    await alias.remove((begun, entry))
    await alias.register.swap(entry, begun.ended("").to_bytes())
    return "removed" if before is not None and before.there is not None else "right"


async def _replaced(
    alias: _Alias, found: tuple[Claim, Entry], before: _Seen | None, job_id: str, file: ManifestFile
) -> None:
    name = own_name(file.key)
    if before is None or alias.place.key(found[0].file) != alias.place.key(name):
        await alias.remove(found)
        before = await alias.seen(found, name)
    kept = file.write_id if alias.store.capabilities.metadata else None
    begun = found[0].begun(job_id, name, Copy(size=file.size, write_id=kept or ""))
    entry = await alias.register.swap(found[1], begun.to_bytes())
    etag = await _copied(alias, begun, file, before.there)
    await alias.register.swap(entry, begun.ended(etag).to_bytes())


def _is_right(seen: _Seen, shown: _Shown, name: str) -> bool:
    """Whether an alias shows what its dataset shows: by the claim, and as it was left."""
    there = seen.there.etag if seen.there is not None else ""
    same = seen.claim.done and seen.claim.job_id == shown.job_id and there == seen.claim.etag
    return same and (shown.file is not None) == bool(there) and (not name or name == seen.claim.file)


async def _shown(engine: Engine, place: AliasPlace) -> _Shown:
    view = await chain.view(engine.store, place.dataset.key, chain.READING)
    if view is None:
        raise UsageError(f"no job was published to {place.dataset.url}, so its alias shows nothing")
    files = [one for key, one in shown_files(place.dataset, view).items() if is_data(key, "")]
    return _Shown(view.newest_job, len(files), files[0] if len(files) == 1 else None)


async def _copied(alias: _Alias, begun: Claim, file: ManifestFile, there: ObjectInfo | None) -> str:
    """Copy a file to the alias, in place of what is there; returns the ETag of the copy."""
    store, source = alias.store, paths.join(alias.place.dataset.key, file.key)
    target = alias.place.key(begun.file)
    if not is_file(info := await store.head(source), file):
        raise PreconditionFailed("copy", f"{store.bucket}/{source}", "another object is there")
    # With an ETag a file may become a link, and an edit of the alias an edit of the dataset.
    etag = "" if store.capabilities.directories else info.etag
    mode = PutMode.CREATE if there is None else Update(there.etag)
    try:
        await store.copy(source, target, etag=etag, mode=mode)
    except Unsupported:
        await store.copy(source, target, etag=etag)
    except (ObjectExists, PreconditionFailed):
        if not begun.copies[-1].write_id:
            raise
        # Perhaps by its own request, whose answer was lost.
    copied = await store.head(target)
    if not replace(begun, etag="", copies=begun.copies[-1:]).knows(copied):
        raise PreconditionFailed("copy", f"{store.bucket}/{target}", "another object is there")
    return copied.etag
