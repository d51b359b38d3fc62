"""(a) Spark itself, writing Parquet by S3A's magic committer, dies in its job commit."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from io import BytesIO
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.hadoop_jars import hadoop_version
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.hadoop.crossings import case
from proofs.hadoop.ground import Ground, Place, check, does, is_told, said
from proofs.hadoop.spark_writes import SHAPE, SparkAtWork, spark_at_work

__all__: list[str] = []

_COMPLETED: Final = 5
_STUCK_S: Final = 240.0
_JOB: Final = re.compile(r"__magic_job-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/")


@case("a")
def _spark_killed_after_five_of_sixteen_completes(ground: Ground) -> None:
    if ground.jars.hadoop != hadoop_version():
        return  # PySpark works with the Hadoop that it brings
    first, second = _half_published(ground)
    _is_found_and_finished(first)
    _is_never_swept(second)


def _is_found_and_finished(place: Place) -> None:
    published, before = place.files(), _state(place)
    status, text = said("recover", place.url)
    check(status, 1, "recover")
    is_told(text, place, "16 tasks, 16 files", "5 of the files, by its driver", "11 uploads that are open")
    check(_state(place), before, "after recover")
    _is_finished(place)
    check(set(published) < set(place.files()), True, "files that were published before are among them")
    check(said("recover", place.url)[0], 0, "recover afterwards")


def _is_never_swept(place: Place) -> None:
    before, rows = _state(place), _rows(place)
    check(len(rows), _COMPLETED * SHAPE.rows, "rows that are published")
    status, text = said("recover", "--abort", place.url, "--job", place.job, "--driver-is-dead")
    check(status, 4, "abort")
    is_told(text, place, "5 of 16 files", f"--job {place.job} --commit --driver-is-dead")
    check((_state(place), _rows(place)), (before, rows), "after an abort that was denied")
    _is_finished(place)


def _is_finished(place: Place) -> None:
    does("recover", "--commit", place.url, "--job", place.job, "--driver-is-dead")
    check(len(place.files()), SHAPE.files, "files")
    wanted = [(n, n * 0.5, f"row {n % 1000}", n % 7) for n in range(SHAPE.partitions * SHAPE.rows)]
    check(_rows(place), wanted, "rows")
    place.is_clean("commit")
    does("verify", place.url)


def _half_published(ground: Ground) -> list[Place]:
    """Two jobs of one Spark, which was killed when 5 of 16 files of each were published."""
    places = [ground.place("a") for _ in range(2)]
    with FaultProxy(ground.server.endpoint) as proxy:
        for place in places:
            raw = re.escape(quote(place.key))
            proxy.add(Rule("CompleteMultipartUpload", Action.HANG, skip=_COMPLETED, match=raw))
        with spark_at_work(ground, places, fs__s3a__endpoint=proxy.endpoint) as spark:
            _wait(proxy, spark, len(places))
            spark.kill()
    ground.counts["kills"] += 1
    return [_with_its_job(place) for place in places]


def _wait(proxy: FaultProxy, spark: SparkAtWork, held: int) -> None:
    """Until as many completes are held; whatever else ends the wait is told by the check."""
    until = time.monotonic() + _STUCK_S
    while proxy.caught < held and not spark.has_ended and time.monotonic() < until:
        time.sleep(0.01)
    check(proxy.caught, held, f"completes that are held; Spark said: {spark.log()}; held")


def _with_its_job(place: Place) -> Place:
    """The same place, with the id that Spark gave its job."""
    check((len(place.files()), len(place.uploads())), (5, 11), "files and uploads when it was killed")
    found = {match[1] for name in place.work() if (match := _JOB.match(name))}
    check(len(found), 1, "jobs")
    return replace(place, job=found.pop())


def _state(place: Place) -> tuple[list[str], set[tuple[str, str]]]:
    return place.below(), place.uploads()


def _rows(place: Place) -> list[tuple[Any, ...]]:
    """All rows, by what a listing finds."""
    tables = [pq.read_table(BytesIO(place.read(name))) for name in place.files()]
    found = pa.concat_tables(tables).to_pylist()
    return sorted((row["id"], row["x"], row["s"], row["p"]) for row in found)
