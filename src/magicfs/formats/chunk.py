"""A chunk: an immutable object with facts, which a document names with its SHA-256."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from magicfs.formats.fields import Fields

__all__ = ["Chunk", "chunk_document", "read_chunk", "required_sha256"]

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Chunk:
    """An immutable object with facts of the job."""

    key: str  # in the job's bucket
    sha256: str  # of its bytes, in hexadecimal
    files: int  # how many files or objects it lists
    size: int  # bytes of all of them


def read_chunk(fields: Fields) -> Chunk:
    """One chunk of a document."""
    return Chunk(
        fields.required_text("key"),
        required_sha256(fields),
        fields.required_integer("files", minimum=0),
        fields.required_integer("bytes", minimum=0),
    )


def chunk_document(chunk: Chunk) -> dict[str, Any]:
    """The same, to be written."""
    return {"key": chunk.key, "sha256": chunk.sha256, "files": chunk.files, "bytes": chunk.size}


def required_sha256(fields: Fields) -> str:
    """The field ``sha256``."""
    found = fields.required_text("sha256")
    if not _SHA256.fullmatch(found):
        raise fields.error("sha256", "no SHA-256 in hexadecimal")
    return found
