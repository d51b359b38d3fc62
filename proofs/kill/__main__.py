"""``python -m proofs.kill``: kill, recover, count; the last line of stdout is one JSON object."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from proofs.kill.campaign import Campaign, Tally
from proofs.kill.crew import adopt_orphans
from proofs.kill.disk import PAUSE_S
from proofs.kill.stores import PLACES
from proofs.kill.victim import CommitterName
from proofs.kill.watching import DELAYS_S

__all__ = ["main"]

_FROM_KILLS = 200
_HITS_MIN = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Run the kills and print the figures; 0 if nothing was lost, left or seen in half.

    Args:
        argv: The arguments after the program's name; by default those of the process.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if (arguments.committer == "magic") == (arguments.store == "local"):
        parser.error("manifest and file-v1 rename files: give --committer with --store local, and only there")
    started = time.monotonic()
    adopt_orphans()
    _say(f"seed {arguments.seed}; a server is started")
    place = PLACES[arguments.store]
    server = place.server()
    with tempfile.TemporaryDirectory(prefix="magicfs-kill-") as directory, server:
        campaign = Campaign(server, Path(directory), arguments.seed, committer=arguments.committer, say=_say)
        try:
            campaign.run(arguments.kills, parallel=arguments.rounds_in_parallel)
        except Exception:  # noqa: BLE001 - told, and the figures so far are printed all the same
            _say(traceback.format_exc())
    tally = campaign.tally
    thin = {phase.value: tally.phases[phase] for phase in place.required if tally.phases[phase] < _HITS_MIN}
    ok = tally.clean and tally.kills >= arguments.kills and not (thin and tally.kills >= _FROM_KILLS)
    if thin and tally.kills >= _FROM_KILLS:
        _say(f"phases that were hit less than {_HITS_MIN} times: {thin}")
    print(json.dumps(_figures(tally, arguments, started, ok=ok), separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def _figures(tally: Tally, arguments: argparse.Namespace, started: float, *, ok: bool) -> dict[str, object]:
    return {
        "store": arguments.store,
        "committer": arguments.committer,
        **tally.to_dict(),
        "kill_points": "uniform over the measured run time of each shape of job",
        **_delays(arguments.store),
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - started, 1),
        "ok": ok,
    }


def _delays(store: str) -> dict[str, object]:
    if store == "local":
        return {"pause_s": PAUSE_S}
    return {"delays_s": {phase.value: seconds for phase, seconds in DELAYS_S.items()}}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proofs.kill", description=__doc__)
    parser.add_argument("--kills", type=_positive, default=50, help="how many processes or jobs to kill")
    parser.add_argument("--store", choices=PLACES, default="s3", help="by default %(default)s")
    parser.add_argument(
        "--committer",
        choices=get_args(CommitterName),
        default="magic",
        help="by default %(default)s; the others go with --store local, and only they do",
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of all that is drawn")
    parser.add_argument("--rounds-in-parallel", type=_positive, default=1, help="rounds at once")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is none; give 1 or more")
    return number


def _say(text: str) -> None:
    sys.stderr.write(f"kill: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
