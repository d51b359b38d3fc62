"""``magicfs doctor`` on a server that looks at credentials."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

import magicfs
from magicfs.errors import PermissionDenied
from proofs.doubles.servers import Server

ENDS = {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}


def verdicts(url: str, options: dict[str, object], **how: bool) -> dict[str, tuple[str, str]]:
    report = magicfs.Dataset(url, storage_options=options).doctor(**how)
    return {one.subject: (one.verdict, one.told + one.advice) for one in report.findings}


def test_credentials_buckets_and_endpoints_are_told_apart(
    seaweedfs: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket, options = bucket_factory(seaweedfs), seaweedfs.storage_options()
    url = f"s3://{bucket}/día 1"
    seaweedfs.s3_client().put_object(Bucket=bucket, Key="día 1/a.bin", Body=b"1")
    sound = verdicts(url, options)
    assert sound.pop("lifecycle")[0] == "look"
    assert {one for one, _ in sound.values()} == {"ok"}
    rule = {"Rules": [{"ID": "a", "Status": "Enabled", "Filter": {"Prefix": ""}, **ENDS}]}
    seaweedfs.s3_client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rule)
    assert magicfs.Dataset(url, storage_options=options).doctor(read_only=True).ok

    wrong = verdicts(url, {**options, "secret": "another"})
    assert wrong["list"][0] == "wrong"
    assert "SignatureDoesNotMatch" in wrong["list"][1]
    assert "check the credentials" in wrong["list"][1]

    nowhere = verdicts(f"s3://{bucket}-nowhere/x", options)
    assert [*nowhere] == ["versions", "list"]
    assert "create the bucket first, or correct its name" in nowhere["list"][1]

    dead = {**options, "endpoint_url": "http://127.0.0.1:9"}
    dead["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    assert "check that the endpoint is right and up" in verdicts(url, dead)["list"][1]


def test_pandas_tells_wrong_credentials_as_what_they_are(
    seaweedfs: Server, bucket_factory: Callable[..., str]
) -> None:
    url = f"magic+s3://{bucket_factory(seaweedfs)}/x/__magic/job/task/__base/a.csv"
    wrong = {**seaweedfs.storage_options(), "secret": "another"}
    with pytest.raises(PermissionDenied, match="SignatureDoesNotMatch"):
        pd.DataFrame({"x": [1]}).to_csv(url, storage_options={"s3": wrong})
