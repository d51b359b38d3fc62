"""A destination that keeps what is replaced, and somebody who changes it: a job, a rollback, an expiry.

The past is three jobs. The first brings ``a`` and ``b``; the second replaces them by ``c`` and keeps them for
a day; the third replaces the partition of ``c`` by ``d`` and keeps ``c`` for a week. Two days later the time
of ``a`` and ``b`` is over, and nobody has expired them.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from magicfs import datasets
from magicfs.datasets.abort import abort_job
from magicfs.errors import CommitDenied, UsageError
from magicfs.formats import deletions
from magicfs.manifests.kept import place_aside
from magicfs.past.compact import compact_chain
from magicfs.past.drop import DropReport, Order, drop_files
from magicfs.past.expire import ExpireReport, expire_kept
from magicfs.past.rollback import roll_back
from magicfs.past.tags import set_tag
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.report import JobReport
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.crash.chain import View, read_chain
from proofs.crash.history import document_of, newest
from proofs.crash.past_deeds import (
    A_AND_B,
    AFTER_ROLLBACK,
    DAY_MS,
    DROPS,
    EXPIRES,
    FIRST,
    FOURTH,
    IN_PLACE,
    JOBS,
    KEEPS,
    NEIGHBOURS,
    PARTITION,
    PLACE,
    ROLLBACKS,
    SHOWN_AGAIN,
    C,
    D,
    Deed,
    named,
    original,
    outcome_of,
)
from proofs.crash.past_programs import publish, rewrite
from proofs.crash.processes import Outcome, Process, apart, check_alive
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import MODELS, plain_store
from proofs.crash.writing import DESTINATION, START, Clock
from proofs.doubles import virtual_time

__all__ = ["PastScene"]


def _is_aside(key: str) -> bool:
    return key.startswith(f"{DESTINATION}/_magicfs/kept/")


@dataclass
class PastScene:
    """One world with a past, and one who does something to it.

    Attributes:
        model: The name of the model of the store.
        deed: What is done.
        world: The world.
        job: The id of the job, if it is one.
        old: What readers of manifests see before.
        new: What they see afterwards.
        promised: What must be there all the time.
        over: What is there until it is expired.
        violations: What must not be.
        seen_new: Whether readers have seen the new state.
        alone: Whether nobody else is there, so that there are only two states.
        moments: Worlds before and after each request, without repetitions.
        cuts: How many requests' sides these stand for.
    """

    model: str
    deed: Deed
    world: SnapshotWorld
    job: JobId
    old: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    promised: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()
    bodies: dict[str, bytes] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    seen_new: bool = False
    alone: bool = True
    neighbours: dict[str, bytes] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    moments: list[tuple[SnapshotWorld, bool]] = field(default_factory=list)
    cuts: int = 0

    @classmethod
    def begin(cls, model: str, deed: Deed) -> Self:
        """The world before the deed."""
        world = SnapshotWorld(Clock(START))
        scene = cls(model, deed, world, JobId("0000000f-8a4b-4f0e-9d5a-0c1b2a3d4e5f"))
        if scene.keeps_versions:
            world.keep_every_version()
        scene.stage(scene._past(), seed="past")
        world.clock.now += 2 * DAY_MS / 1000  # type: ignore[attr-defined]
        scene.old, scene.promised, scene.over = D, C, A_AND_B
        if deed in AFTER_ROLLBACK:
            scene.stage(scene._show_again(), seed="shown again")
            scene.old = A_AND_B
        if deed == "rollback to what is marked":
            scene.stage(scene._mark(), seed="marked")
            scene.old, scene.promised, scene.over = named(("p=0/e.bin",), FOURTH), C | A_AND_B, frozenset()
        scene.new = outcome_of(deed, scene.job, scene.old)
        scene.bodies = {
            name: [*world.held(paths.join(DESTINATION, name)), *scene.aside(name)][0]
            for name in (*A_AND_B, *C, *scene.old)
        }
        scene.neighbours = {key: world.objects[key].body for key in NEIGHBOURS}
        return scene

    async def _past(self) -> None:
        store = plain_store(self.world, self.model)
        for key in NEIGHBOURS:
            await store.put(key, f"{key} is others'".encode())
        for job, mode, files, days in (
            (JOBS[0], "append", FIRST, 0),
            (JOBS[1], "overwrite", ("p=0/c.bin",), 1),
            (JOBS[2], "overwrite_partitions", ("p=0/d.bin",), 7),
        ):
            earlier = self.process("earlier")
            outcome = await earlier.play(
                publish(earlier, job, mode, files, keep_days=days, in_place=self.deed in IN_PLACE)  # type: ignore[arg-type]
            )
            assert outcome.error is None, outcome

    async def _show_again(self) -> None:
        earlier = self.process("earlier")
        outcome = await earlier.play(roll_back(earlier.engine, PLACE, to=f"job:{JOBS[0]}", job=SHOWN_AGAIN))
        assert outcome.error is None, outcome

    async def _mark(self) -> None:
        """A job keeps the files once more, and an expiry dies that has marked the first promise."""
        earlier = self.process("earlier")
        job = publish(earlier, FOURTH, "overwrite", ("p=0/e.bin",), keep_days=7, in_place=True)
        outcome = await earlier.play(job)
        assert outcome.error is None, outcome
        pointer = f"{DESTINATION}/_magicfs/current"
        # The first write of the pointer only asks for the time.
        self.traffic = Traffic([Fault(Kind.CRASH_AFTER, operation="put", prefix=pointer, skip=1)])
        expiry = self.process("expiry")
        assert (await expiry.play(expire_kept(expiry.engine, PLACE))).died

    def at(self, world: SnapshotWorld, seen_new: bool) -> Self:
        """The scene at a moment, all processes dead."""
        copy = SnapshotWorld(Clock(world.clock()), world)
        return replace(
            self, world=copy, seen_new=seen_new, violations=[], moments=[], cuts=0, traffic=Traffic()
        )

    def watch(self, *faults: Fault, record: bool = False) -> None:
        """Let requests pass a new traffic, the readers looking after each."""

        def after(request: Request) -> None:
            if request.changes:
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

    # -- what is seen ------------------------------------------------------------------------------

    def view(self) -> tuple[View, frozenset[str]]:
        """What the chain shows, as it stands in the store."""
        view = read_chain(self.world.objects, DESTINATION)
        return view, frozenset(paths.relative_to(key, DESTINATION) for key in view.files)

    @property
    def keeps_versions(self) -> bool:
        """Whether the bucket keeps versions."""
        return MODELS[self.model].keeps_versions

    def meant(self, shown: frozenset[str]) -> frozenset[str]:
        """Names of files, with those of the files of the past in place of their copies."""
        return frozenset(original(name) for name in shown)

    def there(self, name: str) -> bool:
        """Whether readers of manifests find a file, and it is what was written."""
        found = [*self.world.held(paths.join(DESTINATION, name)), *self.aside(name)]
        body = self.bodies.get(original(name))
        return body in found if body is not None else bool(found)

    def aside(self, name: str) -> list[bytes]:
        """What lies where jobs have moved a file, as the pointer and their lists say."""
        places = [place_aside(DESTINATION, job, name) for job in self._keeping() if self._lists(job, name)]
        return [self.world.objects[key].body for key in places if key in self.world.objects]

    def _lists(self, job: str, name: str) -> bool:
        """Whether a list of a job says that it has moved a file aside."""
        start = f"{DESTINATION}/_magicfs/{job}/kept-"
        lists = [
            deletions.read(key, one.body) for key, one in self.world.objects.items() if key.startswith(start)
        ]
        return any(one.aside and one.key == name for objects in lists for one in objects)

    def look(self) -> None:
        """What readers see now."""
        view, named = self.view()
        shown = self.meant(named)
        if view.problem:
            self.violations.append(f"the chain: {view.problem}")
        if missing := [name for name in named if not self.there(name)]:
            self.violations.append(f"readers of manifests miss {missing}")
        if missing := [name for name in self.promised if not self.there(name)]:
            self.violations.append(f"{missing} is gone before its time")
        if not self.alone:
            return
        if self.deed not in EXPIRES and (gone := [name for name in self.over if not self.there(name)]):
            self.violations.append(f"{gone} is gone, and nobody has expired it")
        if shown not in (self.old, self.new):
            self.violations.append(f"readers of manifests see neither old nor new: {sorted(shown)}")
        if shown == self.new and shown != self.old:
            self.seen_new = True
        elif self.seen_new:
            self.violations.append("readers of manifests see the old dataset again")

    def check_end(self, *, done: bool = False) -> None:
        """What must hold once everything has been brought to its end; ``done``: whether the deed was done."""
        self.look()
        expires = self.deed in EXPIRES
        if done and not expires and not self.seen_new:
            self.violations.append("it said that it was done, and readers see the old dataset")
        kept = self.promised if expires else self.promised | self.over
        if self.seen_new and self.deed in KEEPS:
            kept |= self.old
            if self._keeping() <= set(JOBS):
                self.violations.append("the pointer does not name the job that keeps")
        if done and self.deed == "expire" and self._keeping() != {JOBS[2]}:
            self.violations.append(f"all is expired, and the pointer names {sorted(self._keeping())}")
        if done and self.deed == "expire":
            self._check_gone(self.over)
        self.violations += [f"{name} was to be kept" for name in kept if not self.there(name)]
        if self.keeps_versions and (copies := [key for key in self.world.objects if _is_aside(key)]):
            self.violations.append(f"{copies} lie aside, where versions are kept")
        self.check_listing()
        marked = f"{DESTINATION}/_SUCCESS" in self.world.objects
        if marked == (self.seen_new and self.deed == "unmarked"):
            self.violations.append(f"_SUCCESS is {'' if marked else 'not '}there")

    def _check_gone(self, names: frozenset[str]) -> None:
        """Neither a version of these files is left, nor a marker, nor a file aside."""
        left = [name for name in names if self.world.contents.versions.get(paths.join(DESTINATION, name))]
        left += [key for key in self.world.objects for name in names if _is_aside(key) and key.endswith(name)]
        if left:
            self.violations.append(f"all is expired, and {sorted(left)} are left")

    def _keeping(self) -> set[str]:
        pointer = newest(self.world.objects, f"{DESTINATION}/_magicfs/current")
        assert pointer is not None
        return {one["jobId"] for one in document_of(pointer.body).get("keeping", ())}

    def check_listing(self) -> None:
        """Nothing is listed but what is shown, or kept in place; nothing is left of any work."""
        _, shown = self.view()
        kept = self.promised | self.over if self.deed in IN_PLACE else frozenset()
        listed = {
            paths.relative_to(key, DESTINATION)
            for key in self.world.objects
            if paths.is_under(key, DESTINATION) and paths.is_visible(key, DESTINATION)
        }
        if more := listed - shown - kept:
            self.violations.append(f"{sorted(more)} is listed, which nobody shows")
        if missing := shown - listed:
            self.violations.append(f"{sorted(missing)} is not there")
        self.violations += [f"{key} is left" for key in self.world.objects if "/__magic" in key]
        self.violations += [f"an upload of {one.key} is left" for one in self.world.uploads.values()]
        for key, body in self.neighbours.items():
            if self.world.objects.get(key) is None or self.world.objects[key].body != body:
                self.violations.append(f"{key} was others', and has changed")

    # -- processes ---------------------------------------------------------------------------------

    def process(self, name: str) -> Process:
        """A new process."""
        return Process(name, self.world, self.traffic, self.model)

    async def play(self, name: str = "driver") -> Outcome:
        """Do it."""
        process = self.process(name)
        return await process.play(self.program(process))

    def program(self, process: Process) -> Coroutine[Any, Any, JobReport | ExpireReport | DropReport | None]:
        """What is done, as a process does it; a second call is the same call again."""
        if self.deed in ROLLBACKS:
            how = {**ROLLBACKS[self.deed], "run_id": "the rollback", "job": self.job}
            return roll_back(process.engine, PLACE, **how)
        match self.deed:
            case "expire" | "expire what is shown":
                return expire_kept(process.engine, PLACE)
            case "partitions":
                return publish(process, self.job, "overwrite_partitions", ("p=0/x.bin",))
            case "keep":
                return publish(process, self.job, "overwrite", ("p=0/x.bin",), keep_days=7)
            case "unmarked":
                return publish(process, self.job, "overwrite", ("p=0/x.bin",), success_marker=False)
            case "drop" | "drop what is promised":
                order = Order.of(partitions=PARTITION)
                return drop_files(process.engine, PLACE, order=order, run_id="the drop", job=self.job)
            case "rewrite":
                return rewrite(process, self.job, None)
            case _:
                return rewrite(process, self.job, 7 * DAY_MS)

    def compact(self, process: Process) -> Coroutine[Any, Any, Any]:
        """Sum the chain up."""
        return compact_chain(process.engine, PLACE)

    def tag(self, process: Process) -> Coroutine[Any, Any, str]:
        """Name the first job."""
        return set_tag(process.engine, PLACE, name="gold", as_of=f"job:{JOBS[0]}", move=True)

    @property
    def name(self) -> str:
        """What is done, for people."""
        return self.deed

    @property
    def is_call(self) -> bool:
        """Whether it is one call, which can be made again."""
        return self.deed in {*EXPIRES, *ROLLBACKS, *DROPS}

    def beside(self, job: JobId, deed: Deed) -> Self:
        """Another one who does something in the same world at once."""
        other = replace(self, job=job, deed=deed, violations=[], moments=[])
        other.traffic = self.traffic
        return other

    async def recover_only(self, process: Process) -> None:
        """Recover once, as by a timer: jobs that are open are left to their drivers."""
        await datasets.recover_jobs(process.engine, PLACE)

    async def settle(self, wish: str, name: str = "recovery") -> Outcome:
        """Bring what somebody has left to its end: ``forward``, ``back``, or by the same call, ``again``."""
        process = self.process(name)
        if wish == "again" and self.is_call:
            self.job = JobId(f"{name[0].encode().hex():0>8}-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
            outcome = await process.play(self.program(process))
            if outcome.error is not None:
                self.violations.append(f"the same call again raised {outcome.error!r}")
            if outcome.died:
                return outcome
            process = self.process(name)
        outcome = await process.play(self._recover(process, wish))
        if outcome.error is not None:
            self.violations.append(f"{name} raised {outcome.error!r}")
        return outcome

    async def _recover(self, process: Process, wish: str) -> None:
        """Until nothing is unfinished."""
        store = plain_store(self.world, self.model)
        if wish == "back":
            found = await datasets.recover_jobs(process.engine, PLACE, dry_run=True)
            for one in found.jobs:
                back = one.found not in {"open", "prepared"}
                with suppress(CommitDenied, UsageError):
                    await datasets.recover_jobs(
                        process.engine, PLACE, job=one.job_id, abort=not back, rollback=back
                    )
        report = await datasets.recover_jobs(process.engine, PLACE)
        for one in report.jobs if report.undecided else ():
            with suppress(UsageError):  # one of a run that was called again has ended with the other
                await datasets.recover_jobs(process.engine, PLACE, job=one.job_id, abort=True)
        if MODELS[self.model].honoured.put_if_match:
            return
        # Where versions of a job object are keys of their own, the first goes first: a sweep ends the rest.
        left = [one.key async for one in store.list(f"{DESTINATION}/__magic_job-")]
        names = {paths.relative_to(key, DESTINATION).split("/")[0] for key in left}
        for name in sorted(names):
            await abort_job(process.engine, PLACE, job=name.removeprefix("__magic_job-"))

    def stage(self, program: Coroutine[Any, Any, Any], *, seed: str = "0", order: str | None = None) -> Any:
        """Run a program in this world, in virtual time."""
        with apart(), virtual_time.deterministic(seed, self.world.clock):
            return virtual_time.run(program, seed=order, inline=check_alive)
