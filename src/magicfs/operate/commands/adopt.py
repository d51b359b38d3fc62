"""``magicfs adopt URL``: add what lies at a destination to its dataset, and mend its manifests."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_report, print_table, write_line
from magicfs.cli.storage import add_destination, check_there
from magicfs.report import human_bytes

HELP = "add files that no job published, and rebuild missing manifests"
PLACE = ("repair", 4)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser, dry_run=True)


def run(arguments: argparse.Namespace) -> int:
    """Adopt, and print what is lost."""
    from magicfs.operate.adopt import adopt

    report = adopt(arguments.url, dry_run=arguments.dry_run, storage_options=arguments.storage_options)
    is_found = bool(report.problem or report.adopted or report.manifest or report.lost)
    if not is_found:
        check_there(arguments)
    if report.adopted and not arguments.json:
        kept = set(report.kept)
        print_table(("WHAT", "KEY"), [("kept" if one in kept else "adopted", one) for one in report.adopted])
        write_line("")
    count = len(report.adopted)
    fields = [
        ("dataset", report.url),
        ("problem", report.problem),
        (
            "would have" if arguments.dry_run else "has now",
            f"{report.files} files ({human_bytes(report.bytes)})",
        ),
        ("linked", ", ".join(report.linked)),
        ("adopted", f"{count} files that were in no manifest: check them" if count else ""),
        ("manifest", report.manifest),
        *(("lost", one) for one in report.lost),
        ("check", "" if arguments.dry_run else f"magicfs verify {report.url}"),
    ]
    nothing = "" if is_found else f"nothing to adopt at {report.url}; nothing was changed"
    return print_report(arguments, report, fields, nothing=nothing)
