"""What a process was doing, told from its last request as a proxy in front of the store saw it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from urllib.parse import parse_qs, unquote

__all__ = [
    "DRIVER",
    "REQUIRED",
    "Phase",
    "Request",
    "newest_version",
    "phase_of",
    "request_about",
    "request_of",
    "state_written",
]

DRIVER = "driver"
"""The role of the process that sets the job up and commits it; any other role is a worker's."""

_KEY_IN_BODY = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_STATE_IN_BODY = re.compile(rb'"state"\s*:\s*"([a-z]+)"')
_JOB_OBJECT = re.compile(r"job(\.\d+)?\.json")
_MAGIC = re.compile(r"__magic(_job-[^/]+)?")
# Parents and names of a job's own files: DEST/__magic_job-…/job-…/<NN>/tasks/…, …/sets/…, …/facts/….
_TASKS = "tasks"
_SETS = "sets"
_FACTS = "facts"


class Phase(StrEnum):
    """A stretch of a job. Those of ``REQUIRED`` must all have been hit for a run of kills to count."""

    START = "start"
    """Before the first request of the process."""
    SETUP = "setup"
    OPEN = "open"
    PART = "part"
    PENDING = ".pending"
    TASK_COMMIT = "task commit"
    WAITING = "waiting"
    """A driver while its workers work."""
    FACTS = "facts"
    """What will be published, and what will be replaced, is written down."""
    SWAP = "swap"
    COMPLETE = "complete"
    MANIFEST = "manifest"
    DELETE = "delete"
    SUCCESS = "_SUCCESS"
    CLEANUP = "cleanup"


REQUIRED = (
    *(Phase.OPEN, Phase.PART, Phase.PENDING, Phase.TASK_COMMIT, Phase.SWAP, Phase.COMPLETE),
    *(Phase.DELETE, Phase.SUCCESS, Phase.CLEANUP),
)
"""The phases that a job cannot do without."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, reduced to what tells its phase.

    Attributes:
        role: Who sent it.
        operation: The S3 operation.
        keys: The keys that it is about; of a listing, its prefix.
        state: The state that it writes into the job object, if it writes one.
        first: Whether it is conditional on no such key being there.
    """

    role: str
    operation: str
    keys: tuple[str, ...]
    state: str | None = None
    first: bool = False


def request_of(
    role: str, operation: str, path: str, query: str, body: bytes = b"", *, if_none_match: bool = False
) -> Request:
    """Reduce a request as it travelled (path-style addressing) to what tells its phase.

    Args:
        role: Who sent it.
        operation: The S3 operation.
        path: The raw path, ``/bucket/key``.
        query: The raw query.
        body: The body; of a bulk delete it holds the keys.
        if_none_match: Whether the header of this name was sent.
    """
    key = unquote(path).removeprefix("/").partition("/")[2]
    if key:
        keys: tuple[str, ...] = (key,)
    elif operation == "DeleteObjects":
        keys = tuple(unescape(found.decode()) for found in _KEY_IN_BODY.findall(body))
    else:
        keys = tuple(parse_qs(query).get("prefix", ("",)))
    return request_about(role, operation, keys, body, first=if_none_match)


def request_about(role: str, operation: str, keys: tuple[str, ...], body: bytes, *, first: bool) -> Request:
    """Reduce a request whose keys are known; arguments are the attributes of a ``Request``, and its body."""
    writes_state = operation == "PutObject" and any(map(_is_job_object, keys))
    return Request(role, operation, keys, state_written(body) if writes_state else None, first)


