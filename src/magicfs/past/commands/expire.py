"""A part of ``magicfs maintain``: delete replaced files whose time is over."""

from __future__ import annotations

import argparse

from magicfs.cli.guests import Part
from magicfs.cli.printing import human_moment
from magicfs.cli.statuses import status_of
from magicfs.past.retention import Keep
from magicfs.report import human_bytes

PLACE = 2
POLICY = {"keep": ("expire_keep", Keep.of)}


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options; a policy may have a rule."""
    parser.set_defaults(expire_keep=None)


def run(arguments: argparse.Namespace) -> Part:
    """Delete them."""
    from magicfs.past.expire import expire

    how = {"keep": arguments.expire_keep, "dry_run": arguments.dry_run}
    report = expire(arguments.url, **how, storage_options=arguments.storage_options)
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
