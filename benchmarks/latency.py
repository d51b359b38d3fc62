"""All committers on a store that is far away, in virtual time: ``python -m benchmarks.latency``.

Jobs of 100 files a task, each file of 8 MB, by 100 workers, on a store that takes 30 or 150 ms a request,
copies 6 to 10 MB a second and lets 3,500 writes and 5,500 reads a second pass. The shipped code is run up to
4,000 files, with ``--full`` up to 1,000 tasks and 100,000 files, which takes most of an hour. Beyond that, up
to 10,000 tasks and a million files, the time is told from the requests (``benchmarks.latency_requests``);
where both can be had they must agree. ``--plots DIRECTORY`` draws the curves.

``--rows`` measures only the two rows of the table that are about the pace of a job commit: 10,000 files at
150 ms a request, on a store that takes 3,500 writes a second, and on one that throttles at 1,000. A ratio of
1 is what no client can beat. Both run the shipped code, and take some ten seconds. ``--files``, ``--tasks``
and ``--concurrency`` (the job's option) try other sizes.

The last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.latency_job import BY_NAME, play
from benchmarks.latency_store import Rates
from benchmarks.latency_study import FAR, QUICK, WHOLE, Sizes, Study, study

__all__ = ["main", "measured", "rows"]

LIMIT_S: Final = 3500.0
"""Writes that S3 takes in a second below one prefix."""

THROTTLED_S: Final = 1000.0
"""Those of a store that throttles earlier, as one does whose prefix others use, too."""

_FILES: Final = 10_000
_TASKS: Final = 50


def rows(files: int = _FILES, tasks: int = _TASKS, concurrency: int | None = None) -> dict[str, float]:
    """The two rows of the table: job commits beside what the store lets pass.

    Returns:
        The ratios, by what the table calls them, and those of the completions alone; and of each job commit
        its seconds, those before the first and after the last completion among them, which are requests one
        after the other.
    """
    found: dict[str, float] = {}
    for name, writes_s in (("latency_vs_limit", LIMIT_S), ("throttled_vs_passed", THROTTLED_S)):
        played = play(
            BY_NAME["magic, memory"], tasks, files, Rates(FAR, writes_s=writes_s), concurrency=concurrency
        )
        before_s, completes_s, after_s = played.commit.around("complete_upload")
        found[name] = round(played.commit.seconds / (files / writes_s), 3)
        found[f"{name}_completes"] = round(completes_s / (files / writes_s), 3)
        found[f"{name}_s"] = round(played.commit.seconds, 3)
        found[f"{name}_before_s"] = round(before_s, 3)
        found[f"{name}_completes_s"] = round(completes_s, 3)
        found[f"{name}_after_s"] = round(after_s, 3)
        found[f"{name}_refused"] = played.commit.tally.refused
        found[f"{name}_most_at_once"] = played.commit.tally.most
    return found


def measured(sizes: Sizes = WHOLE, *, files: int = _FILES) -> tuple[dict[str, float], Study]:
    """Both rows, and the comparison of all committers.

    Raises:
        RuntimeError: Code and arithmetic do not agree.
    """
    compared = study(sizes)
    return {**rows(files), **compared.figures()}, compared


def draw(compared: Study, directory: Path) -> Iterable[Path]:
    """Write the curves into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, plot in compared.plots().items():
        path = directory / f"{name}.svg"
        path.write_text(plot.svg(), encoding="utf-8")
        yield path


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--rows", action="store_true", help="only the two rows of the table")
    parser.add_argument("--files", type=int, default=_FILES, help="of the two rows")
    parser.add_argument("--tasks", type=int, default=_TASKS, help="likewise")
    parser.add_argument("--concurrency", type=int, help="likewise")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--full", action="store_true", help="run the code up to 100,000 files")
    parser.add_argument("--plots", type=Path, help="directory for the curves")
    told = parser.parse_args(arguments)
    if told.rows:
        print(json.dumps(rows(told.files, told.tasks, told.concurrency)))
        return 0
    sizes = QUICK if told.quick else WHOLE.up_to_100_000() if told.full else WHOLE
    found, compared = measured(sizes, files=500 if told.quick else _FILES)
    if told.plots is not None:
        for path in draw(compared, told.plots):
            print(path, file=sys.stderr)
    print(json.dumps(_line(found, compared)))
    return 0


def _line(found: Mapping[str, float], compared: Study) -> dict[str, object]:
    return {**found, "curves": compared.curves(), "runs": compared.told_runs()}


if __name__ == "__main__":
    sys.exit(main())
