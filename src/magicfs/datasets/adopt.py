"""Files that are older than the first manifest: making them part of the dataset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from os import PathLike
from typing import Any
from uuid import uuid4

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import open_destination
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, PreconditionFailed, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import ADOPT, READING
from magicfs.manifests.kept import kept_of
from magicfs.manifests.restore import restore_pointer
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS, is_data, table_format_of
from magicfs.protocol.paths import Location
from magicfs.stores import object_settings
from magicfs.stores.conditions import conditions_of
from magicfs.stores.port import Store
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.own_table import is_kept_by_magicfs

__all__ = ["adopt", "adopt_files", "listed_files", "refuse_unfinished"]


def adopt(
    url: str | PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> Manifest | None:
    """Publish a manifest of the visible files that no manifest names, so that they belong to the dataset.

    For files that are older than the first job; run it while nobody writes there. A second call finds nothing
    to adopt. If the pointer to the newest manifest is gone or malformed it is made again from the manifests
    first, also where a job is unfinished, which ``recover`` can finish then.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Returns:
        The manifest; None if there was nothing to adopt.

    Raises:
        UsageError: A job is unfinished there, or a table format keeps the directory, or it cannot be told
            which files belong to the dataset.
        CommitDenied: A job was published meanwhile; nothing was changed.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    destination = open_destination(url, storage_options, filesystem, for_reading=True)
    return destination.run(adopt_files)


async def adopt_files(engine: Engine, location: Location) -> Manifest | None:
    """``adopt``, on the store's loop."""
    store, destination = engine.store, location.key
    before = await _mended_head(engine, destination)
    # Listed first: what a job published meanwhile is then known by its manifest.
    files = await listed_files(store, location)
    await refuse_unfinished(engine, location)
    last, told = None, dict[str, str]()
    async for manifest in chain.chain(store, destination, READING, hidden="readable"):
        # Hidden ones too: what a job has replaced must not come back.
        for key in (*(file.key for file in manifest.files), *manifest.deleted):
            files.pop(key, None)
        for one in await kept_of(store, destination, manifest) if files else ():
            files.pop(paths.relative_to(one.key, destination), None)
        # As the newest job was told, whose files they will lie beside.
        told = dict(manifest.object_settings) if last is None else told
        last = manifest
    if files and last is not None and last.previous is not None:
        raise UsageError(
            f"the manifest of job {last.previous} is gone, which may have named {len(files)} files of "
            f"{location.url}, such as {min(files)}, and a later job has replaced what it named; nothing was "
            "changed; remove those files, or publish them by a job"
        )
    found = await chain.view(store, destination, READING)
    if files:
        # A job that has ended since the first listing may have taken back or replaced what that has shown.
        there = await listed_files(store, location)
        files = {key: file for key, file in files.items() if there.get(key) == file}
    if not files and (found is None or not found.older_files):
        return None
    adopted = Manifest(
        job_id=f"adopted-{uuid4()}",
        bucket=location.bucket,
        destination=destination,
        conflict=ADOPT,
        committed_ms=int(time.time() * 1000),
        files=tuple(files[key] for key in sorted(files)),
        object_settings=told or object_settings.of_store(store),
    )
    store = object_settings.store_as_recorded(store, told)
    conditions = await conditions_of(store, paths.join(destination, MANIFESTS))
    seen = await chain.read_pointer(store, destination, READING)
    try:
        if (seen[0].nonce if seen else None) != before:
            raise PreconditionFailed("adopt", destination, "the pointer was moved")
        await chain.publish(store, conditions, destination, adopted, looked=(seen,), only_there=True)
    except PreconditionFailed as error:
        raise CommitDenied(
            f"a job was published to {location.url} meanwhile; nothing was adopted; call adopt again when no "
            "job runs"
        ) from error
    return await chain.read(store, destination, adopted.job_id, READING)


async def listed_files(store: Store, location: Location) -> dict[str, ManifestFile]:
    """All data at a destination, by relative keys. Raises UsageError for a table of another format."""
    files: dict[str, ManifestFile] = {}
    is_registered = False
    async for info in store.list(paths.prefix_of(location.key)):
        if (table := table_format_of(info.key, location.key)) is not None:
            is_registered = is_registered or await is_kept_by_magicfs(store, location.key, info.key)
            if is_registered:
                continue
            raise UsageError(
                f"{location.url} is a table of {table}, whose own log says which files it has; use that"
            )
        if is_data(info.key, location.key):
            key = paths.relative_to(info.key, location.key)
            files[key] = ManifestFile(key=key, size=info.size, etag=info.etag)
    return files


async def refuse_unfinished(engine: Engine, location: Location) -> None:
    """Raise UsageError if a job has not ended there."""
    found = await find_unfinished_jobs(engine, location.key)
    if found:
        raise UsageError(
            f"job {found[0].job_id} at {location.url} is unfinished, and its files may be among those to "
            f"adopt; wait for it, or run: magicfs recover {location.url}"
        )


async def _mended_head(engine: Engine, destination: str) -> str | None:
    try:
        head = await _head(engine.store, destination)
    except FormatError:
        head = None  # what cannot be mended is raised again
    if head is None:
        unfinished = [one.job_id for one in await find_unfinished_jobs(engine, destination)]
        if await restore_pointer(engine.store, destination, unfinished):
            head = await _head(engine.store, destination)
    return head


async def _head(store: Store, destination: str) -> str | None:
    seen = await chain.read_pointer(store, destination, READING)
    return seen[0].nonce if seen else None
