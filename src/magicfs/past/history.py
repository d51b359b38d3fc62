"""Every publication of a destination, the newest first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.as_of import moment
from magicfs.datasets.connection import open_destination
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.log import LoggedJob
from magicfs.manifests import log
from magicfs.manifests.chain import READING
from magicfs.manifests.tags import all_tags
from magicfs.protocol.paths import Location

__all__ = ["Publication", "as_publication", "history", "history_of", "publications"]


@dataclass(frozen=True, slots=True)
class Publication:
    """One job that was published.

    Attributes:
        job_id: The job.
        run_id: Name of its run; None without one.
        published: When it was published, by the clock of its driver, in UTC.
        mode: What it did about the data that was there; ``adopt`` for files that no job had brought.
        files: How many files it brought.
        bytes: Their size.
        tags: The tags that name it.
        restores: Of a rollback the job whose state it published again; None for all others.
        kept_until: Until when the files that it replaced are kept; None if it kept none.
    """

    job_id: str
    run_id: str | None
    published: datetime
    mode: str
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
            "mode": self.mode,
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


def as_publication(job: LoggedJob, tags: Sequence[str] = ()) -> Publication:
    """What a log remembers of a job, for people."""
    return Publication(
        job_id=job.job_id,
        run_id=job.run_id,
        published=moment(job.committed_ms),
        mode=job.mode,
        files=job.files,
        bytes=job.size,
        tags=tuple(tags),
        restores=job.restores,
        kept_until=None if job.kept_until_ms is None else moment(job.kept_until_ms),
    )
