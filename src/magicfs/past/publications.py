"""A destination as it was when one job had been published, and what was published since another.

For readers that come back: a frame that is read twice and must be the same, a stream that wants what is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.formats.manifest import Manifest
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, READING
from magicfs.manifests.log import is_published, job_of_run
from magicfs.protocol import ids
from magicfs.protocol.paths import Location

NOTHING: Final = ""
"""Where a chain begins: before the first job."""


async def head_of(engine: Engine, location: Location) -> str:
    """The newest of the chain, a job or a sum of jobs; ``NOTHING`` before the first."""
    seen = await chain.read_pointer(engine.store, location.key, READING)
    return seen[0].job_id if seen else NOTHING


async def job_named(engine: Engine, location: Location, name: str) -> str:
    """The job in the chain of an id, or that of a run. Raises ObjectNotFound if there is none."""
    if await is_published(engine.store, location.key, READING, name):
        return name
    job = await job_of_run(engine.store, location.key, READING, name)
    if job is None:
        raise _not_published(engine, location, ids.job_id(name))
    return job


async def published_since(engine: Engine, location: Location, start: str, end: str) -> Sequence[Manifest]:
    """The jobs published after ``start``, up to ``end``, the oldest first; sums of older ones are left out.

    ``start``, ``end``: as ``head_of`` gives them.

    Raises ObjectNotFound if ``start`` is not in the chain below ``end``.
    """
    found: list[Manifest] = []
    if start == end:
        return found
    async for manifest in chain.chain(engine.store, location.key, READING, start=end):
        if manifest.job_id == start:
            break
        if manifest.mode != COMPACT:
            found.append(manifest)
    else:
        if start != NOTHING:
            raise _not_published(engine, location, start)
    return found[::-1]


def _not_published(engine: Engine, location: Location, job: str) -> ObjectNotFound:
    return ObjectNotFound(
        "read",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        f"job {job} is not among those published to {location.url}",
        hint="check the id and the URL; a stream starts over with another checkpointLocation",
    )
