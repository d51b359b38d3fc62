"""Jobs that flip, cut at every request of theirs, of the recovery and of both; and beside other jobs.

The store is a model of a tree: directories are exchanged in one step, as on local files, or by renames, as
where folders are real. A reader who lists is the witness: before and after every request it sees exactly the
old or exactly the new dataset, and so does a reader of manifests; once new, never old again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from magicfs import datasets
from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.committers.flip import FlipCommitter
from magicfs.errors import CommitDenied, MagicError, ObjectExists, ObjectNotFound, StoreError, UsageError
from magicfs.formats.pending import DEFAULT_ETAG_FORMAT
from magicfs.protocol import flip, ids, paths
from magicfs.protocol.conflict import Conflict
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.stores import exchange_by_renames
from magicfs.stores.conditions import assume
from magicfs.stores.port import Capabilities, Store
from magicfs.stores.tree_port import Entry, Exchange
from magicfs.testing import virtual_time
from magicfs.testing.faulty_store import FaultyStore, FaultyTree, Traffic
from magicfs.testing.store_faults import Actor, Fault, Request
from magicfs.transaction.context import JobContext
from proofs.crash.chain import read_chain
from proofs.crash.processes import Outcome, Process, apart, check_alive
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import MODELS, plain_store, store_of
from proofs.crash.writing import START, Clock, write_attempt

__all__ = ["KINDS", "FlipScene", "Tally", "beside_others", "cut"]

KINDS: Final[dict[str, Exchange]] = {"local": "one step", "gcs": "renames", "azure": "renames"}
"""How directories are exchanged on each model of a store."""

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
_PAST: Final = f"{DESTINATION}/_magicfs/{_PAST_JOB}."
_PART_SIZE: Final = 1 << 20


# -- the store -----------------------------------------------------------------------------------------


class _Tree:
    """Keys of a world as files and directories; a rename of many is one step."""

    name = "model"
    bucket = BUCKET

    def __init__(self, world: SnapshotWorld, how: Exchange) -> None:
        self.world = world
        self.how = how

    async def is_atomic(self) -> bool:
        return True

    async def look(self, path: str) -> Entry | None:
        if path in self.world.objects:
            return Entry(path, "file")
        there = any(key.startswith(f"{path}/") for key in self.world.objects)
        return Entry(path, "directory") if there else None

    async def rename(self, source: str, destination: str) -> None:
        if await self.look(source) is None:
            raise ObjectNotFound("rename", source, "nothing is there")
        if await self.look(destination) is not None:
            raise ObjectExists("rename", destination, "something is there")
        self._move({source: destination})

    async def entries(self, path: str) -> AsyncIterator[Entry]:
        names = {key[len(path) + 1 :] for key in self.world.objects if key.startswith(f"{path}/")}
        for name, slash in sorted({name.partition("/")[:2] for name in names}):
            yield Entry(f"{path}/{name}", "directory" if slash else "file")

    async def how_exchanged(self, _path: str) -> Exchange:
        return self.how

    async def exchange(
        self,
        one: str,
        other: str,
        *,
        leaving: str,
        bringing: str,  # noqa: ARG002 - for renames
    ) -> bool:
        if f"{one}/{leaving}" not in self.world.objects:
            return False
        if await self.look(other) is None:
            raise ObjectNotFound("exchange", other, "nothing is there")
        self._move({one: other, other: one})
        return True

    async def forbid_exchange(self, one: str, other: str, *, leaving: str) -> bool:
        self.world.objects.pop(f"{one}/{leaving}", None)
        return f"{other}/{leaving}" not in self.world.objects

    async def delete(self, path: str) -> bool:
        if any(key.startswith(f"{path}/") for key in self.world.objects):
            raise StoreError("delete", path, "not empty")
        return self.world.objects.pop(path, None) is not None

    async def delete_tree(self, path: str) -> bool:
        found = [key for key in self.world.objects if key == path or key.startswith(f"{path}/")]
        for key in found:
            del self.world.objects[key]
        if self.how == "one step":  # uploads of local files are hidden among them
            for upload_id, upload in [*self.world.uploads.items()]:
                if upload.key.startswith(f"{path}/"):
                    del self.world.uploads[upload_id]
        return bool(found)

    def _move(self, moves: dict[str, str]) -> None:
        def moved(key: str) -> str:
            for source, destination in moves.items():
                if key == source or key.startswith(f"{source}/"):
                    return destination + key[len(source) :]
            return key

        objects = {moved(key): one for key, one in self.world.objects.items()}
        self.world.objects.clear()
        for key, one in objects.items():
            self.world.objects[key] = replace(one, info=replace(one.info, key=key))
        if self.how == "one step":
            for upload in self.world.uploads.values():
                upload.key = moved(upload.key)


class _FaultyTree(FaultyTree):
    """A tree whose exchange by renames is the real one, every rename of it a request."""

    async def exchange(self, one: str, other: str, *, leaving: str, bringing: str) -> bool:
        if self.inner.how == "one step":  # type: ignore[attr-defined]
            found: bool = await self.traffic.send(
                self.actor,
                "exchange",
                one,
                lambda: self.inner.exchange(one, other, leaving=leaving, bringing=bringing),
            )
            return found
        tree: Any = self
        return await exchange_by_renames.exchange(tree, one, other, leaving, bringing)

    async def forbid_exchange(self, one: str, other: str, *, leaving: str) -> bool:
        if self.inner.how == "one step":  # type: ignore[attr-defined]
            found: bool = await self.traffic.send(
                self.actor,
                "forbid_exchange",
                one,
                lambda: self.inner.forbid_exchange(one, other, leaving=leaving),
            )
            return found
        tree: Any = self
        return await exchange_by_renames.forbid(tree, one, other, leaving)


class _FaultyStore(FaultyStore):
    def tree(self) -> Any:
        return _FaultyTree(_Tree(self.world, self.how), self.traffic, self.actor)  # type: ignore[arg-type]

    world: SnapshotWorld
    how: Exchange

    @property
    def capabilities(self) -> Capabilities:
        inner: Capabilities = self.inner.capabilities
        return replace(inner, rename="atomic", exchanges=self.how == "one step")


def _store(world: SnapshotWorld, model: str, traffic: Traffic, actor: Actor) -> Store:
    made = _FaultyStore(store_of(world, model), traffic, actor)
    made.world, made.how = world, KINDS[model]
    found: Any = made
    assume(found, MODELS[model].honoured)
    return found  # type: ignore[no-any-return]


# -- the scene -----------------------------------------------------------------------------------------


def _body(objects: dict[str, Any]) -> dict[str, bytes]:
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
        scene.old = _body(world.objects)
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
        listed = _body(self.world.objects)
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
        made.store = _store(self.world, self.model, self.traffic, made.actor)
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

    async def _settle(self, process: Process, wish: str) -> None:
        place = Location("memory", BUCKET, DESTINATION)
        if wish == "rollback":
            found = await datasets.recover_jobs(process.engine, place, dry_run=True)
            for one in found.jobs:
                if one.job_id == self.job and one.found not in {"flipped", "ended"}:
                    how = "abort" if one.found in {"open", "prepared"} else "rollback"
                    with suppress(CommitDenied, UsageError):  # it went on, or ended, in the meantime
                        await datasets.recover_jobs(process.engine, place, job=self.job, **{how: True})
        report = await datasets.recover_jobs(process.engine, place)
        if report.undecided:
            with suppress(CommitDenied):
                await datasets.recover_jobs(process.engine, place, abort=True)
            await datasets.recover_jobs(process.engine, place)

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


# -- cuts ----------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was tried, and what was seen that must not be."""

    cuts: int = 0
    pairs: int = 0
    worlds: int = 0
    windows: int = 0
    findings: list[str] = field(default_factory=list)

    def take(self, scene: FlipScene, where: str) -> None:
        """Take over what a scene has seen."""
        self.windows = max(self.windows, scene.windows)
        self.findings += [f"{where}: {one}" for one in dict.fromkeys(scene.violations)]


