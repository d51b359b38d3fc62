"""Other jobs and uploads under a destination: who is at work, since when, in what state.

Whom a job that deletes meets below and above its destination: datasets, tables, and jobs at work.

Below they stand in the listing of what it would delete. Above, each directory on the way up is listed once,
only its names that begin with an underscore; and only if there is anything to delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    FormatError,
    ObjectNotFound,
    PermissionDenied,
    Unsupported,
    UsageError,
)
from magicfs.formats import gate
from magicfs.formats.job_object import JobObject
from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT
from magicfs.manifests import chain
from magicfs.manifests.kept import kept_by
from magicfs.protocol import modes, paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import CHANGES_FILES
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MAGIC, MAGIC_JOB
from magicfs.protocol.modes import MANIFESTS, delta_mark, is_by_partition, overlap
from magicfs.protocol.other_datasets import (
    Other,
    Others,
    ancestors,
    directories_between,
    layout_of,
    reaches,
    table_of,
)
from magicfs.protocol.paths import Location
from magicfs.protocol.replacement import Replacement
from magicfs.runtime.parallel import drained
from magicfs.stores.conditions import Conditions, remembered
from magicfs.stores.port import Store
from magicfs.stores.register import Register, is_there
from magicfs.transaction.context import FoundJob, JobContext
from magicfs.transaction.record import location_at


async def is_kept_by_magicfs(store: Store, directory: str, key: str) -> bool:
    """Whether a key or a directory that shows a table at a destination is of a log with the mark of magicfs.

    One HEAD, and none if it shows another table format.
    """
    mark = delta_mark(directory)
    log = mark.rpartition("/")[0]
    if key.rstrip("/") != log and not paths.is_under(key, log):
        return False
    return await is_there(store, mark)


_SHOWN = 3
_LOOKED_AT = 1000
_ICEBERG_DATA = "data"


@dataclass(slots=True)
class InTheWay:
    """Who keeps a job from deleting, each in words."""

    datasets: list[str] = field(default_factory=list)  # that stay
    to_name: list[str] = field(default_factory=list)  # their URLs, for ``also_overwrite``
    jobs: list[str] = field(default_factory=list)  # that are at work, and may have ended in a moment
    to_recover: list[str] = field(default_factory=list)  # the URLs of their destinations
    warnings: list[str] = field(default_factory=list)  # where nobody could look

    def __bool__(self) -> bool:
        return bool(self.datasets or self.jobs)

    def told(self, context: JobContext, changed: str) -> str:
        """What is in the way and what to do, for the message of an error."""
        several = [*self.datasets, *self.jobs]
        shown = "; ".join(several[:_SHOWN])
        more = f"; and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
        advice = []
        if self.datasets:
            urls = sorted(set(self.to_name))
            advice.append(
                "choose another destination, or, if this job may delete those files, pass "
                f"also_overwrite={urls[:_SHOWN]}{' and so on' if len(urls) > _SHOWN else ''}"
            )
        if self.jobs:
            urls = sorted(set(self.to_recover))
            commands = " and ".join(f"magicfs recover {quote(url)}" for url in urls[:_SHOWN])
            advice.append(
                f"wait for the job, or if its driver is dead, run {commands}" if urls else "try again"
            )
        return (
            f"job {context.job} with mode={context.options.mode!r} would delete data at {context.url} that "
            f"may belong to another dataset or job: {shown}{more}; {changed}; {'; '.join(advice)}"
        )

    def denied(self, context: JobContext) -> CommitDenied:
        """The error before the commit point."""
        return CommitDenied(self.told(context, "nothing was published"))


async def refuse_at_setup(engine: Engine, context: JobContext) -> None:
    """Refuse a job that deletes if there is another's below it, or above. Raises UsageError.

    Which partitions it will replace is not known yet, so then only what is above counts.
    """
    if not context.is_replacing:
        return
    destination = context.layout.destination
    others, deletes = Others(destination), False
    async for info in engine.store.list(paths.prefix_of(destination)):
        others.add(info.key)
        deletes = deletes or modes.is_replaced(info.key, destination)
        if deletes and context.is_partition_scoped:
            break
    look = _Look(engine, context, None)
    if not context.is_partition_scoped:
        await look.below(others.concerned(None))
    if deletes:
        await look.above(ancestors(destination), manifests=not context.is_partition_scoped)
    if look.found:
        raise UsageError(look.found.told(context, "nothing was changed"))


async def look_again(
    engine: Engine,
    context: JobContext,
    replacement: Replacement,
    since: float | None,
    *,
    listed_all: bool,
) -> InTheWay:
    """Who is in the way of what a job has announced that it will delete. Raises nothing of its own.

    A job below that began while the destination was being listed may be missing in the listing, and its files
    are in it. They are younger than ``since``, so the directories of such files are looked at once more.
    ``listed_all`` says whether the listing was of the whole destination, not of its partitions alone.
    """
    if not context.is_replacing:
        return InTheWay()
    destination, partitions = context.layout.destination, replacement.scope.partitions
    look = _Look(engine, context, partitions)
    await look.below(replacement.others.concerned(partitions), ended_too=True)
    if replacement.deleted:
        parents = dict.fromkeys(ancestors(destination))
        for partition in () if listed_all else partitions or ():
            parents |= dict.fromkeys(directories_between(destination, paths.join(destination, partition)))
        await look.above(tuple(parents), manifests=True)
        young = (
            one.key
            for one in replacement.deleted
            if since is None or one.modified is None or one.modified >= since
        )
        below = dict.fromkeys(place for key in young for place in directories_between(destination, key))
        await look.among(tuple(one for one in below if one not in parents))
    return look.found


def described(one: OtherJob) -> str:
    """An unfinished job, in words."""
    if one.job is None:
        return f"the job object of job {one.job_id} cannot be read ({one.problem})"
    told = f"job {one.job_id} on {one.job.host or 'an unknown host'} is {one.job.state}"
    if one.visits is not None:
        told += f", has its destination at {one.layout.destination or 'the bucket'}, and also publishes here"
    return told


def url_at(context: JobContext, directory: str) -> str:
    """The URL of a directory in the bucket of a job's destination."""
    location = paths.parse_url(context.url)
    return Location(location.scheme, location.bucket, directory).url


