"""``python -m proofs.faults``: an overwrite that fails, by us and by every other writer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from proofs.doubles.servers import Ministack, SeaweedFS, Server
from proofs.faults import table
from proofs.faults.cases import CASES, Case
from proofs.faults.tools import TOOLS, Tool
from proofs.faults.trial import Absent, Outcome, Trial, faults_of

__all__ = ["main"]

_SERVERS = {"seaweedfs": SeaweedFS, "ministack": Ministack}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a row of ours lost a row, showed a file or left an upload."""
    parser = argparse.ArgumentParser(prog="python -m proofs.faults", description=__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="writers whose name holds this")
    parser.add_argument("--case", metavar="TEXT", default="", help="cases whose name holds this")
    parser.add_argument("--server", choices=_SERVERS, default="seaweedfs")
    parser.add_argument("--at-once", metavar="N", type=int, default=2, help="writers at once")
    parser.add_argument(
        "--write",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="put the table between its marks in a page; more than once for several",
    )
    given = parser.parse_args(arguments)
    cases = [one for one in CASES if given.case in one.name]
    figures: dict[str, dict[str, Any]] = {}
    versions: dict[str, dict[str, str]] = {}
    wrong: list[str] = []
    absent: dict[str, str] = {}
    tools = [one for one in TOOLS if given.only in one.name]
    with _SERVERS[given.server]() as server, ThreadPoolExecutor(given.at_once) as pool:
        runs = [pool.submit(_tried, tool, server, number, cases) for number, tool in enumerate(tools)]
        for tool, run in zip(tools, runs, strict=True):
            try:
                installed, outcomes = run.result()
            except Absent as error:
                absent[tool.name] = str(error)
                if tool.ours:
                    wrong.append(f"{tool.name}: {error}")
                continue
            versions[tool.name] = installed
            figures[tool.name] = {one.case: one.figures() for one in outcomes}
            for outcome in outcomes if tool.ours else ():
                [case] = [one for one in cases if one.name == outcome.case]
                wrong += [f"{tool.name}, {case.name}: {one}" for one in faults_of(outcome, case)]
    for page in given.write:
        text = page.read_text(encoding="utf-8")
        names = [name for name in table.rows_of(text) or figures if name in figures]
        shown = table.render(
            {name: figures[name] for name in names},
            {name: versions[name] for name in names},
            given.server,
            [one.name for one in cases],
        )
        page.write_text(table.put_in(text, shown), encoding="utf-8")
    for one in wrong:
        _say(f"WRONG: {one}")
    told = {"server": given.server, "versions": versions, "absent": absent, "wrong": wrong, "tools": figures}
    print(json.dumps(told, separators=(",", ":")))  # noqa: T201
    return 1 if wrong else 0


def _tried(
    tool: Tool, server: Server, number: int, cases: Sequence[Case]
) -> tuple[dict[str, str], list[Outcome]]:
    try:
        trial = Trial(tool, server, number)
        outcomes = trial.run(cases)
    except Absent as error:
        _say(f"absent: {error}")
        raise
    for outcome in outcomes:
        _say(f"{tool.name}, {outcome.case}: {json.dumps(outcome.figures())}")
    return trial.versions, outcomes


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
