"""Sets of renames: what tasks of ``manifest`` and ``file`` have committed, as manifests of Hadoop's form.

A manifest is written beside the directory of manifests and renamed into it. That directory goes when the job
ends, so a task that commits later is denied. Where directories are not real, the job object is asked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    FormatError,
    ObjectExists,
    ObjectNotFound,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.formats.hadoop_uri import decode, encode
from magicfs.formats.limits import TASK_MANIFEST_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import Source
from magicfs.formats.statistics import ROWS
from magicfs.formats.task_commit import TaskCommit
from magicfs.formats.task_manifest import TASK_MANIFEST_SUFFIX, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, TaskId
from magicfs.protocol.modes import is_reserved
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.protocol.winners import StoredSet
from magicfs.stores.trees import tree_of
from magicfs.transaction.attempt_output import ATTEMPT, TaskSets, foreign_set, read_some_ahead
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import read_record


@dataclass(frozen=True, slots=True)
class Places:
    """The keys of one job attempt, and their URIs."""

    scheme: str
    bucket: str
    layout: TemporaryLayout

    @property
    def destination(self) -> str:
        return self.layout.destination

    def task_of(self, name: str) -> TaskId | None:
        """The task whose manifest has this name: ours are named after attempts, Hadoop's after tasks. None
        for a file of another kind. Raises UsageError if it is named like a manifest, but after neither.
        """
        if "/" in name or not name.endswith(TASK_MANIFEST_SUFFIX):
            return None
        stem = name.removesuffix(TASK_MANIFEST_SUFFIX)
        return ids.task_of_attempt(stem) if ids.is_attempt_of_ours(stem) else ids.task_id(stem)

    def temporary_manifest(self, attempt: AttemptId) -> str:
        """Where an attempt writes its manifest before it renames it.

        Beside the manifests' directory, not in it: a write would bring that back once the job has ended.
        """
        return f"{self.layout.attempt_directory()}/{attempt}{TASK_MANIFEST_SUFFIX}.tmp"

    def uri(self, key: str) -> str:
        """What a manifest calls a key."""
        return encode(paths.Location(self.scheme, self.bucket, key).url)

    def key(self, uri: str) -> str:
        """The key that a manifest means. Hadoop writes ``file:/tmp/x`` for ``file:///tmp/x``. Raises
        UsageError for another store or bucket, or an element that is empty, ``.`` or ``..``.
        """
        text, short = decode(uri), f"{self.scheme}:/"
        if text.startswith(short) and not text.startswith(f"{short}/"):
            text = f"{self.scheme}://{text[len(short) - 1 :]}"
        prefix = f"{self.scheme}://{self.bucket}/"
        key = text[len(prefix) :].rstrip("/")
        if not text.startswith(prefix) or not key:
            raise UsageError(f"{text!r} is not in {prefix}; find out who wrote the manifest")
        elements = f"/{key}/"
        if "//" in elements or "/./" in elements or "/../" in elements:
            raise UsageError(f"{text!r} is a malformed path; find out who wrote the manifest")
        return key

    def destination_key(self, uri: str) -> str:
        """The key of a file or directory that the job may put there. Raises UsageError if it lies outside the
        destination, or where committers keep their work.
        """
        key = self.key(uri)
        if not paths.is_under(key, self.destination) or is_reserved(paths.relative_to(key, self.destination)):
            raise UsageError(f"{key!r} is not a place for data of {self.destination!r}; write below it")
        return key


class TaskManifests(TaskSets):
    """See ``magicfs.transaction.attempt_output.TaskSets`` for the contract.

    ``obstacles`` are keys that the manifests that were read need as directories, and at which their tasks saw
    files.
    """

    def __init__(self, engine: Engine, context: JobContext) -> None:
        super().__init__(engine, context)
        self._tree = tree_of(engine.store)
        place = paths.parse_url(context.url)
        self.places: Places = Places(place.scheme, engine.store.bucket, context.temporary)
        self.obstacles: set[str] = set()

    # -- one task --------------------------------------------------------------------------------------

    async def save(self, manifest: TaskManifest, raw: bytes) -> TaskCommit:
        """Persist the manifest of an attempt, in one rename; or in one write, where a rename is a copy.

        Raises CommitDenied if the job has ended or was never set up; after Unavailable it is not known
        whether the manifest was persisted, after any other error it was not.
        """
        attempt, tree = AttemptId(manifest.attempt_id), self._tree
        key, temporary = (
            self._context.temporary.manifest_key(attempt),
            self.places.temporary_manifest(attempt),
        )
        if not await tree.is_atomic():
            if await self._has_ended():
                raise self._denied(manifest)
            await tree.write(key, raw)
            if await self._has_ended():  # meanwhile
                await tree.delete(key)
                raise self._denied(manifest)
            return self.commit_of(manifest, key)
        if await tree.look(self._context.temporary.manifests_directory) is None:
            raise self._denied(manifest)
        await tree.delete_tree(temporary)
        await tree.write(temporary, raw)
        try:
            await tree.rename(temporary, key)
        except ObjectNotFound as error:
            if await tree.look(self._context.temporary.manifests_directory) is not None:
                raise
            await tree.delete(temporary)
            raise self._denied(manifest) from error
        except Unavailable:
            if not await self._is_saved(key, raw):
                raise
        return self.commit_of(manifest, key)

    async def _has_ended(self) -> bool:
        _, version = await read_record(self._engine.store, self._context.layout, probe=False)
        return version is None

    async def _is_saved(self, key: str, raw: bytes) -> bool:
        try:
            return await self._tree.read(key, size_max=len(raw) + 1) == raw
        except StoreError:
            return False

    def commit_of(self, manifest: TaskManifest, key: str) -> TaskCommit:
        """What a task commit hands over: where its manifest is."""
        rows = manifest.statistics.counters.get(ROWS)
        task, attempt = TaskId(manifest.task_id), AttemptId(manifest.attempt_id)
        return TaskCommit(
            self._context.job, task, attempt, len(manifest.files), manifest.size, key, None, rows
        )

    async def find(self, task: TaskId, attempt: AttemptId) -> TaskCommit | None:
        key = self._context.temporary.manifest_key(attempt)
        if await self._tree.is_atomic():
            entry = await self._tree.look(key)
            if entry is None or entry.kind != "file":
                return None
        manifest = await self._manifest(key, task)
        if manifest is None:
            return None
        if manifest.attempt_id != attempt:
            raise FormatError(self.where(key), "taskAttemptID", f"is {manifest.attempt_id!a}, not {attempt}")
        return self.commit_of(manifest, key)

    async def _manifest(self, key: str, task: TaskId) -> TaskManifest | None:
        try:
            raw = await self._tree.read(key, size_max=TASK_MANIFEST_SIZE_LIMIT + 1)
        except ObjectNotFound:
            return None
        manifest = TaskManifest.from_bytes(self.where(key), raw)
        if manifest.task_id != task:
            raise FormatError(self.where(key), "taskID", f"is {manifest.task_id!a}, not {task}")
        return manifest

    # -- a task that publishes when it commits ---------------------------------------------------------

    async def claimed(self, task: TaskId) -> TaskManifest | None:
        """The manifest of the attempt that commits a task, of whichever job attempt; None if none does."""
        return await self._manifest(self._context.temporary.claim_key(task), task)

    async def claim(self, manifest: TaskManifest) -> TaskManifest:
        """Persist the manifest of an attempt, unless another attempt of its task has; returns the one that
        counts. Where the store honours If-None-Match at most one attempt ever holds a task.
        """
        task = TaskId(manifest.task_id)
        key = self._context.temporary.claim_key(task)
        try:
            await self._tree.write(key, manifest.to_bytes(), if_absent=True)
        except ObjectExists:
            if (held := await self.claimed(task)) is None:
                raise self._denied(manifest) from None
            return held
        return manifest

    async def withdraw(self, manifest: TaskManifest) -> None:
        """Give a task up of which no file has been published."""
        await self._tree.delete(self._context.temporary.claim_key(TaskId(manifest.task_id)))

    async def claims(self) -> list[StoredSet]:
        """The manifests of tasks that publish when they commit, of all job attempts."""
        if self._context.options.committer != "file":
            return []
        return await self._listed(self._context.temporary.claims_directory)

    # -- all of them -----------------------------------------------------------------------------------

    async def listed(self) -> list[StoredSet]:
        """The manifests of a job attempt, those of Hadoop's tasks among them, and all claims."""
        return await self._listed(self._context.temporary.manifests_directory) + await self.claims()

    async def earlier(self) -> list[StoredSet]:
        found = []
        for number in range(self._context.layout.attempt):
            layout = replace(self._context.temporary, attempt=number)
            found += await self._listed(layout.manifests_directory)
        for one in await self.claims():
            manifest = await self._manifest(one.key, one.task)
            if manifest is not None and manifest.job_attempt < self._context.layout.attempt:
                found.append(one)
        return found

    async def _listed(self, directory: str) -> list[StoredSet]:
        found, prefix = [], paths.prefix_of(directory)
        async for info in self._engine.store.list(prefix):
            try:
                task = self.places.task_of(info.key[len(prefix) :])
            except UsageError as error:
                raise foreign_set(self._context, self.where(info.key), error) from error
            if task is not None:
                found.append(StoredSet(info.key, task, info.modified or 0.0))
        return found

    def read_ahead(self, keys: Sequence[str]) -> AsyncGenerator[tuple[str, bytes]]:
        return read_some_ahead(self._engine, keys, self._read, TASK_MANIFEST_SIZE_LIMIT)

    def _gone(self, where: str) -> CommitFailed:
        return CommitFailed(
            f"the manifest {where} is gone: its attempt was aborted, job {self._context.job} has ended, or "
            "somebody removed it; nothing was published; run the task again"
        )

    def parsed(self, name: str, raw: bytes) -> PendingSet:
        return self.set_of(name, TaskManifest.from_bytes(name, raw))

    def set_of(self, name: str, manifest: TaskManifest) -> PendingSet:
        """What a manifest says. FormatError if it names what is not the job's."""
        try:
            attempt = ids.check_attempt(manifest.attempt_id)
            for directory in manifest.directories:
                key = self.places.destination_key(directory.path)
                if EntryStatus.of(directory.status) is EntryStatus.FILE:
                    self.obstacles.add(key)
            files = tuple([self._file(manifest.job_id, attempt, one) for one in manifest.files])
        except UsageError as error:
            raise FormatError(name, "", f"names files that do not belong to the job: {error}") from error
        return PendingSet(
            job_id=manifest.job_id,
            commits=files,
            statistics=manifest.statistics,
            extra_data={ATTEMPT: attempt},
        )

    def _file(self, job: str, attempt: AttemptId, entry: FileEntry) -> Pending:
        source = Source(self.places.key(entry.source), entry.etag or "")
        return Pending(
            bucket=self.places.bucket,
            destination_key=self.places.destination_key(entry.destination),
            job_id=job,
            task_id=attempt,
            source=source,
            length=entry.size,
        )

    def key_of(self, commit: TaskCommit) -> str | None:
        key, job = commit.set_key, self._context.temporary.job_directory
        named = key is not None and paths.is_under(key, job) and key.endswith(TASK_MANIFEST_SUFFIX)
        return key if named else None

    # -- errors ----------------------------------------------------------------------------------------

    def _denied(self, manifest: TaskManifest) -> CommitDenied:
        where = self.where(self._context.temporary.job_directory)
        return CommitDenied(
            f"task {manifest.task_id} comes too late: job {manifest.job_id}, whose work lies at {where}, "
            "has ended or was never set up; nothing was committed"
        )
