"""The store exam of every store that the tests rely on: the definition, local files, three servers of S3 by
our own requests and one by aiobotocore's, and the double of Google Cloud Storage behind gcsfs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from adlfs import AzureBlobFileSystem
from aiobotocore.session import AioSession
from fsspec import AbstractFileSystem
from hypothesis import strategies as st
from s3fs import S3FileSystem

from magicfs.errors import Unsupported
from magicfs.stores import resolve
from magicfs.stores.conditions import Conditions
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.stores.port import ObjectInfo, Part, Store, Uploads
from magicfs.stores.retrying import RetryingStore
from magicfs.stores.s3.requests.line import Engine, counts
from magicfs.stores.s3.store import S3Store
from magicfs.testing import strategies
from magicfs.testing.counting_store import CountingStore
from magicfs.testing.store_exam import (
    BlockStoreExam,
    IgnoringStoreExam,
    StoreExam,
    UnconditionalStoreExam,
    VersionsExam,
)
from magicfs.testing.store_exam.suite import PlainFileStoreExam
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.azurite import Azurite
from proofs.doubles.deviations import OfTheTables
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.s3_wire import over_wire
from proofs.doubles.server_process import ServerProcess
from proofs.doubles.servers import Server
from proofs.scenes.store_subjects import BUCKET, LocalFiles, LocalStoreExam, MemoryObjects, MemoryStoreExam

# In the gate each sentence is put to memory, to local files, to one server of S3, to one of the doubles of
# other clouds, and to one of the stores that are built around that in memory; ``tox run -e exams`` puts it to
# all.
of_clouds, around_memory = (pytest.mark.sample(classes=kind) for kind in ("clouds", "around memory"))


class TestMemoryStore(MemoryStoreExam):
    subject = "memory"


@around_memory
class TestCountingStore(MemoryStoreExam):
    subject = "counting"

    def make_store(self, bucket: str | None = None) -> CountingStore:
        return CountingStore(super().make_store(bucket), Counter())


@around_memory
class TestRetryingStore(MemoryStoreExam):
    subject = "retrying"

    def make_store(self, bucket: str | None = None) -> RetryingStore:
        return RetryingStore(super().make_store(bucket))


@around_memory
class TestS3StoreOverWire(MemoryStoreExam):
    """Our requests to S3, answered in this process from memory."""

    subject = "wire"

    def make_store(self, bucket: str | None = None) -> S3Store:
        return over_wire(super().make_store(bucket))


class TestLocalStore(LocalStoreExam):
    subject = "local"


class RenamesOnly(LocalStore):
    """Files on which nothing can be delayed, as on stores that show an object while it is written."""

    capabilities = replace(LocalStore.capabilities, uploads=Uploads(delayed=False))

    async def create_upload(self, key: str, **_: Any) -> str:
        raise self._refused("create_upload", key)

    async def put_part(self, key: str, *_: Any) -> Part:
        raise self._refused("put_part", key)

    async def complete_upload(self, key: str, *_: Any, **__: Any) -> ObjectInfo:
        raise self._refused("complete_upload", key)

    def _refused(self, operation: str, key: str) -> Unsupported:
        hint = "use committer='file' or committer='manifest', which rename files"
        return Unsupported(operation, key, "nothing can be delayed here", hint=hint)


class TestStoreWithoutUploads(LocalFiles, PlainFileStoreExam):
    subject = "renaming"
    honoured = Conditions(put_if_match=False, complete_if_absent=False)

    def make_store(self, bucket: str | None = None) -> Store:
        return RenamesOnly(self.local_store(bucket).bucket)


class OnS3(OfTheTables):
    """A bucket of a server that speaks S3, asked by our own requests alone, or by aiobotocore's."""

    subject: str
    running_on: ClassVar[str] = ""  # the server's name, where that is not the subject's
    engine: ClassVar[Engine] = "own"
    running: Server
    bucket: str
    filesystem: S3FileSystem

    @pytest.fixture(autouse=True)
    def _bucket(
        self,
        server: Callable[[str], Server],
        bucket_factory: Callable[..., str],
        small_pages: AioSession | None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[None]:
        before, sent = default_world().buckets(), dict(counts)
        monkeypatch.setattr(S3Store, "engine", self.engine)
        self.running = server(self.running_on or self.subject)
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
        assert {name for name in counts if counts[name] != sent[name]} <= {self.engine}

    def make_store(self, bucket: str | None = None) -> Store:
        return resolve.open_store(self.filesystem, bucket or self.bucket)

    def peek(self, key: str) -> bytes | None:
        return self.running.read(self.bucket, key)

    def poke(self, key: str, body: bytes) -> None:
        self.running.write(self.bucket, key, body)


class S3Exam(OnS3, StoreExam):
    pass


class TestMinistack(S3Exam):
    subject = "ministack"


@pytest.mark.nightly
class TestMinistackByAiobotocore(S3Exam):
    subject = "ministack"
    engine = "aiobotocore"


@pytest.mark.nightly
class TestMoto(S3Exam):
    subject = "moto"


if os.environ.get("MAGICFS_EXAMS") == "ceph":  # of the machine's own packages: ``tox run -e ceph``

    class TestCeph(OnS3, IgnoringStoreExam):
        subject = "ceph"


@pytest.mark.nightly
class TestSeaweedFS(S3Exam):
    subject = "seaweedfs"


class TestVersionsInMemory(MemoryObjects, VersionsExam):
    subject = "versions in memory"

    def make_store(self, bucket: str | None = None) -> Store:
        return RetryingStore(MemoryStore(bucket or BUCKET, self.world))

    def keep_versions(self) -> None:
        self.world.keep_versions(BUCKET)


class OnVersions(OnS3, VersionsExam):
    """A bucket of a server that keeps versions once it is told to."""

    def keep_versions(self) -> None:
        self.running.keep_versions(self.bucket)


@pytest.mark.nightly
class TestVersionsOnMoto(OnVersions):
    subject = "versions on moto"
    running_on = "moto"


@pytest.mark.nightly
class TestVersionsOnMotoByAiobotocore(OnVersions):
    subject = "versions on moto"
    running_on = "moto"
    engine = "aiobotocore"


class TestVersionsOnMinistack(OnVersions):
    subject = "versions on ministack"
    running_on = "ministack"


@pytest.mark.nightly
class TestVersionsOnSeaweedFS(OnVersions):
    subject = "versions on seaweedfs"
    running_on = "seaweedfs"


class OnService(OfTheTables):
    """A store behind a service that is looked at by a client which is not ours."""

    running: ServerProcess
    bucket: str
    filesystem: AbstractFileSystem

    def make_store(self, bucket: str | None = None) -> Store:
        return resolve.open_store(self.filesystem, bucket or self.bucket)

    def peek(self, key: str) -> bytes | None:
        return self.running.read(self.bucket, key)

    def poke(self, key: str, body: bytes) -> None:
        self.running.write(self.bucket, key, body)


@of_clouds
class TestGcsDouble(OnService, UnconditionalStoreExam):
    subject = "gcs"
    resource: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _bucket(self, gcs: GcsDouble, bucket_factory: Callable[..., str]) -> Iterator[None]:
        before = default_world().buckets()
        self.running = gcs
        self.bucket = bucket_factory(gcs, **self.resource)
        self.filesystem = resolve.filesystem("gs", gcs.storage_options())
        yield
        assert default_world().buckets() == before


@pytest.mark.nightly
class TestGcsDoubleWithFolders(TestGcsDouble):
    subject = "gcs with folders"
    resource: ClassVar[dict[str, Any]] = {"hierarchicalNamespace": {"enabled": True}}


@of_clouds
class TestAdlsDouble(OnService, BlockStoreExam):
    subject = "adls"

    @pytest.fixture(autouse=True)
    def _container(
        self, adls: AdlsDouble, bucket_factory: Callable[..., str], small_azure_pages: None
    ) -> Iterator[None]:
        before = default_world().buckets()
        self.running = adls
        self.bucket = bucket_factory(adls)
        self.filesystem = AzureBlobFileSystem(**adls.storage_options())
        yield
        assert default_world().buckets() == before

    def siblings(self) -> st.SearchStrategy[list[str]]:
        return super().siblings().map(strategies.leaves)  # nothing lies below the name of a file


@pytest.mark.nightly
class TestAzurite(OnService, BlockStoreExam):
    subject = "azurite"

    @pytest.fixture(autouse=True)
    def _container(
        self, azurite: Azurite, bucket_factory: Callable[..., str], small_azure_pages: None
    ) -> Iterator[None]:
        before = default_world().buckets()
        self.running = azurite
        self.bucket = bucket_factory(azurite)
        self.filesystem = AzureBlobFileSystem(**azurite.storage_options())
        yield
        assert default_world().buckets() == before