def cut(model: str, conflict: Conflict, *, step: int = 1, pairs: bool = True) -> Tally:
    """Cut a job at every request, recover; cut the recovery at every request, and recover again."""
    tally = Tally()
    whole = FlipScene.begin(model, conflict)
    first = whole.at(whole.world, False)
    first.watch(record=True)
    outcome = first.stage(first.play_flip())
    if outcome.error is not None or outcome.died:
        tally.findings.append(f"{model} {conflict}: the job ended with {outcome.error!r}")
        return tally
    first.check_end(published=True)
    tally.take(first, f"{model} {conflict} whole")
    tally.cuts = first.cuts
    for number, (world, seen) in [*enumerate(first.moments)][::step]:
        for wish in ("forward", "rollback"):
            scene = replace(first, old=whole.old).at(world, seen)
            scene.new = first.new
            scene.watch(record=pairs)
            scene.stage(scene.settle(wish))
            where = f"{model} {conflict} cut {number} {wish}"
            scene.check_end()
            tally.take(scene, where)
            tally.worlds += 1
            for again, (left, new) in enumerate(scene.moments):
                last = scene.at(left, new)
                last.watch()
                last.stage(last.settle("rollback" if again % 3 == 2 else "forward", "second recovery"))
                last.check_end()
                tally.take(last, f"{where} cut {again}")
                tally.worlds += 1
            tally.pairs += scene.cuts
    return tally


