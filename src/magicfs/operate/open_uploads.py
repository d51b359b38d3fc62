"""Finding pending uploads, and what the jobs' own files say about them."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from magicfs.datasets.finders import finders
from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, StoreError
from magicfs.formats.pending import PENDING_SIZE_LIMIT, Pending
from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT, PendingSet
from magicfs.protocol import paths
from magicfs.protocol.final_names import is_named_by, job_named
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.magic import BASE, MAGIC, MAGIC_JOB, PENDING, PENDING_SET, locate
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import drained
from magicfs.stores.port import Store, UploadInfo
from magicfs.transaction.others import OtherJob, find_unfinished_jobs

__all__ = ["OpenUpload", "Survey", "ends", "survey"]

_CONCURRENCY = 32
_JOB = "job-"
_LOOKED_AT: Final = 1000


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """A pending upload."""

    key: str  # the key that it will have
    upload_id: str
    initiated: float  # seconds since the epoch, by the store's clock
    length: int | None  # size in bytes; None if no file of a job has it
    job_id: str | None  # the job; None if neither a file nor the key's name has it
    own_path: str | None = None
    """Key of the directory of a user's own below a magic element that records it; None if none does."""
    destination: str | None = None  # the job's, as a key; None if no work of the job was found
    is_foreign: bool = False  # whether the job is one of another program, which has no job object
    quarantined: bool = False  # whether the job's audit has failed, and it waits to be accepted or aborted
    unjudged: bool = False  # whether the job is open, and rules have still to judge it


@dataclass(frozen=True, slots=True)
class Survey:
    """What is pending under a directory."""

    uploads: tuple[OpenUpload, ...]
    unreadable: tuple[FormatError, ...]  # files of jobs that are malformed or inconsistent
    jobs: Mapping[str, OtherJob] = field(default_factory=dict)  # those that have not ended, by their ids
    seen: Mapping[str, float] = field(default_factory=dict)  # when work of each job was written last
    is_whole: bool = True  # whether all was looked at

    @property
    def bytes_known(self) -> int:
        """Sum of the known sizes."""
        return sum(upload.length or 0 for upload in self.uploads)

    @property
    def sizes_unknown(self) -> int:
        """How many have no known size."""
        return sum(upload.length is None for upload in self.uploads)


@dataclass(slots=True)
class _Records:
    """What the files under magic directories say."""

    uploads: dict[tuple[str, str], tuple[int, str | None]] = field(default_factory=dict)
    own_paths: dict[tuple[str, str], str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)  # the destination of each job that works there
    foreign: set[str] = field(default_factory=set)  # jobs in which tasks of other programs have worked
    ours: set[str] = field(default_factory=set)  # jobs that have a job object
    unreadable: list[FormatError] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)  # when work of each was written last
    left: int | None = None  # how many more requests may be made; None if it does not matter
    is_whole: bool = True  # whether that was enough

    def within(self, wanted: Iterable[str]) -> list[str]:
        """Those of some keys for which there are requests left."""
        every = list(wanted)
        taken = every[: self.left]
        if self.left is not None:
            self.left -= len(taken)
        self.is_whole &= len(taken) == len(every)
        return taken

    async def some(self, uploads: AsyncIterator[UploadInfo]) -> AsyncIterator[UploadInfo]:
        """The uploads of a listing, or the first of them."""
        number = 0
        async for one in uploads:
            if self.left is not None and number == _LOOKED_AT:
                self.is_whole = False
                return
            number += 1
            yield one

    def job_of(self, upload: UploadInfo) -> str | None:
        """The job of an upload: as recorded, else by its name."""
        recorded = self.uploads.get((upload.key, upload.upload_id))
        if recorded is not None and recorded[1]:
            return recorded[1]
        name = upload.key.rpartition("/")[2]
        named = [job for job in self.jobs if is_named_by(name, job)]
        return max(named, key=len) if named else job_named(name)

    def explains(self, upload: UploadInfo) -> bool:
        """Whether no other directory can have more about it."""
        return (upload.key, upload.upload_id) in self.uploads or self.job_of(upload) in self.jobs


async def survey(store: Store, directory: str, *, requests_max: int | None = None) -> Survey:
    """List every pending upload under a directory, with size and job where a job's files have them.

    Magic directories are looked for in the directory first, then level by level further down, only above
    uploads that are not explained yet: a large dataset is never listed whole. Jobs that work in a directory
    above are found by their objects. Nothing is changed. ``directory`` is a key without a slash at its end;
    empty for the whole bucket. With ``requests_max`` no more than the first thousand uploads are looked at,
    and so many directories and records.
    """
    records = _Records(left=requests_max)
    listed = store.list_uploads(paths.prefix_of(directory))
    uploads = [upload async for upload in records.some(listed)]
    top = len(paths.elements(directory))
    levels = max((len(paths.elements(upload.key)) for upload in uploads), default=0)
    for level in range(top, levels):
        unexplained = [upload for upload in uploads if not records.explains(upload)]
        await _read_records(store, _ancestors(unexplained, level), records)
    jobs = await _unfinished(store, {*records.jobs.values(), directory}) if uploads else {}
    if any(records.job_of(one) not in {None, *records.jobs, *jobs} for one in uploads):
        jobs = {**await _unfinished_above(store, directory), **jobs}
    found = [_describe(upload, records, jobs) for upload in uploads]
    return Survey(
        tuple(sorted(found, key=lambda one: (one.initiated, one.key, one.upload_id))),
        tuple(sorted(records.unreadable, key=str)),
        jobs,
        records.seen,
        records.is_whole,
    )


