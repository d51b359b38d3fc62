"""What became of the jobs of a scene, read from their own objects as they change: by raw JSON, apart from the
code under test.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from magicfs.protocol.temporary import RENAMING
from proofs.crash.snapshots import SnapshotWorld

__all__ = ["Facts", "JobFacts", "JobHistory", "Plan", "document_of", "is_data", "newest"]

_VERSION = re.compile(r"(?:\.(\d{5,9}))?\.json\Z")


@dataclass(slots=True)
class JobFacts:
    """What the engine of a job knows.

    Attributes:
        job_id: The job.
        directory: Its work directory.
        mode: Its mode.
        tasks: Its tasks.
        unique: Whether its names are its own.
        outputs: What each attempt has written: bodies by final keys. Only attempts that may be published.
        accepted: For each driver the attempts that it was told to publish; None if they were to be listed.
        committer: Name of its committer.
        by_tasks: Whether its tasks publish, before the job does.
    """

    job_id: str
    directory: str
    mode: str
    tasks: frozenset[str]
    unique: bool = True
    outputs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    accepted: list[set[str]] | None = None
    committer: str = "magic"
    by_tasks: bool = False

    def has_uploads(self, plan: Plan | None, small: int | None) -> bool:
        """Whether any file that is published was an upload: files of at most ``small`` bytes were none."""
        if self.committer in RENAMING:
            return False
        return (
            small is None
            or plan is None
            or any(len(self.outputs[attempt][key]) > small for key, attempt in plan.files.items())
        )

    def directories(self, destination: str) -> tuple[str, ...]:
        """Where everything lies that it writes besides its output, of which nothing may be left."""
        temporary = f"{destination}/_temporary/{self.job_id}"
        return (self.directory, temporary) if self.committer in RENAMING else (self.directory,)

    @property
    def stem(self) -> str:
        """The key of the job object without its suffix."""
        return f"{self.directory}/job"


@dataclass(slots=True)
class Facts:
    """What is known of a scene.

    Attributes:
        destination: The destination directory of all jobs.
        jobs: The jobs.
        window: Whether the store deletes without conditions while several processes work on one job: then a
            late one may remove a newer ``_SUCCESS`` in place of the old one, which is no secret.
        hides: Whether the store lists no upload whose key an object has.
    """

    destination: str
    jobs: list[JobFacts] = field(default_factory=list)
    window: bool = False
    hides: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job had written down when it reached its commit point.

    Attributes:
        files: Attempts by the keys that they publish.
        deletions: Old keys.
        equal: Old keys that are replaced in place.
        problem: Why the facts cannot be read; empty if they can.
    """

    files: Mapping[str, str]
    deletions: frozenset[str] = frozenset()
    equal: frozenset[str] = frozenset()
    problem: str = ""


@dataclass(slots=True)
class JobHistory:
    """One job's states, in the order in which it took them.

    Attributes:
        states: Each once for each time that it was taken.
        state: What it says now; None before it was set up, and after it has ended.
        plan: What it publishes; None before its commit point.
        seen: Keys that were visible when it was prepared last.
        recorded: Uploads that documents of the job have named, if their names do not tell whose they are.
        claims: Attempts that have claimed their tasks, of a job whose tasks publish.
    """

    states: tuple[str, ...] = ()
    state: str | None = None
    plan: Plan | None = None
    seen: frozenset[str] = frozenset()
    recorded: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    _object: Any = None

    def reached(self, state: str) -> bool:
        """Whether it ever was in a state."""
        return state in self.states

    @property
    def ended(self) -> bool:
        """Whether it was set up and its object is gone."""
        return self.state is None and bool(self.states)

    def copy(self) -> JobHistory:
        """The same, from now on apart."""
        return replace(self)

    def look(self, world: SnapshotWorld, job: JobFacts, destination: str) -> None:
        """Take note of what the job's own objects say now."""
        if not job.unique:
            self._look_at_records(world, job)
        if job.by_tasks:
            self._look_at_claims(world, job, destination)
        found = newest(world.objects, job.stem, gaps=False)
        if found is self._object:
            return
        self._object = found
        document = document_of(found.body) if found is not None and found.body else None
        was, self.state = self.state, document["state"] if document else None
        if document is None or self.state is None or self.state == was:
            return
        if was is None and not self.reached("completed"):
            self.states, self.plan = (), None  # taken back, and set up once more: another story
        self.states = (*self.states, self.state)
        if self.state == "prepared":
            self.seen = frozenset(key for key in world.objects if is_data(key, destination))
        if self.state == "committing" and not self.reached("completed"):
            self.plan = _plan(world, document)

    def _look_at_claims(self, world: SnapshotWorld, job: JobFacts, destination: str) -> None:
        """A claim that is withdrawn was none; at the job's end all go."""
        claims = f"{destination}/_temporary/{job.job_id}/claims/"
        there = {
            document_of(it.body)["taskAttemptID"]
            for key, it in world.objects.items()
            if key.startswith(claims)
        }
        if self.state in {"open", "prepared", "committing"}:
            self.claims = frozenset(there)
        else:
            self.claims |= there

    def _look_at_records(self, world: SnapshotWorld, job: JobFacts) -> None:
        own = {key: one.body for key, one in world.objects.items() if key.startswith(job.directory)}
        own |= {name: body for name, body in world.cluster.items() if body and f"/{job.job_id}/" in name}
        for name, body in own.items():
            if name.endswith(".pending"):
                self.recorded |= {document_of(body)["uploadId"]}
            elif name.endswith(".pendingset"):
                self.recorded |= {one["uploadId"] for one in document_of(body)["commits"]}


@functools.lru_cache(maxsize=500)
def document_of(body: bytes) -> Any:
    """A body's JSON, not to be changed: the same is looked at after every request."""
    return json.loads(body)


def newest(objects: Mapping[str, Any], stem: str, *, gaps: bool = True) -> Any:
    """The version of a register that counts: the highest number, if the first is there.

    Old versions of a manifest or of the pointer are cleaned up, a job's are not. So without ``gaps`` what
    follows one does not count: a late copy of the first request has brought the first version of an ended job
    back, and a driver that comes as late is about to take its own back.
    """
    if f"{stem}.json" not in objects:
        return None
    found = {}
    for key in objects:
        if key.startswith(f"{stem}.") and (match := _VERSION.match(key, len(stem))):
            found[int(match[1] or 0)] = objects[key]
    if gaps:
        return found[max(found)]
    return found[next(number for number in itertools.count() if number + 1 not in found)]


@functools.lru_cache(maxsize=100_000)
def is_data(key: str, destination: str) -> bool:
    """Whether a reader of the destination takes a key for data."""
    if not key.startswith(f"{destination}/"):
        return False
    return not any(map(_is_hidden, key[len(destination) + 1 :].split("/")))


def _plan(world: SnapshotWorld, document: dict[str, Any]) -> Plan:
    files: dict[str, str] = {}
    deletions: set[str] = set()
    try:
        for chunk in document["chunks"]:
            for one in document_of(world.objects[chunk["key"]].body)["commits"]:
                files[one["destinationKey"]] = one["taskId"]
        for chunk in document["deletions"]:
            deletions |= {one["key"] for one in document_of(world.objects[chunk["key"]].body)["objects"]}
    except KeyError as error:
        return Plan(files, frozenset(deletions), problem=f"{error} is missing at the commit point")
    return Plan(files, frozenset(deletions), frozenset(document.get("equalKeys") or ()))


def _is_hidden(element: str) -> bool:
    # Spark's rule, apart from the code under test.
    return element.startswith(".") or (element.startswith("_") and "=" not in element)
