"""Bringing aliases along that a process has left behind."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Literal, Unpack

from magicfs.alias.extension import is_gone
from magicfs.alias.follow import follow, withdraw
from magicfs.alias.places import AliasPlace
from magicfs.alias.records import read_name, remove_name
from magicfs.datasets.connection import Way, open_destination, told_as_newest
from magicfs.engine import Engine
from magicfs.errors import FormatError, UsageError
from magicfs.protocol.paths import Location
from magicfs.report import Report


@dataclass(frozen=True, slots=True)
class AliasReport(Report):
    """What became of the alias of a dataset.

    Attributes:
        url: The alias.
        done: ``right``, and nothing was changed; ``moved`` to the newest publication; ``removed``, for that
            has no single file; ``would move`` or ``would remove``, with ``dry_run``; or ``left``, then
            ``problem`` says why.
        job_id: The publication that it shows; empty if it was left.
        problem: What is wrong; empty if nothing is.
    """

    url: str
    done: Literal["right", "moved", "removed", "would move", "would remove", "left"]
    job_id: str = ""
    problem: str = ""


def catch_up(url: str | PathLike[str], *, dry_run: bool = False, **way: Unpack[Way]) -> AliasReport | None:
    """Let the alias of a dataset show its newest publication; None if the dataset has no alias.

    A second call finds it right.

    Args:
        url: The dataset, such as ``s3://bucket/sales``.
        dry_run: Change nothing; report what would be done.
        **way: ``storage_options`` or ``filesystem``.

    Raises:
        FormatError: What is recorded of the alias is malformed; nothing was changed.
        StoreError: The store refused, or did not answer; call again.
    """
    place = open_destination(url, **way)
    found = place.run(caught_up, dry_run)
    place.filesystem.invalidate_cache()
    return found


def remove(url: str | PathLike[str], **way: Unpack[Way]) -> bool:
    """Remove the alias of a dataset, which has none from then on; whether it had one.

    Args:
        url: The dataset.
        **way: ``storage_options`` or ``filesystem``.

    Raises:
        UsageError: Another program wrote what is at the alias; nothing was changed.
        FormatError: What is recorded of the alias is malformed; nothing was changed.
        StoreError: The store refused, or did not answer; call again.
    """
    place = open_destination(url, **way)
    found = place.run(_removed)
    place.filesystem.invalidate_cache()
    return found


async def caught_up(engine: Engine, location: Location, dry_run: bool) -> AliasReport | None:
    """``catch_up``, on the store's loop."""
    if (place := await _named(engine, location)) is None:
        return None
    try:
        done = await follow(await told_as_newest(engine, location), place, dry_run=dry_run)
    except UsageError as error:
        return AliasReport(place.url(), "left", problem=str(error))
    if dry_run and done.done != "right":
        return AliasReport(done.url, "would move" if done.files == 1 else "would remove", done.job_id)
    problem = is_gone(done.url, done.files) if done.done == "removed" else ""
    return AliasReport(done.url, done.done, done.job_id, problem)


async def _removed(engine: Engine, location: Location) -> bool:
    if (place := await _named(engine, location)) is None:
        return False
    await withdraw(engine, place)
    await remove_name(engine.store, location)
    return True


async def _named(engine: Engine, location: Location) -> AliasPlace | None:
    try:
        return await read_name(engine.store, location)
    except UsageError as error:
        raise FormatError(f"{engine.store.bucket}/{location.key}", "alias", str(error)) from error
