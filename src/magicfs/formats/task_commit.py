"""What a committed task hands to its job: a small value that any engine can carry."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from magicfs.errors import FormatError
from magicfs.formats.limits import PENDINGSET_SIZE_LIMIT
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.statistics import ROWS
from magicfs.protocol.ids import AttemptId, JobId, TaskId

INLINE_LIMIT = 64 * 1024
"""Bytes of the largest packed pending set that travels inside the value; larger ones stay in the store."""

Counters = Mapping[str, int]
"""What a task has counted, by name."""

_Packed = bytes


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """One committed task attempt. You can pickle it; pass all of a job's to ``Job.commit``.

    Attributes:
        job_id: The job.
        task_id: The task.
        attempt_id: The attempt that was committed.
        files: How many files it wrote.
        bytes: Their size.
        set_key: Key of its pending set in the store, or its name below ``cluster_directory``; None if only
            this value holds it.
        content: The packed pending set; None if it is too large to be sent along.
        rows: How many rows it wrote; None if it did not count them.
    """

    job_id: JobId
    task_id: TaskId
    attempt_id: AttemptId
    files: int
    bytes: int
    set_key: str | None
    content: _Packed | None = field(repr=False)
    rows: int | None = None

    @classmethod
    def of(
        cls,
        job: JobId,
        task: TaskId,
        attempt: AttemptId,
        pending_set: PendingSet,
        set_key: str | None,
        inline_limit: int | None = None,
    ) -> TaskCommit:
        """Describe a pending set. ``set_key`` says where it is stored; None if it is not.

        It travels inside if it is stored nowhere else, or has at most ``inline_limit`` bytes when packed
        (``INLINE_LIMIT`` if None).
        """
        limit = INLINE_LIMIT if inline_limit is None else inline_limit
        packed = pack(pending_set.to_bytes("object"))
        length = sum(commit.length for commit in pending_set.commits)
        content = packed if set_key is None or len(packed) <= limit else None
        rows = pending_set.statistics.counters.get(ROWS)
        return cls(job, task, attempt, len(pending_set.commits), length, set_key, content, rows)


def pack(raw: bytes) -> bytes:
    """Compress the bytes of a pending set."""
    return zlib.compress(raw, 1)


def unpack(path: str, packed: bytes) -> bytes:
    """Undo ``pack``. Raises FormatError for what is not packed, or larger than a pending set may be."""
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(packed, PENDINGSET_SIZE_LIMIT + 1)
    except zlib.error as error:
        raise FormatError(path, "content", f"cannot be unpacked: {error}") from error
    if not decompressor.eof:
        raise FormatError(path, "content", "is cut short or too large")
    return raw
