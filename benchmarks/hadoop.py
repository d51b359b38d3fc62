"""Beside Hadoop's own committers for S3: ``python -m benchmarks.hadoop``; with the table, the page and a line
for it ``python -m benchmarks --run bench-hadoop``, which is ``tox run -e bench-hadoop``.

Both sides write to one SeaweedFS, in turns whose order rotates; a first round is thrown away. What they
have written is counted, and no upload may be left open. Medians, the spread of the rounds, and ratios of
medians; processor time of client and server apart.

``--quick`` takes small sizes and one round, to see that it runs: its figures are none. ``--only`` takes
some of ``directly,stub,first,spark,reads``. Needs Maven, a JDK, and a way to Maven Central; without them it
fails and says what to install. The last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import hadoop_directly, hadoop_first, hadoop_jars, hadoop_reads, hadoop_spark
from benchmarks.figures import Figure
from benchmarks.hadoop_spark import OURS
from benchmarks.hadoop_turns import Turns, say
from benchmarks.session import SideTimes
from benchmarks.sides.fallbacks import Fallbacks
from benchmarks.stub import Stub
from examples.flights.java import JavaProblem, require_java
from proofs.doubles.servers import SeaweedFS

__all__ = ["PARTS", "Results", "main", "run", "scratch"]

PARTS: Final = ("directly", "stub", "first", "spark", "reads")
"""What is measured: committers driven directly, on SeaweedFS and on a server that costs nothing, a session's
first write, its other writes, and reads.
"""

_ON_STUB: Final = {name: told for name, told in hadoop_directly.OURS.items() if name != "bundles"}
_DIRECT: Final = (("commit", "job_commit"), ("job", "whole"))


@dataclass(frozen=True, slots=True)
class Results:
    """What a run measured.

    Attributes:
        directly: By number of files.
        stub: The same on the stub, whose processor time is next to none.
        spark: By the shape of the frame.
        first: First writes; None if they were not measured.
        reads: By place.
        versions: Of what took part.
        fallbacks: Requests of ours that went through aiobotocore, in this process, by operation.
    """

    directly: Mapping[int, Turns] = field(default_factory=dict)
    stub: Mapping[int, Turns] = field(default_factory=dict)
    spark: Mapping[str, Turns] = field(default_factory=dict)
    first: Turns | None = None
    reads: Mapping[str, Turns] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    fallbacks: dict[str, int] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, Figure]:
        """The rows of the table, and what they are made of: of several sizes or writers the worst counts."""
        found: dict[str, Figure] = {}
        for row, phase in _DIRECT if self.directly else ():
            for tracking in hadoop_directly.OURS:
                each = {
                    f"hadoop_{row}_{tracking}_{files}": turns.ratio(f"ours-{tracking}", "hadoop-store", phase)
                    for files, turns in self.directly.items()
                }
                found |= {f"hadoop_{row}_{tracking}": _worst(each), **each}
            for files, turns in self.directly.items():
                ratio = turns.ratio("ours-memory", "hadoop-memory", phase)
                found[f"hadoop_{row}_both_memory_{files}"] = ratio
        for tracking in _ON_STUB if self.stub else ():
            each = {
                f"hadoop_stub_commit_{tracking}_{files}": turns.ratio(
                    f"ours-{tracking}", "hadoop-store", "job_commit"
                )
                for files, turns in self.stub.items()
            }
            found |= {f"hadoop_stub_commit_{tracking}": _worst(each), **each}
        for shape, turns in {**self.spark, **({} if self.first is None else {"first": self.first})}.items():
            each = {f"spark_{shape}_{ours}": turns.ratio(ours, "s3a-magic", "write") for ours in OURS}
            found |= {f"spark_{shape}": _worst(each), **each}
            for theirs in (one for one in turns.sides if one not in {*OURS, "s3a-magic"}):
                for ours in OURS:
                    name = f"spark_{shape}_{ours}_to_{theirs.removeprefix('s3a-')}"
                    found[name] = turns.ratio(ours, theirs, "write")
        for action in hadoop_reads.PHASES if self.reads else ():
            each = {
                f"spark_read_{action}_{place}": turns.ratio("ours", "spark", action)
                for place, turns in self.reads.items()
            }
            found |= {f"spark_read_{action}": _worst(each), **each}
        return found

    def sides(self) -> list[SideTimes]:
        """What every side took, client and server apart."""
        found: list[SideTimes] = []
        for files, turns in self.directly.items():
            found += turns.times(f"directly, {files} files")
        for files, turns in self.stub.items():
            found += turns.times(f"directly, {files} files, stub")
        for shape, turns in self.spark.items():
            found += turns.times(f"Spark, {shape}")
        for place, turns in self.reads.items():
            found += turns.times(f"Spark reads, {place}")
        return found if self.first is None else found + self.first.times("Spark, first write")

    def line(self) -> str:
        """One line of JSON."""
        told = {name: round(one.value, 3) for name, one in self.figures.items()}
        spread = {name: [round(one.low, 3), round(one.high, 3)] for name, one in self.figures.items()}
        sides = [
            [one.group, one.side, one.phase, *(round(time.value, 3) for time in one.times)]
            for one in self.sides()
        ]
        more = {"versions": self.versions, "fallbacks": self.fallbacks}
        return json.dumps({**told, "spread": spread, "sides": sides, **more})


def _worst(figures: Mapping[str, Figure]) -> Figure:
    return max(figures.values(), key=lambda one: one.value)


def run(
    directory: Path, *, quick: bool = False, rounds: int | None = None, only: Collection[str] = PARTS
) -> Results:
    """Measure.

    Args:
        directory: For jars, logs and scratch files.
        quick: Small sizes and one round.
        rounds: How many count; by default 5, and 3 of what takes more than a minute a round.
        only: Which parts.

    Raises:
        MissingTool: Maven or a JDK is missing, or failed.
        JavaProblem: There is no Java that Spark runs on.
        RuntimeError: A side did not write what it should.
    """
    java = require_java()
    say("jars from Maven Central")
    jars = hadoop_jars.make(directory)
    often, seldom = rounds or (1 if quick else 5), rounds or (1 if quick else 3)
    shapes = hadoop_spark.QUICK if quick else hadoop_spark.SHAPES
    sizes, warm_up = ((50, 100), 20) if quick else ((1000, 5000), 2000)
    directly: dict[int, Turns] = {}
    stub: dict[int, Turns] = {}
    spark: dict[str, Turns] = {}
    reads: dict[str, Turns] = {}
    first, fallbacks = None, Fallbacks()
    if "stub" in only:
        with Stub() as server:
            stub = hadoop_directly.measure(
                server,
                jars,
                directory,
                sizes=(50, 100) if quick else (5000, 20_000),
                tasks=5 if quick else 50,
                rounds=seldom,
                warm_up=warm_up,
                ours=_ON_STUB,
            )
    with SeaweedFS() as server:
        if "directly" in only:
            directly = hadoop_directly.measure(
                server, jars, directory, sizes=sizes, tasks=5 if quick else 50, rounds=often, warm_up=warm_up
            )
        if "first" in only:
            first = hadoop_first.measure(server, jars, directory, shape=shapes["tiny"], rounds=seldom)
        if "spark" in only:
            spark = hadoop_spark.measure(server, jars, directory, shapes=shapes, rounds=seldom)
        if "reads" in only:
            shape = hadoop_reads.READ_SHAPE[quick]
            reads = hadoop_reads.measure(server, jars, directory, shape=shape, rounds=often)
        versions = {"hadoop": jars.hadoop, "java": java.version, "seaweedfs": server.version}
    return Results(directly, stub, spark, first, reads, versions, fallbacks.taken())


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for jars, logs and scratch files, which goes; in tox that of the environment."""
    of_tox = os.environ.get("TOX_ENV_DIR")
    parent = Path(of_tox, "tmp") if of_tox else Path(tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hadoop-", dir=parent, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hadoop", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default=",".join(PARTS), help="some of them, with commas between")
    parser.add_argument("--work", type=Path, help="directory for jars and logs; by default one that goes")
    told = parser.parse_args(arguments)
    only = told.only.split(",")
    if unknown := set(only) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    say(f"load before: {os.getloadavg()[0]:.2f}")
    try:
        with scratch() as directory:
            work = (told.work or directory).absolute()
            work.mkdir(parents=True, exist_ok=True)
            results = run(work, quick=told.quick, rounds=told.rounds, only=only)
    except (hadoop_jars.MissingTool, JavaProblem) as problem:
        say(f"nothing was measured: {problem}")
        return 2
    say(f"load after: {os.getloadavg()[0]:.2f}")
    print(results.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
