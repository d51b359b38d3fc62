"""Old objects that a job is going to delete, in chunks beside its job object: ``magicfs.deletions/1``.

Those that name versions require ``versions`` of their readers, those with files that were moved aside require
``aside``. Lists of kept files require ``relative``: their keys are relative to the destination, so a dataset
can be moved, copied, or reached by another path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from magicfs.formats.document import parse, render
from magicfs.formats.fields import LONG_MAX, Fields, check_format, heading
from magicfs.formats.limits import DELETIONS_SIZE_LIMIT, within
from magicfs.protocol import paths

DELETIONS_FORMAT: Final = "magicfs.deletions/1"
_RELATIVE: Final = "relative"
_VERSIONS: Final = "versions"
_ASIDE: Final = "aside"
_KNOWN: Final = frozenset({_RELATIVE, _VERSIONS, _ASIDE})
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
    aside: bool = False
    """Whether the job copies it aside (``magicfs.manifests.kept``) before it deletes it."""

    @property
    def in_place(self) -> bool:
        return not (self.version or self.aside)


def write(objects: Sequence[OldObject], *, destination: str | None = None) -> bytes:
    """One chunk. With ``destination``, under which all objects lie, their keys are relative to it."""
    start = 0 if destination is None else len(paths.prefix_of(destination))
    listed = [{"key": one.key[start:], "etag": one.etag, "size": one.size, **_kept(one)} for one in objects]
    ways = ((_VERSIONS, any(one.version for one in objects)), (_ASIDE, any(one.aside for one in objects)))
    needs = [name for name, used in ((_RELATIVE, destination is not None), *ways) if used]
    raw = render({**heading(DELETIONS_FORMAT, needs), "objects": listed})
    return within(raw, DELETIONS_SIZE_LIMIT, f"a list of {len(objects):,} old files", "choose shorter names")


def read(path: str, raw: bytes) -> tuple[OldObject, ...]:
    """Read one chunk, with the keys that it has: whole ones, or relative ones."""
    fields = Fields(path, parse(path, raw, size_limit=DELETIONS_SIZE_LIMIT))
    check_format(fields, DELETIONS_FORMAT, _KNOWN)
    return _objects(fields)


def read_below(path: str, raw: bytes, destination: str) -> tuple[OldObject, ...]:
    """Read one chunk of what a dataset keeps, with whole keys at the destination where it is now."""
    fields = Fields(path, parse(path, raw, size_limit=DELETIONS_SIZE_LIMIT))
    if _RELATIVE not in check_format(fields, DELETIONS_FORMAT, _KNOWN):
        raise fields.error("requires", f"without {_RELATIVE!r}: no list of files that a dataset keeps")
    prefix = paths.prefix_of(destination)
    return tuple([one._replace(key=prefix + one.key) for one in _objects(fields)])


def _objects(fields: Fields) -> tuple[OldObject, ...]:
    if _all_plain(fields.elements("objects")):
        return tuple([OldObject(one["key"], one["etag"], one["size"]) for one in fields.elements("objects")])
    return tuple(
        OldObject(
            one.required_text("key"),
            one.required_text("etag"),
            one.required_integer("size", minimum=0),
            one.required_text("version") if one.has("version") else "",
            one.flag("aside", default=False),
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


def _kept(one: OldObject) -> dict[str, str | bool]:
    version: dict[str, str | bool] = {"version": one.version} if one.version else {}
    return {**version, "aside": True} if one.aside else version
