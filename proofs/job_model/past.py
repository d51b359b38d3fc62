"""Rollback, rewrite, drop and expire as a model of its own: each interleaving of their requests, each death.

The destination shows ``new``. An earlier job keeps ``old``, whose time is over, another one keeps ``held``,
whose time is not. A rollback shows ``old`` again, an expiry deletes it, a job replaces what is shown, another
one adds ``added``. Where the bucket keeps versions ``old`` is one of them, and a rollback shows a copy of it,
``copied``. A rewrite puts ``larger``, with the same rows, in the place of ``new``, a drop nothing. An
executor is at one request of its program, and may die before each: so at every state all of them are taken
for dead, what a recovery and then an expiry do is done, and the end is looked at, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from proofs.job_model.explore import Model, Moves

__all__ = ["PAST"]

OLD, NEW, HELD = "old", "new", "held"
_KEEPS: Final = MappingProxyType({"J2": OLD, "J3": HELD})
"""What each of the earlier jobs keeps."""
_OVER: Final = "J2"
LARGER, ADDED, COPIED = "larger", "added", "copied"
_BRINGS: Final = MappingProxyType(
    {
        "rollback": OLD,
        "copy": COPIED,
        "overwrite": "newer",
        "rewrite": LARGER,
        "drop": "",
        "append": ADDED,
    }
)
_NAMES: Final = ("rewrite", "drop")
"""Jobs that name the files that they replace."""


@dataclass(frozen=True, slots=True)
class PastRules:
    """All true: the protocol. One false: what goes wrong without that rule.

    Attributes:
        mark_first: An expiry marks in the pointer what it deletes, before it looks at anything.
        look_for_rollbacks: An expiry gives way to a rollback that has announced itself.
        look_at_shown: An expiry leaves what is shown when it looks.
        look_again: What is shown an expiry reads after it has looked for rollbacks, not before.
        mark_lasts: The mark goes after the deletions.
        mark_matches: The pointer is marked only over the version that was read.
        see_mark: A rollback refuses to show what is marked.
        announce_first: A rollback announces itself before it reads the pointer for the last time.
        pointer_again: A rollback reads the pointer once more after it has announced itself.
        look_whether_there: A rollback that has announced itself looks whether its files are there.
        leave_kept: A job leaves what an earlier one keeps.
        link_keeps: Who moves the pointer to its manifest leaves in it who keeps files.
        same_files: A rewrite replaces only files that are shown when it commits.
        leave_added: A job that names the files that it replaces hides no others.
        delete_named: Nor does it delete others.
        copy_first: A rollback to a version copies it before it commits.
    """

    mark_first: bool = True
    look_for_rollbacks: bool = True
    look_at_shown: bool = True
    look_again: bool = True
    mark_lasts: bool = True
    mark_matches: bool = True
    see_mark: bool = True
    announce_first: bool = True
    pointer_again: bool = True
    look_whether_there: bool = True
    leave_kept: bool = True
    link_keeps: bool = True
    same_files: bool = True
    leave_added: bool = True
    delete_named: bool = True
    copy_first: bool = True


class Pointer(NamedTuple):
    """The pointer: what its chain shows, who keeps files, whose are marked, and a number of its own."""

    shown: frozenset[str]
    keeping: frozenset[str]
    marked: frozenset[str]
    number: int

    def moved(self, **changes: frozenset[str]) -> Pointer:
        """The next version."""
        return self._replace(number=self.number + 1, **changes)


class Actor(NamedTuple):
    """An executor: its program, its next request, and the pointer and the file list that it has read."""

    role: str
    at: str
    seen: Pointer | None = None
    gone: frozenset[str] = frozenset()


class Job(NamedTuple):
    """A job object: whose, its state, and what the job deletes."""

    role: str
    state: str
    deletes: frozenset[str] = frozenset()


class World(NamedTuple):
    """What lies in the store, and where everybody is."""

    files: frozenset[str]
    pointer: Pointer
    jobs: frozenset[Job]
    actors: tuple[Actor, ...]


_SCENES: Final = MappingProxyType(
    {
        "rollback": ("rollback",),
        "expire": ("expire",),
        "rollback and expire": ("rollback", "expire"),
        "rollback and two expiries": ("rollback", "expire", "expire"),
        "replace and expire": ("overwrite", "expire"),
        "rollback and replace": ("rollback", "overwrite"),
        "rollback, replace and expire": ("rollback", "overwrite", "expire"),
        "copy and expire": ("copy", "expire"),
        "copy, replace and expire": ("copy", "overwrite", "expire"),
        "copy and two expiries": ("copy", "expire", "expire"),
        "rewrite and replace": ("rewrite", "overwrite"),
        "rewrite and append": ("rewrite", "append"),
        "rewrite, rollback and expire": ("rewrite", "rollback", "expire"),
        "drop and append": ("drop", "append"),
        "drop, rewrite and replace": ("drop", "rewrite", "overwrite"),
    }
)
"""Who is there."""

_BREAKS: Final = MappingProxyType(
    {
        "mark_first": "rollback and expire",
        "look_for_rollbacks": "rollback and expire",
        "look_at_shown": "rollback and expire",
        "look_again": "rollback and expire",
        "mark_lasts": "expire",
        "mark_matches": "rollback and expire",
        "see_mark": "rollback and expire",
        "announce_first": "rollback and expire",
        "pointer_again": "rollback and expire",
        "look_whether_there": "rollback and expire",
        "leave_kept": "replace and expire",
        "link_keeps": "rollback and expire",
        "same_files": "rewrite and replace",
        "leave_added": "drop and append",
        "delete_named": "rewrite and append",
        "copy_first": "copy and expire",
    }
)
"""For every rule a scene that goes wrong without it."""


_Next = tuple[World, Actor]
_MOVES: Final = Moves()
_move = _MOVES.add


def _stop(world: World, me: Actor) -> _Next:
    return world, Actor(me.role, "stopped")


# -- a job: a rollback, one that replaces, one that names what it replaces -----------------------------


@_move
def _rewrite_read(world: World, me: Actor, _: PastRules) -> _Next:
    """Read the files that are shown, to put them together."""
    return (world, me._replace(at="job-read")) if NEW in world.pointer.shown else _stop(world, me)


@_move
def _copy_version(world: World, me: Actor, rules: PastRules) -> _Next:
    """Copy the version, into an upload that nobody sees; without it there is no rollback."""
    there = OLD in world.files or not rules.copy_first
    return (world, me._replace(at="job-read")) if there else _stop(world, me)


@_move
def _append_commit(world: World, me: Actor, _: PastRules) -> _Next:
    """One that only adds commits without announcing itself."""
    jobs = world.jobs | {Job(me.role, "completed")}
    return world._replace(jobs=jobs, files=world.files | {ADDED}), me._replace(at="job-link-read")


@_move
def _job_read(world: World, me: Actor, rules: PastRules) -> _Next:
    """Read the pointer, and what is to be replaced."""
    pointer = world.pointer
    if me.role in _NAMES:
        if NEW not in pointer.shown and (me.role == "drop" or rules.same_files):
            return _stop(world, me)
        deletes = (
            frozenset({NEW}) if rules.delete_named else pointer.shown | world.files - set(_KEEPS.values())
        )
        return world, me._replace(at="job-announce", seen=pointer, gone=deletes)
    marked = {_KEEPS[one] for one in pointer.marked} - pointer.shown
    if me.role == "rollback" and rules.see_mark and OLD in marked:
        return _stop(world, me)
    kept = {_KEEPS[one] for one in pointer.keeping} if rules.leave_kept else set()
    deletes = world.files - kept - {_BRINGS[me.role]}
    after = "job-announce" if rules.announce_first else "job-look"
    return world, me._replace(at=after, seen=pointer, gone=frozenset(deletes))


@_move
def _job_announce(world: World, me: Actor, rules: PastRules) -> _Next:
    jobs = world.jobs | {Job(me.role, "prepared", me.gone)}
    return world._replace(jobs=jobs), me._replace(at="job-look" if rules.announce_first else "job-commit")


@_move
def _job_look(world: World, me: Actor, _: PastRules) -> _Next:
    """Look for other jobs that replace."""
    if any(one.role not in {me.role, "append"} for one in world.jobs):
        return world, me._replace(at="job-back-out")
    return world, me._replace(at="job-look-again")


@_move
def _job_look_again(world: World, me: Actor, rules: PastRules) -> _Next:
    """The pointer once more."""
    if rules.pointer_again and world.pointer != me.seen:
        return world, me._replace(at="job-back-out")
    return world, me._replace(at="job-files" if me.role == "rollback" else "job-commit")


@_move
def _job_files(world: World, me: Actor, rules: PastRules) -> _Next:
    """Whether what is shown again is there."""
    if rules.look_whether_there and OLD not in world.files:
        return world, me._replace(at="job-back-out")
    return world, me._replace(at="job-commit" if rules.announce_first else "job-announce")


@_move
def _job_back_out(world: World, me: Actor, _: PastRules) -> _Next:
    jobs = frozenset(one for one in world.jobs if one.role != me.role)
    return _stop(world._replace(jobs=jobs), me)


@_move
def _job_commit(world: World, me: Actor, rules: PastRules) -> _Next:
    """The commit point; what the job brings is there."""
    jobs = frozenset(one for one in world.jobs if one.role != me.role)
    brings = {_BRINGS[me.role]} - {""}
    if me.role == "copy" and not rules.copy_first and OLD not in world.files:
        brings = set()
    files = world.files if me.role == "rollback" else world.files | brings
    new = world._replace(jobs=jobs | {Job(me.role, "completed", me.gone)}, files=files)
    return new, me._replace(at="job-link-read")


@_move
def _job_link_read(world: World, me: Actor, _: PastRules) -> _Next:
    return world, me._replace(at="job-link", seen=world.pointer)


@_move
def _job_link(world: World, me: Actor, rules: PastRules) -> _Next:
    """Move the pointer to the manifest."""
    if world.pointer != me.seen:
        return world, me._replace(at="job-link-read")
    return _linked(world, me.role, rules), me._replace(at="job-delete")


def _linked(world: World, role: str, rules: PastRules) -> World:
    keeping, marked = world.pointer.keeping, world.pointer.marked
    if not rules.link_keeps:
        keeping = marked = frozenset()
    shown = frozenset({_BRINGS[role]} - {""})
    if role == "append":
        shown |= world.pointer.shown
    elif role in _NAMES and rules.leave_added:
        shown |= world.pointer.shown - {NEW}
    return world._replace(pointer=world.pointer.moved(shown=shown, keeping=keeping, marked=marked))


def _is_linked(world: World, role: str) -> bool:
    if role == "drop":
        return NEW not in world.pointer.shown
    if role in {"rewrite", "append"}:
        return _BRINGS[role] in world.pointer.shown
    return world.pointer.shown >= {_BRINGS[role]}


@_move
def _job_delete(world: World, me: Actor, _: PastRules) -> _Next:
    return world._replace(files=world.files - me.gone), me._replace(at="job-end")


@_move
def _job_end(world: World, me: Actor, _: PastRules) -> _Next:
    jobs = frozenset(one for one in world.jobs if one.role != me.role)
    return _stop(world._replace(jobs=jobs), me)


# -- expire --------------------------------------------------------------------------------------------


@_move
def _expire_read(world: World, me: Actor, rules: PastRules) -> _Next:
    if _OVER not in world.pointer.keeping:
        return _stop(world, me)
    return world, me._replace(at="expire-mark" if rules.mark_first else "expire-look", seen=world.pointer)


@_move
def _expire_mark(world: World, me: Actor, rules: PastRules) -> _Next:
    assert me.seen is not None
    if _OVER in world.pointer.marked:
        return world, me._replace(at="expire-look", seen=world.pointer)
    if rules.mark_matches and world.pointer != me.seen:
        return world, me._replace(at="expire-read")
    base = world.pointer if rules.mark_matches else me.seen
    pointer = base._replace(marked=base.marked | {_OVER}, number=world.pointer.number + 1)
    return world._replace(pointer=pointer), me._replace(at="expire-look", seen=pointer)


@_move
def _expire_look(world: World, me: Actor, rules: PastRules) -> _Next:
    """Look for rollbacks that have announced themselves."""
    if rules.look_for_rollbacks and any(one.role == "rollback" for one in world.jobs):
        return _stop(world, me)
    return world, me._replace(at="expire-look-again")


@_move
def _expire_look_again(world: World, me: Actor, rules: PastRules) -> _Next:
    """What is shown, and what is kept for longer."""
    pointer = world.pointer if rules.look_again else me.seen
    assert pointer is not None
    shown = pointer.shown if rules.look_at_shown else frozenset()
    gone = frozenset({OLD}) - shown
    after = "expire-delete" if rules.mark_lasts else "expire-forget"
    return world, me._replace(at=after, gone=gone)


@_move
def _expire_delete(world: World, me: Actor, rules: PastRules) -> _Next:
    new = world._replace(files=world.files - me.gone)
    return (new, me._replace(at="expire-forget")) if rules.mark_lasts else _stop(new, me)


@_move
def _expire_forget(world: World, me: Actor, rules: PastRules) -> _Next:
    """Take out of the pointer who keeps nothing any more; one request, as it is repeated until it matches."""
    new = world
    if me.gone and _OVER in world.pointer.keeping:
        left = world.pointer.keeping - {_OVER}
        new = world._replace(pointer=world.pointer.moved(keeping=left, marked=frozenset()))
    return _stop(new, me) if rules.mark_lasts else (new, me._replace(at="expire-delete"))


# -- the check -----------------------------------------------------------------------------------------


def _begin(roles: tuple[str, ...]) -> World:
    pointer = Pointer(frozenset({NEW}), frozenset(_KEEPS), frozenset(), 0)
    first = {
        "expire": "expire-read",
        "rewrite": "rewrite-read",
        "append": "append-commit",
        "copy": "copy-version",
    }
    actors = tuple(Actor(role, first.get(role, "job-read")) for role in roles)
    return World(frozenset({OLD, NEW, HELD}), pointer, frozenset(), actors)


def _wrong(world: World) -> str | None:
    if missing := world.pointer.shown - world.files:
        return f"readers miss {sorted(missing)}"
    if HELD not in world.files:
        return "a file is gone before its time"
    if LARGER in world.pointer.shown and world.pointer.shown - {LARGER, ADDED}:
        return "readers see rows again that another job has replaced"
    return None


def _settled(world: World, rules: PastRules) -> World:
    """All executors are dead: a recovery ends their jobs, and then an expiry runs."""
    for one in sorted(world.jobs):
        if one.state == "completed":
            if not _is_linked(world, one.role):
                world = _linked(world, one.role, rules)
            world = world._replace(files=world.files - one.deletes)
    ended: World = _MOVES.alone(world._replace(jobs=frozenset()), Actor("expire", "expire-read"), rules)
    return ended


def _wrong_at_the_end(world: World) -> str | None:
    kept = {_KEEPS[one] for one in world.pointer.keeping}
    if left := world.files - world.pointer.shown - kept:
        return f"{sorted(left)} is left, which nobody shows or keeps"
    if OLD in world.files - world.pointer.shown:
        return "a file is there whose time is over, although it was expired"
    return _wrong(world)


def _judge(world: World, _: object, rules: PastRules) -> tuple[str | None, frozenset[str]]:
    settled = _settled(world, rules)
    return _wrong(world) or _wrong_at_the_end(settled), settled.pointer.shown


PAST: Final = Model(PastRules(), _SCENES, _BREAKS, _MOVES, _begin, _judge)
