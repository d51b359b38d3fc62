"""Interleavings of the model, played with the shipped code on a store in memory.

The model says whose request is next. The code makes more requests than the model has, so an executor's turn
lasts until it has made the request that the model names; reads that the model does not have pass at once.
After every request the store is held against the same properties as the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from magicfs.errors import MagicError, StoreError
from magicfs.stores.port import PutMode
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.writing import Clock
from proofs.doubles import virtual_time
from proofs.job_model import properties
from proofs.job_model.checker import Step
from proofs.job_model.jobs import Way
from proofs.job_model.scenes import Scene
from proofs.job_model.stage import START, Stage
from proofs.job_model.turnstile import Label, Turnstile, TurnstileStore
from proofs.job_model.world import JobObject, World

__all__ = ["Played", "Replayer"]

_ROUNDS_MAX = 2000
_PAUSE_S = 0.5
_MOMENT_S = 1e-6


@dataclass(slots=True)
class Played:
    """What a replay found.

    Attributes:
        violation: What was wrong, in words; None if nothing was.
        turns: Steps of the trace.
        unmade: Steps for which the code made no such request.
        states: The last state of each job.
    """

    violation: str | None = None
    turns: int = 0
    unmade: int = 0
    states: dict[str, str] = field(default_factory=dict)


class Replayer:
    """Replays interleavings of one scene.

    Args:
        scene: The scene.
        seed: Of everything random in the code.
        numbered: Whether the store takes If-Match for nothing, so that versions are keys of their own.
        way: How the code makes files visible: to the model a rename or a copy is a complete, and the file
            that is renamed or copied is its upload.
    """

    def __init__(
        self, scene: Scene, seed: int = 0, *, numbered: bool = False, way: Way = "completes"
    ) -> None:
        self.scene = scene
        self.numbered = numbered
        self.way = way
        self._clock = Clock(START)
        with virtual_time.deterministic(seed, self._clock):
            self.stage = virtual_time.run(
                Stage(scene, SnapshotWorld(self._clock), numbered=numbered, way=way).build()
            )

    def play(self, trace: Sequence[Step], *, seed: int = 0, die: bool = False) -> Played:
        """Play one interleaving, let everybody finish or die, recover, and look at what is left.

        Args:
            trace: Whose request is next, and which.
            seed: Of everything random in the code.
            die: Whether executors that have not ended with the trace are dead; otherwise they run on.
        """
        with virtual_time.deterministic(seed, self._clock):
            return virtual_time.run(_Play(self.stage, seed).play(trace, die=die))


class _Play:
    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.scene = stage.scene
        self.world = stage.world.copy()
        self.plain = stage.store(self.world)
        self.turnstiles = [Turnstile(self._look) for _ in self.scene.actors]
        self.tasks: list[asyncio.Task[None] | None] = [None for _ in self.scene.actors]
        self.left: list[Counter[Label]] = [Counter() for _ in self.scene.actors]
        self.late: Callable[[], Awaitable[object]] | None = None
        if self.scene.late_setup:
            key, body, metadata = stage.setup
            self.late = lambda: self.plain.put(key, body, metadata=metadata, mode=PutMode.CREATE)
        self.early = random.Random(seed).random() < 0.5  # noqa: S311 - no secret
        self.now = World(
            stage.seen(self.world),
            "landed",
            tuple((job, JobObject("open", 1)) for job, _ in self.scene.jobs),
            (),
        )
        self.played = Played()
        self.published: set[str] = set()

    async def play(self, trace: Sequence[Step], *, die: bool) -> Played:
        for step in trace:
            if step.actor >= 0:
                self.left[step.actor][_label(step)] += 1
        for step in trace:
            if self.played.violation is not None:
                break
            self.played.turns += 1
            if step.actor < 0:
                await self._land()
            else:
                await self._turn(step)
        if not die:
            for position in range(len(self.tasks)):
                await self._finish(position)
        await self._bury()
        if self.played.violation is None:
            await self._rest()
        self.played.states = {job: one.state for job, one in self.now.last}
        return self.played

    # -- turns -----------------------------------------------------------------------------------------

    async def _turn(self, step: Step) -> None:
        label, position = _label(step), step.actor
        turnstile, left = self.turnstiles[position], self.left[position]
        left[label] -= 1
        task = self._task(position)
        if not label.verb:
            await self._let_reads_pass(position)
            return
        for _ in range(_ROUNDS_MAX):
            await self._idle(position)
            if task.done():
                break
            wanted = next((one for one in turnstile.waiting if _matches(one.label, label)), None)
            if wanted is not None:
                turnstile.let_pass(wanted)
                await asyncio.sleep(_MOMENT_S)
                if step.twice and turnstile.last is not None:
                    self.late = turnstile.last
                await self._let_reads_pass(position)
                return
            reads = [one for one in turnstile.waiting if not one.label.changes]
            # What the model never has this executor do cannot wait for its turn.
            others = reads or [one for one in turnstile.waiting if not _expected(one.label, left)]
            if not others:
                break
            turnstile.let_pass(others[0])
        if label.verb != "abort" or len(label.key) > 1:  # of losers there may be none
            self.played.unmade += 1

    async def _let_reads_pass(self, position: int) -> None:
        """What is no request of the model follows at once."""
        turnstile = self.turnstiles[position]
        for _ in range(_ROUNDS_MAX):
            await asyncio.sleep(_MOMENT_S)
            free = [one for one in turnstile.waiting if not one.label.verb]
            if not free:
                return
            for one in free:
                turnstile.let_pass(one)

    async def _finish(self, position: int) -> None:
        task, turnstile = self._task(position), self.turnstiles[position]
        for _ in range(_ROUNDS_MAX):
            await self._idle(position)
            if task.done():
                return
            if not turnstile.waiting:
                break
            turnstile.let_pass(turnstile.waiting[0])
        self._violated(f"endless: {self.scene.names[position]} does not come to an end")

    def _task(self, position: int) -> asyncio.Task[None]:
        task = self.tasks[position]
        if task is None:
            role, job = self.scene.actors[position]
            label = partial(self.stage.label, who=job)
            store = TurnstileStore(self.plain, self.turnstiles[position], label)
            program = self.stage.program(role, job, store)
            task = self.tasks[position] = asyncio.create_task(program)
        return task

    async def _idle(self, position: int) -> None:
        """Until the executor waits at its turnstile, or has ended; it may pause before it tries again."""
        pause = _MOMENT_S
        for _ in range(_ROUNDS_MAX):
            await asyncio.sleep(pause)
            if self.turnstiles[position].waiting or self._task(position).done():
                return
            pause = _PAUSE_S

    # -- the end ---------------------------------------------------------------------------------------

    async def _land(self) -> None:
        if self.late is not None:
            request, self.late = self.late, None
            with contextlib.suppress(StoreError):
                await request()
            self._look()

    async def _bury(self) -> None:
        """Whoever has not ended is dead, and what it still tries does not reach the store."""
        for position, task in enumerate(self.tasks):
            self.turnstiles[position].dead = True
            if task is None:
                continue
            task.cancel()
            await asyncio.wait([task])
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception) and not isinstance(error, MagicError):
                self._violated(f"surprise: {self.scene.names[position]} ended in {error!r}")

    async def _rest(self) -> None:
        store = TurnstileStore(self.plain, Turnstile(self._look, is_open=True), self.stage.label)
        if self.early:
            await self._land()
        await self.stage.settle(store)
        if self.late is not None:
            await self._land()
            await self.stage.settle(store)
        left = self.now.store
        wrong = properties.at_rest(left, dict(self.now.last), self.scene)
        if wrong is not None:
            self._violated(f"after all died and one recovered: {wrong}")

    # -- looking ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        store = self.stage.seen(self.world)
        if store == self.now.store:
            return
        was, there = dict(self.now.store.objects), dict(store.objects)
        # Setting a job up again that has ended begins a new life of it.
        again = {job for job, _ in self.now.last if f"{job}.job" in there and f"{job}.job" not in was}
        again -= self.published
        old = tuple((job, JobObject("open", 1) if job in again else one) for job, one in self.now.last)
        before = self.now._replace(last=old)
        last = tuple((job, self._last(job, one, there.get(f"{job}.job"))) for job, one in old)
        mixed = before.mixed or (not self.scene.zombies and properties.mixed(store))
        self.now = World(store, "landed", last, (), mixed)
        wrong = properties.between(before, self.now, self.scene) or properties.ever(self.now, self.scene)
        if wrong is not None:
            self._violated(wrong)

    def _last(self, job: str, one: JobObject, there: object) -> JobObject:
        """What a job had come to; once it is published it stays so, whatever a late request brings back."""
        if not isinstance(there, JobObject):
            return one
        if one.state == "completed" and (there.state in ("open", "aborting") or self.scene.late_setup):
            return one
        if there.state == "completed":
            self.published.add(job)
        return there

    def _violated(self, wrong: str) -> None:
        if self.played.violation is None:
            self.played.violation = wrong


def _label(step: Step) -> Label:
    verb, key = step.request.verb, step.request.key
    if verb == "put" and ".facts" in key:
        return Label("", key)
    if verb == "get" and ".facts" in key:
        return Label("", key)
    return Label(verb, "" if verb in ("list", "jobs", "jobs-above", "sums", "clean") else key)


def _matches(made: Label, wanted: Label) -> bool:
    if made.verb != wanted.verb:
        return False
    if made.verb == "abort" and len(wanted.key) == 1:
        return made.key[:1] == wanted.key
    return made.verb == "clean" or made.key == wanted.key


def _expected(made: Label, left: Counter[Label]) -> bool:
    return any(count > 0 and _matches(made, label) for label, count in left.items())
