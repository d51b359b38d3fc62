"""The alias that jobs of verbs move along, which their callers do not name."""

from __future__ import annotations

from magicfs.alias.records import read_name
from magicfs.engine import Engine
from magicfs.protocol.paths import Location


async def alias_of(engine: Engine, location: Location) -> str | None:
    """Option ``alias`` of a job that shows other files of a dataset: the alias that it has."""
    place = await read_name(engine.store, location)
    return None if place is None else place.text
