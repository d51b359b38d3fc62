"""Each request for a job bears its id, so that the access log of a store says who did what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from gcsfs.core import GCSFileSystem

import magicfs
from magicfs.stores.s3.requests.line import counts
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.version import __version__
from proofs.doubles.azure_operations import azure_operation
from proofs.doubles.azurite import Azurite
from proofs.doubles.gcs_operations import gcs_operation
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.servers import Server

AGENT = f"magicfs/{__version__}"


def agents_of(url: str, options: Mapping[str, Any], proxy: FaultProxy) -> tuple[str, list[tuple[str, str]]]:
    """The id of a job, and operation and agent of each request that was made for it."""
    proxy.clear()
    job = magicfs.Job(url, mode="append", storage_options=options)
    with job, job.task(0) as task, task.filesystem.open(f"{task.path}/a.bin", "wb") as file:
        file.write(b"a" * (6 << 20))
    return job.id, [(one.operation, one.headers["user-agent"]) for one in proxy.requests]


def check(job: str, seen: list[tuple[str, str]]) -> None:
    assert len(seen) > 10
    unnamed = [one for one in seen if f"{AGENT} job/{job}" not in one[1]]
    assert unnamed == []


@pytest.mark.parametrize("sender", ["own", "aiobotocore"])
def test_s3(ministack: Server, bucket_factory: Callable[..., str], sender: str) -> None:
    bucket = bucket_factory(ministack, "agents")
    with FaultProxy(ministack.endpoint) as proxy:
        options = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
        if sender == "aiobotocore":  # which alone knows the old way to sign
            options["config_kwargs"] = {**options.get("config_kwargs", {}), "signature_version": "s3"}
        before = counts[sender]
        job, seen = agents_of(f"s3://{bucket}/sales", options, proxy)
        assert counts[sender] > before
        check(job, seen)
        assert all("botocore" in agent.lower() for _, agent in seen)  # what the SDK says of itself is kept


def test_gcs(gcs: GcsDouble, bucket_factory: Callable[..., str]) -> None:
    bucket = bucket_factory(gcs, "agents")
    with FaultProxy(gcs.endpoint, gcs_operation) as proxy:
        check(*agents_of(f"gs://{bucket}/sales", gcs.plain_options(proxy.endpoint), proxy))
        GCSFileSystem.clear_instance_cache()


def test_azure(azurite: Azurite, bucket_factory: Callable[..., str]) -> None:
    container = bucket_factory(azurite, "agents")
    with FaultProxy(azurite.endpoint, azure_operation) as proxy:
        options = {"connection_string": azurite.connection_string(proxy.endpoint)}
        check(*agents_of(f"abfs://{container}/sales", options, proxy))


def test_a_recovery_names_the_job_that_it_ends(ministack: Server, bucket_factory: Callable[..., str]) -> None:
    bucket = bucket_factory(ministack, "agents")
    url = f"s3://{bucket}/sales"
    with FaultProxy(ministack.endpoint) as proxy:
        options = ministack.storage_options() | {"endpoint_url": proxy.endpoint}
        job = magicfs.Job(url, mode="append", storage_options=options).setup()
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"a")
        proxy.clear()
        magicfs.Dataset(url, storage_options=options).recover(abort=True, reason="nobody wants it")
        named = [one for one in proxy.requests if f"job/{job.id}" in one.headers["user-agent"]]
        assert {"AbortMultipartUpload", "PutObject"} <= {one.operation for one in named}
