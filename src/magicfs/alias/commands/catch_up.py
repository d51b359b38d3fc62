"""A part of ``magicfs recover`` and ``magicfs maintain``: an alias that a dead process left behind."""

from __future__ import annotations

import argparse
from typing import Final

from magicfs.cli.guests import Part
from magicfs.cli.statuses import status_of

PLACE = 7
POLICY: Final[dict[str, object]] = {}


def configure(parser: argparse.ArgumentParser) -> None:
    """It has no options."""


def run(arguments: argparse.Namespace) -> Part | None:
    """Bring it along. Returns None if the dataset has no alias."""
    from magicfs.alias.catch_up import catch_up

    found = catch_up(arguments.url, dry_run=arguments.dry_run, storage_options=arguments.storage_options)
    if found is None:
        return None
    line = f"{found.url}: {found.done}"
    block = [("alias", found.url), ("done", found.done), ("reason", found.problem)]
    status = status_of(found=found.done in {"left", "would move", "would remove"})
    return Part(line, found.to_dict(), [block] if found.problem else [], status)
