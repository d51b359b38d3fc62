"""The facts of one job that every process knows, and what setting it up found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, cast

from magicfs.audit.content import FileCheck
from magicfs.formats.job_object import JobObject
from magicfs.formats.pending import EtagFormat
from magicfs.protocol import conflict, ids
from magicfs.protocol.conflict import REMOVALS, Mode
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.protocol.parts import DEFAULT_PART_SIZE
from magicfs.protocol.temporary import TemporaryLayout

__all__ = [
    "MANY_JOBS",
    "FoundJob",
    "FoundUpload",
    "JobContext",
    "JobSetup",
    "RenameSettings",
    "Rerun",
    "crowded",
]

Rerun = Literal["skip", "replace", "fail"]
"""If its run is published already, a job publishes nothing, publishes all the same, or raises at setup."""


MANY_JOBS = 1000
"""More unfinished jobs than this at one destination are worth a word: each job reads the objects of all."""


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
    conflict: Mode  # what to do about data that is there already
    unique_names: bool  # whether final names carry task and job
    tracking: Literal["store", "memory"]  # where finished uploads are remembered until their task commits
    etag_format: EtagFormat  # which generation of Hadoop shall read the files
    hadoop_sets: bool = False  # whether pending sets are copied to where Hadoop's job commit looks for them
    run_id: str | None = None  # name of the run, by which a second one finds the first
    rerun: Rerun = "skip"  # what to do if that run is published already
    allow_empty: bool = False  # whether a job without files may replace what is there
    success_marker: bool = True  # whether the job's end writes ``_SUCCESS``
    single_driver: bool = False
    """Whether the caller promises that nobody else moves the job, where the store cannot."""
    options: object = None  # what else the committer was told: a value of its own class of options
    committer: str = "magic"
    small_files: int | None = None  # bytes of the largest file that a task keeps in a bundle; None for none
    part_size: int = DEFAULT_PART_SIZE  # bytes of the first parts of uploads that the committer itself makes
    extra_destinations: tuple[str, ...] = ()  # further directories of the bucket that tasks write to, as keys
    also_replace: tuple[str, ...] = ()
    """Directories of other datasets, as keys, whose files the job may delete where it replaces."""
    inline_limit: int | None = None
    """Bytes of the largest pending set inside a task commit; None for the default."""

    keep_replaced_ms: int | None = None
    """For how long replaced files stay where they are; None if they are deleted."""

    keep_in_place: bool = False
    """Whether they stay there where the bucket would keep them by their versions, too."""

    restores: str | None = None
    """Of a rollback, the job whose files it shows again."""

    partitions: tuple[str, ...] | None = None
    """Of a rollback of some partitions, these; None for all other jobs."""

    renames: RenameSettings = RenameSettings()
    footers: bool = False  # whether what its files say of themselves is kept
    checksums: bool = False  # whether a checksum of each file is kept
    file_checks: tuple[FileCheck, ...] = ()  # what its tasks look for in the content of their files
    audit_rules: tuple[str, ...] = ()  # names of the rules that have to judge it before it is published

    own_path: str | None = None
    """Key of a user's own magic path whose files the job publishes: their uploads are not the job's."""

    begun_by: str = ""
    """Which of Hadoop's committers began the job in a JVM; empty for a job of ours."""

    @property
    def destinations(self) -> tuple[str, ...]:
        """All directories that the job publishes to: no other key is ever its own."""
        return (self.layout.destination, *self.extra_destinations)

    @property
    def job(self) -> JobId:
        """The job."""
        return self.layout.job

    @property
    def temporary(self) -> TemporaryLayout:
        """Where committers that move files keep the job's work."""
        return TemporaryLayout(self.layout.destination, self.job, self.layout.attempt)

    @property
    def uploads_found_by_name(self) -> bool:
        """Whether every upload of the job can be told by its final name."""
        return self.unique_names and ids.is_random(self.job)

    @property
    def is_partition_scoped(self) -> bool:
        """Whether the conflict mode is about the partitions that the job writes to, not the destination."""
        return conflict.is_by_partition(self.conflict, self.committer)

    @property
    def is_replacing(self) -> bool:
        """Whether the conflict mode deletes what is there."""
        return self.conflict.startswith("replace") or self.conflict in REMOVALS

    @property
    def names_replaced(self) -> bool:
        """Whether its manifest names the files that it replaces one by one."""
        return self.conflict == "replace_partitions" or self.conflict in REMOVALS

    @property
    def must_be_empty(self) -> bool:
        """Whether no data may be there at all; which partitions a job writes to is not known at its setup,
        and what is there may be what tasks of an earlier attempt have published.
        """
        if self.renames.at_task_commit and self.layout.attempt:
            return False
        return self.conflict == "fail" and not self.is_partition_scoped

    def of(self, job: JobObject) -> JobContext:
        """The facts of another job at the same destination, as its job object has them.

        Its extra destinations are left out: ``magicfs.transaction.job_location.believed`` confirms them.
        """
        layout = WorkLayout(self.layout.destination, job.job_id, job.attempt, cast("LayoutName", job.layout))
        return replace(
            self,
            layout=layout,
            conflict=cast("Mode", job.conflict),
            unique_names=job.unique_names,
            tracking=cast('Literal["store", "memory"]', job.tracking),
            etag_format=cast("EtagFormat", job.etag_format),
            small_files=job.small_files,
            part_size=job.part_size or DEFAULT_PART_SIZE,
            hadoop_sets=False,
            run_id=job.run_id,
            committer=job.committer,
            extra_destinations=(),
            own_path=job.own_path,
            also_replace=job.also_replace,
            success_marker=job.success_marker,
            keep_replaced_ms=job.keep_replaced_ms,
            keep_in_place=job.keep_in_place,
            restores=job.restores,
            partitions=None if job.restores is None else job.partitions,
            begun_by=job.begun_by,
            footers=job.footers,
            checksums=job.checksums,
            file_checks=(),
            audit_rules=job.audit_rules,
        )


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
        f"{jobs:,} jobs are unfinished at {url}, and every setup, recover and doctor reads the object of "
        f"each; magicfs recover {url} --dry-run --json lists them, and magicfs abort {url} --job ID ends one "
        "whose driver is dead"
    )
