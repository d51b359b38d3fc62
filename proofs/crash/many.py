"""``python -m proofs.crash.many``: simulated jobs by the hundred thousand, in as many runs as it takes."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from proofs.crash import elsewhere
from proofs.crash.disk import move_to, room
from proofs.crash.figures import say
from proofs.crash.simulation import Result, simulate

__all__ = ["SIDES", "main", "rare_collections", "run_seed"]

SIDES: Final = (
    *("magic.", "directory.", "partitioned.", "elsewhere", "magic.names-", "magic.maintenance-"),
    *("magic.interrupts-", "magic.limits-", "magic.rivals-", "magic.races-", "magic.drivers-"),
    *(
        "magic.",
        "directory.names-",
        "partitioned.maintenance-",
        "elsewhere",
        "directory.interrupts-",
        "manifest.",
    ),
)
"""What seeds simulate, by turns: a committer and its company, or two jobs at destinations that touch. Without
company a seed draws faults and everything else."""

PROCESSES: Final = 2
_SEEDS_A_UNIT: Final = 250
_SILENCE_S: Final = 30.0
_COLLECTED_EVERY: Final = 20


def run_seed(seed: int, result: Result) -> str:
    """Run what a seed simulates, and return its side."""
    side = SIDES[seed % len(SIDES)]
    if side == "elsewhere":
        elsewhere.play(str(seed), result)
    else:
        simulate(f"{side.removeprefix('magic.')}{seed}", result)
    return side.rstrip(".-")


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within it garbage is collected only when asked for: scenes are small, and looking for it takes long."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _work(seeds: range) -> tuple[range, Counter[str], Result]:
    logging.getLogger("magicfs").setLevel(logging.CRITICAL)
    jobs: Counter[str] = Counter()
    result = Result()
    with rare_collections():
        for seed in seeds:
            before = result.jobs
            jobs[run_seed(seed, result)] += result.jobs - before
            if seed % _COLLECTED_EVERY == 0:
                gc.collect()
    return seeds, jobs, result


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if anything broke an invariant."""
    parser = argparse.ArgumentParser(prog="python -m proofs.crash.many", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds, one or two jobs each")
    parser.add_argument("--minutes", type=float, help="begin no more seeds after that time")
    given = parser.parse_args(arguments)
    begun = told = time.monotonic()
    jobs: Counter[str] = Counter()
    result, seeds, last = Result(), 0, given.first - 1
    os.environ["PYTHONHASHSEED"] = "0"
    stop = given.first + given.seeds
    units = [range(at, min(at + _SEEDS_A_UNIT, stop)) for at in range(given.first, stop, _SEEDS_A_UNIT)]
    spawning = multiprocessing.get_context("spawn")
    with room() as top, spawning.Pool(PROCESSES, initializer=move_to, initargs=(top,)) as pool:
        # In order, so that a run that ends early has done every seed up to its last.
        for done, of_sides, part in pool.imap(_work, units):
            seeds, last = seeds + len(done), done[-1]
            jobs.update(of_sides)
            result.jobs += part.jobs
            result.endings.update(part.endings)
            result.findings += part.findings
            for violation, text in part.findings:
                say(f"{violation}\n    reproduce: tox run -e crash -- --reproduce '{text}'")
            now = time.monotonic()
            if now - told > _SILENCE_S:
                told = now
                say(f"seed {last}: {result.jobs} jobs, {len(result.findings)} violations")
            if given.minutes is not None and now - begun > 60 * given.minutes:
                break
        pool.terminate()
    document = _document(given.first, last, seeds, jobs, result, time.monotonic() - begun)
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if document["ok"] else 1


def _document(
    first: int, last: int, seeds: int, jobs: Counter[str], result: Result, seconds: float
) -> dict[str, Any]:
    return {
        "first_seed": first,
        "last_seed": last,
        "seeds": seeds,
        "jobs": result.jobs,
        "jobs_of_sides": dict(sorted(jobs.items())),
        "endings": dict(sorted(result.endings.items())),
        "violations": len(result.findings),
        "seconds": round(seconds, 1),
        "ok": not result.findings and result.jobs > 0,
    }


if __name__ == "__main__":
    sys.exit(main())
