"""Old objects that a job is going to delete, in chunks beside its job object: ``magicfs.deletions/1``.

Those that name versions are ``magicfs.deletions/2``: an older magicfs, which knows none, refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from magicfs.formats.document import parse, render
from magicfs.formats.fields import LONG_MAX, Fields, check_format
from magicfs.formats.limits import DELETIONS_SIZE_LIMIT, within

__all__ = [
    "CHUNK_LENGTH",
    "DELETIONS_FORMAT",
    "DELETIONS_OF_VERSIONS_FORMAT",
    "DELETIONS_SIZE_LIMIT",
    "OldObject",
    "read",
    "write",
]

DELETIONS_FORMAT: Final = "magicfs.deletions/1"
DELETIONS_OF_VERSIONS_FORMAT: Final = "magicfs.deletions/2"
CHUNK_LENGTH: Final = 1000
"""Most objects of one chunk: as many as one bulk delete takes."""
_MEMBERS: Final = frozenset({"key", "etag", "size"})


class OldObject(NamedTuple):
    """An object as a listing showed it. Made by the million, so a tuple."""

    key: str
    etag: str  # as listed; an object that has another one by now stays
    size: int
    version: str = ""
    """Under which id the bucket keeps it once it is deleted; empty if nobody may count on that."""


def write(objects: Sequence[OldObject]) -> bytes:
    """One chunk."""
    listed = [{"key": one.key, "etag": one.etag, "size": one.size} for one in objects]
    if has_versions := any(one.version for one in objects):
        listed = [{**shown, **_version(one)} for shown, one in zip(listed, objects, strict=True)]
    raw = render(
        {
            "format": DELETIONS_OF_VERSIONS_FORMAT if has_versions else DELETIONS_FORMAT,
            "objects": listed,
        }
    )
    return within(raw, DELETIONS_SIZE_LIMIT, f"a list of {len(objects):,} old files", "choose shorter names")


def read(path: str, raw: bytes) -> tuple[OldObject, ...]:
    """Read one chunk."""
    fields = Fields(path, parse(path, raw, size_limit=DELETIONS_SIZE_LIMIT))
    check_format(fields, DELETIONS_FORMAT, DELETIONS_OF_VERSIONS_FORMAT)
    if _all_plain(fields.elements("objects")):
        return tuple([OldObject(one["key"], one["etag"], one["size"]) for one in fields.elements("objects")])
    return tuple(
        OldObject(
            one.required_text("key"),
            one.required_text("etag"),
            one.required_integer("size", minimum=0),
            one.required_text("version") if one.has("version") else "",
        )
        for one in fields.objects("objects")
    )


def _all_plain(objects: Sequence[Any]) -> bool:
    """Whether all are as ``write`` makes them, so that each need not be asked member by member."""
    return all(
        type(one) is dict
        and one.keys() == _MEMBERS
        and type(one["key"]) is type(one["etag"]) is str
        and type(one["size"]) is int
        and one["key"]
        and one["etag"]
        and 0 <= one["size"] <= LONG_MAX
        for one in objects
    )


def _version(one: OldObject) -> dict[str, str]:
    return {"version": one.version} if one.version else {}
