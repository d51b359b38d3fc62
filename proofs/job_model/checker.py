"""Breadth first through every interleaving: the first violation found has the shortest trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from proofs.job_model import backward, drivers, forward, properties, upkeep
from proofs.job_model.moves import TABLE
from proofs.job_model.rules import Rules
from proofs.job_model.scenes import Scene
from proofs.job_model.world import OK, Actor, JobObject, Request, Value, World, apply

__all__ = ["Result", "Step", "check", "settle", "successors"]

_PROGRAMS = (drivers, forward, backward, upkeep)
_STEPS_MAX = 300


@dataclass(frozen=True, slots=True)
class Step:
    """One request of an interleaving.

    Attributes:
        actor: Position of the executor in the scene; -1 for the late request.
        request: What it asked.
        reply: What it was answered.
        twice: Whether a copy of the request is still on its way.
    """

    actor: int
    request: Request
    reply: Value
    twice: bool = False


@dataclass(slots=True)
class Result:
    """What a check found.

    Attributes:
        scene: Where it started.
        states: Different states.
        transitions: Steps between them.
        violation: What was wrong, in words; None if nothing was.
        trace: The shortest way to it.
        finals: A shortest way to each different end: executors gone, nothing on its way.
    """

    scene: Scene
    states: int = 0
    transitions: int = 0
    violation: str | None = None
    trace: list[Step] = field(default_factory=list)
    finals: list[list[Step]] = field(default_factory=list)

    def tell(self) -> str:
        """The violation and its trace, a line for each step."""
        names = self.scene.names
        lines = [f"{self.scene.name}: {self.violation}"]
        for step in self.trace:
            who = "late request" if step.actor < 0 else names[step.actor]
            verb, key, value, condition = step.request
            what = f"{verb} {key}" + (f" := {_short(value)}" if verb == "put" else "")
            what += f" if {_short(condition)}" if condition is not None else ""
            lines.append(
                f"  {who:10} {what} -> {_short(step.reply)}" + (" (and once more)" if step.twice else "")
            )
        return "\n".join(lines)


def _short(value: Value) -> str:
    if isinstance(value, JobObject):
        return f"{value.state}#{value.version}"
    if value == ():
        return "absent"
    return str(value)


def successors(world: World, scene: Scene, rules: Rules) -> Iterator[tuple[Step, World]]:
    """Every state that one request leads to."""
    for position, actor in enumerate(world.actors):
        if actor.at == "stopped":
            continue
        for request, then in TABLE[actor.at](actor, rules):
            store, reply = apply(world.store, request)
            actors = (*world.actors[:position], then(reply), *world.actors[position + 1 :])
            last = _last(world, scene, request, reply)
            mixed = world.mixed or (not scene.zombies and properties.mixed(store))
            yield Step(position, request, reply), World(store, world.late, last, actors, mixed)
            if world.late is None and request.verb in ("put", "complete"):
                yield Step(position, request, reply, True), World(store, request, last, actors, mixed)
    if isinstance(world.late, Request):
        store, reply = apply(world.store, world.late)
        last = _last(world, scene, world.late, reply)
        yield Step(-1, world.late, reply), World(store, "landed", last, world.actors, world.mixed)


def _last(world: World, scene: Scene, request: Request, reply: Value) -> tuple[tuple[str, JobObject], ...]:
    new, job = request.value, request.key[:1]
    if request.verb != "put" or reply != OK or not isinstance(new, JobObject) or new.version == 0:
        return world.last
    if scene.late_setup and dict(world.last)[job].state == "completed":
        return world.last
    return tuple((name, new if name == job else one) for name, one in world.last)


def check(scene: Scene, rules: Rules, *, states_max: int | None = None) -> Result:
    """Look at every state that can be reached, until one is wrong."""
    result = Result(scene)
    start = scene.begin(fenced=rules.setup_fenced)
    parents: dict[World, tuple[World, Step] | None] = {start: None}
    seen = {_canonical(start)}
    settled: dict[tuple[object, ...], str | None] = {}
    ends: dict[tuple[object, ...], World] = {}
    queue = deque([start])
    while queue:
        world = queue.popleft()
        result.states += 1
        wrong = properties.ever(world, scene) or _at_rest(world, scene, rules, settled)
        if wrong is not None:
            return _violated(result, wrong, _way(world, parents))
        if all(actor.at == "stopped" for actor in world.actors) and not isinstance(world.late, Request):
            ends.setdefault((world.store, world.last), world)
        for step, after in successors(world, scene, rules):
            result.transitions += 1
            wrong = properties.between(world, after, scene)
            if wrong is not None:
                return _violated(result, wrong, [*_way(world, parents), step])
            key = _canonical(after)
            if key not in seen:
                seen.add(key)
                parents[after] = (world, step)
                queue.append(after)
        if states_max is not None and result.states > states_max:
            break
    result.finals = [_way(world, parents) for world in ends.values()]
    return result


def _canonical(world: World) -> tuple[object, ...]:
    return world.store, world.late, world.last, world.mixed, tuple(sorted(world.actors, key=repr))


def _violated(result: Result, wrong: str, trace: list[Step]) -> Result:
    result.violation, result.trace = wrong, trace
    return result


def _way(world: World, parents: dict[World, tuple[World, Step] | None]) -> list[Step]:
    steps = []
    while (link := parents[world]) is not None:
        world, step = link
        steps.append(step)
    return steps[::-1]


def _at_rest(
    world: World, scene: Scene, rules: Rules, settled: dict[tuple[object, ...], str | None]
) -> str | None:
    """What would be wrong if every executor died now and somebody recovered."""
    key = (world.store, world.last, world.late)
    if key not in settled:
        settled[key] = _settles(world, scene, rules)
    return settled[key]


def _settles(world: World, scene: Scene, rules: Rules) -> str | None:
    starts = [world]
    if isinstance(world.late, Request):
        for first in (world, settle(world, scene, rules)):
            store, reply = apply(first.store, world.late)
            starts.append(World(store, "landed", _last(first, scene, world.late, reply), ()))
    for start in starts:
        end = settle(start, scene, rules)
        wrong = properties.at_rest(end.store, dict(end.last), scene)
        if wrong is not None:
            return f"after all died and one recovered: {wrong}"
    return None


def settle(world: World, scene: Scene, rules: Rules) -> World:
    """All executors have died: recover each job, roll back what is undecided, and sweep."""
    for job, _ in scene.jobs:
        for role in ("recover", "rollback"):
            actor = Actor(role, job, "", "", "look")
            for _ in range(_STEPS_MAX):
                if actor.at == "stopped":
                    break
                request, then = TABLE[actor.at](actor, rules)[0]
                store, reply = apply(world.store, request)
                world = World(store, world.late, _last(world, scene, request, reply), ())
                actor = then(reply)
        if scene.swept and f"{job}.job" not in dict(world.store.objects):
            for verb in ("abort", "clean"):
                world = world._replace(store=apply(world.store, Request(verb, job))[0])
    return world
