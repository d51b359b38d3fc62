"""Checked files as they are kept for several passes: as they are while they are few, then as few bytes.

Parsing a pending set again for every pass would take ten times as long. What is packed never leaves the
process.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from magicfs.filesystem.recording import write_id_of
from magicfs.formats.pending import Pending
from magicfs.formats.plain_set import PlainFile
from magicfs.protocol.readback import WRITE_ID
from magicfs.protocol.steps import Complete, Publication, Put, Rename

__all__ = ["pack_steps", "pack_texts", "plain_step", "step_of", "unpack_keys", "unpack_steps", "unpack_texts"]

_BETWEEN: Final = "\n"
"""Stands in no JSON that is written in one line."""


def step_of(pending: Pending) -> Publication:
    """The step that makes one file visible."""
    key, length, write_id = pending.destination_key, pending.length, write_id_of(pending)
    if pending.body is not None:
        return Put(key, length, write_id or "", *pending.body)
    if pending.source is not None:
        return Rename(pending.source.key, key, length, pending.source.etag)
    sums = [(part.checksum_algorithm, part.checksum) for part in pending.parts]
    etags = tuple([part.etag for part in pending.parts])
    return Complete(key, pending.upload_id, etags, length, write_id, _checksums(sums))


def plain_step(file: PlainFile) -> Publication:
    """The same of a file that was read without a ``Pending``."""
    write_id = file.extra_data.get(WRITE_ID)
    if file.body is not None:
        return Put(file.key, file.length, write_id or "", *file.body)
    sums = _checksums(file.checksums) if file.checksums else ()
    return Complete(file.key, file.upload_id, file.etags, file.length, write_id, sums)


def _checksums(
    sums: Sequence[tuple[str | None, str | None]],
) -> tuple[tuple[str, str] | None, ...]:
    found = tuple([(algorithm, value) if algorithm and value else None for algorithm, value in sums])
    return found if any(found) else ()


def pack_texts(texts: Sequence[str]) -> bytes:
    """The JSON of files, each in one line."""
    return zlib.compress(_BETWEEN.join(texts).encode(), 1)


def unpack_texts(raw: bytes) -> list[str]:
    """The texts that ``pack_texts`` was given. None of them is empty."""
    text = zlib.decompress(raw).decode()
    return text.split(_BETWEEN) if text else []


def pack_steps(steps: Sequence[Publication]) -> bytes:
    """Steps, field by field. None or all of them are renames."""
    renames = [step[:-1] for step in steps if isinstance(step, Rename)]
    bodies = [step[3:-1] if isinstance(step, Put) else None for step in steps]
    rows = [
        (step.key, "", (), step.length, step.write_id, ()) if isinstance(step, Put) else step[:-1]
        for step in steps
    ]
    kind = Rename if renames else None
    packed = (len(steps), _columns(renames or rows), bodies if any(bodies) else kind)
    return zlib.compress(pickle.dumps(packed, pickle.HIGHEST_PROTOCOL), 1)


def unpack_steps(raw: bytes, *, if_absent: bool = False) -> list[Publication]:
    """The steps that ``pack_steps`` was given; ``if_absent`` is about uploads and renames."""
    # Made by ``pack_steps``, in this process.
    count, columns, bodies = pickle.loads(zlib.decompress(raw))  # noqa: S301
    if not columns:
        return []
    rows = _rows([*columns, (if_absent,)], count)
    if bodies is Rename:
        return list(map(Rename._make, rows))
    steps = map(Complete._make, rows)
    if bodies is None:
        return list(steps)
    return [
        step if body is None else Put(step.key, step.length, step.write_id or "", *body)
        for step, body in zip(steps, bodies, strict=True)
    ]


def unpack_keys(raw: bytes) -> Sequence[str]:
    """Where the files of the steps will be that ``pack_steps`` was given: much less work than the steps."""
    count, columns, bodies = pickle.loads(zlib.decompress(raw))  # noqa: S301 - as above
    if not columns:
        return ()
    kind = Rename if bodies is Rename else Complete
    keys: tuple[str, ...] = columns[kind._fields.index("key")]
    return keys if len(keys) == count else keys * count


def _columns(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Field by field; of one that all have in common only the first value."""
    return [
        column[:1] if column.count(column[0]) == len(column) else column for column in zip(*rows, strict=True)
    ]


def _rows(columns: Sequence[tuple[Any, ...]], count: int) -> Iterator[tuple[Any, ...]]:
    return zip(*(column if len(column) == count else column * count for column in columns), strict=True)
