"""A forged job that renames: its object, its facts and its work file, as somebody may write them."""

from __future__ import annotations

import hashlib
import time
from typing import Final
from uuid import uuid4

from magicfs.formats import deletions
from magicfs.formats.job_object import Chunk, JobObject
from magicfs.formats.job_options import JobOptions
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import Source
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.temporary import TemporaryLayout
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from proofs.hostile.ground import Ground

__all__ = ["forged_rename"]

_ATTEMPT: Final = "attempt-000000-abcdef012345"


def forged_rename(ground: Ground, obstacle: str) -> str:
    """Write a job past its commit point that says a file was in its way; returns its id."""
    job, destination = JobId(str(uuid4())), ground.key("sales")
    layout = WorkLayout(destination, job)
    source = f"{TemporaryLayout(destination, job).tasks_directory}/{_ATTEMPT}/new.csv"
    ground.put(source, b"new")
    one = Pending(
        bucket=ground.bucket,
        destination_key=ground.key("sales/new.csv"),
        length=3,
        job_id=job,
        task_id=_ATTEMPT,
        source=Source(source, _etag(ground, source)),
    )

    def chunk(name: str, raw: bytes, size: int) -> Chunk:
        key = f"{layout.facts_directory('0123456789abcdef')}/{name}"
        ground.put(key, raw)
        return Chunk(key, hashlib.sha256(raw).hexdigest(), 1, size)

    old = [deletions.OldObject(obstacle, _etag(ground, obstacle), 1)]
    now = int(time.time() * 1000)
    forged = JobObject(
        job_id=job,
        bucket=ground.bucket,
        destination=destination,
        state=JobState.COMMITTING,
        nonce="n",
        driver="d",
        options=JobOptions(committer="manifest", mode="append"),
        created_ms=now,
        changed_ms=now,
        files=1,
        tasks=1,
        size=3,
        chunks=(chunk("00000.json", PendingSet(job_id=job, commits=(one,)).to_bytes("object"), 3),),
        deletions=(chunk("deletions-00000.json", deletions.write(old), 1),),
        equal_keys=(obstacle,),
    )
    ground.put(layout.job_object_key, forged.to_bytes())
    return job


def _etag(ground: Ground, key: str) -> str:
    return run_on(resolve.loop_of(ground.filesystem), ground.store.head, key).etag
