"""From the commit point to the end: what everybody does who finds a job ``committing`` or ``completed``."""

from __future__ import annotations

from proofs.job_model.backward import reverting
from proofs.job_model.moves import Move, absent_or, execute, files, go, move, read_job, stop, swap, uploads
from proofs.job_model.rules import Rules
from proofs.job_model.world import (
    ANY,
    OK,
    REFUSED,
    Absent,
    Actor,
    JobObject,
    Manifest,
    Request,
    Value,
    is_sum,
    pointer_of,
    success_of,
)

__all__: list[str] = []


def _seen(me: Actor) -> JobObject:
    assert me.seen is not None
    return me.seen


@move
def _load(me: Actor, rules: Rules) -> list[Move]:
    seen = _seen(me)
    after = {"committing": _committing, "completed": lambda it, _: _finishing(it), "reverting": reverting}[
        seen.state
    ]
    request = Request("get", f"{me.job}.facts.{seen.facts}")
    return [Move(request, lambda found: go(me, "facts-gone") if found is None else after(me, rules))]


@move
def _facts_gone(me: Actor, rules: Rules) -> list[Move]:
    """Only cleaning up deletes facts, last but one: the job has ended, or has only to be cleaned."""

    def found(seen: JobObject | None) -> Actor:
        assert seen is not None
        if seen.state == "completed" and rules.facts_gone_is_cleaned:
            return go(me._replace(seen=seen, files_left=()), "losers")
        return stop(me) if seen == me.seen else execute(me, seen)

    return read_job(me, found)


def _committing(me: Actor, rules: Rules) -> Actor:
    if _seen(me).deletions and not rules.delete_last:
        return go(me._replace(files_left=tuple(key for key, _ in _seen(me).deletions)), "delete")
    if not rules.success_last:
        return go(me, "success-early")
    return _starting(me, rules)


def _starting(me: Actor, rules: Rules) -> Actor:
    if not rules.success_first or not rules.success_last:
        return _completing(me)
    if rules.hide_any:
        return go(me, "hide-look")
    return go(me, "hide") if _seen(me).success is not None else _completing(me)


def _completing(me: Actor) -> Actor:
    return go(me._replace(files_left=uploads(me.job, _seen(me).facts)), "complete")


@move
def _success_early(me: Actor, rules: Rules) -> list[Move]:
    return [Move(Request("put", success_of(me.job), me.job), lambda _: _starting(me, rules))]


@move
def _hide_look(me: Actor, _rules: Rules) -> list[Move]:
    """What is there now may be younger than what was there when the job was prepared."""

    def found(value: Value) -> Actor:
        if value is None:
            return _completing(me)
        return go(me, "hide") if value == _seen(me).success else go(me, "hide-keep", value)

    return [Move(Request("get", success_of(me.job)), found)]


@move
def _hide_keep(me: Actor, rules: Rules) -> list[Move]:
    """A revert puts back what is recorded, so it is recorded before it is deleted."""
    return swap(me, rules, lambda seen: go(me._replace(seen=seen), "hide"), "reread", success=me.notes[0])


@move
def _hide(me: Actor, rules: Rules) -> list[Move]:
    request = Request("delete", success_of(me.job), None, _seen(me).success)

    def answered(answer: Value) -> Actor:
        return go(me, "hide-look") if answer == REFUSED and rules.hide_any else _completing(me)

    return [Move(request, answered)]


def _one_done(me: Actor, upload: str) -> Actor:
    left = tuple(one for one in me.files_left if one != upload)
    return go(me._replace(files_left=left), "complete" if left else "completed")


@move
def _complete(me: Actor, rules: Rules) -> list[Move]:
    """The files of a job are completed at the same time: any of them may be next."""

    def moved(upload: str) -> Move:
        def answered(answer: Value) -> Actor:
            if answer == OK:
                return _one_done(me, upload)
            return go(me, "head", upload) if rules.read_back else go(me, "fail")

        return Move(Request("complete", upload), answered)

    return [moved(upload) for upload in me.files_left]


@move
def _head(me: Actor, _rules: Rules) -> list[Move]:
    upload = str(me.notes[0])
    return [
        Move(
            Request("get", upload[:2]),
            lambda found: _one_done(me, upload) if found == upload else go(me, "fail"),
        )
    ]


@move
def _fail(me: Actor, rules: Rules) -> list[Move]:
    me = me._replace(files_left=())
    return swap(me, rules, lambda seen: execute(me, seen), "reread", state="reverting")


@move
def _completed(me: Actor, rules: Rules) -> list[Move]:
    return swap(me, rules, lambda seen: _finishing(me._replace(seen=seen)), "reread", state="completed")


# -- the point of no return is passed ------------------------------------------------------------------


def _finishing(me: Actor) -> Actor:
    return go(me._replace(files_left=()), "chain-new")


def _job_of(pointer: Value) -> str:
    return str(pointer[0]) if isinstance(pointer, tuple) else ""


@move
def _chain_new(me: Actor, rules: Rules) -> list[Move]:
    """At first the manifest is taken for new."""

    def found(pointer: Value) -> Actor:
        return _published(me, rules) if _job_of(pointer) == me.job else go(me, "manifest", pointer, *me.notes)

    return [Move(Request("get", pointer_of(me.job)), found)]


