"""Jobs that wait for days between their tasks and their commit, and what must become of them.

Some stores keep uploads for some days only. There a job is warned for two days, and half a day before its
first upload goes it is refused, with nothing published: a commit that has begun can come to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["CUT_H", "GOING_H", "HOURS", "complaint", "is_going"]

HOURS: Final = (30, 119, 121, 155, 157, 166, 200)
"""Hours that jobs wait: a night; less and more than five days, and six and a half; seven nearly; and more."""

CUT_H: Final = (155, 166)
"""Of them those after which jobs are cut: every store still takes the first, and none takes the second that
keeps uploads seven days."""

GOING_H: Final = 12
"""Within so many hours a job that was taken can be brought to its end, whoever dies."""

_WARNED_H: Final = 48
_SAID: Final = "keeps uploads"


def is_going(hours: float, upload_days: int | None) -> bool:
    """Whether a job must be refused so many hours after its tasks, on a store that keeps uploads so long."""
    return upload_days is not None and hours > 24 * upload_days - GOING_H


def complaint(
    hours: float, upload_days: int | None, *, committing: bool, warnings: Sequence[str] | None
) -> str:
    """What is wrong with a job that has waited so long; empty if nothing is.

    ``committing``: whether it has reached its commit point. ``warnings``: of its report; None without one.
    """
    if is_going(hours, upload_days):
        return f"committed {hours} hours after its tasks, with uploads of {upload_days} days" * committing
    if warnings is None:
        return ""
    wanted = upload_days is not None and hours > 24 * upload_days - _WARNED_H
    warned = any(_SAID in one for one in warnings)
    if warned == wanted:
        return ""
    return f"{'warned' if warned else 'not warned'} of uploads of {upload_days} days, after {hours} hours"
