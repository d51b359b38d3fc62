"""Whose open uploads are, by what the magic directories above their keys say.

A job of magicfs has its object, or a file that says where that is, in a directory above everything that it
uploads to; so has a job of Hadoop's magic committer its work. So nothing but these directories is looked at:
one listing each, whatever lies in the bucket. An upload that nothing names may still belong to a job that
does not name what it writes. Such an upload is *held*: nothing here aborts it.
"""

from __future__ import annotations

import re
import shlex
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from hashlib import blake2b
from typing import Final

from magicfs.datasets.finders import finders
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, StoreError
from magicfs.formats.limits import PENDING_SIZE_LIMIT, PENDINGSET_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.protocol import paths
from magicfs.protocol.final_names import LABEL, UUID, is_named_by, job_named
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.magic import BASE, MAGIC, MAGIC_JOB, PENDING, PENDING_SET, locate
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import drained
from magicfs.stores.port import ObjectInfo, UploadInfo
from magicfs.transaction.others import OtherJob, unfinished_among

_SILENT_S: Final = 3600.0
_JOB: Final = "job-"
_LOOKED_AT: Final = 1000
_WORKS_MAX: Final = 5000
_READ_FOR_SIZES: Final = 1000
_OURS: Final = re.compile(rf"-(?:{LABEL})-(?:{UUID.pattern})(?:\.|\Z)", re.IGNORECASE)


class Owner(Enum):
    """Who opened an upload, and what has become of them."""

    RUNNING = "running"
    """An unfinished job, or a path of a user's own, of which something was seen within the hour."""
    DEAD = "dead"
    """The same, of which nothing was seen for longer."""
    QUARANTINED = "quarantined"
    """A job whose audit has failed."""
    HADOOP = "hadoop"
    """An unfinished job of Hadoop's, which has no job object."""
    ENDED = "ended"
    """A job of magicfs known by its name alone: it has ended."""
    NOBODY = "nobody"
    """No job that a file of magicfs or Hadoop names."""
    UNKNOWN = "unknown"
    """Nobody knows: a directory above cannot be read."""


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """A pending upload."""

    key: str  # the key that it will have
    upload_id: str
    initiated: float  # seconds since the epoch, by the store's clock
    owner: Owner
    initiator: str = ""  # as the store says
    length: int | None = None  # size in bytes; None if no file of a job has it
    job_id: str | None = None  # the job; None if neither a file nor the key's name has it
    own_path: str | None = None
    """Key of the directory of a user's own below a magic element that records it; None if none does."""
    destination: str | None = None  # the job's, as a key; None if no work of the job was found
    is_foreign: bool = False  # whether the job is one of another program, which has no job object
    unjudged: bool = False  # whether the job is open, and rules have still to judge it
    ending: bool = False  # whether the job is past its commit point, or being undone: recover ends it
    held: str = ""  # why it is never aborted here; empty if nobody can need it

    @property
    def quarantined(self) -> bool:
        """Whether the job's audit has failed, and it waits to be accepted or aborted."""
        return self.owner is Owner.QUARANTINED

    @property
    def whose(self) -> str:
        """The job or the own path, for which uploads are counted together."""
        return self.own_path or self.job_id or ""


@dataclass(slots=True)
class _Claim:
    """What a record says of an upload."""

    length: int | None
    job: str | None
    own_path: str | None


@dataclass(slots=True)
class _Work:
    """What lies in the magic directories of one directory."""

    jobs: dict[str, OtherJob] = field(default_factory=dict)  # those that have an object
    traces: dict[str, str] = field(default_factory=dict)  # those that have none: where their work lies
    foreign: set[str] = field(default_factory=set)  # in which tasks of other programs have worked
    claims: dict[bytes, _Claim] = field(default_factory=dict)
    held: str = ""  # who may need an upload that nothing here names; empty for nobody
    is_unknown: bool = False  # whether that is because it cannot be read

    def named(self, key: str) -> str | None:
        """The job that a key's last element names, of those that work here."""
        name = key.rpartition("/")[2]
        if (job := job_named(name)) in self.jobs or job in self.traces:
            return job
        found = [one for one in (*self.jobs, *self.traces) if is_named_by(name, one)]
        return max(found, key=len, default=None)

    def mentioned(self, key: str) -> str:
        """Why an upload may be of a job whose id stands anywhere in its key; empty if none does."""
        one = next((job for job in (*self.jobs, *self.traces) if job in key), None)
        return f"its key has the id of job {one}, which has not ended" if one else ""


