"""The world of the model: a store that fits on a line, and what is remembered of each job.

Objects are pairs of a key and a value; the value is its own ETag, so two objects of equal bytes have equal
ETags, as on real stores. Everything is immutable and hashable.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ANY",
    "CHILD",
    "GONE",
    "OK",
    "PARENT",
    "REFUSED",
    "Absent",
    "Actor",
    "JobObject",
    "Manifest",
    "Request",
    "Store",
    "Value",
    "World",
    "apply",
    "is_below",
    "is_data",
    "is_sum",
    "job_of_upload",
    "key_of_upload",
    "pointer_of",
    "success_of",
]

Value = object
"""What an object holds: text, a ``JobObject``, a ``Manifest`` or a tuple; hashable."""

OK, REFUSED, GONE = "ok", "refused", "gone"


class Absent(NamedTuple):
    """The condition If-None-Match."""


ANY = None
"""No condition."""

PARENT, CHILD = "P", "C"
"""Two jobs whose destinations touch: that of ``C`` is a directory below that of ``P`` and of all other jobs,
and the second file of ``P`` lies in it."""


class JobObject(NamedTuple):
    """The job object: its state, and what was written into it when the job was prepared.

    Attributes:
        state: See ``magicfs.protocol.job_state``.
        version: Rises with each write; stands for the nonce.
        facts: Which winners were chosen; empty while open.
        deletions: Old objects that go, each with the version that was listed.
        success: The old ``_SUCCESS``.
        pointer: The pointer as it was read.
    """

    state: str
    version: int
    facts: str = ""
    deletions: tuple[tuple[str, Value], ...] = ()
    success: Value = None
    pointer: Value = None


class Manifest(NamedTuple):
    """One link of the chain; with ``hides`` everything at ``replaced`` and before it is hidden."""

    job: str
    previous: str
    hides: bool
    replaced: str
    files: tuple[tuple[str, Value], ...] = ()


class Request(NamedTuple):
    """One request; ``condition`` is ``ANY``, ``Absent()`` or the value that must be there."""

    verb: str
    key: str
    value: Value = None
    condition: Value = ANY


class Store(NamedTuple):
    """Contents of the bucket."""

    objects: frozenset[tuple[str, Value]]
    uploads: frozenset[str]


class Actor(NamedTuple):
    """An executor: where it is and what it has read.

    Attributes:
        role: driver, second, recover or rollback; executor once it only executes what the object says;
            compact or adopt for who looks after the destination.
        job: Its job; of maintenance the name of what it publishes.
        mode: The mode; only drivers have one.
        facts: The winners that it would publish.
        at: The request that it makes next; ``stopped`` when it has ended.
        seen: The job object as it last read or wrote it.
        files_left: Files that are left to it.
        notes: What else it has read.
    """

    role: str
    job: str
    mode: str
    facts: str
    at: str
    seen: JobObject | None = None
    files_left: tuple[str, ...] = ()
    notes: tuple[Value, ...] = ()


class World(NamedTuple):
    """A state of the model.

    Attributes:
        store: Contents of the bucket.
        late: A request that was sent once more and has not landed; None before one was, and ``landed`` after.
        last: For each job, the last version of its object, kept after the object is gone.
        actors: The executors, in the order of the scene.
        mixed: Whether two jobs have changed the destination at the same time.
    """

    store: Store
    late: Request | str | None
    last: tuple[tuple[str, JobObject], ...]
    actors: tuple[Actor, ...]
    mixed: bool = False


def is_data(key: str) -> bool:
    """Whether a key is a file of the dataset."""
    return "." not in key and key not in ("_SUCCESS", "pointer")


def is_below(key: str) -> bool:
    """Whether a file lies in the destination of ``C``."""
    return key[0] == CHILD or key == f"{PARENT}2"


def is_sum(manifest: str) -> bool:
    """Whether a link of the chain, by its name, sums older ones up."""
    return manifest.startswith("sum-")


def pointer_of(job: str) -> str:
    """The pointer of a job's destination."""
    return "below.pointer" if job == CHILD else "pointer"


def success_of(job: str) -> str:
    """The ``_SUCCESS`` of a job's destination."""
    return "below._SUCCESS" if job == CHILD else "_SUCCESS"


def key_of_upload(upload: str) -> str:
    """The key that an upload makes visible: ``A1x`` is file A1 as winner x wrote it."""
    return upload[:2]


def job_of_upload(upload: str) -> str:
    """The job that an upload belongs to."""
    return upload[0]


def _list(objects: dict[str, Value], job: str) -> Value:
    """Data at the destination of a job; from above also what shows that somebody works below."""
    if job == CHILD:
        return tuple(sorted((k, v) for k, v in objects.items() if is_data(k) and is_below(k)))
    signs = [(k, "") for k in objects if k in _SIGNS]
    return tuple(sorted([*signs, *((k, v) for k, v in objects.items() if is_data(k))]))


def _jobs(objects: dict[str, Value], own: str) -> Value:
    """The other jobs of the destination at which a job object lies."""
    if own == f"{CHILD}.job":
        return ()
    return _jobs_above(objects, own)


def _jobs_above(objects: dict[str, Value], own: str) -> Value:
    return tuple(v for k, v in objects.items() if k.endswith(".job") and k not in (own, f"{CHILD}.job"))


def _sums(objects: dict[str, Value], _: str) -> Value:
    return tuple(sorted(k.removesuffix(".manifest") for k in objects if is_sum(k)))


_SIGNS = (f"{CHILD}.job", f"{CHILD}.manifest", "below.pointer")
_LOOKS = {"list": _list, "jobs": _jobs, "jobs-above": _jobs_above, "sums": _sums}


def apply(store: Store, request: Request) -> tuple[Store, Value]:
    """What a request changes, and what it answers."""
    objects = dict(store.objects)
    verb, key, value, condition = request
    if verb == "get":
        return store, objects.get(key)
    if verb in _LOOKS:
        return store, _LOOKS[verb](objects, key)
    if verb == "complete":
        if key not in store.uploads:
            return store, GONE
        objects[key_of_upload(key)] = key
        return Store(frozenset(objects.items()), store.uploads - {key}), OK
    if verb == "abort":
        gone = {one for one in store.uploads if one == key or job_of_upload(one) == key}
        return Store(store.objects, store.uploads - gone), OK
    if verb == "clean":
        kept = frozenset((k, v) for k, v in store.objects if not k.startswith(f"{key}.facts"))
        return Store(kept, store.uploads), OK
    there = objects.get(key)
    if (condition == Absent() and key in objects) or (
        condition is not ANY
        and condition != Absent()
        and there != condition
        and (verb == "put" or key in objects)
    ):
        return store, REFUSED
    if verb == "put":
        objects[key] = value
    else:
        objects.pop(key, None)
    return Store(frozenset(objects.items()), store.uploads), OK
