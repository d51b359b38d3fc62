"""Stores that take parts of one size alone, as Cloudflare R2 does."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from s3fs import S3FileSystem

import magicfs
from magicfs.errors import MagicError
from magicfs.protocol import parts
from magicfs.stores import resolve
from magicfs.stores.s3 import store as s3
from proofs.doubles.equal_parts import EqualPartsProxy
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

FEW = 20
"""Parts that an upload may have: after each tenth of them parts grow."""
LENGTH = 7 * 5 * 2**20 + 3


@pytest.fixture
def strict(ministack: Server) -> Iterator[EqualPartsProxy]:
    with EqualPartsProxy(ministack.endpoint) as proxy:
        yield proxy
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits with which an upload of some megabytes has parts that grow."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class FewParts(parts.PartLimits):
        count_max: int = FEW

    monkeypatch.setattr(s3, "PartLimits", FewParts)


def publish(server: Server, proxy: EqualPartsProxy, bucket: str, body: bytes, **options: Any) -> None:
    where = {**server.storage_options(), "endpoint_url": proxy.endpoint, **options}
    url = f"s3://{bucket}/sales"
    job = magicfs.Job(url, mode="append", storage_options=where, options={"part_size": 5 * 2**20})
    with job, job.task(0) as task, task.filesystem.open(f"{task.path}/large.bin", "wb") as file:
        for start in range(0, len(body), 2**20 + 7):
            file.write(body[start : start + 2**20 + 7])


@pytest.mark.usefixtures("few_parts")
def test_growing_parts_are_refused_there_and_nothing_is_published(
    ministack: Server, strict: EqualPartsProxy, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(ministack)
    with pytest.raises(MagicError, match="InvalidPart"):
        publish(ministack, strict, bucket, os.urandom(LENGTH))
    assert ministack.visible_keys(bucket, "sales/") == []


@pytest.mark.usefixtures("few_parts")
def test_equal_parts_are_sent_where_the_filesystem_is_told_so(
    ministack: Server, strict: EqualPartsProxy, bucket_factory: Callable[..., str]
) -> None:
    bucket, body = bucket_factory(ministack), os.urandom(LENGTH)
    publish(ministack, strict, bucket, body, fixed_upload_size=True)
    (key,) = ministack.visible_keys(bucket, "sales/")
    assert ministack.read(bucket, key) == body


@pytest.mark.parametrize(
    ("endpoint", "equal"),
    [
        ("https://0123abc.r2.cloudflarestorage.com", True),
        ("https://0123abc.eu.r2.cloudflarestorage.com/", True),
        ("https://r2.cloudflarestorage.com.example.org", False),
        ("https://s3.eu-central-1.amazonaws.com", False),
        (None, False),
    ],
)
def test_r2_is_known_by_its_endpoint(
    endpoint: str | None, equal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    filesystem = S3FileSystem(key="k", secret="s", endpoint_url=endpoint, skip_instance_cache=True)
    store = resolve.open_store(filesystem, "bucket")
    assert store.capabilities.parts.equal_sizes is equal
