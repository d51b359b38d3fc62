"""One job that flips, from its past to its end, and the readers who look on.

A reader who lists is the witness: before and after every request it sees exactly the old or exactly the new
dataset, and so does a reader of manifests; once new, never old again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from magicfs import datasets
from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.committers.flip import FlipCommitter
from magicfs.datasets.compact import compact_chain
from magicfs.errors import CommitDenied, MagicError, UsageError
from magicfs.formats.pending import DEFAULT_ETAG_FORMAT
from magicfs.protocol import flip, ids, paths
from magicfs.protocol.conflict import Conflict
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.testing import virtual_time
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Request
from magicfs.transaction.context import JobContext
from proofs.crash.chain import read_chain
from proofs.crash.processes import Outcome, Process, apart, check_alive
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import MODELS, plain_store
from proofs.crash.trees import KINDS, tree_store
from proofs.crash.writing import START, Clock, write_attempt

__all__ = ["DESTINATION", "FlipScene", "body_of"]

PARENT: Final = "lake 1"
DESTINATION: Final = f"{PARENT}/sales 1+#%ü"
_NEIGHBOURS: Final = (
    f"{DESTINATION}0/a.bin",
    f"{PARENT}/.sales 1+#%ü.keep/a.bin",
    f"{PARENT}/.sales 1+#%ü.magicfs",
    f"{PARENT}/a.bin",
)
_NOTE: Final = f"{DESTINATION}/_note"
_PAST_JOB: Final = ids.job_id("11111111-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
_SECOND_JOB: Final = ids.job_id("22222222-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
_PAST: Final = f"{DESTINATION}/_magicfs/{_PAST_JOB}."
_PART_SIZE: Final = 1 << 20


def body_of(objects: dict[str, Any]) -> dict[str, bytes]:
    """What a reader sees who lists: visible files by relative key."""
    return {
        paths.relative_to(key, DESTINATION): one.body
        for key, one in objects.items()
        if paths.is_under(key, DESTINATION) and paths.is_visible(key, DESTINATION)
    }


@dataclass
class FlipScene:
    """One world with a job that flips, and perhaps others."""

    model: str
    conflict: Conflict
    world: SnapshotWorld
    job: JobId
    old: dict[str, bytes]
    new: dict[str, bytes] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seen_new: bool = False
    windows: int = 0  # requests after which the destination was not there
    alone: bool = True
    is_set_up: bool = False
    neighbours: dict[str, Any] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    moments: list[tuple[SnapshotWorld, bool]] = field(default_factory=list)
    cuts: int = 0

    @classmethod
    def begin(cls, model: str, conflict: Conflict) -> FlipScene:
        """The world before the job."""
        world = SnapshotWorld(Clock(START))
        scene = cls(model, conflict, world, JobId("0" * 8 + "-0000-4000-8000-" + "0" * 12), {})
        scene.stage(scene._past(), seed="past")
        scene.old = body_of(world.objects)
        scene.neighbours = {key: world.objects[key] for key in _NEIGHBOURS}
        scene.new, scene.seen_new, scene.violations = {}, False, []
        with virtual_time.deterministic("job", Clock(START)):
            scene.job = ids.job_id("5f4c2d1e-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
        return scene

    async def _past(self) -> None:
        store = plain_store(self.world, self.model)
        for key in _NEIGHBOURS:
            await store.put(key, f"{key} is others'".encode())
        if self.conflict == "fail":
            return
        await store.put(f"{DESTINATION}/p=0/older.bin", b"older than any manifest")
        past = replace(self, conflict="append", job=_PAST_JOB)
        past.watch(look=False)
        await past.play_files("past")
        past.job = _SECOND_JOB  # so that there is something to sum up
        await past.play_files("past")
        await store.put(_NOTE, b"a note of somebody")

    def at(self, world: SnapshotWorld, seen_new: bool) -> FlipScene:
        """The scene at a moment, all processes dead."""
        copy = SnapshotWorld(Clock(world.clock()), world)
        return replace(
            self, world=copy, seen_new=seen_new, violations=[], windows=0, moments=[], traffic=Traffic()
        )

    def watch(self, *faults: Fault, look: bool = True, record: bool = False) -> None:
        """Let requests pass a new traffic, the readers looking after each."""

        def after(request: Request) -> None:
            if look and request.changes:
                self.look()
            if record:
                self.note()

        def before(_request: Request) -> None:
            if record:
                self.note()

        self.traffic = Traffic(faults, before=before, after=after)

    def note(self) -> None:
        """Keep this moment, unless nothing has changed since the last."""
        self.cuts += 1
        if not self.moments or not self.moments[-1][0].same(self.world):
            self.moments.append((self.world.copy(), self.seen_new))

    def look(self, *, ended: bool = False) -> None:
        """What readers see now."""
        listed = body_of(self.world.objects)
        aside = f"{flip.new_directory(DESTINATION, self.job)}{flip.ASIDE}/"
        if KINDS[self.model] == "renames" and any(key.startswith(aside) for key in self.world.objects):
            there = any(paths.is_under(key, DESTINATION) for key in self.world.objects)
            if not there and not ended:
                self.windows += 1
                return
        if not self.alone:
            return
        if listed != self.old and listed != self.new:
            self.violations.append(f"a reader who lists sees neither old nor new: {sorted(listed)}")
        if listed == self.new and listed != self.old:
            self.seen_new = True
        elif self.seen_new:
            self.violations.append("a reader who lists sees the old dataset again")
        view = read_chain(self.world.objects, DESTINATION)
        known = {paths.relative_to(key, DESTINATION) for key in view.files}
        if view.problem:
            self.violations.append(f"the chain: {view.problem}")
        elif known != {key for key in listed if key != "p=0/older.bin"}:
            self.violations.append(f"manifests show {sorted(known)}, and a listing {sorted(listed)}")

    def check_end(self, *, published: bool | None = None) -> None:
        """What must hold once the job has been brought to its end."""
        self.look(ended=True)
        if published is not None and published != self.seen_new:
            self.violations.append(f"published is {published}, and readers see otherwise")
        if self.new and self.seen_new and f"{DESTINATION}/_SUCCESS" not in self.world.objects:
            self.violations.append("no _SUCCESS")
        for key in self.world.objects:
            if key in _NEIGHBOURS:
                continue
            if not paths.is_under(key, DESTINATION) or "__magic" in key:
                self.violations.append(f"{key} is left")
        for upload in self.world.uploads.values():
            self.violations.append(f"an upload of {upload.key} is left")
        for key, one in self.neighbours.items():
            if self.world.objects.get(key) is None or self.world.objects[key].body != one.body:
                self.violations.append(f"{key} was others', and has changed")
        if self.old and not any(key.startswith(_PAST) for key in self.world.objects):
            self.violations.append("the manifest of the old dataset is gone")
        if self.old and self.world.objects.get(_NOTE) is None:
            self.violations.append("the note is gone, which no mode deletes")

    # -- processes ---------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        made = Process(name, self.world, self.traffic, self.model)
        made.store = tree_store(self.world, self.model, self.traffic, made.actor)
        return made

    def context(self, *, outer: bool) -> JobContext:
        new = flip.new_directory(DESTINATION, self.job)
        context = JobContext(
            url=f"memory://{BUCKET}/{DESTINATION}",
            layout=WorkLayout(DESTINATION if outer else new, self.job, 0),
            conflict=self.conflict if outer else "fail",
            unique_names=True,
            tracking="store",
            etag_format=DEFAULT_ETAG_FORMAT,
            part_size=_PART_SIZE,
        )
        if outer:
            return replace(context, new=new)
        return replace(context, is_inner=True, allow_empty=True)

    def committer(self, process: Process) -> Committer:
        inner = registry.make("magic", self.context(outer=False), process.engine)
        return FlipCommitter(self.context(outer=True), inner, process.engine)

    async def play_flip(self) -> Outcome:
        """The whole job, its driver and two workers."""
        driver = self.process("driver")
        return await driver.play(self._drive(driver, self.committer, self.context(outer=False), ("a", "b")))

    async def play_files(self, name: str, files: tuple[str, ...] = ("old",)) -> Outcome:
        """A job that publishes file by file."""
        context = replace(self.context(outer=True), new=None)
        driver = self.process(name)
        make = lambda process: registry.make("magic", context, process.engine)  # noqa: E731
        return await driver.play(self._drive(driver, make, context, files))

    async def _drive(
        self,
        driver: Process,
        committer_of: Callable[[Process], Committer],
        context: JobContext,
        files: tuple[str, ...],
    ) -> Any:
        committer = committer_of(driver)
        setup = await committer.setup_job()
        self.is_set_up = True
        commits = []
        for number, name in enumerate(files):
            worker = self.process(f"worker-{number}")
            attempt = ids.attempt_id(ids.task_id(number), "1")

            async def work(number: int = number, name: str = name, worker: Process = worker) -> Any:
                attempt = ids.attempt_id(ids.task_id(number), "1")
                written = await write_attempt(worker, context, attempt, (f"p={number}/{name}.bin",))
                directory = context.layout.destination
                self.new |= {paths.relative_to(key, directory): body for key, body in written.items()}
                return await committer_of(worker).commit_task(ids.task_id(number), attempt)

            outcome = await worker.play(work())
            if outcome.died or outcome.error is not None:
                driver.actor.dead = True  # the engine gives up
                raise outcome.error or MagicError(f"{attempt} died")
            commits.append(outcome.result)
        return await committer.commit_job(commits, setup.driver)

    async def recover(self, wish: str, name: str = "recovery") -> Outcome:
        process = self.process(name)
        outcome = await process.play(self._settle(process, wish))
        if outcome.error is not None:
            self.violations.append(f"{name} raised {outcome.error!r}")
        return outcome

    async def recover_needlessly(self) -> None:
        """Recover once, as by a timer: it may be refused, and leaves open jobs to their drivers."""
        process = self.process("a recovery that nobody needs")
        await process.play(datasets.recover_jobs(process.engine, Location("memory", BUCKET, DESTINATION)))

    async def compact(self) -> Outcome:
        """Sum the chain of manifests up, whoever else is there."""
        process = self.process("compaction")
        return await process.play(compact_chain(process.engine, Location("memory", BUCKET, DESTINATION)))

    async def _settle(self, process: Process, wish: str) -> set[str]:
        """Recover; returns what the reports say was done with the job."""
        place = Location("memory", BUCKET, DESTINATION)
        reports = []
        if wish == "rollback":
            found = await datasets.recover_jobs(process.engine, place, dry_run=True)
            for one in found.jobs:
                if one.job_id == self.job and one.found not in {"flipped", "ended"}:
                    how: dict[str, Any] = {"abort" if one.found in {"open", "prepared"} else "rollback": True}
                    with suppress(CommitDenied, UsageError):  # it went on, or ended, in the meantime
                        reports.append(
                            await datasets.recover_jobs(process.engine, place, job=self.job, **how)
                        )
        reports.append(await datasets.recover_jobs(process.engine, place))
        if reports[-1].undecided:
            with suppress(CommitDenied):
                reports.append(await datasets.recover_jobs(process.engine, place, abort=True))
            reports.append(await datasets.recover_jobs(process.engine, place))
        return {str(one.action) for report in reports for one in report.jobs if one.job_id == self.job}

    async def settle(self, wish: str, name: str = "recovery") -> None:
        """Recover; and sweep once where the job object is many keys, of which the first goes first."""
        outcome = await self.recover(wish, name)
        if MODELS[self.model].honoured.put_if_match or outcome.died:
            return
        sweeper = self.process("sweeper")
        swept = await sweeper.play(self.committer(sweeper).abort_job((), None))
        if swept.error is not None:
            self.violations.append(f"the sweeper raised {swept.error!r}")

    def stage(self, program: Coroutine[Any, Any, Any], *, seed: str = "0", order: str | None = None) -> Any:
        clock = self.world.clock
        with apart(), virtual_time.deterministic(seed, clock):
            return virtual_time.run(program, seed=order, inline=check_alive)
