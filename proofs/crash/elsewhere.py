"""Two jobs at destinations that touch: one below the other, or an extra destination of one at the other's.

Each may delete. Whatever is cut, and however they meet: every file that a dataset's manifests name is there,
at every moment, for nobody but the dataset's own jobs may take it away.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast
from uuid import uuid4

from magicfs import datasets
from magicfs.committers.magic import MagicCommitter
from magicfs.errors import CommitOutcomeUnknown, CommitUnfinished, MagicError, StoreError
from magicfs.filesystem.tracking import Closing, StoreRecorder, name_in
from magicfs.filesystem.upload import AsyncDelayedFile, Upload
from magicfs.formats.job_options import JobOptions, Places
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids, paths
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import locate
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.paths import Location
from magicfs.stores.retrying import RetryingStore
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import find_unfinished_jobs
from proofs.crash.chain import read_chain
from proofs.crash.chances import Chances
from proofs.crash.history import Facts
from proofs.crash.invariants import Violation
from proofs.crash.processes import Outcome, Process
from proofs.crash.simulation import Result
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import KINDS
from proofs.crash.watched import Watched
from proofs.crash.writing import START, Clock

__all__ = ["RELATIONS", "Elsewhere", "play"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a job publishes.

    Attributes:
        destination: Its destination.
        extra: Its extra destination; None if it has none.
        names: What it may write, below the destination, or below the extra one if it has that.
    """

    destination: str
    names: tuple[str, ...]
    extra: str | None = None


_ABOVE: Final = "lake +#%/ü"
_BELOW: Final = f"{_ABOVE}/p=0/t"
_MAIN: Final = "main"
_TWO: Final = ("p=0/a.bin", "p=1/b.bin")
_INTO: Final = ("p=0/t/p=0/a.bin", "p=0/z.bin")

RELATIONS: Final[Mapping[str, tuple[_Place, _Place]]] = {
    "below": (_Place(_ABOVE, _TWO), _Place(_BELOW, _TWO)),
    "into": (_Place(_ABOVE, _INTO), _Place(_BELOW, _TWO)),
    "extra": (_Place(_ABOVE, _TWO), _Place(_MAIN, _TWO, _ABOVE)),
    "extra below": (_Place(_ABOVE, _TWO), _Place(_MAIN, _TWO, _BELOW)),
    "extra above": (_Place(_BELOW, _TWO), _Place(_MAIN, _INTO, _ABOVE)),
    "shared": (_Place("side", _TWO, _ABOVE), _Place(_MAIN, _TWO, _ABOVE)),
}
"""How two jobs touch, by the name that reproductions give."""

_MODES: Final = ("overwrite", "overwrite", "overwrite_partitions", "overwrite_partitions", "append", "error")
_LAST: Final = ("b-", "z-")
_TRIES: Final = 3


