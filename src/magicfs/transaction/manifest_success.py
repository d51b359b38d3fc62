"""What ``_SUCCESS`` of a manifest committer says more than that of others, under Hadoop's names."""

from __future__ import annotations

import getpass
from contextlib import suppress
from dataclasses import replace

from magicfs.formats.document import iso_text
from magicfs.formats.success import SuccessData

__all__ = ["as_manifest_committer"]


def as_manifest_committer(success: SuccessData, concurrency: int, *, files: int, tasks: int) -> SuccessData:
    """The same as Hadoop's manifest committer says it; ``formats.success.manifest_success`` writes it."""
    diagnostics = {
        "mapreduce.manifest.committer.io.threads": str(concurrency),
        "stage": "committer_commit_job",
    }
    with suppress(OSError, KeyError, ImportError):
        diagnostics["principal"] = getpass.getuser()
    counted = {"committer_files_committed": files, "committer_tasks_completed": tasks}
    return replace(
        success,
        date=iso_text(success.timestamp_ms),
        diagnostics={**success.diagnostics, **diagnostics},
        statistics=replace(success.statistics, counters={**success.statistics.counters, **counted}),
    )
