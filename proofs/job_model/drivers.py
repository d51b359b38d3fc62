"""Up to the commit point: a driver, the second one that takes over, recover and rollback."""

from __future__ import annotations

from proofs.job_model.moves import Move, execute, go, move, read_job, stop, swap
from proofs.job_model.rules import Rules
from proofs.job_model.world import (
    CHILD,
    Actor,
    JobObject,
    Manifest,
    Request,
    Value,
    is_data,
    pointer_of,
    success_of,
)

__all__ = ["OVERLAPPING"]

OVERLAPPING = ("prepared", "committing", "completed", "reverting")
"""States in which another job may change, or may have read, what a job looks at."""


@move
def _look(me: Actor, _rules: Rules) -> list[Move]:
    """Whoever did not set the job up begins by reading its object."""

    def found(seen: JobObject | None) -> Actor:
        assert seen is not None
        undecided = seen.state in ("open", "prepared")
        if me.role == "second" and undecided:
            return go(me._replace(seen=seen), "take-over")
        if me.role == "rollback" and (undecided or seen.state == "committing"):
            return go(me._replace(seen=seen), "undo")
        if me.role == "rollback" and seen.state == "completed":
            return stop(me)
        return execute(me, seen)

    return read_job(me, found)


@move
def _take_over(me: Actor, rules: Rules) -> list[Move]:
    fresh = {"state": "open", "facts": "", "deletions": (), "success": None, "pointer": None}
    return swap(me, rules, lambda seen: go(me._replace(seen=seen), "begin"), "look", **fresh)


@move
def _begin(me: Actor, _rules: Rules) -> list[Move]:
    """A driver that was taken over stops; one that finds its job decided does what it says."""

    def found(seen: JobObject | None) -> Actor:
        assert seen is not None
        return go(me, "facts") if seen == me.seen else execute(me, seen)

    return read_job(me, found)


@move
def _undo(me: Actor, rules: Rules) -> list[Move]:
    assert me.seen is not None
    state = "reverting" if me.seen.state == "committing" else "aborting"
    return swap(me, rules, lambda seen: execute(me, seen), "look", state=state)


@move
def _facts(me: Actor, _rules: Rules) -> list[Move]:
    request = Request("put", f"{me.job}.facts.{me.facts}", me.facts)
    return [Move(request, lambda _: go(me, "success"))]


@move
def _success(me: Actor, _rules: Rules) -> list[Move]:
    """It is kept, so that a revert can put it back."""
    return [Move(Request("get", success_of(me.job)), lambda found: go(me, "pointer", found))]


@move
def _pointer(me: Actor, _rules: Rules) -> list[Move]:
    return [Move(Request("get", pointer_of(me.job)), lambda found: go(me, "list", *me.notes, found))]


@move
def _list(me: Actor, rules: Rules) -> list[Move]:
    def listed(found: Value) -> Actor:
        assert isinstance(found, tuple)
        data = tuple(one for one in found if is_data(one[0]))
        if me.mode == "error" and data:
            return go(me, "give-up")
        noted = (*me.notes, data if me.mode == "overwrite" else ())
        if me.mode == "append":
            return go(me, "commit", *noted)
        signs = tuple(key for key, _ in found if not is_data(key)) if rules.below_counts else ()
        return go(me, "prepare" if rules.announce_first else "others", *noted, *signs)

    return [Move(Request("list", me.job if me.job == CHILD else ""), listed)]


def _decided(me: Actor) -> dict[str, object]:
    success, pointer, deletions = me.notes[:3]
    return {"facts": me.facts, "deletions": deletions, "success": success, "pointer": pointer}


@move
def _prepare(me: Actor, rules: Rules) -> list[Move]:
    after = "others" if rules.announce_first else "commit"

    def prepared(seen: JobObject) -> Actor:
        return go(me._replace(seen=seen), after, *me.notes)

    return swap(me, rules, prepared, "reread", state="prepared", **_decided(me))


@move
def _others(me: Actor, rules: Rules) -> list[Move]:
    def looked(found: Value) -> Actor:
        assert isinstance(found, tuple)
        if any(one.state in OVERLAPPING for one in found):
            return go(me, "back-out" if rules.announce_first else "give-up", *me.notes)
        if signs := me.notes[3:]:
            # A dataset stays; a job may have ended in a moment.
            is_job = signs == (f"{CHILD}.job",)
            return go(me if is_job else me._replace(files_left=("retried",)), "back-out", *me.notes)
        if me.job == CHILD and me.notes[2]:
            return go(me, "above" if rules.jobs_above else "above-pointer", *me.notes)
        return _alone(me, rules)

    return [Move(Request("jobs", f"{me.job}.job"), looked)]


def _alone(me: Actor, rules: Rules) -> Actor:
    """Nobody else is in the way."""
    if rules.pointer_again:
        return go(me, "again", *me.notes[:3])
    return go(me, "commit" if rules.announce_first else "prepare", *me.notes[:3])


@move
def _above(me: Actor, _rules: Rules) -> list[Move]:
    """Jobs are looked for before manifests: one that has ended in between has published."""

    def looked(found: Value) -> Actor:
        assert isinstance(found, tuple)
        is_free = not any(one.state in OVERLAPPING for one in found)
        return go(me, "above-pointer" if is_free else "back-out", *me.notes)

    return [Move(Request("jobs-above", f"{me.job}.job"), looked)]


@move
def _above_pointer(me: Actor, rules: Rules) -> list[Move]:
    def found(pointer: Value) -> Actor:
        if not isinstance(pointer, tuple) or not rules.named_above:
            return _alone(me, rules)
        return go(me, "above-walk", *me.notes, pointer[0])

    return [Move(Request("get", "pointer"), found)]


@move
def _above_walk(me: Actor, rules: Rules) -> list[Move]:
    *notes, job = me.notes
    deletions = notes[2]

    def found(link: Value) -> Actor:
        assert isinstance(link, Manifest)
        assert isinstance(deletions, tuple)
        if {key for key, _ in link.files} & {key for key, _ in deletions}:
            return go(me._replace(files_left=("retried",)), "back-out", *notes)
        return go(me, "above-walk", *notes, link.previous) if link.previous else _alone(me, rules)

    return [Move(Request("get", f"{job}.manifest"), found)]


@move
def _again(me: Actor, rules: Rules) -> list[Move]:
    def looked(found: Value) -> Actor:
        if found != me.notes[1]:
            return go(me, "back-out" if rules.announce_first else "give-up", *me.notes)
        return go(me, "commit" if rules.announce_first else "prepare", *me.notes)

    return [Move(Request("get", pointer_of(me.job)), looked)]


@move
def _back_out(me: Actor, rules: Rules) -> list[Move]:
    """Nothing is visible yet: try once more, then give up."""

    def out(seen: JobObject) -> Actor:
        if me.files_left:
            return go(me._replace(seen=seen, files_left=()), "give-up")
        return go(me._replace(seen=seen, files_left=("retried",)), "pointer", me.notes[0])

    return swap(me, rules, out, "reread", state="open", deletions=(), success=None, pointer=None, facts="")


@move
def _give_up(me: Actor, rules: Rules) -> list[Move]:
    return swap(me, rules, lambda seen: execute(me, seen), "reread", state="aborting")


@move
def _commit(me: Actor, rules: Rules) -> list[Move]:
    """The commit point."""
    decided = {} if me.seen is not None and me.seen.state == "prepared" else _decided(me)
    return swap(me, rules, lambda seen: execute(me, seen), "reread", state="committing", **decided)
