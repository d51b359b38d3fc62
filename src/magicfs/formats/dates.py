"""The ``date`` texts in Hadoop's files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from magicfs.errors import UsageError

__all__ = ["java_text"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def java_text(milliseconds: int) -> str:
    """What ``java.util.Date.toString`` says in UTC, whatever the locale: ``Tue Nov 14 22:13:20 UTC 2023``.

    Args:
        milliseconds: Since the epoch; fractions of a second are dropped.

    Raises:
        UsageError: Outside the years 1 to 9999.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise UsageError(
            f"{milliseconds} ms is no time within the years 1 to 9999; pass milliseconds since the epoch"
        ) from None
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment.day:02d} {moment:%H:%M:%S} UTC {moment.year:04d}"
