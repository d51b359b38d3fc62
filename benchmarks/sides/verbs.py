"""What is done with a dataset of very many files on the days after, in memory: only magicfs takes time."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs
from benchmarks.clock import Clock, peak_mb
from benchmarks.sides.forged import commits_of
from magicfs.datasets.connection import open_destination
from magicfs.operate.prices import price_of
from magicfs.operate.status import status
from magicfs.operate.uploads import survey
from magicfs.stores import resolve
from magicfs.testing.counting_store import CountingStore

__all__ = ["Verbs"]

_KEPT: Final = "1s"
_TASKS: Final = 100


class Verbs:
    """Every verb once, on datasets of as many files as it is told, ten in each partition."""

    def __init__(self, place: None) -> None:
        assert place is None
        self._counts = Counter[str]()
        self._requests: dict[str, int] = {}
        resolve.AROUND.append(lambda store: CountingStore(store, self._counts))

    def versions(self) -> dict[str, str]:
        return {"magicfs": magicfs.__version__}

    def verbs(self, clock: Clock, where: str, files: int) -> dict[str, Any]:
        """Returns also the requests of each verb, and the peak of the process."""
        peak_mb(reset=True)
        bucket = where.replace("/", "-")
        url, body = f"memory://{bucket}/sales", _body()
        dataset = magicfs.Dataset(url)
        first = self._publish(clock, url, "append", files, body)
        with self._timed(clock, "status"):
            dataset.status()
        self._publish(clock, url, "overwrite_partitions", files, body)
        with self._timed(clock, "rollback"):
            dataset.rollback(first, keep=_KEPT)
        time.sleep(1.5)
        with self._timed(clock, "expire"):
            expired = dataset.expire()
        assert expired.files == 2 * files, expired
        with self._timed(clock, "rewrite"):
            rewritten = dataset.rewrite(keep=_KEPT)
        assert rewritten.new_files == files // 10, rewritten
        with self._timed(clock, "drop"):
            dropped = dataset.drop(where="p >= 0", keep=_KEPT)
        assert dropped.files == files // 10, dropped
        job = magicfs.Job(f"memory://{bucket}/stock", mode="append", options={"tracking": "memory"}).setup()
        commits_of(job, files, files // 10, _TASKS, body)
        with self._timed(clock, "uploads"):
            found = open_destination(f"memory://{bucket}").run(survey, price_of("memory", None))
        assert found.total.uploads == files, found
        with self._timed(clock, "status_of_bucket"):
            status(f"memory://{bucket}")
        with self._timed(clock, "abort"):
            job.abort()
        job.spec.wrapped().rm(bucket, recursive=True)
        return {"requests": self._requests, "peak_mb": peak_mb()}

    def _publish(self, clock: Clock, url: str, mode: Any, files: int, body: bytes) -> str:
        kept: dict[str, Any] = {} if mode == "append" else {"keep": _KEPT}
        job = magicfs.Job(url, mode=mode, options={"tracking": "memory"}, **kept).setup()
        commits = commits_of(job, files, files // 10, _TASKS, body)
        with self._timed(clock, mode):
            report = job.commit(commits)
        assert report.files == files, report
        return str(report.job_id)

    @contextmanager
    def _timed(self, clock: Clock, verb: str) -> Iterator[None]:
        self._counts.clear()
        with clock(verb):
            yield
        self._requests[verb] = self._counts.total()


def _body() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"amount": [1, 2, 3]}), sink)
    return sink.getvalue()
