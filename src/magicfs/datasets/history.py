"""Every publication of a destination, the newest first, and which of them somebody means."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import open_destination
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.formats.log import LoggedJob
from magicfs.manifests import chain, log
from magicfs.manifests.chain import READING
from magicfs.manifests.runs import job_of_run_by
from magicfs.manifests.tags import all_tags, read_tag
from magicfs.protocol.as_of import AsOf, is_moment, parse_as_of, parse_moment
from magicfs.protocol.paths import Location

__all__ = ["Publication", "as_publication", "history", "history_of", "job_as_of", "publications"]


@dataclass(frozen=True, slots=True)
class Publication:
    """One job that was published.

    Attributes:
        job_id: The job.
        run_id: Name of its run; None without one.
        published: When it was published, by the clock of its driver, in UTC.
        conflict: What it did about the data that was there; ``adopt`` for files that no job had brought.
        files: How many files it brought.
        bytes: Their size.
        tags: The tags that name it.
        restores: Of a rollback the job whose state it published again; None for all others.
        kept_until: Until when the files that it replaced are kept; None if it kept none.
    """

    job_id: str
    run_id: str | None
    published: datetime
    conflict: str
    files: int
    bytes: int
    tags: tuple[str, ...] = ()
    restores: str | None = None
    kept_until: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "job_id": self.job_id,
            "run_id": self.run_id,
            "published": self.published.isoformat(timespec="milliseconds"),
            "conflict": self.conflict,
            "files": self.files,
            "bytes": self.bytes,
            "tags": list(self.tags),
            "restores": self.restores,
            "kept_until": self.kept_until and self.kept_until.isoformat(timespec="milliseconds"),
        }


def history(
    url: str | PathLike[str],
    *,
    limit: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> list[Publication]:
    """All jobs that were published to a destination, the newest first.

    Each can be given to ``magicfs.dataset(url, as_of=…)``, as long as its files are there.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        limit: Only so many, the newest; by default all.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Returns:
        The publications; an empty list if there is none. Jobs before a manifest that is gone are left out, if
        a later job has replaced all that they published, and no compaction has noted them before.

    Raises:
        UsageError: The URL is malformed, or ``limit`` is less than 1.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit}; give 1 or more, or leave it out for all")
    destination = open_destination(url, storage_options, filesystem, for_reading=True)
    return destination.run(history_of, limit)


async def history_of(engine: Engine, location: Location, limit: int | None) -> list[Publication]:
    """``history``, on the store's loop."""
    found: list[Publication] = []
    tags: dict[str, list[str]] = {}
    for one in await all_tags(engine.store, location.key, READING):
        tags.setdefault(one.job_id, []).append(one.name)
    async with aclosing(publications(engine, location, few=limit is not None)) as below:
        async for job in below:
            found.append(as_publication(job, tags.get(job.job_id, ())))
            if len(found) == limit:
                break
    return found


def publications(engine: Engine, location: Location, *, few: bool = False) -> AsyncGenerator[LoggedJob]:
    """What is known of all jobs, the newest first. ``few``: only some of them are wanted."""
    return log.publications(engine.store, location.key, READING, few=few)


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
        raise UsageError(f"as_of={asked.name!r} means several publications ({means}); write which one")
    if named:
        return next(iter(named.values()))
    if asked.kind == "any" and is_moment(asked.name):
        return await _at(engine, location, parse_moment(asked.name))
    what = "job, run or tag" if asked.kind == "any" else asked.kind
    raise _not_found(engine, location, f"no {what} {asked.name!r} was published to {location.url}")


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
    when = "" if oldest_ms is None else f" before {_moment(oldest_ms).isoformat()}"
    raise _not_found(engine, location, f"no job was published to {location.url}{when}")


def _not_found(engine: Engine, location: Location, problem: str) -> ObjectNotFound:
    return ObjectNotFound(
        "dataset",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        problem,
        hint=f"magicfs log {location.url} shows all publications",
    )


def as_publication(job: LoggedJob, tags: Sequence[str] = ()) -> Publication:
    """What a log remembers of a job, for people."""
    return Publication(
        job_id=job.job_id,
        run_id=job.run_id,
        published=_moment(job.committed_ms),
        conflict=job.conflict,
        files=job.files,
        bytes=job.size,
        tags=tuple(tags),
        restores=job.restores,
        kept_until=None if job.kept_until_ms is None else _moment(job.kept_until_ms),
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
