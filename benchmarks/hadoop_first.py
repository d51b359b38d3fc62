"""The first write of a new Spark session: each measured in a process, and so in a JVM, of its own.

Run as a program it is that process: its arguments are a writer, a place, and two numbers, partitions and rows
of each; Spark's configuration comes on standard input, the server by the environment. Starting the session
is not measured; the write is, with all that is done for the first time in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from benchmarks.hadoop_jars import Jars
from benchmarks.hadoop_spark import OURS, SHAPES, Shape, config, write
from benchmarks.hadoop_turns import Seconds, Turns, check_and_clear, processor_s
from examples.flights.session import local_session
from proofs.doubles.servers import Server

__all__ = ["main", "measure"]

_WRITERS: Final = ("s3a-magic", *OURS)
_SESSION_S: Final = 300.0


def measure(
    server: Server,
    jars: Jars,
    directory: Path,
    *,
    shape: Shape = SHAPES["tiny"],
    rounds: int = 5,
) -> Turns:
    """Measure first writes of all writers."""
    bucket = server.create_bucket("first")
    told = json.dumps(config(server, jars, directory))

    def side(writer: str) -> Mapping[str, Seconds]:
        where = f"first-{uuid4().hex[:8]}"
        used = processor_s(server.pid)
        command = [
            *(sys.executable, "-m", "benchmarks.hadoop_first", writer, f"{bucket}/{where}"),
            *(str(shape.partitions), str(shape.rows), str(directory / "first.log")),
        ]
        done = subprocess.run(  # noqa: S603 - this module
            command,
            input=told,
            env={**os.environ, **server.environment()},
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SESSION_S,
            check=True,
        )
        wall, client = json.loads(done.stdout.splitlines()[-1])
        check_and_clear(server, bucket, where, ".parquet", shape.files)
        return {"write": Seconds(wall, client, processor_s(server.pid) - used)}

    turns = Turns({writer: partial(side, writer) for writer in _WRITERS}, rounds)
    turns.run("first write")
    return turns


def main() -> int:
    """The process of one session."""
    writer, place, partitions, rows, log = sys.argv[1:]
    spark = local_session(name="first", log=Path(log), config=json.load(sys.stdin))
    frame = Shape("first", int(partitions), int(rows)).frame(spark)
    used, began = processor_s(os.getpid()), time.perf_counter()
    write(spark, writer, frame, (), place)
    found = time.perf_counter() - began, processor_s(os.getpid()) - used
    spark.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
