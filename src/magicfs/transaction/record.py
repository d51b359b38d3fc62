"""The job object in the store: reading, creating and moving it; who may drive it; records that lead to it."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import filterfalse
from typing import Any, Final, get_args

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectExists, PreconditionFailed
from magicfs.formats import gate
from magicfs.formats.gate import admit
from magicfs.formats.job_location import JobLocation
from magicfs.formats.job_object import JobObject
from magicfs.formats.limits import JOB_LOCATION_SIZE_LIMIT, JOB_OBJECT_SIZE_LIMIT, ROOM, within
from magicfs.formats.rows import Place
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT, SHOWS_NOTHING, JobState, check_move
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.runtime import watchers
from magicfs.runtime.interrupt import held, hold
from magicfs.runtime.parallel import drained
from magicfs.stores import object_settings
from magicfs.stores.conditions import Conditions, conditions_of, remembered
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register, body_at
from magicfs.transaction.context import JobContext

IsCurrentDriver = Callable[[], bool]
"""Tells whether the engine still wants this driver to end the job. May take a request; called in a thread."""


async def require_current_driver(is_current_driver: IsCurrentDriver | None, job: JobId) -> None:
    """Ask the engine, at the last moment before a job is changed for good; None asks nobody.

    A fencing check: a driver that was cut off may have been replaced. If the engine cannot be reached the
    answer is no, and ``CommitDenied`` is raised.
    """
    advice = "nothing was changed; the job belongs to the driver that the engine started instead"
    if is_current_driver is None:
        return
    try:
        wanted = await asyncio.to_thread(is_current_driver)
    except Exception as error:
        raise CommitDenied(f"job {job}: no contact with the engine ({error!r}); {advice}") from error
    if not wanted:
        raise CommitDenied(f"job {job}: the engine has replaced this driver; {advice}")


def check_driver(context: JobContext, version: JobVersion, driver: str | None) -> None:
    """Raise CommitDenied if another driver has taken the job over; None is whoever it is."""
    if driver is not None and version.job.driver != driver:
        raise CommitDenied(
            f"job {context.job} was taken over by another driver, attempt {version.job.attempt} on "
            f"{version.job.host}; nothing was changed; leave the job to that driver"
        )


def location_keys(context: JobContext) -> list[str]:
    """The keys of a job's locations, one in each extra destination."""
    return [context.layout.job_location_key(extra) for extra in context.options.places.extra]


async def put_locations(engine: Engine, context: JobContext) -> None:
    """Write a job's location into all extra destinations. A second call writes the same again."""
    raw = JobLocation(context.job, context.layout.destination).to_bytes()

    async def one(key: str) -> None:
        await engine.store.put(key, raw)

    await drained(location_keys(context), one, engine.concurrency)


async def believed(engine: Engine, context: JobContext, job: JobObject) -> JobContext:
    """The facts of a job at the same destination, as its object has them; one GET for each extra destination.

    An extra destination counts only if the job's location lies there and names this destination: the job's
    driver wrote it at setup, and who may not write there cannot forge it. Those that the caller was given
    itself, in ``context``, count as they are. Without a location, which goes with the last objects of a job,
    nothing is done there.

    Raises FormatError if the job would publish, or take back, where nothing confirms it; nothing was changed.
    """
    theirs, confirmed = context.of(job), set(context.options.places.extra)

    async def look(extra: str) -> None:
        there = replace(theirs.layout, destination=extra)
        if await location_at(engine, there) == theirs.layout.destination:
            confirmed.add(extra)

    named = job.options.places.extra
    await drained([*filterfalse(confirmed.__contains__, named)], look, engine.concurrency)
    unconfirmed = next(filterfalse(confirmed.__contains__, named), None)
    acts = job.state not in SHOWS_NOTHING and job.state is not JobState.COMPLETED
    if unconfirmed is not None and acts and job.chunks:
        raise FormatError(
            f"{engine.store.bucket}/{theirs.layout.job_object_key}",
            "options.places.extra[]",
            f"{unconfirmed!a} does not confirm job {job.job_id}: its driver left no "
            f"{theirs.layout.job_location_key(unconfirmed)} there; nothing was changed; find out who "
            "wrote the job object, then restore that file, or remove the job by hand",
        )
    return theirs.with_extra(filter(confirmed.__contains__, named))


async def location_of(engine: Engine, directory: str, job: JobId) -> str | None:
    """The destination of a job that has left its location in a directory; None if it has left none."""
    names: Sequence[LayoutName] = get_args(LayoutName)
    for name in names:
        if (found := await location_at(engine, WorkLayout(directory, job, 0, name))) is not None:
            return found
    return None


