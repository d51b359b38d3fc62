"""Stages for data that lies already in the directories that a job writes to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from magicfs.committers.manifest.spill import LIST_LENGTH, Spill
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import OutputExists, StoreError
from magicfs.parallel import drained
from magicfs.protocol import paths

__all__ = ["DeleteOldData", "FindOldData"]


class FindOldData(Stage[tuple[Sequence[str], Spill], int]):
    """Look for visible files in directories, below them too, that are not the job's own.

    With ``target_directories="delete"`` their keys go into the spill. Nothing is changed at the destination.

    Returns:
        How many there are.

    Raises:
        OutputExists: ``target_directories="fail"``, and there is one.
    """

    name = "job_stage_find_old_data"

    def __init__(self, config: StageConfig) -> None:
        super().__init__(config)
        self._count = 0

    async def _run(self, argument: tuple[Sequence[str], Spill]) -> int:
        directories, spill = argument

        async def look(directory: str) -> bool:
            waiting: list[str] = []
            async for key in self._files(directory):
                waiting.append(key)
                if len(waiting) == LIST_LENGTH:
                    await self._take(spill, waiting)
                    waiting = []
            await self._take(spill, waiting)
            return True

        await drained(directories, look, self.config.concurrency)
        return self._count

    async def _take(self, spill: Spill, keys: Sequence[str]) -> None:
        # What a dead driver of this job has renamed already is new.
        old = await spill.foreign(keys)
        if old and self.config.options.target_directories == "fail":
            raise OutputExists(
                f"{old[0]} lies in a directory that job {self.config.context.job} is to write to, and "
                "target_directories='fail'; nothing was changed; remove it, or choose another destination"
            )
        await spill.add_old(old)
        self._count += len(old)

    async def _files(self, directory: str) -> AsyncIterator[str]:
        places, tree, below = self.config.places, self.config.tree, [directory]
        while below:
            here = below.pop()
            entry = await tree.look(here)
            if entry is None or entry.kind == "file":
                continue
            async for entry in tree.entries(here):
                if not paths.is_visible(entry.path, places.destination):
                    continue
                if entry.kind == "directory":
                    below.append(entry.path)
                else:
                    yield entry.path


class DeleteOldData(Stage[Spill, int]):
    """Delete the files that ``FindOldData`` has found; directories stay.

    A file that is gone already counts as deleted. What cannot be deleted does not keep the others.

    Returns:
        How many were deleted.

    Raises:
        StoreError: One could not be deleted.
    """

    name = "job_stage_delete_old_data"

    async def _run(self, argument: Spill) -> int:
        deleted = 0
        errors: list[StoreError] = []

        async def one(key: str) -> bool:
            nonlocal deleted
            try:
                was_there = await self.config.tree.delete(key)
                deleted += was_there
            except StoreError as error:
                errors.append(error)
            return True

        await drained(argument.old(), one, self.config.concurrency)
        self.config.counts.add("op_delete", deleted)
        if errors:
            errors[0].add_note(f"and {len(errors) - 1} more old files could not be deleted")
            raise errors[0]
        return deleted
