"""``python -m proofs.engines``: every engine through the family exam; the last line of stdout is JSON."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from proofs.doubles.servers import SERVERS, Server
from proofs.engines import rates, schedulers
from proofs.engines.cases import CASES, Ground
from proofs.engines.clusters import CLUSTERS, DISTRIBUTIONS
from proofs.engines.schedulers import SCHEDULERS
from proofs.engines.watching import StallingProxy

__all__ = ["main"]

_BUCKET = "engines"
_RATES = "rates"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the exam; 0 if every engine did in every case what was asked."""
    parser = argparse.ArgumentParser(prog="python -m proofs.engines", description=__doc__)
    parser.add_argument(
        "--engine",
        choices=[*CASES, *SCHEDULERS, _RATES],
        action="append",
        help="only this one; may be repeated; rates: magicfs.write beside the engines' own writers",
    )
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--store", choices=SERVERS, default="seaweedfs", help="by default %(default)s")
    arguments = parser.parse_args(argv)
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="magicfs-engines-") as directory,
        SERVERS[arguments.store]() as server,
        StallingProxy(server.endpoint) as proxy,
    ):
        server.create_bucket(_BUCKET)
        _tell_workers(server, proxy)
        for engine in arguments.engine or [*CASES, *SCHEDULERS, _RATES]:
            if engine == _RATES:
                figures[engine] = _rates(server)
            elif engine in SCHEDULERS:
                figures[engine] = _schedule(engine, server)
            else:
                figures[engine] = _examine(engine, arguments.case, server, proxy, Path(directory))
    ok = all(one["ok"] for one in figures.values())
    print(json.dumps({**figures, "ok": ok}, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def _examine(
    engine: str, chosen: Sequence[str] | None, server: Server, proxy: StallingProxy, directory: Path
) -> Mapping[str, Any]:
    started = time.monotonic()
    versions = {name: version(name) for name in DISTRIBUTIONS[engine]}
    told: dict[str, Any] = {"versions": versions, "cases": {}}
    wrong: dict[str, str] = {}
    with CLUSTERS[engine]() as cluster:
        ground = Ground(engine, server, proxy, _BUCKET, directory, cluster)
        for name, case in CASES[engine].items():
            if chosen and name not in chosen:
                continue
            began = time.monotonic()
            proxy.clear()
            try:
                told["cases"][name] = asdict(case(ground))
            except Exception as error:  # noqa: BLE001 - told, and the other cases are played all the same
                _say(traceback.format_exc())
                wrong[name] = f"{type(error).__name__}: {error}"[:500]
            finally:
                ground.end()
            _say(
                f"{engine}: {name}: {'WRONG' if name in wrong else 'right'}, {time.monotonic() - began:.1f} s"
            )
    return told | {"wrong": wrong, "ok": not wrong, "seconds": round(time.monotonic() - started, 1)}


def _schedule(scheduler: str, server: Server) -> Mapping[str, Any]:
    told: dict[str, Any] = {"versions": {scheduler: version(scheduler)}}
    try:
        return told | schedulers.examine(scheduler, server, _BUCKET) | {"ok": True}
    except (AssertionError, subprocess.SubprocessError) as error:
        _say(traceback.format_exc())
        return told | {"wrong": f"{type(error).__name__}: {error}"[:500], "ok": False}


def _rates(server: Server) -> Mapping[str, Any]:
    """What is too slow is told, and fails nothing: a machine that is busy makes it so, too."""
    try:
        return rates.examine(server, _BUCKET) | {"ok": True}
    except (AssertionError, subprocess.SubprocessError) as error:
        _say(traceback.format_exc())
        return {"wrong": f"{type(error).__name__}: {error}"[:500], "ok": False}


def _tell_workers(server: Server, proxy: StallingProxy) -> None:
    """Put the way to the store where every process finds it: no secret is in any call."""
    os.environ.update(server.environment())
    for name, value in os.environ.items():
        if value == server.endpoint:
            os.environ[name] = proxy.endpoint
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    os.environ["DAFT_PROGRESS_BAR"] = "0"


def _say(text: str) -> None:
    sys.stderr.write(f"engines: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
