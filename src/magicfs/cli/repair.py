"""``magicfs repair URL``: make a dataset readable again whose chain of manifests is broken."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_fields, print_json, print_table, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "configure", "run"]

HELP = "make a dataset readable again of which a manifest or the pointer is lost, and tell what is lost"
_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Repair, and print what is lost. Returns 0; 1 with ``--dry-run`` if there is something to repair."""
    from magicfs.datasets.repair import repair
    from magicfs.report import human_bytes

    report = repair(
        arguments.url,
        dry_run=arguments.dry_run,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    code = _FOUND if arguments.dry_run and report.problem else 0
    if arguments.json:
        print_json(report.to_dict())
        return code
    if not report.problem:
        write_line(f"nothing to repair at {report.url}; nothing was changed")
        return code
    log = [("log", f"made anew, of {report.logged} publications")] if report.logged else []
    if report.lost is None and report.newest is None:
        again = "magicfs repair without --dry-run" if arguments.dry_run else f"magicfs log {report.url}"
        print_fields([("dataset", report.url), ("problem", report.problem), *log, ("next", again)])
        return code
    keys = [("recovered", key) for key in report.recovered] + [("missing", key) for key in report.missing]
    if keys:
        print_table(("WHAT", "KEY"), keys)
        write_line("")
    print_fields(
        [
            ("dataset", report.url),
            ("problem", report.problem),
            ("newest", report.newest and f"job {report.newest}, it seems; the pointer was lost"),
            ("lost", report.lost and f"what job {report.lost} and those before it say they brought"),
            (
                "would have" if arguments.dry_run else "has now",
                f"{report.files} files ({human_bytes(report.bytes)})",
            ),
            (
                "recovered",
                f"{len(report.recovered)} files that no readable manifest names: look at them"
                if report.lost
                else "",
            ),
            ("missing", f"{len(report.missing)} files" if report.missing else ""),
            ("manifest", report.manifest or ""),
            *log,
            (
                "next",
                "magicfs repair without --dry-run" if arguments.dry_run else f"magicfs verify {report.url}",
            ),
        ]
    )
    return code
