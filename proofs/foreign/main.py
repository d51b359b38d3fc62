"""``python -m proofs.foreign``: the suites of pandas, dask and zarr, plain and through a task."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from proofs.foreign.comparison import Comparison, compare, counted
from proofs.foreign.differences import DIFFERENCES
from proofs.foreign.plugin import REPORT_FILE, SERVER_PORT, THROUGH
from proofs.foreign.publication import COUNT_FILE
from proofs.foreign.suites import LANES, SUITES, Suites

__all__ = ["Run", "main", "run"]

_ROOT = Path(__file__).parents[2]
_SECONDS_MAX_PER_TEST = 300
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "proofs.foreign.plugin")
# Tests that are meant to find credentials find these; what the user has is none of their business.
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "foreign",
    "AWS_SECRET_ACCESS_KEY": "foreign",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@dataclass(frozen=True)
class Run:
    """One run of one library's suites."""

    outcomes: dict[str, str]
    messages: dict[str, str]
    writes: int  # files that were published from a task


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if something differs that no difference names, or nothing was written."""
    parser = argparse.ArgumentParser(prog="python -m proofs.foreign", description=__doc__)
    parser.add_argument("--only", choices=[one.library for one in SUITES], help="one library")
    parser.add_argument("--work", type=Path, metavar="DIRECTORY", help="where reports and sources are kept")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="magicfs-foreign-") as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        lanes = [[one for one in lane if given.only in {None, one.library}] for lane in LANES]
        with ThreadPoolExecutor(len(lanes)) as pool:
            results = list(chain(*pool.map(lambda lane: [_both(one, work) for one in lane], lanes)))
    return _tell(results)


def _both(suites: Suites, work: Path) -> tuple[Suites, Run, Run]:
    root = suites.root(work)
    plain, through = (run(suites, root, work, how) for how in ("plain", "task"))
    return suites, plain, through


def run(suites: Suites, root: Path, work: Path, how: str) -> Run:
    """Run suites in a pytest of their own: ``plain``, or with every write through a ``task``."""
    name = f"{suites.library}-{how}"
    report, count = work / f"{name}.json", work / f"{name}.count"
    report.unlink(missing_ok=True)
    count.write_bytes(b"")
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        **_CREDENTIALS,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
        REPORT_FILE: str(report),
        COUNT_FILE: str(count),
        THROUGH: how,
        SERVER_PORT: str(suites.server_port or ""),
    }
    command = [
        *(sys.executable, *_PYTEST, "-c", os.devnull, "--rootdir", str(root)),
        *(f"--timeout={_SECONDS_MAX_PER_TEST}", f"--basetemp={work / name}", *suites.options),
        *(str(root / one) for one in suites.files),
    ]
    _say(f"{name}: {suites.version}, {len(suites.files)} files")
    with (work / f"{name}.log").open("wb") as log:
        ended = subprocess.run(  # noqa: S603
            command, cwd=work, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        )
    if not report.exists() or ended.returncode not in {0, 1}:
        _say((work / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-4000:])
        raise SystemExit(f"{name}: the suites could not be run, pytest ended with {ended.returncode}")
    found = json.loads(report.read_text(encoding="utf-8"))
    run = Run(found["outcomes"], found["messages"], count.stat().st_size)
    _say(f"{name}: {counted(run.outcomes)}, {run.writes} files through a task")
    return run


def _tell(results: Sequence[tuple[Suites, Run, Run]]) -> int:
    libraries: dict[str, Any] = {}
    differences = []
    ok = True
    for suites, plain, through in results:
        found = _compared(suites, plain, through)
        ok = ok and not found.troubles
        libraries[suites.library] = {
            "version": suites.version,
            "suites": list(suites.files),
            "tests": len(plain.outcomes),
            "plain": counted(plain.outcomes),
            "through": counted(through.outcomes),
            "writes": through.writes,
            "troubles": list(found.troubles),
        }
        differences += [
            {
                "library": suites.library,
                "test": test,
                "plain": plain.outcomes[test],
                "through": through.outcomes[test],
                "reason": reason,
            }
            for test, reason in found.differing.items()
        ]
    whole = {**libraries, "differences": differences, "ok": ok}
    print(json.dumps(whole, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def _compared(suites: Suites, plain: Run, through: Run) -> Comparison:
    allowed = [one for one in DIFFERENCES if one.library == suites.library]
    found = compare(plain.outcomes, through.outcomes, allowed)
    troubles = list(found.troubles)
    if plain.writes or not through.writes:
        troubles.append(f"{plain.writes} files went through a task plain, {through.writes} in the other run")
    for trouble in troubles:
        test = trouble.partition(" ")[0]
        _say(f"{suites.library}: {trouble}\n    {through.messages.get(test, '')}")
    return Comparison(found.differing, tuple(troubles))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
