"""The process in which one writer writes, in whatever Python has it: ``python -m proofs.faults.victim``."""

from __future__ import annotations

import json
import sys
import warnings

from proofs.faults.place import Place
from proofs.faults.rows import Rows
from proofs.faults.tools import TOOLS

__all__ = ["main"]


def main(name: str, rows: str, *places: str) -> None:
    """Write to each place, and print the versions before; or, with ``read`` as rows, print the ids there.

    ``rows``: the arguments of ``Rows`` as JSON.
    """
    warnings.simplefilter("ignore")
    [tool] = [one for one in TOOLS if one.name == name]
    if rows == "read":
        [place] = places
        print(json.dumps(tool.read(Place.load(place))))  # noqa: T201
        return
    print(json.dumps(tool.versions()), flush=True)  # noqa: T201
    for place in places:
        tool.write()(Place.load(place), Rows(**json.loads(rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
