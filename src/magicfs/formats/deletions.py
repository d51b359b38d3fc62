"""Old objects that a job is going to delete, in chunks beside its job object: ``magicfs.deletions/1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import DELETIONS_SIZE_LIMIT, within

__all__ = ["CHUNK_LENGTH", "DELETIONS_FORMAT", "DELETIONS_SIZE_LIMIT", "OldObject", "read", "write"]

DELETIONS_FORMAT: Final = "magicfs.deletions/1"
CHUNK_LENGTH: Final = 1000
"""Most objects of one chunk: as many as one bulk delete takes."""


@dataclass(frozen=True, slots=True)
class OldObject:
    """An object as a listing showed it."""

    key: str
    etag: str  # as listed; an object that has another one by now stays
    size: int


def write(objects: Sequence[OldObject]) -> bytes:
    """One chunk."""
    listed = [{"key": one.key, "etag": one.etag, "size": one.size} for one in objects]
    raw = render({"format": DELETIONS_FORMAT, "objects": listed})
    return within(raw, DELETIONS_SIZE_LIMIT, f"a list of {len(objects):,} old files", "choose shorter names")


def read(path: str, raw: bytes) -> tuple[OldObject, ...]:
    """Read one chunk."""
    fields = Fields(path, parse(path, raw, size_limit=DELETIONS_SIZE_LIMIT))
    check_format(fields, DELETIONS_FORMAT)
    return tuple(
        OldObject(
            one.required_text("key"), one.required_text("etag"), one.required_integer("size", minimum=0)
        )
        for one in fields.objects("objects")
    )