class _Look:
    """One look around a job's destination."""

    def __init__(self, engine: Engine, context: JobContext, partitions: tuple[str, ...] | None) -> None:
        self.found = InTheWay()
        self._engine = engine
        self._context = context
        self._partitions = partitions

    async def below(self, others: Sequence[Other], *, ended_too: bool = False) -> None:
        """Sort out whom a listing has shown.

        ``ended_too``: a job that has ended since is in the way, for its files may have been listed half.
        """

        async def look(other: Other) -> None:
            if other.layout is not None:
                await self._job_below(other, ended_too=ended_too)
            elif other.kind == "work":
                self.found.jobs.append(
                    f"{self._url(other.directory)} is {other.what}, as {other.key} shows; remove that if no "
                    "job is running there"
                )
            else:
                self._dataset(other.directory, f"{other.what}, as {other.key} shows")

        await drained(others, look, self._engine.concurrency)

    async def _job_below(self, other: Other, *, ended_too: bool) -> None:
        layout = other.layout
        assert layout is not None
        one = await (read_unfinished if other.kind == "job" else follow)(self._engine, layout)
        if one is not None:
            self._job(one)
        # A location that is still there says that its job has ended long ago.
        elif ended_too and not await is_there(self._engine.store, other.key):
            self.found.jobs.append(f"job {layout.job} at {self._url(other.directory)} has just ended")

    async def among(self, directories: Sequence[str]) -> None:
        """List each directory in which something young lies: whoever has it is in the way."""

        async def look(directory: str) -> None:
            names = await self._jobs(directory, whatever=True)
            if f"{paths.prefix_of(directory)}{MANIFESTS}/" in names:
                self._dataset(directory, "another dataset")
            await self._tables(directory, names)

        await drained(directories, look, self._engine.concurrency)

    async def above(self, parents: Sequence[str], *, manifests: bool) -> None:
        """List each parent. ``manifests``: whether to ask a dataset's manifests for files in the scope."""

        async def look(parent: str) -> None:
            try:
                await self._parent(parent, manifests=manifests)
            except (PermissionDenied, Unsupported) as error:
                self.found.warnings.append(
                    f"{self._url(parent)} may be another dataset, and these credentials cannot list it: "
                    f"{error}"
                )

        await drained(parents, look, self._engine.concurrency)

    async def _parent(self, parent: str, *, manifests: bool) -> None:
        prefix = paths.prefix_of(parent)
        names = await self._jobs(parent)
        if manifests and f"{prefix}{MANIFESTS}/" in names:
            await self._dataset_above(parent)
        await self._tables(parent, names)
        if self._child_of(parent) == _ICEBERG_DATA:
            async for info in self._engine.store.list(f"{prefix}metadata/", limit=_LOOKED_AT):
                if (table := modes.table_format_of(info.key, parent)) is not None:
                    self._dataset(parent, f"a table of {table}, as {info.key} shows")
                    break

    async def _jobs(self, directory: str, *, whatever: bool = False) -> list[str]:
        """Look at the jobs of a directory; returns what it holds, as of after that.

        ``whatever``: whether every unfinished job is in the way, not only one that may be changing files.
        """
        prefix = f"{paths.prefix_of(directory)}_"
        names = [one async for one in self._engine.store.list_directories(prefix)]
        gone: list[str] = []
        for one in await unfinished_among(self._engine, directory, names, visitors=True, gone=gone):
            if one.job_id == self._context.job:
                continue
            changes = one.job is None or one.job.state in CHANGES_FILES
            destination = self._context.layout.destination
            if whatever or (changes and reaches(directory, one.scope, destination, self._partitions)):
                self._job(one)
        if not gone:
            return names
        # A job that has ended since the listing has published manifests since.
        return [one async for one in self._engine.store.list_directories(prefix)]

    async def _tables(self, directory: str, names: Sequence[str]) -> None:
        for name in names:
            if (table := table_of(f"{name.removeprefix(paths.prefix_of(directory))}…")) is not None:
                # Then it is a dataset of ours, which is looked at as such.
                if await is_kept_by_magicfs(self._engine.store, directory, name):
                    continue
                self._dataset(directory, f"{table}, as {name} shows")

    async def _dataset_above(self, parent: str) -> None:
        """A dataset above is in the way if it has files where this job deletes, or keeps replaced ones."""
        destination, partitions = self._context.layout.destination, self._partitions
        places = [destination] if partitions is None else [paths.join(destination, one) for one in partitions]

        def here(keys: Iterable[str]) -> str | None:
            return next((key for key in keys if paths.which_holds(key, places) is not None), None)

        store = self._engine.store
        try:
            seen = await chain.read_pointer(store, parent, chain.READING)
            if seen is None:
                return
            job, keeping = seen[0].job_id, [one for one in seen[0].keeping if not one.expires]
            manifests = chain.chain(store, parent, chain.READING, start=job, hidden="none")
            view = await chain.view_of(manifests)
            shown = here(paths.join(parent, key) for key in (view.files if view else ()))
            if shown is not None:
                self._dataset(parent, f"another dataset, which has files here, such as {shown}")
                return
            lists = await kept_by(store, parent, chain.READING, keeping)
        except FormatError as error:
            self._dataset(parent, f"another dataset, which cannot be read ({error})")
            return
        # What is kept by its version is not deleted with the name.
        kept = here(one.key for objects in lists.values() for one in objects if not one.version)
        if kept is not None:
            what = f"another dataset, which keeps replaced files here until magicfs maintain, such as {kept}"
            self._dataset(parent, what)

    def _child_of(self, parent: str) -> str:
        """The first element below a parent on the way to the destination."""
        destination = self._context.layout.destination
        if not paths.is_under(destination, parent):
            return ""
        return paths.relative_to(destination, parent).partition("/")[0]

    def _dataset(self, directory: str, what: str) -> None:
        if directory in self._context.options.places.also_overwrite:
            return
        url = self._url(directory)
        self.found.datasets.append(f"{url} is {what}")
        self.found.to_name.append(url)

    def _job(self, one: OtherJob) -> None:
        place = self._url(one.layout.destination)
        told = described(one).removesuffix(", and also publishes here")
        where = place if one.visits is None else self._url(one.visits)
        self.found.jobs.append(f"{told} (at {where})")
        self.found.to_recover.append(place)

    def _url(self, directory: str) -> str:
        return url_at(self._context, directory)


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
        if not is_by_partition(job.options.mode, job.options.committer):
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


async def refuse_lost_pointer(engine: Engine, location: Location) -> None:
    """Raise FormatError if jobs were published here, and somebody has removed the pointer.

    A job has its manifest before its pointer, and ends after it.
    """
    store, destination = engine.store, location.key
    if jobs := {*await chain.jobs_with_manifests(store, destination)}:
        jobs -= {one.job_id for one in await find_unfinished_jobs(engine, destination, visitors=True)}
    job = await chain.first_readable(store, destination, jobs)
    if job is not None and await chain.read_pointer(store, destination, chain.READING) is None:
        raise FormatError(
            f"{store.bucket}/{chain.pointer_key(destination)}",
            "",
            f"gone, although job {job} was published there; nothing was changed; run magicfs adopt "
            f"{quote(location.url)}, which writes it again, then repeat this",
        )


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

    async def look(place: str) -> None:
        magic, _, job = place.removeprefix(prefix).rstrip("/").partition("/")
        layout = layout_of(directory, magic, job)
        if layout is not None and layout.job == but:
            return
        one = None if layout is None else await read_unfinished(engine, layout)
        if one is None and layout is not None and visitors:
            one = await follow(engine, layout)
        if one is not None:
            found.append(one)
        elif gone is not None:
            gone.append(place)

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
