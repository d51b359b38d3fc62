"""Old objects that a job is going to delete, in chunks beside its job object: ``magicfs.deletions/1``.

Those that name versions are ``magicfs.deletions/2``: an older magicfs, which knows none, refuses them.

Lists of kept files are ``magicfs.deletions/3``: their keys are relative to the destination, so that a dataset
can be moved, copied, or reached by another path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from magicfs.formats.document import parse, render
from magicfs.formats.fields import LONG_MAX, Fields, check_format
from magicfs.formats.limits import DELETIONS_SIZE_LIMIT, within
from magicfs.protocol import paths

__all__ = [
    "CHUNK_LENGTH",
    "DELETIONS_FORMAT",
    "DELETIONS_IN_DESTINATION_FORMAT",
    "DELETIONS_OF_VERSIONS_FORMAT",
    "DELETIONS_SIZE_LIMIT",
    "OldObject",
    "read",
    "read_below",
    "write",
]

DELETIONS_FORMAT: Final = "magicfs.deletions/1"
DELETIONS_OF_VERSIONS_FORMAT: Final = "magicfs.deletions/2"
DELETIONS_IN_DESTINATION_FORMAT: Final = "magicfs.deletions/3"
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


def write(objects: Sequence[OldObject], *, destination: str | None = None) -> bytes:
    """One chunk. With ``destination``, under which all objects lie, their keys are relative to it."""
    start = 0 if destination is None else len(paths.prefix_of(destination))
    listed = [{"key": one.key[start:], "etag": one.etag, "size": one.size} for one in objects]
    if has_versions := any(one.version for one in objects):
        listed = [{**shown, **_version(one)} for shown, one in zip(listed, objects, strict=True)]
    whole = DELETIONS_OF_VERSIONS_FORMAT if has_versions else DELETIONS_FORMAT
    raw = render(
        {
            "format": whole if destination is None else DELETIONS_IN_DESTINATION_FORMAT,
            "objects": listed,
        }
    )
    return within(raw, DELETIONS_SIZE_LIMIT, f"a list of {len(objects):,} old files", "choose shorter names")


def read(path: str, raw: bytes) -> tuple[OldObject, ...]:
    """Read one chunk, with the keys that it has: whole ones, or relative ones."""
    return _objects(_fields(path, raw))


def read_below(path: str, raw: bytes, destination: str, written_at: str | None) -> tuple[OldObject, ...]:
    """Read one chunk of what a dataset keeps, with whole keys at the destination where it is now.

    ``written_at`` is the destination that its job had. Older lists have whole keys below that one; they are
    refused if it is None.
    """
    fields = _fields(path, raw)
    objects = _objects(fields)
    if fields.text("format") == DELETIONS_IN_DESTINATION_FORMAT:
        prefix = paths.prefix_of(destination)
        return tuple([one._replace(key=prefix + one.key) for one in objects])
    if written_at is None:
        raise fields.error("format", "an older list, which only the manifest of its job explains")
    if written_at == destination:
        return objects
    return tuple([one._replace(key=_moved(one.key, destination, written_at)) for one in objects])


def _fields(path: str, raw: bytes) -> Fields:
    fields = Fields(path, parse(path, raw, size_limit=DELETIONS_SIZE_LIMIT))
    check_format(fields, DELETIONS_FORMAT, DELETIONS_OF_VERSIONS_FORMAT, DELETIONS_IN_DESTINATION_FORMAT)
    return fields


def _moved(key: str, destination: str, written_at: str) -> str:
    """Where a file lies now that lay below another destination; a key elsewhere is left for the gate."""
    if not paths.is_under(key, written_at):
        return key
    return paths.prefix_of(destination) + paths.relative_to(key, written_at)


def _objects(fields: Fields) -> tuple[OldObject, ...]:
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
