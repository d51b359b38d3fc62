"""Which of the two algorithms a job of the file committer has."""

from __future__ import annotations

from magicfs.committers.file.algorithm2 import TaskPublishingCommitter
from magicfs.committers.file.committer import FileCommitter
from magicfs.committers.options import FileOptions
from magicfs.engine import Engine
from magicfs.transaction.context import JobContext

__all__ = ["make"]


def make(context: JobContext, engine: Engine) -> FileCommitter:
    """The committer with the algorithm that the options name."""
    options = context.committer_options
    if isinstance(options, FileOptions) and options.algorithm == 2:
        return TaskPublishingCommitter(context, engine)
    return FileCommitter(context, engine)
