"""A length of time, as people write it: ``7d``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, Protocol, TypeAlias

from magicfs.errors import UsageError


class Retention(Protocol):
    """How long replaced files stay by rules of a guest: ``magicfs.Keep``."""

    @property
    def within(self) -> str | timedelta:
        """How long in any case."""

    @property
    def rule(self) -> str:
        """The rules as text."""


Period: TypeAlias = str | timedelta | Retention


class NotSaid(Enum):
    """The value of ``keep`` where the caller said neither how long nor None."""

    NOT_SAID = "not said"

    def __repr__(self) -> str:
        return "NOT_SAID"


NOT_SAID: Final = NotSaid.NOT_SAID

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_PERIOD: Final = re.compile(r"(?P<number>[1-9][0-9]{0,5})(?P<unit>[dhms])")
PERIOD_MAX_MS: Final = 36_500 * _UNITS_MS["d"]


def parse_period(name: str, value: object) -> int:
    """Milliseconds of a ``timedelta``, or of text such as ``7d``, ``12h``, ``30m`` or ``45s``.

    ``name`` is what the value was given as. Raises UsageError for anything else, for nothing and less, and
    beyond a hundred years.
    """
    if isinstance(value, timedelta):
        found = value // timedelta(milliseconds=1)
    else:
        match = _PERIOD.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise UsageError(
                f"{name}={value!r} is not a period of time; write it as 7d, 12h, 30m or 45s, or give a "
                "timedelta"
            )
        found = int(match["number"]) * _UNITS_MS[match["unit"]]
    if not 0 < found <= PERIOD_MAX_MS:
        raise UsageError(f"{name}={value!r} is out of range; choose a millisecond to 36500d")
    return found


def kept_for(keep: Period | NotSaid | None, *, keep_in_place: bool) -> int | None:
    """For how many milliseconds replaced files are kept; None if they are not.

    Raises UsageError as ``parse_period``, and where files that nobody keeps should stay where they are.
    """
    if keep is not None and keep is not NOT_SAID:
        return parse_period("keep", getattr(keep, "within", keep))
    if keep_in_place:
        raise UsageError(
            "keep_in_place needs keep, which sets how long replaced files stay; nothing was changed; add "
            "keep='7d' or similar, or leave keep_in_place out"
        )
    return None


def period_text(milliseconds: int) -> str:
    """The same as text, in its largest whole unit."""
    for unit, length in _UNITS_MS.items():
        if milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds} ms"


def human_age(seconds: float) -> str:
    """An age in its two largest units, such as ``3 h 20 min``. What lies in the future counts as 0 s."""
    left = max(0, int(seconds))
    if left < 60:
        return f"{left} s"
    if left < 3600:
        return f"{left // 60} min"
    if left < 86_400:
        return f"{left // 3600} h {left % 3600 // 60} min"
    return f"{left // 86_400} d {left % 86_400 // 3600} h"


def human_time(moment: float, now: float) -> str:
    """A moment in seconds since the epoch, such as ``3 h 20 min ago (2026-11-27 23:10:07Z)``."""
    try:
        said = f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return f"{moment:.0f} s since the epoch"
    if moment > now + 60:
        return f"in {human_age(moment - now)} ({said})"
    return f"{human_age(now - moment)} ago ({said})"
