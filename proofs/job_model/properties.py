"""What must hold, in every state and once every job has ended."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from proofs.job_model.moves import files
from proofs.job_model.scenes import HAND, OLD, Scene
from proofs.job_model.world import (
    CHILD,
    JobObject,
    Manifest,
    Store,
    Value,
    World,
    is_data,
    is_sum,
    pointer_of,
    success_of,
)

__all__ = ["LEGAL", "at_rest", "between", "ever", "mixed", "shown"]

LEGAL = {
    ("open", "open"),
    ("open", "prepared"),
    ("open", "committing"),
    ("open", "aborting"),
    ("prepared", "committing"),
    ("prepared", "open"),
    ("prepared", "aborting"),
    ("committing", "committing"),
    ("committing", "completed"),
    ("committing", "reverting"),
    ("reverting", "reverting"),
}
"""The state table, taken from the protocol and repeated here so that a wrong one is noticed."""

_CHANGING = ("committing", "completed", "reverting")
_PLACES = ("", CHILD)
"""A job of each destination."""
_Last = dict[str, JobObject]


def between(before: World, after: World, scene: Scene) -> str | None:
    """What is wrong with a step; None if nothing is."""
    if before.last != after.last and not scene.late_setup:
        was, now = dict(before.last), dict(after.last)
        for job, one in was.items():
            if one != now[job] and (one.state, now[job].state) not in LEGAL:
                return f"decided twice: job {job} went from {one.state} to {now[job].state}"
            if now[job].state == "reverting" and not any(role == "rollback" for role, _ in scene.actors):
                return f"needless: job {job} was reverted, and nobody had asked for that"
    if before.store.objects == after.store.objects:
        return None
    last, left = dict(after.last), {k for k, _ in after.store.objects}
    for key, _ in before.store.objects:
        if is_data(key) and key not in left and not _may_go(key, last):
            return f"not his: {key} was deleted"
    return _forgotten(dict(before.store.objects), dict(after.store.objects), last)


def _may_go(key: str, last: _Last) -> bool:
    if any(one.state == "completed" and key in dict(one.deletions) for one in _at(key, last).values()):
        return True
    return key not in (*OLD, HAND) and last[key[0]].state == "reverting"


def _forgotten(before: dict[str, Value], after: dict[str, Value], last: _Last) -> str | None:
    """Whoever moves the pointer, readers go on to see what nobody has replaced."""
    for job in _PLACES:
        if before.get(pointer_of(job)) == after.get(pointer_of(job)):
            continue
        now = _view(after, job)
        for key in _view(before, job) or {}:
            if now is not None and key not in now and not _replaced(key, after, last):
                return f"forgotten: readers of manifests do not see {key} any more, which nobody has replaced"
    return None


def _place(name: str) -> str:
    """The destination that a job or its file belongs to, as one of ``_PLACES``."""
    return CHILD if name[0] == CHILD else ""


def _at(name: str, last: _Last) -> _Last:
    """The jobs of the same destination."""
    return {job: one for job, one in last.items() if _place(job) == _place(name)}


def ever(world: World, scene: Scene) -> str | None:
    """What is wrong with a state, whatever is still to come; None if nothing is."""
    objects, last = dict(world.store.objects), dict(world.last)
    return (
        _early(objects, last, scene)
        or _lost(objects, last, scene)
        or _success(objects, last)
        or (None if world.mixed or scene.zombies else _gate(objects, last))
        or _chain(objects, last)
    )


def _early(objects: dict[str, Value], last: _Last, scene: Scene) -> str | None:
    if any(one.state in ("committing", "completed", "reverting") for one in last.values()):
        return None
    if _destination(objects) != _destination(dict(scene.begin().store.objects)):
        return "early: the destination changed before any job was committing"
    return None


def _destination(objects: dict[str, Value]) -> dict[str, Value]:
    successes = [success_of(job) for job in _PLACES]
    seen = {f"{job}.seen": sorted({*(_view(objects, job) or ())} - {HAND}) for job in _PLACES}
    return {k: v for k, v in objects.items() if is_data(k) or k in successes} | seen


def _lost(objects: dict[str, Value], last: _Last, scene: Scene) -> str | None:
    for key in OLD if scene.old else ():
        if objects.get(key) != key and not _replaced(key, objects, last):
            return f"lost: {key} is gone and what replaces it is not whole"
    for job, one in last.items():
        if one.state == "completed" and not _covered(job, objects, last):
            return f"lost: job {job} is completed and its files are not whole"
    return None


def _replaced(key: str, objects: dict[str, Value], last: _Last) -> bool:
    return any(
        one.state == "completed" and key in dict(one.deletions) and _covered(job, objects, last)
        for job, one in _at(key, last).items()
        if key[0] != job
    )


def _covered(job: str, objects: dict[str, Value], last: _Last) -> bool:
    return all(
        objects.get(key) == f"{key}{last[job].facts}"
        or (key not in objects and _replaced(key, objects, last))
        for key in files(job)
    )


def _original(value: Value) -> Value:
    while isinstance(value, tuple):
        value = value[1]
    return value


def _success(objects: dict[str, Value], last: _Last) -> str | None:
    found = (_success_at(objects, last, job) for job in _PLACES if success_of(job) in objects)
    return next((wrong for wrong in found if wrong is not None), None)


def _success_at(objects: dict[str, Value], last: _Last, place: str) -> str | None:
    speaks = _original(objects[success_of(place)])
    if speaks != "old" and last[str(speaks)].state != "completed":
        return f"success: _SUCCESS speaks for job {speaks}, which is {last[str(speaks)].state}"
    for key in OLD if speaks == "old" else files(str(speaks)):
        if key not in objects and not _replaced(key, objects, last):
            return f"success: _SUCCESS lists {key}, which is not there"
    return None


def mixed(store: Store) -> bool:
    """Whether two jobs change the destination now."""
    return sum(isinstance(v, JobObject) and v.state in _CHANGING for _, v in store.objects) > 1


def _gate(objects: dict[str, Value], last: _Last) -> str | None:
    """Who waits for ``_SUCCESS`` sees all or nothing of a job, as long as no other job runs."""
    running = [job for job in last if f"{job}.job" in objects and last[job].state in _CHANGING]
    if len(running) != 1 or success_of(running[0]) not in objects:
        return None
    new, one = files(running[0]), last[running[0]]
    before = one.state != "completed" and not any(key in objects for key in new)
    after = all(key in objects for key in new) and not any(key in objects for key, _ in one.deletions)
    if not before and not after:
        return f"gate: _SUCCESS is there, and job {running[0]} is half visible"
    return None


def shown(head: str, links: Mapping[str, Value]) -> dict[str, Value] | None:
    """The files that a reader of the chain sees, given its links by name; None if the chain is broken.

    A sum stands for all below it, unless a newer job has replaced something further down.
    """
    seen: dict[str, Value] = {}
    met, ends = set[str](), set[str]()
    job = head
    while job and job not in ends:
        link = links.get(job)
        if job in met or not isinstance(link, Manifest):
            return None
        met.add(job)
        if not is_sum(job) or not ends:
            seen = dict(link.files) | seen
            if is_sum(job):
                break
        if link.hides and not is_sum(job):
            ends.add(link.replaced)
        job = link.previous
    return seen


def _links(objects: dict[str, Value]) -> dict[str, Value]:
    return {k.removesuffix(".manifest"): v for k, v in objects.items() if isinstance(v, Manifest)}


def _head(objects: dict[str, Value], place: str) -> str:
    pointer = objects.get(pointer_of(place))
    return str(pointer[0]) if isinstance(pointer, tuple) else ""


def _view(objects: dict[str, Value], place: str) -> dict[str, Value] | None:
    return shown(_head(objects, place), _links(objects))


def _contents(job: str, last: _Last) -> dict[str, str]:
    return {key: key for key in OLD} if job == "old" else {k: f"{k}{last[job].facts}" for k in files(job)}


def _chain(objects: dict[str, Value], last: _Last) -> str | None:
    for place in _PLACES:
        view = _view(objects, place)
        if view is None:
            return "chain: a manifest is missing, or the chain is a circle"
        for key, value in view.items():
            if key not in (*OLD, HAND) and last[key[0]].state != "completed":
                return f"chain: the pointer leads to {key}, whose job is {last[key[0]].state}"
            if objects.get(key) != value:
                return f"chain: the pointer leads to {key}, which is not there"
    return None


def at_rest(store: Store, last: _Last, scene: Scene) -> str | None:
    """What is wrong when every job has ended and one sweep was made; None if nothing is."""
    objects = dict(store.objects)
    left = sorted([*store.uploads, *(k for k in objects if k.endswith(".job") or ".facts" in k)])
    if left:
        return f"left over: {', '.join(left)}"
    found = (_rest_at(objects, last, scene, place) for place in _PLACES)
    return next((wrong for wrong in found if wrong is not None), None)


def _rest_at(objects: dict[str, Value], every: _Last, scene: Scene, place: str) -> str | None:
    """The same of one destination, whose jobs know nothing of the other's."""
    last = {job: one for job, one in every.items() if _place(job) == place}
    completed = [job for job, one in last.items() if one.state == "completed"]
    data = {k: v for k, v in objects.items() if is_data(k) and _place(k) == place}
    if not any(data == _serial(order, last, scene, place) for order in permutations(completed)):
        return f"not serial: {sorted(data)} after {completed or 'no job'} completed"
    view = _view(objects, place) or {}
    wanted = data if HAND in view else {k: v for k, v in data.items() if k != HAND}
    if view != wanted or not set(completed) <= _linked(objects, place):
        return f"chain: it shows {sorted(view)}, and there is {sorted(data)}"
    speaks = _original(objects.get(success_of(place)))
    if not completed and speaks != ("old" if scene.old and not place else None):
        return f"success: no job completed, and _SUCCESS speaks for {speaks}"
    if completed and (speaks is None or any(key not in data for key in _contents(str(speaks), last))):
        return f"success: {completed} completed, and _SUCCESS speaks for {speaks}"
    if len(completed) == 1 == len(last) and speaks not in completed:
        return f"success: {completed} completed, and _SUCCESS speaks for {speaks}"
    return None


def _linked(objects: dict[str, Value], place: str) -> set[str]:
    linked = set[str]()
    job = _head(objects, place)
    while job and job not in linked:
        linked.add(job)
        link = objects.get(f"{job}.manifest")
        job = link.previous if isinstance(link, Manifest) else ""
    return linked


def _serial(order: tuple[str, ...], last: _Last, scene: Scene, place: str) -> dict[str, Value] | None:
    """What lies there after the jobs ran one after the other; None if they could not have."""
    data = {} if place else scene.begins_with
    for job in order:
        mode = dict(scene.jobs)[job]
        if mode == "error" and data:
            return None
        data = ({} if mode == "overwrite" else data) | _contents(job, last)
    return data
