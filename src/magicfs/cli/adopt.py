"""``magicfs adopt URL``: take what lies at a destination into its dataset, and mend its manifests."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_fields, print_json, print_table, write_line
from magicfs.cli.storage import add_storage_options, parse_storage_options

__all__ = ["HELP", "configure", "run"]

HELP = "add files that no job has published to a dataset, and mend manifests that are lost"
_FOUND = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and print what would be done")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Adopt, and print what is lost. Returns 0; 1 with ``--dry-run`` if there is something to do."""
    from magicfs.datasets.adopt import adopt
    from magicfs.report import human_bytes

    report = adopt(
        arguments.url,
        dry_run=arguments.dry_run,
        storage_options=parse_storage_options(arguments.storage_options),
    )
    is_found = bool(report.problem or report.adopted or report.manifest)
    code = _FOUND if arguments.dry_run and is_found else 0
    if arguments.json:
        print_json(report.to_dict())
        return code
    if not is_found:
        write_line(f"nothing to adopt at {report.url}; nothing was changed")
        return code
    if report.adopted:
        kept = set(report.kept)
        print_table(("WHAT", "KEY"), [("kept" if one in kept else "adopted", one) for one in report.adopted])
        write_line("")
    has, then = "has now", f"magicfs verify {report.url}"
    if arguments.dry_run:
        has, then = "would have", "magicfs adopt without --dry-run"
    count = len(report.adopted)
    print_fields(
        [
            ("dataset", report.url),
            ("problem", report.problem),
            (has, f"{report.files} files ({human_bytes(report.bytes)})"),
            ("adopted", f"{count} files that no manifest named: look at them" if count else ""),
            ("manifest", report.manifest),
            *(("lost", one) for one in report.lost),
            ("next", then),
        ]
    )
    return code
