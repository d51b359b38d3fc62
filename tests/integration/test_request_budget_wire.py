"""How many requests go over the wire, those of pyarrow and pandas included, counted by a proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import magicfs
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.testing.fault_proxy import FaultProxy
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

pytestmark = pytest.mark.sample(most=1)

FILE = Counter({"CreateMultipartUpload": 1, "UploadPart": 1})
RECORDS = {"store": Counter({"PutObject": 2}), "memory": Counter[str]()}
# What pyarrow asks before it writes, once a call: is the base directory empty?
PROBE_OF_WRITE_DATASET = Counter({"ListObjectsV2": 2, "HeadObject": 1})
LOOKS = Counter({"ListObjectsV2": 3, "HeadObject": 2, "ListMultipartUploads": 1})
SETUP = LOOKS + Counter({"PutObject": 2})
# What the store honours, once for each bucket in a process.
TRIALS = Counter(
    {
        "PutObject": 5,
        "CreateMultipartUpload": 1,
        "UploadPart": 1,
        "CompleteMultipartUpload": 1,
        "AbortMultipartUpload": 1,
        "DeleteObjects": 2,
        "DeleteObject": 2,
        # After the delete that was refused: is it another object, or none? And before all that: is there a
        # job object of either kind? And in the end: has another driver come to another verdict?
        "HeadObject": 3,
        "ListObjectsV2": 1,
    }
)
# Of the first job at a destination, which appends: besides its completes.
COMMIT = Counter(
    {
        "ListObjectsV2": 3,
        "HeadObject": 5,
        "GetObject": 2,
        "PutObject": 6,
        "ListMultipartUploads": 1,
        "DeleteObjects": 2,
    }
)


class Wire:
    """A bucket behind a proxy that counts."""

    def __init__(self, server: Server, bucket: str, proxy: FaultProxy) -> None:
        self.server = server
        self.bucket = bucket
        self.proxy = proxy

    def job(self, destination: str = "sales", **options: Any) -> Job:
        storage_options = self.server.storage_options() | {"endpoint_url": self.proxy.endpoint}
        url = f"s3://{self.bucket}/{destination}"
        return Job(url, mode="append", storage_options=storage_options, **arranged(**options))

    def since(self) -> Counter[str]:
        """What was counted since the last call."""
        all_ended()
        counted = self.proxy.counts
        self.proxy.clear()
        return counted


@pytest.fixture
def wire(ministack: Server, bucket_factory: Callable[..., str]) -> Iterator[Wire]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield Wire(ministack, bucket_factory(ministack, "wire"), proxy)


def table(rows: int = 4) -> pa.Table:
    return pa.table({"day": [f"day {n % 2}" for n in range(rows)], "x": list(range(rows))})


def times(number: int, counts: Counter[str]) -> Counter[str]:
    return Counter({name: number * count for name, count in counts.items()})


def write_dataset(task: Task) -> None:
    pa.dataset.write_dataset(
        table(), task.path, filesystem=task.filesystem, format="parquet", partitioning=["day"]
    )


def write_dataset_anyway(task: Task) -> None:
    pa.dataset.write_dataset(
        table(),
        task.path,
        filesystem=task.filesystem,
        format="parquet",
        partitioning=["day"],
        existing_data_behavior="overwrite_or_ignore",
    )


def write_to_dataset(task: Task) -> None:
    pa.parquet.write_to_dataset(table(), task.path, filesystem=task.filesystem, partition_cols=["day"])


def write_table(task: Task) -> None:
    for name in ("a b.parquet", "c%20d.parquet"):
        pa.parquet.write_table(table(), f"{task.path}/{name}", filesystem=task.filesystem)


def write_csv(task: Task) -> None:
    for name in ("a.csv", "b.csv"):
        with task.filesystem.open(f"{task.path}/{name}", "wb") as file:
            pa.csv.write_csv(table(), file)


def to_parquet(task: Task) -> None:
    for name in ("a b.parquet", "c+d.parquet"):
        table().to_pandas().to_parquet(task.url(name), storage_options=task.storage_options)


def to_csv(task: Task) -> None:
    for name in ("a.csv", "b.csv.gz"):
        table().to_pandas().to_csv(task.url(name), storage_options=task.storage_options)


def to_json(task: Task) -> None:
    for name in ("a.json", "b.json"):
        pd.DataFrame({"x": [1]}).to_json(task.url(name), storage_options=task.storage_options)


WRITERS: list[Callable[[Task], None]] = [
    *(write_dataset, write_dataset_anyway, write_to_dataset, write_table),
    *(write_csv, to_parquet, to_csv, to_json),
]


@pytest.mark.parametrize(
    ("writer", "tracking"), [*((each, "store") for each in WRITERS), (write_dataset, "memory")]
)
def test_two_files_of_any_writer_cost_what_the_table_says(
    wire: Wire, tracking: Any, writer: Callable[[Task], None]
) -> None:
    probe = PROBE_OF_WRITE_DATASET if writer is write_dataset else Counter[str]()
    job = wire.job(tracking=tracking)
    assert wire.since() == {}

    job.setup()
    assert wire.since() == SETUP + TRIALS

    task = job.task(0).setup()
    writer(task)
    assert wire.since() == times(2, FILE) + times(2, RECORDS[tracking]) + probe

    commit = task.commit()
    # No GET: this process has written the records itself.
    asked = {"ListObjectsV2": 1, "PutObject": 1, "DeleteObjects": 1}
    assert wire.since() == (asked if tracking == "store" else {})

    job.commit([commit])
    assert wire.since() == COMMIT + Counter({"CompleteMultipartUpload": 2})
    assert len(wire.server.visible_keys(wire.bucket, "sales/")) == 2


def test_whole_job_by_listing_costs_what_the_table_says(wire: Wire) -> None:
    job = wire.job().setup()
    wire.since()
    for number in range(3):
        with job.task(number) as task:
            write_table(task)
    wire.since()
    job.commit()
    assert wire.since() == COMMIT + Counter(
        {"ListObjectsV2": 1, "GetObject": 3, "CompleteMultipartUpload": 6}
    )


def test_reading_by_the_manifest_looks_at_no_file_and_lists_nothing(wire: Wire) -> None:
    with wire.job() as job, job.task(0) as task:
        write_dataset(task)
    wire.since()
    options = wire.server.storage_options() | {"endpoint_url": wire.proxy.endpoint}
    found = magicfs.Dataset(f"s3://{wire.bucket}/sales", storage_options=options).to_arrow()
    # Pointer and manifest, a HEAD and a GET each; the schema of the first file.
    assert wire.since() == Counter({"HeadObject": 2, "GetObject": 3})
    assert found.to_table().num_rows == 4
    assert wire.since() == Counter({"GetObject": 4})  # of each file its end, and what is read of it
