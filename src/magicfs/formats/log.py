"""The log of publications: what is remembered of all jobs of a chain, without their files.

The log itself is ``magicfs.log/1``: the last jobs, and where the others are. Those are in parts of some
hundred, ``magicfs.log-part/1``, which may stand for other parts. Job and run ids are found by their hash, in
``magicfs.log-names/1``. ``magicfs.manifests.log`` says who writes and reads them.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any, ClassVar, Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.limits import LOG_SIZE_LIMIT, within
from magicfs.formats.record import COUNT, JOB, TEXT, Record, each, member, record
from magicfs.protocol import ids

_FILE: Final = re.compile(r"(?:log|names)-[0-9]{5,9}-[0-9a-f]{16}\.json")
_PART_MEMBERS: Final = frozenset({"jobId", "name", "sha256", "level", "jobs", "oldest"})
LEVEL_MAX: Final = 20
"""The highest level of a part: one of the next level stands for eight."""


def is_log_file(name: str) -> bool:
    """Whether a file of a log may be called so."""
    return _FILE.fullmatch(name) is not None


def _name(fields: Fields, key: str) -> str:
    name = fields.required_text(key)
    if not is_log_file(name):
        raise fields.error(key, "no file of a log")
    return name


@record
class LogFile(Record):
    """Where a log is."""

    job_id: str = member(JOB)  # the sum, or else the maker of the log, in whose directory it lies
    name: str = member(_name)
    sha256: str = member(TEXT)  # of its bytes


@record
class LoggedJob(Record):
    """A publication as a log remembers it."""

    job_id: str = member(JOB)
    run_id: str | None = member(Fields.nullable_text, default=None, rare=True)
    mode: str = member(TEXT)
    committed_ms: int = member(COUNT)  # when it was published, by the clock of its driver
    files: int = member(COUNT)  # how many it brought
    size: int = member(COUNT)  # their bytes
    restores: str | None = member(JOB, default=None, rare=True)
    """Of a rollback the job whose files it shows again."""
    kept_until_ms: int | None = member(COUNT, default=None, rare=True)
    """Until when the files that it replaced are kept."""


@record
class LogPart(Record):
    """Where a part of a log is, and what it stands for."""

    job_id: str = member(JOB)  # as of the log
    name: str = member(_name)
    sha256: str = member(TEXT)
    level: int = member(COUNT)  # 0 for jobs; else one more than that of the parts in it
    jobs: int = member(COUNT)  # how many it stands for
    oldest_ms: int = member(COUNT)  # when the first of these was published, by the clocks of their drivers


def _parts(fields: Fields, key: str) -> tuple[LogPart, ...]:
    """The parts that a file names: dozens in each log, so those with nothing wrong are read at once."""
    parts = tuple(
        _plain_part(one) or LogPart.from_fields(fields.object_at(f"{key}[{place}]", one))
        for place, one in enumerate(fields.elements(key))
    )
    for place, one in enumerate(parts):
        if one.level > LEVEL_MAX:
            raise fields.error(f"{key}[{place}].level", f"{one.level}, and at most {LEVEL_MAX} are read")
    if len({(one.job_id, one.name) for one in parts}) < len(parts):
        raise fields.error(key, "one of them is named twice")
    return parts


def _plain_part(members: Any) -> LogPart | None:
    """A part that has all members of one, and no others; None if something may be wrong with it."""
    if type(members) is not dict or members.keys() != _PART_MEMBERS:
        return None
    job, name, sha256 = members["jobId"], members["name"], members["sha256"]
    level, jobs, oldest = members["level"], members["jobs"], members["oldest"]
    if not (
        type(job) is type(name) is type(sha256) is str and type(level) is type(jobs) is type(oldest) is int
    ):
        return None
    if not (min(level, jobs, oldest) >= 0 and max(level, jobs, oldest) <= LONG_MAX and sha256):
        return None
    if not (is_log_file(name) and ids.is_job_id(job)):
        return None
    return LogPart(job_id=job, name=name, sha256=sha256, level=level, jobs=jobs, oldest_ms=oldest)


@record
class LoggedPart(Record):
    """A part of a log: jobs, or other parts, the oldest first."""

    FORMAT: ClassVar = "magicfs.log-part/1"

    job_id: str = member(JOB)
    jobs: tuple[LoggedJob, ...] = member(each(LoggedJob), default=(), key="publications", required=True)
    parts: tuple[LogPart, ...] = member(_parts, default=(), required=True)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = LOG_SIZE_LIMIT) -> LoggedPart:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    def to_bytes(self) -> bytes:
        return _written(self, f"a part of the log beside {self.job_id}")


def _hashes(fields: Fields, key: str) -> tuple[str, ...]:
    found = fields.texts(key)
    if not found:
        raise fields.error(key, "empty")
    return found


@record
class LogNames(Record):
    """Where names are that belong together: in as many files as there are hashes, by their own hash."""

    job_id: str = member(JOB)  # as of the log
    names: int = member(COUNT)  # how many
    sha256: tuple[str, ...] = member(_hashes)
    """Of each file, in their order; a file is called by its number and its hash."""


def _are_pairs(runs: list[Any]) -> bool:
    """Whether all of them are lists of two texts."""
    if not set(map(type, runs)) <= {list} or not set(map(len, runs)) <= {2}:
        return False
    return set(map(type, chain.from_iterable(runs))) <= {str}


def _runs(fields: Fields, key: str) -> tuple[tuple[str, str], ...]:
    # Whoever takes a job from it looks at its id: most of them are read by nobody.
    runs = fields.elements(key)
    if not _are_pairs(runs):
        place = next(place for place, one in enumerate(runs) if not _are_pairs([one]))
        raise fields.error(f"{key}[{place}]", "expected a list of a run id and a job id")
    return tuple(map(tuple, runs))


@record
class LoggedNames(Record):
    """Ids of jobs and runs, those of one file."""

    FORMAT: ClassVar = "magicfs.log-names/1"

    job_id: str = member(JOB)
    runs: tuple[tuple[str, str], ...] = member(_runs, default=(), required=True)
    """Run id and the id of the job that published it."""
    jobs: tuple[str, ...] = member(Fields.texts, default=())

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = LOG_SIZE_LIMIT) -> LoggedNames:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    def to_bytes(self) -> bytes:
        return _written(self, f"names in the log beside {self.job_id}")


def _outdated(fields: Fields, key: str) -> tuple[str, ...]:
    outdated = fields.texts(key)
    for place, one in enumerate(outdated):
        directory, _, name = one.partition("/")
        fields.job_id_at(f"{key}[{place}]", directory)
        if not is_log_file(name):
            raise fields.error(f"{key}[{place}]", "no file of a log")
    return outdated


@record
class Log(Record):
    """What is remembered of all jobs up to a certain one. A value: every compaction makes a new one."""

    FORMAT: ClassVar = "magicfs.log/1"

    job_id: str = member(JOB)  # the sum beside which it lies, or else its maker
    newest: str = member(JOB)  # the newest of the chain that it tells of, a job or a sum
    jobs: int = member(COUNT)  # how many jobs it tells of
    runs: int = member(COUNT)  # how many of these had a run id
    parts: tuple[LogPart, ...] = member(_parts, default=(), required=True)
    """The jobs before the last ones, the oldest first; no level is higher than the one before it."""
    last: tuple[LoggedJob, ...] = member(each(LoggedJob), default=(), key="publications", required=True)
    """The last jobs, the oldest first."""
    names: tuple[LogNames, ...] = member(each(LogNames), default=(), required=True)
    """Names of the jobs in parts, and of runs, the newest last; where two name one run the later counts."""
    outdated: tuple[str, ...] = member(_outdated, default=())
    """Files of earlier logs that this one needs no more, each with its directory."""

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = LOG_SIZE_LIMIT) -> Log:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    def to_bytes(self) -> bytes:
        return _written(self, f"the log beside {self.job_id}")


def _written(one: Record, what: str) -> bytes:
    return within(render(one.to_document()), LOG_SIZE_LIMIT, what, "choose shorter names of runs")
