"""A destination as it was when one job had been published, and which job somebody means."""

from __future__ import annotations

from datetime import UTC, datetime

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.manifests import chain, log
from magicfs.manifests.chain import READING, View
from magicfs.manifests.log import job_of_run_by
from magicfs.past.asked import AsOf, is_moment, parse_as_of, parse_moment
from magicfs.past.named import read_tag
from magicfs.protocol.paths import Location
from magicfs.transaction.others import refuse_lost_pointer


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
    raise await _not_found(engine, location, f"no {what} {asked.name!r} at {location.url}")


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
    raise await _not_found(engine, location, f"no job was published to {location.url}{when}")


async def _not_found(engine: Engine, location: Location, problem: str) -> ObjectNotFound:
    """The error for a name that means nothing. Raises that of a pointer that was removed."""
    await refuse_lost_pointer(engine, location)
    return ObjectNotFound(
        "read",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        problem,
        hint=f"magicfs log {location.url} shows all publications",
    )
