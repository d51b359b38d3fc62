"""How many requests jobs make that publish by renames, in buckets that have folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from gcsfs.core import GCSFileSystem

from magicfs.job.job import Job
from magicfs.stores.azure import folders as azure_folders
from magicfs.testing.fault_proxy import FaultProxy
from proofs.doubles import azure_operations, gcs_operations
from proofs.doubles.gcs_server import GcsDouble
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

# Work files are written by gcsfs and adlfs themselves, and they send them in a way that aiohttp warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@dataclass(frozen=True)
class Costs:
    """The commit of a job of one task, for no file, and for each file."""

    manifest: Counter[str]
    manifest_file: Counter[str]


ON_GCS = Costs(
    manifest=Counter(
        {
            "objects.get": 11,
            "folders.get": 11,
            "objects.list": 7,
            "folders.list": 2,
            "objects.read": 3,
            "objects.insert": 6,
            "ListMultipartUploads": 1,
            "folders.delete": 12,
            "batch": 3,
        }
    ),
    manifest_file=Counter({"objects.move": 1, "objects.get": 1, "folders.get": 2}),
)
ON_ADLS = Costs(
    manifest=Counter(
        {
            "Get Blob Properties": 11,
            "List Blobs": 3,
            "List Blobs, uncommitted too": 1,
            "Path List": 2,
            "Get Blob": 3,
            "Put Blob": 6,
            "Path Create": 1,
            "Path Delete": 2,
            "Delete Blob": 9,
        }
    ),
    manifest_file=Counter({"Path Rename": 1, "Get Blob Properties": 1}),
)


@dataclass(frozen=True)
class Wire:
    """A bucket with folders, behind a proxy that counts."""

    server: Any
    bucket: str
    proxy: FaultProxy
    costs: Costs
    classes: Callable[[Counter[str]], Counter[str]]

    def commit(self, name: str, files: int, **how: Any) -> Counter[str]:
        """What the commit of a job costs."""
        options = (
            self.server.plain_options(self.proxy.endpoint)
            if isinstance(self.server, GcsDouble)
            else {"connection_string": self.server.connection_string(self.proxy.endpoint)}
        )
        job = Job(
            f"{self.server.scheme}://{self.bucket}/{name}", storage_options=options, **arranged(**how)
        ).setup()
        with job.task(0) as task:
            for number in range(files):
                task.filesystem.pipe_file(f"{task.path}/{number}.txt", b"1")
        self.proxy.clear()
        job.commit([task.committed])
        assert len(self.server.visible_keys(self.bucket, f"{name}/")) == files
        all_ended()
        assert "unknown" not in self.classes(self.proxy.counts)
        return self.proxy.counts


@pytest.fixture(params=["gcs", "adls"])
def wire(
    server: Callable[[str], Any], bucket_factory: Callable[..., str], request: pytest.FixtureRequest
) -> Iterator[Wire]:
    running = server(request.param)
    of_google = request.param == "gcs"
    operations = gcs_operations.gcs_operation if of_google else azure_operations.azure_operation
    how = {"hierarchicalNamespace": {"enabled": True}} if of_google else {}
    costs, classes = (ON_GCS, gcs_operations.classes) if of_google else (ON_ADLS, azure_operations.classes)
    azure_folders._known.clear()
    with FaultProxy(running.endpoint, operations) as proxy:
        yield Wire(running, bucket_factory(running, "wire", **how), proxy, costs, classes)
        for kind in (GCSFileSystem, AzureBlobFileSystem):
            kind.clear_instance_cache()
    azure_folders._known.clear()


def test_manifest_committer_makes_one_rename_a_file(wire: Wire) -> None:
    for files in (1, 3):
        counted = wire.commit(f"of {files}", files, committer="manifest", mode="append")
        assert counted == wire.costs.manifest + _times(files, wire.costs.manifest_file)


def _times(number: int, counts: Counter[str]) -> Counter[str]:
    return Counter({operation: number * count for operation, count in counts.items()})
