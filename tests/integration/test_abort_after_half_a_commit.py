"""A job commit that dies half-way, and the abort that follows from another process, as Spark's does."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitDenied, ProtocolViolation
from magicfs.formats.task_commit import TaskCommit
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

DYING_COMMIT = """
import os, pickle, sys
from magicfs.report import Progress

job, after, commits = pickle.load(sys.stdin.buffer)

def die(progress: Progress) -> None:
    if progress.files_done == after:
        os._exit(9)

job._progress = die
job.commit(commits)
"""


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Any) -> str:
    return str(bucket_factory(ministack))


def written(server: Server, url: str, files: int) -> tuple[magicfs.Job, TaskCommit]:
    options = server.storage_options()
    job = magicfs.Job(
        url, mode="append", concurrency=1, storage_options=options, options={"tracking": "memory"}
    )
    job.setup()
    task = magicfs.Task(job.spec, job.task(0).id).setup()
    task.filesystem.pipe({f"{task.path}/é {n}%.bin": bytes([n]) for n in range(files)})
    return job, task.commit()


def commit_that_dies(server: Server, job: magicfs.Job, commit: TaskCommit, after: int) -> None:
    """Commit a copy of the job, which may, in a process that dies after so many files."""
    secrets = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    given = pickle.dumps((job, after, [commit]))
    ended = subprocess.run(
        [sys.executable, "-c", DYING_COMMIT], input=given, check=False, env={**os.environ, **secrets}
    )
    assert ended.returncode == 9


def test_abort_after_a_commit_that_died_leaves_what_others_wrote(ministack: Server, bucket: str) -> None:
    client = ministack.s3_client()
    client.put_object(Bucket=bucket, Key="d/old-0.bin", Body=b"old")
    job, commit = written(ministack, f"s3://{bucket}/d", 5)
    commit_that_dies(ministack, job, commit, 3)
    theirs, *ours = ministack.visible_keys(bucket, "d/é")
    assert len(ours) == 2
    client.put_object(Bucket=bucket, Key=theirs, Body=b"theirs")
    job.add(commit)
    job.abort()
    assert ministack.all_keys(bucket) == ["d/old-0.bin", theirs]
    assert ministack.pending_uploads(bucket) == []


@pytest.mark.parametrize("committing", [False, True])
def test_driver_whose_job_was_taken_over_can_neither_abort_nor_commit_it(
    ministack: Server, bucket: str, committing: bool
) -> None:
    job, commit = written(ministack, f"s3://{bucket}/d", 3)
    again = magicfs.Job(
        job.url,
        mode="append",
        concurrency=1,
        job_id=job.id,
        storage_options=ministack.storage_options(),
        options={"tracking": "memory"},
    ).setup()
    if committing:
        commit_that_dies(ministack, again, commit, 2)
    before = ministack.all_keys(bucket), ministack.pending_uploads(bucket)
    job.add(commit)
    for call in (job.abort, lambda: job.commit([commit])):
        with pytest.raises(CommitDenied, match=f"job {job.id} was taken over by another driver, attempt 0"):
            call()
    assert (ministack.all_keys(bucket), ministack.pending_uploads(bucket)) == before
    assert again.commit([commit]).files == 3
    assert len(ministack.visible_keys(bucket, "d")) == 3


def test_abort_of_a_job_that_another_process_published_touches_nothing(
    ministack: Server, bucket: str
) -> None:
    job, commit = written(ministack, f"s3://{bucket}/d", 2)
    again = magicfs.Job(
        job.url,
        mode="append",
        job_id=job.id,
        storage_options=ministack.storage_options(),
        options={"tracking": "memory"},
    )
    again.setup().commit([commit])
    before = ministack.all_keys(bucket)
    job.add(commit)
    with pytest.raises(ProtocolViolation, match="is published"):
        job.abort()
    assert ministack.all_keys(bucket) == before
