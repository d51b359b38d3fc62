"""``python -m proofs.spark_proof``: kill, count, measure; the last line of stdout is JSON.

Each part runs in a process of its own, with a Spark of its own: ``--only`` runs one of them.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proofs.doubles.servers import SERVERS
from proofs.spark_proof.figures import PARTS, Goal, summary

__all__ = ["main"]

_EXECUTOR_KILLS, _DRIVER_KILLS, _STREAM_RESTARTS = 50, 20, 20
_QUICK = (4, 2, 2)
_ROUNDS, _QUICK_ROUNDS = 5, 1
_QUICK_ROWS = 0.02
_LOSERS, _QUICK_LOSERS = 4, 2
_PART_SECONDS = 20 * 60


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts and print the figures; 0 if no row is wrong, nothing is left, and every kill was made.

    Args:
        argv: The arguments after the program's name; by default those of the process.
    """
    arguments = _parser().parse_args(argv)
    goal = _goal(arguments)
    started = time.monotonic()
    if len(goal.parts) == 1:
        found = [_in_this_process(goal.parts[0], goal)]
    else:
        found = [_in_a_process(part, goal) for part in goal.parts]
    figures = summary(found, goal, round(time.monotonic() - started, 1))
    print(json.dumps(figures, separators=(",", ":")))  # noqa: T201
    return 0 if figures["ok"] else 1


def _goal(arguments: argparse.Namespace) -> Goal:
    executors, drivers, streams = (
        _QUICK if arguments.quick else (_EXECUTOR_KILLS, _DRIVER_KILLS, _STREAM_RESTARTS)
    )
    return Goal(
        parts=tuple(part for part in PARTS if part in (arguments.only or PARTS)),
        executor_kills=executors if arguments.executor_kills is None else arguments.executor_kills,
        driver_kills=drivers if arguments.driver_kills is None else arguments.driver_kills,
        stream_restarts=streams if arguments.stream_restarts is None else arguments.stream_restarts,
        quick=arguments.quick,
        server=arguments.server,
        seed=arguments.seed,
    )


def _in_a_process(part: str, goal: Goal) -> dict[str, Any]:
    """Run a part as a process; its figures, or what became of it as a trouble."""
    _say(part, f"begins, seed {goal.seed}")
    command = [sys.executable, "-m", "proofs.spark_proof", *goal.arguments(part)]
    try:
        done = subprocess.run(  # noqa: S603 - this program
            command, stdout=subprocess.PIPE, timeout=_PART_SECONDS, check=False, text=True
        )
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        _say(part, f"WRONG: {type(error).__name__}: {str(error)[:200]}")
        return {"troubles": 1}
    _say(part, f"has ended with status {done.returncode} after {found['seconds']} s")
    return found | {f"seconds_{part}": found["seconds"]}


def _in_this_process(part: str, goal: Goal) -> dict[str, Any]:
    def say(text: str) -> None:
        _say(part, text)

    with tempfile.TemporaryDirectory(prefix=f"magicfs-spark-{part}-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        try:
            with SERVERS[goal.server]() as server:
                return _run(part, goal, server, directory, say)
        except Exception:  # noqa: BLE001 - told, and the figures are printed all the same
            say(f"WRONG: {traceback.format_exc()}")
            _tell_logs(directory, say)
            return {"troubles": 1}


def _run(part: str, goal: Goal, server: Any, directory: Path, say: Any) -> dict[str, Any]:
    # Each part imports what it needs, and a Connect client is not needed by the others.
    from proofs.spark_proof import connect, demo_lines, driver_kills, executor_kills, speculation, speed
    from proofs.spark_proof import stream_kills as streams

    match part:
        case "demo":
            return demo_lines.run(demo_lines.PAGE.read_text(), server, directory, say)
        case "executors":
            return executor_kills.run(goal.executor_kills, goal.seed, server, directory, say)
        case "drivers":
            return driver_kills.run(goal.driver_kills, goal.seed, server, directory, say)
        case "streams":
            return streams.run(goal.stream_restarts, goal.seed, server, directory, say)
        case "speculation":
            return speculation.run(_QUICK_LOSERS if goal.quick else _LOSERS, server, directory, say)
        case "connect":
            return connect.run(server, directory, say)
        case _:
            rounds, rows = (_QUICK_ROUNDS, _QUICK_ROWS) if goal.quick else (_ROUNDS, 1.0)
            # Ministack copies every byte of an upload when it is completed, one upload after the other, which
            # no store does; SeaweedFS puts the parts in a list.
            with SERVERS["seaweedfs"]() as second:
                servers = {"s3": second} | (
                    {} if server.name == "seaweedfs" else {f"s3_{server.name}": server}
                )
                return speed.run(rounds, rows, servers, directory, say)


def _tell_logs(directory: Path, say: Any) -> None:
    for log in sorted(directory.rglob("*.log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        say(f"{log.name} ends:\n" + "\n".join(lines[-25:]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proofs.spark_proof", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few kills, few rows: whether it works at all")
    parser.add_argument("--executor-kills", type=int, help=f"default {_EXECUTOR_KILLS}")
    parser.add_argument("--driver-kills", type=int, help=f"default {_DRIVER_KILLS}")
    parser.add_argument("--stream-restarts", type=int, help=f"default {_STREAM_RESTARTS}, 3 batches each")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be given again")
    parser.add_argument("--server", choices=sorted(SERVERS), default="ministack", help="the store")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of all that is drawn")
    return parser


def _say(part: str, text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} spark {part}: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
