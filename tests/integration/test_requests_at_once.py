"""How many requests a job commit has on the wire at once, counted by a proxy that holds them up."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from magicfs.job.job import Job
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.azure_operations import azure_operation
from proofs.doubles.azurite import Azurite
from proofs.doubles.gcs_operations import gcs_operation
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

FILES = 40
AT_ONCE = 32
# Long enough for a busy machine to send the others meanwhile.
HELD_UP_S = 8.0
POLL_S = 0.01


def assert_peak(proxy: FaultProxy, complete: str, job: Job, at_once: int) -> None:
    job.setup()
    with job.task(0) as task:
        for number in range(FILES):
            task.filesystem.pipe_file(f"{task.path}/{number}.bin", b"x")
    proxy.clear()
    proxy.add(Rule(complete, Action.DELAY, seconds=HELD_UP_S, times=at_once))
    with ThreadPoolExecutor(1) as pool:
        done, peak, before = pool.submit(job.commit, job.commits), 0, 0
        # Answers let the pace rise: what counts is the peak before the first one.
        while not any(one.operation == complete for one in proxy.requests):
            peak, before = before, proxy.peaks[complete]
            time.sleep(POLL_S)
        assert done.result().files == FILES
    assert (proxy.counts[complete], peak) == (FILES, at_once)


@pytest.mark.parametrize(("options", "at_once"), [({}, AT_ONCE), ({"concurrency": 5}, 5)])
def test_job_commit_on_s3_has_as_many_completes_at_once_as_it_may(
    ministack: Server, bucket_factory: Callable[..., str], options: dict[str, Any], at_once: int
) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        storage_options = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
        job = Job(
            f"s3://{bucket_factory(ministack)}/sales", storage_options=storage_options, **arranged(**options)
        )
        assert_peak(proxy, "CompleteMultipartUpload", job, at_once)


def test_job_commit_on_gcs_has_as_many_completes_at_once_as_it_may(
    gcs: GcsDouble, bucket_factory: Callable[..., str]
) -> None:
    with FaultProxy(gcs.endpoint, gcs_operation) as proxy:
        storage_options = gcs.plain_options(proxy.endpoint)
        job = Job(f"gs://{bucket_factory(gcs)}/sales", storage_options=storage_options)
        assert_peak(proxy, "CompleteMultipartUpload", job, AT_ONCE)


@pytest.mark.nightly
def test_job_commit_on_azure_has_as_many_completes_at_once_as_it_may(
    azurite: Azurite, bucket_factory: Callable[..., str]
) -> None:
    with FaultProxy(azurite.endpoint, azure_operation) as proxy:
        storage_options = {"connection_string": azurite.connection_string(proxy.endpoint)}
        job = Job(f"abfs://{bucket_factory(azurite)}/sales", storage_options=storage_options)
        assert_peak(proxy, "Put Block List", job, AT_ONCE)
