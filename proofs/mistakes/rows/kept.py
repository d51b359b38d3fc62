"""Replaced files that are kept for a time, and clocks; jobs that share names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import magicfs
from magicfs import datasets
from magicfs.stores.memory.store import default_world
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Kept files and names used again"
_DAY_S = 86_400.0


@contextmanager
def _clock(seconds: float) -> Iterator[None]:
    """The clock of one machine is wrong."""
    with mock.patch("time.time", side_effect=lambda now=time.time: now() + seconds):
        yield


@contextmanager
def _later(days: float) -> Iterator[None]:
    """Days later, by every clock."""
    with _clock(days * _DAY_S), mock.patch.object(default_world(), "clock", side_effect=time.time):
        yield


def _shown_as_of(user: User, job: str) -> list[str]:
    table = magicfs.Dataset(user.url).to_arrow(as_of=job, format="csv").to_table()
    return [*table.column_names, *(str(value) for row in table.to_pylist() for value in row.values())]


def _kept_until_its_time(user: User, first: magicfs.Job) -> Rows:
    """What the first job showed is there until its time is over, and goes then."""
    assert _shown_as_of(user, first.id) == ["first"], "it was deleted before its time"
    with _later(8):
        report = magicfs.Dataset(user.url).expire()
    assert report.files == 1, report
    user.told.clear()  # the warning that a listing shows both, which is over
    return ["second"]


def expired_by_a_machine_ahead(user: User) -> Rows:
    first = user.publish({"a.txt": "first"}, "overwrite")
    user.publish({"a.txt": "second"}, "overwrite", keep="7h")
    with _clock(_DAY_S):
        magicfs.Dataset(user.url).expire()
    return _kept_until_its_time(user, first)


def kept_by_a_driver_behind(user: User) -> Rows:
    first = user.publish({"a.txt": "first"}, "overwrite")
    with _clock(-_DAY_S):
        user.publish({"a.txt": "second"}, "overwrite", keep="7h")
    magicfs.Dataset(user.url).expire()
    return _kept_until_its_time(user, first)


def moved(user: User) -> Rows:
    elsewhere = user.at("elsewhere")
    user.publish({"a.txt": "first"}, url=elsewhere)
    user.publish({"a.txt": "second"}, "overwrite", url=elsewhere, keep="7d")
    user.delete("sales")
    for key in user.keys("elsewhere/"):
        user.move(key, "sales" + key.removeprefix("elsewhere"))
    user.publish({"a.txt": "third"}, "overwrite")
    with _later(8):
        magicfs.Dataset(user.url).expire()
    user.told.clear()
    return ["third"]


def replaced_further_down(user: User) -> Rows:
    user.publish({"d/a.txt": "first"}, "overwrite")
    user.publish({"b.txt": "second"}, "overwrite", keep="7d", keep_in_place=True)
    user.told.clear()
    user.publish({"a.txt": "third"}, "overwrite", url=user.at("sales/d"))
    return ["second", "third"]


def aborted_beside_equal_names(user: User) -> Rows:
    ended = user.publish({"a.txt": "first"}, "overwrite")
    [name] = [key.rpartition("/")[2] for key in user.keys("sales/a-")]
    with user.job("overwrite", unique_names=False) as job:
        with job.task(0) as task:
            user.write(task, {name: "second"})
        report = datasets.abort(user.url, job=ended.id)
        user.told += [warning for one in report.jobs for warning in one.warnings]
    user.hear(job)
    return ["second"]


def read_by_an_old_list(user: User) -> Rows:
    user.publish({"a.txt": "first"}, "overwrite", unique_names=False)
    opened = magicfs.Dataset(user.url).to_arrow(format="csv")
    user.publish({"a.txt": "other"}, "overwrite", unique_names=False)
    return [str(row) for row in opened.to_table().to_pylist()]


MISTAKES = {
    "replaced files are kept, and `magicfs maintain` runs where the clock is a day ahead": (
        expired_by_a_machine_ahead
    ),
    "they are kept by a driver whose clock is a day behind": kept_by_a_driver_behind,
    "a dataset with kept files is moved, and replaced there": moved,
    "`overwrite` of a directory of which a dataset above keeps files": replaced_further_down,
    "`magicfs recover --abort` of an ended job, while another writes its names": aborted_beside_equal_names,
    "a dataset is read that was opened before an `overwrite` wrote its names again": read_by_an_old_list,
}
