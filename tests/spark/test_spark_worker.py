"""What a new worker of Spark's imports before its first file, alone and as a fork of the daemon."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from magicfs.spark.datasource import make_writer
from proofs.doubles.servers import Server

FRAME = StructType([StructField("x", LongType()), StructField("p", StringType())])

# What Spark's own worker does before it calls the writer, then one partition.
WORKER = """
import pickle, sys, threading
import pyspark.worker, pyspark.sql.worker.write_into_data_source, pyarrow
from pyspark import TaskContext
{first}
context = TaskContext._taskContext = TaskContext()
context._taskAttemptId, context._partitionId, context._localProperties = 1, 0, {{}}
before, threads = set(sys.modules), threading.active_count()
with open(sys.argv[1], "rb") as file:
    writer, batches = pickle.load(file)
with pyarrow.ipc.open_stream(batches) as stream:
    message = writer.write(iter(stream))
assert message.commit.files == 1, message
print(threads, *(set(sys.modules) - before))
"""


@pytest.fixture
def written(ministack: Server, bucket_factory: Callable[..., str], tmp_path: Path) -> Any:
    """Return a function that has a new process write a partition; it returns the modules that this took."""

    bucket = bucket_factory(ministack, "worker")

    def write(first: str = "", **options: str) -> set[str]:
        storage = json.dumps(ministack.storage_options())
        given = {"path": f"s3://{bucket}/d", "storageoptions": storage, "latewriters": "leave"}
        writer = make_writer(given | options, FRAME, overwrite=False)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64()), ("p", pa.string())])) as stream:
            stream.write_batch(pa.record_batch({"x": [1], "p": ["a"]}))
        place = tmp_path / "worker.pickle"
        place.write_bytes(pickle.dumps((writer, sink.getvalue().to_pybytes())))
        done = subprocess.run(
            [sys.executable, "-c", WORKER.format(first=first), str(place)],
            capture_output=True,
            text=True,
            check=True,
        )
        writer.abort([])
        threads, *modules = done.stdout.split()
        assert threads == "1", "a process with more must not fork"
        return set(modules)

    return write


@pytest.mark.process
def test_first_file_of_a_worker_imports_no_more_than_it_needs(written: Any) -> None:
    modules = written()
    assert "magicfs.filesystem.face" in modules
    roots = {name.partition(".")[0] for name in modules}
    assert not roots & {"boto3", "pandas", "requests", "rich"}
    # What computes, reads, or writes other formats takes as long as the rest of pyarrow.
    assert not modules & {"pyarrow.compute", "pyarrow.csv", "pyarrow.dataset", "pyarrow.orc"}
    ours = {name for name in modules if name.startswith("magicfs.")}
    # What only drivers do, and readers.
    assert not {one for one in ours if one.startswith(("magicfs.datasets", "magicfs.cli", "magicfs.testing"))}
    drivers = {"driver", "execute", "facts", "output", "prepare", "publish", "setup", "sweep"}
    assert not ours & {f"magicfs.transaction.{name}" for name in drivers}


@pytest.mark.process
@pytest.mark.parametrize("options", [{}, {"partitioncols": "p"}], ids=["whole", "partitioned"])
def test_fork_of_the_daemon_imports_next_to_nothing(written: Any, options: dict[str, str]) -> None:
    modules = written("import magicfs.spark.daemon; magicfs.spark.daemon.preload()", **options)
    assert {name.partition(".")[0] for name in modules} <= {"magicfs"}
    assert len(modules) <= 3
