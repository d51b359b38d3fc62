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
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, READING
from magicfs.manifests.runs import job_of_run
from magicfs.manifests.tags import all_tags, read_tag
from magicfs.protocol.as_of import AsOf, is_moment, parse_as_of, parse_moment
from magicfs.protocol.paths import Location

__all__ = ["Publication", "history", "job_as_of", "publications"]


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
        a later job has replaced all that they published.

    Raises:
        UsageError: The URL is malformed, or ``limit`` is less than 1.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit}; give 1 or more, or leave it out for all")
    destination = open_destination(url, storage_options, filesystem, for_reading=True)
    return destination.run(_history, limit)


async def _history(engine: Engine, location: Location, limit: int | None) -> list[Publication]:
    found: list[Publication] = []
    tags = await all_tags(engine.store, location.key, READING)
    async with aclosing(publications(engine, location)) as below:
        async for manifest in below:
            found.append(_publication(manifest, [one.name for one in tags if one.job_id == manifest.job_id]))
            if len(found) == limit:
                break
    return found


async def publications(engine: Engine, location: Location) -> AsyncGenerator[Manifest]:
    """The manifests of all jobs, the newest first, without the files that they list in parts."""
    manifests = chain.chain(engine.store, location.key, READING, hidden="readable", files=False)
    async with aclosing(manifests):
        async for manifest in manifests:
            if manifest.conflict != COMPACT:
                yield manifest


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
    if asked.kind in {"any", "run"}:
        job = await job_of_run(engine.store, location.key, READING, asked.name)
        if job is not None:
            found["run"] = job
    if asked.kind in {"any", "tag"}:
        tag = await read_tag(engine.store, location.key, asked.name, READING)
        if tag is not None:
            found["tag"] = tag.job_id
    if asked.kind in {"any", "job"} and await _is_published(engine, location, asked.name):
        found["job"] = asked.name
    return found


async def _is_published(engine: Engine, location: Location, job: str) -> bool:
    async with aclosing(publications(engine, location)) as below:
        async for manifest in below:
            if manifest.job_id == job:
                return True
    return False


async def _at(engine: Engine, location: Location, moment_ms: int) -> str:
    """The job that was the newest at a moment."""
    oldest = None
    async with aclosing(publications(engine, location)) as below:
        async for manifest in below:
            if manifest.committed_ms <= moment_ms:
                return manifest.job_id
            oldest = manifest
    when = "" if oldest is None else f" before {_moment(oldest.committed_ms).isoformat()}"
    raise _not_found(engine, location, f"no job was published to {location.url}{when}")


def _not_found(engine: Engine, location: Location, problem: str) -> ObjectNotFound:
    return ObjectNotFound(
        "dataset",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        problem,
        hint=f"magicfs log {location.url} shows all publications",
    )


def _publication(manifest: Manifest, tags: Sequence[str]) -> Publication:
    return Publication(
        job_id=manifest.job_id,
        run_id=manifest.run_id,
        published=_moment(manifest.committed_ms),
        conflict=manifest.conflict,
        files=manifest.count,
        bytes=manifest.size,
        tags=tuple(tags),
        restores=manifest.restores,
        kept_until=None if manifest.kept is None else _moment(manifest.kept.until_ms),
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
