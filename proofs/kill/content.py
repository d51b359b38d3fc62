"""Which rows a destination must hold, and which it does hold: counted by their text, read past magicfs."""

from __future__ import annotations

import io
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import tenacity

import magicfs
from magicfs.errors import MagicError, ObjectNotFound, UsageError
from proofs.doubles.bucket_view import BucketView
from proofs.kill.disk import Disk
from proofs.kill.phases import newest_version
from proofs.kill.victim import Files, WriteMode

__all__ = ["Difference", "Lane", "Rows", "Witness", "difference", "outcome", "tasks_for"]

Rows = Counter[tuple[str, str]]
"""How often each row is there, by its day and its text. No two rows that are ever written are equal."""

_VERSION = re.compile(r"(?<=/job)\.\d{5,9}\.json$")
_DAYS = 6
_TASKS = 3
_FILES_PER_TASK = 2
_ROWS_PER_FILE = (1, 9)
_GET_ATTEMPTS = 8


@dataclass(slots=True)
class Lane:
    """One destination, which several jobs publish to in turn.

    Attributes:
        bucket: Its bucket.
        key: Its key, without a slash at its end.
        format: What its files are.
        rows: What it must hold now.
        jobs: How many jobs have published to it.
        success: What its ``_SUCCESS`` says, if there is one: no two jobs say the same.
        scheme: Of its URL.
    """

    bucket: str
    key: str
    format: Literal["parquet", "text"]
    rows: Rows = field(default_factory=Counter)
    jobs: int = 0
    success: bytes | None = None
    scheme: str = "s3"

    @property
    def url(self) -> str:
        """The destination as jobs are given it."""
        return f"{self.scheme}://{self.bucket}/{self.key}"


def tasks_for(label: str, chance: random.Random) -> tuple[Files, ...]:
    """Rows for the tasks of a job, each task writing some of few days.

    Args:
        label: Of the job, different for every job.
        chance: Decides about days and numbers of rows.
    """
    days = [f"d{number}" for number in chance.sample(range(_DAYS), _DAYS // 2)]
    return tuple(
        {
            day: [f"{label}/{task}/{day}/{number}" for number in range(chance.randint(*_ROWS_PER_FILE))]
            for day in chance.sample(days, _FILES_PER_TASK)
        }
        for task in range(_TASKS)
    )


def outcome(mode: WriteMode, old: Rows, tasks: tuple[Files, ...]) -> Rows:
    """What a destination holds when a job has published to it."""
    new = Rows((day, row) for files in tasks for day, rows in files.items() for row in rows)
    match mode:
        case "overwrite" | "error":
            return new
        case "append":
            return old + new
        case "overwrite_partitions":
            touched = {day for day, _ in new}
            return Rows({one: count for one, count in old.items() if one[0] not in touched}) + new


@dataclass(frozen=True, slots=True)
class Difference:
    """How what is seen differs from what should be.

    Attributes:
        lost: Rows that are missing.
        duplicated: Rows that are there too often, or should not be there at all.
    """

    lost: int
    duplicated: int

    def __bool__(self) -> bool:
        return bool(self.lost or self.duplicated)


def difference(seen: Rows, expected: Rows) -> Difference:
    """Compare rows."""
    return Difference((expected - seen).total(), (seen - expected).total())


class Witness:
    """Reads destinations with plain clients, by listing, as any reader would.

    Args:
        server: The server, asked directly.
    """

    def __init__(self, server: BucketView | Disk) -> None:
        self._server = server

    def rows(self, lane: Lane) -> Rows:
        """The rows that are visible."""
        visible = self._server.visible_keys(lane.bucket, f"{lane.key}/")
        return sum((self._file(lane, key) for key in visible), start=Rows())

    def success(self, lane: Lane) -> bytes | None:
        """What ``_SUCCESS`` says."""
        return self._server.read(lane.bucket, f"{lane.key}/_SUCCESS")

    def dataset(self, lane: Lane) -> Rows:
        """The rows that a reader of manifests sees, who rests on magicfs."""
        try:
            found = magicfs.Dataset(lane.url, storage_options=self._server.storage_options()).to_arrow()
        except (ObjectNotFound, UsageError):
            return Rows()  # nothing was published yet, even if files of the first job are visible already
        table = found.to_table(columns=["day", "row"])
        return Rows(zip(*(table.column(name).to_pylist() for name in ("day", "row")), strict=True))

    def differences(self, lane: Lane) -> list[str]:
        """What ``Dataset.verify`` says is missing, altered or foreign, or why it cannot say."""
        try:
            report = magicfs.Dataset(lane.url, storage_options=self._server.storage_options()).verify()
        except MagicError as error:
            return [f"{type(error).__name__}: {error}"]
        return [
            f"{what}: {key}"
            for what, keys in (
                ("missing", report.missing),
                ("altered", report.altered),
                ("foreign", report.foreign),
            )
            for key in keys
        ]

    def job_states(self, lane: Lane) -> list[str]:
        """What the job objects under a destination say."""
        work = self.work(lane)
        newest = [newest_version(key, work) for key in work if key.endswith("/job.json")]
        return [str(json.loads(self._read(lane.bucket, key))["state"]) for key in newest]

    def versions_of_ended_jobs(self, lane: Lane) -> list[str]:
        """The numbered versions of job objects whose first is gone."""
        work = set(self.work(lane))
        return [
            key
            for key in work
            if (found := _VERSION.search(key)) and f"{key[: found.start()]}.json" not in work
        ]

    def is_empty(self, lane: Lane) -> bool:
        """Whether nothing at all is below a destination, hidden or pending."""
        return not self._server.all_keys(lane.bucket, f"{lane.key}/") and not self.uploads(lane)

    def uploads(self, lane: Lane) -> list[str]:
        """The keys of pending uploads."""
        return sorted(key for key, _ in self._server.uploads(lane.bucket, f"{lane.key}/"))

    def work(self, lane: Lane) -> list[str]:
        """The work objects of jobs, theirs and those of others."""
        places = ("__magic", "_temporary")
        return [key for one in places for key in self._server.all_keys(lane.bucket, f"{lane.key}/{one}")]

    # A server that was killed and started again answers InternalError until it has found its volumes.
    @tenacity.retry(stop=tenacity.stop_after_attempt(4), wait=tenacity.wait_fixed(0.5), reraise=True)
    def _read(self, bucket: str, key: str) -> bytes:
        body = self._server.read(bucket, key)
        assert body is not None, f"{key} is gone while it is read"
        return body

    def _file(self, lane: Lane, key: str) -> Rows:
        day = key.rpartition("/")[0].rpartition("day=")[2]
        body = self._read(lane.bucket, key)
        rows = _parquet_rows(body) if lane.format == "parquet" else body.decode().splitlines()
        return Rows((day, row) for row in rows)


def _parquet_rows(body: bytes) -> list[str]:
    import pyarrow.parquet

    rows: list[str] = pyarrow.parquet.read_table(io.BytesIO(body)).column("row").to_pylist()
    return rows
