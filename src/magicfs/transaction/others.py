"""Other jobs and uploads under a destination: who is at work, since when, in what state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound
from magicfs.formats import gate
from magicfs.formats.job_object import JOB_OBJECT_SIZE_LIMIT, JobObject
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_by_partition, overlap
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import CHANGES_FILES
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MAGIC, MAGIC_JOB
from magicfs.protocol.other_datasets import layout_of
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions, remembered
from magicfs.stores.register import Register
from magicfs.transaction.context import FoundJob, JobContext
from magicfs.transaction.record import location_at

__all__ = [
    "OtherJob",
    "conflicting",
    "find_unfinished_jobs",
    "follow",
    "of_run",
    "read_unfinished",
    "unfinished_among",
]

_JOB = "job-"


@dataclass(frozen=True, slots=True)
class OtherJob:
    """A job whose object lies under a destination."""

    layout: WorkLayout
    job: JobObject | None  # what its object says; None if it is malformed, or nobody may act on the job
    problem: FormatError | None = None  # why not
    visits: str | None = None  # the extra destination of its own at which it was found
    run_id: str | None = None  # the run that its object names, also of a job that nobody may act on

    def found(self) -> FoundJob:
        """The same for people."""
        job = self.job
        if job is None:
            return FoundJob(self.job_id, None, 0.0, 0.0, "", None, str(self.problem))
        created, changed = job.created_ms / 1000, job.changed_ms / 1000
        return FoundJob(self.job_id, job.state.value, created, changed, job.host, job.options.run_id)

    @property
    def scope(self) -> tuple[str, ...] | None:
        """The partitions, relative to where it was found, that it may change; None for everything there."""
        job = self.job
        if job is None or self.visits is not None:
            return None
        if not is_by_partition(job.options.conflict, job.options.committer):
            return None
        return job.partitions

    @property
    def job_id(self) -> JobId:
        """The job, as the place of its object tells."""
        return self.layout.job


async def find_unfinished_jobs(
    engine: Engine, destination: str, *, visitors: bool = False, but: JobId | None = None
) -> list[OtherJob]:
    """Every job that has set itself up under a destination and has not ended, the oldest first.

    With ``visitors`` also those of which the directory is an extra destination. What lies in the directories
    of jobs is not listed: it may be much. The object of one job, ``but``, is not read: its own process knows
    what it says.
    """
    prefix = paths.prefix_of(destination) + MAGIC
    directories = [one async for one in engine.store.list_directories(prefix)]
    return await unfinished_among(engine, destination, directories, visitors=visitors, but=but)


async def unfinished_among(
    engine: Engine,
    directory: str,
    listed: Iterable[str],
    *,
    visitors: bool,
    gone: list[str] | None = None,
    but: JobId | None = None,
) -> list[OtherJob]:
    """The unfinished jobs whose directories are among those that a listing of a directory shows.

    ``gone`` is told the directories in which there is none: their jobs may have ended since the listing.
    ``but`` is left out.
    """
    prefix = paths.prefix_of(directory)
    shared = f"{prefix}{MAGIC}/"
    names = [one for one in listed if one.startswith(prefix + MAGIC)]
    places = [f"{one}{_JOB}{one.removeprefix(prefix + MAGIC_JOB)}" for one in names if one != shared]
    if shared in names:
        places += [one async for one in engine.store.list_directories(shared + _JOB)]
    found: list[OtherJob] = []

    async def look(place: str) -> bool:
        magic, _, job = place.removeprefix(prefix).rstrip("/").partition("/")
        layout = layout_of(directory, magic, job)
        if layout is not None and layout.job == but:
            return True
        one = None if layout is None else await read_unfinished(engine, layout)
        if one is None and layout is not None and visitors:
            one = await follow(engine, layout)
        if one is not None:
            found.append(one)
        elif gone is not None:
            gone.append(place)
        return True

    await drained(places, look, engine.concurrency)
    return sorted(found, key=lambda one: (one.job.created_ms if one.job else 0, one.job_id))


async def read_unfinished(engine: Engine, layout: WorkLayout) -> OtherJob | None:
    """A job at its destination; None if it has no object there: it has ended, or never was."""
    known, job = remembered(engine.store), None
    try:
        if known is not None and known.put_if_match:
            job = await _read_first(engine, layout)
        # Its own process may have seen the store otherwise.
        if job is None or job.numbered_versions:
            job = await _read_newest(engine, layout)
        if job is None:
            return None
        gate.admit_job(job, engine.store.bucket, layout.job_object_key, layout)
        return OtherJob(layout, job, run_id=job.options.run_id)
    except ObjectNotFound:
        return None
    except FormatError as error:
        return OtherJob(layout, None, error, run_id=None if job is None else job.options.run_id)


async def _read_first(engine: Engine, layout: WorkLayout) -> JobObject:
    """What ``job.json`` says, by one request: all there is, unless versions are numbered."""
    key = layout.job_object_key
    raw = await engine.store.get(key, size_max=JOB_OBJECT_SIZE_LIMIT + 1)
    return JobObject.from_bytes(f"{engine.store.bucket}/{key}", raw)


async def _read_newest(engine: Engine, layout: WorkLayout) -> JobObject | None:
    entry = await Register(engine.store, layout.job_object_key, Conditions()).read()
    if entry is None:
        return None
    return JobObject.from_bytes(f"{engine.store.bucket}/{entry.key}", entry.body)


async def follow(engine: Engine, layout: WorkLayout) -> OtherJob | None:
    """The unfinished job that has left its location where a layout has it; None if none has."""
    try:
        destination = await location_at(engine, layout)
    except FormatError as error:
        return OtherJob(layout, None, error, layout.destination)
    if destination is None:
        return None
    one = await read_unfinished(engine, replace(layout, destination=destination))
    if one is None or (one.job is not None and layout.destination not in one.job.destinations):
        return None  # somebody else has left the location: the job does not publish here
    return replace(one, visits=layout.destination)


def of_run(others: Sequence[OtherJob], context: JobContext) -> list[OtherJob]:
    """Those of the same run as a job, but for the job itself; none of a job without a run."""
    rivals = [one for one in others if context.options.run_id is not None and one.job_id != context.job]
    return [one for one in rivals if one.run_id == context.options.run_id]


def conflicting(others: Sequence[OtherJob], own: JobId, scope: tuple[str, ...] | None) -> list[OtherJob]:
    """Those that may be changing files in a scope at this moment.

    An open job is none of them: what it will publish comes after us. An aborting one never shows a file.
    """
    return [
        one
        for one in others
        if one.job_id != own
        and (one.job is None or (one.job.state in CHANGES_FILES and overlap(scope, one.scope)))
    ]
