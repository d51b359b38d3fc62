"""Quarantine and acceptance as a model of its own: every interleaving of their requests, and every death.

A job's tasks have committed ``judged``; one that is late commits ``late`` as well. Its driver judges the job,
and the audit fails. An executor is at one request of its program, and may die before each: so at every state
all of them are taken for dead, what a recovery leaves is looked at, and then both what accepting the job and
what discarding it come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from proofs.job_model.explore import Model, Moves

__all__ = ["AUDITS"]

_OLD: Final = frozenset({"old"})
_JUDGED: Final = frozenset({"judged"})
_RERUN: Final = frozenset({"run again"})


@dataclass(frozen=True, slots=True)
class AuditRules:
    """All true: the protocol. One false: what goes wrong without that rule.

    Attributes:
        judge_first: The driver judges the job before its commit point.
        facts_first: What was judged is written down before the job object says that it is held.
        hold: Whoever was not told to accept it leaves a job that is held.
        ask_token: A job that was accepted is committed only by who says that it is its driver.
        own_token: Who accepts a job becomes its driver.
        accept_judged: What was judged is published, and not what lies there.
        accept_held: Nobody accepts a job that was not judged.
        swap: A job object is moved only from the version that was read.
        leave: A recovery leaves a job that is held.
        end_of_run: A job of the same run discards one that is held.
        look_at_run: A job of the same run looks for its rivals' end before it publishes.
        keep_said: The manifest says who accepted the job.
        remember: The job object says from its beginning that the job is to be judged.
        unjudged_facts: Who accepts a job that was not judged writes down what lies there.
    """

    judge_first: bool = True
    facts_first: bool = True
    hold: bool = True
    ask_token: bool = True
    own_token: bool = True
    accept_judged: bool = True
    accept_held: bool = True
    swap: bool = True
    leave: bool = True
    end_of_run: bool = True
    look_at_run: bool = True
    keep_said: bool = True
    remember: bool = True
    unjudged_facts: bool = True


class Job(NamedTuple):
    """The job object: its state, whose it is, what it names as judged, what was said; and its version."""

    state: str = "open"
    driver: str = "driver"
    facts: frozenset[str] = frozenset()
    held: bool = False
    accepted: bool = False
    number: int = 0

    def moved(self, **changes: object) -> Job:
        """The next version."""
        return self._replace(number=self.number + 1, **changes)  # type: ignore[arg-type]


class Actor(NamedTuple):
    """An executor: its program, its next request, and what it has read."""

    role: str
    at: str
    seen: Job | None = None
    output: frozenset[str] = frozenset()


class World(NamedTuple):
    """What lies in the store, and where everybody is."""

    job: Job | None
    sets: frozenset[str]
    shown: frozenset[str]
    says_accepted: bool
    published: frozenset[str]
    lost: bool
    actors: tuple[Actor, ...]
    right: frozenset[str] = _JUDGED  # what was judged, or accepted as it lay there


_SCENES: Final = MappingProxyType(
    {
        "judge": ("driver",),
        "judge, accept": ("driver", "accept"),
        "judge, accept and late": ("driver", "accept", "late"),
        "judge, driver again and late": ("driver", "driver again", "late"),
        "judge, accept, driver again and late": ("driver", "accept", "driver again", "late"),
        "judge, accept, stranger and late": ("driver", "accept", "stranger", "late"),
        "judge, accept and accept": ("driver", "accept", "accept"),
        "judge, accept and discard": ("driver", "accept", "discard"),
        "judge, accept and recover": ("driver", "accept", "recover"),
        "judge, accept and run again": ("driver", "accept", "rerun"),
        "judge, accept, discard and run again": ("driver", "accept", "discard", "rerun"),
        "judge, commit": ("driver", "commit"),
        "judge, accept unjudged and late": ("driver", "accept unjudged", "late"),
        "judge, accept unjudged, accept and late": ("driver", "accept unjudged", "accept", "late"),
    }
)
"""Who is there."""

_BREAKS: Final = MappingProxyType(
    {
        "judge_first": "judge",
        "facts_first": "judge",
        "hold": "judge, driver again and late",
        "ask_token": "judge, accept, stranger and late",
        "own_token": "judge, accept, driver again and late",
        "accept_judged": "judge, accept and late",
        "accept_held": "judge, accept",
        "swap": "judge, accept and discard",
        "leave": "judge, accept and recover",
        "end_of_run": "judge, accept and run again",
        "look_at_run": "judge, accept and run again",
        "keep_said": "judge, accept",
        "remember": "judge, commit",
        "unjudged_facts": "judge, accept unjudged, accept and late",
    }
)
"""For every rule a scene that goes wrong without it."""

_Next = tuple[World, Actor]
_MOVES: Final = Moves()
_move = _MOVES.add
_FIRST: Final = MappingProxyType(
    {
        "driver": "driver-read",
        "driver again": "again-read",
        "stranger": "again-read",
        "accept": "accept-read",
        "accept unjudged": "unjudged-read",
        "rerun": "rerun-read",
    }
)
"""The first request of those whose program has another name."""


def _stop(world: World, me: Actor) -> _Next:
    return world, Actor(me.role, "stopped")


def _swapped(world: World, me: Actor, rules: AuditRules, **changes: object) -> World | None:
    """The world with the job object moved; None if it is another version than was read."""
    assert me.seen is not None
    if rules.swap and world.job != me.seen:
        return None
    base = world.job or me.seen
    return world._replace(job=base.moved(**changes))


# -- its driver, whose audit fails ---------------------------------------------------------------------


@_move
def _driver_read(world: World, me: Actor, rules: AuditRules) -> _Next:
    """Read the job object and the sets that the driver has heard of; the rules do not let them pass."""
    job = world.job
    if job is None or job.state != "open" or job.held or job.driver != "driver":
        return _stop(world, me)
    after = "driver-hold" if rules.judge_first else "commit-point"
    return world, me._replace(at=after, seen=world.job, output=_JUDGED)


@_move
def _driver_hold(world: World, me: Actor, rules: AuditRules) -> _Next:
    facts = me.output if rules.facts_first else frozenset()
    new = _swapped(world, me, rules, driver="nobody", held=True, facts=facts)
    if new is None or rules.facts_first:
        return _stop(new or world, me)
    return new, me._replace(at="driver-write-down", seen=new.job)


@_move
def _driver_write_down(world: World, me: Actor, rules: AuditRules) -> _Next:
    return _stop(_swapped(world, me, rules, facts=me.output) or world, me)


# -- another try of the driver, and one who has no token -----------------------------------------------


@_move
def _again_read(world: World, me: Actor, rules: AuditRules) -> _Next:
    """Commit what lies there; before it was judged that is another job as any."""
    job = world.job
    if job is None or job.state != "open" or not (job.held or job.accepted):
        return world, me if job is not None and job.state == "open" else Actor(me.role, "stopped")
    if job.held and rules.hold:
        return _stop(world, me)
    if me.role == "driver again" and job.driver != "driver" and rules.hold:
        return _stop(world, me)
    if me.role == "stranger" and rules.ask_token:
        return _stop(world, me)
    return world, me._replace(at="commit-point", seen=job, output=world.sets)


# -- who accepts it ------------------------------------------------------------------------------------


@_move
def _accept_read(world: World, me: Actor, rules: AuditRules) -> _Next:
    job = world.job
    if job is None or job.state != "open":
        return _stop(world, me)
    if rules.accept_held and not (job.held or job.accepted):
        return world, me
    output = job.facts if rules.accept_judged else world.sets
    return world, me._replace(at="accept-move", seen=job, output=output)


@_move
def _accept_move(world: World, me: Actor, rules: AuditRules) -> _Next:
    driver = f"accept {world.job.number if world.job else 0}" if rules.own_token else "driver"
    new = _swapped(world, me, rules, driver=driver, held=False, accepted=True)
    if new is None:
        return _stop(world, me)
    return new, me._replace(at="commit-point", seen=new.job)


@_move
def _unjudged_read(world: World, me: Actor, _: AuditRules) -> _Next:
    """Accept a job that nobody has judged, as it lies there."""
    job = world.job
    if job is None or job.state != "open" or job.held or job.accepted:
        return _stop(world, me)
    return world, me._replace(at="unjudged-move", seen=job, output=world.sets)


@_move
def _unjudged_move(world: World, me: Actor, rules: AuditRules) -> _Next:
    facts = me.output if rules.unjudged_facts else frozenset()
    new = _swapped(world, me, rules, driver="accept unjudged", accepted=True, facts=facts)
    if new is None:
        return _stop(world, me)
    return new._replace(right=me.output), me._replace(at="commit-point", seen=new.job)


# -- who commits it without a reason, its driver being dead --------------------------------------------


@_move
def _commit(world: World, me: Actor, rules: AuditRules) -> _Next:
    job = world.job
    if job is None or job.state != "open" or job.held or job.accepted or rules.remember:
        return _stop(world, me)
    return world, me._replace(at="commit-point", seen=job, output=world.sets)


# -- from the commit point on, whoever it is -----------------------------------------------------------


@_move
def _commit_point(world: World, me: Actor, rules: AuditRules) -> _Next:
    new = _swapped(world, me, rules, state="committing", facts=me.output)
    if new is None:
        return _stop(world, me)
    return new, me._replace(at="publish", seen=new.job)


@_move
def _publish(world: World, me: Actor, rules: AuditRules) -> _Next:
    assert me.seen is not None
    if world.job is None and rules.swap:
        return _stop(world, me)
    return _published(world, me.seen, rules), me._replace(at="end")


def _published(world: World, job: Job, rules: AuditRules) -> World:
    lost = world.lost or not job.facts <= world.sets
    says = rules.keep_said and job.accepted
    done = world.published | {"job"}
    return world._replace(shown=job.facts, says_accepted=says, published=done, lost=lost)


@_move
def _end(world: World, me: Actor, _: AuditRules) -> _Next:
    return _stop(world._replace(job=None, sets=frozenset()), me)


# -- the others ----------------------------------------------------------------------------------------


@_move
def _late(world: World, me: Actor, _: AuditRules) -> _Next:
    """A task that commits late."""
    if world.job is None:
        return _stop(world, me)
    return _stop(world._replace(sets=world.sets | {"late"}), me)


@_move
def _discard(world: World, me: Actor, _: AuditRules) -> _Next:
    if world.job is None or world.job.state not in {"open", "aborting"}:
        return _stop(world, me)
    return world, me._replace(at="discard-move", seen=world.job)


@_move
def _discard_move(world: World, me: Actor, rules: AuditRules) -> _Next:
    new = _swapped(world, me, rules, state="aborting")
    return _stop(world, me) if new is None else (new, me._replace(at="end"))


@_move
def _recover(world: World, me: Actor, rules: AuditRules) -> _Next:
    """What a recovery does: it leaves what is open, and brings everything else to its end."""
    if world.job is None:
        return _stop(world, me)
    if world.job.state == "open":
        left = rules.leave or not world.job.held
        return _stop(world, me) if left else (world, me._replace(at="discard-move", seen=world.job))
    if world.job.state == "aborting":
        return world, me._replace(at="end")
    return world, me._replace(at="publish", seen=world.job)


@_move
def _rerun_read(world: World, me: Actor, rules: AuditRules) -> _Next:
    """Another job of the same run, whose own object stands; it ends the other one first."""
    job = world.job
    if job is None:
        published = "job" in world.published and rules.look_at_run
        return _stop(world, me) if published else (world, me._replace(at="rerun-publish"))
    if job.state == "committing" and rules.look_at_run:
        return world, me._replace(at="publish", seen=job)
    if not rules.end_of_run and job.held:
        return world, me._replace(at="rerun-publish")
    return world, me._replace(at="rerun-end", seen=job)


@_move
def _rerun_end(world: World, me: Actor, rules: AuditRules) -> _Next:
    new = _swapped(world, me, rules, state="aborting")
    if new is None:
        return world, me._replace(at="rerun-read", seen=None)
    return new._replace(job=None, sets=frozenset()), me._replace(at="rerun-publish")


@_move
def _rerun_publish(world: World, me: Actor, _: AuditRules) -> _Next:
    done = world.published | {"rerun"}
    return _stop(world._replace(shown=_RERUN, says_accepted=False, published=done), me)


# -- the check -----------------------------------------------------------------------------------------


def _actor(role: str) -> Actor:
    return Actor(role, _FIRST.get(role, role))


def _begin(roles: tuple[str, ...]) -> World:
    return World(Job(), _JUDGED, _OLD, False, frozenset(), False, tuple(_actor(role) for role in roles))


def _wrong(world: World) -> str | None:
    if len(world.published) > 1:
        return "one run is published twice"
    if world.lost:
        return "readers miss files of a job that was discarded"
    if world.shown - _OLD - _RERUN:
        if not world.says_accepted:
            return "readers see a job that nobody has accepted"
        if world.shown != world.right:
            return f"readers see {sorted(world.shown)}, which nobody has judged"
    elif "job" in world.published and world.shown != _RERUN:
        return "a job was published without its files"
    return None


def _judge(world: World, _: object, rules: AuditRules) -> tuple[str | None, frozenset[frozenset[str]]]:
    if (wrong := _wrong(world)) is not None:
        return wrong, frozenset()
    was_held = world.job is not None and world.job.held and world.job.state == "open"
    left = _MOVES.alone(world, _actor("recover"), rules)
    if was_held and left.job != world.job:
        return "a recovery has touched a job that is held", frozenset()
    ends = set()
    for wish in ("accept", "discard"):
        ended = _MOVES.alone(left, _actor(wish), rules)
        if wish == "discard" and (ended.job is not None or ended.sets):
            return "something is left of a job that was discarded", frozenset()
        if wish == "accept" and was_held and ended.shown != _JUDGED:
            return "a job that is held cannot be accepted", frozenset()
        if (wrong := _wrong(ended)) is not None:
            return wrong, frozenset()
        ends.add(ended.shown)
    return None, frozenset(ends)


AUDITS: Final = Model(AuditRules(), _SCENES, _BREAKS, _MOVES, _begin, _judge)
