"""Stages that scan, commit and abort what a task attempt wrote."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from magicfs.committers.manifest.save import SaveTaskManifest
from magicfs.committers.manifest.setup import SetupTask, read_whole
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ObjectNotFound,
    ProtocolViolation,
    Unavailable,
    UsageError,
)
from magicfs.formats.task_manifest import (
    TASK_MANIFEST_SIZE_LIMIT,
    DirectoryEntry,
    EntryStatus,
    FileEntry,
    TaskManifest,
)
from magicfs.protocol import ids, paths
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.stores.tree_port import Entry

__all__ = ["AbortTask", "CommitTask", "ScanTaskAttempt"]

_DESTINATION_LEVEL = 0


@dataclass(slots=True)
class _Found:
    """What the scan has found so far: final keys, each once."""

    files: dict[str, FileEntry] = field(default_factory=dict)
    directories: list[DirectoryEntry] = field(default_factory=list)
    depth: int = 0


class ScanTaskAttempt(Stage[tuple[TaskId, AttemptId], TaskManifest]):
    """List what an attempt wrote, and look at the destination directories that it needs.

    One directory after the other, as in Hadoop; below a directory that is not at the destination nothing is
    looked at there. What is neither file nor directory is left out. Nothing is changed. Raises ObjectNotFound
    if the attempt has no directory; CommitFailed if a file cannot be published under its name, or two have
    one final name.
    """

    name = "task_stage_scan_directory"

    def __init__(self, config: StageConfig) -> None:
        super().__init__(config)
        self._found = _Found()

    async def _run(self, argument: tuple[TaskId, AttemptId]) -> TaskManifest:
        task, attempt = argument
        places, counts = self.config.places, self.config.counts
        root = places.layout.task_attempt_directory(attempt)
        await self._scan(task, root, "", EntryStatus.UNKNOWN, _DESTINATION_LEVEL)
        files = tuple(self._found.files.values())
        counts.sample("committer_task_file_count", len(files))
        counts.sample("committer_task_directory_count", len(self._found.directories))
        counts.sample("committer_task_directory_depth", self._found.depth)
        return TaskManifest(
            job_id=self.config.context.job,
            job_attempt=self.config.context.layout.attempt,
            task_id=task,
            attempt_id=attempt,
            attempt_directory=places.uri(root),
            files=files,
            directories=tuple(self._found.directories),
        )

    async def _scan(self, task: TaskId, root: str, relative: str, parent: EntryStatus, level: int) -> None:
        """Scan one directory.

        ``relative`` is its path below the attempt's directory ``root``; ``parent`` is what lies at its
        destination.
        """
        self._found.depth = max(self._found.depth, level)
        directory = paths.join(root, relative)
        below: list[tuple[str, EntryStatus]] = []
        status = parent
        async for entry in self.config.tree.entries(directory):
            name = paths.relative_to(entry.path, root)
            if entry.kind == "file":
                self._add(task, name, entry)
                continue
            if is_reserved(name):
                below.append((name, EntryStatus.NOT_FOUND))  # nothing is made of it; its files are refused
                continue
            if status is EntryStatus.UNKNOWN:
                status = await self._status(self.config.places.destination)
            found = EntryStatus.NOT_FOUND
            destination = paths.join(self.config.places.destination, name)
            if status is EntryStatus.DIR:
                found = await self._status(destination)
            self._found.directories.append(
                DirectoryEntry(self.config.places.uri(destination), int(found), level + 1)
            )
            below.append((name, found))
        for name, found in below:
            await self._scan(task, root, name, found, level + 1)

    async def _status(self, key: str) -> EntryStatus:
        entry = await self.config.tree.look(key) if key else Entry(key, "directory")
        if entry is None:
            return EntryStatus.NOT_FOUND
        return EntryStatus.DIR if entry.kind == "directory" else EntryStatus.FILE

    def _add(self, task: TaskId, name: str, entry: Entry) -> None:
        key = self.config.final_key(name, task)
        if (problem := self._problem(key)) is not None:
            raise CommitFailed(
                f"task {task} wrote {name!a}, which cannot be published: {problem}; nothing was committed; "
                "give the file another name",
                failed=[key],
            )
        if key in self._found.files:
            raise CommitFailed(
                f"task {task} wrote two files whose final name is {key}; nothing was committed; give one of "
                "them another name",
                failed=[key],
            )
        places = self.config.places
        self._found.files[key] = FileEntry(
            places.uri(entry.path), places.uri(key), entry.size, entry.etag or None
        )
        self.config.counts.sample("committer_task_file_size", entry.size)

    def _problem(self, key: str) -> str | None:
        if is_reserved(paths.relative_to(key, self.config.places.destination)):
            return "committers keep their work under such names"
        try:
            longest = max(len(element.encode()) for element in key.split("/"))
        except UnicodeEncodeError:
            return "its name is no valid Unicode"
        most = self.config.name_bytes_max
        if most and longest > most:
            return (
                f"an element of its final name {key!a} has {longest} bytes, and at most {most} are possible"
            )
        return None


class CommitTask(Stage[tuple[TaskId, AttemptId], TaskManifest]):
    """Scan what an attempt wrote, and save its manifest. A failure deletes the attempt's files, except
    CommitOutcomeUnknown: the store did not say whether the manifest was saved.
    """

    name = "task_stage_commit"

    async def _run(self, argument: tuple[TaskId, AttemptId]) -> TaskManifest:
        config, (task, attempt) = self.config, argument
        try:
            if await self._wrote_nothing(attempt):
                await SetupTask(config).run(attempt)
            manifest = await ScanTaskAttempt(config).run(argument)
            return (await SaveTaskManifest(config).run(manifest)).manifest
        except Unavailable as error:
            raise CommitOutcomeUnknown(
                f"the store did not say whether task {task} was committed; nothing was deleted; commit the "
                f"task again: {error}"
            ) from error
        except MagicError as error:
            if isinstance(error, CommitDenied):
                # Only the first call of this attempt was in time, and that is what is published.
                claimed = await _claimed_manifest(config, attempt)
                if claimed is not None:
                    return claimed
            try:
                await AbortTask(config).run(attempt)
            except MagicError as second:
                error.add_note(f"and its files could not be deleted: {second}")
            raise

    async def _wrote_nothing(self, attempt: AttemptId) -> bool:
        """Whether an attempt of a job that is open has no directory, for it wrote nothing."""
        tree, places = self.config.tree, self.config.places
        return (
            await tree.look(places.layout.task_attempt_directory(attempt)) is None
            and await tree.look(places.open_manifests) is not None
        )


class AbortTask(Stage[AttemptId, None]):
    """Delete what an attempt wrote, and the manifest that it may have saved; no other attempt's. Raises
    ProtocolViolation if the attempt is being published; nothing was deleted.
    """

    name = "task_stage_abort_task"

    async def _run(self, argument: AttemptId) -> None:
        config, tree = self.config, self.config.tree
        with suppress(UsageError):
            await self._take_back(config.places.manifest_name(ids.task_of_attempt(argument)), argument)
        if await _claimed_manifest(config, argument) is not None:
            raise ProtocolViolation(
                f"task attempt {argument} is being published by job {config.context.job}; nothing was "
                "deleted; leave it to the job commit"
            )
        await tree.delete(config.places.temporary_manifest(argument))
        await tree.delete_tree(config.places.layout.task_attempt_directory(argument))

    async def _take_back(self, name: str, attempt: AttemptId) -> None:
        tree, key = self.config.tree, f"{self.config.places.open_manifests}/{name}"
        if await _manifest_of(self.config, key, attempt) is None:
            return
        # Another attempt may save its own at any moment; so first aside, then a second look.
        aside = f"{self.config.places.temporary_manifest(attempt)}-aborted"
        try:
            await tree.rename(key, aside)
        except ObjectNotFound:
            return  # the job commit has begun
        if await _manifest_of(self.config, aside, attempt) is None and await tree.look(key) is None:
            await tree.rename(aside, key)
        else:
            await tree.delete(aside)


async def _claimed_manifest(config: StageConfig, attempt: AttemptId) -> TaskManifest | None:
    """The manifest of an attempt among those that are being published; None if it is not there."""
    try:
        name = config.places.manifest_name(ids.task_of_attempt(attempt))
    except UsageError:
        return None
    return await _manifest_of(config, f"{config.places.claimed_manifests}/{name}", attempt)


async def _manifest_of(config: StageConfig, key: str, attempt: AttemptId) -> TaskManifest | None:
    """The manifest at a key, if it is the attempt's."""
    raw = await read_whole(config, key, TASK_MANIFEST_SIZE_LIMIT)
    if raw is None:
        return None
    try:
        manifest = TaskManifest.from_bytes(key, raw)
    except FormatError:
        return None
    return manifest if manifest.attempt_id == attempt else None
