"""Checked files as few bytes that this process can take apart fast: they are passed through several times.

Parsing a pending set again for every pass would take ten times as long. What is packed never leaves the
process.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

from magicfs.filesystem.recording import write_id_of
from magicfs.formats.pending import Pending, UploadedPart
from magicfs.protocol.steps import Complete, Publication, Put, Rename

__all__ = ["completing", "pack", "pack_steps", "unpack", "unpack_steps"]

_FIELDS: Final = tuple(name for name in Pending.__slots__ if name != "parts")
_row = attrgetter(*_FIELDS)
_part = attrgetter(*UploadedPart.__slots__)


def completing(pending: Pending, *, if_absent: bool = False) -> Complete:
    """The step that makes one file visible; with ``if_absent`` only if no file is there."""
    return Complete(
        pending.destination_key,
        pending.upload_id,
        tuple([part.etag for part in pending.parts]),
        pending.length,
        write_id_of(pending),
        _checksums(pending),
        if_absent,
    )


def _renaming(pending: Pending) -> Rename:
    assert pending.source is not None
    return Rename(pending.source.key, pending.destination_key, pending.length, pending.source.etag)


def _checksums(pending: Pending) -> tuple[tuple[str, str] | None, ...]:
    found = tuple(
        [
            (part.checksum_algorithm, part.checksum) if part.checksum_algorithm and part.checksum else None
            for part in pending.parts
        ]
    )
    return found if any(found) else ()


def pack(files: Sequence[Pending]) -> bytes:
    """All that is known of files."""
    return _packed((_columns(map(_row, files)), [tuple(map(_part, file.parts)) for file in files]))


def unpack(raw: bytes) -> list[Pending]:
    """The files that ``pack`` was given."""
    columns, parts = _unpacked(raw)
    return [
        Pending(**dict(zip(_FIELDS, row, strict=True)), parts=tuple([UploadedPart(*one) for one in of_file]))
        for row, of_file in zip(_rows(columns, len(parts)), parts, strict=True)
    ]


def pack_steps(files: Sequence[Pending]) -> bytes:
    """What is needed of files to make them visible."""
    if files and files[0].source is not None:
        renames = [_renaming(file) for file in files]
        return _packed((len(renames), _columns(renames), Rename))
    steps, bodies = list(map(completing, files)), [file.body for file in files]
    return _packed((len(steps), _columns(steps), bodies if any(bodies) else None))


def unpack_steps(raw: bytes, *, if_absent: bool = False) -> list[Publication]:
    """The steps that make the files visible that ``pack_steps`` was given; ``if_absent`` is about uploads and
    renames.
    """
    count, columns, bodies = _unpacked(raw)
    if columns:
        columns[-1] = (if_absent,)
    if bodies is Rename:
        return list(map(Rename._make, _rows(columns, count)))
    steps = map(Complete._make, _rows(columns, count))
    if bodies is None:
        return list(steps)
    return [
        step if body is None else Put(step.key, step.length, step.write_id or "", *body)
        for step, body in zip(steps, bodies, strict=True)
    ]


def _packed(value: object) -> bytes:
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


def _unpacked(raw: bytes) -> Any:
    return pickle.loads(zlib.decompress(raw))  # noqa: S301 - made by ``_packed``, in this process


def _columns(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Field by field; of one that all have in common only the first value."""
    return [
        column[:1] if column.count(column[0]) == len(column) else column for column in zip(*rows, strict=True)
    ]


def _rows(columns: Sequence[tuple[Any, ...]], count: int) -> Iterator[tuple[Any, ...]]:
    return zip(*(column if len(column) == count else column * count for column in columns), strict=True)