_NOTHING: Final = _Work()


class Owners:
    """Says of uploads whose they are. Changes nothing.

    With ``requests_max`` it makes about so many requests, and holds what it has not looked at.

    Attributes:
        jobs: The unfinished jobs that it met, by their ids.
        seen: When something was seen of each job or own path last, in seconds since the epoch.
        unreadable: Files of jobs that are malformed or inconsistent.
        is_whole: Whether all was looked at.
    """

    def __init__(self, engine: Engine, directory: str, *, requests_max: int | None = None) -> None:
        self.jobs: dict[str, OtherJob] = {}
        self.seen: dict[str, float] = {}
        self.unreadable: list[FormatError] = []
        self.is_whole = True
        self._engine = engine
        self._bucket = engine.store.bucket
        self._top = len(directory.split("/")) if directory else 0
        self._left = requests_max
        self._works: OrderedDict[str, _Work] = OrderedDict()

    async def of(self, uploads: Sequence[UploadInfo]) -> list[OpenUpload]:
        """Whose some uploads are.

        Directories are looked at from the one that was asked about downwards, then those above it, and only
        above uploads that are not explained yet.
        """
        found: dict[int, OpenUpload] = {}
        above: list[list[_Work]] = [[] for _ in uploads]
        deepest = max((one.key.count("/") for one in uploads), default=0)
        for level in (*range(self._top, deepest + 1), *range(self._top - 1, -1, -1)):
            places = _ancestors(uploads, level, found)
            works = await self._look(set(places.values()))
            for n, place in places.items():
                above[n].append(works[place])
                found |= _explained(n, uploads[n], works[place])
        return [self._seen(found.get(n) or _left_over(one, above[n])) for n, one in enumerate(uploads)]

    def _seen(self, upload: OpenUpload) -> OpenUpload:
        self.seen[upload.whose] = max(self.seen.get(upload.whose, 0.0), upload.initiated)
        return upload

    async def batches(self, uploads: AsyncIterator[UploadInfo]) -> AsyncIterator[list[OpenUpload]]:
        """The uploads of a listing, a thousand at a time."""
        batch: list[UploadInfo] = []
        async for one in uploads:
            if self._left is not None and len(batch) == _LOOKED_AT:
                self.is_whole = False
                break
            batch.append(one)
            if self._left is None and len(batch) == _LOOKED_AT:
                yield await self.of(batch)
                batch = []
        if batch:
            yield await self.of(batch)

    def owner_now(self, owner: Owner, whose: str, now: float) -> Owner:
        """The owner of uploads, now that all were seen: whether one that runs is dead."""
        silent = owner is Owner.RUNNING and now - self.seen.get(whose, 0.0) >= _SILENT_S
        return Owner.DEAD if silent else owner

    async def _look(self, directories: Iterable[str]) -> dict[str, _Work]:
        """What lies in the magic directories of some directories."""
        found: dict[str, _Work] = {}

        async def look(directory: str) -> bool:
            found[directory] = await self._read_work(directory)
            return True

        wanted = set(directories)
        for one in wanted & self._works.keys():
            self._works.move_to_end(one)
            found[one] = self._works[one]
        await drained(sorted(wanted - found.keys()), look, self._engine.concurrency)
        self._works.update(found)
        while len(self._works) > max(_WORKS_MAX, len(wanted)):
            self._works.popitem(last=False)
        return found

    async def _read_work(self, directory: str) -> _Work:
        if not self._may_ask():
            return _Work(held="not all was looked at")
        try:
            work = await self._read_all(directory)
        except ObjectNotFound:
            raise
        except StoreError as error:
            where = f"{self._bucket}/{directory}"
            return _Work(held=f"{where} cannot be read ({type(error).__name__})", is_unknown=True)
        for name, one in work.jobs.items():
            self.jobs[name] = one
            changed = one.job.changed_ms / 1000 if one.job else 0.0
            self.seen[name] = max(self.seen.get(name, 0.0), changed)
        return work

    async def _read_all(self, directory: str) -> _Work:
        prefix = paths.prefix_of(directory) + MAGIC
        listed = [one async for one in self._engine.store.list_directories(prefix)]
        if not listed:
            return _NOTHING
        jobs = await unfinished_among(self._engine, directory, listed, visitors=True)
        work = _Work({str(one.job_id): one for one in jobs})
        for one in listed:
            await self._read_magic(work, one)
        work.held = work.held or _needs_the_nameless(work)
        return work

    async def _read_magic(self, work: _Work, directory: str) -> None:
        """Read the work below one magic directory."""
        limit, count, optional = None if self._left is None else _LOOKED_AT, 0, 0
        files: list[str] = []
        async for info in self._engine.store.list(directory, limit=limit):
            count += 1
            if locate(f"{self._bucket}/{info.key}") is None:
                continue  # a name that begins like a magic one
            job = self._note(work, info)
            if not info.key.endswith((PENDING, PENDING_SET)):
                continue
            is_needed = _needs_records(work, job)
            optional += not is_needed
            if is_needed or optional <= _READ_FOR_SIZES:
                files.append(info.key)
            if len(files) == _LOOKED_AT:
                await self._read_records(work, files)
                files = []
        if count == limit:
            self.is_whole = False
            work.held = work.held or f"not all work in {self._bucket}/{directory} was looked at"
        await self._read_records(work, files)

    def _note(self, work: _Work, info: ObjectInfo) -> str:
        """Note what a key below a magic directory shows; returns its job, empty for none."""
        job = _job_of_path(self._bucket, info.key)
        if job is None:
            work.held = f"{self._bucket}/{info.key} is of a path of somebody's own"
            return ""
        self.seen[job] = max(info.modified or 0.0, self.seen.get(job, 0.0))
        self._note_whose(work, job, info.key)
        return job

    async def _read_records(self, work: _Work, files: list[str]) -> None:
        async def read(key: str) -> bool:
            await self._read(work, key)
            return True

        # Sets first: one of them has many uploads.
        files.sort(key=lambda key: (key.endswith(PENDING), key))
        await drained([key for key in files if self._may_ask()], read, self._engine.concurrency)

    async def _read(self, work: _Work, key: str) -> None:
        path = f"{self._bucket}/{key}"
        pendings: tuple[Pending, ...]
        try:
            if key.endswith(PENDING):
                raw = await self._engine.store.get(key, size_max=PENDING_SIZE_LIMIT + 1)
                pendings = (Pending.from_bytes(path, raw),)
            else:
                raw = await self._engine.store.get(key, size_max=PENDINGSET_SIZE_LIMIT + 1)
                pendings = PendingSet.from_bytes(path, raw).commits
        except ObjectNotFound:
            return  # its task or job has ended since
        except FormatError as error:
            self.unreadable.append(error)
            work.held = work.held or f"{path} cannot be read"
            return
        job = _job_of_path(self._bucket, key)
        own_path = _own_path(path) if key.endswith(PENDING) else None
        for one in pendings:
            if one.bucket == self._bucket:
                named = _Claim(one.length, job or one.job_id, own_path)
                work.claims[_identity(one.destination_key, one.upload_id)] = named

    def _may_ask(self) -> bool:
        """Whether one request more may be made."""
        if self._left is None:
            return True
        self._left -= 1
        self.is_whole = self.is_whole and self._left >= 0
        return self._left >= 0

    def _note_whose(self, work: _Work, job: str, key: str) -> None:
        """Note what a key among the work of a job shows: that it has no object, or whose tasks worked."""
        destination, _, rest = key.partition(f"{MAGIC_JOB}{job}/{_JOB}{job}/")
        name: LayoutName = "__magic_job" if rest else "__magic"
        if not rest:
            destination = key.partition(f"{MAGIC}/{_JOB}{job}/")[0]
        layout = WorkLayout(destination.rstrip("/"), JobId(job), 0, name)
        if any(finder.writes(layout, key) for finder in finders().values()):
            work.foreign.add(job)
        if job not in work.jobs:
            located = locate(f"{self._bucket}/{key}")
            work.traces.setdefault(job, "" if located is None else "/".join(located.parents))


