"""Beside Hadoop's own committers for S3: ``python -m benchmarks.hadoop``, ``tox run -e bench-hadoop``.

Both sides write to one SeaweedFS, in turns whose order rotates; a first round is thrown away. What they
have written is counted, and no upload may be left open. Medians, the spread of the rounds, and ratios of
medians; processor time of client and server apart.

``--quick`` takes small sizes and one round, to see that it runs: its figures are none. ``--only`` takes
some of ``directly,spark,first``. Needs Maven, a JDK, and a way to Maven Central; without them it fails and
says what to install. The last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import hadoop_directly, hadoop_first, hadoop_jars, hadoop_spark
from benchmarks.hadoop_turns import say
from magicfs.demo.java import JavaProblem, require_java
from magicfs.testing.servers import SeaweedFS

__all__ = ["PARTS", "Results", "figures", "main", "run"]

PARTS: Final = ("directly", "spark", "first")
"""What is measured: committers driven directly; writes of a warm session; the first write of a new one."""

_ROWS: Final = {"spark_tiny": "tiny", "spark_rows": "rows", "spark_many": "many"}


@dataclass(frozen=True, slots=True)
class Results:
    """What a run measured.

    Attributes:
        rows: Values of the table, by its names.
        details: Everything that was measured, by part.
        versions: Of what took part.
    """

    rows: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps({**self.rows, "versions": self.versions, "details": self.details})


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
    often, seldom = (1, 1) if quick else (5, 3)
    often, seldom = rounds or often, rounds or seldom
    details: dict[str, Any] = {}
    with SeaweedFS() as server:
        versions = {
            "hadoop": jars.hadoop,
            "java": java.version,
            "python": platform.python_version(),
            "seaweedfs": server.version,
        }
        if "directly" in only:
            sizes, warm_up = ((50, 100), 20) if quick else ((1000, 5000), 2000)
            details["directly"] = hadoop_directly.measure(
                server, jars, directory, sizes=sizes, tasks=5 if quick else 50, rounds=often, warm_up=warm_up
            )
        if "first" in only:
            shape = (hadoop_spark.QUICK if quick else hadoop_spark.SHAPES)["tiny"]
            details["first"] = hadoop_first.measure(server, jars, directory, shape=shape, rounds=seldom)
        if "spark" in only:
            shapes = hadoop_spark.QUICK if quick else hadoop_spark.SHAPES
            details["spark"] = hadoop_spark.measure(server, jars, directory, shapes=shapes, rounds=seldom)
    return Results(figures(details), details, versions)


def figures(details: dict[str, Any]) -> dict[str, float]:
    """The rows of the table, by its names, of the parts that were measured.

    Of two sizes and of two writers of ours the worse one counts.
    """
    rows: dict[str, float] = {}
    if found := details.get("directly"):
        for tracking in ("store", "memory"):
            ours = f"ours-{tracking}"
            rows[f"hadoop_commit_{tracking}"] = hadoop_directly.ratio_of(found, ours, "job_commit")
            rows[f"hadoop_job_{tracking}"] = hadoop_directly.ratio_of(found, ours, "whole")
    if found := details.get("spark"):
        for row, shape in _ROWS.items():
            rows[row] = hadoop_spark.ratio_of(found[shape]["ratios"])
    if found := details.get("first"):
        rows["spark_first"] = hadoop_spark.ratio_of(found["ratios"])
    return rows


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
        with tempfile.TemporaryDirectory(prefix="magicfs-hadoop-", ignore_cleanup_errors=True) as temporary:
            directory = (told.work or Path(temporary)).absolute()
            directory.mkdir(parents=True, exist_ok=True)
            results = run(directory, quick=told.quick, rounds=told.rounds, only=only)
    except (hadoop_jars.MissingTool, JavaProblem) as problem:
        say(f"nothing was measured: {problem}")
        return 2
    say(f"load after: {os.getloadavg()[0]:.2f}")
    print(results.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
