"""A chain with a manifest that is gone or damaged: making it readable again from what is there.

One manifest is published that lists the dataset as it can still be told, and hides all before it, the lost
one included. So no reader asks for that any more. Nothing is deleted, and no other manifest is changed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Final
from uuid import uuid4

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.adopt import listed_files, refuse_unfinished
from magicfs.datasets.connection import on_destination
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound, UsageError
from magicfs.formats import deletions
from magicfs.formats.deletions import DELETIONS_SIZE_LIMIT
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING, Seen
from magicfs.manifests.comparison import is_file
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.stores import object_settings
from magicfs.stores.conditions import conditions_of

__all__ = ["RepairReport", "repair", "repair_chain"]

_KEPT: Final = re.compile(r"[^/]+/kept-[0-9]{5,}-[0-9a-f]{16}\.json")


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was repaired, and what is lost.

    Attributes:
        url: The destination.
        problem: What was wrong with the chain; empty if nothing was.
        lost: The job whose manifest is gone or damaged; None if none is.
        manifest: URL of the manifest that makes the dataset readable again; None if there was nothing to do,
            or with ``dry_run``.
        files: How many files the dataset has.
        bytes: Their size.
        recovered: Files of it that no readable manifest names: the lost job and those before it brought them.
        missing: Files that later manifests name and that are not there, or were written over.
    """

    url: str | PathLike[str]
    problem: str = ""
    lost: str | None = None
    manifest: str | None = None
    files: int = 0
    bytes: int = 0
    recovered: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

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
    """Make a dataset readable again whose chain of manifests is broken: one is gone, malformed or altered.

    What the manifests above the lost one say counts. Of the other visible files all belong to the dataset
    that no manifest has replaced and none keeps. Look at ``recovered`` before you rely on it: files of other
    writers are among them, if there are any. Run it while nobody writes there. If the manifest can be had
    from a backup, put that back instead. A second call finds nothing to do.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        dry_run: Change nothing; report what would be done.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: Nothing was published there, or the pointer is gone: ``magicfs.adopt`` makes it again.
        UsageError: A job is unfinished there; or the store ignores conditional writes. Nothing was changed.
        CommitDenied: A job was published meanwhile; nothing was changed.
        FormatError: The pointer is malformed, or a newer magicfs wrote the chain. Nothing was changed.
        StoreError: The store refused, or did not answer; readers see the dataset as before, or repaired.
    """
    return on_destination(repair_chain, url, storage_options, filesystem, dry_run=dry_run)


async def repair_chain(engine: Engine, location: Location, *, dry_run: bool = False) -> RepairReport:
    """``repair``, on the store's loop."""
    store, destination = engine.store, location.key
    seen = await chain.read_pointer(store, destination, READING)
    if seen is None:
        raise ObjectNotFound(
            "repair",
            f"{store.bucket}/{chain.pointer_key(destination)}",
            f"no pointer to the manifests of {location.url} is there",
            hint="check the URL; magicfs.adopt makes the pointer again from the manifests",
        )
    above, lost, problem = await _readable(engine, location, seen)
    if lost is None:
        return RepairReport(location.url)
    listed = await listed_files(store, location)
    await refuse_unfinished(engine, location)
    files, recovered, missing = await _told(engine, location, above, listed)
    told = dict(above[0].object_settings) if above else object_settings.of_store(store)
    repaired = Manifest(
        job_id=f"repaired-{uuid4()}",
        bucket=location.bucket,
        destination=destination,
        conflict="repair",
        committed_ms=int(time.time() * 1000),
        previous=seen[0].job_id,
        hides="all",
        replaced=seen[0].job_id,
        files=tuple(files[key] for key in sorted(files)),
        object_settings=told,
    )
    manifest = None
    if not dry_run:
        await _link(engine.told(told), location, repaired, seen)
        key = chain.manifest_key(destination, repaired.job_id)
        manifest = Location(location.scheme, location.bucket, key).url
    return RepairReport(
        location.url,
        problem,
        lost,
        manifest,
        files=len(files),
        bytes=repaired.size,
        recovered=tuple(sorted(recovered)),
        missing=tuple(sorted(missing)),
    )


async def _readable(engine: Engine, location: Location, seen: Seen) -> tuple[list[Manifest], str | None, str]:
    """The manifests above the lost one, the newest first, the lost one, and what is wrong with it."""
    above: list[Manifest] = []
    job: str | None = seen[0].job_id
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
    engine: Engine, location: Location, above: list[Manifest], listed: Mapping[str, ManifestFile]
) -> tuple[dict[str, ManifestFile], set[str], set[str]]:
    """The files of the dataset; which of them no readable manifest names; and which are missing."""
    shown: dict[str, ManifestFile] = {}
    hidden: set[str] = set()
    for one in above:
        for file in one.files:
            if file.key not in hidden:
                shown.setdefault(file.key, file)
        hidden.update(one.deleted)
    missing = await _missing(engine, location, shown, listed)
    kept = await _kept(engine, location)
    recovered = {
        key
        for key, file in listed.items()
        if key not in shown and key not in hidden and file.etag.strip('"') not in kept.get(key, ())
    }
    files = {key: file for key, file in shown.items() if key not in missing}
    return files | {key: listed[key] for key in recovered}, recovered, missing


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


async def _kept(engine: Engine, location: Location) -> dict[str, set[str]]:
    """ETags of what jobs keep, by relative keys: by the lists themselves, for the manifest may be the lost
    one.
    """
    store, found = engine.store, dict[str, set[str]]()
    prefix = paths.prefix_of(paths.join(location.key, MANIFESTS))
    lists = [one.key async for one in store.list(prefix) if _KEPT.fullmatch(one.key.removeprefix(prefix))]

    async def look(key: str) -> bool:
        raw = await store.get(key, size_max=DELETIONS_SIZE_LIMIT + 1)
        for one in deletions.read(f"{store.bucket}/{key}", raw):
            if paths.is_under(one.key, location.key):
                relative = paths.relative_to(one.key, location.key)
                found.setdefault(relative, set()).add(one.etag.strip('"'))
        return True

    await drained(lists, look, engine.concurrency)
    return found


async def _link(engine: Engine, location: Location, repaired: Manifest, seen: Seen) -> None:
    conditions = await conditions_of(engine.store, paths.join(location.key, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {engine.store.name!r} ignores conditional writes, so a repair could cut off a job "
            "that joins at the same moment; nothing was changed; use another store"
        )
    if not await chain.link(engine.store, conditions, location.key, repaired, seen):
        raise CommitDenied(
            f"a job was published to {location.url} meanwhile; nothing was repaired; call again when no job "
            "runs"
        )
