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

In a pending set, ``body`` may stand in place of ``uploadId`` and ``etags``: a small file that has no upload
yet. Hadoop's readers, and those of magicfs before it knew bundles, refuse a set with such an entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from magicfs.errors import UsageError
from magicfs.formats.document import java_text, parse, render, with_unknown
from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.limits import PENDING_SIZE_LIMIT, within
from magicfs.formats.statistics import Statistics

__all__ = [
    "DEFAULT_ETAG_FORMAT",
    "PENDING_SIZE_LIMIT",
    "PENDING_SUFFIX",
    "PENDING_VERSION",
    "Body",
    "EtagFormat",
    "Pending",
    "UploadedPart",
]

EtagFormat = Literal["string", "object"]
"""``string`` is read by Hadoop 3.1 to 3.4.1 and has no room for checksums, ``object`` by the later ones."""

DEFAULT_ETAG_FORMAT: Final[EtagFormat] = "string"
PENDING_VERSION: Final = 2
PENDING_SUFFIX: Final = ".pending"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")

_ETAG_FORMATS: Final = get_args(EtagFormat)
_TEXTS: Final = (
    *("version", "filename", "uri", "uploadId", "bucket", "destinationKey"),
    *("created", "saved", "date", "jobId", "taskId", "text"),
)
_OTHERS: Final = ("etags", "extraData", "length", "iostatistics")
_NAMES: Final = frozenset((*_TEXTS, *_OTHERS, "partCount"))
_NAMES_OF_SMALL: Final = _NAMES - {"uploadId", "etags"} | {"body"}
_NAMES_OF_BODY: Final = frozenset(("bundle", "offset", "sha256"))
_PART_NAMES: Final = frozenset(("etag", "checksumAlgorithm", "checksum"))
_texts = itemgetter(*_TEXTS)
_others = itemgetter(*_OTHERS)
_ONLY_TEXT: Final = frozenset({str})
_EMPTY: Final = Statistics()
_NO_STATISTICS: Final = _EMPTY.to_document()


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """One acknowledged part (Hadoop's ``UploadEtag``). Its number is its place in the list, from 1."""

    etag: str  # as the store returned it, so with quotation marks from S3
    checksum_algorithm: str | None = None  # ``CRC32``, ``CRC32C``, ``SHA1`` or ``SHA256``
    checksum: str | None = None  # in base64, as the store returned it
    unknown: Mapping[str, object] = field(default_factory=dict)  # only the ``object`` form holds them

    def __post_init__(self) -> None:
        if not self.etag:
            raise UsageError(
                "a part without an ETag cannot be completed; pass the one that the store returned"
            )

    def to_document(self) -> dict[str, object]:
        """The ``object`` form."""
        known: dict[str, object] = {
            "etag": self.etag,
            "checksumAlgorithm": self.checksum_algorithm,
            "checksum": self.checksum,
        }
        return with_unknown(known, self.unknown)


class Body(NamedTuple):
    """Where the bytes of a small file lie until its job puts them at their key."""

    bundle: str  # key of the object, in the job's bucket; empty while only the task's process has them
    offset: int  # of its first byte there
    sha256: str  # of the bytes, in hexadecimal

    def to_document(self) -> dict[str, object]:
        return {"bundle": self.bundle, "offset": self.offset, "sha256": self.sha256}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One file that becomes an object when its job commits: an upload whose parts are all there, or a body.

    A value: the mappings are never changed in place. Impossible values raise UsageError.
    """

    upload_id: str = ""  # the store's name for the multipart upload; empty for a file with a body
    bucket: str  # where the object will be; empty for files of a machine
    destination_key: str  # raw text, no leading slash; nothing in it is interpreted, ``..`` included
    parts: tuple[UploadedPart, ...] = ()  # at least one, in the order of their numbers; none with a body
    length: int  # bytes of the object
    body: Body | None = None  # where the bytes of a small file lie; None for an upload
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
        if self.body is not None and (self.upload_id or self.parts):
            raise UsageError("a file is either an upload or a body; pass one of the two")
        if not self.upload_id and self.body is None:
            raise UsageError("a pending upload needs an upload id; pass what the store returned")
        if not self.destination_key or self.destination_key.startswith("/"):
            raise UsageError(
                f"{self.destination_key!a} is no destination key; pass a key without a leading slash"
            )
        if not self.parts and self.body is None:
            raise UsageError(
                "an upload without parts cannot be completed; upload one empty part for an empty file"
            )
        is_in_range = (
            0 <= self.length <= LONG_MAX
            and 0 <= self.created_ms <= LONG_MAX
            and 0 <= self.saved_ms <= LONG_MAX
        )
        if not is_in_range:
            raise UsageError("a length or time is out of range; pass bytes, and milliseconds since the epoch")

    def touched(self, now_ms: int) -> Pending:
        """The same, created and saved at this moment, ``date`` included; Hadoop's ``touch``."""
        return replace(self, created_ms=now_ms, saved_ms=now_ms, date=java_text(now_ms))

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = PENDING_SIZE_LIMIT) -> Pending:
        """Read a ``.pending`` file of any generation."""
        fields = Fields(path, parse(path, raw, size_limit=size_limit))
        if fields.has("body"):
            raise fields.error(
                "body", "only an entry of a pending set has one; a file of its own is an upload"
            )
        return cls.from_fields(fields)

    @classmethod
    def from_fields(cls, fields: Fields) -> Pending:
        """Read the JSON object. ``partCount`` is ignored, as in Hadoop; no parts are a FormatError."""
        found = None
        if (plain := fields.plain(_NAMES)) is not None:
            found = _plain(plain)
        elif (plain := fields.plain(_NAMES_OF_SMALL)) is not None:
            found = _plain_small(plain)
        if found is not None:
            return found
        fields.version(PENDING_VERSION)
        fields.skip("partCount")
        body = _body(fields)
        return cls(
            filename=fields.nullable_text("filename"),
            uri=fields.text("uri"),
            upload_id=fields.required_text("uploadId") if body is None else "",
            bucket=fields.bucket(),
            destination_key=_destination_key(fields),
            created_ms=fields.integer("created", minimum=0),
            saved_ms=fields.integer("saved", minimum=0),
            date=fields.text("date"),
            job_id=fields.text("jobId"),
            task_id=fields.text("taskId"),
            text=fields.text("text"),
            parts=_parts(fields) if body is None else (),
            body=body,
            extra_data=fields.text_map("extraData"),
            length=fields.required_integer("length", minimum=0),
            statistics=Statistics.from_fields(fields.child("iostatistics")),
            unknown=fields.rest(),
        )

    def to_bytes(self, etag_format: EtagFormat = DEFAULT_ETAG_FORMAT) -> bytes:
        """The whole file, fields in the order in which Hadoop emits them."""
        raw = render(self.to_document(etag_format))
        return within(
            raw,
            PENDING_SIZE_LIMIT,
            f"the record of the upload of {self.destination_key}",
            "write the file in fewer, larger parts",
        )

    def to_document(self, etag_format: EtagFormat = DEFAULT_ETAG_FORMAT) -> dict[str, object]:
        """The JSON object. An upload with checksums, which cannot be completed without, has them always."""
        if etag_format not in _ETAG_FORMATS:
            raise UsageError(f"no etag format {etag_format!r}; use one of {', '.join(get_args(EtagFormat))}")
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


