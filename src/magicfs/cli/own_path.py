"""What ``publish`` and ``discard`` share: their argument, and how they tell what was done."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from magicfs.cli.printing import print_fields, print_json, printable, write_line

if TYPE_CHECKING:
    from magicfs.datasets.own_paths import PathReport

__all__ = ["add_path", "tell"]


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add the path."""
    parser.add_argument(
        "path",
        metavar="PATH",
        help="a file or directory below a magic element, such as s3://bucket/sales/__magic/mine",
    )


def tell(report: PathReport, *, as_json: bool) -> None:
    """Print a report."""
    from magicfs.report import human_bytes

    if as_json:
        print_json(report.to_dict())
        return
    next_step = ""
    if report.action.startswith("would"):
        next_step = "nothing was changed; leave --dry-run out to do it"
    elif report.action == "published before":
        next_step = "another call has published these files, as its --mode said; nothing was replaced now"
    rows: list[tuple[str, object]] = [
        ("path", report.path),
        ("destination", report.destination),
        ("done", report.action),
        ("files", f"{report.files} ({human_bytes(report.bytes)})"),
        *(("warning", one) for one in report.warnings),
        *([("next", next_step)] if next_step else []),
    ]
    print_fields(rows)
    for url in report.filenames:
        write_line(f"  {printable(url)}")
