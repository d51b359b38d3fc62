"""A job of Hadoop's that has not ended, whichever committer began it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from magicfs.committers.staging.cluster import ClusterSets
from magicfs.datasets.foreign_jobs.fates import Fates
from magicfs.errors import UsageError
from magicfs.report import ForeignJob, RecoveredJob
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = ["FOUND", "DeadJob", "as_left", "promise_missing"]

FOUND = "hadoop"
"""What reports call the state of such a job, which has none."""


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A job of Hadoop's that has not ended."""

    context: JobContext  # under which it is committed or aborted
    output: JobOutput  # what its tasks have committed in the last job attempt
    fates: Fates  # of these files
    told: ForeignJob
    modified: float  # when something of it was written last, in seconds since the epoch
    cluster: ClusterSets | None = None  # where a staging committer keeps its sets
    look: Callable[[], Awaitable[Fates]] | None = None
    """Looks at the files once more, where they are no uploads."""


def as_left(one: DeadJob) -> RecoveredJob:
    """A job that somebody has to decide about."""
    age_s = max(0.0, time.time() - one.modified)
    return RecoveredJob(one.context.job, FOUND, "left", age_s, "", files=one.told.files, foreign=one.told)


def promise_missing(one: DeadJob, url: str = "") -> UsageError:
    """The error for a command that was not told that no driver lives, or, with a URL, cannot be told."""
    told = one.told
    published = f", of which {told.published} are published already" if told.published else ""
    how = "pass driver_is_dead=True, on the command line --driver-is-dead"
    if url:
        how = f"run magicfs commit {url} --driver-is-dead, or magicfs abort {url} --driver-is-dead"
    return UsageError(
        f"job {one.context.job} is one of Hadoop's {told.committer} committer: {told.tasks} tasks have "
        f"committed {told.files} files{published}; nothing was changed; its driver cannot be kept from "
        f"committing or aborting it at the same time, so make sure that no process of it lives and {how}"
    )
