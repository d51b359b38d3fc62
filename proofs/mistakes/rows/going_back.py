"""What goes wrong on the way back: rollbacks, and runs that are called once more."""

from __future__ import annotations

import magicfs
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Going back"


def rolled_back_with_wednesday_on_top(user: User) -> Rows:
    _three_days(user)
    magicfs.Dataset(user.url).rollback(to="monday", keep="7d", keep_in_place=True)
    return ["monday", "wednesday"]


def rolled_back_without_a_word(user: User) -> Rows:
    _three_days(user)
    magicfs.Dataset(user.url).rollback(to="monday")
    return ["monday"]


def rolled_back_a_day_that_never_was(user: User) -> Rows:
    _three_days(user)
    magicfs.Dataset(user.url).rollback(to="monday", partitions="day=31", keep=None)
    return ["monday", "wednesday"]


def dropped_without_a_word(user: User) -> Rows:
    _three_days(user)
    magicfs.Dataset(user.url).drop(partitions="day=tuesday")
    return ["monday", "wednesday"]


def run_again_after_a_rollback(user: User) -> Rows:
    _three_days(user)
    magicfs.Dataset(user.url).rollback(to="monday", keep=None)
    _day(user, "wednesday")
    return ["monday", "wednesday"]


def retried_although_shown_again(user: User) -> Rows:
    user.publish({"a.txt": "monday"}, "overwrite", run_id="monday")
    [first] = magicfs.Dataset(user.url).history(limit=1)
    how = {"run_id": "monday", "rerun": "overwrite", "keep": "7d"}
    user.publish({"a.txt": "wrong"}, "overwrite", **how)
    magicfs.Dataset(user.url).rollback(to=first.job_id, keep=None)
    user.publish({"a.txt": "monday"}, "append", run_id="monday")
    return ["monday"]


def cleared(user: User) -> Rows:
    _three_days(user)
    how = {"run_id": "tuesday", "rerun": "overwrite"}
    user.publish({"day=thursday/a.txt": "of another day"}, "overwrite_partitions", **how)
    return ["monday", "wednesday", "of another day"]


def _three_days(user: User) -> None:
    user.publish({"day=monday/a.txt": "monday"}, "overwrite", run_id="monday")
    _day(user, "tuesday")
    _day(user, "wednesday")


def _day(user: User, day: str) -> None:
    user.publish({f"day={day}/a.txt": day}, "overwrite_partitions", run_id=day)


MISTAKES = {
    "a rollback to Monday, with Wednesday on top, because of Tuesday": rolled_back_with_wednesday_on_top,
    "a rollback that does not say whether to keep what goes": rolled_back_without_a_word,
    "a rollback of one day that never was there": rolled_back_a_day_that_never_was,
    "a drop that does not say whether to keep what goes": dropped_without_a_word,
    "a run is called again that a rollback has taken back": run_again_after_a_rollback,
    "a correction of a run is rolled back, and a scheduler retries the run": retried_although_shown_again,
    '`rerun="overwrite"` with `overwrite_partitions`, and the corrected data lies in another day': cleared,
}
