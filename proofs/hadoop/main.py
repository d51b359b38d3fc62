"""Hadoop's S3A committers as peers: the five crossings, kills, and the modes case by case.

Jars come from Maven Central; the JVMs and SeaweedFS are started here. Generations: the Hadoop that PySpark
brings, whose part ETags are objects, and 3.3, whose are text and which works below ``__magic``. Where Maven
Central cannot be reached nothing is tried and the reason is told; in CI that fails, as a missing tool always
does.

``--quick`` kills at some requests of a job, not before each. ``--only`` takes some of ``a,b,c,d,e,kills,
conflicts``; ``--case`` those cases whose names have a text in them. The last line of standard output is
one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import fsspec.config

from benchmarks.hadoop import scratch
from benchmarks.hadoop_directly import Peer
from benchmarks.hadoop_jars import Jars, MissingTool, Unreachable, hadoop_version, make
from examples.flights.java import JavaProblem, require_java
from proofs.doubles.servers import SeaweedFS, Server
from proofs.hadoop import (
    conflicts,
    crossings,
    died,
    hadoop_reads,
    handed_over,
    kills,
    mixed,
    spark_died,
    we_read,
)
from proofs.hadoop.ground import BUCKET, Ground

__all__ = ["OLDER", "PARTS", "main"]

OLDER: Final = "3.3.6"
PARTS: Final = ("a", "b", "c", "d", "e", "kills", "conflicts")
# Their cases enter themselves.
_MODULES: Final = (died, spark_died, handed_over, mixed, hadoop_reads, we_read)


def main(argv: Sequence[str] | None = None) -> int:
    """Play everything; 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m proofs.hadoop", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer kills")
    parser.add_argument("--only", default=",".join(PARTS), help="some of the parts, with commas between")
    parser.add_argument("--case", default="", help="cases whose names have this in them")
    parser.add_argument("--hadoop", default="", help="versions, with commas between; by default two")
    parser.add_argument("--work", type=Path, help="directory for jars and logs; by default one that goes")
    given = parser.parse_args(argv)
    only = given.only.split(",")
    if unknown := set(only) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    began = time.monotonic()
    try:
        java = require_java()
        with scratch() as directory:
            work = (given.work or directory).absolute()
            wanted = given.hadoop.split(",") if given.hadoop else [hadoop_version(), OLDER]
            made = [_made(work / version, version) for version in wanted]
            figures = _played(made, work, only, given)
    except (MissingTool, JavaProblem) as problem:
        _say(f"nothing was tried: {problem}")
        in_ci = os.environ.get("CI") == "true"
        print(json.dumps({"skipped": str(problem).splitlines()[0]}))  # noqa: T201
        return 0 if isinstance(problem, Unreachable) and not in_ci else 2
    figures["versions"] |= {"java": java.version}
    figures["seconds"] = round(time.monotonic() - began)
    print(json.dumps(figures, separators=(",", ":"), ensure_ascii=False))  # noqa: T201
    return 1 if figures["wrong"] else 0


def _made(directory: Path, version: str) -> Jars:
    _say(f"jars of Hadoop {version} from Maven Central")
    directory.mkdir(parents=True, exist_ok=True)
    return make(directory, version)


def _played(
    made: Sequence[Jars], work: Path, only: Sequence[str], given: argparse.Namespace
) -> dict[str, Any]:
    wrong: list[str] = []
    figures: dict[str, Any] = {"versions": {"hadoop": [one.hadoop for one in made]}}
    with SeaweedFS() as server:
        os.environ.update(server.environment())
        fsspec.config.set_conf_env(fsspec.config.conf)
        server.create_bucket(BUCKET)
        grounds = [_ground(server, jars, work) for jars in made]
        try:
            for ground in grounds:
                for letter in (one for one in "abcde" if one in only):
                    wrong += _told(
                        f"{letter}, {ground.jars.hadoop}", crossings.play(ground, letter, given.case)
                    )
                if "kills" in only:
                    wrong += _told(f"kills, {ground.jars.hadoop}", _kills(ground, quick=given.quick))
            if "conflicts" in only:
                found = conflicts.play(grounds[0], given.case)
                wrong += _told("modes", found.wrong)
                figures |= {"conflict_cases": found.cases, "differences_documented": found.documented}
        finally:
            for ground in grounds:
                ground.peer.close()
        figures["versions"]["seaweedfs"] = server.version
    counts = sum((ground.counts for ground in grounds), start=type(grounds[0].counts)())
    letters = {letter: not any(one.startswith(f"{letter} ") for one in wrong) for letter in "abcde"}
    played = {letter: fine for letter, fine in letters.items() if counts[letter]}
    cases = {letter: counts[letter] for letter in "abcde" if counts[letter]}
    return {
        **played,
        "cases": sum(cases.values()),
        "each": cases,
        "kills": counts["kills"],
        **figures,
        "wrong": wrong,
    }


def _kills(ground: Ground, *, quick: bool) -> list[str]:
    operations = kills.requests(ground)
    newest = ground.is_newest
    numbers = kills.points(operations, every=newest and not quick)
    _say(f"{len(operations)} requests of an undisturbed job, killed before {len(numbers)} of them, twice")
    return kills.play(ground, numbers, ("commit", "abort"))


def _ground(server: Server, jars: Jars, work: Path) -> Ground:
    directory = work / jars.hadoop
    ground = Ground(server, jars, directory, None)  # type: ignore[arg-type]
    ground.peer = Peer(jars, ground.options(), directory)
    return ground


def _told(what: str, wrong: list[str]) -> list[str]:
    _say(f"{what}: {'fine' if not wrong else f'{len(wrong)} wrong'}")
    for one in wrong:
        _say(f"WRONG {one}")
    return wrong


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} hadoop: {text}\n")
    sys.stderr.flush()
