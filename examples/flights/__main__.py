"""``python -m examples.flights``: the flights of 2013, published while a worker is killed, and checked.

The exit status is 0 if every proof holds, 1 if one does not, and else that of the command line of magicfs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from examples.flights.main import STORES, run
from magicfs.cli.printing import print_fields, print_json, print_table, write_line
from magicfs.cli.statuses import exit_code
from magicfs.errors import MagicError

if TYPE_CHECKING:
    from examples.flights.proof import Report

__all__ = ["main"]

_NOT_PROVEN = 1
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status. ``argv``: by default the process's."""
    arguments = _parser().parse_args(argv)
    try:
        report = run(server_url=arguments.server, engine=arguments.engine, store=arguments.store)
    except MagicError as error:
        said = "\n  ".join([str(error), *getattr(error, "__notes__", ())])
        sys.stderr.write(f"magicfs: {said}\n")
        return exit_code(error)
    except KeyboardInterrupt:
        sys.stderr.write("magicfs: interrupted\n")
        return _INTERRUPTED
    if arguments.json:
        print_json(report.to_dict())
    else:
        _print(report)
    failures = report.failures()
    for failure in failures:
        sys.stderr.write(f"magicfs: not proven: {failure}\n")
    return _NOT_PROVEN if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights",
        description="Publish 336,776 flights with Spark, kill a worker meanwhile, and prove that nothing was "
        "seen or lost.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="an S3 endpoint, with credentials from the environment; by default SeaweedFS is started",
    )
    parser.add_argument(
        "--store",
        choices=STORES,
        default="s3",
        help="what is started: SeaweedFS, a double of Google Cloud Storage, or Azurite; or no server at all, "
        "but a directory of this machine; by default %(default)s",
    )
    parser.add_argument(
        "--engine",
        choices=("spark", "processes"),
        help="by default Spark, or processes where there is no Java 17 or later",
    )
    parser.add_argument("--json", action="store_true", help="print one compact JSON line")
    return parser


def _print(report: Report) -> None:
    main, killed, attempts = report.main, report.killed, report.attempts
    victim = "nobody"
    if killed is not None:
        victim = f"process {killed.pid} at task {killed.task}, attempt {attempts.of_task(killed.task)}"
    print_fields(
        ("engine", report.engine),
        ("server", " ".join(str(value) for value in report.server.values() if value is not None)),
        ("rows", f"{main.expected.rows} in, {main.found.content.rows} out, in {main.found.files} files"),
        ("content", _equal(main.content_equal)),
        ("before the job commit", f"{main.visible_before_commit} files visible in {main.looks} looks"),
        (
            "pending uploads",
            f"{main.pending_before_commit} before, {main.pending_after} after the job commit",
        ),
        ("killed (SIGKILL)", victim),
        ("task attempts", f"{len(attempts.killed)} killed, {attempts.retried} retried"),
    )
    write_line("")
    rows = [
        (
            one.how,
            str(one.found.content.rows),
            str(one.found.files),
            _equal(one.content_equal),
            str(one.visible_before_commit),
            str(one.pending_after),
        )
        for one in (main, *report.also)
    ]
    print_table(("WRITTEN BY", "ROWS", "FILES", "CONTENT", "SEEN EARLY", "LEFT PENDING"), rows)
    verdict = "NOT PROVEN" if report.failures() else "every proof holds"
    write_line("")
    write_line(f"{verdict}, after {report.seconds:.0f} s")


def _equal(equal: bool) -> str:
    return "equal" if equal else "DIFFERENT"


if __name__ == "__main__":
    sys.exit(main())
