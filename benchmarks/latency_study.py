"""The comparison of all committers far away: what is run, what is told from requests, and its curves."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from benchmarks.latency_job import SUBJECTS, Played, play
from benchmarks.latency_plot import Curve, Plot
from benchmarks.latency_requests import Predicted, RequestModel, learn
from benchmarks.latency_store import Rates

__all__ = ["FAR", "NEAR", "QUICK", "WHOLE", "Run", "Sizes", "Study", "study"]

NEAR: Final = 0.03
FAR: Final = 0.15
"""Seconds of a request: in another zone, and on another continent."""

_EACH: Final = 100
_OBJECT_MB: Final = 8.0
_WORKERS: Final = 100
_APART_MOST: Final = 0.1
"""How far a whole job may be from what is told, as a share of it: what is refused, and when, is not told."""

_MILLION: Final = (10_000, 1_000_000)
_TRACKED: Final = {"store": "magic", "memory": "magic, memory"}
"""The magic committer, by where it remembers uploads."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is run.

    Attributes:
        runs: Tasks and files of the jobs that the shipped code runs, by seconds of a request.
        smallest: Those of the runs that the lines are taken from.
        files: Of the curves, 100 a task.
    """

    runs: Mapping[float, tuple[tuple[int, int], ...]]
    smallest: tuple[int, int] = (10, 1000)
    files: tuple[int, ...] = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)

    def up_to_100_000(self) -> Sizes:
        """The same with jobs of 10,000 files, and far away of 100,000."""
        runs = {
            NEAR: (*self.runs[NEAR], (100, 10_000)),
            FAR: (*self.runs[FAR], (100, 10_000), (1000, 100_000)),
        }
        return replace(self, runs=runs)


WHOLE: Final = Sizes({NEAR: ((40, 4000),), FAR: ((40, 4000),)})
QUICK: Final = Sizes({NEAR: (), FAR: ((8, 800),)}, (4, 400), (1000, 1_000_000))
"""Small, to see that it runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job that was run, and what was told of it.

    Attributes:
        committer: What the page calls it.
        latency_s: Of a request.
        played: What it took.
        told: What it should have taken.
    """

    committer: str
    latency_s: float
    played: Played
    told: Predicted

    @property
    def apart(self) -> float:
        """How far the whole job is from what was told, as a share of that."""
        return self.played.total_s / self.told.total_s - 1

    @property
    def refused(self) -> int:
        """How many requests the store had no room for."""
        return self.played.work.tally.refused + self.played.commit.tally.refused


@dataclass
class Study:
    """All committers.

    Attributes:
        sizes: What was run.
        models: The requests of each committer.
        runs: The jobs that were run.
    """

    sizes: Sizes
    models: dict[str, RequestModel] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def told(self, committer: str, latency_s: float, tasks: int, files: int) -> Predicted:
        """What a job takes, told from its requests."""
        return self.models[committer].predict(tasks, files, rates(latency_s), _WORKERS)

    def figures(self) -> dict[str, float]:
        """How far code and arithmetic are apart at most, and a million files far away by each committer, of
        magic also as a share of what the directory committer takes.
        """
        found = {"latency_apart": round(max((abs(run.apart) for run in self.runs), default=0.0), 4)}
        for name in self.models:
            told = self.told(name, FAR, *_MILLION)
            short = name.replace(", ", "_").replace(" ", "_").replace("-", "_")
            found[f"latency_commit_{short}_s"] = round(told.commit_s, 1)
            found[f"latency_job_{short}_s"] = round(told.total_s, 1)
        for latency_s, (tracking, name) in product(self.sizes.runs, _TRACKED.items()):
            if {name, "directory"} <= self.models.keys():
                ours, other = (self.told(one, latency_s, *_MILLION).total_s for one in (name, "directory"))
                found[f"latency_job_{1000 * latency_s:.0f}_{tracking}"] = round(ours / other, 3)
        return found

    def curves(self) -> dict[str, dict[str, list[list[float]]]]:
        """By seconds of a request and by committer: files, and seconds of job commit and whole job."""
        return {
            str(latency_s): {
                name: [
                    [files, round(told.commit_s, 2), round(told.total_s, 2)]
                    for files in self.sizes.files
                    for told in [self.told(name, latency_s, files // _EACH, files)]
                ]
                for name in self.models
            }
            for latency_s in self.sizes.runs
        }

    def told_runs(self) -> list[list[object]]:
        """Each run: committer, latency, tasks, files, seconds of commit and job, and how far off."""
        return [
            [
                *(run.committer, run.latency_s, run.played.tasks, run.played.files),
                *(round(run.played.commit.seconds, 2), round(run.played.total_s, 2), round(run.apart, 4)),
            ]
            for run in self.runs
        ]

    # -- plots -----------------------------------------------------------------------------------------

    def plots(self) -> dict[str, Plot]:
        """The pictures, by the names of their files."""
        found = {}
        for latency_s in self.sizes.runs:
            ms = round(latency_s * 1000)
            for kind, title in (("commit", "Job commit"), ("job", "Whole job")):
                found[f"latency-{kind}-{ms}"] = Plot(
                    f"{title}, {ms} ms a request, 100 files of 8 MB a task",
                    "files",
                    "seconds",
                    {name: self._curve(name, latency_s, kind) for name in self.models},
                )
        tasks = (10, 30, 100, 300, 1000, 3000, 10_000)
        found["latency-tasks-150"] = Plot(
            "Whole job of 100,000 files, 150 ms a request",
            "tasks",
            "seconds",
            {
                name: Curve([(n, self.told(name, FAR, n, 100_000).total_s) for n in tasks])
                for name in self.models
            },
        )
        return found

    def _curve(self, name: str, latency_s: float, kind: str) -> Curve:
        def seconds(told: Predicted) -> float:
            return told.commit_s if kind == "commit" else told.total_s

        points = [
            (float(files), seconds(self.told(name, latency_s, files // _EACH, files)))
            for files in self.sizes.files
        ]
        runs = [
            (run.played.files, run.played.commit.seconds if kind == "commit" else run.played.total_s)
            for run in self.runs
            if (run.committer, run.latency_s) == (name, latency_s)
        ]
        return Curve(points, runs)


def rates(latency_s: float) -> Rates:
    """The store of the comparison."""
    return Rates(latency_s, object_mb=_OBJECT_MB)


def study(sizes: Sizes) -> Study:
    """Run what is to be run.

    Raises:
        RuntimeError: Code and arithmetic do not agree.
    """
    found = Study(sizes)
    for subject in SUBJECTS:
        found.models[subject.name] = learn(subject, *sizes.smallest)
        for latency_s, jobs in sizes.runs.items():
            for tasks, files in jobs:
                played = play(subject, tasks, files, rates(latency_s), workers=_WORKERS)
                told = found.told(subject.name, latency_s, tasks, files)
                run = Run(subject.name, latency_s, played, told)
                found.runs.append(run)
                _say(run)
    # Where the store refuses, requests are made again at moments that no arithmetic tells.
    smooth = [run for run in found.runs if not run.refused]
    worst = max(smooth, key=lambda run: abs(run.apart), default=None)
    if worst is not None and abs(worst.apart) > _APART_MOST:
        raise RuntimeError(
            f"{worst.committer}, {worst.played.files} files at {worst.latency_s} s: the code took "
            f"{worst.played.total_s:.1f} s and {worst.told.total_s:.1f} s are told from its requests, and "
            "none was refused: benchmarks/latency_requests.py misses something"
        )
    return found


def _say(run: Run) -> None:
    played, told = run.played, run.told
    print(
        f"{run.committer}, {played.tasks} tasks, {played.files} files, {run.latency_s * 1000:.0f} ms: "
        f"job commit {played.commit.seconds:.1f} s (told {told.commit_s:.1f}), "
        f"whole job {played.total_s:.1f} s "
        f"(told {told.total_s:.1f}), {run.refused} refused, "
        f"{played.failed} attempts failed",
        file=sys.stderr,
        flush=True,
    )
