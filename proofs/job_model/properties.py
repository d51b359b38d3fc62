"""What must hold, in every state and once every job has ended."""

from __future__ import annotations

from itertools import permutations

from proofs.job_model.moves import files
from proofs.job_model.scenes import OLD, Scene
from proofs.job_model.world import JobObject, Manifest, Store, Value, World, is_data

__all__ = ["LEGAL", "at_rest", "between", "ever", "mixed"]

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
    return None


def _may_go(key: str, last: _Last) -> bool:
    if any(one.state == "completed" and key in dict(one.deletions) for one in last.values()):
        return True
    return key not in OLD and last[key[0]].state == "reverting"


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
    return {k: v for k, v in objects.items() if is_data(k) or k in ("_SUCCESS", "pointer")}


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
        for job, one in last.items()
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
    if "_SUCCESS" not in objects:
        return None
    speaks = _original(objects["_SUCCESS"])
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
    if "_SUCCESS" not in objects or len(running) != 1:
        return None
    new, one = files(running[0]), last[running[0]]
    before = one.state != "completed" and not any(key in objects for key in new)
    after = all(key in objects for key in new) and not any(key in objects for key, _ in one.deletions)
    if not before and not after:
        return f"gate: _SUCCESS is there, and job {running[0]} is half visible"
    return None


def _visible(objects: dict[str, Value]) -> list[str] | None:
    """The jobs that a reader of the chain sees; None if the chain is broken."""
    pointer = objects.get("pointer")
    if not isinstance(pointer, tuple):
        return []
    seen: list[str] = []
    barriers: set[str] = set()
    job = str(pointer[0])
    while job:
        link = objects.get(f"{job}.manifest")
        if job in seen or not isinstance(link, Manifest):
            return None
        if job in barriers:
            break
        seen.append(job)
        if link.hides:
            barriers.add(link.replaced)
        job = link.previous
    return seen


def _contents(job: str, last: _Last) -> dict[str, str]:
    return {key: key for key in OLD} if job == "old" else {k: f"{k}{last[job].facts}" for k in files(job)}


def _chain(objects: dict[str, Value], last: _Last) -> str | None:
    visible = _visible(objects)
    if visible is None:
        return "chain: a manifest is missing, or the chain is a circle"
    for job in visible:
        if job != "old" and last[job].state != "completed":
            return f"chain: the pointer leads to job {job}, which is {last[job].state}"
        if any(objects.get(key) != value for key, value in _contents(job, last).items()):
            return f"chain: the pointer leads to job {job}, whose files are not all there"
    return None


def at_rest(store: Store, last: _Last, scene: Scene) -> str | None:
    """What is wrong when every job has ended and one sweep was made; None if nothing is."""
    objects = dict(store.objects)
    left = sorted([*store.uploads, *(k for k in objects if k.endswith(".job") or ".facts" in k)])
    if left:
        return f"left over: {', '.join(left)}"
    completed = [job for job, one in last.items() if one.state == "completed"]
    data = {k: v for k, v in objects.items() if is_data(k)}
    if not any(data == _serial(order, last, scene) for order in permutations(completed)):
        return f"not serial: {sorted(data)} after {completed or 'no job'} completed"
    visible = _visible(objects) or []
    shown = {k: v for job in visible for k, v in _contents(job, last).items()}
    if shown != data or not set(completed) <= _linked(objects):
        return f"chain: it shows {sorted(shown)}, and there is {sorted(data)}"
    speaks = _original(objects.get("_SUCCESS"))
    if not completed and speaks != ("old" if scene.old else None):
        return f"success: no job completed, and _SUCCESS speaks for {speaks}"
    if completed and (speaks is None or any(key not in data for key in _contents(str(speaks), last))):
        return f"success: {completed} completed, and _SUCCESS speaks for {speaks}"
    if len(completed) == 1 == len(last) and speaks not in completed:
        return f"success: {completed} completed, and _SUCCESS speaks for {speaks}"
    return None


def _linked(objects: dict[str, Value]) -> set[str]:
    pointer, linked = objects.get("pointer"), set()
    job = str(pointer[0]) if isinstance(pointer, tuple) else ""
    while job and job not in linked:
        linked.add(job)
        link = objects.get(f"{job}.manifest")
        job = link.previous if isinstance(link, Manifest) else ""
    return linked


def _serial(order: tuple[str, ...], last: _Last, scene: Scene) -> dict[str, Value] | None:
    """What lies there after the jobs ran one after the other; None if they could not have."""
    data: dict[str, Value] = {key: key for key in OLD} if scene.old else {}
    for job in order:
        mode = dict(scene.jobs)[job]
        if mode == "fail" and data:
            return None
        data = ({} if mode == "replace" else data) | _contents(job, last)
    return data
