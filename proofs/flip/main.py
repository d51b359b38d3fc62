"""``python -m proofs.flip``: every cut and pair of cuts, company, and the window of real stores."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, get_args

from proofs.crash.trees import KINDS
from proofs.flip.company import Other, beside_others
from proofs.flip.cuts import cut
from proofs.flip.window import PLACES, watched

__all__ = ["main"]

_CONFLICTS: Final = ("replace", "fail")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a reader saw what must not be, or something was left."""
    parser = argparse.ArgumentParser(prog="python -m proofs.flip", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="orders in which each company is tried")
    parser.add_argument("--flips", type=int, default=10, help="flips watched on each real store")
    given = parser.parse_args(arguments)
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    started = time.monotonic()
    findings: list[str] = []
    document: dict[str, Any] = {
        "cuts": _cuts(findings),
        "company": _company(given.seeds, findings),
        "windows": {name: watched(name, given.flips, findings) for name in PLACES},
    }
    for one in findings:
        print(one, file=sys.stderr)  # noqa: T201
    document |= {
        "violations": len(findings),
        "seconds": round(time.monotonic() - started, 1),
        "ok": not findings,
    }
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 1 if findings else 0


def _cuts(findings: list[str]) -> dict[str, Any]:
    found = {}
    for model in KINDS:
        for conflict in _CONFLICTS:
            tally = cut(model, conflict)
            findings += tally.findings
            found[f"{model} {conflict}"] = {"cuts": tally.cuts, "pairs": tally.pairs, "gone": tally.windows}
    return found


def _company(seeds: int, findings: list[str]) -> dict[str, int]:
    found = {}
    for model in KINDS:
        for other in get_args(Other):
            for seed in range(seeds):
                findings += beside_others(model, other, seed)[0]
            found[f"{model} beside {other}"] = seeds
    return found
