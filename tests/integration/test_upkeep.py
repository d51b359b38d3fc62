"""What stores say of their open uploads, their clock and their lifecycle rules."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.datasets.connection import open_destination
from magicfs.errors import ObjectNotFound, PermissionDenied, Unsupported, UploadNotFound
from magicfs.operate.open_uploads import Owner
from magicfs.operate.prices import price_of
from magicfs.operate.uploads import survey
from magicfs.stores import resolve
from magicfs.stores.port import Rule, Store, Upkeep, upkeep_of
from proofs.doubles.azurite import Azurite
from proofs.doubles.gcs_server import GcsDouble

HOSTILE = "día 1/50% +#ä & <b>.parquet"
PART = b"x" * (5 * 2**20)
SERVERS = ("ministack", "moto", "seaweedfs")
RULES = [
    {
        "ID": "one",
        "Status": "Enabled",
        "Filter": {"Prefix": "a b/"},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 5},
    },
    {
        "ID": "off",
        "Status": "Disabled",
        "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    },
    {"ID": "other", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 900}},
]


def at(url: str, options: dict[str, Any]) -> tuple[Callable[..., Any], Store, Upkeep]:
    place = open_destination(url, options)
    loop, store = resolve.loop_of(place.filesystem), place.engine.store
    return (lambda work, *a, **k: sync(loop, work, *a, **k)), store, upkeep_of(store)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("own", ["own", "aiobotocore"])
def test_s3_says_what_an_upload_has_come_to(
    name: str, own: str, server: Callable[[str], Any], bucket_factory: Callable[..., str]
) -> None:
    one = server(name)
    options = one.storage_options()
    if own == "aiobotocore":  # a checksum of the caller's own is not for our requests
        options["config_kwargs"] = {**options.get("config_kwargs", {}), "proxies": {"none": "x"}}
    run, store, upkeep = at(f"s3://{bucket_factory(one)}", options)
    upload = run(store.create_upload, HOSTILE, metadata={})
    assert run(upkeep.written, HOSTILE, upload).size == 0
    for number in (1, 2, 3):
        run(store.put_part, HOSTILE, upload, number, PART if number < 3 else b"end")
    found = run(upkeep.written, HOSTILE, upload)
    assert found.size == 2 * len(PART) + 3
    assert found.last is not None
    if name != "moto":  # which dates everything in 2010
        assert abs(found.last - time.time()) < 30
    assert abs(run(upkeep.clock) - time.time()) < 30
    run(store.abort_upload, HOSTILE, upload)
    with pytest.raises(UploadNotFound):
        run(upkeep.written, HOSTILE, upload)


@pytest.mark.parametrize("name", SERVERS)
def test_s3_says_which_rules_end_uploads(
    name: str, server: Callable[[str], Any], bucket_factory: Callable[..., str]
) -> None:
    one = server(name)
    bucket = bucket_factory(one)
    run, _, upkeep = at(f"s3://{bucket}", one.storage_options())
    assert run(upkeep.rules) == ()
    client = one.s3_client()
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": RULES})
    assert run(upkeep.rules) == (Rule(5, "a b/"),)


def test_wrong_credentials_and_buckets_are_told_apart(
    server: Callable[[str], Any], bucket_factory: Callable[..., str]
) -> None:
    one = server("seaweedfs")
    url, options = f"s3://{bucket_factory(one)}", one.storage_options()
    run, _, upkeep = at(url, {**options, "secret": "another"})
    for ask in (upkeep.clock, upkeep.rules):
        with pytest.raises(PermissionDenied):
            run(ask)
    run, _, upkeep = at("s3://no-such-bucket-is-here", options)
    with pytest.raises(ObjectNotFound):
        run(upkeep.clock)


@pytest.mark.parametrize("name", SERVERS)
def test_uploads_of_a_bucket_that_never_saw_magicfs(
    name: str, server: Callable[[str], Any], bucket_factory: Callable[..., str], run_uploads: Any
) -> None:
    one = server(name)
    bucket = bucket_factory(one)
    client = one.s3_client()
    for key in (HOSTILE, "logs/a", "logs/b"):
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=b"12345")
    job = magicfs.Job(f"s3://{bucket}/sales", mode="append", storage_options=one.storage_options()).setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/{HOSTILE}", b"123")
    report = run_uploads(f"s3://{bucket}", one.storage_options(), sizes=True)
    assert report.owners[Owner.NOBODY].uploads == 3
    assert report.total.bytes == 18
    assert report.total.uploads == 4


@pytest.fixture
def run_uploads() -> Callable[..., Any]:
    def run(url: str, options: dict[str, Any], **how: Any) -> Any:
        place = open_destination(url, options, for_reading=True)
        return place.run(survey, price_of("s3", None), **how)

    return run


def test_google_says_all_of_it(gcs: GcsDouble, bucket_factory: Callable[..., str], run_uploads: Any) -> None:
    bucket = bucket_factory(gcs, "upkeep")
    options = gcs.storage_options()
    run, store, upkeep = at(f"gs://{bucket}", options)
    upload = run(store.create_upload, HOSTILE, metadata={})
    run(store.put_part, HOSTILE, upload, 1, PART)
    run(store.put_part, HOSTILE, upload, 2, b"end")
    found = run(upkeep.written, HOSTILE, upload)
    assert (found.size, found.last is not None) == (len(PART) + 3, True)
    assert abs(run(upkeep.clock) - time.time()) < 30
    assert run(upkeep.rules) == ()
    report = run_uploads(f"gs://{bucket}", options, sizes=True)
    assert (report.total.uploads, report.total.bytes) == (1, len(PART) + 3)
    run(store.abort_upload, HOSTILE, upload)
    with pytest.raises(UploadNotFound):
        run(upkeep.written, HOSTILE, upload)


def test_azure_says_what_it_can_know(
    azurite: Azurite, bucket_factory: Callable[..., str], run_uploads: Any
) -> None:
    container = bucket_factory(azurite)
    options = azurite.storage_options()
    job = magicfs.Job(f"abfs://{container}/sales", mode="append", storage_options=options).setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/{uuid4()}", b"123")
    report = run_uploads(f"abfs://{container}", options)
    assert {owner: one.uploads for owner, one in report.owners.items()} == {Owner.RUNNING: 1}
    for how in ({"sizes": True}, {"older_than_s": 8 * 86_400.0}):
        with pytest.raises(Unsupported, match="cannot say when an upload was last written"):
            run_uploads(f"abfs://{container}", options, **how)
