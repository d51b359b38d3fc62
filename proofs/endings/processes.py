"""``python -m proofs.endings.processes``: forks of this process, each of which goes through one front door.

This process imports what the first fork has imported, and starts nothing. Each fork ends as every Python
process does: no block is around it. What was imported is frozen for the collector, which would walk it at
the end of each fork. So a run takes a fifth of a second rather than three.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO, Any

from proofs.endings.doors import DOORS

__all__ = ["ended"]


def ended(door: str, url: str, options: Mapping[str, Any], runs: int) -> dict[int, int]:
    """With which statuses so many processes end, and how many each; negative ones are signals."""
    order = json.dumps([door, url, dict(options), runs])
    command = [sys.executable, "-m", __spec__.name, order]
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603
    return {int(status): count for status, count in json.loads(made.stdout).items()}


def _main() -> None:
    door, url, options, runs = json.loads(sys.argv[1])
    logging.disable(logging.WARNING)
    statuses = Counter[int]()
    with TemporaryFile("w+") as imported:
        for run in range(runs):
            child = os.fork()
            if not child:
                break
            statuses[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1
            if not run:
                _import(imported)
        else:
            print(json.dumps(statuses))  # noqa: T201
            return
        DOORS[door](f"{url}-{run}", options)
        if not run:
            imported.write("\n".join(sys.modules))
    sys.exit(0)


def _import(names: IO[str]) -> None:
    names.seek(0)
    for name in names.read().splitlines():
        with suppress(Exception):  # some exist under other names alone
            importlib.import_module(name)
    gc.freeze()


if __name__ == "__main__":
    _main()
