"""Entries of pending sets as magicfs writes them, read several times as fast as field by field.

What is unusual is left to ``formats.pending``, which also says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from operator import itemgetter
from types import NoneType
from typing import Any, Final, NamedTuple, TypeGuard

from magicfs.errors import UsageError
from magicfs.formats.document import with_unknown
from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.statistics import Statistics


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """One acknowledged part (Hadoop's ``UploadEtag``). Its number is its place in the list, from 1."""

    etag: str  # as the store returned it, so with quotation marks from S3
    checksum_algorithm: str | None = None  # ``CRC32``, ``CRC32C``, ``SHA1`` or ``SHA256``
    checksum: str | None = None  # in base64, as the store returned it
    unknown: Mapping[str, object] = field(default_factory=dict)  # only the ``object`` form holds them

    def __post_init__(self) -> None:
        if not self.etag:
            raise UsageError("a part without an ETag cannot be completed; pass what the store returned")

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


class Source(NamedTuple):
    """Where a file lies until its job renames it."""

    key: str  # in the job's bucket
    etag: str  # of the file, which keeps it when it is renamed; empty where the store gives none

    def to_document(self) -> dict[str, object]:
        return {"key": self.key, "etag": self.etag}


PENDING_VERSION: Final = 2
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_EMPTY: Final = Statistics()
_NO_STATISTICS: Final = _EMPTY.to_document()
_NO_KEY: Final = frozenset({"", "/"})
_ONLY_TEXT: Final = frozenset({str})
_Types = type | tuple[type, ...]
_Members = dict[str, Any]


class _Shape:
    """Which members an object has, of which types; of those that are ignored, any."""

    def __init__(self, *ignored: str, **types: _Types) -> None:
        self._names = {*ignored, *types}
        self._values = itemgetter(*types)
        self._types = {*product(*(one if isinstance(one, tuple) else (one,) for one in types.values()))}

    def fits(self, found: object) -> TypeGuard[_Members]:
        return (
            type(found) is dict
            and found.keys() == self._names
            and tuple(map(type, self._values(found))) in self._types
        )


_EACH: Final[Mapping[str, _Types]] = {
    **dict.fromkeys(("bucket", "destinationKey", "jobId", "taskId"), str),
    **dict.fromkeys(("version", "length"), int),
}
_WRITTEN: Final[Mapping[str, _Types]] = {
    **_EACH,
    **dict.fromkeys(("uri", "date", "text"), str),
    **dict.fromkeys(("created", "saved"), int),
    **dict.fromkeys(("extraData", "iostatistics"), dict),
    "filename": (str, NoneType),
}
_UPLOAD: Final = _Shape("partCount", **_WRITTEN, uploadId=str, etags=list)
_PART: Final = _Shape(etag=str, checksumAlgorithm=(str, NoneType), checksum=(str, NoneType))
_SMALL: Final = _Shape("partCount", **_WRITTEN, body=dict)
_BODY: Final = _Shape(bundle=str, offset=int, sha256=str)
_RENAMED: Final = _Shape(**_EACH, source=dict)
_SOURCE: Final = _Shape(key=str, etag=str)


def read(fields: Fields) -> _Members | None:
    """The arguments of ``Pending`` for an object; None if anything about it is unusual."""
    found = fields.members
    if _UPLOAD.fits(found):
        own = _upload(found["uploadId"], found["etags"])
    elif _RENAMED.fits(found):
        own = _source(found["source"])
    elif _SMALL.fits(found):
        own = _body(found["body"])
    else:
        return None
    key, length = found["destinationKey"], found["length"]
    is_usual = found["version"] == PENDING_VERSION and key[:1] not in _NO_KEY and 0 <= length <= LONG_MAX
    if own is None or not is_usual:
        return None
    own |= {"bucket": found["bucket"], "destination_key": key, "length": length, "statistics": _EMPTY}
    own |= {"job_id": found["jobId"], "task_id": found["taskId"]}
    return own if "source" in own else _written(found, own)


def _written(found: _Members, own: _Members) -> _Members | None:
    """With what is said of a file that was written, and of none that is renamed."""
    created, saved, extra = found["created"], found["saved"], found["extraData"]
    is_usual = (
        0 <= created <= LONG_MAX
        and 0 <= saved <= LONG_MAX
        and set(map(type, extra.values())) <= _ONLY_TEXT
        and found["iostatistics"] == _NO_STATISTICS
    )
    own |= {"filename": found["filename"], "uri": found["uri"], "date": found["date"], "text": found["text"]}
    own |= {"created_ms": created, "saved_ms": saved, "extra_data": extra}
    return own if is_usual else None


def _upload(upload_id: str, elements: list[object]) -> _Members | None:
    parts = tuple(map(_part, elements))
    return {"upload_id": upload_id, "parts": parts} if upload_id and parts and None not in parts else None


def _part(element: object) -> UploadedPart | None:
    if type(element) is str:
        return UploadedPart(element) if element else None
    if not _PART.fits(element) or not element["etag"]:
        return None
    return UploadedPart(element["etag"], element["checksumAlgorithm"], element["checksum"])


def _body(found: object) -> _Members | None:
    if not _BODY.fits(found) or not found["bundle"] or not _SHA256.fullmatch(found["sha256"]):
        return None
    return {"body": Body(**found)} if 0 <= found["offset"] <= LONG_MAX else None


def _source(found: object) -> _Members | None:
    return {"source": Source(**found)} if _SOURCE.fits(found) and found["key"] else None
