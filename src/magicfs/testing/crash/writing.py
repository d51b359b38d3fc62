"""Writing as tasks do, with nothing around it."""

from __future__ import annotations

from typing import Final

from magicfs.committers.base import JobContext
from magicfs.formats.pending import DEFAULT_ETAG_FORMAT
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, JobId
from magicfs.protocol.layout import WorkLayout, unique_name
from magicfs.protocol.magic import locate
from magicfs.recording import MemoryRecorder, StoreRecorder
from magicfs.testing.crash.processes import Process
from magicfs.testing.crash.settings import Setting
from magicfs.testing.crash.snapshots import BUCKET
from magicfs.upload import AsyncDelayedFile, Recorder, Upload

__all__ = ["DESTINATION", "START", "Clock", "context_of", "write_attempt"]

DESTINATION: Final = "dataset 1+#%/ü"
"""A name that has broken clients; beside it lies one that only differs by what follows."""

START: Final = 1_780_000_000.0
"""When scenes begin, in seconds since the epoch."""
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
        conflict=setting.mode,
        unique_names=setting.names == "unique",
        tracking=setting.tracking,
        etag_format=DEFAULT_ETAG_FORMAT,
    )


async def write_attempt(
    worker: Process, context: JobContext, attempt: AttemptId, files: tuple[str, ...]
) -> dict[str, bytes]:
    """Write files as a task does; returns what will be at which final key."""
    wrote = {}
    for name in files:
        path = locate(f"{BUCKET}/{context.layout.work_directory(attempt)}/{name}")
        assert path is not None
        relative = path.relative
        if context.unique_names:
            relative = unique_name(relative, ids.task_of_attempt(attempt), context.job)
        key = "/".join((*path.parents, *relative))
        recorder: Recorder = StoreRecorder(worker.store, path, context.etag_format)
        if context.tracking == "memory":
            recorder = MemoryRecorder(worker.store, path)
        wrote[key] = f"{attempt} wrote {name}".encode()
        async with await AsyncDelayedFile(Upload(worker.store, key, _PART_SIZE, recorder)).open() as file:
            await file.write(wrote[key])
    return wrote
