"""Jobs of ``file`` and ``manifest`` as a model of its own: each interleaving of their requests, each death.

One task has two files, and two attempts: ``x``, and ``y``, which an engine has given up, or which is late.
Files become visible by renames, which take their source away, or by copies, which leave it; when the job
commits, or when the task does (algorithm 2 of ``file``). An executor is at one request of its program, and
may die before each: so at every state all of them are taken for dead, a recovery ends the job, or discards it
if it is still open, and what is left is looked at.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from proofs.job_model.explore import Model, Moves
from proofs.job_model.rename_world import (
    KEYS,
    RENAME_SCENES,
    Actor,
    Job,
    Kind,
    RenameRules,
    RenameScene,
    World,
)

__all__ = ["RENAMES"]

_BREAKS: Final = MappingProxyType(
    {
        "swap": "renames, driver, rollback",
        "read_back": "renames, driver, recover",
        "replaced_forward": "renames, driver, rollback over replaced names",
        "copies_forward": "copies, driver, rollback",
        "sources_first": "renames, driver, rollback",
        "work_first": "copies, driver, recover, later",
        "into_directory": "renames, driver, late",
        "exclusive": "renames by tasks, x, y, driver",
        "found_counts": "renames by tasks, x, lister",
        "moves_rest": "copies by tasks, x, lister",
    }
)
"""For every rule a scene that goes wrong without it."""

_Next = tuple[World, Actor]
_MOVES: Final = Moves()
_move = _MOVES.add
_FIRST: Final = MappingProxyType({"lister": "driver", "x": "claim-look", "y": "claim-look"})
"""The first request of those whose program has another name."""


def _stop(world: World, me: Actor) -> _Next:
    return world, Actor(me.role, "stopped")


def _swap(world: World, me: Actor, rules: RenameRules, state: str, facts: str = "") -> _Next:
    """Move the job object, and do what it says then; who comes too late reads it again."""
    assert me.seen is not None
    if (rules.swap and world.job != me.seen) or world.job is None:
        return world, me._replace(at="recover")
    job = Job(state, facts or me.seen.facts, world.job.number + 1)
    if state == "completed":
        world = world._replace(published=job.facts)
    return _execute(world._replace(job=job), me, job, rules)


def _execute(world: World, me: Actor, job: Job, rules: RenameRules) -> _Next:
    me = me._replace(seen=job, facts=job.facts, left=KEYS, found=())
    if job.state == "committing":
        skips = world.kind.by_tasks and not rules.moves_rest
        return world, me._replace(at="completed" if skips else "rename")
    if job.state == "reverting":
        return world, me._replace(at="discard-sources" if rules.sources_first else "take-back-look")
    return world, me._replace(at="remove-work" if rules.work_first else "end")


# -- tasks ---------------------------------------------------------------------------------------------


@_move
def _late(world: World, me: Actor, rules: RenameRules) -> _Next:
    """Save the manifest of an attempt that nobody waits for."""
    if rules.into_directory and not world.has_directory:
        return _stop(world.without_sources("y"), me)
    if world.job is None:
        world = world._replace(wrong="a task was told that it has committed, and its job had ended")
    return _stop(world._replace(sets=world.sets | {"y"}), me)


@_move
def _claim_look(world: World, me: Actor, _: RenameRules) -> _Next:
    """Whether the job is open, and the task nobody's."""
    if world.job is None or world.job.state != "open" or world.sets:
        return world, me._replace(at="give-up")
    return world, me._replace(at="claim")


@_move
def _claim(world: World, me: Actor, rules: RenameRules) -> _Next:
    if rules.exclusive and world.sets:
        return world, me._replace(at="give-up")
    return world._replace(sets=world.sets | {me.role}), me._replace(at="claim-look-again")


@_move
def _claim_look_again(world: World, me: Actor, rules: RenameRules) -> _Next:
    """What the job has come to meanwhile; and if it has begun to commit, whether it publishes the claim."""
    job = world.job
    found = job is not None and job.state in {"committing", "completed"} and job.facts == me.role
    if job is not None and (job.state == "open" or (found and rules.found_counts)):
        return world, me._replace(at="publish", left=KEYS)
    return world, me._replace(at="withdraw")


