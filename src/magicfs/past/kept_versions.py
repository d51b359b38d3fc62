"""Versions of replaced files whose time is over, and the markers above them.

A version that is deleted does not come back, and no condition guards it: the caller has marked it in the
pointer before. Markers go after the versions, and only where nothing is left below them, or what they hide
would be seen again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import cast

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, PermissionDenied
from magicfs.formats.deletions import OldObject
from magicfs.protocol import paths
from magicfs.protocol.replacement import partitions_of
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store, VersionStore
from magicfs.stores.retrying import checked_again


async def delete(engine: Engine, objects: Sequence[OldObject], check: Callable[[], Awaitable[None]]) -> None:
    """Delete the versions of those objects that are kept as such. A second call does nothing.

    ``check`` is awaited before each request, and stops the deletion by raising.
    """
    await _delete(engine, [(one.key, one.version) for one in objects if one.version], check)


async def delete_markers(engine: Engine, destination: str, kept: Sequence[OldObject]) -> None:
    """Delete the markers above kept versions that are gone. A second call does nothing.

    Who may not list versions leaves them to a rule of the bucket for expired markers.
    """
    keys = {one.key for one in kept if one.version}
    if not keys:
        return
    directories = partitions_of(paths.relative_to(key, destination) for key in keys)
    places = [destination] if directories is None else [paths.join(destination, one) for one in directories]
    for place in places:
        try:
            markers = await _markers(engine, paths.prefix_of(place), keys)
        except PermissionDenied:
            return
        await _delete(engine, markers)


async def _markers(engine: Engine, prefix: str, keys: Collection[str]) -> list[tuple[str, str]]:
    """The markers of those keys of which nothing else is left."""
    markers: dict[str, list[str]] = {}
    held: set[str] = set()
    async for one in cast("VersionStore", engine.store).versions().list(prefix):
        if one.key not in keys:
            continue
        if one.is_marker:
            markers.setdefault(one.key, []).append(one.version)
        else:
            held.add(one.key)
    return [(key, version) for key, versions in markers.items() if key not in held for version in versions]


async def _delete(
    engine: Engine, versions: Sequence[tuple[str, str]], check: Callable[[], Awaitable[None]] | None = None
) -> None:
    if not versions:
        return
    store, size = cast("VersionStore", engine.store), engine.store.capabilities.bulk_delete_max
    batches = [versions[start : start + size] for start in range(0, len(versions), size)]

    async def delete(batch: Sequence[tuple[str, str]]) -> None:
        if check is not None:
            await check()
        with checked_again(check):
            await store.versions().delete(batch)

    await gathered(batches, delete, engine.concurrency)


async def has_version(store: Store, key: str, version: str) -> bool:
    """Whether a bucket still has a version of an object."""
    if not store.capabilities.versions:
        return False
    try:
        await cast("VersionStore", store).versions().head(key, version)
    except ObjectNotFound:
        return False
    return True
