"""A Spark that writes Parquet by S3A's magic committer, to several destinations at once, and may be killed.

Run as a program it is that Spark: its argument is a file for the log; on standard input comes one JSON object
with Spark's ``config`` and the ``places``. It says its JVM's process id on standard output, then writes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from benchmarks.hadoop_spark import Shape, config, write
from examples.flights.session import local_session
from proofs.hadoop.ground import QUICK_JVM, Ground, Place, Wrong

__all__ = ["SHAPE", "SparkAtWork", "main", "spark_at_work"]

SHAPE: Final = Shape("sixteen", 16, 100)
"""16 files of 100 rows each."""

_END_S: Final = 60.0


class SparkAtWork:
    """A process that writes, and the JVM below it."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise Wrong(f"Spark has not started: {self.log()}")
        self._jvm = int(line)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-1500:]

    def kill(self) -> None:
        """Kill the JVM, as the machine under it does; its Python hears of it, and ends."""
        os.kill(self._jvm, signal.SIGKILL)
        self._process.wait(_END_S)


@contextmanager
def spark_at_work(ground: Ground, places: Sequence[Place], **options: str) -> Iterator[SparkAtWork]:
    """Start a Spark that appends ``SHAPE`` to each place; ``options``: of Hadoop, with ``__`` for points."""
    log = ground.directory / "spark_writes.log"
    told = {"config": _config(ground, options), "places": [f"{one.bucket}/{one.key}" for one in places]}
    with log.open("ab") as stream:
        process = subprocess.Popen(  # noqa: S603 - this module
            [sys.executable, "-m", "proofs.hadoop.spark_writes", str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdin is not None
        with process.stdin as words:
            json.dump(told, words)
        yield SparkAtWork(process, log)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill whatever of it is left, its JVM included: both are of one process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_END_S)


def _config(ground: Ground, options: Mapping[str, str]) -> dict[str, str]:
    hadoop = {
        "fs.s3a.committer.name": "magic",
        "fs.s3a.committer.threads": "1",
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    return {
        **config(ground.server, ground.jars, ground.directory),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(QUICK_JVM),
        **{f"spark.hadoop.{name}": value for name, value in hadoop.items()},
    }


def main() -> int:
    """The process of one session."""
    told = json.load(sys.stdin)
    spark = local_session(name="writes", log=Path(sys.argv[1]), config=told["config"])
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other way to its process
    print(gateway.proc.pid, flush=True)  # noqa: T201 - the answer
    with ThreadPoolExecutor(len(told["places"])) as pool:
        each = [
            pool.submit(write, spark, "s3a-magic", SHAPE.frame(spark), (), place) for place in told["places"]
        ]
        for one in each:
            one.result()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
