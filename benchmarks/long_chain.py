"""A destination in memory to which very many jobs were published, and what it costs to look at it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from magicfs.engine import Engine
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.log import job_of_run
from magicfs.past.as_of import job_as_of, view_at
from magicfs.past.compact import compact_chain
from magicfs.past.history import history_of
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import Conditions
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor

__all__ = ["LOOKS", "LongChain"]

_BUCKET: Final = "chains"
_PLACE: Final = Location("memory", _BUCKET, "sales")
_FILES: Final = 100
_EVERY: Final = 100
_SECOND_MS: Final = 1000

Look = Callable[[Engine, int], Coroutine[Any, Any, Any]]


async def _as_of(engine: Engine, jobs: int) -> Any:
    """As of a run half-way, of which 40 lie above the next sum, or the beginning."""
    run = f"run:{jobs // (2 * _EVERY) * _EVERY + 40}"
    return await view_at(engine, _PLACE, await job_as_of(engine, _PLACE, run))


LOOKS: Final[Mapping[str, Look]] = {
    "view": lambda engine, _: chain.view(engine.store, _PLACE.key, READING),
    "run": lambda engine, _: job_of_run(engine.store, _PLACE.key, READING, "3"),
    "history": lambda engine, _: history_of(engine, _PLACE, 20),
    "as_of": _as_of,
    "whole": lambda engine, _: history_of(engine, _PLACE, None),
}
"""By name: what readers of the dataset do, the lookup of an old run id, the newest 20 publications, the files
as of a run half-way, and all publications.
"""


class LongChain:
    """A chain of so many jobs, compacted after each hundred; the dataset has a hundred files all the time."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._runner = asyncio.Runner()
        world = World()
        world.create_bucket(_BUCKET)
        self._store = MemoryStore(_BUCKET, world)
        self._runner.run(self._publish())

    async def _publish(self) -> None:
        for number in range(self.jobs):
            manifest = Manifest(
                job_id=f"job-{number}",
                run_id=f"{number}",
                bucket=_BUCKET,
                destination=_PLACE.key,
                mode="append",
                committed_ms=(1 + number) * _SECOND_MS,
                files=(ManifestFile(key=f"{number % _FILES}.parquet", size=1, etag=f'"{number}"'),),
            )
            await chain.publish(self._store, Conditions(), _PLACE.key, manifest)
            if number % _EVERY == _EVERY - 1:
                await compact_chain(Engine(self._store, 4), _PLACE)

    def requests(self, name: str) -> int:
        """How many requests a look costs."""
        traffic = Traffic()
        self._runner.run(LOOKS[name](Engine(faulty(self._store, traffic, Actor("reader")), 4), self.jobs))
        return Counter(one.operation for one in traffic.log).total()

    def seconds(self, name: str, looks: int) -> float:
        """Processor time that a look takes, of so many: nothing here waits."""

        async def look() -> float:
            engine = Engine(self._store, 4)
            started = time.process_time()
            for _ in range(looks):
                await LOOKS[name](engine, self.jobs)
            return (time.process_time() - started) / looks

        return self._runner.run(look())

    def close(self) -> None:
        """Let go of it."""
        self._runner.close()
