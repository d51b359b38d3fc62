"""The memory of a job commit does not grow with its files."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import UploadedPart
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests import parts
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import ObjectInfo, Part, Store

EACH = 500
ETAG = '"5d41402abc4b2a76b9719d911017c592-1"'


class BodyOnDisk:
    """Content of an object that takes no memory."""

    def __init__(self, path: Path, body: bytes) -> None:
        self.path = path
        path.write_bytes(body)

    def __getitem__(self, part: slice) -> bytes:
        return self.path.read_bytes()[part]


class DiskStore(MemoryStore):
    """Objects in files; of completed uploads nothing is kept."""

    def __init__(self, world: World, directory: Path) -> None:
        super().__init__("bucket", world)
        self.directory = directory

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        if not upload_id.startswith("there-"):
            return await super().complete_upload(key, upload_id, parts, if_absent=if_absent)
        return ObjectInfo(key, 1000, ETAG)

    def _store(self, contents: Any, key: str, body: bytes, *how: Any) -> ObjectInfo:
        info = super()._store(contents, key, body, *how)
        kept = BodyOnDisk(self.directory / uuid4().hex, body)
        contents.objects[key] = replace(contents.objects[key], body=kept)
        return info


class OnDisk(MemoryFileSystem):
    """Files in a world of their own, whose content lies on the disk."""

    def __init__(self, directory: Path) -> None:
        super().__init__(world=World(create_buckets=True))
        self.there = DiskStore(self.world, directory)

    def store(self, bucket: str) -> Store:
        assert bucket in {"bucket", ""}
        return self.there


def committed(job: magicfs.Job, filesystem: OnDisk, number: int) -> TaskCommit:
    """A task of so many files, whose set lies in the store."""
    task = job.task(number)
    task.setup()
    files = [
        Pending(
            upload_id=f"there-{uuid4().hex}",
            bucket="bucket",
            destination_key=f"sales/p={index % 10}/part-{index}-{task.id}-{job.id}.parquet",
            parts=(UploadedPart(f'"{uuid4().hex}"'),),
            length=1000,
            job_id=job.id,
            task_id=task.attempt_id,
            extra_data={WRITE_ID: uuid4().hex},
        )
        for index in range(EACH)
    ]
    key = job.spec.work_layout.set_key(task.attempt_id)
    one = PendingSet(job_id=job.id, commits=tuple(files))
    asyncio.run(filesystem.there.put(key, one.to_bytes("object")))
    return TaskCommit(job.id, task.id, task.attempt_id, EACH, EACH * 1000, key, None)


def peak_bytes(directory: Path, tasks: int) -> int:
    """Most memory that a job commit takes."""
    filesystem = OnDisk(directory)
    job = magicfs.Job("memory://bucket/sales", filesystem=filesystem, options={"tracking": "memory"}).setup()
    commits = [committed(job, filesystem, number) for number in range(tasks)]
    tracemalloc.start()
    try:
        assert job.commit(commits).files == tasks * EACH
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_job_of_five_times_the_files_takes_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is packed would stay in memory up to 16 MiB, a few sets and chunks are read ahead, and a manifest
    lists up to 50,000 files itself.
    """
    monkeypatch.setattr("magicfs.transaction.attempt_output.READ_AHEAD", 2)
    monkeypatch.setattr("magicfs.transaction.facts.READ_AHEAD", 2)
    monkeypatch.setattr("magicfs.transaction.facts.CHUNK_LENGTH", EACH)
    monkeypatch.setattr("magicfs.transaction.spool.FILES_HELD", EACH)
    monkeypatch.setattr("magicfs.transaction.spool.Spool.__init__.__defaults__", (2**16,))
    monkeypatch.setattr(parts, "FILES_IN_MANIFEST", EACH)
    monkeypatch.setattr(parts, "FILES_IN_PART", EACH)
    few = peak_bytes(tmp_path, 6)
    many = peak_bytes(tmp_path, 30)
    # Only hashes of keys, and names of chunks and parts, are kept beside.
    assert many < few + 24 * EACH * 60, (few, many)
