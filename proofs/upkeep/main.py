"""``python -m proofs.upkeep``: writers, maintenance and kills; the last line is one JSON object."""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from proofs.kill.crew import adopt_orphans
from proofs.past.places import PLACES, place_of
from proofs.upkeep.campaign import WRONG, Campaign

__all__ = ["main"]

_STORES: Final = ("local", "s3")
_EPILOG: Final = """
Figures of each store: kills of writers and of maintain are SIGKILLs that met a process. These must be 0:
lost_rows (published, and not there), torn_jobs (a part of a job is there), foreign_rows (nobody wrote them),
living_aborted (an append that nobody killed and that was not published), left_jobs, left_uploads, left_files
and left_manifests (older than the policy says), and troubles.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the figures; 0 if nothing was wrong.

    Args:
        argv: The arguments after the program's name; by default those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m proofs.upkeep",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="on each store; by default %(default)s")
    parser.add_argument("--store", choices=PLACES, action="append", help="by default local, then s3")
    parser.add_argument("--writers", type=int, default=20, help="at once; by default %(default)s")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of all that is drawn")
    arguments = parser.parse_args(argv)
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    adopt_orphans()
    stores = {store: _run(store, arguments) for store in arguments.store or _STORES}
    wrong = {name: sum(int(one.get(name, 1)) for one in stores.values()) for name in WRONG}
    ok = not any(wrong.values())
    print(json.dumps({"stores": stores, **wrong, "seed": arguments.seed, "ok": ok}))  # noqa: T201
    return 0 if ok else 1


def _run(store: str, arguments: argparse.Namespace) -> dict[str, Any]:
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="magicfs-upkeep-") as directory,
        place_of(store) as place,
    ):
        _say(f"{store}: {arguments.writers} writers for {arguments.minutes:g} minutes, seed {arguments.seed}")
        campaign = Campaign(place, Path(directory), arguments.seed, arguments.writers, say=_say)
        try:
            campaign.run(arguments.minutes * 60)
        except Exception:  # noqa: BLE001 - told, and the figures so far are printed all the same
            campaign.wrong("troubles", traceback.format_exc())
    return {**campaign.to_dict(), "seconds": round(time.monotonic() - started, 1)}


def _say(text: str) -> None:
    sys.stderr.write(f"upkeep: {text}\n")
    sys.stderr.flush()
