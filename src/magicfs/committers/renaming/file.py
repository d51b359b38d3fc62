"""The file committer: Hadoop's ``FileOutputCommitter``, on anything with a rename or a copy.

Tasks write plain files below ``_temporary``, and the job commit renames them to where they belong. On a
filesystem a rename is one step; an object store copies every byte. Hadoop moves a task's files twice: to a
directory of the task, and then to the destination. Here what counts is the manifest that an attempt saves, so
its files stay where they are until the job commits.

It differs from Hadoop's where that loses data or publishes it twice: it works under the job object, so that
two jobs at one destination do not meet, no attempt can touch what another has committed, and a job commit
that died is carried on by whoever comes next.
"""

from __future__ import annotations

from dataclasses import replace

from magicfs.committers.registry import FileOptions
from magicfs.committers.renaming.base import RenamingCommitter
from magicfs.engine import Engine
from magicfs.formats.task_commit import Counters
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.transaction.context import JobContext, RenameSettings


class FileCommitter(RenamingCommitter):
    """See ``magicfs.committers.base.Committer`` for the contract.

    It promises the same on all stores: none of it rests on a rename being one step. Where a rename is a copy,
    a job past its commit point only goes forward.
    """

    name = "file"
    skips_success = True
    at_task_commit = False  # whether a task's files become visible then

    def __init__(self, context: JobContext, engine: Engine) -> None:
        given = context.committer_options
        options = given if isinstance(given, FileOptions) else FileOptions()
        settings = RenameSettings(overwrites=options.delete_obstacles, at_task_commit=self.at_task_commit)
        super().__init__(replace(context, renames=settings), engine)
        self.deletes_obstacles: bool = options.delete_obstacles

    async def _scanned(self, task: TaskId, attempt: AttemptId, counters: Counters | None) -> TaskManifest:
        counted = {**(counters or {}), "committer_tasks_completed": 1}
        return await super()._scanned(task, attempt, counted)
