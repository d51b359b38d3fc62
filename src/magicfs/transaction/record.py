"""The job object in the store: reading it, creating it, moving it."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, ObjectExists, PreconditionFailed
from magicfs.formats import gate
from magicfs.formats.job_object import JobObject
from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT, ROOM, within
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState, check_move
from magicfs.protocol.layout import WorkLayout
from magicfs.runtime.interrupt import held, hold
from magicfs.stores import object_settings
from magicfs.stores.conditions import Conditions, conditions_of, remembered
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register
from magicfs.transaction.context import JobContext

__all__ = [
    "JobMoved",
    "JobRecord",
    "JobVersion",
    "Silence",
    "new_token",
    "now_ms",
    "opened",
    "read_record",
    "taking_over",
]


_REASON_MAX: Final = 4000
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
        return all(now - then < _HEARD_S for now, then in zip(_moment(), self._heard, strict=True))

    @staticmethod
    def moment() -> tuple[float, float]:
        """Now, by a clock that stops and one that goes on while the machine sleeps."""
        return _moment()


class JobRecord:
    """One job's object."""

    def __init__(self, store: Store, layout: WorkLayout, conditions: Conditions) -> None:
        self.store = store
        self.layout = layout
        self.created = False  # whether it was this process that set the job up
        self.keeps_versions = False
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
            "host": _host(),
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
            raise JobMoved(
                f"job {moved.job_id} was moved by another process while this one tried to make it {state}; "
                "nothing was changed here; look with magicfs recover --dry-run"
            ) from error
        self._silence.heard(moment)
        self.keeps_versions = bool(entry.version)
        return JobVersion(moved, entry)

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
                f"job {version.job.job_id} was moved by another process while this one stood still"
            )

    async def remove(self, version: JobVersion) -> None:
        """Delete the job's last object. A second call, or one for a job that ended, does nothing."""
        try:
            await self._register.remove(version.entry)
        except PreconditionFailed as error:
            raise JobMoved(f"job {version.job.job_id} was moved by another process at its end") from error

    async def clear(self, *, tried: bool = False) -> None:
        """Delete what is left of the object of a job that has ended, where it has numbered versions.

        ``tried``: whether what the store honours is known.
        """
        await self._register.clear(tried=tried)


async def read_record(
    store: Store, layout: WorkLayout, *, probe: bool
) -> tuple[JobRecord, JobVersion | None]:
    """A job's record, to be written as the job was told; without a version once the job has ended.

    ``probe``: what the store honours is tried, if there is a job object: the leavings of a trial that is cut
    lie in the job's directory, and are found by way of its object.
    """
    known = remembered(store)
    record = JobRecord(store, layout, known or Conditions())
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
        partitions=context.options.rollback.partitions,
        created_ms=now_ms(),
        changed_ms=now_ms(),
        host=_host(),
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


def _moment() -> tuple[float, float]:
    """Seconds of the event loop's clock, and of one that goes on while the machine sleeps."""
    try:
        awake = asyncio.get_running_loop().time()
    except RuntimeError:
        awake = time.monotonic()
    return awake, time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else awake


def _host() -> str:
    return socket.gethostname()


def _check_size(job: JobObject) -> None:
    """Refuse a job whose object could not be moved on, or read by another process that finishes the job."""
    raw = within(
        job.to_bytes(),
        JOB_OBJECT_SIZE_LIMIT - ROOM,
        f"the object of job {job.job_id}, which names {len(job.partitions or ()):,} partitions and "
        f"{len(job.equal_keys):,} files that would be written over,",
        "nothing was published; publish fewer partitions by each job, use unique_names=True, or "
        "conflict='replace' without equal names",
    )
    JobObject.from_bytes(f"the object of job {job.job_id}, of which nothing was written", raw)
