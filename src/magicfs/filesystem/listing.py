"""The tree below magic paths: the store itself, never a cached listing, and what this process remembers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from magicfs.errors import FormatError, ObjectNotFound
from magicfs.filesystem.tracking import MARKER_LENGTH, identity_of, marker_length, name_in, tracker
from magicfs.formats.limits import PENDING_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.protocol import paths
from magicfs.protocol.final_names import final_key
from magicfs.protocol.magic import PENDING, MagicPath
from magicfs.runtime.parallel import drained
from magicfs.stores.port import ObjectInfo, Store

PENDING_FLAG = "magic_pending"
"""In ``info``: True for a marker, whose size is that of its upload."""

Remembered = Mapping[str, Pending]
"""Files at a path and below it that only this process knows, by path: with ``tracking="memory"`` they are
recorded nowhere else."""

_ABORTS_AT_ONCE = 32


async def info(store: Store, path: MagicPath, remembered: Remembered) -> dict[str, Any]:
    """Describe a magic path in one HEAD, or one LIST more for a directory; else ObjectNotFound. On a store
    without metadata a marker takes one GET more.

    A marker has the size of its upload. What this process remembers is described without a request.
    """
    if (pending := remembered.get(path.path)) is not None:
        return in_memory(path.path, pending)
    if remembered:
        return directory(path.path)
    try:
        head = await store.head(path.key)
    except ObjectNotFound:
        if await is_directory(store, path, remembered):
            return directory(path.path)
        raise
    entry = file(store.bucket, head)
    length = await _length_of_marker(store, path, head) if head.size == 0 else None
    if length is not None:
        entry |= {"size": length, PENDING_FLAG: True}
    return entry


async def _length_of_marker(store: Store, path: MagicPath, head: ObjectInfo) -> int | None:
    """The size of the upload behind a marker, which bears it, or whose record beside it tells it."""
    if store.capabilities.metadata:
        return marker_length(head.metadata.get(MARKER_LENGTH))
    try:
        return (await read_pending(store, path)).length
    except (ObjectNotFound, FormatError):
        return None


async def is_directory(store: Store, path: MagicPath, remembered: Remembered) -> bool:
    """Whether something lies below: at most one LIST of one entry."""
    if remembered.keys() - {path.path}:
        return True
    async for _ in store.list(paths.prefix_of(path.key), limit=1):
        return True
    return False


async def children(store: Store, path: MagicPath, remembered: Remembered) -> list[dict[str, Any]]:
    """The entries of a directory, markers with size 0; no HEAD. ObjectNotFound if nothing is there."""
    prefix = f"{path.path}/"
    entries: dict[str, dict[str, Any]] = {}
    for full, entry in (await _files(store, path, remembered)).items():
        name, slash, _ = full[len(prefix) :].partition("/")
        entries.setdefault(name + slash, directory(prefix + name) if slash else entry)
    return list(entries.values()) or [await _itself(store, path, remembered)]


async def descendants(
    store: Store,
    path: MagicPath,
    remembered: Remembered,
    *,
    maxdepth: int | None = None,
    withdirs: bool = False,
    prefix: str = "",
) -> dict[str, dict[str, Any]]:
    """Everything under a directory, itself included with ``withdirs``, by path; markers have size 0.

    ``prefix``: how the paths go on after the directory, as in s3fs. One LIST a page and no HEAD, unless
    nothing lies under the path: then it may be a file itself.
    """
    root, found = path.path, dict[str, dict[str, Any]]()
    files = await _files(store, path, remembered, prefix)
    if withdirs and files:
        found[root] = directory(root)
    for full, entry in files.items():
        parents = full[len(root) + 1 :].split("/")[:-1]
        for depth, _ in enumerate(parents[:maxdepth] if withdirs else (), start=1):
            name = "/".join((root, *parents[:depth]))
            found[name] = directory(name)
        if maxdepth is None or len(parents) < maxdepth:
            found[full] = entry
    if files or prefix:
        return found
    try:
        return {root: await _itself(store, path, remembered)}
    except ObjectNotFound:
        return {}


async def _files(
    store: Store, path: MagicPath, remembered: Remembered, prefix: str = ""
) -> dict[str, dict[str, Any]]:
    """The files below a directory, by path. Records of uploads are ours and no files: nobody wrote them."""
    start = paths.prefix_of(path.key) + prefix
    found = {
        f"{store.bucket}/{one.key}": file(store.bucket, one)
        async for one in store.list(start)
        if not one.key.endswith(PENDING)
    }
    found |= {
        name: in_memory(name, pending)
        for name, pending in remembered.items()
        if name.startswith(f"{store.bucket}/{start}")
    }
    return {name: found[name] for name in sorted(found)}


async def _itself(store: Store, path: MagicPath, remembered: Remembered) -> dict[str, Any]:
    if (pending := remembered.get(path.path)) is not None:
        return in_memory(path.path, pending)
    return file(store.bucket, await store.head(path.key))


def in_memory(path: str, pending: Pending) -> dict[str, Any]:
    """Describe a file that only this process knows, as Hadoop's in-memory tracking does."""
    modified = dt.datetime.fromtimestamp(pending.created_ms / 1000, dt.UTC)
    entry = {"name": path, "size": pending.length, "type": "file", "LastModified": modified}
    if pending.body is not None:  # in hand, so it is a file like others
        return entry | {"ETag": f'"{pending.body.sha256}"'}
    return entry | {"ETag": "pending", PENDING_FLAG: True}


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


