"""What is told of a file that waits for its job: the parts of its upload, its body, or where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from magicfs.errors import UsageError
from magicfs.formats.document import with_unknown

__all__ = ["Body", "Source", "UploadedPart"]


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


class Source(NamedTuple):
    """Where a file lies until its job renames it."""

    key: str  # in the job's bucket
    etag: str  # of the file, which keeps it when it is renamed; empty where the store gives none

    def to_document(self) -> dict[str, object]:
        return {"key": self.key, "etag": self.etag}
