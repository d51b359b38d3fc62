"""What a notification says of a publication: the same whether the driver sends it or ``magicfs recover``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain
from magicfs.manifests.footers import footers_of
from magicfs.past.as_of import moment
from magicfs.protocol.paths import Location
from magicfs.report import Report


@dataclass(frozen=True, slots=True)
class Published(Report):
    """A publication.

    Attributes:
        url: The dataset.
        bucket: Its bucket; empty for local files.
        key: Its key in the bucket.
        job_id: The job.
        run_id: Name of its run; None without one.
        mode: What it did about existing data.
        published: When, by the clock of its driver, in UTC.
        files: How many files it added.
        bytes: Their size.
        rows: Their rows; None if they were not counted, or are only in a long list of files.
        schema: Names and types of columns, if the job has option ``footers``; otherwise empty.
        first: Whether no publication came before it.
    """

    url: str
    bucket: str
    key: str
    job_id: str
    run_id: str | None
    mode: str
    published: datetime
    files: int
    bytes: int
    rows: int | None = None
    schema: tuple[tuple[str, str], ...] = ()
    first: bool = False

    def to_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        schema = [{"name": name, "type": kind} for name, kind in self.schema]
        return {
            **asdict(self),
            "schema": schema,
            "published": self.published.isoformat(timespec="milliseconds"),
        }


async def published(engine: Engine, location: Location, job: str) -> Published:
    """Read what a job has published. Raises ObjectNotFound if it has no manifest."""
    manifest = await chain.read(engine.store, location.key, job, chain.READING, files=False)
    if manifest is None:
        raise ObjectNotFound("read", location.url, f"job {job} is not published there")
    counted = [one.rows for one in manifest.files]
    known = [rows for rows in counted if rows is not None]
    rows = sum(known) if len(known) == len(counted) else None
    return Published(
        url=location.url,
        bucket=location.bucket,
        key=location.key,
        job_id=manifest.job_id,
        run_id=manifest.run_id,
        mode=manifest.mode,
        published=moment(manifest.committed_ms),
        files=manifest.count,
        bytes=manifest.size,
        rows=manifest.footers.rows if manifest.footers else None if manifest.parts else rows,
        schema=await _schema(engine, location, manifest),
        first=manifest.previous is None and not manifest.older_files,
    )


async def _schema(engine: Engine, location: Location, manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """The columns of the first file that has any. One list of footers is read, however many there are."""
    if manifest.footers is None:
        return ()
    few = replace(manifest, footers=replace(manifest.footers, lists=manifest.footers.lists[:1]))
    try:
        found = await footers_of(engine.store, location.key, few)
    except FormatError:  # they are only shown
        return ()
    fields = next((one.schema.fields for one in found.values() if one.schema and one.schema.fields), ())
    return tuple((one.name, one.type) for one in fields)
