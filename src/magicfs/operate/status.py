"""What a destination, or a bucket of them, owes: its newest publication, and everything that is not done."""

from __future__ import annotations

import re
import shlex
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from os import PathLike
from typing import Any, Final, Unpack

from magicfs.datasets.connection import Way, open_destination
from magicfs.datasets.finders import finders
from magicfs.engine import Engine
from magicfs.errors import MagicError, ObjectNotFound
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, READING
from magicfs.manifests.registrations import all_registrations
from magicfs.operate.lost_pointer import lost_pointer
from magicfs.operate.old_pointer import unlinked
from magicfs.operate.prices import Price, money, price_of
from magicfs.operate.upload_owners import Share, shares_of
from magicfs.past.history import Publication, history_of
from magicfs.protocol import paths
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.modes import MANIFESTS, is_data
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_time
from magicfs.report import Report, html_table, human_bytes
from magicfs.runtime.parallel import drained
from magicfs.transaction.others import OtherJob, find_unfinished_jobs

_SILENT_S: Final = 3600.0
_COMMITS_S: Final = 600.0
_COMMITTED: Final = {one.value for one in JobState} - {one.value for one in BEFORE_COMMIT}
_STEPS_MAX: Final = 60
_KEEPERS_MAX: Final = 100
_LEFT_MAX: Final = 20
_LOOKS_MAX: Final = 2000
_PLAIN: Final = re.compile(r"[^_.=][^=]*")
"""A directory that is neither hidden nor of a partition."""


