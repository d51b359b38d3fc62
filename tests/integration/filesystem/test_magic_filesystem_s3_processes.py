"""Many threads, forked processes, pickled copies: on memory and on s3fs."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest
from packaging.version import Version

from magicfs.errors import PermissionDenied
from magicfs.filesystem import MagicFileSystem
from proofs.doubles.servers import Server
from proofs.scenes.memory_scene import MemoryScene
from proofs.scenes.s3_scene import S3Scene

pytestmark = pytest.mark.sample(most=1)

WORK = "dataset1/__magic/job 1/task%2F1/__base"
THREADS = 16
FILES_EACH = 8


@pytest.mark.parametrize(("store", "tracking"), [("s3", "store"), ("memory", "memory")])
def test_sixteen_threads_write_through_one_instance(
    request: pytest.FixtureRequest, store: str, tracking: Any
) -> None:
    scene: Any = MemoryScene() if store == "memory" else request.getfixturevalue("scene")
    part_size = 1000 if store == "memory" else 5 * 2**20
    fs = MagicFileSystem(scene.wrapped, tracking=tracking, part_size=part_size)
    bucket = "bucket" if store == "memory" else scene.bucket
    start = threading.Barrier(THREADS)

    def write(thread: int) -> None:
        start.wait()
        for number in range(FILES_EACH):
            body = f"{thread} {number}\n".encode() * 1000
            path = f"{bucket}/{WORK}/thread={thread}/{number}"
            if number % 2:
                fs.pipe_file(path, body)
            else:
                with fs.open(path, "wb") as file:
                    for offset in range(0, len(body), 997):
                        file.write(body[offset : offset + 997])
            assert fs.size(path) == len(body)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(write, thread) for thread in range(THREADS)]:
            future.result()
    assert len(scene.uploads()) == THREADS * FILES_EACH
    if tracking == "store":
        published = scene.publish()
        for thread in range(THREADS):
            for number in range(FILES_EACH):
                key = f"dataset1/thread={thread}/{number}"
                assert published.pop(key) == f"{thread} {number}\n".encode() * 1000
        assert published == {}


@pytest.mark.skipif(
    Version(fsspec.__version__) < Version("2026.6"), reason="fsspec makes one instance for each thread"
)
def test_threads_get_one_instance_for_the_same_arguments(scene: S3Scene) -> None:
    options = {"target_protocol": "s3", "target_options": scene.storage_options}
    with ThreadPoolExecutor(THREADS) as pool:
        made = list(pool.map(lambda _: MagicFileSystem(**options), range(THREADS)))
    assert len({id(one) for one in made}) == 1


FORK = """
import os, pickle, sys, traceback
from s3fs import S3FileSystem
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.tracking import name_in, tracker

options, base, tracking, given = pickle.loads(bytes.fromhex(sys.argv[1]))
if given:
    fs = MagicFileSystem(S3FileSystem(**options, skip_instance_cache=True), tracking=tracking)
else:
    fs = MagicFileSystem(target_protocol="s3", target_options=options, tracking=tracking)
fs.pipe_file(f"{base}/parent before", b"1")            # the loop and its connections are running
parent_file = fs.open(f"{base}/parent open", "wb")     # and a file is open
parent_file.write(b"2")


def child(number):
    made = MagicFileSystem(target_protocol="s3", target_options=options, tracking=tracking)
    for one in (fs, made):
        with one.open(f"{base}/child {number} {one is fs}", "wb") as file:
            file.write(b"3" * 6 * 2**20)
        assert one.size(f"{base}/child {number} {one is fs}") == 6 * 2**20
    known = tracker().snapshot(name_in(fs.store(base.partition("/")[0]), fs.locate(f"{base}/x").scope))
    assert f"{base}/parent open" not in known.open, known
    assert f"{base}/parent before" not in known.finished, known
    try:
        parent_file.write(b"x" * 9 * 2**20)
    except ValueError as error:
        assert "another process" in str(error), error
    else:
        raise AssertionError("a file of the parent was written in the child")


children = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            child(number)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    children.append(pid)
failed = [pid for pid in children if os.waitpid(pid, 0)[1]]
parent_file.write(b"2")
parent_file.close()
fs.pipe_file(f"{base}/parent after", b"4")
sys.exit(f"children failed: {failed}" if failed else 0)
"""


def run(script: str, argument: Any) -> None:
    # Python 3.12 warns of every fork beside threads, which is what is tried here.
    warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    command = [sys.executable, *warnings, "-c", script, pickle.dumps(argument).hex()]
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        told = started.communicate(timeout=60)[1]
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)  # what it forked goes with it
            started.communicate()
    assert (started.returncode, told) == (0, "")


@pytest.mark.parametrize(
    ("tracking", "given"), [("store", True), ("memory", False)], ids=["instance", "options"]
)
def test_fork_with_the_loop_running_leaves_parent_and_children_at_work(
    scene: S3Scene, tracking: str, given: bool
) -> None:
    run(FORK, (scene.storage_options, f"{scene.bucket}/{WORK}", tracking, given))
    names = ["parent before", "parent open", "parent after"]
    names += [f"child {number} {same}" for number in range(3) for same in (True, False)]
    assert scene.uploads() == sorted(f"dataset1/{name}" for name in names)
    if tracking == "store":
        published = scene.publish()
        assert published["dataset1/parent open"] == b"22"
        assert published["dataset1/child 2 True"] == b"3" * 6 * 2**20


EXIT = """
import io, pickle, sys
import pyarrow as pa
from magicfs.filesystem import MagicFileSystem

options, base = pickle.loads(bytes.fromhex(sys.argv[1]))
fs = MagicFileSystem(target_protocol="s3", target_options=options, part_size=5 * 2**20)
kept = {
    "binary": fs.open(f"{base}/binary", "wb"),
    "text": fs.open(f"{base}/text", "w"),
    "gzip": fs.open(f"{base}/gzip", "wb", compression="gzip"),
    "gzip text": fs.open(f"{base}/gzip text", "wt", compression="gzip"),
    "buffered": io.BufferedWriter(fs.open(f"{base}/buffered", "wb")),
    "pyarrow": pa.PythonFile(fs.open(f"{base}/pyarrow", "wb"), mode="w"),
}
for name, file in kept.items():
    file.write("x" * 6 * 2**20 if "text" in name else b"x" * 6 * 2**20)
transaction = fs.transaction.__enter__()
fs.pipe_file(f"{base}/in transaction", b"x")
"""


def test_process_that_ends_with_open_files_publishes_nothing(scene: S3Scene) -> None:
    run(EXIT, (scene.storage_options, f"{scene.bucket}/{WORK}"))
    assert scene.objects() == {}


PICKLED = """
import pickle, sys
fs, path = pickle.loads(bytes.fromhex(sys.argv[1]))
fs.pipe_file(path, b"from the copy")
"""


def test_pickled_copy_writes_with_the_credentials_of_its_own_process(
    scene: S3Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = MagicFileSystem(target_protocol="s3", target_options=scene.storage_options)
    assert scene.server.secret_key.encode() not in pickle.dumps(fs)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", scene.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", scene.server.secret_key)
    run(PICKLED, (fs, f"{scene.bucket}/{WORK}/a"))
    assert scene.publish() == {"dataset1/a": b"from the copy"}


def test_pickled_copy_with_secrets_where_allowed_needs_nothing_else(scene: S3Scene) -> None:
    fs = MagicFileSystem(scene.wrapped, allow_secrets_in_pickles=True)
    run(PICKLED, (fs, f"{scene.bucket}/{WORK}/a"))
    assert scene.publish() == {"dataset1/a": b"from the copy"}


def test_pickled_copy_with_the_wrong_credentials_is_denied(
    seaweedfs: Server, bucket_factory: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = S3Scene(seaweedfs, bucket_factory(seaweedfs))
    # An instance of s3fs keeps the credentials it has found; this one must not be anybody else's.
    apart = {**scene.storage_options, "config_kwargs": {"user_agent_extra": "wrong-credentials"}}
    fs = MagicFileSystem(target_protocol="s3", target_options=apart)
    raw = pickle.dumps(fs)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "else")
    MagicFileSystem.clear_instance_cache()
    with pytest.raises(PermissionDenied, match="check the credentials"):
        pickle.loads(raw).pipe_file(f"{scene.bucket}/{WORK}/a", b"1")
    assert scene.uploads() == []
