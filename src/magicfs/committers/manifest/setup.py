"""Stages that make the directories of a job attempt and of a task attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator

from magicfs.committers.manifest.stage import Stage
from magicfs.errors import CommitDenied, ObjectExists, ObjectNotFound
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId

__all__ = ["SetupJob", "SetupTask"]

_TRIES = 5


class SetupJob(Stage[None, None]):
    """Make the directories of a new job attempt, and shut those of earlier ones.

    Afterwards tasks can commit, and no driver of an earlier attempt can begin to publish: the directory of
    its manifests has been renamed, which a claim of it needs to do, too, and only one of two renames can.

    Raises:
        CommitDenied: The attempt has been set up before, or a later one has, or an earlier one has begun to
            publish; nothing was changed, but earlier attempts may be shut.
    """

    name = "job_stage_setup"

    async def _run(self, argument: None) -> None:  # noqa: ARG002 - of a job there is nothing to say
        places, tree = self.config.places, self.config.tree
        number, job = self.config.context.layout.attempt, self.config.context.job
        if await tree.look(places.attempt_directory) is not None:
            raise CommitDenied(
                f"Job setup: {places.attempt_directory} exists: attempt {number} of job {job} has been set "
                "up already; nothing was changed; leave it to its driver, or take the next attempt number"
            )
        others = [one async for one in self._attempts()]
        if later := [one for one in others if one > number]:
            raise CommitDenied(
                f"Job setup: attempt {max(later)} of job {job} has been set up already, so attempt {number} "
                "comes too late; nothing was changed; leave the job to that one"
            )
        for other in others:
            await self._shut(other)
        for left in range(_TRIES - 1, -1, -1):
            try:
                await tree.make_directory(places.open_manifests)
                return
            except ObjectNotFound:
                # The last of the other jobs at this destination has removed what they shared.
                if not left:
                    raise

    async def _attempts(self) -> AsyncIterator[int]:
        directory = self.config.places.layout.job_directory
        try:
            async for entry in self.config.tree.entries(directory):
                name = paths.relative_to(entry.path, directory)
                if entry.kind == "directory" and name.isascii() and name.isdigit():
                    yield int(name)
        except ObjectNotFound:
            return

    async def _shut(self, number: int) -> None:
        places, tree = self.config.places, self.config.tree
        directory = f"{places.layout.attempt_directory(number)}/manifests"
        try:
            await tree.rename(directory, places.superseded_manifests(number))
        except ObjectNotFound:
            if await tree.look(places.superseded_manifests(number)) is None:
                raise CommitDenied(
                    f"Job setup: attempt {number} of job {self.config.context.job} has begun to publish; "
                    "nothing was changed; commit that attempt again, which finishes it, or abort it"
                ) from None


class SetupTask(Stage[AttemptId, None]):
    """Make the directory of a new task attempt.

    Raises:
        ObjectExists: The attempt has been set up before; nothing was changed.
    """

    name = "task_stage_setup"

    async def _run(self, argument: AttemptId) -> None:
        tree, directory = self.config.tree, self.config.places.layout.task_attempt_directory(argument)
        if await tree.look(directory) is not None:
            raise ObjectExists(
                "make_directory",
                f"{tree.bucket}/{directory}",
                f"task attempt {argument} has been set up already",
                hint="make a new attempt of the task",
            )
        await tree.make_directory(directory)
