"""The files of a manifest that lists them in parts: written before it, read with it.

::

    DEST/_magicfs/<job>.json                       the manifest, which names its parts with their SHA-256
    DEST/_magicfs/<job>/<number>-<sha256>.json     a part

A part's name tells its content. So of several processes that publish one job, each may write its own: those
of a manifest are never written over by others.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import islice

from magicfs.errors import FormatError, ObjectNotFound
from magicfs.formats.fields import LONG_MAX
from magicfs.formats.gate import admit
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT
from magicfs.formats.manifest import FILES_IN_PART, FilesPart, Manifest, ManifestFile, ManifestFiles
from magicfs.formats.rows import Place
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.runtime.parallel import in_order
from magicfs.stores.port import Store

FILES_IN_MANIFEST = 50_000
"""Most files that a manifest lists itself."""

_AT_ONCE = 4
_NAMED_BY = 16


async def write(
    store: Store, destination: str, job: str, files: Iterable[ManifestFile]
) -> tuple[FilesPart, ...]:
    """Write the files of a job down, a part at a time. A second call writes the same again."""
    return await write_lists(store, destination, job, _parts(job, files))


async def write_lists(
    store: Store, destination: str, job: str, lists: Iterable[tuple[FilesPart, bytes]]
) -> tuple[FilesPart, ...]:
    """Write lists that the manifest of a job will name. A second call writes the same again."""

    async def put(one: tuple[FilesPart, bytes]) -> FilesPart:
        part, raw = one
        await store.put(key_of_part(destination, job, part), raw)
        return part

    async with aclosing(in_order(lists, put, _AT_ONCE)) as written:
        return tuple([part async for part in written])


async def read_lists(
    store: Store, destination: str, job: str, lists: Iterable[FilesPart], *, size_limit: int
) -> AsyncGenerator[tuple[str, bytes]]:
    """The path and the content of each list that the manifest of a job names, in order.

    Raises FormatError if one is gone or altered.
    """

    async def get(part: FilesPart) -> tuple[str, FilesPart, bytes]:
        key = key_of_part(destination, job, part)
        path = f"{store.bucket}/{key}"
        try:
            return path, part, await store.get(key, size_max=size_limit + 1)
        except ObjectNotFound as error:
            named = f"missing, although the manifest of job {job} names it"
            raise FormatError(path, "", f"{named}; restore it from a backup") from error

    async with aclosing(in_order(lists, get, _AT_ONCE)) as read:
        async for path, part, raw in read:
            if hashlib.sha256(raw).hexdigest() != part.sha256:
                problem = "was altered since it was written (its SHA-256 differs); restore it from a backup"
                raise FormatError(path, "", problem)
            yield path, raw


async def delete_others(store: Store, destination: str, manifest: Manifest) -> None:
    """Delete the parts that were written for a manifest that is not the one that stands.

    ``manifest`` stands: whoever publishes the job from now on keeps its parts. A process that died, or that
    was slower, has left others. A second call does nothing.
    """
    kept = manifest.kept.lists if manifest.kept else ()
    named_parts = (*manifest.parts, *kept, *(manifest.footers.lists if manifest.footers else ()))
    named = {key_of_part(destination, manifest.job_id, part) for part in named_parts}
    directory = paths.join(destination, MANIFESTS, manifest.job_id)
    others = [one.key async for one in store.list(paths.prefix_of(directory)) if one.key not in named]
    at_once = store.capabilities.bulk_delete_max
    for start in range(0, len(others), at_once):
        await store.delete(others[start : start + at_once])


def _parts(job: str, files: Iterable[ManifestFile]) -> Iterator[tuple[FilesPart, bytes]]:
    for number, group in enumerate(_grouped(files)):
        raw = ManifestFiles(job_id=job, files=group).to_bytes()
        yield named_part(number, raw, [one.size for one in group]), raw


def _grouped(files: Iterable[ManifestFile]) -> Iterator[tuple[ManifestFile, ...]]:
    source = iter(files)
    while group := tuple(islice(source, FILES_IN_PART)):
        yield group


async def with_files(store: Store, destination: str, manifest: Manifest) -> Manifest:
    """A manifest in parts, with the files that they list.

    Raises FormatError if a part is gone, malformed or altered.
    """
    files: list[ManifestFile] = []
    seen: set[str] = set()
    lists = read_lists(store, destination, manifest.job_id, manifest.parts, size_limit=MANIFEST_SIZE_LIMIT)
    async with aclosing(lists) as read:
        async for path, raw in read:
            place = Place(path, store.bucket, destination, manifest.job_id)
            listed = admit("manifest files", ManifestFiles.from_bytes(path, raw), place).files
            files += listed
            seen.update(one.key for one in listed)
    if len(seen) < len(files):
        path = f"{store.bucket}/{paths.join(destination, MANIFESTS, manifest.job_id)}"
        raise FormatError(path, "files", "two parts list the same file; restore them from a backup")
    return replace(manifest, files=tuple(files))


def named_part(number: int, raw: bytes, sizes: Sequence[int], prefix: str = "") -> FilesPart:
    """What a manifest says of a list: its name, which tells its content, and the files in it."""
    part = part_of(number, hashlib.sha256(raw).hexdigest(), prefix)
    return replace(part, files=len(sizes), size=min(sum(sizes), LONG_MAX))


def part_of(number: int, sha256: str, prefix: str = "") -> FilesPart:
    """A list of which only the SHA-256 is known, which its name holds."""
    name = f"{prefix}{number:05d}-{sha256[:_NAMED_BY]}.json"
    return FilesPart(name=name, sha256=sha256, files=0, size=0)


def key_of_part(destination: str, job: str, part: FilesPart) -> str:
    """Where a part lies, or another list that a job's manifest names."""
    return paths.join(destination, MANIFESTS, job, part.name)
