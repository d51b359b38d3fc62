"""The stage that makes the destination directories of all files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from magicfs.committers.manifest.load import Directory
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import ObjectExists, StoreError
from magicfs.formats.task_manifest import EntryStatus
from magicfs.parallel import drained
from magicfs.protocol import paths

__all__ = ["CreateDirectories", "Created", "leaves_of"]


@dataclass(slots=True)
class Created:
    """What became of the directories.

    Attributes:
        created: Keys of those that were made.
        outcomes: What became of each that was looked at, by key, in the words of Hadoop's ``DirMapState``.
    """

    created: set[str] = field(default_factory=set)
    outcomes: dict[str, str] = field(default_factory=dict)


def leaves_of(directories: Mapping[str, Directory]) -> list[str]:
    """The directories without others below them, the highest first: making these makes all."""
    parents = {key.rpartition("/")[0] for key in directories}
    leaves = [key for key in directories if key not in parents]
    return sorted(leaves, key=lambda key: (directories[key].level, key))


class CreateDirectories(Stage[Mapping[str, Directory], Created]):
    """Delete files that are in the way, then make the deepest directories, in parallel.

    Afterwards all directories are there; a second stage on the same makes nothing new. A directory that was
    there when its task committed is not looked at.

    Raises:
        StoreError: A file could not be deleted or a directory not be made. Others may have been.
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
