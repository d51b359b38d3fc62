"""``magicfs demo``: the flights of 2013, published by Spark while a worker is killed, and checked."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from magicfs.cli.printing import print_fields, print_json, print_table, write_line
from magicfs.demo.main import STORES

if TYPE_CHECKING:
    from magicfs.demo.proof import Report

__all__ = ["HELP", "configure", "run"]

HELP = "publish 336,776 flights with Spark, kill a worker meanwhile, and prove that nothing was seen or lost"
_NOT_PROVEN = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
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


def run(arguments: argparse.Namespace) -> int:
    """Run the demo. Returns 0 if every proof holds, else 1."""
    from magicfs.demo.main import run as run_demo

    report = run_demo(server_url=arguments.server, engine=arguments.engine, store=arguments.store)
    if arguments.json:
        print_json(report.to_dict())
    else:
        _print(report)
    failures = report.failures()
    for failure in failures:
        sys.stderr.write(f"magicfs: not proven: {failure}\n")
    return _NOT_PROVEN if failures else 0


def _print(report: Report) -> None:
    main, killed, attempts = report.main, report.killed, report.attempts
    victim = "nobody"
    if killed is not None:
        victim = f"process {killed.pid} at task {killed.task}, attempt {attempts.of_task(killed.task)}"
    print_fields(
        [
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
        ]
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