@_move
def _withdraw(world: World, me: Actor, _: RenameRules) -> _Next:
    return world._replace(sets=world.sets - {me.role}), me._replace(at="give-up")


@_move
def _give_up(world: World, me: Actor, _: RenameRules) -> _Next:
    return _stop(world.without_sources(me.role), me)


@_move
def _publish(world: World, me: Actor, _: RenameRules) -> _Next:
    """Make one file visible, when its task commits."""
    key, left = me.left[0], me.left[1:]
    source = f"{me.role}{key}"
    if source in world.sources:
        world = _made_visible(world, me.role, key)
    elif world.shows(key) != me.role:
        return _stop(world, me)
    if left:
        return world, me._replace(left=left)
    world = world._replace(told=world.told | {me.role})
    return (world, me._replace(at="give-up")) if world.kind.copies else _stop(world, me)


def _made_visible(world: World, attempt: str, key: str) -> World:
    left = world.sources if world.kind.copies else world.sources - {f"{attempt}{key}"}
    return world._replace(sources=left).with_file(key, attempt)


# -- who commits the job, and who comes after him ------------------------------------------------------


@_move
def _driver(world: World, me: Actor, _: RenameRules) -> _Next:
    """Wait for what tasks have committed: what they have told, or what a listing shows."""
    if world.job is None or world.job.state != "open":
        return world, me._replace(at="recover")
    there = world.sets if me.role == "lister" else world.told
    if not there:
        return world, me
    return world, me._replace(at="commit-point", seen=world.job, facts=min(there))


@_move
def _commit_point(world: World, me: Actor, rules: RenameRules) -> _Next:
    return _swap(world, me, rules, "committing", me.facts)


@_move
def _rename(world: World, me: Actor, rules: RenameRules) -> _Next:
    key = me.left[0]
    if f"{me.facts}{key}" not in world.sources:
        return world, me._replace(at="read-back" if rules.read_back else "fail")
    return _one_done(_made_visible(world, me.facts, key), me)


@_move
def _read_back(world: World, me: Actor, _: RenameRules) -> _Next:
    """A copy is told by its length alone."""
    there = world.shows(me.left[0])
    is_there = there == me.facts or (world.kind.copies and there not in {"", "old"})
    return _one_done(world, me) if is_there else (world, me._replace(at="fail"))


def _one_done(world: World, me: Actor) -> _Next:
    left = me.left[1:]
    return world, me._replace(at="rename" if left else "completed", left=left)


@_move
def _completed(world: World, me: Actor, rules: RenameRules) -> _Next:
    return _swap(world, me, rules, "completed")


def _only_forward(kind: Kind, rules: RenameRules) -> bool:
    return (kind.copies and rules.copies_forward) or (kind.equal and rules.replaced_forward)


@_move
def _fail(world: World, me: Actor, rules: RenameRules) -> _Next:
    if world.job != me.seen:
        return world, me._replace(at="recover")
    return _stop(world, me) if _only_forward(world.kind, rules) else _swap(world, me, rules, "reverting")


@_move
def _recover(world: World, me: Actor, rules: RenameRules) -> _Next:
    """What a recovery does: it leaves what is open, and brings everything else to its end."""
    if world.job is None or world.job.state == "open":
        return _stop(world, me)
    return _execute(world, me, world.job, rules)


@_move
def _rollback(world: World, me: Actor, rules: RenameRules) -> _Next:
    job = world.job
    if job is None or (job.state == "committing" and _only_forward(world.kind, rules)):
        return _stop(world, me)
    if job.state in {"open", "committing"}:
        return world, me._replace(at="undo", seen=job)
    return _execute(world, me, job, rules)


@_move
def _undo(world: World, me: Actor, rules: RenameRules) -> _Next:
    assert me.seen is not None
    if world.job != me.seen:
        return world, me._replace(at="rollback")
    return _swap(world, me, rules, "aborting" if me.seen.state == "open" else "reverting")


# -- taking back, and cleaning up ----------------------------------------------------------------------


@_move
def _discard_sources(world: World, me: Actor, rules: RenameRules) -> _Next:
    after = "take-back-look" if rules.sources_first else "remove-work"
    return world.without_sources(me.facts), me._replace(at=after)


