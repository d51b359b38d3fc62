"""Summing a chain of manifests up, so that readers need not walk all of it.

The sum is a manifest of its own, which lists what the chain right below it shows. It is linked only if no job
has joined in between, or else made again: so a job never waits for a compaction, and what is below a sum is
exactly what it sums up. No manifest of the chain is removed: late writers find their jobs there as before.

With the sum a log is written that lists the jobs that it stands for (``magicfs.manifests.log``). It goes
on from the one that the pointer names. Where that names none, all manifests are read once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from typing import Final, Unpack
from uuid import NAMESPACE_URL, uuid4, uuid5

from magicfs.datasets.connection import Way, on_destination
from magicfs.datasets.read import not_published
from magicfs.engine import Engine
from magicfs.errors import MagicError, Unavailable, UsageError
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT
from magicfs.formats.log import LoggedJob
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain as manifests
from magicfs.manifests import footers, parts
from magicfs.manifests.chain import COMPACT, READING, Seen
from magicfs.manifests.log import Past, past_of
from magicfs.past import log_growth
from magicfs.past.log_growth import LogWriter, News
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.report import Report
from magicfs.stores.conditions import conditions_of

_TRIES: Final = 100
_MERGING_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class CompactReport(Report):
    """The result of ``compact``.

    Attributes:
        url: The destination.
        manifest: URL of the compacted manifest; None if there was nothing to merge. With ``dry_run``, the URL
            it could have: the name ends in random characters.
        manifests: How many older manifests it replaces, including compacted ones.
        files: How many files the dataset has.
        bytes: Their size.
        runs: How many published runs its log records.
    """

    url: str | PathLike[str]
    manifest: str | None
    manifests: int = 0
    files: int = 0
    bytes: int = 0
    runs: int = 0


def compact(url: str | PathLike[str], *, dry_run: bool = False, **way: Unpack[Way]) -> CompactReport:
    """See ``magicfs.Dataset.compact``."""
    return on_destination(compact_chain, url, **way, dry_run=dry_run)


async def compact_chain(engine: Engine, location: Location, *, dry_run: bool = False) -> CompactReport:
    """``compact``, on the store's loop."""
    store, destination = engine.store, location.key
    known: dict[str, Manifest] = {}
    news = News(known)
    for attempt in range(_TRIES):
        seen = await manifests.read_pointer(store, destination, READING)
        if seen is None:
            hint = "check the URL; for a whole bucket, give maintain a --policy"
            raise await not_published("compact", engine, location, hint=hint)
        newest = seen[0].job_id
        below = manifests.chain(store, destination, READING, start=newest, known=known, hidden="readable")
        async for one in below:
            known[one.job_id] = one
            if one.mode == COMPACT:
                break
        if known[newest].mode == COMPACT or known[newest].previous is None:
            return CompactReport(location.url, None)
        engine = engine.told(known[newest].object_settings)
        total = await _sum(engine, location, newest, known)
        past = await past_of(store, destination, READING, seen[0])
        jobs, runs = await news.of(store, destination, past)
        report = _report(location, total, len(_down(newest, known)), past, jobs, runs)
        if dry_run:
            return report
        await _check(engine, location, total)
        total = await _with_footers(engine, location, total, newest)
        writer = LogWriter(engine.store, destination, total.job_id)
        merge = attempt < _MERGING_TRIES  # who is overtaken all the time does what is quick
        total = await _with_log(writer, engine, location, total, past, jobs, runs, merge=merge)
        if await _linked(engine, location, total, seen):
            await _remove_leftovers(engine, location, [total, *_down(newest, known)])
            return report
        await _remove_lists(engine, location, total, writer)
    raise Unavailable(
        "compact",
        f"{store.bucket}/{manifests.pointer_key(destination)}",
        f"other jobs were published each time, {_TRIES} times in a row; nothing was changed; call again",
    )


def _report(
    location: Location,
    total: Manifest,
    stood_for: int,
    past: Past,
    jobs: Sequence[LoggedJob],
    runs: Mapping[str, str],
) -> CompactReport:
    key = manifests.manifest_key(location.key, total.job_id)
    before = 0 if past.log is None else past.log.runs
    return CompactReport(
        location.url,
        Location(location.scheme, location.bucket, key).url,
        manifests=stood_for,
        files=len(total.files),
        bytes=total.size,
        runs=before + len(runs) + sum(one.run_id is not None for one in jobs),
    )


async def _sum(engine: Engine, location: Location, newest: str, known: Mapping[str, Manifest]) -> Manifest:
    chain = manifests.chain(engine.store, location.key, READING, start=newest, known=known, hidden="none")
    view = await manifests.view_of(_of_here(chain, location))
    assert view is not None
    return Manifest(
        # No two compactions make the same manifest: who fails to link it may remove it.
        job_id=f"{_stem_of_sums(newest)}{uuid4().hex[:12]}",
        bucket=location.bucket,
        destination=location.key,
        mode=COMPACT,
        committed_ms=int(time.time() * 1000),
        previous=newest,
        hides="all",
        replaced=newest,
        older_files=view.older_files,
        files=tuple(view.files.values()),
        object_settings=known[newest].object_settings,
    )


