"""What a task attempt wrote, as the manifest of its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from magicfs.errors import CommitFailed, ObjectNotFound
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.task_commit import Counters
from magicfs.formats.task_manifest import DirectoryEntry, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_reserved
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.stores.tree_port import Entry, Tree
from magicfs.transaction.context import JobContext
from magicfs.transaction.manifest_places import Places

__all__ = ["scan"]


@dataclass(slots=True)
class _Found:
    """What the scan has found so far: final keys, each once."""

    files: dict[str, FileEntry] = field(default_factory=dict)
    directories: list[DirectoryEntry] = field(default_factory=list)
    depth: int = 0


async def scan(
    tree: Tree,
    context: JobContext,
    places: Places,
    task: TaskId,
    attempt: AttemptId,
    *,
    final_key: Callable[[str, TaskId], str],
    name_bytes_max: int,
    counters: Counters | None,
) -> TaskManifest:
    """List what an attempt wrote, and look at the destination directories that it needs.

    One directory after the other, as in Hadoop; below a directory that is not at the destination nothing is
    looked at there. What is neither file nor directory is left out, and an attempt without a directory wrote
    nothing. Nothing is changed. ``name_bytes_max`` is the length of the longest name that the store takes, 0
    for any. Raises CommitFailed if a file cannot be published under its name, or two have one final name.
    """
    scanning = _Scan(
        tree, places, task, places.layout.task_attempt_directory(attempt), final_key, name_bytes_max
    )
    try:
        await scanning.directory("", EntryStatus.UNKNOWN, 0)
    except ObjectNotFound:
        if await tree.look(scanning.root) is not None:
            raise
    found = scanning.found
    return TaskManifest(
        job_id=context.job,
        job_attempt=context.layout.attempt,
        task_id=task,
        attempt_id=attempt,
        attempt_directory=places.uri(scanning.root),
        files=tuple(found.files.values()),
        directories=tuple(found.directories),
        statistics=_statistics(found, counters or {}),
    )


def _statistics(found: _Found, counters: Mapping[str, int]) -> Statistics:
    sizes = [one.size for one in found.files.values()]
    means = {
        "committer_task_directory_count": MeanStatistic(1, len(found.directories)),
        "committer_task_directory_depth": MeanStatistic(1, found.depth),
        "committer_task_file_count": MeanStatistic(1, len(sizes)),
        "committer_task_file_size": MeanStatistic(len(sizes), sum(sizes)),
    }
    return Statistics(counters=dict(sorted(counters.items())), meanstatistics=means)


class _Scan:
    def __init__(
        self,
        tree: Tree,
        places: Places,
        task: TaskId,
        root: str,
        final_key: Callable[[str, TaskId], str],
        name_bytes_max: int,
    ) -> None:
        self.root = root
        self.found = _Found()
        self._tree = tree
        self._places = places
        self._task = task
        self._final_key = final_key
        self._name_bytes_max = name_bytes_max

    async def directory(self, relative: str, parent: EntryStatus, level: int) -> None:
        """Scan one directory.

        ``relative`` is its path below the attempt's directory; ``parent`` is what lies at its destination.
        """
        self.found.depth = max(self.found.depth, level)
        below: list[tuple[str, EntryStatus]] = []
        status, destination = parent, self._places.destination
        async for entry in self._tree.entries(paths.join(self.root, relative)):
            name = paths.relative_to(entry.path, self.root)
            if entry.kind == "file":
                self._add(name, entry)
                continue
            if is_reserved(name):
                below.append((name, EntryStatus.NOT_FOUND))  # nothing is made of it; its files are refused
                continue
            if status is EntryStatus.UNKNOWN:
                status = await self._status(destination)
            found, key = EntryStatus.NOT_FOUND, paths.join(destination, name)
            if status is EntryStatus.DIR:
                found = await self._status(key)
            self.found.directories.append(DirectoryEntry(self._places.uri(key), int(found), level + 1))
            below.append((name, found))
        for name, found in below:
            await self.directory(name, found, level + 1)

    async def _status(self, key: str) -> EntryStatus:
        entry = await self._tree.look(key) if key else Entry(key, "directory")
        if entry is None:
            return EntryStatus.NOT_FOUND
        return EntryStatus.DIR if entry.kind == "directory" else EntryStatus.FILE

    def _add(self, name: str, entry: Entry) -> None:
        key = self._final_key(name, self._task)
        if (problem := self._problem(key)) is not None:
            raise CommitFailed(
                f"task {self._task} wrote {name!a}, which cannot be published: {problem}; nothing was "
                "committed; give the file another name",
                failed=[key],
            )
        if key in self.found.files:
            raise CommitFailed(
                f"task {self._task} wrote two files that have one final name, {key}; nothing was committed; "
                "give one of them another name",
                failed=[key],
            )
        self.found.files[key] = FileEntry(
            self._places.uri(entry.path), self._places.uri(key), entry.size, entry.etag or None
        )

    def _problem(self, key: str) -> str | None:
        if is_reserved(paths.relative_to(key, self._places.destination)):
            return "committers keep their work under such names"
        try:
            longest = max(len(element.encode()) for element in key.split("/"))
        except UnicodeEncodeError:
            return "its name is no valid Unicode"
        if self._name_bytes_max and longest > self._name_bytes_max:
            return (
                f"an element of its final name {key!a} has {longest} bytes, and at most "
                f"{self._name_bytes_max} are possible"
            )
        return None
