"""The facts of one job that every process knows, and what setting it up found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Protocol, runtime_checkable

from magicfs.formats.job_object import JobObject
from magicfs.formats.job_options import JobOptions
from magicfs.protocol import ids, modes
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import REMOVALS, partition_of
from magicfs.protocol.temporary import TemporaryLayout

MANY_JOBS = 1000
"""More unfinished jobs than this at one destination are worth a word: each job reads the objects of all."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task is about to commit.

    Attributes:
        key: Where it will be, relative to the destination.
        bytes: Its size.
    """

    key: str
    bytes: int
    _open: Callable[[], BinaryIO] = field(repr=False)

    @property
    def partition(self) -> dict[str, str]:
        """The values in the names of its directories: ``{"day": "2026-01-01"}`` of ``day=2026-01-01/…``."""
        return partition_of(self.key)

    def open(self) -> BinaryIO:
        """Open the file for reading. Each call opens it again, and all are closed after the checks."""
        return self._open()


@runtime_checkable
class ContentCheck(Protocol):
    """Looks at the content of each file of a job, in the task that has written it. Its text is its name."""

    def look(self, file: StagedFile) -> str | None:
        """What is wrong with a file; None if nothing is."""


@dataclass(frozen=True, slots=True)
class RenameSettings:
    """How the files of a job are renamed, where its driver was told; others who end the job do as here."""

    verify: bool = False  # whether each file is looked at once it is renamed
    per_second: int = 0  # most renames in a second; 0 for any number
    overwrites: bool = False  # whether ``append`` may replace files of equal names
    removes_work: bool = True  # whether the work files go when the job ends
    must_remove_work: bool = True  # whether a job whose work could not be removed stays, to be recovered
    at_task_commit: bool = False  # whether tasks make their files visible already
    keeps_manifests_at: str | None = None
    """Key of the directory that manifests are moved to, empty if it is in another store; None if they go."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """The facts of one job attempt, the same in every process."""

    url: str
    layout: WorkLayout  # where the job keeps its work
    options: JobOptions  # what the job was asked for
    committer_options: object = None  # what else the committer was told: a value of its own class of options
    renames: RenameSettings = RenameSettings()
    file_checks: tuple[ContentCheck, ...] = ()  # what its tasks look for in the content of their files

    @property
    def destinations(self) -> tuple[str, ...]:
        """All directories that the job publishes to: no other key is ever its own."""
        return (self.layout.destination, *self.options.places.extra)

    @property
    def job(self) -> JobId:
        return self.layout.job

    @property
    def temporary(self) -> TemporaryLayout:
        """Where committers that move files keep the job's work."""
        return TemporaryLayout(self.layout.destination, self.job, self.layout.attempt)

    @property
    def uploads_found_by_name(self) -> bool:
        """Whether every upload of the job can be told by its final name."""
        return self.options.unique_names and ids.is_random(self.job)

    @property
    def is_partition_scoped(self) -> bool:
        """Whether the mode is about the partitions that the job writes to, not the destination."""
        return modes.is_by_partition(self.options.mode, self.options.committer)

    @property
    def is_replacing(self) -> bool:
        return self.options.mode.startswith("overwrite") or self.options.mode in REMOVALS

    @property
    def names_replaced(self) -> bool:
        """Whether its manifest names the files that it replaces one by one."""
        return self.options.mode == "overwrite_partitions" or self.options.mode in REMOVALS

    @property
    def partitions(self) -> tuple[str, ...] | None:
        """The partitions that the job is about as far as its setup knows them; None if it does not."""
        return self.options.rollback.partitions

    @property
    def must_be_empty(self) -> bool:
        """Whether no data may be there at all; which partitions a job writes to is not known at its setup,
        and what is there may be what tasks of an earlier attempt have published.
        """
        if self.renames.at_task_commit and self.layout.attempt:
            return False
        return self.options.mode == "error" and not self.is_partition_scoped

    def asked(self, **changes: Any) -> JobContext:
        """The same job, with some options changed."""
        return replace(self, options=replace(self.options, **changes))

    def with_extra(self, directories: Iterable[str]) -> JobContext:
        """The same job, with these extra destinations."""
        return self.asked(places=replace(self.options.places, extra=tuple(directories)))

    def of(self, job: JobObject) -> JobContext:
        """The facts of another job at the same destination, as its job object has them.

        Its extra destinations are left out: ``magicfs.transaction.record.believed`` confirms them.
        """
        layout = WorkLayout(self.layout.destination, job.job_id, job.attempt, job.options.hadoop.layout)
        return replace(self, layout=layout, options=job.options, file_checks=()).with_extra(())


@dataclass(frozen=True, slots=True)
class FoundUpload:
    """An upload that was pending under the destination before the job began."""

    key: str  # the key that it will have
    upload_id: str
    initiated: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job that has not ended, at the same destination."""

    job_id: str
    state: str | None  # its state; None if its object cannot be read
    created: float  # when it was set up, in seconds since the epoch; 0 if that is not known
    changed: float  # when it was moved last
    host: str  # where that happened
    run_id: str | None
    problem: str = ""  # why its object cannot be read; empty otherwise


@dataclass(frozen=True, slots=True)
class JobSetup:
    """What setting a job up found."""

    driver: str  # token of the one who may commit the job
    jobs: tuple[FoundJob, ...] = ()  # other jobs at the destination that have not ended
    uploads: tuple[FoundUpload, ...] | None = ()
    """Uploads that were pending there; None where listing them is not allowed."""
    published: str | None = None  # the job that has published the same run already; None if none has
    created: bool = False  # whether the job object was made, and not taken over
    keeps_versions: bool = False  # whether the bucket keeps versions of what is deleted or written over


def crowded(url: str, jobs: int) -> str:
    """What to say of a destination with very many unfinished jobs; empty if there are not."""
    if jobs <= MANY_JOBS:
        return ""
    return (
        f"{jobs:,} jobs are unfinished at {url}, and every setup, recover and doctor reads all of their job "
        f"objects; magicfs recover {url} --dry-run --json lists them, and magicfs recover {url} --job ID "
        "--abort ends one whose driver is dead"
    )
