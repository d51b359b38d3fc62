"""The job object, ``job.json``: one for each job, and the only thing that says what state it is in.

It names everything that finishing or undoing the job needs, so that any process can, long after its driver
died. What it names lies in immutable chunks beside it, each with its SHA-256. ``docs/job-object.md``
describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

from magicfs.formats.audit import Audit
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.job_options import ALL_NEEDS, JobOptions
from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT, within
from magicfs.formats.record import (
    COUNT,
    FLAG,
    JOB,
    TEXT,
    Record,
    child,
    choice,
    each,
    member,
    read_sha256,
    record,
    short_record,
)
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT, JobState
from magicfs.protocol.modes import REMOVALS

CORE_NEEDS: Final = frozenset({"hidden", "removal"})
"""What of ``requires`` the job's own modes are about."""
_KNOWN: Final = CORE_NEEDS | {"audit", *ALL_NEEDS}
"""What this magicfs knows of ``requires``. A reader that lacks one would delete too much, publish too little,
or publish what nobody has judged."""


@short_record
class Chunk(Record):
    """An immutable object with facts of the job, which a document names with its SHA-256."""

    key: str = member(TEXT)  # in the job's bucket
    sha256: str = member(read_sha256)  # of its bytes, in hexadecimal
    files: int = member(COUNT)  # how many files or objects it lists
    size: int = member(COUNT, key="bytes")  # bytes of all of them


@short_record
class OldSuccess(Record):
    """The ``_SUCCESS`` that was there before the job."""

    key: str = member(TEXT)  # where its copy lies
    sha256: str = member(read_sha256)  # of the copy, in hexadecimal
    etag: str = member(TEXT)  # of the original: only that one is deleted


@short_record
class SeenPointer(Record):
    """The manifest pointer as the job saw it when it looked at what it replaces."""

    job: str = member(TEXT, key="jobId")  # that it named
    etag: str = member(TEXT)  # its version


def _state(fields: Fields, key: str) -> JobState:
    return JobState(choice(tuple(JobState), fields, key))


_NUMBER: Final = partial(Fields.integer, minimum=0)


@record
class JobObject(Record):
    """A job. A value: every move makes a new one, with a fresh nonce."""

    FORMAT: ClassVar = "magicfs.job/1"
    KNOWN: ClassVar = _KNOWN

    job_id: JobId = member(JOB)
    bucket: str = member(Fields.bucket)  # where its destination lies
    destination: str = member(Fields.text)  # the directory, a key without a slash at its end
    state: JobState = member(_state)
    nonce: str = member(TEXT)  # another one in every version, so that a writer recognises its own
    driver: str = member(TEXT)  # who may commit the job while it is open; a take-over sets another
    attempt: int = member(_NUMBER, default=0)  # number of the job attempt
    options: JobOptions = member(child(JobOptions))  # what it was asked for
    created_ms: int = member(_NUMBER, default=0)  # when it was set up
    changed_ms: int = member(_NUMBER, default=0)  # when its state was last moved
    host: str = member(Fields.text, default="")  # where it was last moved
    tasks: int = member(_NUMBER, default=0)  # how many tasks are published
    files: int = member(_NUMBER, default=0)  # how many files
    size: int = member(_NUMBER, default=0, key="bytes")  # bytes of all of them
    chunks: tuple[Chunk, ...] = member(each(Chunk), default=(), required=True)
    """Pending sets of at most 1,000 files each: what is published."""
    deletions: tuple[Chunk, ...] = member(each(Chunk), default=(), required=True)
    """Lists of old objects: what is deleted once every file is visible."""
    partitions: tuple[str, ...] | None = member(Fields.texts, default=None)
    """Partitions that the mode is about, relative to the destination: they are replaced, or with
    ``partitioned`` and ``error`` must hold no data; None for the whole destination.
    """
    pointer: SeenPointer | None = member(child(SeenPointer), default=None)
    """The manifest pointer when the job looked; None if there was none."""
    older_files: bool = member(FLAG, default=False)  # whether data was there that no manifest knows
    old_success: OldSuccess | None = member(child(OldSuccess), default=None)  # ``_SUCCESS`` before the job
    equal_keys: tuple[str, ...] = member(Fields.texts, default=())
    """Old keys that new files replace in place: there is no way back from the first of them."""
    irreversible: bool = member(FLAG, default=False)
    """Whether replacing those has begun, or putting bodies of small files."""
    reason: str = member(Fields.text, default="")  # why it is aborted or reverted
    older_extra: tuple[str, ...] = member(Fields.texts, default=(), rare=True)
    """Extra destinations where data was that no manifest knows."""
    object_settings: Mapping[str, str] = member(Fields.text_map, default_factory=dict, rare=True)
    """What all of its objects bear, this one included: encryption, ACL, tags, storage class. Never a key that
    is secret."""
    restored: tuple[Chunk, ...] = member(each(Chunk), default=(), rare=True)
    """Lists of the files that a rollback shows again, ``magicfs.manifest-files/1``."""
    hidden: tuple[Chunk, ...] = member(each(Chunk), default=(), rare=True)
    """Lists of old objects that are no part of the dataset any more and are not deleted: an earlier job keeps
    them, or they are gone."""
    audit: Audit | None = member(child(Audit), default=None, rare=True)
    """What its audit said; None if there was none, or it has not come to that."""
    numbered_versions: bool = member(FLAG, default=False, rare=True)
    """Whether the next version is, or may be, an object of its own, ``job.00001.json`` …: ``job.json`` alone
    does not tell the state then."""

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
    def shown_state(self) -> str:
        """Its state; of one that waits for its audit, ``quarantined`` or ``unjudged``."""
        return "quarantined" if self.is_quarantined else "unjudged" if self.is_unjudged else self.state.value

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
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=JOB_OBJECT_SIZE_LIMIT)))

    def to_bytes(self) -> bytes:
        what, advice = f"the object of job {self.job_id}", "publish fewer partitions or files by each job"
        return within(render(self.to_document()), JOB_OBJECT_SIZE_LIMIT, what, advice)

    def needs(self) -> set[str]:
        """What whoever ends the job has to know: ``requires``."""
        needed = {*self.options.needs()}
        if self.audit is not None:
            needed.add("audit")
        if self.hidden:
            needed.add("hidden")
        return needed | {"removal"} if self.options.mode in REMOVALS else needed