async def location_at(engine: Engine, layout: WorkLayout) -> str | None:
    """The destination of the job whose location lies where a layout has it; None if none does."""
    key = layout.job_location_key(layout.destination)
    if (raw := await body_at(engine.store, key, JOB_LOCATION_SIZE_LIMIT + 1)) is None:
        return None
    path = f"{engine.store.bucket}/{key}"
    place = Place(path, engine.store.bucket, layout.destination, layout.job, layout)
    return admit("job location", JobLocation.from_bytes(path, raw), place).destination


_REASON_MAX: Final = 4000
_BEGUN: Final = {JobState.COMMITTING: "commit point"}
_ENDED: Final = {JobState.ABORTING: "aborted", JobState.REVERTING: "reverted"}
_HEARD_S: Final = 5.0
"""Seconds for which a job object that was read or moved counts as unmoved. Much less than it takes people to
give a driver up for dead, and more than the requests between two steps take."""


class JobMoved(CommitDenied):
    """Another process moved the job, or ended it: read its object again."""


@dataclass(frozen=True, slots=True)
class JobVersion:
    """A version of the job object, and the right to replace exactly that one."""

    job: JobObject  # what it says
    entry: Entry


class Silence:
    """How long nothing was heard of a record: endless at first."""

    def __init__(self) -> None:
        self._heard: tuple[float, float] | None = None

    def heard(self, moment: tuple[float, float]) -> None:
        """Note an answer to a request that was made at this moment, by ``moment``."""
        self._heard = moment

    def is_short(self) -> bool:
        """Whether the record counts as unchanged still."""
        if self._heard is None:
            return False
        return all(now - then < _HEARD_S for now, then in zip(self.moment(), self._heard, strict=True))

    @staticmethod
    def moment() -> tuple[float, float]:
        """Seconds of the event loop's clock, and of one that goes on while the machine sleeps."""
        try:
            awake = asyncio.get_running_loop().time()
        except RuntimeError:
            awake = time.monotonic()
        return awake, time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else awake


class JobRecord:
    """One job's object."""

    def __init__(self, store: Store, layout: WorkLayout, conditions: Conditions, url: str = "") -> None:
        self.store = store
        self._url = url  # of the destination, for watchers; readers need none
        self.layout = layout
        self.created: bool = False  # whether it was this process that set the job up
        self.keeps_versions: bool = False
        """Whether the bucket kept versions when the job's object was last written, as far as was seen."""
        self.use(conditions)
        self._silence = Silence()

    def use(self, conditions: Conditions) -> None:
        """Take what the store honours from now on; reading does not depend on it."""
        self.conditions = conditions
        self._register = Register(self.store, self.layout.job_object_key, conditions)

    async def read(self) -> JobVersion | None:
        """What the job says now; None once it has ended, or before it was set up. Another job's is
        refused.
        """
        moment = self._silence.moment()
        entry = await self._register.read(expected=True)
        self._silence.heard(moment)
        if entry is None:
            return None
        self.keeps_versions = bool(entry.version)
        return JobVersion(gate.read_job(self.store.bucket, entry.key, entry.body, self.layout), entry)

    async def create(self, job: JobObject, *, tried: bool = True) -> JobVersion:
        """Write the first version; ObjectExists if the job was set up already.

        ``tried`` says whether it is known what the store honours.
        """
        job = replace(job, numbered_versions=self._register.numbers(tried=tried))
        with held():
            version = JobVersion(job, await self._register.create(job.to_bytes(), tried=tried))
            self.created = True
        self._tell("open", job)
        self.keeps_versions = bool(version.entry.version)
        return version

    async def move(self, version: JobVersion, state: JobState, **changes: Any) -> JobVersion:
        """Replace this version by one of another state. Raises JobMoved if another process was faster.

        An interruption waits for the answer, and from the commit point on for the job's end.
        """
        if state not in BEFORE_COMMIT:
            hold()
        check_move(version.job.state, state)
        news: dict[str, Any] = {
            "state": state,
            "nonce": new_token(),
            "changed_ms": now_ms(),
            "host": socket.gethostname(),
            "numbered_versions": self._register.numbers(version.entry),
            **changes,
        }
        moved, moment = replace(version.job, **news), self._silence.moment()
        if version.job.state in BEFORE_COMMIT and state is not JobState.ABORTING:
            _check_size(moved)
        moved = replace(moved, reason=moved.reason[:_REASON_MAX])
        try:
            with held():
                entry = await self._register.swap(version.entry, moved.to_bytes())
        except (PreconditionFailed, ObjectExists) as error:
            self._tell("conflict", moved)
            raise JobMoved(
                f"job {moved.job_id} was changed by another process while this one tried to make it "
                f"{state}; nothing was changed here; check with magicfs recover --dry-run"
            ) from error
        self._silence.heard(moment)
        self._tell(
            state.value, moved, "" if version.job.state not in BEFORE_COMMIT else _BEGUN.get(state, "")
        )
        self.keeps_versions = bool(entry.version)
        return JobVersion(moved, entry)

    def _tell(self, event: str, job: JobObject, step: str = "") -> None:
        """Report a state, and a step if one begins or ends with it."""
        asked = {"job": job.job_id, "run": job.options.run_id, "mode": job.options.mode}
        facts = {"url": self._url, **asked, "files": job.files, "bytes": job.size}
        watchers.happened(event, **facts)
        if step:
            seconds = max(0.0, (now_ms() - job.created_ms) / 1000)
            watchers.happened(step, **facts, seconds=seconds)

    async def confirm(self, version: JobVersion, *, may_have_ended: bool = False) -> None:
        """Raise JobMoved if another process has moved the job, or ended it.

        With ``may_have_ended`` only if its object is there, and is another version.

        The store is asked only if this process has not heard of the job for some seconds: a process that was
        stopped and goes on may find that others have finished its job and published more since.
        """
        if self._silence.is_short():
            return
        now = await self.read()
        if may_have_ended and now is None:
            return
        if now is None or now.job.nonce != version.job.nonce:
            raise JobMoved(
                f"job {version.job.job_id} was changed by another process while this one was paused"
            )

    async def remove(self, version: JobVersion) -> None:
        """Delete the job's last object. A second call, or one for a job that ended, does nothing."""
        try:
            await self._register.remove(version.entry)
        except PreconditionFailed as error:
            raise JobMoved(f"job {version.job.job_id} was changed by another process at its end") from error
        self._tell("ended", version.job, _ENDED.get(version.job.state, ""))

    async def clear(self, *, tried: bool = False) -> None:
        """Delete what is left of the object of a job that has ended, where it has numbered versions.

        ``tried``: whether what the store honours is known.
        """
        await self._register.clear(tried=tried)