@dataclass
class Elsewhere(Watched):
    """One seed.

    Attributes:
        chances: What happens.
        relation: How the two touch.
        model: The name of what the store is.
        hanging: Whether the last ``files`` of jobs take long to become visible, or ``listings`` take long.
        jobs: The two, and before them those that were published earlier.
        endings: How each of the two ended.
    """

    chances: Chances = field(kw_only=True)
    relation: str = field(kw_only=True)
    model: str = "full"
    hanging: str = ""
    jobs: list[tuple[_Place, JobContext]] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)
    _numbers: int = 0

    @classmethod
    def of(cls, seed: str) -> Elsewhere:
        """The scene of a seed, before it runs; of another store than S3 its kind and an ``@`` come first."""
        model = KINDS[seed.rpartition("@")[0] or "s3"][0]
        chances = Chances.of(f"elsewhere {seed}")
        hanging = chances.random.choice(("", "files", "files", "listings"))
        if hanging:
            # Without faults, so that there is a second job that meets the first.
            chances.weather.fault_rate, chances.weather.latency_s = 0.0, 0.05
        if hanging == "listings":
            chances.weather.page = 1
        relation = chances.random.choice(list(RELATIONS))
        before = SnapshotWorld(Clock(START))
        return cls(
            before, before, Facts("", []), chances=chances, relation=relation, model=model, hanging=hanging
        )

    @property
    def staged(self) -> bool:
        """No task writes local files."""
        return False

    def look(self, *, ended: bool = False) -> None:
        """Check that every file is there that a dataset's manifests name."""
        places = {
            one for place, _ in self.jobs for one in (place.destination, place.extra) if one is not None
        }
        for place in sorted(places):
            view = read_chain(self.world.objects, place)
            gone = sorted(view.files.keys() - self.world.objects.keys())
            if view.problem or gone:
                self.violations.append(
                    Violation(
                        "g", f"dataset {place}: {view.problem or f'{gone[0]} is gone'} (ended: {ended})"
                    )
                )

    def run(self) -> None:
        """Run it to its end, and look."""
        self.stage(self._past(), seed="the past")
        self.before, self.world = self.world, SnapshotWorld(Clock(START + 86400), self.world)
        weather = self.chances.weather
        self.watch(page=weather.page, stale=weather.stale, latency=self.chances.latency, choose=self._fault)
        seed = str(self.chances.random.random())
        self.stage(self._run(), seed=seed, order=seed)

    def _fault(self, request: Request) -> Fault | None:
        """What chance brings; in many seeds also a job that hangs half published, or a listing that does."""
        if not self.chances.calm:
            last = request.key.rpartition("/")[2].startswith(_LAST)
            if self.hanging == "files" and last and request.operation == "complete_upload":
                return Fault(Kind.DELAY, seconds=self.chances.random.choice((2.0, 70.0)))
            if self.hanging == "listings" and request.operation == "list" and self.chances.one_in(8):
                return Fault(Kind.DELAY, seconds=70.0)
        return self.chances.fault(request, "elsewhere")

    def _context(self, place: _Place, mode: str) -> JobContext:
        return JobContext(
            url=f"memory://{BUCKET}/{place.destination}",
            layout=WorkLayout(place.destination, JobId(str(uuid4()))),
            options=JobOptions(
                committer="magic",
                mode=cast("WriteMode", mode),
                places=Places(extra=() if place.extra is None else (place.extra,)),
            ),
        )

    async def _past(self) -> None:
        """What was published earlier, in fine weather."""
        for place in RELATIONS[self.relation]:
            if self.chances.one_in(2):
                process = Process("earlier", self.world, Traffic(), self.model)
                await _sound(process, place, self._context(place, "append"))

    async def _run(self) -> None:
        chances, running = self.chances, []
        for number, place in enumerate(RELATIONS[self.relation]):
            context = self._context(place, chances.random.choice(_MODES))
            self.jobs.append((place, context))
            start = chances.random.uniform(0.0, 40 * chances.weather.latency_s) if number else 0.0
            running.append(self._start(f"j{number}", start, place, context))
        for outcome in await asyncio.gather(*running):
            if outcome.surprising:
                self.surprised("a driver", outcome)
        chances.calm = True
        await self.traffic.settle()
        for place, context in self.jobs:
            await self._end(place, context)
        self.look(ended=True)
        left = [key for key in self.world.objects if "/__magic" in key]
        self.violations += [Violation("d", f"{key} is left") for key in left]

    def _process(self, name: str) -> Process:
        self._numbers += 1
        full = f"{name}-{self._numbers}"
        process = Process(full, self.world, self.traffic, self.model)
        process.store = RetryingStore(process.store)
        if self.chances.one_in(3):
            self.chances.mortal.add(full)
        return process

    def _start(self, name: str, after: float, place: _Place, context: JobContext) -> asyncio.Task[Outcome]:
        process = self._process(name)

        async def run() -> None:
            await asyncio.sleep(after)
            await self._drive(process, place, context)

        return process.start(run())

    async def _drive(self, driver: Process, place: _Place, context: JobContext) -> None:
        committer = MagicCommitter(context, driver.engine)
        setup = await committer.setup_job()
        commit = await _task(driver, place, context)
        await asyncio.sleep(self.chances.random.uniform(0.0, 60 * self.chances.weather.latency_s))
        for _ in range(_TRIES):
            try:
                await committer.commit_job([commit], setup.driver)
            except (CommitOutcomeUnknown, CommitUnfinished, StoreError):
                await asyncio.sleep(self.chances.pause(30.0))
            except MagicError:
                await committer.abort_job([commit], setup.driver)
                raise
            else:
                return

    async def _end(self, place: _Place, context: JobContext) -> None:
        where = Location("memory", BUCKET, place.destination)
        for wish in ({}, {"abort": True}):
            process = self._process("finisher")
            outcome = await process.play(_recover(process, where, context.job, **wish))
            self.surprised("the last recovery", outcome)
        process = self._process("sweeper")
        outcome = await process.play(MagicCommitter(context, process.engine).abort_job((), None))
        self.surprised("the sweeper", outcome)
        published = context.job in read_chain(self.world.objects, place.destination).jobs
        self.endings[f"{self.relation}, {'published' if published else 'not published'}"] += 1


async def _recover(process: Process, where: Location, job: JobId, **wish: Any) -> None:
    if any(one.job_id == job for one in await find_unfinished_jobs(process.engine, where.key)):
        await datasets.recover_jobs(process.engine, where, job=job, **wish)


async def _sound(process: Process, place: _Place, context: JobContext) -> None:
    async def program() -> None:
        committer = MagicCommitter(context, process.engine)
        setup = await committer.setup_job()
        await committer.commit_job([await _task(process, place, context)], setup.driver)

    outcome = await process.play(program())
    if outcome.error is not None:
        raise outcome.error


async def _task(worker: Process, place: _Place, context: JobContext) -> TaskCommit:
    """A task that writes a file of each name, one for the destination too if they are for an extra one."""
    task = ids.task_id(0)
    attempt = ids.attempt_id(task, uuid4().hex[:8])
    written = [(name, place.extra) for name in place.names]
    if place.extra is not None:
        written.append(("p=0/main.bin", None))
    for name, extra in written:
        path = locate(f"{BUCKET}/{context.layout.work_directory(attempt, extra)}/{name}")
        assert path is not None
        key = paths.join(path.destination, *unique_name(path.relative, task, context.job))
        recorder = StoreRecorder(worker.store, path, etag_format=context.options.hadoop.etag_format)
        closing = Closing(name_in(worker.store, path.scope), name_in(worker.store, path.path), path.path)
        upload = Upload(worker.store, key, 1 << 20, recorder, background=closing)
        async with await AsyncDelayedFile(upload).open() as file:
            await file.write(f"{attempt} wrote {name}".encode())
    return await MagicCommitter(context, worker.engine).commit_task(task, attempt)


def play(seed: str, result: Result) -> None:
    """Run one seed, and add what came of it."""
    scene = Elsewhere.of(seed)
    scene.run()
    result.jobs += len(scene.jobs)
    result.endings.update(scene.endings)
    result.findings += [(one, f"elsewhere:{seed}") for one in dict.fromkeys(scene.violations)]
