"""The stages for destination directories: making them, and finding and deleting old data in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from magicfs.committers.file.merge import in_the_way
from magicfs.committers.manifest.load import Directory
from magicfs.committers.manifest.spill import LIST_LENGTH, Spill, SpilledFile
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import ObjectExists, OutputExists, StoreError
from magicfs.formats.task_manifest import EntryStatus
from magicfs.parallel import drained
from magicfs.protocol import paths

__all__ = ["CreateDirectories", "Created", "DeleteOldData", "FindOldData", "leaves_of", "refuse_obstacles"]


@dataclass(slots=True)
class Created:
    """What became of the directories."""

    created: set[str] = field(default_factory=set)  # keys of those that were made
    outcomes: dict[str, str] = field(default_factory=dict)  # by key, in the words of Hadoop's ``DirMapState``


def leaves_of(directories: Mapping[str, Directory]) -> list[str]:
    """The directories without others below them, the highest first: making these makes all."""
    parents = {key.rpartition("/")[0] for key in directories}
    leaves = [key for key in directories if key not in parents]
    return sorted(leaves, key=lambda key: (directories[key].level, key))


async def refuse_obstacles(
    config: StageConfig, directories: Mapping[str, Directory], spill: Spill, *, new: bool
) -> None:
    """Raise CommitFailed if old data is where a directory or a file shall be. Nothing is changed.

    It looks where there was a file when a task committed; and if names are not unique, in the place of every
    file, unless the options say that what lies there is deleted. ``new``: no file of the job is there yet.
    """
    options = config.options
    if options.delete_obstacles:
        return

    async def look(file: SpilledFile) -> bool:
        entry = await config.tree.look(file.key)
        if entry is not None:
            raise in_the_way(file.key, entry.kind, "file")
        return True

    if new and not (
        config.context.unique_names or options.delete_target_files or options.target_directories == "delete"
    ):
        await drained(spill.files(), look, config.concurrency)
    for key in [key for key, found in directories.items() if found.status is EntryStatus.FILE]:
        # The job itself may have made a directory of it, before it died.
        entry = await config.tree.look(key)
        if entry is not None and entry.kind == "file":
            raise in_the_way(key, "file", "directory")


class CreateDirectories(Stage[Mapping[str, Directory], Created]):
    """Make the deepest directories, in parallel; with ``delete_obstacles`` delete files in the way before.

    Afterwards all directories are there; a second stage on the same makes nothing new. A directory that was
    there when its task committed is not looked at. After a StoreError some may have been deleted or made.
    """

    name = "job_stage_create_target_dirs"

    def __init__(self, config: StageConfig) -> None:
        super().__init__(config)
        self._result = Created()

    async def _run(self, argument: Mapping[str, Directory]) -> Created:
        counts, many = self.config.counts, self.config.concurrency
        files = [key for key, found in argument.items() if found.status is EntryStatus.FILE]
        if files:
            with counts.timed("op_prepare_dir_ancestors"):
                await drained(files, self._delete_file, many)
        leaves = leaves_of(argument)

        async def make(key: str) -> bool:
            self._result.outcomes[key] = await self._make(key, argument[key].status)
            return True

        with counts.timed("op_create_directories"):
            await drained(leaves, make, many)
        return self._result

    async def _delete_file(self, key: str) -> bool:
        # The job itself may have made a directory of it, before it died.
        entry = await self.config.tree.look(key)
        if entry is not None and entry.kind == "file":
            if not self.config.options.delete_obstacles:
                raise in_the_way(key, "file", "directory")
            await self.config.tree.delete(key)
            self.config.counts.add("op_delete_file_under_destination")
            self._result.outcomes[key] = "fileNowDeleted"
        return True

    async def _make(self, key: str, status: EntryStatus) -> str:
        if status is EntryStatus.DIR:
            return "dirFoundInStore"
        if status is not EntryStatus.CREATED_DIR:
            outcome = await self._make_anew(key)
            if outcome == "dirFoundInStore":
                return outcome
        else:
            outcome = "dirWasCreated"
        self._result.created.add(key)
        return outcome

    async def _make_anew(self, key: str) -> str:
        tree = self.config.tree
        try:
            await tree.make_directory(key)
            return "dirWasCreated"
        except StoreError as error:
            entry = await tree.look(key)
            if entry is not None and entry.kind == "directory":
                return "dirFoundInStore"
            if isinstance(error, ObjectExists):
                await self._clear(key)
        await tree.make_directory(key)
        return "dirCreatedOnSecondAttempt"

    async def _clear(self, key: str) -> None:
        """Delete the file that came, since its task committed, where a directory or one above it shall be."""
        destination = self.config.places.destination
        while paths.is_under(key, destination):
            await self._delete_file(key)
            key = key.rpartition("/")[0]


class FindOldData(Stage[tuple[Sequence[str], Spill], int]):
    """Look for visible files in directories, below them too, that are not the job's own; returns how many.

    With ``target_directories="delete"`` their keys go into the spill; with ``"fail"`` one raises
    OutputExists. Nothing is changed at the destination.
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
    """Delete the files that ``FindOldData`` has found, and return how many; directories stay.

    A file that is gone already counts as deleted. What cannot be deleted does not keep the others.
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
