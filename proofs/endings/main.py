"""``python -m proofs.endings``: the exit status of many processes of each front door, on each store."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from proofs.doubles.servers import SeaweedFS
from proofs.endings.doors import DOORS, PLAIN
from proofs.endings.processes import ended

__all__ = ["main"]

STORES: Final = ("memory", "file", "s3")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a process of ours ended otherwise than with 0."""
    parser = argparse.ArgumentParser(prog="python -m proofs.endings", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="processes of each door and store")
    parser.add_argument("--store", choices=STORES, action="append", help="only there; may be repeated")
    parser.add_argument("--door", choices=[*DOORS], action="append", help="only these; may be repeated")
    given = parser.parse_args(arguments)
    wrong: dict[str, int] = {}
    plain: dict[str, int] = {}
    started, runs = time.monotonic(), 0
    for store in given.store or STORES:
        with _top(store) as (top, options):
            for number, door in enumerate(given.door or DOORS):
                statuses = ended(door, f"{top}/{number}", options, given.runs)
                print(f"{store:8}{door:45}{statuses}", file=sys.stderr, flush=True)  # noqa: T201
                bad = given.runs - statuses.get(0, 0)
                if door == PLAIN:
                    plain[store] = bad
                else:
                    runs += given.runs
                    wrong |= {f"{store}: {door}": bad} if bad else {}
    figures = {
        "python": sys.version.split()[0],
        "pyarrow": pa.__version__,
        "doors": len([one for one in given.door or DOORS if one != PLAIN]),
        "stores": len(given.store or STORES),
        "processes": runs,
        "ended_otherwise": wrong,
        "plain": plain,
        "seconds": round(time.monotonic() - started, 1),
        "ok": not wrong,
    }
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 0 if figures["ok"] else 1


@contextmanager
def _top(store: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where the destinations lie, and with which options."""
    if store == "memory":
        yield "memory://lake", {}
    elif store == "file":
        with tempfile.TemporaryDirectory() as directory:
            yield f"file://{directory}", {}
    else:
        with SeaweedFS() as server:
            server.create_bucket("lake")
            yield "s3://lake", server.storage_options()
