"""What a record is compared with, field by field: the parts of the gate."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from magicfs.protocol import paths
from magicfs.protocol.layout import SUCCESS, WorkLayout
from magicfs.protocol.modes import is_plain, is_reserved, is_work

SHOWN: Final = "nothing: only shown"
ITSELF: Final = "nothing: only compared with itself, read again"
ANOTHER: Final = "a job id: names another record of this destination, which has to be that job's"
BYTES: Final = "the bytes that are read"
MOMENT_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_DOTS: Final = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record was read, and whose it has to be. Nothing of it comes from the record."""

    path: str  # bucket and key, for the error
    bucket: str
    destination: str  # the directory below which it lies
    whose: str | None = None  # the job that it has to be of, or the tag; None if it is of none
    layout: WorkLayout | None = None  # of that job's work, for its object
    also_overwrite: tuple[str, ...] | None = ()
    """Directories of other datasets that the job may replace; None if that is not known any more."""


Problem = Callable[[Any, Place], str | None]
"""What is wrong with a field of a record at its place, in words; None if nothing is."""


class Row(NamedTuple):
    """What a field is compared with."""

    field: str  # as in the file, such as ``chunks[].key``
    compared: str  # in words, for people
    problem: Problem | None = None  # compares it
    by: str = ""  # what compares it where more has to be known: a name within ``magicfs``


def same(compared: str, *fields: str, by: str = "") -> tuple[Row, ...]:
    """Rows of fields that are compared with the same."""
    return tuple(Row(field, compared, by=by) for field in fields)


def has_dots(path: str) -> bool:
    """Whether an element of a path is ``.`` or ``..``, or a character is NUL."""
    return _DOTS.search(path) is not None or "\0" in path


def moment(value: Callable[[Any], int | None]) -> Problem:
    """Compares a moment with the years that there are."""
    return lambda one, _: "is a moment after the year 9999" if (value(one) or 0) > MOMENT_MAX_MS else None


def old_problem(key: str, destination: str, also: Sequence[str] | None = ()) -> str | None:
    """Why no job at a destination can have replaced, hidden or kept an old object; None if one can.

    ``also``: directories of other datasets below it that the job may replace, with their records; None for
    any.
    """
    prefix = paths.prefix_of(destination)
    if not key.startswith(prefix) or len(key) == len(prefix):
        return f"{key!a} is outside the destination"
    relative = key[len(prefix) :]
    if is_plain(relative):
        return None
    if has_dots(relative):
        return f"{key!a} has an element '.' or '..'"
    if relative == SUCCESS or (is_reserved(relative) and not _is_given_up(key, destination, also)):
        return f"{key!a} is a record, or work of a job, which jobs never replace"
    return None


def _is_given_up(key: str, destination: str, also: Sequence[str] | None) -> bool:
    if also is None:
        relative = paths.relative_to(key, destination)
        return not is_work(relative) and not is_reserved(relative.partition("/")[0])
    place = paths.which_holds(key, [one for one in also if paths.is_under(one, destination)])
    return place is not None and not is_work(paths.relative_to(key, place))
