"""The log of publications: what is remembered of all jobs of a chain, without their files.

The log itself is ``magicfs.log/1``: the last jobs, and where the others are. Those are in parts of some
hundred, ``magicfs.log-part/1``, which may stand for other parts. Job and run ids are found by their hash, in
``magicfs.log-names/1``. ``magicfs.manifests.log`` says who writes and reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import LONG_MAX, Fields, check_format
from magicfs.formats.limits import LOG_SIZE_LIMIT, within
from magicfs.protocol import ids

__all__ = [
    "LEVEL_MAX",
    "LOG_FORMAT",
    "LOG_NAMES_FORMAT",
    "LOG_PART_FORMAT",
    "LOG_SIZE_LIMIT",
    "Log",
    "LogFile",
    "LogNames",
    "LogPart",
    "LoggedJob",
    "LoggedNames",
    "LoggedPart",
    "is_log_file",
]

LOG_FORMAT: Final = "magicfs.log/1"
LOG_PART_FORMAT: Final = "magicfs.log-part/1"
LOG_NAMES_FORMAT: Final = "magicfs.log-names/1"

_FILE: Final = re.compile(r"(?:log|names)-[0-9]{5,9}-[0-9a-f]{16}\.json")
_PART_MEMBERS: Final = frozenset({"jobId", "name", "sha256", "level", "jobs", "oldest"})
LEVEL_MAX: Final = 20
"""The highest level of a part: one of the next level stands for eight."""
_ADVICE: Final = "choose shorter names of runs"


def is_log_file(name: str) -> bool:
    """Whether a file of a log may be called so."""
    return _FILE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """Where a log is."""

    job_id: str  # the sum, or else the maker of the log, in whose directory it lies
    name: str
    sha256: str  # of its bytes
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> LogFile:
        return cls(
            job_id=fields.required_job_id(),
            name=_name(fields),
            sha256=fields.required_text("sha256"),
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        document: dict[str, object] = {"jobId": self.job_id, "name": self.name, "sha256": self.sha256}
        return with_unknown(document, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedJob:
    """A publication as a log remembers it."""

    job_id: str
    run_id: str | None = None
    mode: str
    committed_ms: int  # when it was published, by the clock of its driver
    files: int  # how many it brought
    size: int  # their bytes
    restores: str | None = None  # of a rollback the job whose files it shows again
    kept_until_ms: int | None = None  # until when the files that it replaced are kept
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> LoggedJob:
        return cls(
            job_id=fields.required_job_id(),
            run_id=fields.nullable_text("runId"),
            mode=fields.required_text("mode"),
            committed_ms=fields.required_integer("committed", minimum=0),
            files=fields.required_integer("files", minimum=0),
            size=fields.required_integer("size", minimum=0),
            restores=fields.nullable_job_id("restores"),
            kept_until_ms=fields.required_integer("keptUntil", minimum=0)
            if fields.has("keptUntil")
            else None,
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        document: dict[str, object] = {"jobId": self.job_id}
        if self.run_id is not None:
            document["runId"] = self.run_id
        document |= {
            "mode": self.mode,
            "committed": self.committed_ms,
            "files": self.files,
            "size": self.size,
        }
        if self.restores is not None:
            document["restores"] = self.restores
        if self.kept_until_ms is not None:
            document["keptUntil"] = self.kept_until_ms
        return with_unknown(document, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Where a part of a log is, and what it stands for."""

    job_id: str  # as of the log
    name: str
    sha256: str
    level: int  # 0 for jobs; else one more than that of the parts in it
    jobs: int  # how many it stands for
    oldest_ms: int  # when the first of these was published, by the clocks of their drivers
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> LogPart:
        return cls(
            job_id=fields.required_job_id(),
            name=_name(fields),
            sha256=fields.required_text("sha256"),
            level=fields.required_integer("level", minimum=0),
            jobs=fields.required_integer("jobs", minimum=0),
            oldest_ms=fields.required_integer("oldest", minimum=0),
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        document: dict[str, object] = {
            "jobId": self.job_id,
            "name": self.name,
            "sha256": self.sha256,
            "level": self.level,
            "jobs": self.jobs,
            "oldest": self.oldest_ms,
        }
        return with_unknown(document, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedPart:
    """A part of a log: jobs, or other parts, the oldest first."""

    job_id: str
    jobs: tuple[LoggedJob, ...] = ()
    parts: tuple[LogPart, ...] = ()
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = LOG_SIZE_LIMIT) -> LoggedPart:
        fields = Fields(path, parse(path, raw, size_limit=size_limit))
        check_format(fields, LOG_PART_FORMAT)
        return cls(
            job_id=fields.required_job_id(),
            jobs=tuple(map(LoggedJob.from_fields, fields.objects("publications"))),
            parts=_parts(fields),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": LOG_PART_FORMAT,
            "jobId": self.job_id,
            "publications": [one.to_document() for one in self.jobs],
            "parts": [one.to_document() for one in self.parts],
        }
        raw = render(with_unknown(document, self.unknown))
        return within(raw, LOG_SIZE_LIMIT, f"a part of the log beside {self.job_id}", _ADVICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNames:
    """Where names are that belong together: in as many files as there are hashes, by their own hash."""

    job_id: str  # as of the log
    names: int  # how many
    sha256: tuple[str, ...]  # of each file, in their order; a file is called by its number and its hash
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_fields(cls, fields: Fields) -> LogNames:
        found = cls(
            job_id=fields.required_job_id(),
            names=fields.required_integer("names", minimum=0),
            sha256=fields.texts("sha256"),
            unknown=fields.rest(),
        )
        if not found.sha256:
            raise fields.error("sha256", "empty")
        return found

    def to_document(self) -> dict[str, object]:
        document: dict[str, object] = {"jobId": self.job_id, "names": self.names, "sha256": self.sha256}
        return with_unknown(document, self.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedNames:
    """Ids of jobs and runs, those of one file."""

    job_id: str
    runs: tuple[tuple[str, str], ...] = ()
    """Run id and the id of the job that published it."""
    jobs: tuple[str, ...] = ()
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = LOG_SIZE_LIMIT) -> LoggedNames:
        fields = Fields(path, parse(path, raw, size_limit=size_limit))
        check_format(fields, LOG_NAMES_FORMAT)
        runs = fields.elements("runs")
        # Whoever takes a job from it looks at its id: most of them are read by nobody.
        if not _are_pairs(runs):
            place = next(place for place, one in enumerate(runs) if not _are_pairs([one]))
            raise fields.error(f"runs[{place}]", "expected a list of a run id and a job id")
        return cls(
            job_id=fields.required_job_id(),
            runs=tuple(map(tuple, runs)),
            jobs=fields.texts("jobs"),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": LOG_NAMES_FORMAT,
            "jobId": self.job_id,
            "runs": self.runs,
            "jobs": self.jobs,
        }
        raw = render(with_unknown(document, self.unknown))
        return within(raw, LOG_SIZE_LIMIT, f"names in the log beside {self.job_id}", _ADVICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is remembered of all jobs up to a certain one. A value: every compaction makes a new one."""

    job_id: str  # the sum beside which it lies, or else its maker
    newest: str  # the newest of the chain that it tells of, a job or a sum
    jobs: int  # how many jobs it tells of
    runs: int  # how many of these had a run id
    parts: tuple[LogPart, ...] = ()
    """The jobs before the last ones, the oldest first; no level is higher than the one before it."""
    last: tuple[LoggedJob, ...] = ()
    """The last jobs, the oldest first."""
    names: tuple[LogNames, ...] = ()
    """Names of the jobs in parts, and of runs, the newest last; where two name one run the later counts."""
    outdated: tuple[str, ...] = ()
    """Files of earlier logs that this one needs no more, each with its directory."""
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = LOG_SIZE_LIMIT) -> Log:
        fields = Fields(path, parse(path, raw, size_limit=size_limit))
        check_format(fields, LOG_FORMAT)
        outdated = fields.texts("outdated")
        for place, one in enumerate(outdated):
            directory, _, name = one.partition("/")
            fields.job_id_at(f"outdated[{place}]", directory)
            if not is_log_file(name):
                raise fields.error(f"outdated[{place}]", "no file of a log")
        return cls(
            job_id=fields.required_job_id(),
            newest=fields.job_id_at("newest", fields.required_text("newest")),
            jobs=fields.required_integer("jobs", minimum=0),
            runs=fields.required_integer("runs", minimum=0),
            parts=_parts(fields),
            last=tuple(map(LoggedJob.from_fields, fields.objects("publications"))),
            names=tuple(map(LogNames.from_fields, fields.objects("names"))),
            outdated=outdated,
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": LOG_FORMAT,
            "jobId": self.job_id,
            "newest": self.newest,
            "jobs": self.jobs,
            "runs": self.runs,
            "parts": [one.to_document() for one in self.parts],
            "publications": [one.to_document() for one in self.last],
            "names": [one.to_document() for one in self.names],
            "outdated": self.outdated,
        }
        raw = render(with_unknown(document, self.unknown))
        return within(raw, LOG_SIZE_LIMIT, f"the log beside {self.job_id}", _ADVICE)


def _parts(fields: Fields) -> tuple[LogPart, ...]:
    """The parts that a file names: dozens in each log, so those with nothing wrong are read at once."""
    parts = tuple(
        _plain_part(one) or LogPart.from_fields(fields.object_at(f"parts[{place}]", one))
        for place, one in enumerate(fields.elements("parts"))
    )
    for place, one in enumerate(parts):
        if one.level > LEVEL_MAX:
            raise fields.error(f"parts[{place}].level", f"{one.level}, and at most {LEVEL_MAX} are read")
    if len({(one.job_id, one.name) for one in parts}) < len(parts):
        raise fields.error("parts", "one of them is named twice")
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


def _are_pairs(runs: list[Any]) -> bool:
    """Whether all of them are lists of two texts."""
    if not set(map(type, runs)) <= {list} or not set(map(len, runs)) <= {2}:
        return False
    return set(map(type, chain.from_iterable(runs))) <= {str}


def _name(fields: Fields) -> str:
    name = fields.required_text("name")
    if not is_log_file(name):
        raise fields.error("name", "no file of a log")
    return name
