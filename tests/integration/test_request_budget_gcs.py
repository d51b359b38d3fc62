"""How many requests go over the wire to Google Cloud Storage, counted by a proxy, and what Google bills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gcsfs.core import GCSFileSystem

from magicfs.job.job import Job
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.gcs_operations import classes, gcs_operation
from proofs.doubles.gcs_server import GcsDouble
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

pytestmark = pytest.mark.sample(most=1)

FILE = Counter({"CreateMultipartUpload": 1, "UploadPart": 1})
RECORDS = {"store": Counter({"objects.insert": 2}), "memory": Counter[str]()}
LOOKS = Counter({"objects.list": 3, "objects.get": 2, "ListMultipartUploads": 1})
SETUP = LOOKS + Counter({"objects.insert": 2})
# What kind of bucket it is, and what the store honours: once for each bucket in a process. That a complete
# takes no condition is known without a request.
TRIALS = Counter(
    {
        "buckets.getStorageLayout": 1,
        "objects.insert": 5,
        "CreateMultipartUpload": 1,
        "UploadPart": 1,
        "AbortMultipartUpload": 1,
        "batch": 4,
        "objects.get": 4,
        "objects.list": 1,
    }
)
COMMIT = Counter(
    {
        "objects.list": 3,
        "objects.get": 5,
        "objects.read": 2,
        "objects.insert": 6,
        "ListMultipartUploads": 1,
        "batch": 2,
    }
)


class Wire:
    """A bucket behind a proxy that counts."""

    def __init__(self, server: GcsDouble, bucket: str, proxy: FaultProxy) -> None:
        self.server = server
        self.bucket = bucket
        self.proxy = proxy

    def job(self, **options: Any) -> Job:
        storage_options = self.server.plain_options(self.proxy.endpoint)
        return Job(
            f"gs://{self.bucket}/sales", mode="append", storage_options=storage_options, **arranged(**options)
        )

    def since(self) -> Counter[str]:
        """What was counted since the last call."""
        all_ended()
        counted = self.proxy.counts
        self.proxy.clear()
        return counted


@pytest.fixture
def wire(gcs: GcsDouble, bucket_factory: Callable[..., str]) -> Iterator[Wire]:
    with FaultProxy(gcs.endpoint, gcs_operation) as proxy:
        yield Wire(gcs, bucket_factory(gcs, "wire"), proxy)
        GCSFileSystem.clear_instance_cache()


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_two_files_cost_what_the_tables_say(wire: Wire, tracking: Any) -> None:
    job = wire.job(tracking=tracking)
    assert wire.since() == {}

    job.setup()
    counted = wire.since()
    assert counted == SETUP + TRIALS
    assert classes(counted) == {"A": 14, "B": 7, "free": 5}

    with job.task(0) as task:
        for name in ("a b.parquet", "c%20d.parquet"):
            pq.write_table(pa.table({"x": [1]}), f"{task.path}/{name}", filesystem=task.filesystem)
        counted = wire.since()
        assert counted == FILE + FILE + RECORDS[tracking] + RECORDS[tracking]
        assert classes(counted)["A"] == counted.total()
    made = {"objects.list": 1, "objects.insert": 1, "batch": 1}
    assert wire.since() == (made if tracking == "store" else {})

    job.commit([task.committed])
    counted = wire.since()
    assert counted == COMMIT + Counter({"CompleteMultipartUpload": 2})
    assert classes(counted) == {"A": 12, "B": 7, "free": 2}
    assert len(wire.server.visible_keys(wire.bucket, "sales/")) == 2


@pytest.mark.parametrize("action", [Action.LOST, Action.RESET, Action.ERROR])
@pytest.mark.parametrize(
    "operation", ["objects.insert", "UploadPart", "CompleteMultipartUpload", "batch", "objects.list"]
)
def test_request_that_fails_once_or_whose_answer_is_lost_is_made_again(
    wire: Wire, operation: str, action: Action
) -> None:
    with wire.job() as job:
        wire.proxy.add(Rule(operation, action, times=1))
        with job.task(0) as task, task.filesystem.open(f"{task.path}/a.txt", "wb") as file:
            file.write(b"once")
    assert [request.action for request in wire.proxy.requests if request.action] == [action]
    keys = wire.server.visible_keys(wire.bucket, "sales/")
    assert [wire.server.read(wire.bucket, key) for key in keys] == [b"once"]
    assert wire.server.uploads(wire.bucket) == set()
