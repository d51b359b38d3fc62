"""The stage that looks through what a task attempt wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from magicfs.committers.manifest.places import is_reserved
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import CommitFailed
from magicfs.formats.task_manifest import DirectoryEntry, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.stores.tree import Entry

__all__ = ["ScanTaskAttempt"]

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
    looked at there. What is neither file nor directory is left out. Nothing is changed.

    Raises:
        ObjectNotFound: The attempt has no directory.
        CommitFailed: A file cannot be published under its name, or two have one final name.
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

        Args:
            task: The task.
            root: The attempt's directory.
            relative: The directory below it; empty for itself.
            parent: What lies at the destination of the directory.
            level: How deep it is.
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
        if is_reserved(key, self.config.places.destination):
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
