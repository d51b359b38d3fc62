"""Exactly the published files, whatever else a listing shows: of one job, or of the dataset as it is now.

``magicfs.manifests.chain`` says what a chain of manifests shows. Nothing here trusts a cached listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from magicfs.engine import Engine
from magicfs.errors import MagicError, ObjectNotFound, UsageError
from magicfs.formats.footer import Footer
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain, log
from magicfs.manifests import footers as lists
from magicfs.manifests.chain import READING, View
from magicfs.manifests.log import job_of_run_by
from magicfs.manifests.tags import read_tag
from magicfs.protocol import paths
from magicfs.protocol.as_of import AsOf, is_moment, parse_as_of, parse_moment
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.transaction.others import find_unfinished_jobs


async def job_as_of(engine: Engine, location: Location, as_of: str | datetime) -> str:
    """The publication that somebody means.

    Raises UsageError if the name means several, ObjectNotFound if there is none.
    """
    asked = parse_as_of(as_of)
    if asked.moment_ms is not None:
        return await _at(engine, location, asked.moment_ms)
    named = await _named(engine, location, asked)
    if len(set(named.values())) > 1:
        means = ", ".join(f"{kind}:{asked.name} is job {job}" for kind, job in named.items())
        raise UsageError(f"as_of={asked.name!r} matches several publications ({means}); name one of them")
    if named:
        return next(iter(named.values()))
    if asked.kind == "any" and is_moment(asked.name):
        try:
            return await _at(engine, location, parse_moment(asked.name))
        except UsageError as error:
            raise UsageError(f"no job, run or tag {asked.name!r} is there, and as a time {error}") from error
    what = "job, run or tag" if asked.kind == "any" else asked.kind
    raise _not_found(engine, location, f"no {what} {asked.name!r} at {location.url}")


async def view_at(engine: Engine, location: Location, job: str) -> View:
    """What the chain showed when a job that is in it had just been published; its files may be gone since."""
    found = await chain.view_of(chain.chain(engine.store, location.key, READING, start=job, hidden="none"))
    assert found is not None
    return found


def moment(milliseconds: int) -> datetime:
    """A moment since the epoch, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


async def _named(engine: Engine, location: Location, asked: AsOf) -> dict[str, str]:
    """The jobs that a name means, by what it is the name of."""
    found: dict[str, str] = {}
    seen = await chain.read_pointer(engine.store, location.key, READING)
    if asked.kind in {"any", "run"} and seen is not None:
        job = await job_of_run_by(engine.store, location.key, READING, seen[0], asked.name)
        if job is not None:
            found["run"] = job
    if asked.kind in {"any", "tag"}:
        tag = await read_tag(engine.store, location.key, asked.name, READING)
        if tag is not None:
            found["tag"] = tag.job_id
    if asked.kind in {"any", "job"} and seen is not None:
        past = await log.past_of(engine.store, location.key, READING, seen[0])
        if await log.is_published(engine.store, location.key, READING, asked.name, past):
            found["job"] = asked.name
    return found


async def _at(engine: Engine, location: Location, moment_ms: int) -> str:
    """The job that was the newest at a moment."""
    job, oldest_ms = await log.job_at(engine.store, location.key, READING, moment_ms)
    if job is not None:
        return job
    when = "" if oldest_ms is None else f" before {moment(oldest_ms).isoformat()}"
    raise _not_found(engine, location, f"no job was published to {location.url}{when}")


def _not_found(engine: Engine, location: Location, problem: str) -> ObjectNotFound:
    return ObjectNotFound(
        "read",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        problem,
        hint=f"magicfs log {location.url} shows all publications",
    )


async def read_manifest_of(engine: Engine, location: Location, job: str | None) -> Manifest:
    """What a job published, by default the last one."""
    if job is None:
        job = await chain.newest_job(engine.store, location.key, READING)
        if job is None:
            raise await _nothing_published(engine, location)
    manifest = await chain.read(engine.store, location.key, job, READING)
    if manifest is None:
        raise ObjectNotFound(
            "read",
            f"{engine.store.bucket}/{chain.manifest_key(location.key, job)}",
            f"job {job} was not published to {location.url}",
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
    with suppress(MagicError):  # a refusal above, or a broken pointer, is not what was asked about
        for above in paths.parents(location.key):
            if await chain.newest_job(engine.store, above, READING) is not None:
                whole = Location(location.scheme, location.bucket, above).url
                return UsageError(
                    f"{location.url} is in the dataset {whole}; read that one, and filter its rows"
                )
    async for info in engine.store.list(paths.prefix_of(location.key)):
        if is_data(info.key, location.key):
            return UsageError(_older_files(location, "exist, and no job was published with magicfs"))
    return ObjectNotFound(
        "read",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        f"no job was published to {location.url}",
        hint="check the URL",
    )


def _older_files(location: Location, since: str) -> str:
    return (
        f"files of {location.url} are in no manifest: they {since}; if they belong to the dataset, call "
        f"magicfs.Dataset({location.url!r}).adopt(), else remove them or publish with mode='overwrite'"
    )


async def footers_at(
    engine: Engine, location: Location, *, last: bool = False, as_of: str | datetime | None = None
) -> dict[str, Footer | None]:
    """See ``magicfs.Dataset.footers``."""
    start, shown = await _shown(engine, location, last=last, as_of=as_of)
    found = await footers_of_view(engine, location, start, shown)
    return {key: found.get(key) for key in sorted(shown) if is_data(key, "")}


async def footers_of_view(
    engine: Engine, location: Location, start: str, files: Mapping[str, ManifestFile]
) -> dict[str, Footer]:
    """The footers of some files, of those that have one, from a job on down the chain."""
    below = chain.chain(engine.store, location.key, READING, start=start, hidden="readable")
    return await lists.footers_of_files(engine.store, location.key, below, files)


async def _shown(
    engine: Engine, location: Location, *, last: bool, as_of: str | datetime | None
) -> tuple[str, Mapping[str, ManifestFile]]:
    """Where in the chain to begin, and the files that are asked about."""
    if last:
        manifest = await read_manifest_of(engine, location, None)
        return manifest.job_id, {one.key: one for one in manifest.files}
    if as_of is not None:
        job = await job_as_of(engine, location, as_of)
        return job, (await view_at(engine, location, job)).files
    view = await current_view(engine, location)
    return view.head.job_id, view.files