def _explained(number: int, upload: UploadInfo, work: _Work) -> dict[int, OpenUpload]:
    """An upload that a record, or the name of a job that works there, explains; empty for any other."""
    claim = work.claims.get(_identity(upload.key, upload.upload_id))
    claim = claim or _Claim(None, work.named(upload.key), None)
    if claim.own_path is not None:
        held = f"a file of {claim.own_path} names it"
        own = _open(upload)(Owner.RUNNING, length=claim.length, own_path=claim.own_path, held=held)
        return {number: own}
    job = claim.job
    if job is None or work.is_unknown:
        return {}
    if job in work.jobs:
        return {number: _of_unfinished(upload, work.jobs[job], claim.length)}
    one = _open(upload)(
        Owner.HADOOP if job in work.foreign else Owner.ENDED,
        length=claim.length,
        job_id=job,
        destination=work.traces.get(job),
        is_foreign=job in work.foreign,
        held=f"work of job {job} is left, and it has no job object",
    )
    return {number: one}


def _of_unfinished(upload: UploadInfo, one: OtherJob, length: int | None) -> OpenUpload:
    job = one.job
    return _open(upload)(
        Owner.QUARANTINED if job is not None and job.is_quarantined else Owner.RUNNING,
        length=length,
        job_id=one.job_id,
        destination=one.layout.destination,
        unjudged=job is not None and job.is_unjudged,
        ending=job is not None and job.state not in BEFORE_COMMIT,
        held=f"job {one.job_id} has not ended",
    )


