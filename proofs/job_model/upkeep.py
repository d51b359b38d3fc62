"""Looking after a destination: ``compact`` and ``adopt``, beside jobs and beside each other."""

from __future__ import annotations

from proofs.job_model.moves import Move, go, move, stop
from proofs.job_model.properties import shown
from proofs.job_model.rules import Rules
from proofs.job_model.world import ANY, OK, Absent, Actor, Manifest, Request, Value, is_sum

__all__: list[str] = []


# -- compact -------------------------------------------------------------------------------------------


@move
def _compact(me: Actor, _rules: Rules) -> list[Move]:
    def found(pointer: Value) -> Actor:
        return go(me, "compact-walk", pointer, pointer[0]) if isinstance(pointer, tuple) else stop(me)

    return [Move(Request("get", "pointer"), found)]


@move
def _compact_walk(me: Actor, rules: Rules) -> list[Move]:
    """Down to the last sum, or to the end of the chain."""
    pointer, *known, job = me.notes

    def found(link: Value) -> Actor:
        if not isinstance(link, Manifest):
            return stop(me)  # the chain is broken
        links = (*known, link)
        if link.previous and not is_sum(link.job):
            return go(me, "compact-walk", pointer, *links, link.previous)
        if len(links) == 1:
            return stop(me)  # there is nothing to sum up
        return go(me, "compact-write", pointer, _sum(me, links, rules), *links)

    return [Move(Request("get", f"{job}.manifest"), found)]


def _sum(me: Actor, links: tuple[Value, ...], rules: Rules) -> Manifest:
    known = {link.job: link for link in links if isinstance(link, Manifest)}
    newest = next(iter(known))
    name = f"sum-{me.job}-{newest}" if rules.sum_own_name else f"sum-{newest}"
    files = shown(newest, known)
    assert files is not None
    return Manifest(name, newest, True, newest, tuple(sorted(files.items())))


@move
def _compact_write(me: Actor, _rules: Rules) -> list[Move]:
    total = me.notes[1]
    assert isinstance(total, Manifest)
    request = Request("put", f"{total.job}.manifest", total, Absent())
    return [Move(request, lambda _: go(me, "compact-link", *me.notes))]


@move
def _compact_link(me: Actor, rules: Rules) -> list[Move]:
    pointer, total, *links = me.notes
    assert isinstance(total, Manifest)
    assert isinstance(pointer, tuple)
    new = (total.job, int(pointer[1]) + 1)

    def answered(answer: Value) -> Actor:
        return go(me, "compact-tidy", total, *links) if answer == OK else go(me, "compact-remove", total)

    return [Move(Request("put", "pointer", new, pointer if rules.sum_match else ANY), answered)]


@move
def _compact_remove(me: Actor, _rules: Rules) -> list[Move]:
    """Another job was linked there: begin again with what is new."""
    total = me.notes[0]
    assert isinstance(total, Manifest)
    return [Move(Request("delete", f"{total.job}.manifest", None, total), lambda _: go(me, "compact"))]


@move
def _compact_tidy(me: Actor, rules: Rules) -> list[Move]:
    """Sums of compactions that died: of a job that has another link right above it."""
    links = [link for link in me.notes if isinstance(link, Manifest)]
    taken = {link.previous: link.job for link in links}

    def listed(found: Value) -> Actor:
        assert isinstance(found, tuple)
        left = [one for one in found if one != links[0].job]
        if rules.tidy_passed:
            left = [one for one in left if taken.get(one.rpartition("-")[2], one) != one]
        return _tidying(me._replace(files_left=tuple(left)))

    return [Move(Request("sums", ""), listed)]


def _tidying(me: Actor) -> Actor:
    return go(me, "compact-delete") if me.files_left else stop(me)


@move
def _compact_delete(me: Actor, _rules: Rules) -> list[Move]:
    name, rest = me.files_left[0], me.files_left[1:]
    return [Move(Request("delete", f"{name}.manifest"), lambda _: _tidying(me._replace(files_left=rest)))]


# -- adopt ---------------------------------------------------------------------------------------------


@move
def _adopt(me: Actor, _rules: Rules) -> list[Move]:
    return [Move(Request("get", "pointer"), lambda pointer: go(me, "adopt-list", pointer))]


@move
def _adopt_list(me: Actor, rules: Rules) -> list[Move]:
    """Listed before the manifests are read: what a job publishes meanwhile is then known by its manifest."""
    after = "adopt-jobs" if rules.adopt_looks else "adopt-chain"
    return [Move(Request("list", ""), lambda found: go(me, after, *me.notes, found))]


@move
def _adopt_jobs(me: Actor, _rules: Rules) -> list[Move]:
    def looked(found: Value) -> Actor:
        return stop(me) if found else go(me, "adopt-chain", *me.notes)

    return [Move(Request("jobs", ""), looked)]


@move
def _adopt_chain(me: Actor, rules: Rules) -> list[Move]:
    def found(pointer: Value) -> Actor:
        if not isinstance(pointer, tuple):
            return _adopting(me, rules)
        return go(me, "adopt-walk", *me.notes, pointer[0])

    return [Move(Request("get", "pointer"), found)]


@move
def _adopt_walk(me: Actor, rules: Rules) -> list[Move]:
    """What any manifest names is adopted by nobody, hidden ones too: what was replaced must not come back."""
    before, files, job = me.notes

    def found(link: Value) -> Actor:
        if not isinstance(link, Manifest):
            return stop(me)  # the chain is broken
        assert isinstance(files, tuple)
        named = dict(link.files)
        left = tuple(one for one in files if one[0] not in named)
        if link.previous:
            return go(me, "adopt-walk", before, left, link.previous)
        return _adopting(go(me, "", before, left), rules)

    return [Move(Request("get", f"{job}.manifest"), found)]


def _adopting(me: Actor, rules: Rules) -> Actor:
    if not me.notes[1]:
        return stop(me)
    return go(me, "adopt-list-again" if rules.adopt_list_again else "adopt-pointer", *me.notes)


@move
def _adopt_list_again(me: Actor, _rules: Rules) -> list[Move]:
    """A job that has ended since the first listing may have removed what that has shown."""
    before, files = me.notes
    assert isinstance(files, tuple)

    def listed(found: Value) -> Actor:
        assert isinstance(found, tuple)
        left = tuple(one for one in files if one in found)
        return go(me, "adopt-pointer", before, left) if left else stop(me)

    return [Move(Request("list", ""), listed)]


@move
def _adopt_pointer(me: Actor, _rules: Rules) -> list[Move]:
    before, files = me.notes
    assert isinstance(files, tuple)

    def found(pointer: Value) -> Actor:
        return go(me, "manifest", pointer, *files) if pointer == before else stop(me)

    return [Move(Request("get", "pointer"), found)]


@move
def _adopt_remove(me: Actor, _rules: Rules) -> list[Move]:
    """Another job was linked there, and may have replaced what was to be adopted."""
    return [Move(Request("delete", f"{me.job}.manifest"), lambda _: stop(me))]
