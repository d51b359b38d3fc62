"""Looking at magic paths: always at the store itself, never at a cached listing."""

from __future__ import annotations

import datetime as dt
from typing import Any

from magicfs.errors import FormatError, ObjectNotFound
from magicfs.filesystem.recording import MARKER_LENGTH, marker_length
from magicfs.formats.pending import PENDING_SIZE_LIMIT, Pending
from magicfs.protocol import paths
from magicfs.protocol.magic import PENDING, MagicPath
from magicfs.stores.port import ObjectInfo, Store

__all__ = [
    "PENDING_FLAG",
    "abort_pending",
    "children",
    "descendants",
    "in_memory",
    "info",
    "is_directory",
    "remove_tree",
]

PENDING_FLAG = "magic_pending"
"""In ``info``: True for a marker, whose size is that of its upload."""


async def info(store: Store, path: MagicPath) -> dict[str, Any]:
    """Describe a magic path in one HEAD, or one LIST more for a directory; else ObjectNotFound.

    A marker has the size of its upload.
    """
    try:
        head = await store.head(path.key)
    except ObjectNotFound:
        if await is_directory(store, path):
            return directory(path.path)
        raise
    entry = file(store.bucket, head)
    length = marker_length(head.metadata.get(MARKER_LENGTH)) if head.size == 0 else None
    if length is not None:
        entry |= {"size": length, PENDING_FLAG: True}
    return entry


async def is_directory(store: Store, path: MagicPath) -> bool:
    """Whether something lies below: one LIST of one entry."""
    async for _ in store.list(paths.prefix_of(path.key), limit=1):
        return True
    return False


async def children(store: Store, path: MagicPath) -> list[dict[str, Any]]:
    """The entries of a directory, markers with size 0; no HEAD. ObjectNotFound if nothing is there."""
    prefix = paths.prefix_of(path.key)
    entries: dict[str, dict[str, Any]] = {}
    async for found in store.list(prefix):
        name, slash, _ = found.key[len(prefix) :].partition("/")
        full = f"{store.bucket}/{prefix}{name}"
        entries.setdefault(full + slash, directory(full) if slash else file(store.bucket, found))
    return list(entries.values()) or [file(store.bucket, await store.head(path.key))]


async def descendants(
    store: Store, path: MagicPath, maxdepth: int | None, *, withdirs: bool
) -> dict[str, dict[str, Any]]:
    """Everything under a directory, itself included with ``withdirs``, by path; markers have size 0.

    One LIST a page and no HEAD, unless nothing lies under the path: then it may be a file itself.
    """
    prefix, root = paths.prefix_of(path.key), path.path.rstrip("/")
    found: dict[str, dict[str, Any]] = {}
    async for entry in store.list(prefix):
        if withdirs:
            found[root] = directory(root)
        parents = entry.key[len(prefix) :].split("/")[:-1]
        for depth, _ in enumerate(parents[:maxdepth] if withdirs else (), start=1):
            name = "/".join((root, *parents[:depth]))
            found[name] = directory(name)
        if maxdepth is None or len(parents) < maxdepth:
            found[f"{store.bucket}/{entry.key}"] = file(store.bucket, entry)
    if found or await is_directory(store, path):
        return found
    try:
        return {path.path: file(store.bucket, await store.head(path.key))}
    except ObjectNotFound:
        return {}


def in_memory(path: MagicPath, pending: Pending) -> dict[str, Any]:
    """Describe a file that only this process knows, as Hadoop's in-memory tracking does."""
    modified = dt.datetime.fromtimestamp(pending.created_ms / 1000, dt.UTC)
    return {
        "name": path.path,
        "size": pending.length,
        "type": "file",
        "ETag": "pending",
        "LastModified": modified,
        PENDING_FLAG: True,
    }


def directory(path: str) -> dict[str, Any]:
    """An entry for a directory."""
    return {"name": path, "size": 0, "type": "directory"}


def file(bucket: str, found: ObjectInfo) -> dict[str, Any]:
    """An entry for an object."""
    entry: dict[str, Any] = {
        "name": f"{bucket}/{found.key}",
        "size": found.size,
        "type": "file",
        "ETag": found.etag,
    }
    if found.modified is not None:
        entry["LastModified"] = dt.datetime.fromtimestamp(found.modified, dt.UTC)
    return entry


async def abort_pending(store: Store, path: MagicPath, pending_key: str) -> Pending:
    """Abort the upload that a ``.pending`` file under a magic path describes.

    Raises ObjectNotFound if there is no such file, and FormatError if it is malformed or inconsistent or
    names a place outside its own destination.
    """
    where = f"{store.bucket}/{pending_key}"
    raw = await store.get(pending_key, size_max=PENDING_SIZE_LIMIT + 1)
    pending = Pending.from_bytes(where, raw)
    destination = path.below(pending_key).destination
    if pending.bucket != store.bucket or (
        destination and not paths.is_under(pending.destination_key, destination)
    ):
        raise FormatError(
            where,
            "destinationKey",
            f"{pending.bucket}/{pending.destination_key} lies outside {destination!r}",
        )
    await store.abort_upload(pending.destination_key, pending.upload_id)
    return pending


async def remove_tree(store: Store, path: MagicPath) -> None:
    """Abort every upload that is pending under a magic directory, then delete everything in it."""
    keys = [found.key async for found in store.list(paths.prefix_of(path.key))]
    for key in keys:
        if key.endswith(PENDING):
            await abort_pending(store, path, key)
    page = store.capabilities.bulk_delete_max
    for start in range(0, len(keys), page):
        await store.delete(keys[start : start + page])
