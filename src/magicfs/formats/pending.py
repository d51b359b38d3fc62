"""The ``.pending`` file: one upload that waits for its completion. Hadoop's ``SinglePendingCommit``.

The directory and the form of the parts changed between Hadoop's releases, while the version stayed 2:

==============================  ======================  ============================
written by Hadoop               under                   each of ``etags``
==============================  ======================  ============================
3.1 to 3.3                      ``__magic``             text
3.4.0 and 3.4.1                 ``__magic_job-<uuid>``  text
3.5, and 3.4 with HADOOP-15224  ``__magic_job-<uuid>``  object: ``etag``,
                                                        ``checksumAlgorithm``,
                                                        ``checksum``
==============================  ======================  ============================

Either of Hadoop's readers fails on the other form, so a writer has to know its reader: ``EtagFormat``.
magicfs reads both.

In a pending set, ``body`` or ``source`` may stand in place of ``uploadId`` and ``etags``: a small file that
has no upload yet, or a file that is renamed. Hadoop's readers, and those of magicfs before it knew these,
refuse a set with such an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from magicfs.errors import UsageError
from magicfs.formats import plain_pending
from magicfs.formats.document import java_text, parse, render, with_unknown
from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.limits import PENDING_SIZE_LIMIT, within
from magicfs.formats.plain_pending import PENDING_VERSION, Body, Source, UploadedPart
from magicfs.formats.record import read_sha256
from magicfs.formats.statistics import Statistics

CHECKSUM: Final = "magicfs.checksum"
"""The name in a pending upload's extra data."""


def carried_by(checksum: str | None) -> dict[str, str]:
    """What the extra data of a pending upload says of a checksum."""
    return {} if checksum is None else {CHECKSUM: checksum}


EtagFormat = Literal["string", "object"]
"""``string`` is read by Hadoop 3.1 to 3.4.1 and has no room for checksums, ``object`` by the later ones."""

