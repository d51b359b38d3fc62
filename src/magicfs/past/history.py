"""Every publication of a destination, the newest first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from datetime import datetime
from os import PathLike
from typing import Unpack

from magicfs.datasets.connection import Way, open_destination
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.log import LoggedJob
from magicfs.manifests import log
from magicfs.manifests.chain import READING
from magicfs.past.as_of import moment
from magicfs.past.named import all_tags
from magicfs.protocol.paths import Location
from magicfs.report import Report, html_table, human_bytes, text_table
from magicfs.transaction.others import refuse_lost_pointer


@dataclass(frozen=True, slots=True)
class Publication(Report):
    """One job that was published.

    Attributes:
        job_id: The job.
        run_id: Name of its run; None without one.
        published: When it was published, by the clock of its driver, in UTC.
        mode: What it did about existing data; ``adopt`` for files that no job published.
        files: How many files it added.
        bytes: Their size.
        tags: The tags that name it.
        restores: For a rollback, the job whose state it published again; None otherwise.
        kept_until: When the files that it replaced expire; None if it kept none.
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

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        moments = {name: getattr(self, name) for name in ("published", "kept_until")}
        texts = {name: one and one.isoformat(timespec="milliseconds") for name, one in moments.items()}
        return {**asdict(self), "tags": list(self.tags), **texts}


class History(list[Publication]):
    """Publications, the newest first: a list that prints as a table."""

    HEADER = ("PUBLISHED", "JOB", "MODE", "FILES", "SIZE", "KEEPS UNTIL", "TAGS", "RUN")

    def rows(
        self, shown: Callable[[datetime], str] = "{:%Y-%m-%d %H:%M:%S} UTC".format
    ) -> list[tuple[str, ...]]:
        """What stands below ``HEADER``. For a rollback, ``RUN`` says what it went back to."""
        runs = {one.job_id: one.run_id or f"job {one.job_id}" for one in self}
        return [
            (
                shown(one.published),
                one.job_id,
                one.mode if one.restores is None else "rollback",
                str(one.files),
                human_bytes(one.bytes),
                shown(one.kept_until) if one.kept_until else "",
                " ".join(one.tags),
                one.run_id or (f"to {runs.get(one.restores, one.restores)}" if one.restores else ""),
            )
            for one in self
        ]

    def __str__(self) -> str:
        return "\n".join(text_table(self.rows(), self.HEADER))

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.HEADER)


def history(url: str | PathLike[str], *, limit: int | None = None, **way: Unpack[Way]) -> History:
    """See ``magicfs.Dataset.history``."""
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit}; give 1 or more, or leave it out for all")
    destination = open_destination(url, for_reading=True, **way)
    return destination.run(_history, limit)


async def _history(engine: Engine, location: Location, limit: int | None) -> History:
    found = await history_of(engine, location, limit)
    if not found:
        await refuse_lost_pointer(engine, location)
    return found


async def history_of(engine: Engine, location: Location, limit: int | None) -> History:
    """``history``, on the store's loop."""
    found = History()
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