def _plain_small(members: Mapping[str, Any]) -> Pending | None:
    """The same as ``_plain`` of a file with a body."""
    found = members["body"]
    if type(found) is not dict or found.keys() != _NAMES_OF_BODY:
        return None
    bundle, offset, sha256 = found["bundle"], found["offset"], found["sha256"]
    is_plain = (
        type(bundle) is type(sha256) is str
        and bundle
        and type(offset) is int
        and 0 <= offset <= LONG_MAX
        and _SHA256.fullmatch(sha256)
    )
    upload = {"uploadId": "none", "etags": ["none"]}  # as if it had one
    return _plain({**members, **upload}, Body(bundle, offset, sha256)) if is_plain else None


def _plain(members: Mapping[str, Any], body: Body | None = None) -> Pending | None:
    """The upload in an object as magicfs writes it, several times as fast; None if anything is unusual.

    What is unusual is read field by field, which also tells what is wrong with it.
    """
    (version, filename, uri, upload_id, bucket, key, created, saved, date, job, task, text) = _texts(members)
    elements, extra, length, statistics = _others(members)
    if not (
        type(uri) is type(upload_id) is type(bucket) is type(key) is str
        and type(date) is type(job) is type(task) is type(text) is str
        and type(version) is type(created) is type(saved) is type(length) is int
        and (filename is None or type(filename) is str)
        and version == PENDING_VERSION
        and upload_id
        and key
        and not key.startswith("/")
        and 0 <= created <= LONG_MAX
        and 0 <= saved <= LONG_MAX
        and 0 <= length <= LONG_MAX
        and type(extra) is dict
        and set(map(type, extra.values())) <= _ONLY_TEXT
        and statistics == _NO_STATISTICS
        and type(elements) is list
        and elements
    ):
        return None
    parts = [_plain_part(element) for element in elements]
    if None in parts:
        return None
    return Pending(
        filename=filename,
        uri=uri,
        upload_id=upload_id if body is None else "",
        bucket=bucket,
        destination_key=key,
        created_ms=created,
        saved_ms=saved,
        date=date,
        job_id=job,
        task_id=task,
        text=text,
        parts=cast("tuple[UploadedPart, ...]", tuple(parts)) if body is None else (),
        body=body,
        extra_data=extra,
        length=length,
        statistics=_EMPTY,
    )


def _plain_part(element: object) -> UploadedPart | None:
    if type(element) is str and element:
        return UploadedPart(element)
    if type(element) is not dict or element.keys() != _PART_NAMES:
        return None
    etag, algorithm, checksum = element["etag"], element["checksumAlgorithm"], element["checksum"]
    is_plain = (
        type(etag) is str
        and etag
        and (algorithm is None or type(algorithm) is str)
        and (checksum is None or type(checksum) is str)
    )
    return UploadedPart(etag, algorithm, checksum) if is_plain else None


def _destination_key(fields: Fields) -> str:
    key = fields.required_text("destinationKey")
    if key.startswith("/"):
        raise fields.error("destinationKey", "starts with a slash, which no key of Hadoop's does")
    return key


def _body(fields: Fields) -> Body | None:
    if not fields.has("body"):
        return None
    for name in ("uploadId", "etags"):
        if fields.has(name):
            raise fields.error(name, "stands beside a body: a file is either an upload or a body")
    body = fields.child("body")
    sha256 = body.required_text("sha256")
    if not _SHA256.fullmatch(sha256):
        raise body.error("sha256", "no SHA-256 in hexadecimal")
    return Body(body.required_text("bundle"), body.required_integer("offset", minimum=0), sha256)


def _parts(fields: Fields) -> tuple[UploadedPart, ...]:
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
