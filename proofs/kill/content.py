"""Which rows a destination must hold, and which it does hold: counted by their text, read past magicfs."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import magicfs
from magicfs.errors import MagicError, ObjectNotFound, UsageError
from magicfs.testing.servers import Server
from proofs.kill.victim import Conflict, Files

__all__ = ["Difference", "Lane", "Rows", "Witness", "difference", "outcome", "tasks_for"]

Rows = Counter[tuple[str, str]]
"""How often each row is there, by its day and its text. No two rows that are ever written are equal."""

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
        success: The ETag of its ``_SUCCESS``, if there is one.
    """

    bucket: str
    key: str
    format: Literal["parquet", "text"]
    rows: Rows = field(default_factory=Counter)
    jobs: int = 0
    success: str | None = None

    @property
    def url(self) -> str:
        """The destination as jobs are given it."""
        return f"s3://{self.bucket}/{self.key}"


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


def outcome(conflict: Conflict, old: Rows, tasks: tuple[Files, ...]) -> Rows:
    """What a destination holds when a job has published to it."""
    new = Rows((day, row) for files in tasks for day, rows in files.items() for row in rows)
    match conflict:
        case "replace" | "fail":
            return new
        case "append":
            return old + new
        case "replace_partitions":
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
    """Reads destinations with plain botocore, by listing, as any reader would.

    Args:
        server: The server, asked directly.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: dict[tuple[str, str], Rows] = {}

    def rows(self, lane: Lane) -> Rows:
        """The rows that are visible."""
        prefix = f"{lane.key}/"
        return sum(
            (self._file(lane, key, etag) for key, etag in self._visible(lane.bucket, prefix)), start=Rows()
        )

    def success(self, lane: Lane) -> str | None:
        """The ETag of ``_SUCCESS``."""
        return self._etags(lane.bucket, f"{lane.key}/_SUCCESS").get(f"{lane.key}/_SUCCESS")

    def dataset(self, lane: Lane) -> Rows:
        """The rows that a reader of manifests sees, who rests on magicfs."""
        try:
            found = magicfs.dataset(lane.url, storage_options=self._server.storage_options())
        except (ObjectNotFound, UsageError):
            return Rows()  # nothing was published yet, even if files of the first job are visible already
        table = found.to_table(columns=["day", "row"])
        return Rows(zip(*(table.column(name).to_pylist() for name in ("day", "row")), strict=True))

    def differences(self, lane: Lane) -> list[str]:
        """What ``magicfs.verify`` says is missing, altered or foreign, or why it cannot say."""
        try:
            report = magicfs.verify(lane.url, storage_options=self._server.storage_options())
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
        keys = [key for key in self.work(lane) if key.endswith("/job.json")]
        return [str(json.loads(self._get(lane.bucket, key))["state"]) for key in keys]

    def uploads(self, lane: Lane) -> list[str]:
        """The keys of pending uploads."""
        return [found["Key"] for found in self._server.pending_uploads(lane.bucket, f"{lane.key}/")]

    def work(self, lane: Lane) -> list[str]:
        """The work objects of jobs, theirs and those of others."""
        return list(self._etags(lane.bucket, f"{lane.key}/__magic"))

    def _visible(self, bucket: str, prefix: str) -> list[tuple[str, str]]:
        return [
            (key, etag)
            for key, etag in self._etags(bucket, prefix).items()
            if not any(map(_is_hidden, key.removeprefix(prefix).split("/")))
        ]

    def _etags(self, bucket: str, prefix: str) -> Mapping[str, str]:
        client = self._server.s3_client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return {entry["Key"]: entry["ETag"] for page in pages for entry in page.get("Contents", ())}

    def _get(self, bucket: str, key: str) -> bytes:
        # A server that was killed and started again answers InternalError until it has found its volumes.
        client = self._server.s3_client(attempts=_GET_ATTEMPTS)
        body: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body

    def _file(self, lane: Lane, key: str, etag: str) -> Rows:
        if (key, etag) not in self._known:
            day = key.rpartition("/")[0].rpartition("day=")[2]
            body = self._get(lane.bucket, key)
            rows = _parquet_rows(body) if lane.format == "parquet" else body.decode().splitlines()
            self._known[key, etag] = Rows((day, row) for row in rows)
        return self._known[key, etag]


def _parquet_rows(body: bytes) -> list[str]:
    import pyarrow.parquet

    rows: list[str] = pyarrow.parquet.read_table(io.BytesIO(body)).column("row").to_pylist()
    return rows


def _is_hidden(element: str) -> bool:
    # Spark's rule, apart from the code under test.
    return element.startswith(".") or (element.startswith("_") and "=" not in element)
