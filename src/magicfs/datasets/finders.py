"""Finders: guests that find jobs which programs other than magicfs have begun, and that end them.

A package registers one as an entry point of the group ``magicfs.finders``. It is loaded when somebody looks
for such jobs, and at no other time.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.job_options import JobOptions
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.report import ForeignJob, RecoveredJob
from magicfs.runtime import registered
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import OtherJob
from magicfs.transaction.output import JobOutput

_GROUP: Final = "magicfs.finders"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where jobs of other programs keep what their tasks have committed, if that is not in the store.

    Attributes:
        directory: fsspec URL of the directory, such as ``fs.s3a.committer.staging.tmp.path`` of Hadoop.
        user: Whose jobs; None for those of all users.
        storage_options: Options of its filesystem, as for fsspec.
    """

    directory: str
    user: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, given: Cluster | str | None) -> Cluster | None:
        """What was given, a URL or the whole."""
        return cls(given) if isinstance(given, str) else given


@dataclass(frozen=True, slots=True)
class DeadJob(ABC):
    """A job of another program that has not ended. It has no job object until a command ends it."""

    finder: str  # the name of the finder, as reports have it in place of a state
    engine: Engine
    context: JobContext  # under which it is committed or aborted
    report: ForeignJob
    modified: float  # when something of it was written last, in seconds since the epoch

    def as_left(self) -> RecoveredJob:
        """The job as one that somebody has to decide about."""
        age_s, files = max(0.0, time.time() - self.modified), self.report.files
        return RecoveredJob(self.context.job, self.finder, "left", age_s, "", files, foreign=self.report)

    @abstractmethod
    def promise_missing(self, url: str = "") -> UsageError:
        """The error for a command that lacks the promise that no driver lives, or, with a URL, takes none."""

    @abstractmethod
    async def output(self, *, driver_is_dead: bool) -> JobOutput:
        """What its tasks have committed, to be published. Raises as ``datasets.commit`` does."""

    @abstractmethod
    async def take_over(self) -> str | None:
        """Create the job object, and return the token of its driver. Raises CommitFailed, with nothing
        changed, if the job cannot be published any more.
        """

    @abstractmethod
    async def discard(self, location: Location, *, driver_is_dead: bool, dry_run: bool) -> RecoveredJob:
        """Abort its uploads and remove its work. Raises UsageError without the promise, CommitDenied if files
        of it are published; nothing was changed.
        """


class Finder(Protocol):
    """What a guest knows of the jobs of its program, and of tasks of that program in jobs of ours."""

    async def find_all(self, engine: Engine, location: Location, cluster: Cluster | None) -> list[DeadJob]:
        """Every job at a destination that has no job object and has not ended."""

    async def find_one(
        self, engine: Engine, location: Location, job: JobId, cluster: Cluster | None
    ) -> DeadJob | None:
        """The same of one job; None if it is not there, or it is ours, or published."""

    async def find_begun(
        self, engine: Engine, location: Location, begun: OtherJob, cluster: Cluster | None
    ) -> DeadJob | None:
        """A job that a command has begun to finish; None if its job object says all that ends it."""

    def writes(self, layout: WorkLayout, key: str) -> bool:
        """Whether a key among the work of a job is one that only tasks of this program write."""

    def refuse_sweep(self, job: JobId, works: Sequence[tuple[WorkLayout, Sequence[str]]]) -> None:
        """Raise UsageError, without the promise that no driver lives, if keys among a job's work show one."""

    async def refuse_abort(self, engine: Engine, context: JobContext) -> None:
        """Raise CommitDenied if a driver of this program has begun to publish a job with a job object."""

    async def refuse_gone(self, engine: Engine, context: JobContext, output: JobOutput) -> None:
        """Raise CommitFailed if uploads of this program in a job of ours are neither open nor published."""

    async def load(self, engine: Engine, context: JobContext, cluster: Cluster | None) -> JobOutput:
        """What the tasks of a job have committed that a command has begun to finish."""

    async def clean_up(self, engine: Engine, context: JobContext, cluster: Cluster | None) -> None:
        """Remove what a job that has ended has left outside of its work, whether or not it had an object. A
        second call does nothing.
        """

    def cluster_directory(self, conf: Mapping[str, str]) -> str:
        """The URL where, by a configuration of this program, jobs keep what their tasks have committed."""


@cache
def finders() -> Mapping[str, Finder]:
    """All finders by their names. Raises UsageError for one that cannot be loaded."""
    return {name: registered.load(_GROUP, name)() for name in registered.names(_GROUP)}


async def find_one(engine: Engine, location: Location, job: JobId, cluster: Cluster | None) -> DeadJob | None:
    """A job of whichever program; None if no finder knows it."""
    for finder in finders().values():
        if (found := await finder.find_one(engine, location, job, cluster)) is not None:
            return found
    return None


def finder_of(options: JobOptions) -> Finder | None:
    """The finder of the program that began a job; None for a job of ours."""
    name = options.hadoop.begun_by.partition("-")[0]
    return finder_named(name) if name else None


def finder_named(name: str) -> Finder:
    """The finder of a program. Raises UsageError if none is installed."""
    return finders().get(name) or registered.load(_GROUP, name)()
