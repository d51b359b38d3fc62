"""Uploads with a checksum of each part, which the store demands again when they are completed."""

from __future__ import annotations

from typing import Any

import pytest

import magicfs
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_job_with_sha256_of_every_part_is_published_on_a_server_that_checks(
    seaweedfs: Server, bucket_factory: Any, tracking: Any
) -> None:
    bucket = bucket_factory(seaweedfs)
    options = {**seaweedfs.storage_options(), "s3_additional_kwargs": {"ChecksumAlgorithm": "SHA256"}}
    body = bytes(range(256)) * 40_000  # two parts
    url = f"s3://{bucket}/checked"
    with (
        magicfs.Job(
            url,
            mode="append",
            storage_options=options,
            options={"tracking": tracking, "part_size": 6 * 2**20},
        ) as job,
        job.task(0) as task,
    ):
        task.filesystem.pipe_file(f"{task.path}/big.bin", body)
    client = seaweedfs.s3_client()
    (key,) = seaweedfs.visible_keys(bucket, "checked")
    assert client.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    head = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"].endswith("-2")
    assert seaweedfs.pending_uploads(bucket) == []
