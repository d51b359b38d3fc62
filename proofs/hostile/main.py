"""``python -m proofs.hostile``: what somebody hostile writes, answers or lays in the way, and the mutants."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from proofs.hostile.document import written
from proofs.hostile.ground import impatient
from proofs.hostile.part import Found, Part, hunt_attack

__all__ = ["PARTS", "main"]

PARTS: Final = ("records", "sealed", "mutated", "data", "endpoint", "local_places", "canaries")
"""The modules of the parts."""
_KINDS: Final = ("records", "inputs", "footers", "answers", "local_cases", "outputs")
_SHOWN_MAX: Final = 40
_WEIGHTS: Final = {"records": 5}
"""Shares of the time, by part; 1 for all others: each forged record is met by every command."""
_LOUD: Final = ("asyncio", "azure", "fsspec", "gcsfs", "s3fs")
"""Loggers of others, which have much to say of hostile answers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if something hostile was obeyed, or a mutant was not noticed."""
    parser = argparse.ArgumentParser(prog="python -m proofs.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long inputs are drawn, of all parts")
    parser.add_argument("--seed", type=int, default=None, help="what they are drawn by")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one; may be repeated")
    parser.add_argument("--write", metavar="FILE", type=Path, help="only renew the table of docs/security.md")
    given = parser.parse_args(arguments)
    if given.write is not None:
        given.write.write_text(written(given.write))
        return 0
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    started, found = time.monotonic(), Found()
    parts = {name: _part(name) for name in given.part or PARTS}
    shares = {name: _WEIGHTS.get(name, 1) for name in parts}
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    _say(f"seed {seed}")
    caught, missed = 0, list[str]()
    with impatient():
        for name, part in parts.items():
            found.add(_reported(part.NAME, "fixed", part.fixed()))
            until = time.monotonic() + 60 * given.minutes * shares[name] / sum(shares.values())
            found.add(_reported(part.NAME, "drawn", part.fuzz(until, seed)))
        for part in parts.values():
            for mutant in part.MUTANTS:
                if not (hunted := hunt_attack(mutant)).caught:
                    missed.append(f"{part.NAME}: {hunted}")
                    _say(f"not noticed: {missed[-1]}")
                else:
                    caught += 1
    for line in found.violations[:_SHOWN_MAX]:
        _say(f"VIOLATION {line}")
    document = {
        **{kind: found.counts[kind] for kind in _KINDS},
        **{kind: count for kind, count in sorted(found.counts.items()) if kind not in _KINDS},
        "mutants": caught + len(missed),
        "mutants_caught": caught,
        "violations": len(found.violations),
        "seed": seed,
        "seconds": round(time.monotonic() - started, 1),
        "ok": not found.violations and not missed,
    }
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if document["ok"] else 1


def _part(name: str) -> Part:
    return cast("Part", importlib.import_module(f"proofs.hostile.{name}"))


def _reported(part: str, how: str, found: Found) -> Found:
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(found.counts.items()))
    _say(f"{part}, {how}: {counts}; {len(found.violations)} violations")
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
