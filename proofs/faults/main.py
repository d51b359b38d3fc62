"""``python -m proofs.faults``: an overwrite that fails, by us and by every other writer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from magicfs.testing.servers import Ministack, SeaweedFS
from proofs.faults import table
from proofs.faults.cases import CASES
from proofs.faults.tools import TOOLS
from proofs.faults.trial import Absent, Trial, faults_of

__all__ = ["main"]

_SERVERS = {"seaweedfs": SeaweedFS, "ministack": Ministack}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a row of ours lost a row, showed a file or left an upload."""
    parser = argparse.ArgumentParser(prog="python -m proofs.faults", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="writers whose name holds this")
    parser.add_argument("--case", metavar="TEXT", default="", help="cases whose name holds this")
    parser.add_argument("--server", choices=_SERVERS, default="seaweedfs")
    parser.add_argument(
        "--write", metavar="FILE", type=Path, help="put the table between its marks in a page"
    )
    given = parser.parse_args(arguments)
    cases = [one for one in CASES if given.case in one.name]
    figures: dict[str, dict[str, Any]] = {}
    versions: dict[str, str] = {}
    wrong: list[str] = []
    absent: dict[str, str] = {}
    with _SERVERS[given.server]() as server:
        for number, tool in enumerate(TOOLS):
            if given.only not in tool.name:
                continue
            try:
                trial = Trial(tool, server, number)
                outcomes = trial.run(cases)
            except Absent as error:
                absent[tool.name] = str(error)
                _say(f"absent: {error}")
                if tool.ours:
                    wrong.append(f"{tool.name}: {error}")
                continue
            versions |= trial.versions
            figures[tool.name] = {one.case: one.figures() for one in outcomes}
            for outcome in outcomes:
                _say(f"{tool.name}, {outcome.case}: {json.dumps(outcome.figures())}")
                [case] = [one for one in cases if one.name == outcome.case]
                faults = faults_of(outcome, case) if tool.ours else []
                wrong += [f"{tool.name}, {case.name}: {one}" for one in faults]
    if given.write is not None:
        shown = table.render(figures, versions, given.server, [one.name for one in cases])
        text = given.write.read_text(encoding="utf-8")
        given.write.write_text(table.put_in(text, shown), encoding="utf-8")
    for one in wrong:
        _say(f"WRONG: {one}")
    told = {"server": given.server, "versions": versions, "absent": absent, "wrong": wrong, "tools": figures}
    print(json.dumps(told, separators=(",", ":")))  # noqa: T201
    return 1 if wrong else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
