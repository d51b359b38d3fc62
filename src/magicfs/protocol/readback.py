"""What became of an upload when the request to complete it was not plainly confirmed.

No single answer proves anything: a repeated complete may answer 200 for an object that has since been
deleted, 404 after it won, 412 against its own object. Every upload carries a write id in its metadata from
the moment it is created, so one HEAD of the destination shows whether *this* upload landed. (Icechunk's
design 017 and FoundationDB's S3 client reached the same rule.)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed, StoreError, UploadNotFound

WRITE_ID = "magicfs-write-id"
"""Name of the user metadata that carries the write id."""

_FILE = re.compile(r'"[0-9a-f]+-([0-9a-f]+-[0-9a-f]+)"')
_MD5 = re.compile(r"[0-9a-f]{32}")
# Where the upload lies; inode and time of its file; what makes it unique.
_FILE_UPLOAD = re.compile(r"\d+\.\d+\.([0-9a-f]+-[0-9a-f]+)\.[0-9a-f]{16}")


class Outcome(Enum):
    """What became of a request to complete."""

    DONE = "done"
    CONFLICT = "conflict"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Found:
    """What a HEAD of the destination showed."""

    exists: bool
    write_id: str | None = None  # None when it bears none
    size: int | None = None  # in bytes
    etag: str | None = None


def is_renamed(found: str, etag: str) -> bool:
    """Whether a file's ETag shows that it is the one that had another path, and this ETag there.

    On most stores it stays the same. A file that was moved to another device, which is a copy, has another
    inode; the time of its last change and its size are kept.
    """
    if found == etag:
        return bool(etag)
    old, new = _FILE.fullmatch(etag), _FILE.fullmatch(found)
    return old is not None and new is not None and old[1] == new[1]


def etag_of_parts(etags: Iterable[str]) -> str | None:
    """The ETag that S3 gives the object of an upload: the MD5 of its parts' MD5s, and their number.

    Without quotation marks; None if the parts' ETags are no MD5s. Where parts are encrypted with keys of KMS,
    their ETags look like MD5s and are none; then no object has the ETag that is returned.
    """
    plain = [etag.strip('"') for etag in etags]
    if not plain or not all(_MD5.fullmatch(one) for one in plain):
        return None
    digest = hashlib.md5(b"".join(map(bytes.fromhex, plain)), usedforsecurity=False).hexdigest()
    return f"{digest}-{len(plain)}"


def etag_of_upload(upload_id: str, length: int) -> str | None:
    """The ETag that the object of this upload has, and no other object; without quotation marks.

    None where the id does not tell it, as on stores that keep metadata. Files keep none: there it is made of
    inode, time and size, which are settled when the upload is opened.
    """
    match = _FILE_UPLOAD.fullmatch(upload_id)
    return None if match is None else f"{match[1]}-{length:x}"


def write_id_shown(
    metadata: Mapping[str, str], etag: str, *, own: str | None, upload_id: str, length: int
) -> str | None:
    """The write id that an object bears; or, where the id of an upload tells its object, the upload's own one
    if this is its object.
    """
    expected = etag_of_upload(upload_id, length)
    if expected is None:
        return metadata.get(WRITE_ID)
    return own if _same(etag, expected) else None


def resolve(error: StoreError, write_id: str | None, found: Found | None, etag: str | None = None) -> Outcome:
    """Decide what became of a complete that ended in an error.

    ``write_id`` and ``etag`` are the upload's own; an upload without a write id (Hadoop's) has what
    ``etag_of_parts`` says. ``found`` is what a HEAD showed afterwards; None if the HEAD failed too.

    DONE only if the object bears our write id; or, for an upload that bears none, if the object's ETag says
    that it consists of exactly this upload's parts: whoever completed it, it is what was to become visible.
    CONFLICT if a conditional complete met somebody else's object. FAILED only if the answer itself rules the
    upload out. UNKNOWN otherwise: silence, even together with a missing object, does not prove that the
    request will not land yet.
    """
    if found is not None and found.exists and write_id is not None and found.write_id == write_id:
        return Outcome.DONE
    if write_id is None and etag is not None and found is not None and _same(found.etag, etag):
        return Outcome.DONE
    if found is None or error.retryable:
        return Outcome.UNKNOWN
    if isinstance(error, (PreconditionFailed, ObjectExists)):
        return Outcome.CONFLICT if found.exists else Outcome.UNKNOWN
    if isinstance(error, (UploadNotFound, ObjectNotFound)) and write_id is None and found.exists:
        # Without a write id the object may be ours from a reply that was lost.
        return Outcome.UNKNOWN
    return Outcome.FAILED


def _same(found: str | None, etag: str) -> bool:
    return found is not None and found.strip('"') == etag
