"""The demo's witness and its hunter, on a server and real processes, without the demo around them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
import s3fs

import magicfs
from examples.flights.buckets import S3Bucket
from examples.flights.main import STORES
from examples.flights.server import given_server, own_server
from examples.flights.victim import Hunter, connected_workers
from examples.flights.watcher import Watcher
from magicfs.errors import UsageError
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

JOB = "0b5c7f0e-6f6a-4d7e-9a53-1c2d3e4f5a6b"
# Ceph is of the machine's own packages: ``tox run -e ceph``.
STARTED = sorted({"ceph"} if os.environ.get("MAGICFS_EXAMS") == "ceph" else STORES.keys() - {"ceph"})

# Opens an upload for its task every 20 ms, as a worker does that writes many small files.
WORKER = """
import sys, time, botocore.session
endpoint, bucket, task, job, marker = sys.argv[1:]
client = botocore.session.Session().create_client(
    "s3", endpoint_url=endpoint, region_name="us-east-1",
    aws_access_key_id="k", aws_secret_access_key="s")
for number in range(1000):
    client.create_multipart_upload(Bucket=bucket, Key=f"sales/day={number}/part-{task}-{job}.parquet")
    print(number, flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> S3Bucket:
    return S3Bucket(bucket_factory(ministack), ministack, {"name": "ministack"})


def put(bucket: S3Bucket, key: str) -> None:
    bucket.view.s3_client().put_object(Bucket=bucket.name, Key=key, Body=b"x")


def begin(bucket: S3Bucket, key: str) -> None:
    bucket.view.s3_client().create_multipart_upload(Bucket=bucket.name, Key=key)


class TestWatcher:
    def test_visible_files_and_pending_uploads_are_counted(self, bucket: S3Bucket):
        with Watcher(bucket, "sales") as watcher:
            put(bucket, "sales/a 1%+#.parquet")
            begin(bucket, "sales/b.parquet")
            watcher.last_look()
        assert watcher.looks >= 1
        assert watcher.visible_before_commit == 1

    def test_pending_uploads_count_while_nothing_is_visible(self, bucket: S3Bucket):
        with Watcher(bucket, "sales") as watcher:
            begin(bucket, "sales/a.parquet")
            begin(bucket, "sales/b.parquet")
            watcher.last_look()
        assert (watcher.pending_before_commit, watcher.visible_before_commit) == (2, 0)

    def test_hidden_files_and_neighbours_are_not_visible(self, bucket: S3Bucket):
        for key in (
            "sales/_SUCCESS",
            "sales/__magic/x",
            "sales/.hidden",
            "sales/a/_b/c",
            "sales10/a",
            "other/a",
        ):
            put(bucket, key)
        with Watcher(bucket, "sales") as watcher:
            watcher.last_look()
        assert watcher.visible_before_commit == 0

    def test_what_becomes_visible_after_the_last_look_does_not_count(self, bucket: S3Bucket):
        with Watcher(bucket, "sales") as watcher:
            watcher.last_look()
            put(bucket, "sales/a.parquet")
            seen = threading.Event()
            watcher._on_look = lambda look: seen.set() if look.visible else None
            assert seen.wait(10)
        assert watcher.visible_before_commit == 0

    def test_looks_count_only_while_the_engine_says_so(self, bucket: S3Bucket):
        with Watcher(bucket, "sales", before_commit=lambda: False) as watcher:
            put(bucket, "sales/a.parquet")
            watcher.last_look()
        assert (watcher.looks, watcher.visible_before_commit) == (0, 0)

    def test_look_that_fails_is_raised_at_the_end(self, bucket: S3Bucket):
        gone = S3Bucket("no-such-bucket-here", bucket.view, {})
        with pytest.raises(Exception, match="NoSuchBucket"), Watcher(gone, "sales") as watcher:
            watcher._thread.join(10)


class TestServers:
    def test_own_server_is_reached_by_the_environment_alone_which_is_restored(self, monkeypatch):
        monkeypatch.setenv("AWS_PROFILE", "somebody")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        before = dict(os.environ)
        with own_server() as bucket:
            filesystem = s3fs.S3FileSystem(**bucket.storage_options, skip_instance_cache=True)
            filesystem.pipe_file(f"{bucket.name}/sales/a.parquet", b"x")
            assert bucket.visible("sales") == ["sales/a.parquet"]
            pid = bucket.server["pid"]
        assert dict(os.environ) == before
        assert not Path(f"/proc/{pid}").exists()

    @pytest.mark.parametrize("store", STARTED)
    def test_each_store_is_looked_at_without_magicfs(self, store: str):
        before = dict(os.environ)
        table = pa.table({"id": [1, 2, 3], "day": ["a", "b", "b"]})
        with own_server(store) as bucket:
            with magicfs.Job(
                bucket.url("sales 1"), mode="append", storage_options=bucket.storage_options
            ) as job:
                with job.task(0) as task:
                    pyarrow.dataset.write_dataset(
                        table,
                        task.path,
                        filesystem=task.filesystem,
                        format="parquet",
                        partitioning=["day"],
                        partitioning_flavor="hive",
                    )
                assert bucket.visible("sales 1") == []
                pending = bucket.pending("sales 1")
                assert [key.split("/")[1] for key, _ in pending] == ["day=a", "day=b"]
            assert [key for key, _ in pending] == bucket.visible("sales 1")
            assert bucket.pending("sales 1") == []
            filesystem, path = bucket.reader("sales 1")
            found = pyarrow.dataset.dataset(path, filesystem=filesystem, partitioning="hive").to_table()
            assert found.sort_by("id").to_pylist() == table.to_pylist()
        assert dict(os.environ) == before

    def test_bucket_on_a_given_server_is_removed_with_all_that_is_in_it(self, ministack: Server, monkeypatch):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ministack.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ministack.secret_key)
        with given_server(ministack.endpoint) as bucket:
            put(bucket, "sales/a.parquet")
            begin(bucket, "sales/b.parquet")
            assert [key for key, _ in bucket.pending("sales")] == ["sales/b.parquet"]
        names = [found["Name"] for found in ministack.s3_client().list_buckets()["Buckets"]]
        assert bucket.name not in names

    def test_given_server_that_refuses_the_credentials_is_a_usage_error(self, seaweedfs: Server, monkeypatch):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", seaweedfs.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        refused = pytest.raises(UsageError, match="AWS_SECRET_ACCESS_KEY")
        with refused, given_server(seaweedfs.endpoint):
            pytest.fail("a bucket was created")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def connected_process(listener: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    code = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"
    command = [sys.executable, "-c", code, str(listener.getsockname()[1])]
    with subprocess.Popen(command) as process:
        connection, _ = listener.accept()
        with connection:
            yield process
            process.kill()


class TestConnectedWorkers:
    def test_descendant_with_a_connection_is_found(self, listener, connected_process):
        port = listener.getsockname()[1]
        assert connected_workers(os.getpid(), port, lambda line: "socket" in line) == {connected_process.pid}

    def test_process_that_is_no_worker_is_not(self, listener, connected_process):
        assert connected_workers(os.getpid(), listener.getsockname()[1], lambda _: False) == set()

    def test_process_connected_elsewhere_is_not(self, listener, connected_process):
        with socket.create_server(("127.0.0.1", 0)) as other:
            assert connected_workers(os.getpid(), other.getsockname()[1], lambda _: True) == set()

    def test_process_of_somebody_else_is_not(self, listener, connected_process):
        port = listener.getsockname()[1]
        assert connected_workers(connected_process.pid, port, lambda _: True) == set()


class TestHunter:
    def test_worker_that_opens_uploads_is_killed_with_its_task_known(self, bucket: S3Bucket):
        workers = {task: self._start(bucket, task) for task in ("000003", "000007")}
        try:
            for worker in workers.values():
                assert worker.stdout is not None
                worker.stdout.readline()

            def lost() -> int:
                return sum(worker.poll() is not None for worker in workers.values())

            hunter = Hunter(
                bucket, "sales", is_worker=lambda line: line.endswith("hunted"), attempts_lost=lost
            )
            with hunter:
                hunter._thread.join(30)
            assert hunter.killed is not None
            dead = workers[f"{hunter.killed.task:06d}"]
            assert (dead.pid, dead.wait(5)) == (hunter.killed.pid, -9)
            assert hunter.killed.uploads >= 1
            (alive,) = (worker for worker in workers.values() if worker is not dead)
            assert alive.poll() is None
            assert alive.stdout is not None
            assert alive.stdout.readline(), "the other worker was not let go again"
        finally:
            for worker in workers.values():
                worker.kill()
                worker.communicate()

    def _start(self, bucket: S3Bucket, task: str) -> subprocess.Popen[bytes]:
        arguments = (bucket.view.endpoint, bucket.name, task, JOB, "hunted")
        return subprocess.Popen([sys.executable, "-c", WORKER, *arguments], stdout=subprocess.PIPE)
