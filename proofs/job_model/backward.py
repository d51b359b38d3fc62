"""Undoing a job that had begun to commit, and the cleaning up that ends every job."""

from __future__ import annotations

from collections.abc import Callable

from proofs.job_model.moves import Move, absent_or, files, go, move, stop, swap
from proofs.job_model.rules import Rules
from proofs.job_model.world import OK, Actor, Request, Value, success_of

__all__ = ["reverting"]


def _upload(me: Actor, key: str) -> str:
    assert me.seen is not None
    return f"{key}{me.seen.facts}"


def reverting(me: Actor, rules: Rules) -> Actor:
    """Where a revert begins, once it knows the job's files."""
    return go(me._replace(files_left=files(me.job)), "revert-abort" if rules.abort_first else "revert-head")


@move
def _revert_abort(me: Actor, rules: Rules) -> list[Move]:
    def aborted(key: str) -> Callable[[Value], Actor]:
        left = tuple(one for one in me.files_left if one != key)
        return lambda _: go(me._replace(files_left=left), "revert-abort") if left else _looking(me, rules)

    return [Move(Request("abort", _upload(me, key)), aborted(key)) for key in me.files_left]


def _looking(me: Actor, rules: Rules) -> Actor:
    if not rules.abort_first:
        return _restoring(me)
    return go(me._replace(files_left=files(me.job)), "revert-head")


@move
def _revert_head(me: Actor, rules: Rules) -> list[Move]:
    """Look at every file; what is there and ours is deleted, and then all are looked at again."""
    key, rest = me.files_left[0], me.files_left[1:]

    def found(value: Value) -> Actor:
        ours = (*me.notes, key) if value == _upload(me, key) else me.notes
        if rest:
            return go(me._replace(files_left=rest), "revert-head", *ours)
        if ours:
            return go(me._replace(files_left=tuple(str(one) for one in ours)), "revert-delete")
        return _looked(me, rules)

    return [Move(Request("get", key), found)]


@move
def _revert_delete(me: Actor, _rules: Rules) -> list[Move]:
    """One request for all of them, which the store carries out one by one."""
    key, rest = me.files_left[0], me.files_left[1:]
    request = Request("delete", key, None, _upload(me, key))
    after = go(me._replace(files_left=rest or files(me.job)), "revert-delete" if rest else "revert-head")
    return [Move(request, lambda _: after)]


def _looked(me: Actor, rules: Rules) -> Actor:
    if not rules.abort_first:
        return go(me._replace(files_left=files(me.job)), "revert-abort")
    return _restoring(me)


def _restoring(me: Actor) -> Actor:
    assert me.seen is not None
    return go(me._replace(files_left=()), "restore-look" if me.seen.success is not None else "reverted")


@move
def _restore_look(me: Actor, rules: Rules) -> list[Move]:
    """The old ``_SUCCESS`` is left with other bytes, so that a delete sent before the revert misses it."""
    assert me.seen is not None
    old = me.seen.success
    fenced = ("restored", old, me.job) if rules.fence_success else old

    def found(value: Value) -> Actor:
        if value is None or (value == old and rules.fence_success):
            return go(me, "restore", value, fenced)
        return go(me, "reverted")

    return [Move(Request("get", success_of(me.job)), found)]


@move
def _restore(me: Actor, rules: Rules) -> list[Move]:
    value, fenced = me.notes
    request = Request("put", success_of(me.job), fenced, absent_or(value))
    again = "restore-look" if rules.restore_again else "reverted"
    return [Move(request, lambda answer: go(me, "reverted" if answer == OK else again))]


@move
def _reverted(me: Actor, rules: Rules) -> list[Move]:
    """Nothing is left but work objects: from here on the facts may go."""
    return swap(
        me, rules, lambda seen: go(me._replace(seen=seen), "losers"), "reread", facts="", success=None
    )


# -- the end of every job ------------------------------------------------------------------------------


@move
def _losers(me: Actor, rules: Rules) -> list[Move]:
    """Abort what is left of the job's uploads; in the model this is one request."""
    return [Move(Request("abort", me.job), lambda _: go(me, "clean" if rules.object_last else "end"))]


@move
def _clean(me: Actor, rules: Rules) -> list[Move]:
    return [Move(Request("clean", me.job), lambda _: go(me, "end") if rules.object_last else stop(me))]


@move
def _end(me: Actor, rules: Rules) -> list[Move]:
    request = Request("delete", f"{me.job}.job", None, me.seen)
    after = stop(me) if rules.object_last else go(me, "clean")
    return [Move(request, lambda answer: after if answer == OK else go(me, "reread"))]
