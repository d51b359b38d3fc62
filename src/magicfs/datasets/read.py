"""Exactly the published files, whatever else a listing shows: of one job, or of the dataset as it is now.

``magicfs.manifests.chain`` says what a chain of manifests shows. Nothing here trusts a cached listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from magicfs.engine import Engine
from magicfs.errors import MagicError, ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING, View
from magicfs.manifests.log import job_of_run
from magicfs.protocol import paths
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.transaction.others import find_unfinished_jobs, refuse_lost_pointer


async def read_manifest_of(engine: Engine, location: Location, job: str | None) -> Manifest:
    """What a job published, by its id or that of its run, by default the last one."""
    if job is None:
        job = await chain.newest_job(engine.store, location.key, READING)
        if job is None:
            raise await _nothing_published(engine, location)
    manifest = None
    with suppress(UsageError):  # it may be no job id
        manifest = await chain.read(engine.store, location.key, job, READING)
    run = None if manifest else await job_of_run(engine.store, location.key, READING, job)
    if run is not None:
        manifest = await chain.read(engine.store, location.key, run, READING)
    if manifest is None:
        raise ObjectNotFound(
            "read",
            f"{engine.store.bucket}/{chain.manifest_key(location.key, job)}",
            f"no job or run {job} was published to {location.url}",
            hint="check the id, or recover the job",
        )
    return manifest


async def files_of_dataset(
    engine: Engine, location: Location, last: bool, job: str | None = None
) -> Mapping[str, ManifestFile]:
    """The files by relative keys; see ``magicfs.Dataset.files``."""
    if last or job is not None:
        return {file.key: file for file in (await read_manifest_of(engine, location, job)).files}
    return shown_files(location, await current_view(engine, location))


def shown_files(location: Location, found: View) -> Mapping[str, ManifestFile]:
    """The files of a view by relative keys; raises UsageError if there are others, which it does not know."""
    if found.older_files:
        raise UsageError(_older_files(location, "existed before the first job was published"))
    return found.files


async def current_view(engine: Engine, location: Location) -> View:
    """What the chain of manifests shows now; raises if nothing was published."""
    found = await chain.view(engine.store, location.key, READING)
    if found is None:
        raise await _nothing_published(engine, location)
    return found


async def _nothing_published(engine: Engine, location: Location) -> UsageError | ObjectNotFound:
    jobs = await find_unfinished_jobs(engine, location.key)
    publishing = [one.job_id for one in jobs if one.job and one.job.state not in SHOWS_NOTHING]
    if publishing:
        return ObjectNotFound(
            "read",
            f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
            f"job {publishing[0]} is being published to {location.url}, and is the first one there",
            hint=f"wait for it, or if its driver is dead, run: magicfs recover {location.url}",
        )
    listed = engine.store.list(paths.prefix_of(location.key))
    first = await anext((one.key async for one in listed if is_data(one.key, location.key)), location.key)
    with suppress(MagicError):  # a refusal above, or a broken pointer, is not what was asked about
        for above in paths.parents(first):
            if await chain.newest_job(engine.store, above, READING) is not None:
                whole = Location(location.scheme, location.bucket, above).url
                return UsageError(f"{location.url} is not a dataset, but {whole} is; use that URL")
    if first != location.key:
        await refuse_lost_pointer(engine, location)
        return UsageError(_older_files(location, "exist, and no job was published with magicfs"))
    return await not_published("read", engine, location)


async def not_published(
    operation: str, engine: Engine, location: Location, *, more: str = "", hint: str = "check the URL"
) -> ObjectNotFound:
    """The error for a dataset to which no job was published. Raises that of a pointer that was removed."""
    await refuse_lost_pointer(engine, location)
    path = f"{engine.store.bucket}/{chain.pointer_key(location.key)}"
    return ObjectNotFound(operation, path, f"no job was published to {location.url}{more}", hint=hint)


def _older_files(location: Location, since: str) -> str:
    return (
        f"files of {location.url} are in no manifest: they {since}; if they belong to the dataset, call "
        f"magicfs.Dataset({location.url!r}).adopt(), else remove them or publish with mode='overwrite'"
    )
