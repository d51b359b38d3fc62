"""Frames with columns that do not fit, or have odd names."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

import magicfs
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Frames and columns"
_FIRST = {"day": ["1", "2"], "sold": [1.5, 2.5]}


def _write(user: User, data: Any, mode: Any = "overwrite", **options: Any) -> None:
    user.heard(magicfs.write(data, user.url, mode=mode, **options))


def _by_day(user: User, **columns: Any) -> None:
    """Publish two days, then one of them again with other columns."""
    _write(user, pa.table(_FIRST), partition_by="day")
    _write(user, pa.table(columns), "overwrite_partitions", partition_by="day")


def text_for_numbers(user: User) -> Rows:
    _by_day(user, day=["2"], sold=["n/a"])
    return ["day=1 sold=1.5", "day=2 sold=n/a"]


def column_missing(user: User) -> Rows:
    _by_day(user, day=["2"], shop=["north"])
    return ["day=1 sold=1.5", "day=2 shop=north"]


def other_partitions(user: User) -> Rows:
    _write(user, pa.table(_FIRST), partition_by="day")
    frame = pa.table({"shop": ["north"], "sold": [3.5]})
    _write(user, frame, "overwrite_partitions", partition_by="shop")
    return ["day=1 sold=1.5", "day=2 sold=2.5", "shop=north sold=3.5"]


def pieces(user: User) -> Rows:
    parts = [pd.DataFrame({"name": [name]}, dtype="string[pyarrow]") for name in ("a", "b")]
    _write(user, pd.concat(parts, ignore_index=True))
    return ["name=a", "name=b"]


def numbers_as_names(user: User) -> Rows:
    _write(user, pd.DataFrame([[1, 2]], columns=[2025, 2026]))
    return ["2025=1 2026=2"]


def two_instants(user: User) -> Rows:
    hours = pd.to_datetime(["2026-10-25 00:30", "2026-10-25 01:30"], utc=True).tz_convert("Europe/Berlin")
    frame = pd.DataFrame({"hour": hours, "sold": [1, 2]})
    _write(user, frame, partition_by="hour")
    again = frame[1:].assign(sold=3)
    _write(user, again, "overwrite_partitions", partition_by="hour")
    return ["hour=2026-10-25 00:30:00Z sold=1", "hour=2026-10-25 01:30:00Z sold=3"]


def zip_codes(user: User) -> Rows:
    _write(user, pa.table({"zip": ["02134", "94103"], "sold": [1, 2]}), partition_by="zip")
    read = magicfs.Dataset(user.url).to_arrow().to_table()
    _write(user, read, "overwrite_partitions", partition_by="zip")
    return ["zip=02134 sold=1", "zip=94103 sold=2"]


def day_and_moment(user: User) -> Rows:
    day = pd.to_datetime(["2026-11-25"])
    _write(user, pd.DataFrame({"day": day.date, "sold": [1]}), partition_by="day")
    _write(user, pd.DataFrame({"day": day, "sold": [2]}), "overwrite_partitions", partition_by="day")
    return ["day=2026-11-25 sold=2"]


def index_once(user: User) -> Rows:
    frame = pd.DataFrame({"day": ["1", "3", "2", "4"], "sold": [1, 3, 2, 4]})  # without the third: no range
    _write(user, frame[frame["sold"] != 2], partition_by="day")
    _write(user, pd.DataFrame({"day": ["2"], "sold": [2]}), "overwrite_partitions", partition_by="day")
    index = "__index_level_0__"
    kept = [f"day={day} sold={day} {index}={number}" for number, day in ((0, 1), (1, 3), (3, 4))]
    return [*kept, "day=2 sold=2"]


MISTAKES = {
    "text that looks like numbers as a partition, read and written back": zip_codes,
    "a day as a date, and then as a moment, as a partition": day_and_moment,
    "a frame whose index is a column, and then one without": index_once,
    "text in a column of numbers, with `overwrite_partitions`": text_for_numbers,
    "a column is missing, with `overwrite_partitions`": column_missing,
    "other partition columns than those that are there": other_partitions,
    "a frame that `pd.concat` has made of pieces": pieces,
    "column names that are numbers": numbers_as_names,
    "the hour that comes twice in autumn as a partition, and the second one replaced": two_instants,
}
