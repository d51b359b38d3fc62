"""Registers the tables of jobs whose drivers died first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from fsspec.spec import AbstractFileSystem

from magicfs.catalogs.described import catalog_of, check_own, line_of
from magicfs.catalogs.recorded import NOTIFICATIONS, differs, metastore_of
from magicfs.catalogs.register import show
from magicfs.datasets.connection import Destination, open_destination, was_published
from magicfs.engine import Engine
from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import shown
from magicfs.formats.registration import Registration
from magicfs.manifests import registrations
from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location
from magicfs.report import Report
from magicfs.stores import resolve
from magicfs.transaction.others import find_unfinished_jobs


@dataclass(frozen=True, slots=True)
class CaughtUp(Report):
    """A catalog table that lagged behind a published job.

    Attributes:
        job_id: The job.
        catalog: The kind of the catalog.
        table: The table; empty if it is the destination itself.
        done: ``registered``; ``would register``, with ``dry_run``; ``not registered``, then ``problem`` says
            why; or ``forgotten``, because its job was never published.
        line: The command that registers it; empty if the record is not one that a job writes.
        problem: What went wrong; empty if nothing did.
    """

    job_id: str
    catalog: str
    table: str
    done: Literal["registered", "would register", "not registered", "forgotten"]
    line: str = ""
    problem: str = ""


def catch_up(
    url: str | PathLike[str],
    *,
    dry_run: bool = False,
    metastores: Collection[str] = (),
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> tuple[CaughtUp, ...]:
    """Register the tables of jobs with ``catalogs`` whose drivers died before they registered them.

    It uses connections and credentials of this process, and registers a table only if the process is
    configured for its catalog, the one that the job named. It connects to no other, whatever a record says:
    for those, ``line`` has the command. It skips jobs that have not ended; ``Dataset.recover`` ends these. A
    second call tries only the tables that failed.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        dry_run: Change nothing; report what would be done.
        metastores: Metastores of Hive that are yours, such as ``["thrift://host:9083"]``, in addition to
            those in the configuration of PyIceberg.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, instead of options.

    Raises:
        FormatError: What a job has noted is malformed; nothing was changed.
        StoreError: The store refused, or did not answer; call again.
    """
    for one in metastores:
        if isinstance(metastores, str) or metastore_of(one) is None:
            raise UsageError("metastores contains an invalid metastore address; write ['thrift://host:9083']")
    place = open_destination(url, storage_options, filesystem)
    found = place.run(left, lambda one: one.catalog not in NOTIFICATIONS)
    if found.forgotten and not dry_run:
        place.run(remove, found.forgotten)
    done = [_registered(place, one, metastores, dry_run=dry_run) for one in found.dead]
    place.filesystem.invalidate_cache()
    forgotten = (CaughtUp(one.job_id, one.catalog, one.table, "forgotten") for one in found.forgotten)
    return (*found.refused, *done, *forgotten)


@dataclass(frozen=True, slots=True)
class Found:
    """What jobs that have ended have left."""

    refused: list[CaughtUp] = field(default_factory=list)  # what no job of magicfs has written
    dead: list[Registration] = field(default_factory=list)
    forgotten: list[Registration] = field(default_factory=list)  # of jobs that were not published


async def left(engine: Engine, location: Location, wanted: Callable[[Registration], bool]) -> Found:
    """What jobs that have ended have left, of the records that are wanted."""
    everything = await registrations.all_registrations(engine.store, location.key)
    noted = {name: one for name, one in everything.items() if wanted(one)}
    found = Found()
    if not noted:
        return found
    unfinished = {one.job_id for one in await find_unfinished_jobs(engine, location.key)}
    for name, one in noted.items():
        if (difference := differs(one, name)) is not None:
            path = registrations.path_of(engine.store, location.key, name)
            found.refused.append(_refused(one, path, *difference))
        elif one.job_id not in unfinished:
            published = await was_published(engine, location, JobId(one.job_id))
            (found.dead if published else found.forgotten).append(one)
    return found


def _refused(one: Registration, path: str, field: str, problem: str) -> CaughtUp:
    advice = "nothing was changed; remove the file, unless one of your own programs wrote it"
    error = FormatError(path, field, f"{problem}, which this version of magicfs never writes; {advice}")
    return CaughtUp(one.job_id, one.catalog, one.table, "not registered", problem=str(error))


async def remove(engine: Engine, location: Location, done: list[Registration]) -> None:
    """Forget them."""
    await registrations.remove(engine.store, location.key, done)


def _registered(
    place: Destination, one: Registration, metastores: Collection[str], *, dry_run: bool
) -> CaughtUp:
    table = (one.job_id, one.catalog, one.table)
    line = line_of(place.location.url, one)
    try:
        check_own(one, metastores)
        if dry_run:
            return CaughtUp(*table, "would register", line)
        show(place, catalog_of(one, metastores))
    except UsageError as error:
        return CaughtUp(*table, "not registered", line, f"{error}; {_as_recorded(one)}")
    except Exception as error:  # noqa: BLE001 - of any library; the others are registered all the same
        problem = f"{type(error).__name__}: {resolve.redacted(str(error))}; {_as_recorded(one)}"
        return CaughtUp(*table, "not registered", line, problem)
    # Its job has ended, so what was shown just now has it.
    place.run(remove, [one])
    return CaughtUp(*table, "registered", line)


def _as_recorded(one: Registration) -> str:
    where = f" at {one.options['uri']}" if one.options and "uri" in one.options else ""
    table = f", table {shown(one.table)}" if one.table else ""
    return f"the record says: catalog {one.catalog}{table}{where}"
