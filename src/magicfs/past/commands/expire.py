"""A part of ``magicfs maintain``: delete replaced files whose time is over."""

from __future__ import annotations

import argparse

from magicfs.cli.guests import Part
from magicfs.cli.printing import human_moment
from magicfs.cli.statuses import status_of
from magicfs.report import human_bytes

__all__ = ["PLACE", "configure", "run"]

PLACE = 2


def configure(_: argparse.ArgumentParser) -> None:
    """It has no arguments."""


def run(arguments: argparse.Namespace) -> Part:
    """Delete them."""
    from magicfs.past.expire import expire

    report = expire(arguments.url, dry_run=arguments.dry_run, storage_options=arguments.storage_options)
    done = "would delete" if arguments.dry_run else "deleted"
    line = "no file is due"
    if report.jobs:
        files = f"{report.files} files ({human_bytes(report.bytes)})"
        line = f"{done} {files} that {len(report.jobs)} jobs replaced"
    if report.keeping:
        line += (
            f"; {report.keeping} jobs still keep files, the next expires {human_moment(report.next_ms or 0)}"
        )
    stays = [("stays", f"{key}: another program rewrote it") for key in report.altered]
    return Part(line, report.to_dict(), [stays], status_of(found=arguments.dry_run and report.jobs))
