"""Sides that take turns on one server, and what is looked at after each turn."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import Figure, ratio_of
from benchmarks.session import SideTimes
from benchmarks.stub import Stub
from proofs.doubles.servers import Server

__all__ = ["Seconds", "Side", "Turns", "check_and_clear", "processor_s", "say"]

_TICKS_S = os.sysconf("SC_CLK_TCK")
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Seconds:
    """What one phase of one turn took."""

    wall: float
    client: float  # processor time of the side itself
    server: float = 0.0  # of the server, meanwhile; 0 where only whole jobs tell


Side = Callable[[], Mapping[str, Seconds]]
"""One turn of a side; returns what its phases took."""


@dataclass
class Turns:
    """Rounds in which every side has one turn, in an order that rotates; the first round is thrown away.

    Attributes:
        sides: By name.
        rounds: How many rounds count.
        pause_s: After each turn, so that what a side still does in the background disturbs no other.
        seconds: What was measured, by side and phase.
    """

    sides: Mapping[str, Side]
    rounds: int
    pause_s: float = 0.0
    seconds: dict[str, dict[str, list[Seconds]]] = field(default_factory=dict)

    def run(self, what: str) -> None:
        """Measure; progress is told on stderr."""
        names = list(self.sides)
        for number in range(-1, self.rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                found = self.sides[name]()
                told = ", ".join(f"{phase} {one.wall:.2f} s" for phase, one in found.items())
                say(f"{what}, {f'round {number + 1}' if number >= 0 else 'warm-up'}, {name}: {told}")
                if number >= 0:
                    for phase, one in found.items():
                        self.seconds.setdefault(name, {}).setdefault(phase, []).append(one)
                time.sleep(self.pause_s)

    def walls(self, side: str, phase: str) -> list[float]:
        """What a phase of a side took in each round."""
        return [one.wall for one in self.seconds[side][phase]]

    def times(self, group: str) -> list[SideTimes]:
        """What every phase of every side took."""
        return [
            SideTimes(
                group,
                side,
                phase,
                Figure.of([one.wall for one in found]),
                Figure.of([one.client for one in found]),
                Figure.of([one.server for one in found]),
            )
            for side, phases in self.seconds.items()
            for phase, found in phases.items()
        ]

    def ratio(self, ours: str, theirs: str, phase: str) -> Figure:
        """The ratio of two sides' medians."""
        return ratio_of(self.walls(ours, phase), self.walls(theirs, phase))


def processor_s(root: int, without: Iterable[int] = ()) -> float:
    """Processor time of a process, of the living ones that it started, and of those it has waited for."""
    others = frozenset(without)
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and (fields := _stat(directory)):
            children.setdefault(int(fields[1]), []).append(int(directory.name))
            used[int(directory.name)] = sum(map(int, fields[11:15]))
    total, left = 0, [root]
    while left:
        pid = left.pop()
        if pid not in others:
            total += used.get(pid, 0)
            left += children.get(pid, [])
    return total / _TICKS_S


def _stat(process: Path) -> list[str]:
    """What the kernel tells of a process, from its state on; nothing if it has gone."""
    try:
        return (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def check_and_clear(server: Server, bucket: str, where: str, ending: str, files: int) -> None:
    """See that exactly so many files lie at a destination and no upload is open there, and delete them. On
    the stub, that so many uploads were completed.

    Raises:
        RuntimeError: It is not as it should be.
    """
    keys = server.all_keys(bucket, f"{where}/")
    if isinstance(server, Stub):  # it keeps no data
        found = server.counts().get("complete", 0)
    else:
        found = sum(key.endswith(ending) for key in server.visible_keys(bucket, f"{where}/"))
    if found != files:
        raise RuntimeError(f"{where}: {found} files are visible instead of {files}")
    if left := server.uploads(bucket, f"{where}/"):
        raise RuntimeError(f"{where}: {len(left)} uploads are still open")
    client = server.s3_client()
    for start in range(0, len(keys), _BATCH):
        batch = [{"Key": key} for key in keys[start : start + _BATCH]]
        client.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})


def say(text: str) -> None:
    """Tell whoever watches."""
    print(text, file=sys.stderr, flush=True)
