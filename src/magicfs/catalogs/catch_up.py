"""Registering what drivers that died have not registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Literal

from fsspec.spec import AbstractFileSystem

from magicfs.catalogs.described import catalog_of
from magicfs.catalogs.register import show
from magicfs.datasets.connection import Destination, open_destination, was_published
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.registration import Registration
from magicfs.manifests import registrations
from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location
from magicfs.transaction.others import find_unfinished_jobs

__all__ = ["CaughtUp", "catch_up"]


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """A table that did not show what a job had published.

    Attributes:
        job_id: The job.
        catalog: The kind of the catalog.
        table: The table; empty if it is the destination itself.
        done: ``registered``; ``would register``, with ``dry_run``; ``not registered``, then ``problem`` says
            why; or ``forgotten``, for its job was never published.
        line: What registers it.
        problem: What went wrong; empty if nothing did.
    """

    job_id: str
    catalog: str
    table: str
    done: Literal["registered", "would register", "not registered", "forgotten"]
    line: str = ""
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def catch_up(
    url: str | PathLike[str],
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> tuple[CaughtUp, ...]:
    """Let the tables show the dataset that jobs with ``catalogs`` were to register, and whose drivers died.

    Connections and credentials are those of this process: a table is registered if its catalog can be found
    by name and is the one that the job meant. Of the others ``line`` says what to call. Tables of jobs that
    have not ended are left alone; ``magicfs.recover`` ends them. A second call finds nothing to do, but for
    what could not be registered.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        dry_run: Change nothing; report what would be done.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        FormatError: What a job has noted is malformed; nothing was changed.
        StoreError: The store refused, or did not answer; call again.
    """
    place = open_destination(url, storage_options, filesystem)
    dead, forgotten = place.run(_left)
    if forgotten and not dry_run:
        place.run(_remove, forgotten)
    done = [_registered(place, one, dry_run=dry_run) for one in dead]
    place.filesystem.invalidate_cache()
    return (*done, *(CaughtUp(one.job_id, one.catalog, one.table, "forgotten") for one in forgotten))


async def _left(engine: Engine, location: Location) -> tuple[list[Registration], list[Registration]]:
    """What jobs that have ended have left: those that were published, and those that were not."""
    found = await registrations.all_registrations(engine.store, location.key)
    if not found:
        return [], []
    unfinished = {one.job_id for one in await find_unfinished_jobs(engine, location.key)}
    dead: list[Registration] = []
    forgotten: list[Registration] = []
    for one in found:
        if one.job_id in unfinished:
            continue
        published = await was_published(engine, location, JobId(one.job_id))
        (dead if published else forgotten).append(one)
    return dead, forgotten


async def _remove(engine: Engine, location: Location, done: list[Registration]) -> None:
    await registrations.remove(engine.store, location.key, done)


def _registered(place: Destination, one: Registration, *, dry_run: bool) -> CaughtUp:
    told = (one.job_id, one.catalog, one.table)
    if one.options is None:
        problem = "only the program that has its connection can register it"
        return CaughtUp(*told, "not registered", one.line, problem)
    if dry_run:
        return CaughtUp(*told, "would register", one.line)
    try:
        show(place, catalog_of(one))
    except UsageError as error:
        return CaughtUp(*told, "not registered", one.line, str(error))
    except Exception as error:  # noqa: BLE001 - of any library; the others are registered all the same
        return CaughtUp(*told, "not registered", one.line, f"{type(error).__name__}: {error}")
    # Its job has ended, so what was shown just now has it.
    place.run(_remove, [one])
    return CaughtUp(*told, "registered", one.line)
