"""A chain with a manifest that is gone or damaged: making it readable again from what is there.

One manifest is published that lists the dataset as it can still be told, and hides all before it, the lost
one included. So no reader asks for that any more. Nothing is deleted, and no other manifest is changed. A
pointer that is lost, too, is written again. If the log of
publications is broken it is made anew, too (``magicfs.datasets.log_repair``).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any
from uuid import uuid4

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.adopt import listed_files, refuse_unfinished
from magicfs.datasets.connection import on_destination
from magicfs.datasets.log_repair import repair_log
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, MagicError, ObjectNotFound, UsageError
from magicfs.formats import deletions
from magicfs.formats.deletions import DELETIONS_SIZE_LIMIT
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING, Seen
from magicfs.manifests.comparison import is_file
from magicfs.manifests.remains import KEPT_LIST, Remains, pointer_naming, put_pointer, remains_of
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.protocol.final_names import job_named
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import drained
from magicfs.stores import object_settings
from magicfs.stores.conditions import Conditions, conditions_of
from magicfs.stores.register import Register

__all__ = ["RepairReport", "repair", "repair_chain"]


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was repaired, and what is lost.

    Attributes:
        url: The destination.
        problem: What was wrong with the chain; empty if nothing was.
        lost: The job whose manifest is gone or damaged; None if none is, as far as can be told.
        newest: Where the pointer was lost, the job that was taken for the one that was published last; None
            where it was not, and where no manifest can be read.
        manifest: URL of the manifest that makes the dataset readable again; None if there was nothing to do,
            or with ``dry_run``.
        files: How many files the dataset has.
        bytes: Their size.
        recovered: Files of it that no readable manifest names: the lost job and those before it brought them.
        missing: Files that later manifests name and that are not there, or were written over.
        logged: How many publications the log has that was made anew; 0 if nothing was wrong with it.
    """

    url: str | PathLike[str]
    problem: str = ""
    lost: str | None = None
    newest: str | None = None
    manifest: str | None = None
    files: int = 0
    bytes: int = 0
    recovered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    logged: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def repair(
    url: str | PathLike[str],
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> RepairReport:
    """Make a dataset readable again whose chain of manifests is broken: one is gone, malformed or altered,
    or the pointer to the newest is, or both.

    The same for the log of publications, from which run ids and the history are read: it is made anew.

    What the manifests above the lost one say counts. Of the other visible files all belong to the dataset
    that no manifest has replaced and none keeps. Look at ``recovered`` before you rely on it: files of other
    writers are among them, if there are any. Where the pointer is lost, look at ``newest``, too: whether
    later jobs were published shows only if something of theirs is there. Run it while nobody writes there.
    If the manifest can be had from a backup, put that back instead. A second call finds nothing to do.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        dry_run: Change nothing; report what would be done.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: Nothing was published there, or neither pointer nor any manifest is left:
            ``magicfs.adopt`` makes a first one of the files.
        UsageError: A job is unfinished there; or the store ignores conditional writes. Nothing was changed.
        CommitDenied: A job was published meanwhile; nothing was changed.
        FormatError: A newer magicfs wrote the chain. Nothing was changed.
        StoreError: The store refused, or did not answer; readers see the dataset as before, or repaired.
    """
    return on_destination(repair_chain, url, storage_options, filesystem, dry_run=dry_run)


async def repair_chain(engine: Engine, location: Location, *, dry_run: bool = False) -> RepairReport:
    """``repair``, on the store's loop."""
    store, destination = engine.store, location.key
    if (left := await remains_of(store, destination)) is not None:
        return await _without_pointer(engine, location, left, dry_run=dry_run)
    seen = await chain.read_pointer(store, destination, READING)
    if seen is None:
        raise ObjectNotFound(
            "repair",
            f"{store.bucket}/{chain.pointer_key(destination)}",
            f"neither a pointer nor a manifest of {location.url} is there",
            hint="check the URL; if files are there, magicfs.adopt publishes a first manifest of them",
        )
    above, lost, problem = await _readable(engine, location, seen[0].job_id)
    if lost is None:
        problem, logged = await repair_log(engine, location, dry_run=dry_run)
        return RepairReport(location.url, problem, logged=logged)
    listed = await listed_files(store, location)
    await refuse_unfinished(engine, location)
    told = await _told(engine, location, above, listed)
    repaired = _repaired(engine, location, seen[0].job_id, above, told)
    if not dry_run:
        await _link(engine.told(repaired.object_settings), location, repaired, seen)
    logged = 0 if dry_run else (await repair_log(engine, location, dry_run=False))[1]
    return _report(location, problem, lost, repaired, told, dry_run=dry_run, logged=logged)


@dataclass(frozen=True, slots=True)
class _Told:
    """What a dataset has, as far as it can be told."""

    files: Mapping[str, ManifestFile]
    recovered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


async def _without_pointer(
    engine: Engine, location: Location, left: Remains, *, dry_run: bool
) -> RepairReport:
    """Write the pointer again; if a manifest is lost, too, to one that hides all before it."""
    listed = await listed_files(engine.store, location)
    await refuse_unfinished(engine, location)
    newest = left.newest
    above: list[Manifest] = []
    lost, problem = None, ""
    if newest is not None:
        above, lost, problem = await _readable(engine, location, newest)
    told = await _told(engine, location, above, listed, replaced_by=left.lost_on_top(()))
    on_top = left.lost_on_top(_named_by(told.recovered))
    problems = [left.problem, *([problem] if problem else [])]
    problems += [left.damaged.get(job, f"the manifest of job {job} is missing") for job in on_top]
    lost = lost or next(iter(on_top), None)
    if lost is None and newest is not None:
        if not dry_run:
            await _point_to(engine, location, left, left.manifests[newest])
        logged = 0 if dry_run else (await repair_log(engine, location, dry_run=False))[1]
        shown = [one.size for key, one in told.files.items() if key not in told.recovered]
        return RepairReport(
            location.url,
            left.problem,
            newest=newest,
            files=len(shown),
            bytes=sum(shown),
            missing=told.missing,
            logged=logged,
        )
    repaired = _repaired(engine, location, newest, above, told)
    if not dry_run:
        await _point_to(engine, location, left, repaired)
    logged = 0 if dry_run else (await repair_log(engine, location, dry_run=False))[1]
    report = _report(location, "; ".join(problems), lost, repaired, told, dry_run=dry_run, logged=logged)
    return replace(report, newest=newest)


def _named_by(keys: Collection[str]) -> set[str]:
    """The jobs that the names of files tell."""
    found = (job_named(key.rpartition("/")[2]) for key in keys)
    return {job for job in found if job is not None}


def _repaired(
    engine: Engine, location: Location, newest: str | None, above: list[Manifest], told: _Told
) -> Manifest:
    settings = dict(above[0].object_settings) if above else object_settings.of_store(engine.store)
    return Manifest(
        job_id=f"repaired-{uuid4()}",
        bucket=location.bucket,
        destination=location.key,
        conflict="repair",
        committed_ms=int(time.time() * 1000),
        previous=newest,
        hides="all",
        replaced=newest,
        files=tuple(told.files[key] for key in sorted(told.files)),
        object_settings=settings,
    )


def _report(
    location: Location,
    problem: str,
    lost: str | None,
    repaired: Manifest,
    told: _Told,
    *,
    dry_run: bool,
    logged: int,
) -> RepairReport:
    key = chain.manifest_key(location.key, repaired.job_id)
    return RepairReport(
        location.url,
        problem,
        lost,
        manifest=None if dry_run else Location(location.scheme, location.bucket, key).url,
        files=len(told.files),
        bytes=repaired.size,
        recovered=told.recovered,
        missing=told.missing,
        logged=logged,
    )


async def _readable(
    engine: Engine, location: Location, newest: str
) -> tuple[list[Manifest], str | None, str]:
    """The manifests above the lost one, the newest first, the lost one, and what is wrong with it."""
    above: list[Manifest] = []
    job: str | None = newest
    manifests = chain.chain(engine.store, location.key, READING, start=job, hidden="none")
    try:
        async for one in manifests:
            above.append(one)
            job = one.previous
            if one.conflict == chain.COMPACT and not any(other.replaced for other in above[:-1]):
                break  # it stands for all below
    except FormatError as error:
        if "newer magicfs" in error.problem:
            raise
        return above, job, str(error)
    return above, None, ""


async def _told(
    engine: Engine,
    location: Location,
    above: list[Manifest],
    listed: Mapping[str, ManifestFile],
    *,
    replaced_by: Collection[str] = (),
) -> _Told:
    """The files of the dataset; which of them no readable manifest names; and which are missing.

    ``replaced_by``: jobs that were published after those above, of which only lists of kept files are left.
    """
    shown: dict[str, ManifestFile] = {}
    hidden: set[str] = set()
    for one in above:
        for file in one.files:
            if file.key not in hidden:
                shown.setdefault(file.key, file)
        hidden.update(one.deleted)
    gone = await _kept(engine, location, replaced_by) if replaced_by else {}
    shown = {key: one for key, one in shown.items() if one.etag.strip('"') not in gone.get(key, ())}
    missing = await _missing(engine, location, shown, listed)
    kept = await _kept(engine, location)
    recovered = {
        key
        for key, file in listed.items()
        if key not in shown and key not in hidden and file.etag.strip('"') not in kept.get(key, ())
    }
    files = {key: file for key, file in shown.items() if key not in missing}
    files |= {key: listed[key] for key in recovered}
    return _Told(files, tuple(sorted(recovered)), tuple(sorted(missing)))


async def _missing(
    engine: Engine, location: Location, shown: Mapping[str, ManifestFile], listed: Mapping[str, ManifestFile]
) -> set[str]:
    missing: set[str] = set()

    async def look(file: ManifestFile) -> bool:
        try:
            info = await engine.store.head(paths.join(location.key, file.key))
        except ObjectNotFound:
            missing.add(file.key)
            return True
        if not is_file(info, file):
            missing.add(file.key)
        return True

    def is_listed(file: ManifestFile) -> bool:
        there = listed.get(file.key)
        return there is not None and (there.size, there.etag) == (file.size, file.etag)

    await drained([one for one in shown.values() if not is_listed(one)], look, engine.concurrency)
    return missing


async def _kept(
    engine: Engine, location: Location, jobs: Collection[str] | None = None
) -> dict[str, set[str]]:
    """ETags of what jobs keep, all or some, by relative keys: by the lists themselves, for the manifest may
    be the lost one.
    """
    store, found = engine.store, dict[str, set[str]]()
    prefix = paths.prefix_of(paths.join(location.key, MANIFESTS))
    lists = [
        one.key
        async for one in store.list(prefix)
        if (match := KEPT_LIST.fullmatch(one.key.removeprefix(prefix))) and (jobs is None or match[1] in jobs)
    ]

    async def look(key: str) -> bool:
        raw = await store.get(key, size_max=DELETIONS_SIZE_LIMIT + 1)
        path = f"{store.bucket}/{key}"
        for one in deletions.read_below(path, raw, location.key, location.key):
            if paths.is_under(one.key, location.key):
                relative = paths.relative_to(one.key, location.key)
                found.setdefault(relative, set()).add(one.etag.strip('"'))
        return True

    await drained(lists, look, engine.concurrency)
    return found


async def _link(engine: Engine, location: Location, repaired: Manifest, seen: Seen) -> None:
    conditions = await _conditions(engine, location)
    if not await chain.link(engine.store, conditions, location.key, repaired, seen):
        raise _published_meanwhile(location)


async def _point_to(engine: Engine, location: Location, left: Remains, manifest: Manifest) -> None:
    """Write the pointer again, to a manifest; one that is not there yet is written before."""
    engine = engine.told(manifest.object_settings)
    store, destination = engine.store, location.key
    conditions = await _conditions(engine, location)
    own, entry = (
        Register(store, chain.manifest_key(destination, manifest.job_id), conditions, lasting=True),
        None,
    )
    if manifest.job_id not in left.manifests:
        entry = await own.create(manifest.to_bytes())
    others = sorted(left.manifests.values(), key=lambda one: one.committed_ms, reverse=True)
    pointer = pointer_naming(manifest.job_id, others)
    if await put_pointer(store, destination, conditions, left.entry, pointer):
        return
    if entry is not None:
        with suppress(MagicError):  # nobody else names it
            await own.remove(entry)
    raise _published_meanwhile(location)


async def _conditions(engine: Engine, location: Location) -> Conditions:
    conditions = await conditions_of(engine.store, paths.join(location.key, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {engine.store.name!r} ignores conditional writes, so a repair could cut off a job "
            "that joins at the same moment; nothing was changed; use another store"
        )
    return conditions


def _published_meanwhile(location: Location) -> CommitDenied:
    return CommitDenied(
        f"a job was published to {location.url} meanwhile; nothing was repaired; call again when no job runs"
    )
