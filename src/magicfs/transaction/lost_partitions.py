"""Partitions that a job replaces by nothing, reported before its commit point."""

from __future__ import annotations

import logging
from typing import Final

from magicfs.protocol.replacement import Replacement, lost_partitions
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = ["warn_of_lost"]

_LOGGER = logging.getLogger("magicfs")
_SHOWN: Final = 3


def warn_of_lost(context: JobContext, output: JobOutput, found: Replacement) -> list[str]:
    """Log and return a warning if ``replace`` is about to delete partitions that the job does not write."""
    if context.options.conflict != "replace" or context.options.rollback.job is not None:
        return []
    old = (one.key for one in found.deleted)
    lost = lost_partitions(context.layout.destination, old, output.final_keys())
    if not lost:
        return []
    more = ", …" if len(lost) > _SHOWN else ""
    count = "1 partition is" if len(lost) == 1 else f"{len(lost):,} partitions are"
    warning = (
        f"{count} replaced by nothing, such as {', '.join(lost[:_SHOWN])}{more}: conflict='replace' deletes "
        "the whole dataset; use conflict='replace_partitions' to replace only the partitions that you write"
    )
    _LOGGER.warning("job %s, %s: %s", context.job, context.url, warning)
    return [warning]
