"""A part of ``magicfs maintain`` with a policy: end jobs whose drivers are dead."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of
from magicfs.protocol.period import parse_period

if TYPE_CHECKING:
    from magicfs.upkeep.dead_jobs import DeadJob

PLACE: Final = 0
POLICY: Final = {
    "finish_after": ("finish_after_ms", parse_period, "10m"),
    "abort_after": ("abort_after_ms", parse_period),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options: only a policy asks for it."""
    parser.set_defaults(finish_after_ms=None, abort_after_ms=None)


def run(arguments: argparse.Namespace) -> Part | None:
    """End them, if a policy asks for that."""
    if arguments.finish_after_ms is None:
        return None
    from magicfs.datasets.connection import on_destination
    from magicfs.upkeep.dead_jobs import Limits, end_dead_jobs

    found = on_destination(
        end_dead_jobs,
        arguments.url,
        arguments.storage_options,
        limits=Limits(arguments.finish_after_ms / 1000, seconds(arguments.abort_after_ms)),
        dry_run=arguments.dry_run,
    )
    return _part(found, dry_run=arguments.dry_run)


def _part(found: Sequence[DeadJob], *, dry_run: bool) -> Part:
    left = [one for one in found if one.action == "left"]
    blocks = [
        [("job", one.job_id), ("found", one.found), ("done", one.action), ("reason", one.reason)]
        for one in found
    ]
    ended = len(found) - len(left)
    line = f"{ended} jobs {'would be ' if dry_run else ''}ended, {len(left)} left"
    status = status_of(found=any(one.decide for one in found) or (dry_run and ended))
    return Part(line if found else "no unfinished job", [asdict(one) for one in found], blocks, status)


def seconds(milliseconds: int | None) -> float | None:
    """The same in seconds."""
    return None if milliseconds is None else milliseconds / 1000
