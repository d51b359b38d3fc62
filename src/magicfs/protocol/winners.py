"""Which committed attempts a job publishes, and what their pending sets must satisfy."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from magicfs.errors import CommitFailed, ProtocolViolation
from magicfs.protocol import modes, paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId

_ARRAYS = 256
# Few keys have an element that begins so: these alone are looked at more closely.
_ODD = re.compile(r"(?:^|/)(?:[._/]|$)|\0")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A committed attempt, as its engine reports it."""

    job: JobId  # the one that it says it belongs to
    task: TaskId
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A pending set that a listing showed."""

    key: str
    task: TaskId
    modified: float  # when it was written, in seconds since the epoch


def check_attempts(job: JobId, attempts: Iterable[Attempt]) -> None:
    """Refuse what no engine may accept together.

    Raises ProtocolViolation for an attempt of another job, one attempt twice, or two attempts of one task.
    """
    chosen: dict[TaskId, AttemptId] = {}
    for one in attempts:
        if one.job != job:
            raise ProtocolViolation(
                f"task {one.task} was committed for job {one.job}, not {job}; pass this job's commits"
            )
        if one.task in chosen:
            other = chosen[one.task]
            twice = "twice" if other == one.attempt else f"by two attempts, {other} and {one.attempt}"
            raise ProtocolViolation(f"task {one.task} was committed {twice}; pass the one commit that counts")
        chosen[one.task] = one.attempt


def last_committed(sets: Iterable[StoredSet]) -> list[StoredSet]:
    """For each task the set that was written last (HADOOP-17258: an earlier attempt may have died silently).

    Of two that the store dates equal, the one of the greater key.
    """
    latest: dict[TaskId, StoredSet] = {}
    for one in sets:
        held = latest.get(one.task)
        if held is None or (one.modified, one.key) > (held.modified, held.key):
            latest[one.task] = one
    return [latest[task] for task in sorted(latest)]


class KeyCheck:
    """Checks the destination keys of a job, which can be drawn again, in 8 bytes of memory each: whether two
    tasks write one is found in the end.
    """

    def __init__(self, bucket: str, destination: str, extra: tuple[str, ...] = ()) -> None:
        self._bucket = bucket
        self._places = (destination, *extra)
        self._prefixes = tuple(paths.prefix_of(one) for one in self._places)
        # Equal keys have equal hashes; whether keys of equal hashes are equal is looked at. In many small
        # arrays, so that looking for equal ones takes little memory, too.
        self._hashes = [array("q") for _ in range(_ARRAYS)]

    def add(self, places: Iterable[tuple[str, str]], source: str) -> None:
        """Take the buckets and keys of a set in. Raises CommitFailed if one lies outside the destination."""
        own, prefixes, hashes = self._bucket, self._prefixes, self._hashes
        for bucket, key in places:
            if bucket != own or not key.startswith(prefixes) or key in prefixes:
                raise _outside(bucket, key, source, own, self._places)
            if _ODD.search(key) is not None:
                _refuse_odd(key, source, self._places)
            found = hash(key)
            hashes[found % _ARRAYS].append(found)

    def finish(self, again: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Raise CommitFailed if two keys are equal. ``again`` tells source and key of each once more."""
        twice: set[int] = set()
        for hashes in self._hashes:
            if len(set(hashes)) < len(hashes):
                twice.update(one for one, times in Counter(hashes).items() if times > 1)
        if not twice:
            return
        seen: set[str] = set()
        for source, key in again():
            if hash(key) in twice:
                if key in seen:
                    raise _written_twice(key, source)
                seen.add(key)


def _refuse_odd(key: str, source: str, directories: Iterable[str]) -> None:
    """Raise CommitFailed for a key that no task could have opened: no file's, or a record's."""
    directory = paths.which_holds(key, directories)
    assert directory is not None
    if paths.can_be_a_file(key) and not modes.is_reserved(paths.relative_to(key, directory)):
        return
    raise CommitFailed(
        f"{source} names {key!a}, which is not a valid key for data: a record, or work of a job, or a path "
        "with an element that is empty, '.' or '..'; nothing was published; find out who wrote the file",
        failed=[key],
    )


def _outside(bucket: str, key: str, source: str, own: str, directories: Iterable[str]) -> CommitFailed:
    places = " and ".join(f"{own}/{one}" for one in directories)
    return CommitFailed(
        f"{source} names {bucket}/{key}, which is outside {places}; nothing was published; find out who "
        "wrote the file",
        failed=[key],
    )


def _written_twice(key: str, source: str) -> CommitFailed:
    return CommitFailed(
        f"{key} is written by two tasks ({source} is the second); nothing was published; "
        "use unique_names=True or other file names",
        failed=[key],
    )