async def read_pending(store: Store, path: MagicPath) -> Pending:
    """What the ``.pending`` file of a magic path says: one GET.

    Raises ObjectNotFound if there is no such file, and FormatError if it is malformed or inconsistent or
    names a place outside its own destination.
    """
    where = f"{store.bucket}/{path.pending_key}"
    raw = await store.get(path.pending_key, size_max=PENDING_SIZE_LIMIT + 1)
    pending = Pending.from_bytes(where, raw)
    means = {final_key(path, unique_names=unique) for unique in ({False, path.owner is not None})}
    if pending.bucket != store.bucket or pending.destination_key not in means:
        raise FormatError(
            where,
            "destinationKey",
            f"is {pending.bucket}/{pending.destination_key}, and the path means {path.final_key}; nothing "
            "was changed; the record was moved, copied or forged",
        )
    return pending


async def abort_recorded(store: Store, path: MagicPath) -> None:
    """Abort the upload that the ``.pending`` file of a path describes; raises as ``read_pending`` does."""
    pending = await read_pending(store, path)
    await store.abort_upload(pending.destination_key, pending.upload_id)
    tracker().withdraw(name_in(store, path.scope), path.path, pending.upload_id)


async def abort_remembered(store: Store, path: MagicPath, pending: Pending) -> None:
    """Forget a file that only this process knows, and abort its upload, if it has one."""
    # Forgotten first: the task must not commit an upload that may be gone.
    tracker().withdraw(name_in(store, path.scope), path.path, identity_of(pending))
    if pending.body is None:
        await store.abort_upload(pending.destination_key, pending.upload_id)


async def remove_tree(store: Store, path: MagicPath, remembered: Remembered) -> list[str]:
    """Abort every upload that is pending under a magic directory, then delete everything in it.

    Returns the paths of the files that are gone.
    """
    keys = [found.key async for found in store.list(paths.prefix_of(path.key))]
    in_memory_only = {name: one for name, one in remembered.items() if name != path.path}

    async def forget(name: str) -> bool:
        await abort_remembered(store, path.below(name.partition("/")[2]), in_memory_only[name])
        return True

    async def abort(key: str) -> bool:
        await abort_recorded(store, path.below(key.removesuffix(PENDING)))
        return True

    await drained(in_memory_only, forget, _ABORTS_AT_ONCE)
    await drained([key for key in keys if key.endswith(PENDING)], abort, _ABORTS_AT_ONCE)
    page = store.capabilities.bulk_delete_max
    for start in range(0, len(keys), page):
        await store.delete(keys[start : start + page])
    files = {f"{store.bucket}/{key}" for key in keys if not key.endswith(PENDING)}
    return sorted(files | in_memory_only.keys())