async def _of_here(chain: AsyncIterable[Manifest], location: Location) -> AsyncIterator[Manifest]:
    """Manifests, without the ETags of those of another place: files that were copied from there have others,
    and their sum, which is of here, would say so of them.
    """
    async for one in chain:
        if (one.bucket, one.destination) == (location.bucket, location.key):
            yield one
        else:
            yield replace(one, files=tuple(replace(file, etag="") for file in one.files))


async def _with_footers(engine: Engine, location: Location, total: Manifest, newest: str) -> Manifest:
    """The sum, after writing the footers of its files, if there are any, next to it."""
    files = {one.key: one for one in total.files}
    if all(one.rows is None for one in files.values()):
        return total
    below = manifests.chain(engine.store, location.key, READING, start=newest, hidden="readable")
    found = await footers.footers_of_files(engine.store, location.key, below, files)
    listed = ((key, one.size, found.get(key)) for key, one in files.items())
    written = await footers.write(engine.store, location.key, total.job_id, listed)
    return replace(total, footers=written)


async def _with_log(
    writer: LogWriter,
    engine: Engine,
    location: Location,
    total: Manifest,
    past: Past,
    jobs: Sequence[LoggedJob],
    runs: Mapping[str, str],
    *,
    merge: bool,
) -> Manifest:
    """The sum, after writing the log of all jobs that it stands for next to it."""
    store = engine.store
    before: log_growth.Before | None = None
    outdated: tuple[str, ...] = ()
    if past.log is not None and past.pointer.log is not None:
        before = past.pointer.log, past.log
        outdated = await log_growth.delete_outdated(store, location.key, past.log)
    assert total.previous is not None
    file, _ = await log_growth.write(
        writer, store, location.key, before, total.previous, jobs, runs, outdated=outdated, merge=merge
    )
    return replace(total, log=file)


async def _remove_lists(engine: Engine, location: Location, total: Manifest, writer: LogWriter) -> None:
    """Delete the files next to a sum that was not linked. This only tidies up."""
    named = total.footers.lists if total.footers is not None else ()
    keys = [parts.key_of_part(location.key, total.job_id, one) for one in named]
    at_once = engine.store.capabilities.bulk_delete_max
    with suppress(MagicError):
        for start in range(0, len(keys), at_once):
            await engine.store.delete(keys[start : start + at_once])
        await writer.remove()


async def _check(engine: Engine, location: Location, total: Manifest) -> None:
    """Raise UsageError if the sum cannot be published."""
    size = len(total.to_bytes())
    if size > MANIFEST_SIZE_LIMIT:
        raise UsageError(
            f"the compacted manifest of {location.url} would have {size:,} bytes, and readers refuse more "
            f"than {MANIFEST_SIZE_LIMIT:,}; nothing was changed; {len(total.files):,} files are too many "
            "for one manifest: publish larger files, or several datasets"
        )
    conditions = await conditions_of(engine.store, paths.join(location.key, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {engine.store.name!r} ignores conditional writes, so a compaction could lose a job "
            "that publishes at the same moment; nothing was changed; use another store"
        )


async def _linked(engine: Engine, location: Location, total: Manifest, seen: Seen) -> bool:
    conditions = await conditions_of(engine.store, paths.join(location.key, MANIFESTS))
    return await manifests.link(engine.store, conditions, location.key, [total], seen)


async def _remove_leftovers(engine: Engine, location: Location, linked: Sequence[Manifest]) -> None:
    """Remove sums of compactions that died: of a job that has another one right above it in the chain.

    The pointer has passed that job and never returns to it, so its other sums will never be linked. Their
    names say which job they sum up. Only a tidy directory is at stake, so no trouble raises.
    """
    keep = {_stem_of_sums(one.previous): one.job_id for one in linked if one.previous is not None}
    directory = paths.prefix_of(paths.join(location.key, MANIFESTS))
    prefix = f"{directory}{COMPACT}-"
    with suppress(MagicError):
        async for info in engine.store.list(prefix):
            name = info.key.removeprefix(directory)
            job = name.partition("/")[0] if "/" in name else name.removesuffix(".json")
            stem, dash, _ = job.rpartition("-")
            if dash and keep.get(f"{stem}-", job) != job:
                await engine.store.delete([info.key])


def _stem_of_sums(job: str) -> str:
    """How the ids of all sums of a chain down from this job begin."""
    return f"{COMPACT}-{uuid5(NAMESPACE_URL, f'magicfs-compact:{job}')}-"


def _down(newest: str, known: Mapping[str, Manifest]) -> list[Manifest]:
    """The manifests from the newest one down to the last sum, that one included."""
    found: list[Manifest] = []
    job: str | None = newest
    # It may end in a manifest that is gone, and that a full replace had hidden.
    while job is not None and job in known:
        found.append(known[job])
        job = None if known[job].mode == COMPACT else known[job].previous
    return found