def _left_over(upload: UploadInfo, above: Sequence[_Work]) -> OpenUpload:
    """An upload that nothing explains."""
    held = next(filter(None, (one.held or one.mentioned(upload.key) for one in above)), "")
    name = upload.key.rpartition("/")[2]
    job = job_named(name) if _OURS.search(name) else None
    owner = Owner.NOBODY if job is None else Owner.ENDED
    if any(one.is_unknown for one in above):
        owner = Owner.UNKNOWN
    return _open(upload)(owner, job_id=job, held=held)


def ends(location: Location, upload: OpenUpload) -> tuple[str, ...]:
    """The commands that publish or discard an upload; none if no file of magicfs says whose it is."""

    def url(key: str) -> str:
        return shlex.quote(Location(location.scheme, location.bucket, key).url)

    if upload.own_path is not None:
        return f"magicfs job publish {url(upload.own_path)}", f"magicfs job discard {url(upload.own_path)}"
    if upload.job_id is None:
        return ()
    promise = "--driver-is-dead"
    if upload.destination is None and not upload.is_foreign:
        # Its name alone shows it: the job has ended, or nobody knows whose it is.
        return (f"magicfs recover {url(location.key)} --job {shlex.quote(upload.job_id)} --abort {promise}",)
    destination = location.key if upload.destination is None else upload.destination
    line = f"magicfs recover {url(destination)} --job {shlex.quote(upload.job_id)}"
    if upload.is_foreign:
        return f"{line} --commit {promise}", f"{line} --abort {promise}"
    if upload.ending:
        return (line,)
    return f"{line} --commit{' --accept REASON' if upload.quarantined else ''}", f"{line} --abort"


def _open(upload: UploadInfo) -> partial[OpenUpload]:
    return partial(OpenUpload, upload.key, upload.upload_id, upload.initiated, initiator=upload.initiator)


def _needs_records(work: _Work, job: str) -> bool:
    """Whether nothing but records shows which uploads are a job's; else they have but their sizes."""
    one = work.jobs[job].job if job in work.jobs else None
    return one is None or not one.options.unique_names or bool(one.options.hadoop.begun_by)


def _needs_the_nameless(work: _Work) -> str:
    """Who may need uploads that have no record and no name of a job; empty for nobody."""
    for job in work.jobs:
        if work.jobs[job].job is None:
            return f"the job object of job {job} cannot be read"
        if _needs_records(work, job) or job in work.foreign:
            return f"job {job} has not ended, and may give names without its id"
    left = next(iter(work.traces), None)
    return "" if left is None else f"work of job {left} is left, and it has no job object"


def _ancestors(uploads: Sequence[UploadInfo], level: int, but: Collection[int]) -> dict[int, str]:
    """The directories of so many elements above uploads that have so many, by their places."""
    split = {n: one.key.split("/")[:-1] for n, one in enumerate(uploads) if n not in but}
    return {n: "/".join(above[:level]) for n, above in split.items() if level <= len(above)}


def _identity(key: str, upload_id: str) -> bytes:
    text = f"{key}\0{upload_id}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).digest()


def _own_path(path: str) -> str | None:
    """The directory of a user's own that a record lies in: the first one below its magic element."""
    located = locate(path.removesuffix(PENDING))
    if located is None or located.owner is not None:
        return None
    first = located.children[:1] if len(located.children) > 1 and located.children[0] != BASE else ()
    return paths.join(*located.parents, located.magic, *first)


def _job_of_path(bucket: str, key: str) -> str | None:
    """The job whose magic directory a key lies in."""
    path = locate(f"{bucket}/{key}")
    if path is None:
        return None
    if path.magic.startswith(MAGIC_JOB):
        return path.magic.removeprefix(MAGIC_JOB)
    return next((child.removeprefix(_JOB) for child in path.children[:1] if child.startswith(_JOB)), None)
