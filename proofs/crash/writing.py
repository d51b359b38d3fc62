"""Writing as tasks do, with nothing around it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from magicfs.committers import registry
from magicfs.committers.base import Committer
from magicfs.committers.registry import (
    CommitterOptions,
    FileOptions,
    ManifestOptions,
    NoOptions,
    StagingOptions,
)
from magicfs.committers.staging import attempts
from magicfs.committers.work_places import local_directory
from magicfs.filesystem.in_hand import SmallFile
from magicfs.filesystem.job_settings import WriteSettings
from magicfs.filesystem.tracking import Closing, MemoryRecorder, StoreRecorder, name_in
from magicfs.filesystem.upload import AsyncDelayedFile, Recorder, Upload
from magicfs.formats.job_options import Hadoop, JobOptions
from magicfs.protocol import ids
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import AttemptId, JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import locate
from magicfs.protocol.temporary import RENAMING
from magicfs.transaction.context import JobContext
from proofs.crash.cluster_files import CLUSTER_URL, CLUSTER_USER
from proofs.crash.disk import disk
from proofs.crash.processes import Process
from proofs.crash.settings import Setting
from proofs.crash.snapshots import BUCKET

__all__ = ["DESTINATION", "SMALL", "START", "Clock", "committer_of", "context_of", "write_attempt"]

DESTINATION: Final = "dataset 1+#%/ü"
"""A name that has broken clients; beside it lies one that only differs by what follows."""

START: Final = 1_780_000_000.0
"""When scenes begin, in seconds since the epoch."""
SMALL: Final = 100
"""Bytes of the largest file that stays in hand, where any does: of two files of a task the second is larger.
"""
_PART_SIZE: Final = 1 << 20


class Clock:
    """Seconds since the epoch; every look takes a moment, so that no two writes are of the same time."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time."""
        self.now += 0.001
        return self.now


def context_of(setting: Setting, job: JobId) -> JobContext:
    """A job of a setting."""
    return JobContext(
        url=f"memory://{BUCKET}/{DESTINATION}",
        layout=WorkLayout(DESTINATION, job, 0, setting.layout),
        options=JobOptions(
            committer=setting.name,
            mode=setting.mode,
            unique_names=setting.names == "unique",
            tracking="memory" if setting.in_memory else "store",
            small_files=SMALL if setting.tracking == "small" else None,
            part_size=_PART_SIZE,
            hadoop=Hadoop(layout=setting.layout),
        ),
        committer_options=_options(setting),
    )


def _options(setting: Setting) -> CommitterOptions:
    if setting.renames:
        if setting.committer == "manifest":
            return ManifestOptions()
        return FileOptions(algorithm=2 if setting.by_tasks else 1)
    if not setting.staged:
        return NoOptions()
    return StagingOptions(
        work_directory=str(disk().directory),
        cluster_directory=CLUSTER_URL if setting.tracking == "cluster" else None,
        cluster_user=CLUSTER_USER,
    )


def committer_of(context: JobContext, process: Process) -> Committer:
    """The committer of a job, in one process."""
    return registry.make(context.options.committer, context, process.engine)


async def write_attempt(
    worker: Process, context: JobContext, attempt: AttemptId, files: tuple[str, ...]
) -> dict[str, bytes]:
    """Write files as a task does; returns what will be at which final key."""
    if isinstance(context.committer_options, StagingOptions):
        return _write_locally(context, context.committer_options, attempt, files)
    if context.options.committer in RENAMING:
        return await _write_work_files(worker, context, attempt, files)
    wrote = {}
    for name in files:
        path = locate(f"{BUCKET}/{context.layout.work_directory(attempt)}/{name}")
        assert path is not None
        relative = path.relative
        if context.options.unique_names:
            relative = unique_name(relative, ids.task_of_attempt(attempt), context.job)
        key = "/".join((*path.parents, *relative))
        recorder: Recorder = StoreRecorder(worker.store, path, etag_format=context.options.hadoop.etag_format)
        if context.options.tracking == "memory":
            recorder = MemoryRecorder(worker.store, path)
        wrote[key] = f"{attempt} wrote {name}".encode()
        closing = Closing(name_in(worker.store, path.scope), name_in(worker.store, path.path), path.path)
        upload = Upload(worker.store, key, _PART_SIZE, recorder, background=closing)
        if context.options.small_files is not None:
            settings = WriteSettings(context.options)
            upload = SmallFile(worker.store, path, settings, recorder, key, closing)
            wrote[key] += b" at length" * 10 * name.endswith("part-1.bin")
        async with await AsyncDelayedFile(upload).open() as file:
            await file.write(wrote[key])
    return wrote


async def _write_work_files(
    worker: Process, context: JobContext, attempt: AttemptId, files: tuple[str, ...]
) -> dict[str, bytes]:
    wrote = {}
    for name in files:
        relative = tuple(name.split("/"))
        if context.options.unique_names:
            relative = unique_name(relative, ids.task_of_attempt(attempt), context.job)
        body = f"{attempt} wrote {name}".encode()
        wrote["/".join((context.layout.destination, *relative))] = body
        await worker.store.put(f"{context.temporary.task_attempt_directory(attempt)}/{name}", body)
    return wrote


def _write_locally(
    context: JobContext, options: StagingOptions, attempt: AttemptId, files: tuple[str, ...]
) -> dict[str, bytes]:
    attempts.begin(options.work_directory, context.job, attempt)
    wrote = {}
    for name in files:
        relative = tuple(name.split("/"))
        path = Path(local_directory(options.work_directory, context.job, attempt), *relative)
        if context.options.unique_names:
            relative = unique_name(relative, ids.task_of_attempt(attempt), context.job)
        body = f"{attempt} wrote {name}".encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        if not _is_left_out(relative[-1]):
            wrote["/".join((context.layout.destination, *relative))] = body
    return wrote


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
