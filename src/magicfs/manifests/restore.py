"""The pointer, made again from the manifests, if somebody removed or overwrote it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from magicfs.errors import FormatError, UsageError
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain
from magicfs.manifests.kept import kept_of
from magicfs.manifests.remains import (
    KEPT_LIST,
    announced_by_success,
    lost_on_top,
    pointer_naming,
    read_all,
)
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS, is_data
from magicfs.protocol.final_names import job_named
from magicfs.stores import object_settings
from magicfs.stores.conditions import conditions_of
from magicfs.stores.port import Store
from magicfs.stores.register import Register

__all__ = ["newest_of", "restore_pointer"]


async def restore_pointer(store: Store, destination: str, unfinished: Collection[str]) -> bool:
    """Write the pointer if there is none or it is malformed, and there are manifests; False if nothing was to
    be done.

    ``unfinished`` are jobs that have not ended: they join the chain by themselves.

    Raises FormatError if a newer magicfs wrote the pointer, or a manifest is malformed; UsageError if the
    manifests do not tell which is the newest, or that one is lost, too. Nothing was changed.
    """
    key = chain.pointer_key(destination)
    entry = await Register(store, key, chain.READING, lasting=True).read()
    if entry is not None:
        try:
            chain.pointer_of(store, destination, entry)
        except FormatError as error:
            if "newer magicfs" in error.problem:
                raise
        else:
            return False
    manifests = await read_all(store, destination)
    heads = newest_of(manifests, unfinished)
    if not heads and entry is None:
        return False
    if len(heads) != 1:
        found = ", ".join(heads) or "none"
        raise UsageError(
            f"{store.bucket}/{key} is gone or malformed, and the manifests beside it do not tell which one "
            f"is the newest (found: {found}); nothing was changed; restore it from a backup, or run magicfs "
            "repair, which tells what is lost"
        )
    if lost := await _lost_above(store, destination, manifests, unfinished):
        raise UsageError(
            f"{store.bucket}/{key} is gone or malformed, and so is the manifest of job {lost[0]}, which was "
            "published after the newest that is left, as its files, lists or _SUCCESS show; nothing was "
            "changed; restore both from a backup, or run magicfs repair, which tells what is lost"
        )
    below = chain.chain(store, destination, chain.READING, start=heads[0], hidden="readable", files=False)
    pointer = pointer_naming(heads[0], [one async for one in below])
    store = object_settings.store_as_recorded(store, manifests[heads[0]].object_settings)
    conditions = await conditions_of(store, paths.join(destination, MANIFESTS))
    head = Register(store, key, conditions, lasting=True)
    await (head.create(pointer.to_bytes()) if entry is None else head.swap(entry, pointer.to_bytes()))
    return True


async def _lost_above(
    store: Store, destination: str, manifests: Mapping[str, Manifest], unfinished: Collection[str]
) -> list[str]:
    """Jobs that have left something, no manifest, and of which no manifest tells that they came before it."""
    known: set[str] = set()
    for one in manifests.values():
        known.update(file.key for file in one.files)
        known.update(one.deleted)
        known.update(
            paths.relative_to(old.key, destination) for old in await kept_of(store, destination, one)
        )
    jobs = {await announced_by_success(store, destination)}
    directory = paths.prefix_of(paths.join(destination, MANIFESTS))
    async for info in store.list(paths.prefix_of(destination)):
        if (kept := KEPT_LIST.fullmatch(info.key.removeprefix(directory))) is not None:
            jobs.add(kept[1])
        elif is_data(info.key, destination) and paths.relative_to(info.key, destination) not in known:
            jobs.add(job_named(info.key.rpartition("/")[2]))
    return lost_on_top(manifests, {one for one in jobs if one is not None and one not in unfinished})


def newest_of(manifests: Mapping[str, Manifest], unfinished: Collection[str]) -> list[str]:
    """The jobs above which no other one was published. Sums count for the job below them, for they show the
    same.
    """

    def below(manifest: Manifest) -> str | None:
        job, met = manifest.previous, set[str]()
        while job is not None and job not in met and job in manifests:
            if manifests[job].conflict != chain.COMPACT:
                break
            met.add(job)
            job = manifests[job].previous
        return job

    jobs = {job: one for job, one in manifests.items() if one.conflict != chain.COMPACT}
    while True:
        named = {below(one) for one in jobs.values()}
        heads = sorted(job for job in jobs if job not in named)
        if not (waiting := set(heads).intersection(unfinished)):
            return heads
        jobs = {job: one for job, one in jobs.items() if job not in waiting}
