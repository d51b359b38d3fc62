"""What a task attempt wrote, as the manifest of its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, ObjectNotFound
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.formats.task_commit import Counters
from magicfs.formats.task_manifest import DirectoryEntry, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.layout import SUCCESS
from magicfs.protocol.modes import is_reserved
from magicfs.stores.tree_port import Entry, Tree
from magicfs.transaction.context import JobContext
from magicfs.transaction.task_manifests import Places


@dataclass(slots=True)
class NameCheck:
    """Makes entries of the files that a task wrote, and refuses those that cannot be published.

    ``longest`` is the length of the longest name that the store takes, in bytes, 0 for any.
    """

    places: Places
    task: TaskId
    final_key: Callable[[str, TaskId], str]
    longest: int = 0
    skips_success: bool = False  # whether the task's own ``_SUCCESS`` is left out
    files: dict[str, FileEntry] = field(default_factory=dict)  # by final keys

    def add(self, name: str, path: str, size: int, etag: str | None) -> None:
        """Take one more file in. Raises CommitFailed if it cannot be published under its name, or another one
        has its final name.
        """
        if self.skips_success and name == SUCCESS:
            return
        if not paths.can_be_a_file(name):
            raise self._refused(name, name, "an element of its name is empty, '.' or '..'")
        key = self.final_key(name, self.task)
        if (problem := self._problem(key)) is not None:
            raise self._refused(name, key, problem)
        if key in self.files:
            raise CommitFailed(
                f"task {self.task} wrote two files with the same final name, {key}; nothing was committed; "
                "give one of them another name",
                failed=[key],
            )
        self.files[key] = FileEntry(self.places.uri(path), self.places.uri(key), size, etag)

    def _refused(self, name: str, key: str, problem: str) -> CommitFailed:
        return CommitFailed(
            f"task {self.task} wrote {name!a}, which cannot be published: {problem}; nothing was "
            "committed; give the file another name",
            failed=[key],
        )

    def _problem(self, key: str) -> str | None:
        if is_reserved(paths.relative_to(key, self.places.destination)):
            return "such names are reserved for committers"
        try:
            longest = max(len(element.encode()) for element in key.split("/"))
        except UnicodeEncodeError:
            return "its name is not valid Unicode"
        if self.longest and longest > self.longest:
            return (
                f"an element of its final name {key!a} has {longest} bytes, and the limit is {self.longest}"
            )
        return None


@dataclass(slots=True)
class Found:
    """What a scan has found so far."""

    names: NameCheck
    root: str  # the directory of the attempt
    directories: list[DirectoryEntry] = field(default_factory=list)
    depth: int = 0

    def manifest(self, context: JobContext, attempt: AttemptId, counters: Counters | None) -> TaskManifest:
        return TaskManifest(
            job_id=context.job,
            job_attempt=context.layout.attempt,
            task_id=self.names.task,
            attempt_id=attempt,
            attempt_directory=self.names.places.uri(self.root),
            files=tuple(self.names.files.values()),
            directories=tuple(self.directories),
            statistics=self._statistics(counters or {}),
        )

    def _statistics(self, counters: Mapping[str, int]) -> Statistics:
        sizes = [one.size for one in self.names.files.values()]
        means = {
            "committer_task_directory_count": MeanStatistic(1, len(self.directories)),
            "committer_task_directory_depth": MeanStatistic(1, self.depth),
            "committer_task_file_count": MeanStatistic(1, len(sizes)),
            "committer_task_file_size": MeanStatistic(len(sizes), sum(sizes)),
        }
        return Statistics(counters=dict(sorted(counters.items())), meanstatistics=means)


async def scan(
    tree: Tree, context: JobContext, names: NameCheck, attempt: AttemptId, *, counters: Counters | None
) -> TaskManifest:
    """List what an attempt wrote, and look at the destination directories that it needs.

    One directory after the other, as in Hadoop; below a directory that is not at the destination nothing is
    looked at there. What is neither file nor directory is left out, and an attempt without a directory wrote
    nothing. Nothing is changed. Raises CommitFailed as ``NameCheck.add`` does.
    """
    found = Found(names, names.places.layout.task_attempt_directory(attempt))
    try:
        await _Scan(tree, found).directory("", EntryStatus.UNKNOWN, 0)
    except ObjectNotFound:
        if await tree.look(found.root) is not None:
            raise
    return found.manifest(context, attempt, counters)


class _Scan:
    def __init__(self, tree: Tree, found: Found) -> None:
        self.found = found
        self._tree = tree
        self._places = found.names.places

    async def directory(self, relative: str, parent: EntryStatus, level: int) -> None:
        """Scan one directory.

        ``relative`` is its path below the attempt's directory; ``parent`` is what lies at its destination.
        """
        self.found.depth = max(self.found.depth, level)
        below: list[tuple[str, EntryStatus]] = []
        status, destination = parent, self._places.destination
        async for entry in self._tree.entries(paths.join(self.found.root, relative)):
            name = paths.relative_to(entry.path, self.found.root)
            if entry.kind == "file":
                self.found.names.add(name, entry.path, entry.size, entry.etag or None)
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


async def scan_objects(
    engine: Engine, context: JobContext, names: NameCheck, attempt: AttemptId, *, counters: Counters | None
) -> TaskManifest:
    """List what an attempt wrote where names are only keys, in one listing, without markers of directories.

    No ETag is noted: a copy has another one, or the same. Nothing is changed. Raises CommitFailed as
    ``NameCheck.add`` does.
    """
    found = Found(names, names.places.layout.task_attempt_directory(attempt))
    prefix = paths.prefix_of(found.root)
    async for info in engine.store.list(prefix):
        if not info.key.endswith("/"):
            name = info.key[len(prefix) :]
            found.depth = max(found.depth, name.count("/"))
            names.add(name, info.key, info.size, None)
    return found.manifest(context, attempt, counters)
