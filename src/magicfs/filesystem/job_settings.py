"""What a job's setup has settled for whoever writes below its magic paths: known in this process, or read.

A ``Job`` or ``Task`` of this process makes it known without a request. Elsewhere the job object is read, once
for each process and job.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from magicfs.errors import ObjectNotFound, ProtocolViolation
from magicfs.filesystem.tracking import PlaceName, name_in
from magicfs.formats.job_options import JobOptions
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.magic import MAGIC, MagicPath, PathOwner
from magicfs.runtime import process_end
from magicfs.stores import object_settings
from magicfs.stores.object_settings import ObjectSettings
from magicfs.stores.port import Store

_JOBS_MAX = 1024
"""Of so many jobs the settings are kept; those of an older one are read again."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How files below a magic path are named, sent and remembered."""

    options: JobOptions
    object_settings: ObjectSettings = field(default_factory=dict)
    """What objects bear in place of what the filesystem was told, if anything."""


@dataclass(slots=True)
class _KnownJob:
    settings: WriteSettings
    attempts: set[PlaceName] = field(default_factory=set)
    """Directories of the task attempts that were set up in this process and have not ended."""
    over: set[PlaceName] = field(default_factory=set)
    """Directories of those that have ended in this process."""
    warned: bool = False  # whether somebody was told that options do not count


class KnownJobs:
    """The jobs of which this process knows the settings, by their directories. Safe for threads; no I/O.

    Directories of jobs and attempts are named by ``name_in``.
    """

    def __init__(self) -> None:
        self._jobs: OrderedDict[PlaceName, _KnownJob] = OrderedDict()
        self._lock = threading.Lock()
        self._reading: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[PlaceName, asyncio.Lock]]
        self._reading = WeakKeyDictionary()

    def learn(self, job_directory: PlaceName, settings: WriteSettings) -> None:
        """Take the settings of a job."""
        with self._lock:
            known = self._jobs.setdefault(job_directory, _KnownJob(settings))
            known.settings = settings
            self._jobs.move_to_end(job_directory)
            while len(self._jobs) > _JOBS_MAX:
                self._jobs.popitem(last=False)

    def find(self, job_directory: PlaceName) -> WriteSettings | None:
        with self._lock:
            known = self._jobs.get(job_directory)
            return known.settings if known else None

    def began(self, job_directory: PlaceName, attempt_directory: PlaceName) -> None:
        """A task attempt of a known job was set up in this process."""
        with self._lock:
            if (known := self._jobs.get(job_directory)) is not None:
                known.attempts.add(attempt_directory)

    def ended(self, job_directory: PlaceName, attempt_directory: PlaceName) -> None:
        """A task attempt has committed or was aborted."""
        with self._lock:
            if (known := self._jobs.get(job_directory)) is not None:
                known.attempts.discard(attempt_directory)
                known.over.add(attempt_directory)

    def has_begun(self, job_directory: PlaceName, attempt_directory: PlaceName) -> bool:
        """Whether the attempt was set up in this process, and has not ended."""
        with self._lock:
            known = self._jobs.get(job_directory)
            return known is not None and attempt_directory in known.attempts

    def has_ended(self, job_directory: PlaceName, attempt_directory: PlaceName) -> bool:
        """Whether the attempt has committed in this process, or was aborted."""
        with self._lock:
            known = self._jobs.get(job_directory)
            return known is not None and attempt_directory in known.over

    def forget(self, job_directory: PlaceName) -> None:
        """Forget a job that has ended."""
        with self._lock:
            self._jobs.pop(job_directory, None)

    def first_warning(self, job_directory: PlaceName) -> bool:
        """Whether nobody was warned about the options for a job yet."""
        with self._lock:
            known = self._jobs.get(job_directory)
            if known is None or known.warned:
                return False
            known.warned = True
            return True

    def reading(self, job_directory: PlaceName) -> asyncio.Lock:
        """Held while the settings of a job are read on the running loop."""
        with self._lock:
            locks = self._reading.setdefault(asyncio.get_running_loop(), {})
            return locks.setdefault(job_directory, asyncio.Lock())

    def forget_attempts(self) -> None:
        """In a forked child: attempts are the parent's, and so are the loops."""
        self._lock = threading.Lock()
        self._reading = WeakKeyDictionary()
        for known in self._jobs.values():
            known.attempts.clear()


