"""Algorithm 1 of the file committer: tasks leave files below ``_temporary``, the job commit moves them.

Hadoop moves a task's files twice: to a directory of the task, and then to the destination. Here what counts
is the manifest that an attempt saves, so its files stay where they are until the job commits.
"""

from __future__ import annotations

from dataclasses import replace

from magicfs.committers.options import FileOptions
from magicfs.committers.renaming.base import RenamingCommitter
from magicfs.engine import Engine
from magicfs.formats.task_commit import Counters
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.transaction.context import JobContext, RenameSettings

__all__ = ["FileCommitter"]


class FileCommitter(RenamingCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract.

    It promises the same on all stores: none of it rests on a rename being one step. Where a rename is a copy,
    a job past its commit point only goes forward.
    """

    name = "file"
    skips_success = True

    def __init__(self, context: JobContext, engine: Engine) -> None:
        options = (
            context.committer_options if isinstance(context.committer_options, FileOptions) else FileOptions()
        )
        settings = RenameSettings(overwrites=options.delete_obstacles, at_task_commit=options.algorithm == 2)
        super().__init__(replace(context, renames=settings), engine)
        self.deletes_obstacles = options.delete_obstacles

    async def _scanned(self, task: TaskId, attempt: AttemptId, counters: Counters | None) -> TaskManifest:
        counted = {**(counters or {}), "committer_tasks_completed": 1}
        return await super()._scanned(task, attempt, counted)
