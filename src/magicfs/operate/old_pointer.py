"""Publications that the pointer no longer leads to, because somebody put an older copy of it back.

A job has its manifest before its pointer, and ends after it. So the manifest of a job that has ended, above
one of the chain and not in it, was published. Sums and what ``adopt`` writes have no job: on their own, they
may be left of a process that died.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import FormatError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain
from magicfs.manifests.chain import ADOPT, COMPACT, READING
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered
from magicfs.stores import object_settings
from magicfs.stores.conditions import conditions_of
from magicfs.stores.register import Register
from magicfs.transaction.others import find_unfinished_jobs

_OF_NO_JOB: Final = (ADOPT, COMPACT)
_SHOWN: Final = 3


async def unlinked(engine: Engine, location: Location) -> list[Manifest]:
    """The manifests of such publications, the oldest first; none where the chain itself is broken.

    One listing, the chain as far as readers see it, and a read for each manifest that is younger than those
    of the chain and not in it.

    Raises FormatError if a newer magicfs wrote one of those.
    """
    store, destination = engine.store, location.key
    written = await chain.jobs_with_manifests(store, destination)
    # Before the chain: a job that ends meanwhile is then in it.
    unfinished = {one.job_id for one in await find_unfinished_jobs(engine, destination, visitors=True)}
    linked = set[str]()
    try:
        shown = chain.chain(store, destination, READING, hidden="none", files=False)
        async with aclosing(shown) as below:
            async for one in below:
                linked.add(one.job_id)
                if one.mode == COMPACT:
                    break
    except FormatError:
        return []
    since = min((written[job] for job in linked & written.keys()), default=0.0)
    young = {job for job, moment in written.items() if moment >= since} - linked - unfinished
    read = partial(chain.readable, store, destination)
    return _of_jobs(_ordered(linked, await gathered(sorted(young), read, engine.concurrency)))


def problem_of(above: Sequence[Manifest]) -> str:
    """What is wrong, in words."""
    jobs = ", ".join(one.job_id + (f" (run {one.run_id})" if one.run_id else "") for one in above[:_SHOWN])
    more = f" and {len(above) - _SHOWN} more" if len(above) > _SHOWN else ""
    return f"the pointer is an older copy of itself: it does not lead to job {jobs}{more}"


def _ordered(linked: Collection[str], found: Collection[Manifest | None]) -> list[Manifest]:
    """Those that lead to the chain, each after the one below it."""
    order: list[Manifest] = []
    waiting = {one.job_id: one for one in found if one is not None}
    reached = {*linked}
    while ready := [one for one in waiting.values() if one.previous in reached]:
        order += sorted(ready, key=lambda one: (one.committed_ms, one.job_id))
        reached.update(one.job_id for one in ready)
        waiting = {job: one for job, one in waiting.items() if job not in reached}
    return order


def _of_jobs(order: Sequence[Manifest]) -> list[Manifest]:
    """Without those of no job that none of a job is above."""
    named, wanted = set[str | None](), list[Manifest]()
    for one in reversed(order):
        if one.mode not in _OF_NO_JOB or one.job_id in named:
            named.add(one.previous)
            wanted.append(one)
    return wanted[::-1]


def placed(
    one: Manifest, newest: str, there: Mapping[str, ManifestFile], again: str | None
) -> tuple[Manifest, str]:
    """A manifest above another newest job than it had below it, and what of it cannot be recovered; empty if
    all can. It must show nothing that those jobs have replaced.

    Args:
        one: The manifest, with its files.
        newest: The job that was published last.
        there: The files at the destination.
        again: The job that has published its run again since; None if none has.
    """
    above = replace(one, previous=newest)
    if again is not None:
        keys = tuple(file.key for file in one.files)
        hidden = replace(above, files=(), parts=(), hides="keys", replaced=None, deleted=keys)
        said = f"its run {one.run_id} was published again by job {again}"
        return hidden, f"the files of job {one.job_id}: {said}; no reader sees them; remove them"
    left = tuple(file for file in one.files if is_listed(there.get(file.key), file))
    if gone := len(one.files) - len(left):
        return replace(above, files=left, parts=()), f"{gone} files of job {one.job_id}, which are gone"
    return above, ""


def is_listed(found: ManifestFile | None, file: ManifestFile) -> bool:
    """Whether a listing shows a file of a manifest."""
    if found is None or found.size != file.size:
        return False
    return found.etag.strip('"') == file.etag.strip('"') or not file.etag


async def link(engine: Engine, location: Location, wanted: Manifest) -> Pointer:
    """Link a manifest, whose job has ended, above the newest job. A second call changes nothing.

    Raises PreconditionFailed if others change it meanwhile.
    """
    store = object_settings.store_as_recorded(engine.store, wanted.object_settings)
    conditions = await conditions_of(store, paths.join(location.key, MANIFESTS))
    own = Register(store, chain.manifest_key(location.key, wanted.job_id), conditions, lasting=True)
    entry = await own.read()
    if entry is not None and entry.body != wanted.to_bytes():
        await own.swap(entry, wanted.to_bytes())
    return await chain.publish(store, conditions, location.key, wanted)
