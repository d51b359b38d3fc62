"""A job commit that dies half-way, and the abort that follows from another process, as Spark's does."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

import magicfs
from magicfs.errors import ProtocolViolation
from magicfs.task_commit import TaskCommit
from magicfs.testing.servers import Server

DYING_COMMIT = """
import os, pickle, sys
import magicfs
from magicfs.report import Progress

url, job_id, after, options, commits = pickle.load(sys.stdin.buffer)

def die(progress: Progress) -> None:
    if progress.files_done == after:
        os._exit(9)

how = {"conflict": "append", "tracking": "memory", "concurrency": 1}
job = magicfs.Job(url, job_id=job_id, storage_options=options, progress=die, **how)
job.setup().commit(commits)
"""


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Any) -> str:
    return str(bucket_factory(ministack))


def written(server: Server, url: str, files: int) -> tuple[magicfs.Job, TaskCommit]:
    job = magicfs.Job(url, conflict="append", tracking="memory", storage_options=server.storage_options())
    job.setup()
    task = magicfs.Task(job.spec, job.task(0).id).setup()
    task.filesystem.pipe({f"{task.path}/é {n}%.bin": bytes([n]) for n in range(files)})
    return job, task.commit()


def commit_that_dies(server: Server, job: magicfs.Job, commit: TaskCommit, after: int) -> None:
    given = pickle.dumps((job.url, job.id, after, server.storage_options(), [commit]))
    ended = subprocess.run(
        [sys.executable, "-c", DYING_COMMIT], input=given, check=False, env=dict(os.environ)
    )
    assert ended.returncode == 9


@pytest.mark.parametrize("after", [1, 3, 5])
def test_abort_after_a_commit_that_died_leaves_the_destination_as_it_was(
    ministack: Server, bucket: str, after: int
) -> None:
    old = f"d/old-{after}.bin"
    ministack.boto3_client().put_object(Bucket=bucket, Key=old, Body=b"old")
    job, commit = written(ministack, f"s3://{bucket}/d", 5)
    commit_that_dies(ministack, job, commit, after)
    assert len(ministack.visible_keys(bucket, "d")) == 1 + after
    job.add(commit)
    job.abort()
    assert ministack.all_keys(bucket) == [old]
    assert ministack.pending_uploads(bucket) == []


def test_abort_leaves_a_file_that_somebody_else_has_replaced(ministack: Server, bucket: str) -> None:
    job, commit = written(ministack, f"s3://{bucket}/d", 2)
    commit_that_dies(ministack, job, commit, 2)
    theirs, _ours = ministack.visible_keys(bucket, "d")
    ministack.boto3_client().put_object(Bucket=bucket, Key=theirs, Body=b"theirs")
    job.add(commit)
    job.abort()
    assert ministack.all_keys(bucket) == [theirs]


def test_abort_of_a_job_that_another_process_published_touches_nothing(
    ministack: Server, bucket: str
) -> None:
    job, commit = written(ministack, f"s3://{bucket}/d", 2)
    again = magicfs.Job(
        job.url,
        conflict="append",
        tracking="memory",
        job_id=job.id,
        storage_options=ministack.storage_options(),
    )
    again.setup().commit([commit])
    before = ministack.all_keys(bucket)
    job.add(commit)
    with pytest.raises(ProtocolViolation, match="is published"):
        job.abort()
    assert ministack.all_keys(bucket) == before
