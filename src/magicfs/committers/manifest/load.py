"""The stage that loads the manifests of all committed tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from magicfs.committers.manifest.spill import LIST_LENGTH, Spill, SpilledFile
from magicfs.committers.manifest.stage import Stage, StageConfig
from magicfs.errors import CommitFailed, FormatError, ObjectNotFound, StoreError, UsageError
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_manifest import TASK_MANIFEST_SIZE_LIMIT, EntryStatus, FileEntry, TaskManifest
from magicfs.parallel import drained
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, TaskId

__all__ = ["Directory", "LoadManifests", "Loaded", "ToLoad"]


@dataclass(frozen=True, slots=True)
class ToLoad:
    """Which manifests to load, and where to."""

    directory: str
    # The attempt of each task that counts; None for all that are there.
    attempts: Mapping[TaskId, AttemptId] | None
    spill: Spill  # takes the files; it is finished afterwards


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that files are renamed into, or into something below it."""

    status: EntryStatus  # what lay there, as the first manifest that names it says
    level: int  # how deep below the destination, from 1


@dataclass(slots=True)
class Loaded:
    """The sum of all manifests."""

    tasks: int = 0
    files: int = 0
    bytes: int = 0
    directories: dict[str, Directory] = field(default_factory=dict)  # by key
    statistics: Statistics = field(default_factory=Statistics)
    others: list[str] = field(default_factory=list)  # names in the directory that were not asked for