@_move
def _take_back_look(world: World, me: Actor, rules: RenameRules) -> _Next:
    """Look at every file, until a whole round finds none; what was copied nothing tells from others'."""
    key, left = me.left[0], me.left[1:]
    ours = world.shows(key) == me.facts and not world.kind.copies
    me = me._replace(found=(*me.found, key) if ours else me.found, left=left)
    if left:
        return world, me
    if me.found:
        return world, me._replace(at="take-back")
    return world, me._replace(at="remove-work" if rules.sources_first else "discard-sources")


@_move
def _take_back(world: World, me: Actor, _: RenameRules) -> _Next:
    key, found = me.found[0], me.found[1:]
    if world.shows(key) == me.facts:
        world = world.with_file(key, "")
    if found:
        return world, me._replace(found=found)
    return world, me._replace(at="take-back-look", left=KEYS, found=())


@_move
def _remove_work(world: World, me: Actor, _: RenameRules) -> _Next:
    return world.without_sources(), me._replace(at="remove-manifests")


@_move
def _remove_manifests(world: World, me: Actor, rules: RenameRules) -> _Next:
    world = world._replace(sets=frozenset(), has_directory=False)
    return (world, me._replace(at="end")) if rules.work_first else _stop(world, me)


@_move
def _end(world: World, me: Actor, rules: RenameRules) -> _Next:
    if world.job is not None and world.job != me.seen:
        return world, me._replace(at="recover")
    world = world._replace(job=None)
    return _stop(world, me) if rules.work_first else (world, me._replace(at="remove-work"))


@_move
def _later(world: World, me: Actor, _: RenameRules) -> _Next:
    """A later job, which replaces all that is there, once this one has ended."""
    if world.job is not None or not world.published:
        return world, me
    return _stop(world._replace(shown=frozenset(), is_replaced=True), me)


# -- the check -----------------------------------------------------------------------------------------


def _begin(scene: RenameScene) -> World:
    kind, roles = scene
    sources = {f"{one}{key}" for one in ("x", "y") for key in KEYS}
    actors = tuple(Actor(role, _FIRST.get(role, role)) for role in roles)
    committed = frozenset[str]() if kind.by_tasks else frozenset({"x"})
    shown = frozenset((key, "old") for key in KEYS) if kind.equal else frozenset[tuple[str, str]]()
    return World(kind, Job(), committed, frozenset(sources), shown, actors, told=committed)


def _wrong(world: World, scene: RenameScene) -> str | None:
    job, old = world.job, _begin(scene).shown
    writers = {its for _, its in world.shown} - {"old"}
    if world.wrong:
        return world.wrong
    if len(writers) > 1:
        return "two attempts of one task are visible"
    if world.is_replaced:
        return "a file is back that a later job has replaced" if world.shown else None
    if world.published:
        lost = [key for key in KEYS if world.shows(key) != world.published]
        return f"file {lost[0]} of a published job is not there" if lost else None
    if job is not None and job.state == "reverting" and "rollback" not in scene.roles:
        return "a job is taken back, and nobody had asked for that"
    if job is not None and job.state == "committing":
        for key in KEYS:
            if world.shows(key) != job.facts and f"{job.facts}{key}" not in world.sources:
                return f"a job has begun to commit, and file {key} is gone"
    is_changing = job is not None and job.state in {"committing", "reverting"}
    if not is_changing and not world.kind.by_tasks and world.shown != old:
        return "the destination changed without a job that was committed"
    return None


def _judge(world: World, scene: RenameScene, rules: RenameRules) -> tuple[str | None, str]:
    if (wrong := _wrong(world, scene)) is not None:
        return wrong, ""
    for role in ("recover", "rollback"):
        world = _MOVES.alone(world, Actor(role, role), rules)
        if (wrong := _wrong(world, scene)) is not None:
            return wrong, ""
    if world.job is not None:
        return "nobody can end the job", ""
    return None, world.published or "".join(sorted({its for _, its in world.shown} - {"old"}))


RENAMES: Final = Model(RenameRules(), RENAME_SCENES, _BREAKS, _MOVES, _begin, _judge)
