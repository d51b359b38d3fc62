"""The job object, ``job.json``: one for each job, and the only thing that says what state it is in.

It names everything that finishing or undoing the job needs, so that any process can, long after its driver
died. What it names lies in immutable chunks beside it, each with its SHA-256. ``docs/job-object.md``
describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from magicfs.formats.audit import Audit
from magicfs.formats.chunk import Chunk, chunk_document, read_chunk, required_sha256
from magicfs.formats.document import parse, render, shown, with_unknown
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT, within
from magicfs.formats.pending import EtagFormat
from magicfs.protocol.conflict import CONFLICTS, REMOVALS
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState

__all__ = [
    "JOB_FORMAT",
    "JOB_OBJECT_SIZE_LIMIT",
    "JOB_OF_THE_PAST_FORMAT",
    "JOB_TO_JUDGE_FORMAT",
    "JUDGED_JOB_FORMAT",
    "Chunk",
    "ExtraDestination",
    "JobObject",
    "OldSuccess",
    "SeenPointer",
    "chunk_document",
    "read_chunk",
]

JOB_FORMAT: Final = "magicfs.job/1"
JUDGED_JOB_FORMAT: Final = "magicfs.job/3"
"""Of a job that was audited: an older magicfs would publish one whose audit has failed."""
JOB_TO_JUDGE_FORMAT: Final = "magicfs.job/4"
"""Of a job that is to be audited, and was not yet: an older magicfs would publish it without."""
JOB_OF_THE_PAST_FORMAT: Final = "magicfs.job/2"
"""Of a job that keeps what it replaces, shows again what was published before, or names the files that it
replaces: an older magicfs refuses it, which would delete too much and publish too little."""
_LAYOUTS: Final = ("__magic_job", "__magic")
_TRACKING: Final = ("store", "memory")
_ETAGS: Final = get_args(EtagFormat)


@dataclass(frozen=True, slots=True)
class OldSuccess:
    """The ``_SUCCESS`` that was there before the job."""

    key: str  # where its copy lies
    sha256: str  # of the copy, in hexadecimal
    etag: str  # of the original: only that one is deleted


@dataclass(frozen=True, slots=True)
class SeenPointer:
    """The manifest pointer as the job saw it when it looked at what it replaces."""

    job: str  # that it named
    etag: str  # its version


@dataclass(frozen=True, slots=True)
class ExtraDestination:
    """A further directory that the job publishes to."""

    key: str  # the directory, without a slash at its end
    older_files: bool = False  # whether data was there that no manifest knows


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObject:
    """A job. A value: every move makes a new one, with a fresh nonce."""

    job_id: JobId
    bucket: str  # where its destination lies
    destination: str  # the directory, a key without a slash at its end
    state: JobState
    nonce: str  # another one in every version, so that a writer recognises its own
    driver: str  # who may commit the job while it is open; a take-over sets another
    attempt: int = 0  # number of the job attempt
    committer: str = "magic"
    conflict: str = "append"
    unique_names: bool = True  # whether final names carry task and job
    tracking: str = "store"
    """Where finished uploads are remembered until their task commits: ``store`` or ``memory``."""
    layout: str = "__magic_job"  # which of Hadoop's directory layouts
    run_id: str | None = None
    created_ms: int = 0  # when it was set up
    changed_ms: int = 0  # when its state was last moved
    host: str = ""  # where it was last moved
    tasks: int = 0  # how many tasks are published
    files: int = 0  # how many files
    size: int = 0  # bytes of all of them
    chunks: tuple[Chunk, ...] = ()  # pending sets of at most 1,000 files each: what is published
    deletions: tuple[Chunk, ...] = ()  # lists of old objects: what is deleted once every file is visible
    partitions: tuple[str, ...] | None = None
    """Partitions that the mode is about, relative to the destination: they are replaced, or with
    ``partitioned`` and ``fail`` must hold no data; None for the whole destination.
    """
    pointer: SeenPointer | None = None  # the manifest pointer when the job looked; None if there was none
    older_files: bool = False  # whether data was there that no manifest knows
    old_success: OldSuccess | None = None  # the ``_SUCCESS`` before the job
    equal_keys: tuple[str, ...] = ()
    """Old keys that new files replace in place: there is no way back from the first of them."""
    irreversible: bool = False  # whether replacing those has begun, or putting bodies of small files
    reason: str = ""  # why it is aborted or reverted
    extra_destinations: tuple[ExtraDestination, ...] = ()
    """Further directories that the job publishes to; the field is left out if empty."""
    etag_format: str = "string"
    """Which generation of Hadoop shall read what tasks leave; the field is left out for the default."""
    part_size: int | None = None
    """Bytes of the first parts of every upload; None for the default, and then the field is left out."""
    small_files: int | None = None
    """Bytes of the largest file that its task keeps in a bundle; None if every file is an upload, and then
    the field is left out."""
    own_path: str | None = None
    """Key of a user's own magic path whose files the job publishes; None for a job of tasks, and then the
    field is left out. Uploads and their records belong to the path, not to the job."""
    also_replace: tuple[str, ...] = ()
    """Directories of other datasets whose files it may delete; the field is left out if empty."""
    new: str | None = None
    """Of a job that an earlier magicfs set up with ``publish="flip"``, where it made its dataset; nobody acts
    on such a job. None for all others, and then the field is left out."""
    object_settings: Mapping[str, str] = field(default_factory=dict)
    """What all of its objects bear, this one included: encryption, ACL, tags, storage class. Never a key that
    is secret. The field is left out if empty."""
    success_marker: bool = True  # whether its end writes ``_SUCCESS``; the field is left out if so
    keep_replaced_ms: int | None = None
    """For how long replaced files stay where they are; None if they are deleted, and then the field is left
    out."""
    keep_in_place: bool = False
    """Whether they stay there where the bucket would keep them by version; the field is left out if not."""
    restores: str | None = None
    """Of a rollback the job whose files it shows again; None for all others, and then the field is left
    out."""
    restored: tuple[Chunk, ...] = ()
    """Lists of these files, ``magicfs.manifest-files/1``; left out if there are none."""
    hidden: tuple[Chunk, ...] = ()
    """Lists of old objects that are no part of the dataset any more and are not deleted: an earlier job keeps
    them, or they are gone. Left out if there are none."""
    footers: bool = False  # whether its files' footers are kept; the field is left out if not
    checksums: bool = False  # whether checksums of its files are kept; the field is left out if not
    audit_rules: tuple[str, ...] = ()
    """The rules that have to judge it before it is published, by name; left out if there are none."""
    audit: Audit | None = None
    """What its audit said; None if there was none, or it has not come to that, and then the field is left
    out."""
    numbered_versions: bool = False
    """Whether the next version is, or may be, an object of its own, ``job.00001.json`` …: ``job.json`` alone
    does not tell the state then. The field is left out if not."""
    begun_by: str = ""
    """Which of Hadoop's committers began the job in a JVM, such as ``hadoop-magic``; empty for a job of ours,
    and then the field is left out."""
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_quarantined(self) -> bool:
        """Whether its audit has failed, and it waits for somebody to accept or to abort it."""
        said = self.audit
        is_held = said is not None and not said.passed and said.accepted is None
        return is_held and self.state in BEFORE_COMMIT

    @property
    def is_unjudged(self) -> bool:
        """Whether rules have to judge it before it is published, and have not done so."""
        return bool(self.audit_rules) and self.audit is None and self.state in BEFORE_COMMIT

    @property
    def destinations(self) -> tuple[str, ...]:
        """All directories that it names as places of its files."""
        return (self.destination, *(one.key for one in self.extra_destinations))

    @property
    def scope(self) -> tuple[str, ...] | None:
        """The partitions that its mode is about; None for the whole destination."""
        return self.partitions

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> JobObject:
        fields = Fields(path, parse(path, raw, size_limit=JOB_OBJECT_SIZE_LIMIT))
        check_format(fields, JOB_FORMAT, JOB_OF_THE_PAST_FORMAT, JUDGED_JOB_FORMAT, JOB_TO_JUDGE_FORMAT)
        partitions = fields.texts("partitions") if fields.has("partitions") else None
        return cls(
            job_id=fields.required_job_id(),
            bucket=fields.bucket(),
            destination=fields.text("destination"),
            state=JobState(_choice(fields, "state", tuple(JobState))),
            nonce=fields.required_text("nonce"),
            driver=fields.required_text("driver"),
            attempt=fields.integer("attempt", minimum=0),
            committer=fields.required_text("committer"),
            conflict=_choice(fields, "conflict", (*CONFLICTS, *REMOVALS)),
            unique_names=fields.flag("uniqueNames", default=True),
            tracking=_choice(fields, "tracking", _TRACKING),
            layout=_choice(fields, "layout", _LAYOUTS),
            run_id=fields.nullable_text("runId"),
            created_ms=fields.integer("created", minimum=0),
            changed_ms=fields.integer("changed", minimum=0),
            host=fields.text("host"),
            tasks=fields.integer("tasks", minimum=0),
            files=fields.integer("files", minimum=0),
            size=fields.integer("bytes", minimum=0),
            chunks=tuple(read_chunk(one) for one in fields.objects("chunks")),
            deletions=tuple(read_chunk(one) for one in fields.objects("deletions")),
            partitions=partitions,
            pointer=_pointer(fields),
            older_files=fields.flag("olderFiles", default=False),
            old_success=_old_success(fields),
            equal_keys=fields.texts("equalKeys"),
            irreversible=fields.flag("irreversible", default=False),
            reason=fields.text("reason"),
            extra_destinations=_extra_destinations(fields),
            etag_format=_choice(fields, "etagFormat", _ETAGS) if fields.has("etagFormat") else "string",
            part_size=_number(fields, "partSize"),
            small_files=_number(fields, "smallFiles"),
            own_path=fields.required_text("ownPath") if fields.has("ownPath") else None,
            also_replace=fields.texts("alsoReplace") if fields.has("alsoReplace") else (),
            new=fields.required_text("new") if fields.has("new") else None,
            object_settings=fields.text_map("objectSettings"),
            success_marker=fields.flag("successMarker", default=True),
            keep_replaced_ms=_number(fields, "keepReplaced"),
            keep_in_place=fields.flag("keepInPlace", default=False),
            restores=fields.nullable_job_id("restores"),
            restored=tuple(read_chunk(one) for one in fields.objects("restored"))
            if fields.has("restored")
            else (),
            hidden=tuple(read_chunk(one) for one in fields.objects("hidden")) if fields.has("hidden") else (),
            footers=fields.flag("footers", default=False),
            checksums=fields.flag("checksums", default=False),
            audit_rules=fields.texts("auditRules") if fields.has("auditRules") else (),
            audit=Audit.from_fields(fields.child("audit")) if fields.has("audit") else None,
            numbered_versions=fields.flag("numberedVersions", default=False),
            begun_by=fields.text("begunBy"),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": self._format(),
            "jobId": self.job_id,
            "bucket": self.bucket,
            "destination": self.destination,
            "state": self.state.value,
            "nonce": self.nonce,
            "driver": self.driver,
            "attempt": self.attempt,
            "committer": self.committer,
            "conflict": self.conflict,
            "uniqueNames": self.unique_names,
            "tracking": self.tracking,
            "layout": self.layout,
            "runId": self.run_id,
            "created": self.created_ms,
            "changed": self.changed_ms,
            "host": self.host,
            "tasks": self.tasks,
            "files": self.files,
            "bytes": self.size,
            "chunks": [chunk_document(one) for one in self.chunks],
            "deletions": [chunk_document(one) for one in self.deletions],
            "partitions": self.partitions,
            "pointer": self.pointer and {"jobId": self.pointer.job, "etag": self.pointer.etag},
            "olderFiles": self.older_files,
            "oldSuccess": self.old_success and _old_success_document(self.old_success),
            "equalKeys": self.equal_keys,
            "irreversible": self.irreversible,
            "reason": self.reason,
        }
        document |= self._special()
        raw = render(with_unknown(document, self.unknown))
        return within(
            raw,
            JOB_OBJECT_SIZE_LIMIT,
            f"the object of job {self.job_id}",
            "publish fewer partitions or files by each job",
        )

    def _format(self) -> str:
        if self.audit is not None:
            return JUDGED_JOB_FORMAT
        if self.audit_rules:
            return JOB_TO_JUDGE_FORMAT
        return JOB_OF_THE_PAST_FORMAT if self._past() or self.conflict in REMOVALS else JOB_FORMAT

    def _special(self) -> dict[str, object]:
        """What only some jobs have; the fields of the others are left out."""
        document: dict[str, object] = {}
        if self.extra_destinations:
            document["extraDestinations"] = [
                {"key": one.key, "olderFiles": one.older_files} for one in self.extra_destinations
            ]
        if self.etag_format != "string":
            document["etagFormat"] = self.etag_format
        if self.part_size is not None:
            document["partSize"] = self.part_size
        if self.small_files is not None:
            document["smallFiles"] = self.small_files
        if self.own_path is not None:
            document["ownPath"] = self.own_path
        if self.also_replace:
            document["alsoReplace"] = self.also_replace
        if self.new is not None:
            document["new"] = self.new
        if self.object_settings:
            document["objectSettings"] = self.object_settings
        if not self.success_marker:
            document["successMarker"] = False
        kept = {"footers": self.footers, "checksums": self.checksums}
        document |= {name: True for name, is_kept in kept.items() if is_kept}
        document |= self._past()
        if self.audit_rules:
            document["auditRules"] = self.audit_rules
        if self.audit is not None:
            document["audit"] = self.audit.to_document()
        if self.numbered_versions:
            document["numberedVersions"] = True
        if self.begun_by:
            document["begunBy"] = self.begun_by
        return document

    def _past(self) -> dict[str, object]:
        """What it keeps and shows of the past; empty for most jobs."""
        document: dict[str, object] = {}
        if self.keep_replaced_ms is not None:
            document["keepReplaced"] = self.keep_replaced_ms
        if self.keep_in_place:
            document["keepInPlace"] = True
        if self.restores is not None:
            document["restores"] = self.restores
        if self.restored:
            document["restored"] = [chunk_document(one) for one in self.restored]
        if self.hidden:
            document["hidden"] = [chunk_document(one) for one in self.hidden]
        return document


def _number(fields: Fields, name: str) -> int | None:
    return fields.required_integer(name, minimum=1) if fields.has(name) else None


def _choice(fields: Fields, name: str, choices: tuple[str, ...]) -> str:
    found = fields.required_text(name)
    if found not in choices:
        raise fields.error(name, f"{shown(found)} is none of {', '.join(choices)}")
    return found


def _extra_destinations(fields: Fields) -> tuple[ExtraDestination, ...]:
    if not fields.has("extraDestinations"):
        return ()
    return tuple(
        ExtraDestination(one.required_text("key"), one.flag("olderFiles", default=False))
        for one in fields.objects("extraDestinations")
    )


def _old_success_document(old: OldSuccess) -> dict[str, Any]:
    return {"key": old.key, "sha256": old.sha256, "etag": old.etag}


def _pointer(fields: Fields) -> SeenPointer | None:
    if not fields.has("pointer"):
        return None
    seen = fields.child("pointer")
    return SeenPointer(seen.required_text("jobId"), seen.required_text("etag"))


def _old_success(fields: Fields) -> OldSuccess | None:
    if not fields.has("oldSuccess"):
        return None
    old = fields.child("oldSuccess")
    return OldSuccess(old.required_text("key"), required_sha256(old), old.required_text("etag"))
