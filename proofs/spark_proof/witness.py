"""What destinations hold, seen past magicfs where that is possible, and what came of it, added up."""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import magicfs
from magicfs.errors import MagicError, ObjectNotFound, UsageError
from proofs.doubles.servers import Server
from proofs.spark_proof.orders import Rows, rows_wrong

__all__ = ["SETTLE_SECONDS", "Judge", "Lane", "Witness"]

SETTLE_SECONDS = 7.0
"""After so long the second sweep of a job, 4.5 s after its end, is over."""

_PARTITION = re.compile(r"(?:^|/)p=(\d+)/")


@dataclass(slots=True)
class Lane:
    """One destination, which several jobs publish to in turn.

    Attributes:
        bucket: Its bucket.
        key: Its key, without a slash at its end.
        rows: What it must hold.
        ended: When its last job ended, by ``time.monotonic``.
    """

    bucket: str
    key: str
    rows: Rows = field(default_factory=Counter)
    ended: float = 0.0

    @property
    def url(self) -> str:
        """The destination as jobs are given it."""
        return f"s3://{self.bucket}/{self.key}"

    def settle(self) -> None:
        """Wait until late writers of its last job have been looked for."""
        time.sleep(max(self.ended + SETTLE_SECONDS - time.monotonic(), 0))


class Witness:
    """Reads destinations with plain botocore and pyarrow, by listing, as any reader would.

    Args:
        server: The server, asked directly.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: dict[tuple[str, str], Rows] = {}

    def rows(self, lane: Lane) -> Rows:
        """The rows that are visible."""
        found = Rows()
        for key in self._server.visible_keys(lane.bucket, f"{lane.key}/"):
            found += self._file(lane, key)
        return found

    def dataset(self, lane: Lane) -> Rows:
        """The rows that a reader of manifests sees, who rests on magicfs."""
        try:
            found = magicfs.Dataset(lane.url, storage_options=self._server.storage_options()).to_arrow()
        except (ObjectNotFound, UsageError):
            return Rows()  # nothing was published yet
        table = found.to_table(columns=["id", "p"])
        return Rows(zip(*(table.column(name).to_pylist() for name in ("id", "p")), strict=True))

    def unlike(self, lane: Lane) -> list[str]:
        """What ``Dataset.verify`` says against it."""
        try:
            report = magicfs.Dataset(lane.url, storage_options=self._server.storage_options()).verify()
        except MagicError as error:
            return [f"{type(error).__name__}: {error}"]
        return [*report.missing, *report.altered, *report.foreign]

    def uploads(self, lane: Lane) -> list[str]:
        """The keys of pending uploads."""
        return [one["Key"] for one in self._server.pending_uploads(lane.bucket, f"{lane.key}/")]

    def body(self, lane: Lane, key: str) -> bytes | None:
        """What an object says."""
        return self._server.read(lane.bucket, key)

    def work(self, lane: Lane) -> list[str]:
        """The work objects of jobs."""
        return self._server.all_keys(lane.bucket, f"{lane.key}/__magic")

    def _file(self, lane: Lane, key: str) -> Rows:
        # Names hold the ids of job and task attempt: none is ever used twice.
        if (lane.bucket, key) not in self._known:
            self._known[lane.bucket, key] = self._read(lane, key)
        return self._known[lane.bucket, key]

    def _read(self, lane: Lane, key: str) -> Rows:
        import pyarrow.parquet

        match = _PARTITION.search(unquote(key.removeprefix(f"{lane.key}/")))
        partition = int(match[1]) if match is not None else -1
        body = self._server.s3_client().get_object(Bucket=lane.bucket, Key=key)["Body"].read()
        table = pyarrow.parquet.read_table(io.BytesIO(body), columns=["id"])
        return Rows((one, partition) for one in table.column("id").to_pylist())


class Judge:
    """Compares destinations with what they must hold, and adds up what is wrong.

    Args:
        witness: Looks.
        say: Told what is wrong, in lines.

    Attributes:
        figures: ``rows_wrong``, ``pending_after``, ``work_after`` and ``troubles``, and what others count.
    """

    def __init__(self, witness: Witness, say: Callable[[str], None]) -> None:
        self.witness = witness
        self.say = say
        self.figures: Counter[str] = Counter(rows_wrong=0, pending_after=0, work_after=0, troubles=0)

    def trouble(self, text: str) -> None:
        """Count something that went wrong, and tell it."""
        self.figures["troubles"] += 1
        self.say(f"WRONG: {text}")

    def rows(self, lane: Lane, where: str, *allowed: Rows) -> None:
        """Count the rows by which a destination differs from the nearest of what it may hold.

        Args:
            lane: The destination.
            where: After what, for messages.
            allowed: What it may hold.
        """
        seen = self.witness.rows(lane)
        wrong = min(rows_wrong(seen, one) for one in allowed)
        self.figures["rows_wrong"] += wrong
        if wrong:
            self.trouble(f"{where}: {wrong} rows of {lane.url} are missing, doubled or foreign")

    def published(self, lane: Lane, where: str) -> None:
        """Look at rows and manifests of a destination to which a write has been published."""
        self.rows(lane, where, lane.rows)
        if unlike := self.witness.unlike(lane):
            self.trouble(f"{where}: verify of {lane.url}: {unlike[:5]}")

    def leftovers(self, lane: Lane, where: str) -> None:
        """Count what should be gone by now."""
        uploads, work = self.witness.uploads(lane), self.witness.work(lane)
        self.figures["pending_after"] += len(uploads)
        self.figures["work_after"] += len(work)
        for what, keys in (("pending uploads", uploads), ("work objects", work)):
            if keys:
                self.trouble(f"{where}: {len(keys)} {what} are left: {keys[:5]}")
        for key in work:
            self.say(f"{key} says: {self.witness.body(lane, key)!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dict(self.figures)
