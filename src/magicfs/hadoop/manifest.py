"""Jobs of Hadoop's manifest committer, whose tasks leave files and manifests of renames below ``_temporary``.

A file that its driver has renamed is recognized by its empty place in the work directory, and by what is at
its destination: a rename keeps the ETag, and where a manifest names none, as Hadoop's do on local files, the
length has to do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from magicfs.datasets.connection import was_published
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, MagicError, UsageError
from magicfs.formats.pending import Pending
from magicfs.formats.plain_pending import Source
from magicfs.hadoop.fates import Fates
from magicfs.hadoop.job import HadoopJob, context_begun
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.protocol.temporary import TEMPORARY
from magicfs.protocol.winners import last_committed
from magicfs.report import ForeignJob
from magicfs.runtime.parallel import drained
from magicfs.stores.port import ObjectInfo
from magicfs.stores.register import found_at
from magicfs.stores.trees import tree_of
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import read_unfinished
from magicfs.transaction.output import JobOutput, Taking
from magicfs.transaction.spool import SetFiles, of_set
from magicfs.transaction.task_manifests import TaskManifests

BEGUN_BY: Final = "hadoop-manifest"
_NUMBER: Final = re.compile(r"[0-9]{2,4}")


@dataclass(slots=True)
class _Found:
    """What lies in the places of a job's files."""

    fates: Fates = field(default_factory=Fates)
    etags: dict[str, str] = field(default_factory=dict)  # of each file, by the key that it was written to


async def find_all(engine: Engine, location: Location) -> list[HadoopJob]:
    """Every job of Hadoop's manifest committer at a destination."""
    if engine.store.capabilities.rename == "copy":
        return []
    prefix = paths.prefix_of(paths.join(location.key, TEMPORARY))
    found = []
    for place in [one async for one in engine.store.list_directories(prefix)]:
        with suppress(UsageError):
            job = ids.job_id(place.removeprefix(prefix).rstrip("/"))
            if (one := await find_one(engine, location, job)) is not None:
                found.append(one)
    return found


async def find_one(engine: Engine, location: Location, job: JobId) -> HadoopJob | None:
    """A job of Hadoop's manifest committer; None if nothing of it is there, or it is ours, or published."""
    if engine.store.capabilities.rename == "copy":
        return None
    layout = WorkLayout(location.key, job)
    if await read_unfinished(engine, layout) is not None or await was_published(engine, location, job):
        return None
    context = context_begun(location, layout, BEGUN_BY, "manifest")
    directory = paths.prefix_of(context.temporary.job_directory)
    listed = engine.store.list_directories(directory)
    names = [one.removeprefix(directory).rstrip("/") async for one in listed]
    numbers = [int(name) for name in names if _NUMBER.fullmatch(name)]
    context = replace(context, layout=replace(layout, attempt=max(numbers, default=0)))
    # Only committers with manifests make that directory.
    if await tree_of(engine.store).look(context.temporary.manifests_directory) is None:
        return None
    return await examined(engine, context)


async def examined(engine: Engine, context: JobContext) -> HadoopJob:
    """What a job has come to. Nothing is changed."""
    sets, listed, problem = TaskManifests(engine, context), list[ObjectInfo](), ""
    prefix = paths.prefix_of(context.temporary.manifests_directory)
    listed = [info async for info in engine.store.list(prefix)]
    files, output = list[Pending](), JobOutput()
    try:
        chosen = [one.key for one in last_committed(await sets.listed())]
        files = await _files(sets, chosen)
        found = await _looked(engine, files)
        output = await _loaded(engine, context, sets, chosen, found.etags)
        await _refuse_obstacles(engine, sets)
    except MagicError as error:
        found, problem = await _looked(engine, files), str(error)
    fates = found.fates
    seen = ForeignJob("manifest", uploads=len(fates.open), problem=problem)
    modified = max((one.modified or 0.0 for one in listed), default=0.0)
    job = HadoopJob.of(engine, context, seen, output, fates, modified)
    return replace(job, look=partial(_again, engine, files))


async def _again(engine: Engine, files: Sequence[Pending]) -> Fates:
    return (await _looked(engine, files)).fates


async def _files(sets: TaskManifests, keys: Sequence[str]) -> list[Pending]:
    """The files that manifests name; a malformed one names none."""
    files: list[Pending] = []
    async with aclosing(sets.read_ahead(keys)) as read:
        async for name, raw in read:
            with suppress(FormatError):
                files.extend(sets.parsed(name, raw).commits)
    return files


async def _loaded(
    engine: Engine, context: JobContext, sets: TaskManifests, keys: Sequence[str], etags: dict[str, str]
) -> JobOutput:
    """What the tasks have committed, each file with the ETag that identifies it after its rename."""

    def read_set(name: str, raw: bytes) -> SetFiles:
        found = sets.parsed(name, raw)
        return of_set(replace(found, commits=tuple(_with_etag(one, etags) for one in found.commits)), name)

    taking = Taking(engine, context)
    async with aclosing(sets.read_ahead(keys)) as read:
        async for name, raw in read:
            taking.take(name, raw, read_set)
    return taking.finish()


def _with_etag(one: Pending, etags: dict[str, str]) -> Pending:
    assert one.source is not None
    return replace(one, source=Source(one.source.key, one.source.etag or etags.get(one.source.key, "")))


async def _looked(engine: Engine, files: Sequence[Pending]) -> _Found:
    found = _Found()
    fates = found.fates

    async def look(one: Pending) -> bool:
        assert one.source is not None
        waiting = await found_at(engine.store, one.source.key)
        if waiting is not None:
            found.etags[one.source.key] = waiting.etag
            fates.open.append(one.destination_key)
            return True
        there = await found_at(engine.store, one.destination_key)
        if there is None or there.size != one.length:
            fates.gone.append(one.destination_key)
        elif one.source.etag and one.source.etag != there.etag:
            fates.doubtful.append(one.destination_key)
        else:
            found.etags[one.source.key] = there.etag
            fates.published.append(one.destination_key)
        return True

    await drained(files, look, engine.concurrency)
    for keys in (fates.open, fates.published, fates.doubtful, fates.gone):
        keys.sort()
    return found


async def _refuse_obstacles(engine: Engine, sets: TaskManifests) -> None:
    """Raise CommitFailed if an old file is where the job needs a directory."""
    tree = tree_of(engine.store)
    for key in sorted(sets.obstacles):
        entry = await tree.look(key)
        if entry is not None and entry.kind == "file":
            raise CommitFailed(
                f"{key} already exists as a file, and the job has a directory of that name; nothing was "
                "published; move it away and commit again",
                failed=[key],
            )