async def _unfinished(store: Store, destinations: Iterable[str]) -> dict[str, OtherJob]:
    """The jobs at some destinations that have not ended."""
    engine = Engine(store, _CONCURRENCY)
    return {
        one.job_id: one
        for destination in destinations
        for one in await find_unfinished_jobs(engine, destination, visitors=True)
    }


async def _unfinished_above(store: Store, directory: str) -> dict[str, OtherJob]:
    """The same of the directories above, as far as they may be listed."""
    found: dict[str, OtherJob] = {}
    for above in (*paths.parents(directory), "") if directory else ():
        try:
            found |= await _unfinished(store, [above])
        except StoreError:
            break
    return found


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
        # Only its name tells: the job has ended, or nobody knows whose it is.
        return (f"magicfs recover {url(location.key)} --job {shlex.quote(upload.job_id)} --abort {promise}",)
    destination = location.key if upload.destination is None else upload.destination
    line = f"magicfs recover {url(destination)} --job {shlex.quote(upload.job_id)}"
    if upload.is_foreign:
        return line, f"{line} --commit {promise}", f"{line} --abort {promise}"
    return f"{line} --commit --accept REASON" if upload.quarantined else line, f"{line} --abort"


def _ancestors(uploads: Iterable[UploadInfo], level: int) -> list[str]:
    """The directories of so many elements that uploads lie under."""
    split = (upload.key.split("/") for upload in uploads)
    return sorted({"/".join(elements[:level]) for elements in split if len(elements) > level})


def _describe(upload: UploadInfo, records: _Records, jobs: Mapping[str, OtherJob]) -> OpenUpload:
    length, _ = records.uploads.get((upload.key, upload.upload_id), (None, None))
    own_path = records.own_paths.get((upload.key, upload.upload_id))
    name = None if own_path else records.job_of(upload)
    found = None if name is None else jobs.get(name)
    job = None if found is None else found.job
    return OpenUpload(
        upload.key,
        upload.upload_id,
        upload.initiated,
        length,
        name,
        own_path,
        records.jobs.get(name or "") if found is None else found.layout.destination,
        is_foreign=found is None and name in records.foreign and name not in records.ours,
        quarantined=job is not None and job.is_quarantined,
        unjudged=job is not None and job.is_unjudged,
    )


async def _read_records(store: Store, directories: Iterable[str], records: _Records) -> None:
    files: list[str] = []

    async def search(directory: str) -> bool:
        limit = None if records.left is None else _LOOKED_AT
        async for info in store.list(paths.prefix_of(directory) + MAGIC, limit=limit):
            if (job := _job_of_path(store.bucket, info.key)) is not None:
                records.jobs.setdefault(job, _destination(store.bucket, info.key))
                records.seen[job] = max(info.modified or 0.0, records.seen.get(job, 0.0))
                _note_whose(records, job, info.key)
            if info.key.endswith((PENDING, PENDING_SET)):
                files.append(info.key)
        return True

    async def read(key: str) -> bool:
        await _read(store, key, records)
        return True

    await drained(records.within(directories), search, _CONCURRENCY)
    # Sets first: one of them has many uploads.
    files.sort(key=lambda key: (key.endswith(PENDING), key))
    await drained(records.within(files), read, _CONCURRENCY)


def _note_whose(records: _Records, job: str, key: str) -> None:
    """Note what a key among the work of a job tells: that it has an object of ours, or whose tasks worked."""
    destination, _, rest = key.partition(f"{MAGIC_JOB}{job}/{_JOB}{job}/")
    name: LayoutName = "__magic_job" if rest else "__magic"
    if not rest:
        destination = key.partition(f"{MAGIC}/{_JOB}{job}/")[0]
    layout = WorkLayout(destination.rstrip("/"), JobId(job), 0, name)
    if layout.is_job_object(key):
        records.ours.add(job)
    elif any(finder.writes(layout, key) for finder in finders().values()):
        records.foreign.add(job)


async def _read(store: Store, key: str, records: _Records) -> None:
    path = f"{store.bucket}/{key}"
    pendings: tuple[Pending, ...]
    try:
        if key.endswith(PENDING):
            raw = await store.get(key, size_max=PENDING_SIZE_LIMIT + 1)
            pendings = (Pending.from_bytes(path, raw),)
        else:
            raw = await store.get(key, size_max=PENDINGSET_SIZE_LIMIT + 1)
            pendings = PendingSet.from_bytes(path, raw).commits
    except ObjectNotFound:
        return  # its task or job has ended since
    except FormatError as error:
        records.unreadable.append(error)
        return
    job = _job_of_path(store.bucket, key)
    for pending in pendings:
        if pending.bucket == store.bucket:
            identity = (pending.destination_key, pending.upload_id)
            records.uploads[identity] = (pending.length, pending.job_id or job)
            if key.endswith(PENDING) and (own_path := _own_path(path)) is not None:
                records.own_paths[identity] = own_path


def _own_path(path: str) -> str | None:
    """The directory of a user's own that a record lies in: the first one below its magic element."""
    located = locate(path.removesuffix(PENDING))
    if located is None or located.owner is not None:
        return None
    first = located.children[:1] if len(located.children) > 1 and located.children[0] != BASE else ()
    return paths.join(*located.parents, located.magic, *first)


def _destination(bucket: str, key: str) -> str:
    located = locate(f"{bucket}/{key}")
    return "/".join(located.parents) if located is not None else ""


def _job_of_path(bucket: str, key: str) -> str | None:
    """The job whose magic directory a key lies in."""
    path = locate(f"{bucket}/{key}")
    if path is None:
        return None
    if path.magic.startswith(MAGIC_JOB):
        return path.magic.removeprefix(MAGIC_JOB)
    return next((child.removeprefix(_JOB) for child in path.children[:1] if child.startswith(_JOB)), None)
