"""Job commits whose files are completed by other processes, against a real S3 server."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

import magicfs
from magicfs.job.workers import CompleteFiles, CompletionResult, FileRange
from magicfs.testing.fault_proxy import Action, FaultProxy, Rule
from magicfs.transaction import facts
from proofs.doubles.servers import Server

BODIES = [b"%d" % number for number in range(7)]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven files make four chunks."""
    monkeypatch.setattr(facts, "CHUNK_LENGTH", 2)


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


@pytest.fixture
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        yield processes


def written(server: Server, bucket: str) -> magicfs.Job:
    job = magicfs.Job(f"s3://{bucket}/d", conflict="append", storage_options=server.storage_options()).setup()
    with job.task(0) as task:
        for number, body in enumerate(BODIES):
            task.filesystem.pipe_file(f"{task.path}/{number}.bin", body)
    return job


def assert_whole(server: Server, bucket: str) -> None:
    client, keys = server.s3_client(), server.visible_keys(bucket, "d/")
    assert sorted(client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys) == BODIES
    assert server.pending_uploads(bucket) == []
    assert [key for key in server.all_keys(bucket) if "__magic" in key] == []


def test_a_pool_of_processes_completes_the_files(
    ministack: Server, bucket: str, pool: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
    job = written(ministack, bucket)
    report = job.commit(job.commits, completer=pool.map)
    assert (report.files, report.warnings) == (7, ())
    assert_whole(ministack, bucket)


def test_processes_that_are_killed_in_the_middle_leave_the_rest_to_the_driver(
    ministack: Server, bucket: str, pool: ProcessPoolExecutor
) -> None:
    job = written(ministack, bucket)
    with FaultProxy(ministack.endpoint) as proxy:
        proxy.add(Rule("CompleteMultipartUpload", Action.HANG, skip=3))
        options: dict[str, Any] = {**ministack.storage_options(), "endpoint_url": proxy.endpoint}

        def completer(work: CompleteFiles, ranges: Sequence[FileRange]) -> Iterable[CompletionResult]:
            running = [pool.submit(work.with_storage_options(options), one) for one in ranges]
            while len(ministack.visible_keys(bucket, "d/")) < 3:
                time.sleep(0.05)
            for process in multiprocessing.active_children():
                assert process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
            return (one.result() for one in running)

        (warning,) = job.commit(job.commits, completer=completer).warnings
    assert "files were left to the driver" in warning
    assert "BrokenProcessPool" in warning
    assert_whole(ministack, bucket)
