"""Jobs of Hadoop's S3A magic committer at a destination, and what state they are in.

A job is one of Hadoop's if there are names among its work that only Hadoop gives, no job object, and nothing
that only we write. Both layouts are looked for: ``__magic_job-<id>/job-<id>`` and, as before Hadoop 3.4,
``__magic/job-<id>``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, get_args

from magicfs.datasets.connection import was_published
from magicfs.engine import Engine
from magicfs.errors import FormatError, MagicError, ObjectNotFound
from magicfs.formats.limits import PENDINGSET_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.hadoop.fates import Fates, OpenUploads, fates_of, open_uploads
from magicfs.hadoop.job import HadoopJob, context_begun, marker_of
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.other_datasets import layout_of
from magicfs.protocol.paths import Location
from magicfs.report import ForeignJob
from magicfs.runtime.parallel import drained
from magicfs.stores.port import ObjectInfo
from magicfs.stores.register import found_at
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import TaskOutput, read_pending
from magicfs.transaction.others import unfinished_among
from magicfs.transaction.output import JobOutput

BEGUN_BY: Final = "hadoop-magic"
# <NN>/<task>.pendingset, and <NN>/tasks/<attempt>/...; our own attempts begin with "attempt-".
_SET: Final = re.compile(r"(?P<attempt>[0-9]{2,4})/[^/]+\.pendingset")
_ATTEMPT: Final = re.compile(r"(?P<attempt>[0-9]{2,4})/")
_OURS: Final = re.compile(r"facts/|[0-9]{2,4}/(sets/|tasks/attempt-)")


async def find_all(engine: Engine, location: Location) -> list[HadoopJob]:
    """Every job of Hadoop's magic committer at a destination."""
    prefix, places = paths.prefix_of(location.key), list[str]()
    listed = [one async for one in engine.store.list_directories(prefix + MAGIC)]
    await unfinished_among(engine, location.key, listed, visitors=False, gone=places)
    found, there = list[HadoopJob](), None
    for place in sorted(places):
        magic, _, job = place.removeprefix(prefix).rstrip("/").partition("/")
        layout = layout_of(location.key, magic, job)
        work = None if layout is None else await _work_of(engine, layout)
        if layout is not None and work and not await was_published(engine, location, layout.job):
            there = there or await open_uploads(engine, location.key)
            one = await _examined(engine, location, layout, work, there)
            found += [] if await _is_over(engine, one) else [one]
    return found


async def find_one(engine: Engine, location: Location, job: JobId) -> HadoopJob | None:
    """A job of Hadoop's magic committer; None if nothing of it is there, or it is ours, or published."""
    for name in get_args(LayoutName):
        layout = WorkLayout(location.key, job, 0, name)
        work = await _work_of(engine, layout)
        if work and not await was_published(engine, location, job):
            there = await open_uploads(engine, location.key)
            return await _examined(engine, location, layout, work, there)
    return None


async def _is_over(engine: Engine, job: HadoopJob) -> bool:
    """Whether its driver has ended it and left its work, as ``magic.cleanup.enabled=false`` asks it to."""
    if not job.fates.published or len(job.fates.published) < job.fates.total or job.report.uploads:
        return False
    success = await found_at(engine.store, paths.join(job.context.layout.destination, "_SUCCESS"))
    return success is not None and (success.modified or 0.0) >= job.modified


async def _work_of(engine: Engine, layout: WorkLayout) -> list[ObjectInfo]:
    """All objects of a job's work if Hadoop began it; else none."""
    marker = marker_of(layout)
    whole = layout.job_directory if marker is None else layout.magic_directory
    listed = [info async for info in engine.store.list(paths.prefix_of(whole))]
    names = [one.key.removeprefix(f"{layout.job_directory}/") for one in listed]
    if any(map(layout.is_job_object, (one.key for one in listed))) or any(map(_OURS.match, names)):
        return []
    known = any(layout.is_hadoops(one.key) or one.key == marker for one in listed)
    return listed if known or any(map(_SET.fullmatch, names)) else []


async def _examined(
    engine: Engine, location: Location, layout: WorkLayout, work: Sequence[ObjectInfo], there: OpenUploads
) -> HadoopJob:
    names = [one.key[len(layout.job_directory) + 1 :] for one in work]
    attempts = [int(match["attempt"]) for match in map(_ATTEMPT.match, names) if match]
    layout = replace(layout, attempt=max(attempts, default=0))
    context = context_begun(location, layout, BEGUN_BY, "magic")
    output, problem = JobOutput(), ""
    try:
        output = await job_output.load_listed(engine, context)
    except MagicError as error:
        problem = str(error)
    keys = [one.key for one in work]
    fates = await fates_of_sets(engine, layout, keys, there)
    files = TaskOutput()
    await read_pending(engine, keys, engine.store.bucket, ("",), files)
    ids = {one.upload_id for one in [*files.pendings, *await _in_sets(engine, layout, keys)]}
    seen = ForeignJob("magic", uploads=len(ids & there.ids), problem=problem)
    modified = max(one.modified or 0.0 for one in work)
    return HadoopJob.of(engine, context, seen, output, fates, modified)


async def fates_of_sets(engine: Engine, layout: WorkLayout, keys: Sequence[str], there: OpenUploads) -> Fates:
    """What became of the files that sets name where Hadoop's job commit looks for them.

    Of earlier job attempts only what they have published counts.
    """
    newest = [key for key in keys if key.startswith(paths.prefix_of(layout.attempt_directory))]
    fates = await fates_of(engine, await _in_sets(engine, layout, newest), there)
    earlier = sorted(set(keys).difference(newest))
    before = await fates_of(engine, await _in_sets(engine, layout, earlier), there)
    fates.published = sorted({*fates.published, *before.published})
    fates.doubtful = sorted({*fates.doubtful, *before.doubtful})
    return fates


async def _in_sets(engine: Engine, layout: WorkLayout, keys: Sequence[str]) -> list[Pending]:
    """The uploads that those keys name that are sets for Hadoop's job commit; a malformed one names none."""
    found: list[Pending] = []

    async def read(key: str) -> bool:
        with suppress(FormatError, ObjectNotFound):
            raw = await engine.store.get(key, size_max=PENDINGSET_SIZE_LIMIT + 1)
            found.extend(PendingSet.from_bytes(f"{engine.store.bucket}/{key}", raw).commits)
        return True

    await drained([key for key in keys if is_set(layout, key)], read, engine.concurrency)
    inside = paths.prefix_of(layout.destination)
    return [
        one for one in found if one.bucket == engine.store.bucket and one.destination_key.startswith(inside)
    ]


def is_set(layout: WorkLayout, key: str) -> bool:
    """Whether a key is a pending set where Hadoop's job commit looks for it."""
    return _SET.fullmatch(key[len(layout.job_directory) + 1 :]) is not None