@dataclass(frozen=True, slots=True)
class UnfinishedJob:
    """A job that has not ended.

    Attributes:
        job_id: The job.
        state: Its state, or ``quarantined``, ``unjudged``, ``hadoop``, ``unreadable``.
        moved: When it was moved last, in seconds since the epoch; 0 if not known.
        host: Where.
        run_id: Its run; None if it has none.
        end: The command that ends it.
        label: What it was called; empty if it was not.
    """

    job_id: str
    state: str
    moved: float
    host: str
    run_id: str | None
    end: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One publication, and how it changed the dataset.

    Attributes:
        job_id: The job.
        mode: Its mode.
        published: When, in seconds since the epoch.
        rows: How many rows it added; None if nobody counted them.
        added: Bytes that it added.
        removed: Bytes that readers no longer see.
        total: Bytes of the dataset afterwards.
    """

    job_id: str
    mode: str
    published: float
    rows: int | None
    added: int
    removed: int
    total: int


@dataclass(frozen=True, slots=True)
class Partition:
    """The files of one directory of the dataset.

    Attributes:
        name: The directory, relative to the destination; empty for the destination itself.
        files: How many.
        bytes: Their size.
        changed: When a job added one last, in seconds since the epoch; None if that is longer ago than what
            ``DatasetStatus.steps`` has.
    """

    name: str
    files: int
    bytes: int
    changed: float | None


@dataclass(slots=True)
class DatasetStatus(Report):
    """The status of one destination.

    Attributes:
        url: The destination.
        now: When it was looked at, in seconds since the epoch.
        newest: The newest publication; None if there is none.
        files: How many files readers see.
        bytes: Their size.
        rows: Their rows; None if nobody counted all.
        jobs: The jobs that have not ended.
        uploads: The open uploads, by owner: number, bytes where known, and a sentence.
        kept_files: How many replaced files are kept.
        kept_bytes: Their size.
        kept_until: When the last of them expires, in seconds since the epoch; None without any.
        behind: Tables of catalogs that do not show the newest publication.
        leftovers: Work directories of jobs that have ended.
        dollars: What open uploads and kept files cost a month, as far as sizes are known; None without a
            price.
        problems: What could not be read.
        steps: The last publications, the oldest first.
        partitions: The directories of the dataset, the largest first.
    """

    url: str
    now: float
    newest: Publication | None = None
    files: int = 0
    bytes: int = 0
    rows: int | None = None
    jobs: tuple[UnfinishedJob, ...] = ()
    uploads: tuple[Share, ...] = ()
    kept_files: int = 0
    kept_bytes: int = 0
    kept_until: float | None = None
    behind: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    dollars: float | None = None
    problems: list[str] = field(default_factory=list)
    steps: tuple[Step, ...] = ()
    partitions: tuple[Partition, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing needs a decision."""
        waiting = any(_waits(one, self.now) for one in self.jobs)
        uploads = any(one.needs_decision(self.now) for one in self.uploads)
        return not (waiting or uploads or self.behind or self.leftovers or self.problems)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        until = self.kept_until and _moment(self.kept_until)
        return {
            "url": self.url,
            "ok": self.ok,
            "newest": self.newest and self.newest.to_dict(),
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "jobs": [{**asdict(one), "moved": _moment(one.moved)} for one in self.jobs],
            "uploads": [one.to_dict() for one in self.uploads],
            "kept": {"files": self.kept_files, "bytes": self.kept_bytes, "until": until},
            "behind": list(self.behind),
            "leftovers": list(self.leftovers),
            "dollars_a_month": self.dollars if self.dollars is None else round(self.dollars, 4),
            "problems": self.problems,
        }

    def short(self) -> list[tuple[str, str]]:
        """A few lines, as names and values."""
        lines = [("dataset", self.url), ("newest", self._newest()), ("files", self._files())]
        for job in self.jobs:
            run, label = f", run {job.run_id}" if job.run_id else "", f", {job.label}" if job.label else ""
            lines.append(("job", f"{job.job_id}{run}{label}, {job.state}, {self._moved(job)}"))
        lines += [("uploads", one.sentence) for one in self.uploads]
        lines += [("kept", self._kept()), *(("behind", one) for one in self.behind)]
        lines += [("leftover", one) for one in self.leftovers]
        return [one for one in [*lines, *(("problem", one) for one in self.problems)] if one[1]]

    def _rows(self) -> list[tuple[str, object]]:
        """One screen: the same, with the command that ends each, and what it costs."""
        cost = "" if not self.dollars else f"{money(self.dollars)} a month for uploads and kept files"
        fine = "nothing to decide yet: the job may be running" if self.jobs else "nothing to decide"
        done = fine if self.ok else "needs a decision"
        named = [("end", one) for one in dict.fromkeys(self._ends())]
        return [one for one in [*self.short(), ("cost", cost), *named, ("status", done)] if one[1]]

    def _ends(self) -> list[str]:
        """The commands that end what is not done; those of a job once."""
        jobs = {one.job_id for one in self.jobs}
        others = (one for one in self.uploads if {each.job_id for each in one.uploads} - jobs)
        ends = [*map(self._end, self.jobs), *(one.advice for one in others)]
        return ends + [f"magicfs maintain {shlex.quote(self.url)}"] * bool(self.behind)

    def _end(self, job: UnfinishedJob) -> str:
        return job.end if _waits(job, self.now) else f"if its driver is dead: {job.end}"

    def _newest(self) -> str:
        if self.newest is None:
            return "unknown" if self.problems else "nothing was published there"
        run = f", run {self.newest.run_id}" if self.newest.run_id else ""
        tags = f", tagged {' '.join(self.newest.tags)}" if self.newest.tags else ""
        when = human_time(self.newest.published.timestamp(), self.now)
        return f"job {self.newest.job_id}{run}{tags}, {self.newest.mode}, {when}"

    def _files(self) -> str:
        if self.newest is None:
            return ""
        counted = "" if self.rows is None else f"{self.rows:,} rows, "
        return f"{self.files:,} ({counted}{human_bytes(self.bytes)})"

    def _moved(self, job: UnfinishedJob) -> str:
        host = f" on {job.host}" if job.host else ""
        return f"last moved {human_time(job.moved, self.now)}{host}" if job.moved else "never seen"

    def _kept(self) -> str:
        if not self.kept_files or self.kept_until is None:
            return ""
        until = f"{datetime.fromtimestamp(self.kept_until, UTC):%Y-%m-%d %H:%M}Z"
        count = "1 replaced file" if self.kept_files == 1 else f"{self.kept_files:,} replaced files"
        return f"{count} ({human_bytes(self.kept_bytes)}), until {until}"


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination below a bucket, in a line.

    Attributes:
        url: The destination.
        published: When its newest job was published, in seconds since the epoch; None if none was.
        job_id: That job.
        unfinished: How many jobs have not ended.
        waiting: How many need a decision: quarantined, or silent for an hour (10 minutes if publishing).
        states: The states of these jobs, such as ``2 open, 1 quarantined``.
        keeping: How many jobs keep replaced files.
        problem: What could not be read; empty if all could.
    """

    url: str
    published: float | None
    job_id: str = ""
    unfinished: int = 0
    waiting: int = 0
    states: str = ""
    keeping: int = 0
    problem: str = ""


@dataclass(slots=True)
class BucketStatus(Report):
    """The destinations below a bucket or a directory.

    Attributes:
        url: The bucket or directory.
        now: When it was looked at, in seconds since the epoch.
        destinations: Those that were found, by URL.
        is_whole: Whether all directories were looked at.
        uploads: The open uploads below it, by owner.
    """

    HEADER = ("DESTINATION", "PUBLISHED", "JOB", "UNFINISHED", "KEEPING", "PROBLEM")

    url: str
    now: float
    destinations: tuple[Destination, ...]
    is_whole: bool
    uploads: tuple[Share, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nobody has to look at a destination or an upload."""
        waiting = any(one.waiting or one.problem for one in self.destinations)
        return not (waiting or any(one.needs_decision(self.now) for one in self.uploads))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        listed = [
            {**asdict(one), "published": one.published and _moment(one.published)}
            for one in self.destinations
        ]
        found = {"url": self.url, "ok": self.ok, "all": self.is_whole, "destinations": listed}
        return {**found, "uploads": [one.to_dict() for one in self.uploads]}

    def table(self) -> list[tuple[str, ...]]:
        """A line for each destination, below ``HEADER``."""
        return [self._row(one) for one in self.destinations]

    def _row(self, one: Destination) -> tuple[str, ...]:
        never = "unknown" if one.problem else "never"
        published = human_time(one.published, self.now) if one.published else never
        states = f"{one.states}; {one.waiting} to decide: see its own status" if one.waiting else one.states
        return one.url, published, one.job_id, states, str(one.keeping or ""), one.problem

    def _repr_html_(self) -> str:
        return html_table(self.table(), self.HEADER)


