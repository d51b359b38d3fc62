"""Which committed attempts a job publishes, and what their pending sets must satisfy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from magicfs.errors import CommitFailed, ProtocolViolation
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId

__all__ = ["Attempt", "KeyCheck", "StoredSet", "check_attempts", "last_committed"]


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


@dataclass(slots=True)
class KeyCheck:
    """Checks the destination keys of a job, one by one, in 16 bytes of memory each."""

    bucket: str
    destination: str  # the directory that every key must lie under
    extra: tuple[str, ...] = ()  # or one of these
    _seen: set[bytes] = field(default_factory=set)

    def add(self, bucket: str, key: str, source: str) -> None:
        """Check one more key.

        Raises CommitFailed if it lies outside the destination, or another task writes it too. Nothing was
        published.
        """
        if bucket != self.bucket or paths.which_holds(key, (self.destination, *self.extra)) is None:
            places = " and ".join(f"{self.bucket}/{one}" for one in (self.destination, *self.extra))
            raise CommitFailed(
                f"{source} names {bucket}/{key}, which lies outside {places}; "
                "nothing was published; find out who wrote the file",
                failed=[key],
            )
        digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
        if digest in self._seen:
            raise CommitFailed(
                f"{key} is written by two tasks ({source} is the second); nothing was published; "
                "use unique_names=True or other file names",
                failed=[key],
            )
        self._seen.add(digest)