class LoadManifests(Stage[ToLoad, Loaded]):
    """Load manifests in parallel, and stream their files into a spill.

    At any moment at most ``concurrency`` manifests are held as bytes and one taken apart, whatever their
    number; only directories are kept, each once. The first failure ends it, after what is under way. Raises
    CommitFailed if a manifest is missing, another attempt's, malformed, or names what is not the job's, or
    the local file cannot be written; ObjectNotFound if the directory is missing. Nothing was changed.
    """

    name = "job_stage_load_manifests"

    def __init__(self, config: StageConfig) -> None:
        super().__init__(config)
        self._loaded = Loaded()
        self._one_apart = asyncio.Lock()

    async def _run(self, argument: ToLoad) -> Loaded:
        async def load(found: tuple[TaskId, int]) -> bool:
            await self._load(argument, *found)
            return True

        with self.config.counts.timed("op_load_all_manifests"):
            await drained(self._tasks(argument), load, self.config.concurrency)
            try:
                await argument.spill.finish(self._loaded.directories)
            except StoreError as error:
                raise CommitFailed(f"{error}; nothing was published") from error
        return self._loaded

    async def _tasks(self, argument: ToLoad) -> AsyncIterator[tuple[TaskId, int]]:
        """The tasks to load, and how large their manifests are."""
        missing = dict(argument.attempts or {})
        async for entry in self.config.tree.entries(argument.directory):
            name = paths.relative_to(entry.path, argument.directory)
            try:
                task = self.config.places.task_of(name)
            except UsageError as error:
                raise CommitFailed(f"{entry.path} is no manifest of a task: {error}; remove it") from error
            if task is None:
                continue
            if argument.attempts is not None and task not in argument.attempts:
                self._loaded.others.append(name)
                continue
            if entry.kind != "file" or not entry.size:
                raise CommitFailed(
                    f"{entry.path} is not a valid manifest file, for it is "
                    f"{'empty' if entry.kind == 'file' else 'a directory'}; nothing was published; run task "
                    f"{task} again"
                )
            missing.pop(task, None)
            yield task, entry.size
        if missing:
            task, attempt = next(iter(missing.items()))
            raise CommitFailed(
                f"{argument.directory} has no manifest of task {task}, whose attempt {attempt} was to be "
                "published: it was aborted, or somebody removed it; nothing was published; run the task again"
            )

    async def _load(self, argument: ToLoad, task: TaskId, size: int) -> None:
        path = f"{argument.directory}/{self.config.places.manifest_name(task)}"
        with self.config.counts.timed("op_load_manifest"):
            try:
                raw = await self.config.tree.read(path, size_max=min(size, TASK_MANIFEST_SIZE_LIMIT) + 1)
            except ObjectNotFound as error:
                raise CommitFailed(
                    f"the manifest {path} has gone while it was read; nothing was published; commit again"
                ) from error
        async with self._one_apart:
            manifest = self._checked(path, raw, task, argument)
            del raw
            self._merge_directories(path, manifest)
            self._loaded.tasks += 1
            self._loaded.files += len(manifest.files)
            self._loaded.bytes += manifest.size
            self._loaded.statistics += manifest.statistics
            layout = self.config.places.layout
            directory = paths.prefix_of(layout.task_attempt_directory(AttemptId(manifest.attempt_id)))
            for start in range(0, len(manifest.files), LIST_LENGTH):
                part = manifest.files[start : start + LIST_LENGTH]
                files = [self._file(path, task, directory, one) for one in part]
                try:
                    await argument.spill.put(files)
                except StoreError as error:
                    raise CommitFailed(f"{error}; nothing was published") from error

    def _checked(self, path: str, raw: bytes, task: TaskId, argument: ToLoad) -> TaskManifest:
        try:
            manifest = TaskManifest.from_bytes(path, raw)
        except FormatError as error:
            raise CommitFailed(
                f"a manifest is malformed or inconsistent: {error}; nothing was published; run task {task} "
                "again"
            ) from error
        context = self.config.context
        if (manifest.job_id, manifest.job_attempt) != (context.job, context.layout.attempt):
            raise CommitFailed(
                f"{path} belongs to attempt {manifest.job_attempt} of job {manifest.job_id!a}, and attempt "
                f"{context.layout.attempt} of job {context.job} is to be published; nothing was published; "
                "find out who wrote the file"
            )
        wanted = (argument.attempts or {}).get(task)
        if wanted is not None and manifest.attempt_id != wanted:
            raise CommitFailed(
                f"task {task} has been committed again, by {manifest.attempt_id!a}, after {wanted}, whose "
                "commit was to be published; nothing was published; pass the commit of the attempt that "
                "committed last, or run the task again"
            )
        try:
            ids.check_attempt(manifest.attempt_id)
        except UsageError as error:
            raise CommitFailed(f"{path}: {error}; nothing was published; run task {task} again") from error
        return manifest

    def _file(self, path: str, task: TaskId, attempt: str, entry: FileEntry) -> SpilledFile:
        places = self.config.places
        try:
            key, source = places.destination_key(entry.destination), places.key(entry.source)
            if not source.startswith(attempt):
                raise UsageError(f"{source!r} is none of the attempt's files")
        except UsageError as error:
            raise self._foreign(path, error) from error
        self._require_parents(key)
        return SpilledFile(key, source, entry.size, entry.etag or "", task)

    def _merge_directories(self, path: str, manifest: TaskManifest) -> None:
        known = self._loaded.directories
        for entry in manifest.directories:
            try:
                key = self.config.places.destination_key(entry.path)
            except UsageError as error:
                raise self._foreign(path, error) from error
            known.setdefault(key, Directory(EntryStatus.of(entry.status), self._level(key)))
            self._require_parents(key)

    def _require_parents(self, key: str) -> None:
        """Whatever a manifest says, the directories of its files are made."""
        parent, known = key.rpartition("/")[0], self._loaded.directories
        while parent not in known and paths.is_under(parent, self.config.places.destination):
            known[parent] = Directory(EntryStatus.UNKNOWN, self._level(parent))
            parent = parent.rpartition("/")[0]

    def _level(self, key: str) -> int:
        return paths.relative_to(key, self.config.places.destination).count("/") + 1

    def _foreign(self, path: str, error: UsageError) -> CommitFailed:
        return CommitFailed(f"{path} names what is not the job's: {error}; nothing was published")