def status(
    url: str | PathLike[str], *, price: float | None = None, **way: Unpack[Way]
) -> DatasetStatus | BucketStatus:
    """The status of a destination; above destinations, a line for each. Changes nothing.

    Args:
        url: A destination, a directory or a bucket.
        price: Dollars per GiB and month; by default from a price list.
        **way: As for ``magicfs.Dataset``.
    """
    place = open_destination(url, for_reading=True, **way)
    cost = price_of(place.engine.store.name, price)
    return place.run(status_of, cost)


async def status_of(engine: Engine, location: Location, price: Price) -> DatasetStatus | BucketStatus:
    """``status``, on the store's loop."""
    prefix = paths.prefix_of(location.key)
    here = [one async for one in engine.store.list_directories(prefix + MANIFESTS)]
    work = engine.store.list_directories(prefix + MAGIC)
    if not here and await anext((at async for at in work if not await is_empty(engine, at)), None) is None:
        found, is_whole = await _destinations(engine, location)
        if found:
            uploads = list[Share]()
            try:
                uploads = await shares_of(engine, location, requests_max=_LOOKS_MAX)
            except MagicError as error:
                found.insert(0, Destination(location.url, None, problem=str(error)))
            return BucketStatus(location.url, time.time(), tuple(found), is_whole, tuple(uploads))
    return await dataset_status(engine, location, price)


async def dataset_status(engine: Engine, location: Location, price: Price) -> DatasetStatus:
    """The status of a destination. What cannot be read is a problem in it, and keeps nothing else from it."""
    made = DatasetStatus(location.url, time.time())
    parts: list[Callable[[Engine, Location, DatasetStatus], Awaitable[None]]]
    parts = [_published, _unfinished, _pointer, _uploads, _kept, _behind, _leftovers]
    for part in parts:
        try:
            await part(engine, location, made)
        except MagicError as error:
            if isinstance(error, ObjectNotFound) and error.operation.startswith("list"):
                raise  # there is no such bucket
            made.problems += [str(error)] * (str(error) not in made.problems)
    made.dollars = price.of(made.kept_bytes + sum(one.bytes or 0 for one in made.uploads))
    return made


async def _published(engine: Engine, location: Location, made: DatasetStatus) -> None:
    made.newest = next(iter(await history_of(engine, location, 1)), None)
    if made.newest is None:
        return
    view = await chain.view(engine.store, location.key, READING)
    files = [] if view is None else [one for one in view.files.values() if is_data(one.key, "")]
    made.files, made.bytes = len(files), sum(one.size for one in files)
    rows = [one.rows for one in files if one.rows is not None]
    made.rows = sum(rows) if len(rows) == len(files) else None
    changed, steps = _changes(await _newest_manifests(engine, location))
    made.steps = tuple(steps)
    made.partitions = _partitions(files, changed)


