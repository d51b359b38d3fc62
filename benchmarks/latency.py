"""All committers on a store that is far away, in virtual time: ``python -m benchmarks.latency``.

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
from collections.abc import Sequence
from typing import Final

from benchmarks.latency_job import BY_NAME, play
from benchmarks.latency_store import Rates

__all__ = ["main", "rows"]

LIMIT_S: Final = 3500.0
"""Writes that S3 takes in a second below one prefix."""

THROTTLED_S: Final = 1000.0
"""Those of a store that throttles earlier, as one does whose prefix others use, too."""

_FILES: Final = 10_000
_TASKS: Final = 50
_LATENCY_S: Final = 0.15


def rows(files: int = _FILES, tasks: int = _TASKS, concurrency: int | None = None) -> dict[str, float]:
    """The two rows of the table: job commits beside what the store lets pass.

    Returns:
        The ratios, by what the table calls them; and of each job commit its seconds, those before the first
        and after the last completion among them, which are requests one after the other.
    """
    found: dict[str, float] = {}
    for name, writes_s in (("latency_vs_limit", LIMIT_S), ("throttled_vs_passed", THROTTLED_S)):
        rates = Rates(_LATENCY_S, writes_s=writes_s)
        played = play(BY_NAME["magic, memory"], tasks, files, rates, concurrency=concurrency)
        before_s, completes_s, after_s = played.commit.around("complete_upload")
        found[f"{name}_s"] = round(played.commit.seconds, 3)
        found[f"{name}_before_s"] = round(before_s, 3)
        found[f"{name}_completes_s"] = round(completes_s, 3)
        found[f"{name}_after_s"] = round(after_s, 3)
        found[f"{name}_refused"] = played.commit.tally.refused
        found[f"{name}_most_at_once"] = played.commit.tally.most
        found[name] = round(played.commit.seconds / (files / writes_s), 3)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--rows", action="store_true", help="only the two rows of the table")
    parser.add_argument("--files", type=int, default=_FILES)
    parser.add_argument("--tasks", type=int, default=_TASKS)
    parser.add_argument("--concurrency", type=int)
    told = parser.parse_args(arguments)
    print(json.dumps(rows(told.files, told.tasks, told.concurrency)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
