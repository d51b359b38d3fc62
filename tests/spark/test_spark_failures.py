from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter

from examples.flights.session import PANDAS_WARNING
from magicfs.spark.writing import COMMIT_TRIES
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.bucket_view import S3View
from proofs.doubles.servers import Server
from pyspark_magic import DefaultSource

pytestmark = pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning")

ReadBack = Callable[[Server, str, str, str], DataFrame]
Around = Callable[[Any, Iterator[Any]], Any]
FILES = 4


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack)


def source(
    name: str, *, write: Around | None = None, commit: Around | None = None, abort: Around | None = None
) -> type[DefaultSource]:
    """The data source under another name, with functions of the test around the writer's methods.

    Everything is local to this function, so that it travels to Spark's processes by value.
    """

    class Writer(DataSourceArrowWriter):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def write(self, iterator: Iterator[Any]) -> Any:
            return write(self.inner, iterator) if write else self.inner.write(iterator)

        def commit(self, messages: Any) -> None:
            commit(self.inner, messages) if commit else self.inner.commit(messages)

        def abort(self, messages: Any) -> None:
            abort(self.inner, messages) if abort else self.inner.abort(messages)

    class Source(DefaultSource):
        @classmethod
        def name(cls) -> str:
            return name

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return Writer(super().writer(schema, overwrite))

    return Source


def looking(server: Server, bucket: str, evidence: Path) -> Around:
    """A commit that first writes down what the store holds."""
    endpoint = server.endpoint
    keys = {"access_key": server.access_key, "secret_key": server.secret_key, "region": server.region}

    def commit(inner: Any, messages: Any) -> None:
        class View(S3View):
            @property
            def endpoint(self) -> str:
                return endpoint

        view = View(**keys)
        seen = {"keys": view.all_keys(bucket), "pending": len(view.pending_uploads(bucket))}
        view.close_clients()
        evidence.write_text(json.dumps(seen), encoding="utf-8")
        inner.commit(messages)

    return commit


def save(
    frame: DataFrame, name: str, server: Server, url: str, *, tracking: str = "memory", **storage: Any
) -> None:
    options = json.dumps(server.storage_options() | storage)
    write = frame.write.format(name).mode("append").option("storageOptions", options)
    write.option("tracking", tracking).save(url)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_nothing_is_visible_until_the_job_commits_and_tasks_that_fail_once_are_run_again(
    spark: SparkSession, ministack: Server, bucket: str, tmp_path: Path, read_back: ReadBack
) -> None:
    def write(inner: Any, batches: Iterator[Any]) -> Any:
        context = TaskContext.get()
        message = inner.write(batches)
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return message

    commit = looking(ministack, bucket, tmp_path / "seen")
    spark.dataSource.register(source("magic_killed", write=write, commit=commit))
    save(spark.range(0, 1000, 1, FILES), "magic_killed", ministack, f"s3://{bucket}/d", tracking="store")
    seen = json.loads((tmp_path / "seen").read_text(encoding="utf-8"))
    assert [key for key in seen["keys"] if not key.startswith("d/__magic")] == []
    assert seen["pending"] == FILES + 1
    assert ids(read_back(ministack, bucket, "d", "id long")) == list(range(1000))
    assert len(ministack.visible_keys(bucket, "d/")) == FILES
    assert ministack.pending_uploads(bucket) == []
    assert [key for key in ministack.all_keys(bucket) if "__magic" in key] == []


def test_what_a_task_uploads_after_its_job_was_aborted_is_discarded(
    spark: SparkSession, ministack: Server, bucket: str, tmp_path: Path
) -> None:
    swept, uploaded = tmp_path / "swept", tmp_path / "uploaded"

    def wait_for(path: Path) -> bool:
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return path.exists()

    def write(inner: Any, batches: Iterator[Any]) -> Any:
        if TaskContext.get().partitionId() == 0:
            raise RuntimeError("partition 0")
        wait_for(swept)
        message = inner.write(batches)
        uploaded.touch()
        return message

    def abort(inner: Any, messages: Any) -> None:
        from magicfs.spark import late_writers

        class Clock:
            @staticmethod
            def sleep(seconds: float) -> None:
                swept.touch()
                wait_for(uploaded)

        late_writers.time = Clock  # type: ignore[assignment]
        inner.abort(messages)

    spark.dataSource.register(source("magic_late", write=write, abort=abort))
    with FaultProxy(ministack.endpoint) as proxy:
        with pytest.raises(Exception, match="partition 0"):
            save(
                spark.range(0, 10, 1, 2),
                "magic_late",
                ministack,
                f"s3://{bucket}/d",
                endpoint_url=proxy.endpoint,
            )
        assert proxy.counts["CreateMultipartUpload"] >= 1
    assert uploaded.exists()
    assert ministack.pending_uploads(bucket) == []
    assert ministack.all_keys(bucket) == []


def test_a_job_commit_that_is_refused_takes_everything_back(
    spark: SparkSession, ministack: Server, bucket: str
) -> None:
    with FaultProxy(ministack.endpoint) as proxy:
        proxy.add(
            Rule("CompleteMultipartUpload", Action.ERROR, skip=2, times=1, status=403, code="AccessDenied")
        )
        with pytest.raises(Exception, match=r"CommitFailed: d/part-.* could not be published"):
            save(
                spark.range(0, 10, 1, FILES),
                "magic",
                ministack,
                f"s3://{bucket}/d",
                endpoint_url=proxy.endpoint,
            )
    assert ministack.visible_keys(bucket) == []
    assert ministack.all_keys(bucket) == []
    assert ministack.pending_uploads(bucket) == []


def test_a_job_commit_that_the_store_does_not_answer_is_tried_again(
    spark: SparkSession, ministack: Server, bucket: str, read_back: ReadBack
) -> None:
    impatient = {"config_kwargs": {"retries": {"total_max_attempts": 1}}}
    with FaultProxy(ministack.endpoint) as proxy:
        proxy.add(Rule("CompleteMultipartUpload", Action.RESET, times=COMMIT_TRIES - 1, match="part-00002"))
        storage = impatient | {"endpoint_url": proxy.endpoint}
        save(spark.range(0, 10, 1, FILES), "magic", ministack, f"s3://{bucket}/d", **storage)
        assert proxy.counts["CompleteMultipartUpload"] >= FILES + COMMIT_TRIES - 1
    assert ids(read_back(ministack, bucket, "d", "id long")) == list(range(10))
    assert ministack.pending_uploads(bucket) == []
