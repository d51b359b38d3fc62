"""The files of a log: where they lie, and what is in them.

::

    DEST/_magicfs/<sum>/log-<number>-<sha256>.json      a log, or a part of one
    DEST/_magicfs/<sum>/names-<number>-<sha256>.json    ids of jobs and runs

Each is written once, in the directory of the sum that was made with it, and named by its content. A later log
names those of earlier ones that it still needs.

The ids of jobs and runs lie in files by their hash, so that one file tells of an id, whatever the length of
the log. They are written in sets: a later one is put together with those before it, as long as these are not
ten times as large. So there are few sets, each id is rewritten only now and then, and nothing that is written
changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.limits import LOG_SIZE_LIMIT
from magicfs.formats.log import Log, LogFile, LoggedJob, LoggedNames, LoggedPart, LogNames, LogPart
from magicfs.protocol import ids, paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store

AT_ONCE: Final = 16
"""How many files of a log are read or written at once."""

NAMED_BY: Final = 16
"""How much of its SHA-256 is in the name of a file."""

_MEND: Final = "run magicfs adopt, and then magicfs maintain, which builds a new log from the manifests"

At = tuple[str, str]
"""The directory of a file of a log, and its name."""


def whose(one: LogFile | LogPart) -> At:
    """Where a log or a part of one is."""
    return one.job_id, one.name


def file_of_names(names: LogNames, number: int) -> At:
    """Where some of the names are."""
    return names.job_id, f"names-{number:05d}-{names.sha256[number][:NAMED_BY]}.json"


def key_of(destination: str, at: At) -> str:
    """The key of a file of a log."""
    return paths.join(destination, MANIFESTS, *at)


async def read_log(store: Store, destination: str, file: LogFile) -> Log:
    """A log. Raises FormatError if it is gone, malformed or altered."""
    path, raw = await _read(store, destination, whose(file), file.sha256)
    log = Log.from_bytes(path, raw)
    _check(path, log.job_id, file.job_id)
    jobs = len(log.last) + sum(one.jobs for one in log.parts)
    if jobs != log.jobs:
        raise FormatError(path, "jobs", f"{log.jobs}, and it names {jobs}; {_MEND}")
    return log


async def read_part(store: Store, destination: str, part: LogPart) -> LoggedPart:
    """What a part of a log stands for. Raises FormatError if it is gone, malformed or altered."""
    path, raw = await _read(store, destination, whose(part), part.sha256)
    found = LoggedPart.from_bytes(path, raw)
    _check(path, found.job_id, part.job_id)
    if any(one.level >= part.level for one in found.parts):
        raise FormatError(path, "parts", f"a part of the same level as itself; {_MEND}")
    jobs = len(found.jobs) + sum(one.jobs for one in found.parts)
    if jobs != part.jobs:
        raise FormatError(path, "", f"{jobs} jobs, and not the {part.jobs} that it is named with; {_MEND}")
    return found


def named_twice(store: Store, destination: str, part: LogPart) -> FormatError:
    """The error for a part that several others name: each stands for jobs of its own."""
    path = f"{store.bucket}/{key_of(destination, whose(part))}"
    return FormatError(path, "", f"several parts of the log name it; {_MEND}")


async def read_names(store: Store, destination: str, names: LogNames, number: int) -> LoggedNames:
    """Some of the names. Raises FormatError if they are gone, malformed or altered."""
    path, raw = await _read(store, destination, file_of_names(names, number), names.sha256[number])
    found = LoggedNames.from_bytes(path, raw)
    _check(path, found.job_id, names.job_id)
    return found


def checked_job(store: Store, destination: str, at: At, job: str) -> str:
    """The id of a job that a file of names tells. Raises FormatError if it is none."""
    try:
        return ids.job_id(job)
    except UsageError as error:
        path = f"{store.bucket}/{key_of(destination, at)}"
        raise FormatError(path, "runs", f"{job!a} is not a job id; {_MEND}") from error


async def _read(store: Store, destination: str, at: At, sha256: str) -> tuple[str, bytes]:
    key = key_of(destination, at)
    path = f"{store.bucket}/{key}"
    try:
        raw = await store.get(key, size_max=LOG_SIZE_LIMIT + 1)
    except ObjectNotFound as error:
        raise FormatError(path, "", f"missing, although the log of publications names it; {_MEND}") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise FormatError(path, "", f"was altered since it was written (its SHA-256 differs); {_MEND}")
    return path, raw


def _check(path: str, found: str, expected: str) -> None:
    if found != expected:
        raise FormatError(path, "jobId", f"{found}, another one's; {_MEND}")


@dataclass(slots=True)
class Names:
    """Ids that belong together."""

    runs: dict[str, str] = field(default_factory=dict)
    """Jobs by the ids of their runs."""
    jobs: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Sequence[LoggedJob], runs: Mapping[str, str]) -> Names:
        """Those of jobs, the oldest first, and of other runs."""
        own = {one.run_id: one.job_id for one in jobs if one.run_id is not None}
        return cls({**runs, **own}, dict.fromkeys(one.job_id for one in jobs))

    def __len__(self) -> int:
        return len(self.runs) + len(self.jobs)

    def above(self, older: Names) -> Names:
        """Both together; where two name one run the newer counts."""
        return Names({**older.runs, **self.runs}, {**older.jobs, **self.jobs})


async def job_of_run(store: Store, destination: str, log: Log, run: str) -> str | None:
    """The job that published a run; None if none has.

    At most one request for each set of names, all of them at once. Raises FormatError if names are gone,
    malformed or altered.
    """
    job = next((one.job_id for one in reversed(log.last) if one.run_id == run), None)
    if job is not None:
        return job

    async def look(names: LogNames) -> str | None:
        number = number_of(run, len(names.sha256))
        runs = (await read_names(store, destination, names, number)).runs
        job = next((job for one, job in runs if one == run), None)
        return None if job is None else checked_job(store, destination, file_of_names(names, number), job)

    found = await gathered(reversed(log.names), look, AT_ONCE)
    return next((one for one in found if one is not None), None)


async def is_job(store: Store, destination: str, log: Log, job: str) -> bool:
    """Whether a job is among those of a log. Costs and raises as ``job_of_run``."""
    if any(one.job_id == job for one in log.last):
        return True

    async def look(names: LogNames) -> bool:
        return job in (await read_names(store, destination, names, number_of(job, len(names.sha256)))).jobs

    return any(await gathered(log.names, look, AT_ONCE))


async def read_set(store: Store, destination: str, names: LogNames) -> Names:
    """All ids of a set. Raises FormatError if they are gone, malformed or altered."""

    async def read(number: int) -> LoggedNames:
        return await read_names(store, destination, names, number)

    found = Names()
    for one in await gathered(range(len(names.sha256)), read, AT_ONCE):
        found.runs.update(one.runs)
        found.jobs.update(dict.fromkeys(one.jobs))
    return found


def number_of(name: str, files: int) -> int:
    """The file that tells of an id, of so many."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) * files >> 64
