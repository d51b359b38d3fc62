"""The command: play the stories, and compare what they come to with what is checked in."""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from proofs.witness.face import face
from proofs.witness.story import Account, committer_and_feature, play

__all__ = ["ACCOUNTS", "FACE", "SEEDS", "differences", "digests_of", "main"]

SEEDS: Final = 2000
ACCOUNTS: Final = Path(__file__).with_name("accounts.json")
FACE: Final = Path(__file__).with_name("face.txt")
_PARTS: Final = tuple(one.name for one in fields(Account))
_PROCESSES: Final = 2

Digests = dict[str, dict[str, str]]
"""By committer and feature, and for each of the parts of an account, the start of a SHA-256."""


def digests_of(played: Iterable[tuple[int, tuple[str, ...]]]) -> Digests:
    """What stories came to, all those of a committer with a feature in one."""
    groups: dict[str, list[Any]] = {}
    for seed, parts in played:
        name = " + ".join(committer_and_feature(seed))
        hashes = groups.setdefault(name, [hashlib.sha256() for _ in _PARTS])
        for one, digest in zip(hashes, parts, strict=True):
            one.update(digest.encode())
    return {
        name: dict(zip(_PARTS, (one.hexdigest()[:8] for one in hashes), strict=True))
        for name, hashes in sorted(groups.items())
    }


def digests(seed: int) -> tuple[int, tuple[str, ...]]:
    """What one story came to, by its seed."""
    account = play(seed)
    return seed, tuple(
        hashlib.sha256("\n".join(getattr(account, part)).encode()).hexdigest() for part in _PARTS
    )


def _quiet() -> None:
    logging.getLogger("magicfs").setLevel(logging.CRITICAL)


def differences(known: Digests, now: Digests) -> dict[str, list[str]]:
    """Which groups came to something else, by the part that differs."""
    both = {name: (known.get(name, {}), now.get(name, {})) for name in sorted({*known, *now})}
    return {
        part: [name for name, (old, new) in both.items() if old.get(part) != new.get(part)] for part in _PARTS
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m proofs.witness", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many stories; with fewer all differs")
    parser.add_argument(
        "--write", action="store_true", help="renew what is checked in, if you want what differs"
    )
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="print one story, to compare it with another tree's"
    )
    parser.add_argument("--face", action="store_true", help="renew the checked-in public API, and no more")
    given = parser.parse_args(arguments)
    if given.face:
        FACE.write_text(face())
        return 0
    if given.show is not None:
        account = play(given.show)
        print(" + ".join(committer_and_feature(given.show)))  # noqa: T201
        for part in _PARTS:
            print(f"{part}:", *getattr(account, part), sep="\n  ")  # noqa: T201
        return 0
    begun = time.monotonic()
    os.environ["PYTHONHASHSEED"] = "0"
    with multiprocessing.get_context("spawn").Pool(_PROCESSES, _quiet) as pool:
        now = digests_of(pool.imap(digests, range(given.seeds), chunksize=20))
    known = json.loads(ACCOUNTS.read_text()) if ACCOUNTS.exists() else {}
    differing, shown = differences(known, now), _face_differs()
    for part, names in differing.items():
        for name in names:
            print(f"{part} of {name} differ", file=sys.stderr)  # noqa: T201
    print(shown, end="", file=sys.stderr)  # noqa: T201
    if given.write:
        rows = [f"{json.dumps(name)}: {json.dumps(parts)}" for name, parts in now.items()]
        ACCOUNTS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        FACE.write_text(face())
    document = {
        "stories": given.seeds,
        "groups": len(now),
        "differ": {part: len(names) for part, names in differing.items()},
        "face": shown.count("\n"),
        "seconds": round(time.monotonic() - begun, 1),
        "ok": not shown and not any(differing.values()),
    }
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if document["ok"] or given.write else 1


def _face_differs() -> str:
    known = FACE.read_text() if FACE.exists() else ""
    return "".join(difflib.unified_diff(known.splitlines(True), face().splitlines(True), "known", "now", n=0))