def _partitions(files: Sequence[ManifestFile], changed: Mapping[str, float]) -> tuple[Partition, ...]:
    groups: dict[str, list[ManifestFile]] = {}
    for one in files:
        groups.setdefault(one.key.rpartition("/")[0], []).append(one)
    found = [
        Partition(
            name,
            len(group),
            sum(one.size for one in group),
            max((changed[one.key] for one in group if one.key in changed), default=None),
        )
        for name, group in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.name)))


async def _newest_manifests(engine: Engine, location: Location) -> list[Manifest]:
    """Those of the last publications, the oldest first, and perhaps a sum of those before."""
    found: list[Manifest] = []
    below = chain.chain(engine.store, location.key, READING, hidden="readable")
    async with aclosing(below) as listed:
        async for one in listed:
            found.append(one)
            if len(found) == _STEPS_MAX or one.mode == COMPACT:
                break
    return found[::-1]


def _changes(manifests: Sequence[Manifest]) -> tuple[dict[str, float], list[Step]]:
    """When files were added, by key, and what each publication changed."""
    changed: dict[str, float] = {}
    live: dict[str, int] = {}
    steps = []
    for one in manifests:
        before = sum(live.values())
        gone = list(live) if one.hides == "all" else [key for key in one.deleted if key in live]
        removed = sum(live.pop(key) for key in gone)
        live |= {file.key: file.size for file in one.files}
        if one.mode == COMPACT:
            continue
        moment, total = one.committed_ms / 1000, sum(live.values())
        changed |= dict.fromkeys((file.key for file in one.files), moment)
        rows = one.footers.rows if one.footers else None
        steps.append(Step(one.job_id, one.mode, moment, rows, total - before + removed, removed, total))
    return changed, steps


async def _unfinished(engine: Engine, location: Location, made: DatasetStatus) -> None:
    made.jobs = tuple(await _unfinished_jobs(engine, location, visitors=True))


async def _unfinished_jobs(engine: Engine, location: Location, *, visitors: bool) -> list[UnfinishedJob]:
    found = await find_unfinished_jobs(engine, location.key, visitors=visitors)
    jobs = {one.job_id: _as_unfinished(location, one) for one in found}
    for finder in finders().values():
        for dead in await finder.find_all(engine, location, None):
            job = dead.context.job
            line = f"magicfs recover {shlex.quote(location.url)} --job {shlex.quote(job)}"
            end = f"{line} --commit --driver-is-dead, or {line} --abort --driver-is-dead"
            jobs.setdefault(job, UnfinishedJob(job, dead.finder, dead.modified, "", None, end))
    return list(jobs.values())


async def _pointer(engine: Engine, location: Location, made: DatasetStatus) -> None:
    if not made.problems:
        made.problems += filter(None, [await _lost(engine, location, made.jobs, made.newest)])


async def _lost(
    engine: Engine, location: Location, jobs: Sequence[UnfinishedJob], newest: Publication | None
) -> str:
    """What is wrong with the pointer; empty if it is sound, or nothing was published."""
    repair = f"magicfs adopt {shlex.quote(location.url)}"
    if newest is not None:
        problem = (await unlinked(engine, location, young=True)).problem
        return f"{problem}, so readers do not see them: {repair}" if problem else ""
    lost = await lost_pointer(engine.store, location.key, {one.job_id for one in jobs})
    return "" if lost is None else f"{lost.problem}, so nobody can read the dataset: {repair}"


def _waits(job: UnfinishedJob, now: float) -> bool:
    """Whether a job waits for a decision: nobody may be at work on it any more."""
    silent_s = _COMMITS_S if job.state in _COMMITTED else _SILENT_S
    return now - job.moved >= silent_s or job.state == "quarantined"


