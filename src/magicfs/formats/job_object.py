"""The job object, ``job.json``: one for each job, and the only thing that says what state it is in.

It names everything that finishing or undoing the job needs, so that any process can, long after its driver
died. What it names lies in immutable chunks beside it, each with its SHA-256. ``docs/job-object.md``
describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from magicfs.formats.audit import Audit
from magicfs.formats.chunk import Chunk, chunk_document, read_chunk, required_sha256
from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format, heading
from magicfs.formats.job_options import ALL_NEEDS, JobOptions, choice
from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT, within
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.protocol.modes import REMOVALS

__all__ = [
    "CORE_NEEDS",
    "JOB_FORMAT",
    "JOB_OBJECT_SIZE_LIMIT",
    "Chunk",
    "JobObject",
    "OldSuccess",
    "SeenPointer",
    "chunk_document",
    "read_chunk",
]

JOB_FORMAT: Final = "magicfs.job/1"
CORE_NEEDS: Final = frozenset({"hidden", "removal"})
"""What of ``requires`` the job's own modes are about."""
_KNOWN: Final = CORE_NEEDS | {"audit", *ALL_NEEDS}
"""What this magicfs knows of ``requires``. A reader that lacks one would delete too much, publish too little,
or publish what nobody has judged."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObject:
    """A job. A value: every move makes a new one, with a fresh nonce."""

    job_id: JobId
    bucket: str  # where its destination lies
    destination: str  # the directory, a key without a slash at its end
    state: JobState
    nonce: str  # another one in every version, so that a writer recognises its own
    driver: str  # who may commit the job while it is open; a take-over sets another
    options: JobOptions  # what it was asked for
    attempt: int = 0  # number of the job attempt
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
    ``partitioned`` and ``error`` must hold no data; None for the whole destination.
    """
    pointer: SeenPointer | None = None  # the manifest pointer when the job looked; None if there was none
    older_files: bool = False  # whether data was there that no manifest knows
    older_extra: tuple[str, ...] = ()  # extra destinations where such data was
    old_success: OldSuccess | None = None  # the ``_SUCCESS`` before the job
    equal_keys: tuple[str, ...] = ()
    """Old keys that new files replace in place: there is no way back from the first of them."""
    irreversible: bool = False  # whether replacing those has begun, or putting bodies of small files
    reason: str = ""  # why it is aborted or reverted
    object_settings: Mapping[str, str] = field(default_factory=dict)
    """What all of its objects bear, this one included: encryption, ACL, tags, storage class. Never a key that
    is secret. The field is left out if empty."""
    restored: tuple[Chunk, ...] = ()
    """Lists of the files that a rollback shows again, ``magicfs.manifest-files/1``; left out if there are
    none."""
    hidden: tuple[Chunk, ...] = ()
    """Lists of old objects that are no part of the dataset any more and are not deleted: an earlier job keeps
    them, or they are gone. Left out if there are none."""
    audit: Audit | None = None
    """What its audit said; None if there was none, or it has not come to that, and then the field is left
    out."""
    numbered_versions: bool = False
    """Whether the next version is, or may be, an object of its own, ``job.00001.json`` …: ``job.json`` alone
    does not tell the state then. The field is left out if not."""
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
        return bool(self.options.audit.rules) and self.audit is None and self.state in BEFORE_COMMIT

    @property
    def destinations(self) -> tuple[str, ...]:
        """All directories that it names as places of its files."""
        return (self.destination, *self.options.places.extra)

    @property
    def scope(self) -> tuple[str, ...] | None:
        """The partitions that its mode is about; None for the whole destination."""
        return self.partitions

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> JobObject:
        fields = Fields(path, parse(path, raw, size_limit=JOB_OBJECT_SIZE_LIMIT))
        check_format(fields, JOB_FORMAT, _KNOWN)
        partitions = fields.texts("partitions") if fields.has("partitions") else None
        return cls(
            job_id=fields.required_job_id(),
            bucket=fields.bucket(),
            destination=fields.text("destination"),
            state=JobState(choice(tuple(JobState), fields, "state")),
            nonce=fields.required_text("nonce"),
            driver=fields.required_text("driver"),
            attempt=fields.integer("attempt", minimum=0),
            options=JobOptions.of(fields.required_child("options")),
            created_ms=fields.integer("created", minimum=0),
            changed_ms=fields.integer("changed", minimum=0),
            host=fields.text("host"),
            tasks=fields.integer("tasks", minimum=0),
            files=fields.integer("files", minimum=0),
            size=fields.integer("bytes", minimum=0),
            chunks=tuple(read_chunk(one) for one in fields.objects("chunks")),
            deletions=tuple(read_chunk(one) for one in fields.objects("deletions")),
            partitions=partitions,
            pointer=fields.optional("pointer", _pointer),
            older_files=fields.flag("olderFiles", default=False),
            older_extra=fields.texts("olderExtra"),
            old_success=fields.optional("oldSuccess", _old_success),
            equal_keys=fields.texts("equalKeys"),
            irreversible=fields.flag("irreversible", default=False),
            reason=fields.text("reason"),
            object_settings=fields.text_map("objectSettings"),
            restored=_chunks(fields, "restored"),
            hidden=_chunks(fields, "hidden"),
            audit=fields.optional("audit", Audit.from_fields),
            numbered_versions=fields.flag("numberedVersions", default=False),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            **heading(JOB_FORMAT, self.needs()),
            "jobId": self.job_id,
            "bucket": self.bucket,
            "destination": self.destination,
            "state": self.state.value,
            "nonce": self.nonce,
            "driver": self.driver,
            "attempt": self.attempt,
            "options": self.options.to_document(),
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
        what, advice = f"the object of job {self.job_id}", "publish fewer partitions or files by each job"
        return within(render(with_unknown(document, self.unknown)), JOB_OBJECT_SIZE_LIMIT, what, advice)

    def _special(self) -> dict[str, object]:
        """What only some jobs have; the fields of the others are left out."""
        special = {
            "olderExtra": self.older_extra,
            "objectSettings": self.object_settings,
            "restored": [chunk_document(one) for one in self.restored],
            "hidden": [chunk_document(one) for one in self.hidden],
            "audit": self.audit and self.audit.to_document(),
            "numberedVersions": self.numbered_versions,
        }
        return {name: value for name, value in special.items() if value}

    def needs(self) -> set[str]:
        """What whoever ends the job has to know: ``requires``."""
        needed = {*self.options.needs()}
        if self.audit is not None:
            needed.add("audit")
        if self.hidden:
            needed.add("hidden")
        return needed | {"removal"} if self.options.mode in REMOVALS else needed


def _chunks(fields: Fields, name: str) -> tuple[Chunk, ...]:
    return tuple(map(read_chunk, fields.optional_objects(name)))


def _old_success_document(old: OldSuccess) -> dict[str, Any]:
    return {"key": old.key, "sha256": old.sha256, "etag": old.etag}


def _pointer(seen: Fields) -> SeenPointer:
    return SeenPointer(seen.required_text("jobId"), seen.required_text("etag"))


def _old_success(old: Fields) -> OldSuccess:
    return OldSuccess(old.required_text("key"), required_sha256(old), old.required_text("etag"))
