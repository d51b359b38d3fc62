"""Which publication somebody means: by its job, by its run, by a tag, or by a moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from magicfs.errors import UsageError

Kind = Literal["any", "job", "run", "tag", "time"]
_KINDS: Final[tuple[Literal["job", "run", "tag"], ...]] = ("job", "run", "tag")


@dataclass(frozen=True, slots=True)
class AsOf:
    """What was asked for."""

    kind: Kind
    """``any`` is a name of a job, a run or a tag, or the text of a moment."""
    name: str = ""
    moment_ms: int | None = None
    """Of ``time``: milliseconds since the epoch."""


def parse_as_of(value: str | datetime) -> AsOf:
    """Read what a user gave.

    Text that begins with ``job:``, ``run:``, ``tag:`` or ``time:`` says which it is. All other text is looked
    up as a job, a run and a tag, and taken for a moment in ISO 8601 if it is none of them.

    Raises UsageError for empty text, and for what is said to be a moment and is none, names no time zone, or
    lies before 1970.
    """
    if isinstance(value, datetime):
        return AsOf("time", moment_ms=_milliseconds(value, value.isoformat()))
    if not value or not isinstance(value, str):
        raise UsageError(f"{value!r} names no publication; give a time, a job id, a run id or a tag")
    kind, colon, name = value.partition(":")
    if colon and kind == "time":
        return AsOf("time", moment_ms=parse_moment(name))
    for one in _KINDS:
        if colon and kind == one and name:
            return AsOf(one, name)
    return AsOf("any", value)  # as names of runs days are common: only what is no name is taken for a moment


def is_moment(text: str) -> bool:
    """Whether text is a day or a moment in ISO 8601, whatever it lacks."""
    return _read(text) is not None


def parse_moment(text: str) -> int:
    """Milliseconds since the epoch of a moment in ISO 8601. Raises UsageError as ``parse_as_of``."""
    moment = _read(text)
    if moment is None:
        raise UsageError(f"{text!r} is not a time; write it like 2026-03-31T12:00Z")
    return _milliseconds(moment, text)


def _read(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _milliseconds(moment: datetime, shown: str) -> int:
    if moment.tzinfo is None:
        raise UsageError(
            f"{shown} has no time zone, so it would mean different moments in different places; add one, "
            "such as Z for UTC: 2026-03-31T12:00Z, or datetime(..., tzinfo=datetime.UTC)"
        )
    # By whole numbers, for a float of seconds may lie a millisecond off.
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    milliseconds = (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    if milliseconds < 0:
        raise UsageError(f"{shown} is before 1970; nothing was published then")
    return milliseconds