def _as_unfinished(location: Location, one: OtherJob) -> UnfinishedJob:
    home = Location(location.scheme, location.bucket, one.layout.destination).url
    line = f"magicfs recover {shlex.quote(home)}"
    named = f"{line} --job {shlex.quote(one.job_id)}"
    job, found = one.job, one.found()
    if job is None:
        return UnfinishedJob(one.job_id, "unreadable", 0.0, "", one.run_id, f"{named} --dry-run")
    accept = " --accept REASON" if job.shown_state in {"quarantined", "unjudged"} else ""
    end = f"{named} --commit{accept}, or {named} --abort" if job.state in BEFORE_COMMIT else line
    return UnfinishedJob(
        one.job_id, job.shown_state, found.changed, job.host, one.run_id, end, job.options.label
    )


async def _uploads(engine: Engine, location: Location, made: DatasetStatus) -> None:
    made.uploads = tuple(await shares_of(engine, location))


async def _kept(engine: Engine, location: Location, made: DatasetStatus) -> None:
    seen = await chain.read_pointer(engine.store, location.key, READING)
    for one in seen[0].keeping[-_KEEPERS_MAX:] if seen else ():
        manifest = await chain.read(engine.store, location.key, one.job_id, READING, files=False)
        lists = manifest.kept.lists if manifest is not None and manifest.kept else ()
        made.kept_files += sum(part.files for part in lists)
        made.kept_bytes += sum(part.size for part in lists)
        made.kept_until = max(made.kept_until or 0.0, one.until_ms / 1000)


async def _behind(engine: Engine, location: Location, made: DatasetStatus) -> None:
    running = {one.job_id for one in made.jobs}
    found = (await all_registrations(engine.store, location.key)).values()
    late = (one for one in found if one.job_id not in running)
    made.behind = tuple(f"{one.catalog} {one.table}, job {one.job_id}".replace(" ,", ",") for one in late)


async def is_empty(engine: Engine, directory: str) -> bool:
    """Whether nothing is left in the directory of a job. Real ones go with the last object in them, and stay
    where a writer has left a temporary file; SeaweedFS shows empty ones for a while.
    """
    listed = engine.store.list(paths.prefix_of(directory), limit=1)
    return not engine.store.capabilities.directories and not [one async for one in listed]


async def _leftovers(engine: Engine, location: Location, made: DatasetStatus) -> None:
    running = {one.job_id for one in made.jobs}
    prefix = paths.prefix_of(location.key) + MAGIC
    # In the shared directory of the older layout lie paths of users' own, too.
    own = [one async for one in engine.store.list_directories(prefix) if one.startswith(f"{prefix}_job-")]
    left = [one for one in own if one.removeprefix(f"{prefix}_job-").rstrip("/") not in running]
    for one in left[:_LEFT_MAX]:
        if not await is_empty(engine, one):
            made.leftovers = (*made.leftovers, Location(location.scheme, location.bucket, one).url)


async def _destinations(engine: Engine, location: Location) -> tuple[list[Destination], bool]:
    """The destinations below a directory, each without a look at what lies below it."""
    found: list[Destination] = []
    below: list[str] = []

    async def look(directory: str) -> bool:
        prefix = paths.prefix_of(directory)
        names = [one.removeprefix(prefix).rstrip("/") async for one in engine.store.list_directories(prefix)]
        if directory != location.key and any(map(_is_work, names)):
            found.append(await _line(engine, Location(location.scheme, location.bucket, directory)))
        else:
            below.extend(paths.join(directory, one) for one in filter(_PLAIN.fullmatch, names))
        return True

    level, left = [location.key], _LOOKS_MAX
    while level and left > 0:
        await drained(level[:left], look, engine.concurrency)
        left -= len(level)
        level = sorted(below)
        below.clear()
    return sorted(found, key=lambda one: one.url), left >= 0 and not level


def _is_work(name: str) -> bool:
    return name.startswith(MAGIC) or name == MANIFESTS


async def _line(engine: Engine, location: Location) -> Destination:
    try:
        jobs = await _unfinished_jobs(engine, location, visitors=False)
        newest = next(iter(await history_of(engine, location, 1)), None)
        seen = await chain.read_pointer(engine.store, location.key, READING)
        problem = await _lost(engine, location, jobs, newest)
    except MagicError as error:
        return Destination(location.url, None, problem=str(error))
    keeping = len(seen[0].keeping) if seen else 0
    when, job = (newest.published.timestamp(), newest.job_id) if newest else (None, "")
    waiting = sum(_waits(one, time.time()) for one in jobs)
    states = ", ".join(f"{count} {state}" for state, count in Counter(one.state for one in jobs).items())
    return Destination(location.url, when, job, len(jobs), waiting, states, keeping, problem)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
