"""Whether all that a job will write after its commit point can be read again: asked before it."""

from __future__ import annotations

from collections.abc import Sequence
from json import JSONEncoder

from magicfs.errors import UsageError
from magicfs.formats.document import render
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT, MANIFEST_VALUE_LIMIT, ROOM, SUCCESS_SIZE_LIMIT
from magicfs.manifests.parts import FILES_IN_MANIFEST
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = ["check_manifests", "check_success"]

_FIELDS_OF_FILE = 170
"""Bytes of a file in a manifest beside its key and its write id: names of fields, size, ETag and rows."""

_VALUES_OF_FILE = 10

_BYTES_OF_SCHEMA = 24
"""Bytes of a fingerprint: each file may have another one."""

_BYTES_OF_CHARACTER = 4

_NAMES = 1024**2
"""Bytes of a ``_SUCCESS`` beside its statistics: 100 of the longest names, each byte escaped, and others."""

_AT_ONCE = 1000

_dumps = JSONEncoder(ensure_ascii=False).encode

_OTHERS = ROOM
"""Bytes of a manifest beside its lists of keys."""


def check_manifests(
    context: JobContext,
    output: JobOutput,
    deleted: Sequence[str] = (),
    partitions: Sequence[str] | None = None,
) -> None:
    """Refuse a job whose manifest would be too large to be read. Nothing is visible yet.

    ``deleted`` are keys, ``partitions`` relative to the destination, that the manifest names, too. Sizes are
    taken a little too large, because ETags are not known yet.
    """
    size = _OTHERS + _size(deleted) + _size(partitions or ()) + _BYTES_OF_SCHEMA * output.with_footer
    at_most = output.files * _FIELDS_OF_FILE + _BYTES_OF_CHARACTER * output.characters
    # Of many files only the parts are named in which they are listed.
    is_looked_at = output.files <= FILES_IN_MANIFEST and size + at_most > MANIFEST_SIZE_LIMIT
    for step in output.steps() if is_looked_at else ():
        size += _size_of(step.key) + _FIELDS_OF_FILE + len(step.write_id or "null")
    if size > MANIFEST_SIZE_LIMIT:
        raise UsageError(
            f"the manifest of job {context.job} would have up to {size:,} bytes, for {output.files:,} files "
            f"and {len(deleted):,} replaced ones, and at most {MANIFEST_SIZE_LIMIT:,} are read; nothing was "
            "published; publish fewer or larger files by each job"
        )

    listed = output.files if output.files <= FILES_IN_MANIFEST else 0
    values = listed * _VALUES_OF_FILE + len(deleted) + len(partitions or ()) + output.with_footer + _OTHERS
    if values > MANIFEST_VALUE_LIMIT:
        raise UsageError(
            f"the manifest of job {context.job} would have up to {values:,} values, for {output.files:,} "
            f"files and {len(deleted):,} replaced ones, and at most {MANIFEST_VALUE_LIMIT:,} are read; "
            "nothing was published; publish fewer or larger files by each job"
        )


def check_success(context: JobContext, output: JobOutput) -> None:
    """Refuse a job whose ``_SUCCESS`` would be too large to be read, by what its tasks have counted."""
    size = len(render(output.statistics.to_document()))
    if size > SUCCESS_SIZE_LIMIT - _NAMES:
        raise UsageError(
            f"what the tasks of job {context.job} have counted takes {size:,} bytes, and at most "
            f"{SUCCESS_SIZE_LIMIT - _NAMES:,} fit into a _SUCCESS that is read; nothing was published; count "
            "fewer different things"
        )


def _size(texts: Sequence[str]) -> int:
    """Bytes of texts in JSON, each with a comma. Many are joined, for they take as much together."""
    groups = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
    return sum(_size_of("".join(group)) + (len(group) - 1) * _size_of("") for group in groups)


def _size_of(text: str) -> int:
    return len(_dumps(text).encode("utf-8", "replace")) + 1
