"""A part of ``magicfs maintain``: put small files together."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of
from magicfs.errors import UsageError
from magicfs.past.commands.keeping import add_keeping
from magicfs.past.commands.settings import size, texts
from magicfs.past.retention import Keep
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.tables.rewrite import RewriteReport

PLACE = 1

POLICY = {
    "target": ("rewrite", size, "128M"),
    "partitions": ("partitions", texts),
    "keep": ("keep", Keep.or_period),
}
_OPTIONS = ("partitions", "keep", "keep_in_place", "run_id")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument(
        "--rewrite",
        metavar="SIZE",
        type=_bytes,
        help="also merge small Parquet files into files of about this size, such as 128M or 1G",
    )
    parser.add_argument(
        "--partition",
        metavar="DIRECTORY",
        dest="partitions",
        action="append",
        help="with --rewrite: only this directory, relative to URL, such as day=2026-01-01; may be repeated",
    )
    add_keeping(parser, "with --rewrite: how long to keep old files, such as 7d; by default not at all")
    parser.add_argument(
        "--run-id", metavar="ID", help="with --rewrite: name of the run; a second rewrite does nothing"
    )


def _bytes(text: str) -> int:
    try:
        return size("--rewrite", text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError if arguments lack that need others."""
    given = [name for name in _OPTIONS if getattr(arguments, name)]
    if arguments.rewrite is None and (given or "rewrite" in (arguments.only or ())):
        raise UsageError("give the target file size with --rewrite, such as --rewrite 128M")


def run(arguments: argparse.Namespace) -> Part | None:
    """Rewrite, if that is asked for."""
    if arguments.rewrite is None:
        return None
    from magicfs.tables.rewrite import rewrite

    report = rewrite(
        arguments.url,
        target_size=arguments.rewrite,
        dry_run=arguments.dry_run,
        storage_options=arguments.storage_options,
        **{name: getattr(arguments, name) for name in _OPTIONS},
    )
    return _part(report, dry_run=arguments.dry_run, keep=arguments.keep)


def _part(report: RewriteReport, *, dry_run: bool, keep: str | None) -> Part:
    line = "no small files"
    if report.files:
        done, old, new = "would replace" if dry_run else "replaced", report.files, report.new_files
        line = f"{done} {old} files ({human_bytes(report.bytes)}) by {new} ({human_bytes(report.new_bytes)})"
    if report.published_before:
        line = f"job {report.job_id} already made this rewrite; nothing was rewritten now"
    more = [
        ("job", report.job_id if report.files else ""),
        ("rows", report.rows),
        ("left", f"{report.left} small files with a schema that pyarrow cannot write" if report.left else ""),
        ("kept", f"the old files, for {keep}" if report.kept else ""),
        *(("warning", one) for one in report.warnings),
    ]
    status = status_of(found=dry_run and report.files, unfinished=report.warnings)
    return Part(line, report.to_dict(), [more], status)
