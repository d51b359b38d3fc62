"""Registering a dataset with a catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import Final, Unpack

from magicfs.catalogs.port import Catalog, CatalogMoved, Changes, Files, Published
from magicfs.datasets.connection import Destination, Way, open_destination
from magicfs.datasets.read import current_view, shown_files
from magicfs.engine import Engine
from magicfs.errors import FormatError, StoreError, Unavailable
from magicfs.formats.registration import Registration
from magicfs.manifests import chain, registrations
from magicfs.past.as_of import view_at
from magicfs.past.history import publications
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.report import JobReport, Report

_TRIES: Final = 20
_WALK_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class RegisterReport(Report):
    """The state of a catalog after a registration.

    Attributes:
        url: The dataset.
        catalog: The kind of the catalog, such as ``iceberg``.
        table: The table; empty if it is the destination itself.
        job_id: The job whose publication it shows, including all earlier ones.
        changed: Whether this call changed the catalog.
        added: How many files the table gained.
        removed: How many it lost. A file that was rewritten under the same name counts for both.
        files: How many it has.
    """

    url: str
    catalog: str
    table: str
    job_id: str
    changed: bool
    added: int
    removed: int
    files: int


class Registers:
    """What every catalog has: for jobs that register as soon as they are published."""

    __slots__ = ()

    def register(
        self: Catalog, url: str | PathLike[str] | JobReport, *, force: bool = False, **way: Unpack[Way]
    ) -> RegisterReport:
        """``Dataset.register`` with this catalog."""
        return register(url, self, force=force, **way)

    def registration(self: Catalog, url: str, job_id: str) -> Registration:
        """What a job notes of it, until it shows the job."""
        return Registration(
            job_id=job_id, catalog=self.kind, table=self.table, options=self.options(), line=self.line(url)
        )


def register(
    url: str | PathLike[str] | JobReport, catalog: Catalog, *, force: bool = False, **way: Unpack[Way]
) -> RegisterReport:
    """See ``magicfs.Dataset.register``; ``url`` may be the report of a job."""
    place = open_destination(url.destination if isinstance(url, JobReport) else url, for_reading=True, **way)
    report = show(place, catalog, force=force)
    place.run(_settle, catalog, report.job_id)
    place.filesystem.invalidate_cache()
    return report


def show(place: Destination, catalog: Catalog, *, force: bool = False) -> RegisterReport:
    """``register``, of a destination that is open."""
    done = Changes(0, 0)
    for _ in range(_TRIES):
        # The table first: then what is read of the chain is at least as new as what the table shows.
        table = catalog.open(place)
        job, files = place.run(_published)
        try:
            changes = table.bring(Published(job, files, _asked_once(place, table.shows, job, files), force))
        except CatalogMoved as moved:
            done += moved.done
            continue
        except FileNotFoundError:
            if place.run(_published)[0] == job:
                raise
            continue  # a job has replaced the file meanwhile
        done += changes
        if catalog.atomic or not changes:
            return _report(place, catalog, job, done, len(files))
    raise Unavailable(
        "register", catalog.table or place.location.url, "other processes kept changing the table; call again"
    )


async def _settle(engine: Engine, location: Location, catalog: Catalog, newest: str) -> None:
    """Forget what jobs have noted of a table, if it shows them now. Whoever may only read leaves that."""
    wanted = catalog.kind, catalog.table, catalog.options()
    with suppress(FormatError, StoreError):
        noted = await registrations.all_registrations(engine.store, location.key)
        found = [one for one in noted.values() if (one.catalog, one.table, one.options) == wanted]
        if found:
            done = await _shown_by(engine, location.key, found, newest)
            await registrations.remove(engine.store, location.key, done)


async def _shown_by(
    engine: Engine, destination: str, noted: Sequence[Registration], newest: str
) -> list[Registration]:
    """Those whose jobs a table shows that was brought to a publication: this one, and those below it.

    One that stands below a sum, or very far down, is not met.
    """
    left = {one.job_id for one in noted}
    met: set[str] = set()
    if left and not left <= {newest}:
        below = chain.chain(
            engine.store, destination, chain.READING, start=newest, hidden="readable", files=False
        )
        async with aclosing(below) as manifests:
            count = 0
            async for manifest in manifests:
                met.add(manifest.job_id)
                count += 1
                if left <= met or count == _WALK_MAX:
                    break
    met.add(newest)
    return [one for one in noted if one.job_id in met]


def _report(place: Destination, catalog: Catalog, job: str, done: Changes, files: int) -> RegisterReport:
    return RegisterReport(
        url=place.location.url,
        catalog=catalog.kind,
        table=catalog.table,
        job_id=job,
        changed=bool(done),
        added=done.added,
        removed=done.removed,
        files=files,
    )


async def _published(engine: Engine, location: Location) -> tuple[str, Files]:
    view = await current_view(engine, location)
    return view.newest_job, _data(shown_files(location, view))


def _asked_once(
    place: Destination, shows: Callable[[str], bool], newest: str, files: Files
) -> Callable[[], Files | None]:
    @cache
    def shown() -> Files | None:
        return files if shows(newest) else place.run(_shown, shows)

    return shown


async def _shown(engine: Engine, location: Location, shows: Callable[[str], bool]) -> Files | None:
    """The files of the newest publication of which a table says that it shows it."""
    async with aclosing(publications(engine, location)) as below:
        async for manifest in below:
            if shows(manifest.job_id):
                return _data((await view_at(engine, location, manifest.job_id)).files)
    return None


def _data(files: Files) -> Files:
    return {key: files[key] for key in sorted(files) if is_data(key, "")}