async def read_record(
    store: Store, layout: WorkLayout, *, probe: bool, url: str = ""
) -> tuple[JobRecord, JobVersion | None]:
    """A job's record, to be written as the job was told; without a version once the job has ended.

    ``probe``: what the store honours is tried, if there is a job object: the leavings of a trial that is cut
    lie in the job's directory, and are found by way of its object.
    """
    known = remembered(store)
    record = JobRecord(store, layout, known or Conditions(), url)
    version = await record.read()
    if version is not None:
        record.store = object_settings.store_as_recorded(store, version.job.object_settings)
        if probe and known is None:
            known = await conditions_of(record.store, layout.job_directory)
        record.use(known or Conditions())
    return record, version


def opened(context: JobContext, engine: Engine) -> JobObject:
    """The first version of a job's object."""
    layout = context.layout
    return JobObject(
        job_id=context.job,
        bucket=engine.store.bucket,
        destination=layout.destination,
        state=JobState.OPEN,
        nonce=new_token(),
        driver=new_token(),
        attempt=layout.attempt,
        options=context.options,
        partitions=context.partitions,
        created_ms=now_ms(),
        changed_ms=now_ms(),
        host=socket.gethostname(),
        object_settings=object_settings.of_store(engine.store),
    )


def taking_over(new: JobObject, old: JobObject) -> dict[str, Any]:
    """What changes when a new driver takes an old one's job over: everything but whose it is and its age."""
    kept = {"state", "nonce", "changed_ms", "host", "created_ms", "numbered_versions", "unknown"}
    names = {one.name for one in fields(JobObject)} - kept
    return {name: getattr(new, name) for name in names if getattr(new, name) != getattr(old, name)}


def new_token() -> str:
    """A token that no other process makes."""
    return secrets.token_hex(8)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


def _check_size(job: JobObject) -> None:
    """Refuse a job whose object could not be moved on, or read by another process that finishes the job."""
    raw = within(
        job.to_bytes(),
        JOB_OBJECT_SIZE_LIMIT - ROOM,
        f"the object of job {job.job_id}, which names {len(job.partitions or ()):,} partitions and "
        f"{len(job.equal_keys):,} files that would be overwritten,",
        "nothing was published; publish fewer partitions by each job, use unique_names=True, or "
        "mode='overwrite' without equal names",
    )
    JobObject.from_bytes(f"the object of job {job.job_id}, which was not written", raw)
