"""A part of ``magicfs maintain`` with a policy: remove what ended jobs have left."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of
from magicfs.protocol.period import parse_period
from magicfs.upkeep.commands.dead_jobs import seconds

if TYPE_CHECKING:
    from magicfs.upkeep.leftovers import Leftover

PLACE: Final = 6
POLICY: Final = {
    "older_than": ("sweep_after_ms", parse_period, "1d"),
    "unrecorded_after": ("unrecorded_after_ms", parse_period),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options: only a policy asks for it."""
    parser.set_defaults(sweep_after_ms=None, unrecorded_after_ms=None)


def run(arguments: argparse.Namespace) -> Part | None:
    """Remove it, if a policy asks for that."""
    if arguments.sweep_after_ms is None:
        return None
    from magicfs.datasets.connection import on_destination
    from magicfs.upkeep.leftovers import sweep_leftovers

    found = on_destination(
        sweep_leftovers,
        arguments.url,
        arguments.storage_options,
        older_than_s=arguments.sweep_after_ms / 1000,
        unrecorded_after_s=seconds(arguments.unrecorded_after_ms),
        dry_run=arguments.dry_run,
    )
    return _part(found, dry_run=arguments.dry_run)


def _part(found: Sequence[Leftover], *, dry_run: bool) -> Part:
    left = [one for one in found if one.action == "left"]
    swept, uploads = len(found) - len(left), sum(one.uploads for one in found)
    would = "would be " if dry_run else ""
    line = f"leftovers of {swept} jobs {would}removed, with {uploads} uploads" if swept else "no leftovers"
    blocks = [[("leftovers of", one.job_id), ("done", "left"), ("reason", one.reason)] for one in left]
    return Part(line, [asdict(one) for one in found], blocks, status_of(found=left or (dry_run and swept)))
