"""Up to the commit point: a driver, the second one that takes over, recover and rollback."""

from __future__ import annotations

from proofs.job_model.moves import Move, execute, go, move, read_job, stop, swap
from proofs.job_model.rules import Rules
from proofs.job_model.world import Actor, JobObject, Request, Value

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
    return [Move(Request("get", "_SUCCESS"), lambda found: go(me, "pointer", found))]


@move
def _pointer(me: Actor, _rules: Rules) -> list[Move]:
    return [Move(Request("get", "pointer"), lambda found: go(me, "list", *me.notes, found))]


@move
def _list(me: Actor, rules: Rules) -> list[Move]:
    def listed(found: Value) -> Actor:
        assert isinstance(found, tuple)
        if me.mode == "fail" and found:
            return go(me, "give-up")
        noted = (*me.notes, found if me.mode == "replace" else ())
        if me.mode == "append":
            return go(me, "commit", *noted)
        return go(me, "prepare" if rules.announce_first else "others", *noted)

    return [Move(Request("list", ""), listed)]


def _decided(me: Actor) -> dict[str, object]:
    success, pointer, deletions = me.notes
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
        if rules.pointer_again:
            return go(me, "again", *me.notes)
        return go(me, "commit" if rules.announce_first else "prepare", *me.notes)

    return [Move(Request("jobs", f"{me.job}.job"), looked)]


@move
def _again(me: Actor, rules: Rules) -> list[Move]:
    def looked(found: Value) -> Actor:
        if found != me.notes[1]:
            return go(me, "back-out" if rules.announce_first else "give-up", *me.notes)
        return go(me, "commit" if rules.announce_first else "prepare", *me.notes)

    return [Move(Request("get", "pointer"), looked)]


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
