"""What is left of a chain whose pointer is lost: the manifests that can be read, and traces of the others."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from magicfs.errors import FormatError, ObjectExists, ObjectNotFound, PreconditionFailed
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import RUNS_KEPT, Keeping, Pointer
from magicfs.formats.success import SUCCESS_FILE, SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.manifests import chain
from magicfs.manifests.runs import published_runs
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register

__all__ = [
    "KEPT_LIST",
    "Remains",
    "announced_by_success",
    "lost_on_top",
    "pointer_naming",
    "put_pointer",
    "read_all",
    "remains_of",
]

KEPT_LIST: Final = re.compile(r"([^/]+)/kept-[0-9]{5,}-[0-9a-f]{16}\.json")
"""The name of a list of kept files, beside manifests; its group is the job."""
_FILE: Final = re.compile(r"(?P<job>.+?)(?:\.[0-9]{5,9})?\.json")


@dataclass(frozen=True, slots=True)
class Remains:
    """A destination without a pointer that can be read.

    Attributes:
        problem: What is wrong with the pointer.
        entry: The malformed pointer; None if it is gone.
        manifests: Every manifest that can be read, by job.
        damaged: Jobs whose manifests are malformed, and what is wrong with them.
        keepers: Jobs of which lists of kept files are there, whether their manifests are or not.
        announced: The job of which ``_SUCCESS`` says that its manifest is here; None if it says of none.
    """

    problem: str
    entry: Entry | None
    manifests: Mapping[str, Manifest]
    damaged: Mapping[str, str]
    keepers: frozenset[str] = field(default_factory=frozenset)
    announced: str | None = None

    @property
    def newest(self) -> str | None:
        """The job that seems to have been published last; None if no manifest can be read.

        Of several parts of the chain, that have no link any more, one at whose end a manifest is missing lies
        above others; else the newer one by the clocks of its drivers.
        """
        named = {one.previous for one in self.manifests.values()}
        heads = [job for job in self.manifests if job not in named]
        if cut := [job for job in heads if self._is_cut(job)]:
            heads = cut
        return max(heads, key=lambda job: (self.manifests[job].committed_ms, job), default=None)

    def _is_cut(self, head: str) -> bool:
        """Whether a manifest is missing below."""
        job: str | None = head
        met: set[str] = set()
        while job is not None and job in self.manifests and job not in met:
            met.add(job)
            job = self.manifests[job].previous
        return job is not None and job not in met

    def lost_on_top(self, others: Iterable[str]) -> list[str]:
        """Jobs whose manifests are lost, and may have been published after the newest that can be read.

        ``others`` are jobs that files name. A job that a manifest names as the one before it was none.
        """
        announced = [] if self.announced is None else [self.announced]
        return lost_on_top(self.manifests, [*self.damaged, *self.keepers, *announced, *others])


def lost_on_top(manifests: Mapping[str, Manifest], jobs: Iterable[str]) -> list[str]:
    """Those of the jobs that have no manifest among these, and that none of these names as one before it."""
    below = {name for one in manifests.values() for name in (one.previous, one.replaced)}
    return sorted(set(jobs) - manifests.keys() - below)


async def remains_of(store: Store, destination: str) -> Remains | None:
    """What is left where the pointer is gone or malformed; None if it is sound, or nothing was published.

    Raises FormatError if a newer magicfs wrote the pointer or a manifest.
    """
    key = chain.pointer_key(destination)
    entry = await Register(store, key, chain.READING, lasting=True).read()
    problem = f"{store.bucket}/{key}: is gone"
    if entry is not None:
        try:
            chain.pointer_of(store, destination, entry)
        except FormatError as error:
            if "newer magicfs" in error.problem:
                raise
            problem = str(error)
        else:
            return None
    names = await _names(store, destination)
    manifests: dict[str, Manifest] = {}
    damaged: dict[str, str] = {}
    for job in sorted(_jobs(names)):
        try:
            manifest = await chain.read(store, destination, job, chain.READING)
        except FormatError as error:
            if "newer magicfs" in error.problem:
                raise
            damaged[job] = str(error)
            continue
        if manifest is not None:
            manifests[job] = manifest
    if entry is None and not manifests and not damaged:
        return None
    keepers = {match[1] for name in names if (match := KEPT_LIST.fullmatch(name))}
    announced = await announced_by_success(store, destination)
    return Remains(problem, entry, manifests, damaged, frozenset(keepers), announced)


async def announced_by_success(store: Store, destination: str) -> str | None:
    """The job of which ``_SUCCESS`` says that its manifest is at a destination; None if it says of none."""
    key = paths.join(destination, SUCCESS_FILE)
    try:
        raw = await store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
        found = SuccessData.from_bytes(f"{store.bucket}/{key}", raw)
    except (ObjectNotFound, FormatError):
        return None
    told = found.diagnostics.get("magicfs.manifest")
    return found.job_id if told == chain.manifest_key(destination, found.job_id) else None


async def read_all(store: Store, destination: str) -> dict[str, Manifest]:
    """Every manifest, by job. Raises FormatError if one is malformed."""
    found: dict[str, Manifest] = {}
    for job in sorted(_jobs(await _names(store, destination))):
        manifest = await chain.read(store, destination, job, chain.READING)
        if manifest is not None:
            found[job] = manifest
    return found


async def _names(store: Store, destination: str) -> list[str]:
    prefix = paths.prefix_of(paths.join(destination, MANIFESTS))
    return [info.key.removeprefix(prefix) async for info in store.list(prefix)]


def _jobs(names: Collection[str]) -> set[str]:
    jobs = {match["job"] for name in names if (match := _FILE.fullmatch(name)) and "/" not in name}
    return jobs - {chain.POINTER}


def pointer_naming(job: str, manifests: Iterable[Manifest]) -> Pointer:
    """A pointer to a job, that knows the runs and the kept files of some manifests, the newest first."""
    runs: list[tuple[str, str]] = []
    keeping: list[Keeping] = []
    summed, log = False, None
    for one in manifests:
        if not summed:
            runs += [(run.run_id, run.job_id) for run in published_runs(one)]
        if one.conflict == chain.COMPACT and not summed:
            summed, log = True, one.log
        # Which of them have expired is not known any more; expire finds nothing of those.
        if one.kept is not None:
            lists = tuple(each.sha256 for each in one.kept.lists)
            keeping.append(Keeping(job_id=one.job_id, until_ms=one.kept.until_ms, lists=lists))
    last = dict(runs[:RUNS_KEPT])
    return Pointer(
        job_id=job,
        nonce=uuid4().hex,
        changed_ms=int(time.time() * 1000),
        runs=tuple(reversed(last.items())),
        keeping=tuple(reversed(keeping)),
        log=log,
    ).knowing(run for run, _ in runs)


async def put_pointer(
    store: Store, destination: str, conditions: Conditions, entry: Entry | None, pointer: Pointer
) -> bool:
    """Write a pointer in the place of the one that was read, or of none; False if another one is there now.

    Raises Unavailable if the store did not say whether it was written.
    """
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    try:
        await (head.create(pointer.to_bytes()) if entry is None else head.swap(entry, pointer.to_bytes()))
    except (ObjectExists, PreconditionFailed):
        return False
    return True
