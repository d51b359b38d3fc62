"""The replaced files that jobs keep for a time: where they are, by their versions, or aside.

::

    DEST/_magicfs/<job>.json                           the manifest, which names the lists with their SHA-256
    DEST/_magicfs/<job>/kept-<number>-<sha256>.json    a list
    DEST/_magicfs/current.json                         the pointer, which names these jobs and their lists
    DEST/_magicfs/kept/<job>/<key>                     a file that the job has moved aside

The pointer names them as long as their files are there, so that a later job which replaces what a listing
shows knows what is none of its business, without walking the chain, and reads the lists at once. The keys in
the lists are relative to the destination, as those in manifests: so a dataset can be moved, copied, or
reached by another path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from typing import Final

from magicfs.errors import FormatError
from magicfs.formats import deletions
from magicfs.formats.deletions import CHUNK_LENGTH, OldObject
from magicfs.formats.gate import admit
from magicfs.formats.limits import DELETIONS_SIZE_LIMIT
from magicfs.formats.manifest import FilesPart, Manifest
from magicfs.formats.pointer import Keeping
from magicfs.formats.rows import Place
from magicfs.manifests import chain
from magicfs.manifests.comparison import Named
from magicfs.manifests.parts import named_part, part_of, read_lists, write_lists
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.runtime.parallel import gathered
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

_AT_ONCE: Final = 32
_PREFIX: Final = "kept-"
_ASIDE: Final = "kept"


def place_aside(destination: str, job: str, key: str) -> str:
    """Where a job moves a file that it replaces and keeps, by its key relative to the destination."""
    return f"{paths.join(destination, MANIFESTS, _ASIDE, job)}/{key}"


async def places_aside(
    store: Store, destination: str, conditions: Conditions, files: Mapping[str, Named]
) -> dict[str, str]:
    """Where those of some files lie that jobs have moved aside; all by keys relative to the destination."""
    seen = await chain.read_pointer(store, destination, conditions)
    lists = {} if seen is None else await kept_by(store, destination, conditions, seen[0].keeping)
    named = {(key, file.etag.strip('"')) for key, file in files.items()}
    return {
        identity(destination, one)[0]: paths.relative_to(one.key, destination)
        for objects in lists.values()
        for one in objects
        if one.aside and identity(destination, one) in named
    }


def identity(destination: str, kept: OldObject) -> tuple[str, str]:
    """The key that a file of ``kept_by`` had, relative to the destination, and its ETag, wherever it lies."""
    key = paths.relative_to(kept.key, destination)
    return key.split("/", 3)[3] if kept.aside else key, kept.etag.strip('"')


async def write(
    store: Store, destination: str, job: str, old: Sequence[OldObject], *, length: int = CHUNK_LENGTH
) -> tuple[FilesPart, ...]:
    """Write down what a job leaves where it is. A second call, from any process, writes the same again."""
    groups = [old[start : start + length] for start in range(0, len(old), length)]
    return await write_lists(store, destination, job, map(partial(_list, destination), count(), groups))


async def kept_of(store: Store, destination: str, manifest: Manifest) -> list[OldObject]:
    """What a job keeps of what it has replaced, with the keys that it had; empty if it kept nothing.

    Raises FormatError if a list is gone, malformed or altered, or names what lies elsewhere.
    """
    if manifest.kept is None:
        return []
    return await _listed(store, destination, manifest.job_id, manifest.kept.lists)


async def kept_by(
    store: Store, destination: str, conditions: Conditions, keeping: Iterable[Keeping]
) -> dict[str, list[OldObject]]:
    """What each of the jobs that the pointer names keeps, with the keys where it lies.

    Raises FormatError if a manifest or a list is gone, malformed or altered.
    """

    async def look(one: Keeping) -> list[OldObject]:
        job = one.job_id
        if one.lists:
            named = [part_of(number, sha256, _PREFIX) for number, sha256 in enumerate(one.lists)]
            with suppress(FormatError):  # then the manifest decides
                return await _listed(store, destination, job, named)
        manifest = await chain.read(store, destination, job, conditions, files=False, expected=True)
        if manifest is None:
            path = f"{store.bucket}/{chain.manifest_key(destination, job)}"
            raise FormatError(path, "", "missing, although the pointer names it; restore it from a backup")
        return await kept_of(store, destination, manifest)

    jobs = list(keeping)
    found = await gathered(jobs, look, _AT_ONCE)
    return {
        one.job_id: [_lying(destination, one.job_id, old) for old in objects]
        for one, objects in zip(jobs, found, strict=True)
    }


def _lying(destination: str, job: str, old: OldObject) -> OldObject:
    if not old.aside:
        return old
    return old._replace(key=place_aside(destination, job, paths.relative_to(old.key, destination)))


async def _listed(store: Store, destination: str, job: str, lists: Iterable[FilesPart]) -> list[OldObject]:
    found: list[OldObject] = []
    parts = read_lists(store, destination, job, lists, size_limit=DELETIONS_SIZE_LIMIT)
    async with aclosing(parts) as read:
        async for path, raw in read:
            # Which datasets below the job could replace is not known any more.
            place = Place(path, store.bucket, destination, also_overwrite=None)
            found += admit("deletions", deletions.read_below(path, raw, destination), place)
    return found


def _list(destination: str, number: int, group: Sequence[OldObject]) -> tuple[FilesPart, bytes]:
    raw = deletions.write(group, destination=destination)
    return named_part(number, raw, [one.size for one in group], _PREFIX), raw
