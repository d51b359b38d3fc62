"""The tree exam: over objects in memory and on a server, and of local files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
from aiobotocore.session import AioSession
from botocore.exceptions import ClientError
from s3fs import S3FileSystem

from magicfs.stores import resolve
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import tree_of
from magicfs.testing.counting_store import CountingStore
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.servers import Server
from proofs.scenes.store_subjects import BUCKET
from proofs.tree_exam import AtomicTreeExam, CopyingTreeExam, LocalTreeExam, MemoryTreeExam


class TestMemoryTree(MemoryTreeExam):
    subject = "memory"


class TestCountingTree(MemoryTreeExam):
    subject = "counting"

    def make_tree(self, bucket: str | None = None) -> Tree:
        return tree_of(CountingStore(MemoryStore(bucket or BUCKET, self.world), Counter()))


class TestLocalTree(LocalTreeExam):
    subject = "local"


class TestCountingLocalTree(LocalTreeExam):
    subject = "counting local"

    def make_tree(self, bucket: str | None = None) -> Tree:
        return tree_of(CountingStore(self.local_store(bucket), Counter()))


# In the gate each sentence is put to one server of S3, and to one of those with folders; ``tox run -e exams``
# puts it to all.
of_folders = pytest.mark.sample(classes="folders")


class TestMinistackTree(CopyingTreeExam):
    subject = "ministack"

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
        self.filesystem = S3FileSystem(**self.running.storage_options(), session=small_pages)
        yield
        # A store that was resolved wrongly would pass in memory what it was to show on the server.
        assert default_world().buckets() == before

    def make_tree(self, bucket: str | None = None) -> Tree:
        return tree_of(resolve.open_store(self.filesystem, bucket or self.bucket))

    def peek(self, path: str) -> bytes | None:
        try:
            answer = self.running.s3_client().get_object(Bucket=self.bucket, Key=path)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return None
        body: bytes = answer["Body"].read()
        return body

    def poke(self, path: str, body: bytes) -> None:
        self.running.s3_client().put_object(Bucket=self.bucket, Key=path, Body=body)


FOLDERS = {"hierarchicalNamespace": {"enabled": True}}


class OnGcs:
    """A bucket of the double of Google Cloud Storage.

    Attributes:
        folders: Whether it has a hierarchical namespace.
    """

    folders: ClassVar[bool]

    @pytest.fixture(autouse=True)
    def _bucket(self, gcs: GcsDouble, bucket_factory: Callable[..., str]) -> Iterator[None]:
        before = default_world().buckets()
        self.running = gcs
        self.bucket = bucket_factory(gcs, **(FOLDERS if self.folders else {}))
        self.filesystem = resolve.filesystem("gs", gcs.storage_options())
        yield
        assert default_world().buckets() == before

    def make_tree(self, bucket: str | None = None) -> Tree:
        return tree_of(resolve.open_store(self.filesystem, bucket or self.bucket))

    def peek(self, path: str) -> bytes | None:
        return self.running.read(self.bucket, path)

    def poke(self, path: str, body: bytes) -> None:
        self.running.write(self.bucket, path, body)


@of_folders
class TestAdlsTree(AtomicTreeExam):
    subject = "adls"

    @pytest.fixture(autouse=True)
    def _container(
        self, adls: AdlsDouble, bucket_factory: Callable[..., str], small_lake_pages: None
    ) -> Iterator[None]:
        before = default_world().buckets()
        self.running = adls
        self.bucket = bucket_factory(adls)
        self.filesystem = resolve.filesystem("abfs", adls.storage_options())
        yield
        assert default_world().buckets() == before

    def make_tree(self, bucket: str | None = None) -> Tree:
        return tree_of(resolve.open_store(self.filesystem, bucket or self.bucket))

    def peek(self, path: str) -> bytes | None:
        return self.running.read(self.bucket, path)

    def poke(self, path: str, body: bytes) -> None:
        self.running.write(self.bucket, path, body)


@of_folders
class TestGcsFolderTree(OnGcs, AtomicTreeExam):
    subject = "gcs with folders"
    folders = True


@pytest.mark.nightly
class TestGcsFlatTree(OnGcs, CopyingTreeExam):
    subject = "gcs"
    folders = False