_KNOWN = KnownJobs()


def known_jobs() -> KnownJobs:
    """The jobs that this process knows."""
    return _KNOWN


process_end.after_fork_in_child(_KNOWN.forget_attempts)


async def read_settings(store: Store, path: MagicPath, owner: PathOwner) -> WriteSettings:
    """The settings of a job of ours that one of its paths lies in: known, or read from its job object.

    Raises ProtocolViolation if the job has ended, was never set up, or is being published: nobody would
    publish the file.
    """
    name = name_in(store, owner.job_directory)
    async with _KNOWN.reading(name):
        if (known := _KNOWN.find(name)) is None:
            known = await _read(store, path, owner)
            _KNOWN.learn(name, known)
    return known


async def _read(store: Store, path: MagicPath, owner: PathOwner) -> WriteSettings:
    from magicfs.formats.gate import read_job
    from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT

    # The first version, also where versions are numbered: what is read here never changes.
    name: LayoutName = "__magic" if path.magic == MAGIC else "__magic_job"
    layout = WorkLayout("/".join(path.parents), owner.job, 0, name)
    key = layout.job_object_key
    where = f"{store.bucket}/{key}"
    try:
        raw = await store.get(key, size_max=JOB_OBJECT_SIZE_LIMIT + 1)
    except ObjectNotFound as error:
        raise ProtocolViolation(
            f"{path.path}: job {owner.job} has ended or was never set up, because there is no {where}; "
            "nothing was written, because it would never be published; set the job up before its tasks "
            "write (with a committer that has no job object give storage_options=task.storage_options), or "
            "write below a path of your own, such as DEST/__magic/mine/__base/…"
        ) from error
    job = read_job(store.bucket, key, raw, layout)
    object_settings.check_recorded(job.object_settings, object_settings.of_store(store))
    if job.state not in BEFORE_COMMIT:
        raise ProtocolViolation(
            f"{path.path}: job {owner.job} is already {job.state}; nothing was written, because it would "
            "never be published; write in a new job"
        )
    return WriteSettings(job.options, job.object_settings)


def refuse_if_lost(store: Store, path: MagicPath, owner: PathOwner, settings: WriteSettings) -> None:
    """Raise ProtocolViolation if nobody would commit a file: its task has ended here, or is elsewhere."""
    job, attempt = name_in(store, owner.job_directory), name_in(store, owner.directory)
    if _KNOWN.has_ended(job, attempt):
        raise ProtocolViolation(
            f"{path.path}: the task was already committed or aborted; nothing was written, because it would "
            "never be published; write within the task, or in a new one"
        )
    if settings.options.tracking == "memory" and not _KNOWN.has_begun(job, attempt):
        raise ProtocolViolation(
            f"{path.path}: the job has tracking='memory', so only the process that set a task up can commit "
            "its files; this is another process, or the task has ended; nothing was written; set the task "
            "up where it writes, or use tracking='store'"
        )


def warn_if_ignored(
    store: Store, path: MagicPath, owner: PathOwner, settings: WriteSettings, given: Mapping[str, object]
) -> None:
    """Say once for each job that options which somebody gave differ from the job's, and do not count."""
    ignored = sorted(name for name, value in given.items() if getattr(settings.options, name) != value)
    if ignored and _KNOWN.first_warning(name_in(store, owner.job_directory)):
        logging.getLogger("magicfs").warning(
            "%s: the filesystem was given %s, but job %s was set up with %s, which applies",
            path.path,
            ", ".join(f"{name}={given[name]!r}" for name in ignored),
            owner.job,
            ", ".join(f"{name}={getattr(settings.options, name)!r}" for name in ignored),
        )