# -- beside others -------------------------------------------------------------------------------------


Other = Literal["append", "flip", "rollback"]
"""Who meets a job that flips: a job that publishes file by file, one that flips as well, or a recovery that
takes the job back while its driver is alive."""

_STARTS: Final = 150  # turns of the loop after which the other one begins, at most


def beside_others(model: str, other: Other, seed: int) -> tuple[list[str], str]:
    """A job that flips and somebody else at the same destination, at once, in an order that the seed draws.

    Whoever is told that a job is published finds its files, unless the other one replaced them later; whoever
    is refused finds nothing of it; a job that could be set up is published. Returns what was seen otherwise,
    and how the two ended.
    """
    begun = FlipScene.begin(model, "replace")
    one = begun.at(begun.world, seen_new=False)
    one.alone = other == "rollback"
    one.watch()
    two = replace(one, conflict="append" if other == "append" else "replace", new={}, violations=[])
    if other != "rollback":
        two.job = ids.job_id("7a4c2d1e-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
    two.traffic = one.traffic

    async def both() -> tuple[Outcome, Outcome]:
        async def later() -> Outcome:
            # Every second one begins when the commit point is near: there it matters most.
            near = {"rollback": "/flip.json", "append": "/_SUCCESS", "flip": ""}[other] if seed % 2 else ""
            prefix = flip.listing_prefix(DESTINATION) if other == "append" else DESTINATION
            while near and not any(k.startswith(prefix) and k.endswith(near) for k in [*one.world.objects]):
                if first.done():
                    break
                await asyncio.sleep(0)
            for _ in range(seed * 7 % (_STARTS // 3 if near else _STARTS)):
                await asyncio.sleep(0)
            if other == "rollback":
                return await two.recover("rollback")
            return await (two.play_files("other", ("x",)) if other == "append" else two.play_flip())

        first = asyncio.ensure_future(one.play_flip())
        return await asyncio.gather(first, later())

    outcomes = one.stage(both(), order=str(seed))
    problems = [
        f"{who} ended with {outcome.error!r}"
        for who, outcome in zip(("the flip", "the other"), outcomes, strict=True)
        if outcome.surprising
    ]
    one.stage(one.settle("forward"))
    if other != "rollback":
        two.stage(two.settle("forward"))
    done = [outcome.error is None and not outcome.died for outcome in outcomes]
    if other == "append" and two.is_set_up and not done[1]:
        problems.append(f"the other was set up, and ended with {outcomes[1].error!r}")
    problems += _ended_wrong(one, two, other, done)
    problems += one.violations if other == "rollback" else []
    for scene in (one, two):
        problems += [each for each in scene.violations if "raised" in each]
    problems += [f"{key} is left" for key in one.world.objects if "__magic" in key or "magicfs-" in key]
    problems += [f"an upload of {upload.key} is left" for upload in one.world.uploads.values()]
    return [f"{model} beside {other}, seed {seed}: {each}" for each in problems], str(done)


def _ended_wrong(one: FlipScene, two: FlipScene, other: Other, done: list[bool]) -> Iterator[str]:
    listed = _body(one.world.objects)
    old, flipped, added = one.old, one.new, two.new
    first, second = done
    match other:
        case "append":
            right = [flipped, flipped | added] if first and second else [flipped if first else old | added]
            right = right if first or second else [old]
        case "flip":
            right = [flipped] * first + [added] * second or [old]
        case _:
            right = [flipped if first else old]
    if listed not in right:
        yield f"ended as {done}, and readers see {sorted(listed)}"
    view = read_chain(one.world.objects, DESTINATION)
    known = {paths.relative_to(key, DESTINATION) for key in view.files}
    if view.problem or known != {key for key in listed if key != "p=0/older.bin"}:
        yield f"manifests show {sorted(known)} ({view.problem}), and a listing {sorted(listed)}"
