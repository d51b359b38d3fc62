"""The store exam of every store that the tests rely on: the definition, local files, and two servers
behind s3fs; three with ``tox run -e exams``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from aiobotocore.session import AioSession
from botocore.exceptions import ClientError
from s3fs import S3FileSystem

from magicfs.stores import resolve
from magicfs.stores.memory import default_world
from magicfs.stores.port import Store
from magicfs.stores.retrying import RetryingStore
from magicfs.testing.counting_store import CountingStore
from magicfs.testing.servers import Server
from magicfs.testing.store_exam import LocalStoreExam, MemoryStoreExam, StoreExam


class TestMemoryStore(MemoryStoreExam):
    subject = "memory"


class TestCountingStore(MemoryStoreExam):
    subject = "counting"

    def make_store(self, bucket: str | None = None) -> CountingStore:
        return CountingStore(super().make_store(bucket), Counter())


class TestRetryingStore(MemoryStoreExam):
    subject = "retrying"

    def make_store(self, bucket: str | None = None) -> RetryingStore:
        return RetryingStore(super().make_store(bucket))


class TestLocalStore(LocalStoreExam):
    subject = "local"


class S3Exam(StoreExam):
    @pytest.fixture(autouse=True)
    def _bucket(
        self,
        server: Callable[[str], Server],
        bucket_factory: Callable[..., str],
        small_pages: AioSession | None,
    ) -> Iterator[None]:
        before = default_world().buckets()
        self.running = server(self.subject)
        self.bucket = bucket_factory(self.running)
        # Few attempts: moto answers 500 to what it does not know, however often it is asked.
        self.filesystem = S3FileSystem(
            **self.running.storage_options(),
            config_kwargs={"retries": {"total_max_attempts": 2}},
            session=small_pages,
        )
        yield
        # A store that was resolved wrongly would pass in memory what it was to show on the server.
        assert default_world().buckets() == before

    def make_store(self, bucket: str | None = None) -> Store:
        return resolve.open_store(self.filesystem, bucket or self.bucket)

    def peek(self, key: str) -> bytes | None:
        try:
            answer = self.running.s3_client().get_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return None
        body: bytes = answer["Body"].read()
        return body

    def poke(self, key: str, body: bytes) -> None:
        self.running.s3_client().put_object(Bucket=self.bucket, Key=key, Body=body)


class TestMinistack(S3Exam):
    subject = "ministack"


if os.environ.get("MAGICFS_EXAMS") == "all":  # the slowest of the three, and the least strict

    class TestMoto(S3Exam):
        subject = "moto"


class TestSeaweedFS(S3Exam):
    subject = "seaweedfs"