@move
def _manifest(me: Actor, _rules: Rules) -> list[Move]:
    pointer, adopted = me.notes[0], me.notes[1:]
    link = Manifest(me.job, _job_of(pointer), False, "", adopted)  # type: ignore[arg-type]
    if (seen := me.seen) is not None:
        link = link._replace(files=tuple((key, f"{key}{seen.facts}") for key in files(me.job)))
        if seen.deletions:
            link = link._replace(hides=True, replaced=_job_of(seen.pointer))
    request = Request("put", f"{me.job}.manifest", link, Absent())
    return [
        Move(
            request,
            lambda answer: go(me, "chain-read") if answer == REFUSED else go(me, "chain-swap", link, pointer),
        )
    ]


@move
def _chain_read(me: Actor, _rules: Rules) -> list[Move]:
    """The manifest is read before the pointer: a link that is made in between is then never undone."""
    return [Move(Request("get", f"{me.job}.manifest"), lambda found: go(me, "chain-pointer", found))]


@move
def _chain_pointer(me: Actor, rules: Rules) -> list[Move]:
    link = me.notes[0]
    assert isinstance(link, Manifest)

    def found(pointer: Value) -> Actor:
        head = _job_of(pointer)
        if head == me.job:
            return _published(me, rules)
        if head and head != link.previous and rules.walk_always:
            return go(me, "chain-walk", link, pointer, head)
        return _relink(me, link, pointer)

    return [Move(Request("get", pointer_of(me.job)), found)]


def _relink(me: Actor, link: Value, pointer: Value) -> Actor:
    assert isinstance(link, Manifest)
    return go(me, "chain-swap" if link.previous == _job_of(pointer) else "chain-relink", link, pointer)


@move
def _chain_walk(me: Actor, rules: Rules) -> list[Move]:
    """Somebody may have published the job already, and others after it."""
    link, pointer, job = me.notes
    assert isinstance(link, Manifest)

    def found(other: Value) -> Actor:
        assert isinstance(other, Manifest)
        if other.previous == me.job:
            return _published(me, rules)
        if other.previous in ("", link.previous):
            return _relink(me, link, pointer)
        return go(me, "chain-walk", link, pointer, other.previous)

    return [Move(Request("get", f"{job}.manifest"), found)]


@move
def _chain_relink(me: Actor, _rules: Rules) -> list[Move]:
    link, pointer = me.notes
    assert isinstance(link, Manifest)
    new = link._replace(previous=_job_of(pointer))
    return [
        Move(
            Request("put", f"{me.job}.manifest", new, link),
            lambda answer: go(me, "chain-swap", new, pointer) if answer == OK else go(me, "chain-read"),
        )
    ]


@move
def _chain_swap(me: Actor, rules: Rules) -> list[Move]:
    _, pointer = me.notes
    nonce = int(pointer[1]) + 1 if isinstance(pointer, tuple) else 0
    condition = absent_or(pointer) if rules.pointer_match else ANY
    refused = "chain-read" if me.seen is not None else "adopt-remove"
    return [
        Move(
            Request("put", pointer_of(me.job), (me.job, nonce), condition),
            lambda answer: _published(me, rules) if answer == OK else go(me, refused),
        )
    ]


def _published(me: Actor, rules: Rules) -> Actor:
    if me.seen is None:
        return stop(me)  # what was adopted is no job
    files_left = tuple(key for key, _ in _seen(me).deletions)
    if files_left and rules.delete_last:
        return go(me._replace(files_left=files_left), "delete")
    return _succeeding(me)


@move
def _delete(me: Actor, rules: Rules) -> list[Move]:
    key, rest = me.files_left[0], me.files_left[1:]

    def gone(_: Value) -> Actor:
        if rest:
            return go(me._replace(files_left=rest), "delete")
        after = me._replace(files_left=())
        return _starting(after, rules) if _seen(me).state == "committing" else _succeeding(after)

    return [Move(Request("delete", key, None, dict(_seen(me).deletions)[key]), gone)]


def _succeeding(me: Actor) -> Actor:
    return go(me, "success-new")


@move
def _success_new(me: Actor, rules: Rules) -> list[Move]:
    request = Request("put", success_of(me.job), me.job, Absent())
    refused = "success-look" if rules.head_success else "losers"
    return [Move(request, lambda answer: go(me, "losers" if answer == OK else refused))]


@move
def _success_look(me: Actor, _rules: Rules) -> list[Move]:
    def found(value: Value) -> Actor:
        if value is None:
            return go(me, "success-new")
        return go(me, "losers") if value == me.job else go(me, "success-head", value)

    return [Move(Request("get", success_of(me.job)), found)]


@move
def _success_head(me: Actor, _rules: Rules) -> list[Move]:
    """Only the head of the chain speaks for the dataset, over what is there."""

    def found(pointer: Value) -> Actor:
        if is_sum(_job_of(pointer)):
            return go(me, "success-sum", *me.notes, _job_of(pointer))
        return go(me, "success-over", *me.notes) if _job_of(pointer) == me.job else go(me, "losers")

    return [Move(Request("get", pointer_of(me.job)), found)]


@move
def _success_sum(me: Actor, _rules: Rules) -> list[Move]:
    """A sum is no job: the one right below it is the head."""
    success, name = me.notes

    def found(link: Value) -> Actor:
        is_head = isinstance(link, Manifest) and link.previous == me.job
        return go(me, "success-over", success) if is_head else go(me, "losers")

    return [Move(Request("get", f"{name}.manifest"), found)]


@move
def _success_over(me: Actor, _rules: Rules) -> list[Move]:
    request = Request("put", success_of(me.job), me.job, me.notes[0])
    return [Move(request, lambda answer: go(me, "losers" if answer == OK else "success-look"))]
