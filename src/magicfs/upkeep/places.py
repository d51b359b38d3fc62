"""Finding the datasets at and below a URL, by their directories: no data is listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import FormatError, UsageError
from magicfs.manifests.chain import POINTER, first_readable, jobs_with_manifests
from magicfs.protocol import paths
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered

_DIRECTORIES_MAX: Final = 50_000


@dataclass(frozen=True, slots=True)
class Found:
    """A destination."""

    url: str
    is_published: bool  # whether it has manifests; else there is only work of jobs


async def find_datasets(engine: Engine, location: Location, exclude: Sequence[str] = ()) -> list[Found]:
    """The destinations at and below a location, the deepest first.

    Partitions (``day=2026-01-01``) and hidden directories are not looked into. ``exclude``: patterns of paths
    relative to the location, such as ``tmp/*``.

    Raises UsageError if there is none, or there are too many directories to look into.
    """
    found: dict[str, Found] = {}
    level, seen = [location.key], 0
    while level:
        seen += len(level)
        if seen > _DIRECTORIES_MAX:
            raise UsageError(
                f"{location.url} has more than {_DIRECTORIES_MAX:,} directories; nothing was changed; name a "
                "directory below it"
            )

        async def look(place: str) -> list[str]:
            prefix = paths.prefix_of(place)
            names = [one[len(prefix) : -1] async for one in engine.store.list_directories(prefix)]
            works = [f"{prefix}{one}/" for one in names if one.startswith(MAGIC)]
            published = MANIFESTS in names and await _is_published(engine, place)
            if published or any([await _holds(engine, one) for one in works]):
                found[place] = Found(Location(location.scheme, location.bucket, place).url, published)
            return [paths.join(place, one) for one in names if _is_looked_into(one)]

        below = await gathered(level, look, engine.concurrency)
        level = [one for each in below for one in each if not _is_excluded(one, location, exclude)]
    if not found:
        raise UsageError(
            f"no dataset and no job of magicfs is at or below {location.url}; nothing was changed; "
            "check the URL"
        )
    return [found[key] for key in sorted(found, key=lambda one: (-len(paths.elements(one)), one))]


async def _is_published(engine: Engine, place: str) -> bool:
    """Whether it has a pointer, or manifests whose pointer somebody has removed."""
    if await _holds(engine, f"{paths.join(place, MANIFESTS, POINTER)}."):
        return True
    try:
        jobs = await jobs_with_manifests(engine.store, place)
        return await first_readable(engine.store, place, jobs) is not None
    except FormatError:  # of a newer magicfs: its own verbs say so
        return True


def _is_looked_into(name: str) -> bool:
    return bool(name) and not name.startswith(("_", ".")) and "=" not in name


def _is_excluded(key: str, location: Location, exclude: Sequence[str]) -> bool:
    relative = key[len(paths.prefix_of(location.key)) :]
    return any(fnmatchcase(relative, one.strip("/")) for one in exclude)


async def _holds(engine: Engine, prefix: str) -> bool:
    async for _ in engine.store.list(prefix, limit=1):
        return True
    return False