DEFAULT_ETAG_FORMAT: Final[EtagFormat] = "string"
PENDING_SUFFIX: Final = ".pending"
_ETAG_FORMATS: Final = get_args(EtagFormat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One file that becomes an object when its job commits: an upload whose parts are all there, a body, or a
    file that is renamed.

    A value: the mappings are never changed in place. Impossible values raise UsageError.
    """

    upload_id: str = ""  # the store's name for the multipart upload; empty for what is none
    bucket: str  # where the object will be; empty for files of a machine
    destination_key: str  # raw text, no leading slash; nothing in it is interpreted, ``..`` included
    parts: tuple[UploadedPart, ...] = ()  # of an upload at least one, in the order of their numbers
    length: int  # bytes of the object
    body: Body | None = None  # where the bytes of a small file lie
    source: Source | None = None  # where a file lies that is renamed
    filename: str | None = None
    """Path of the ``.pending`` file as the file gives it; Hadoop's loader sets it to the one it read."""
    uri: str = ""  # the path that the application opened, as ``hadoop_uri`` encodes it; for readers only
    created_ms: int = 0
    saved_ms: int = 0
    date: str = ""  # ``saved_ms`` as text, never parsed
    job_id: str = ""  # empty until the task commit
    task_id: str = ""  # the task *attempt*; empty until the task commit
    text: str = ""  # notes
    extra_data: Mapping[str, str] = field(default_factory=dict)
    """Free for committers; Hadoop's own leave it empty."""
    statistics: Statistics = field(default_factory=Statistics)  # of the stream that wrote it
    unknown: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.body or self.source) and (self.upload_id or self.parts or (self.body and self.source)):
            raise UsageError("a file is either an upload, a body or a rename; pass one of the three")
        if not self.upload_id and self.is_upload:
            raise UsageError("a pending upload needs an upload id; pass what the store returned")
        if not self.destination_key or self.destination_key.startswith("/"):
            raise UsageError(
                f"{self.destination_key!a} is not a destination key; pass a key without a leading slash"
            )
        if not self.parts and self.is_upload:
            raise UsageError(
                "an upload without parts cannot be completed; upload one empty part for an empty file"
            )
        numbers = (self.length, self.created_ms, self.saved_ms)
        if min(numbers) < 0 or max(numbers) > LONG_MAX:
            raise UsageError("a length or time is out of range; pass bytes, and milliseconds since the epoch")

    @property
    def is_upload(self) -> bool:
        """Whether it is a multipart upload, which can be aborted."""
        return self.body is None and self.source is None

    def touched(self, now_ms: int) -> Pending:
        """The same, created and saved at this moment, ``date`` included; Hadoop's ``touch``."""
        return replace(self, created_ms=now_ms, saved_ms=now_ms, date=java_text(now_ms))

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = PENDING_SIZE_LIMIT) -> Pending:
        """Read a ``.pending`` file of any generation."""
        fields = Fields(path, parse(path, raw, size_limit=size_limit))
        for name in ("body", "source"):
            if fields.has(name):
                raise fields.error(
                    name, "only an entry of a pending set has one; a file of its own is an upload"
                )
        return cls.from_fields(fields)

    @classmethod
    def from_fields(cls, fields: Fields) -> Pending:
        """Read the JSON object. ``partCount`` is ignored, as in Hadoop; no parts are a FormatError."""
        if (plain := plain_pending.read(fields)) is not None:
            return cls(**plain)
        fields.version(PENDING_VERSION)
        fields.skip("partCount")
        body, source = _body(fields), _source(fields)
        is_upload = body is None and source is None
        return cls(
            filename=fields.nullable_text("filename"),
            uri=fields.text("uri"),
            upload_id=fields.required_text("uploadId") if is_upload else "",
            bucket=fields.bucket(),
            destination_key=_destination_key(fields),
            created_ms=fields.integer("created", minimum=0),
            saved_ms=fields.integer("saved", minimum=0),
            date=fields.text("date"),
            job_id=fields.text("jobId"),
            task_id=fields.text("taskId"),
            text=fields.text("text"),
            parts=parts_of(fields) if is_upload else (),
            body=body,
            source=source,
            extra_data=fields.text_map("extraData"),
            length=fields.required_integer("length", minimum=0),
            statistics=Statistics.at(fields, "iostatistics"),
            unknown=fields.rest(),
        )

    def to_bytes(self, etag_format: EtagFormat = DEFAULT_ETAG_FORMAT) -> bytes:
        """The whole file, fields in the order in which Hadoop emits them."""
        what = f"the record of the upload of {self.destination_key}"
        advice = "write the file in fewer and larger parts"
        return within(render(self.to_document(etag_format)), PENDING_SIZE_LIMIT, what, advice)

    def to_document(self, etag_format: EtagFormat = DEFAULT_ETAG_FORMAT) -> dict[str, object]:
        """The JSON object. An upload with checksums, which cannot be completed without, has them always."""
        if etag_format not in _ETAG_FORMATS:
            raise UsageError(
                f"unknown etag format {etag_format!r}; use one of {', '.join(get_args(EtagFormat))}"
            )
        if self.source is not None:
            return with_unknown(self._renamed(self.source), self.unknown)
        as_text = etag_format == "string" and not any(part.checksum for part in self.parts)
        upload: dict[str, object] = {"uploadId": self.upload_id}
        etags: dict[str, object] = {
            "etags": [part.etag if as_text else part.to_document() for part in self.parts]
        }
        if self.body is not None:
            upload, etags = {}, {"body": self.body.to_document()}
        known: dict[str, object] = {
            "version": PENDING_VERSION,
            "filename": self.filename,
            "uri": self.uri,
            **upload,
            "bucket": self.bucket,
            "destinationKey": self.destination_key,
            "created": self.created_ms,
            "saved": self.saved_ms,
            "date": self.date,
            "jobId": self.job_id,
            "taskId": self.task_id,
            "text": self.text,
            **etags,
            "extraData": self.extra_data,
            "length": self.length,
            "iostatistics": self.statistics.to_document(),
            "partCount": len(self.parts),
        }
        return with_unknown(known, self.unknown)

    def _renamed(self, source: Source) -> dict[str, object]:
        """The same of a file that is renamed: a job may have very many, so only what it needs."""
        return {
            "version": PENDING_VERSION,
            "bucket": self.bucket,
            "destinationKey": self.destination_key,
            "jobId": self.job_id,
            "taskId": self.task_id,
            "source": source.to_document(),
            "length": self.length,
        }


def _destination_key(fields: Fields) -> str:
    key = fields.required_text("destinationKey")
    if key.startswith("/"):
        raise fields.error("destinationKey", "starts with a slash, which no key of Hadoop's does")
    return key


def _body(fields: Fields) -> Body | None:
    if not fields.has("body"):
        return None
    for name in ("uploadId", "etags", "source"):
        if fields.has(name):
            raise fields.error(name, "stands beside a body: a file is an upload, a body or a rename")
    body = fields.child("body")
    digest = read_sha256(body, "sha256")
    return Body(body.required_text("bundle"), body.required_integer("offset", minimum=0), digest)


def parts_of(fields: Fields) -> tuple[UploadedPart, ...]:
    """The parts of an upload, in either form. None at all are a FormatError."""
    elements = fields.elements("etags")
    if not elements:
        raise fields.error("etags", "empty: an upload without parts cannot be completed")
    return tuple(_part(fields, f"etags[{index}]", element) for index, element in enumerate(elements))


def _part(fields: Fields, name: str, element: object) -> UploadedPart:
    if isinstance(element, str):
        if not element:
            raise fields.error(name, "empty")
        return UploadedPart(element)
    part = fields.object_at(name, element)
    return UploadedPart(
        etag=part.required_text("etag"),
        checksum_algorithm=part.nullable_text("checksumAlgorithm"),
        checksum=part.nullable_text("checksum"),
        unknown=part.rest(),
    )


def _source(fields: Fields) -> Source | None:
    if not fields.has("source"):
        return None
    for name in ("uploadId", "etags", "body"):
        if fields.has(name):
            raise fields.error(name, "stands beside a source: a file is an upload, a body or a rename")
    source = fields.child("source")
    return Source(source.required_text("key"), source.text("etag"))