def phase_of(request: Request, destination: str, before: Collection[Phase] = ()) -> Phase:
    """The phase that a request belongs to.

    Args:
        request: The request.
        destination: The key of the job's destination, without a slash at its end.
        before: The phases of the job so far. Listings look alike in all of them.
    """
    relative = [key.removeprefix(f"{destination}/") for key in request.keys] or [""]
    if all(_MAGIC.fullmatch(name.partition("/")[0]) for name in relative):
        return _of_work(request, relative[0].split("/")[1:], before)
    if request.operation in _OF_UPLOADS:
        return _OF_UPLOADS[request.operation]
    first = relative[0]
    if first.startswith("_magicfs/"):
        return Phase.FACTS if _reads(request) and not _published(before) else Phase.MANIFEST
    if first == "_SUCCESS":
        return Phase.FACTS if _reads(request) else Phase.SUCCESS
    if request.operation in {"DeleteObject", "DeleteObjects"}:
        return Phase.DELETE
    if request.operation == "HeadObject" and first and _published(before):
        return Phase.COMPLETE
    return _by_time(before)


_OF_UPLOADS = {
    "CreateMultipartUpload": Phase.OPEN,
    "UploadPart": Phase.PART,
    "CompleteMultipartUpload": Phase.COMPLETE,
    "AbortMultipartUpload": Phase.CLEANUP,
}


def _of_work(request: Request, name: list[str], before: Collection[Phase]) -> Phase:
    """Of the job's own objects; the name's elements are those below its magic directory."""
    if request.operation in _OF_UPLOADS:
        return Phase.SETUP  # what the store honours is tried out there
    if request.operation == "PutObject":
        return _of_work_put(request, name)
    if request.role != DRIVER and (_TASKS in name or _SETS in name):
        return Phase.TASK_COMMIT
    if _JOB_OBJECT.fullmatch(name[-1] if name else ""):
        if request.operation == "DeleteObject":
            return Phase.CLEANUP
        return Phase.SWAP if _reads(request) and Phase.FACTS in before else _by_time(before)
    if request.operation in {"DeleteObject", "DeleteObjects"}:
        return Phase.CLEANUP if _begun(before) else Phase.SETUP
    if _SETS in name or _FACTS in name or (name[-1:] and name[-1].endswith(".pendingset")):
        return Phase.FACTS
    return _by_time(before)


def _of_work_put(request: Request, name: list[str]) -> Phase:
    last = name[-1] if name else ""
    if _JOB_OBJECT.fullmatch(last):
        return Phase.SETUP if request.first and last == "job.json" else Phase.SWAP
    if _SETS in name or last.endswith(".pendingset"):
        return Phase.TASK_COMMIT
    if _TASKS in name:
        return Phase.PENDING
    return Phase.FACTS if _FACTS in name else Phase.SETUP


def _by_time(before: Collection[Phase]) -> Phase:
    """Of requests that every phase makes."""
    if _published(before):
        return Phase.CLEANUP
    return Phase.FACTS if _begun(before) else Phase.SETUP


def _begun(before: Collection[Phase]) -> bool:
    return not {Phase.OPEN, Phase.PENDING, Phase.TASK_COMMIT}.isdisjoint(before)


def _published(before: Collection[Phase]) -> bool:
    return not {Phase.COMPLETE, Phase.SUCCESS, Phase.CLEANUP}.isdisjoint(before)


def _reads(request: Request) -> bool:
    return request.operation in {"GetObject", "HeadObject"}


def _is_job_object(key: str) -> bool:
    *parents, last = key.split("/")
    return _JOB_OBJECT.fullmatch(last) is not None and any(_MAGIC.fullmatch(name) for name in parents)


def state_written(body: bytes) -> str | None:
    """The state in a job object as it travels; clients may wrap a body into chunks of their own."""
    found = _STATE_IN_BODY.search(body)
    return found[1].decode() if found else None


def newest_version(key: str, listed: Collection[str]) -> str:
    """The key of the version that counts, where they are numbered for want of If-Match: none behind a gap."""
    stem = key.removesuffix(".json")
    following = (f"{stem}.{number:05d}.json" for number in itertools.count(1))
    there = [key, *itertools.takewhile(listed.__contains__, following)]
    return there[-1]
