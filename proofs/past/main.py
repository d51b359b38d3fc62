"""``python -m proofs.past``: publish, keep, roll back, expire, kill; the last line is one JSON object."""

from __future__ import annotations

import argparse
import json
import logging
import random
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proofs.kill.crew import adopt_orphans
from proofs.past.campaign import Campaign
from proofs.past.orders import PUBLISHES
from proofs.past.places import PLACES, place_of

__all__ = ["main"]

_KEEPS_S: Final = (3, 12, 40)
_QUICK_KEEPS_S: Final = (1, 4)
_QUICK: Final = 15
_VERSIONED: Final = 0.4

_EPILOG: Final = """
Figures of the last line: kills are processes that SIGKILL met; wrong_as_of, wrong_now, deleted_early,
kept_too_long, seen_torn, lost_publications, left_behind and troubles must be 0; states_at_kill are the states
of the jobs whose processes were killed; as_of_time, as_of_job, as_of_run and as_of_tag count what was read as
of a publication and was equal, as_of_refused what was refused because files of then were gone.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the figures; 0 if nothing was wrong.

    Args:
        argv: The arguments after the program's name; by default those of the process.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.versioned and arguments.store != "s3":
        parser.error("--versioned needs --store s3: no other store has buckets that keep versions")
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    started = time.monotonic()
    adopt_orphans()
    versioned = _is_versioned(arguments)
    kept = ", whose bucket keeps versions," if versioned else ""
    _say(f"seed {arguments.seed}; a place{kept} is made")
    wanted = arguments.publications or (_QUICK if arguments.quick else 200)
    keeps = _QUICK_KEEPS_S if arguments.quick else _KEEPS_S

    def enough(run: Campaign) -> bool:
        return run.kills >= arguments.kills if arguments.only else run.publications >= wanted

    with (
        tempfile.TemporaryDirectory(prefix="magicfs-past-") as directory,
        place_of(arguments.store, versioned=versioned) as place,
    ):
        campaign = Campaign(place, Path(directory), arguments.seed, keeps, only=arguments.only, say=_say)
        finished = False
        try:
            campaign.run(enough)
            finished = enough(campaign)
        except Exception:  # noqa: BLE001 - told, and the figures so far are printed all the same
            _say(traceback.format_exc())
    ok = finished and not campaign.wrong
    figures = {
        "store": arguments.store,
        "versioned": versioned,
        "only": arguments.only,
        **campaign.to_dict(),
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - started, 1),
        "ok": ok,
    }
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def _is_versioned(arguments: argparse.Namespace) -> bool:
    """What was asked for; else drawn from the seed, where the store has such buckets."""
    if arguments.store != "s3":
        return False
    if arguments.versioned is None:
        return random.Random(arguments.seed).random() < _VERSIONED  # noqa: S311 - to be repeatable
    return bool(arguments.versioned)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m proofs.past",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--publications", type=_positive, help="how many; by default 200")
    parser.add_argument("--store", choices=PLACES, default="s3", help="by default %(default)s")
    parser.add_argument(
        "--versioned",
        action=argparse.BooleanOptionalAction,
        help="in a bucket that keeps versions, or in none; by default the seed tells, on s3",
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of all that is drawn")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK} publications with short promises")
    parser.add_argument("--only", choices=PUBLISHES, help="kill nothing but jobs of this kind, and each")
    parser.add_argument("--kills", type=_positive, default=100, help="with --only: how many; by default 100")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is none; give 1 or more")
    return number


def _say(text: str) -> None:
    sys.stderr.write(f"past: {text}\n")
    sys.stderr.flush()
