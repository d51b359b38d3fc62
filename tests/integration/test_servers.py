from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import s3fs  # type: ignore[import-untyped]
from botocore.exceptions import ClientError

from proofs.doubles import processes
from proofs.doubles.servers import SERVERS, Ministack, Server, ServerFailed

pytestmark = pytest.mark.sample(most=1)

PART = 5 * 1024 * 1024
NAMES = sorted(SERVERS)
ODD_NAMES = ["with space", "a+b", "100%", "%2F", "x#y", "q?z=1&w", "żółw-☃", "comma,semi;", "eq=1", "it's"]

GetServer = Callable[[str], Server]
MakeBucket = Callable[..., str]


def open_upload(client: Any, bucket: str, key: str, parts: list[bytes]) -> tuple[str, list[dict[str, Any]]]:
    upload = client.create_multipart_upload(Bucket=bucket, Key=key, Metadata={"write-id": "w1"})["UploadId"]
    sent = []
    for number, body in enumerate(parts, 1):
        answer = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body)
        sent.append({"PartNumber": number, "ETag": answer["ETag"]})
    return upload, sent


def gone(pid: int, within: float = 5.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        # An orphan stays a zombie where nobody reaps for process 1.
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.nightly
def test_moto_knows_multipart_uploads_and_s3fs(moto: Server, bucket_factory: MakeBucket) -> None:
    """Of the others the store exam shows it."""
    bucket, client = bucket_factory(moto), moto.s3_client()
    upload, parts = open_upload(client, bucket, "out/part-0", [b"a" * PART, b"b"])
    assert moto.all_keys(bucket) == []
    assert [(u["Key"], u["UploadId"]) for u in moto.pending_uploads(bucket)] == [("out/part-0", upload)]
    client.complete_multipart_upload(
        Bucket=bucket, Key="out/part-0", UploadId=upload, MultipartUpload={"Parts": parts}
    )
    assert moto.pending_uploads(bucket) == []
    fs = s3fs.S3FileSystem(**moto.storage_options())
    assert fs.cat_file(f"{bucket}/out/part-0") == b"a" * PART + b"b"
    fs.pipe_file(f"{bucket}/x/y", b"hello")
    assert moto.all_keys(bucket) == ["out/part-0", "x/y"]


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_secret_is_refused_by_those_who_say_so(
    name: str, server: GetServer, bucket_factory: MakeBucket
) -> None:
    store = server(name)
    bucket = bucket_factory(store)
    intruder = store.s3_client(secret_key="wrong", attempts=1)
    if store.checks_credentials:
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            intruder.put_object(Bucket=bucket, Key="x", Body=b"1")
        assert store.all_keys(bucket) == []
    else:
        intruder.put_object(Bucket=bucket, Key="x", Body=b"1")


@pytest.mark.parametrize("name", NAMES)
def test_data_outlives_a_crash_where_the_server_says_so_and_nothing_outlives_a_stop(name: str) -> None:
    stale = set(Path("/tmp").glob("*.sock"))  # of killed servers of other runs, which had ports of these
    with SERVERS[name]() as store:
        assert store.version[0].isdigit()
        client, before = store.s3_client(), (store.endpoint, store.pid)
        store.create_bucket("kept")
        client.put_object(Bucket="kept", Key="object", Body=b"1")
        upload, parts = open_upload(client, "kept", "a b/+%#é", [b"a" * PART, b"b"])

        store.kill()
        with pytest.raises(ServerFailed, match="not running"):
            store.check_alive()
        store.restart()

        store.check_alive()
        assert store.endpoint == before[0]
        assert store.pid != before[1]
        if store.keeps_data:
            assert [u["UploadId"] for u in store.pending_uploads("kept")] == [upload]
            client.complete_multipart_upload(
                Bucket="kept", Key="a b/+%#é", UploadId=upload, MultipartUpload={"Parts": parts}
            )
            assert store.all_keys("kept") == ["a b/+%#é", "object"]
        else:
            assert client.list_buckets()["Buckets"] == []

        pid, directory, ports = store.pid, store.directory, list(store._ports)
        assert directory.is_dir()
        store.stop()
        assert gone(pid, 0.1)
        assert not directory.exists()
        assert all(map(processes.port_is_free, ports))
        assert not {path for port in ports for path in Path("/tmp").glob(f"*-{port}.*")} - stale
        with pytest.raises(ServerFailed, match="not running"):
            _ = store.pid


@pytest.mark.parametrize("name", NAMES)
def test_nobody_outside_of_this_machine_can_connect(name: str, server: GetServer) -> None:
    store = server(name)
    for port in store._ports:
        sockets = [
            line.split()[1].partition(":")[0]
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for line in Path(table).read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
        ]
        assert sockets == ["0100007F"]


PARENT = """
import sys, threading, time
from proofs.doubles.servers import SERVERS
server = SERVERS["ministack"]()
if sys.argv[1] == "thread":
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
else:
    server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("starter", ["main", "thread"])
def test_a_killed_parent_takes_its_server_along(starter: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, starter]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)
        assert not gone(pid, 0.01)
        parent.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_servers_started_together_all_start_and_are_strangers() -> None:
    with ThreadPoolExecutor(3) as pool:
        started = list(pool.map(lambda _: Ministack().start(), range(3)))
    try:
        assert len({port for store in started for port in store._ports}) == 3
        started[0].create_bucket("only-one")
        assert [len(store.s3_client().list_buckets()["Buckets"]) for store in started] == [1, 0, 0]
    finally:
        for store in started:
            store.stop()


def test_keys_and_uploads_with_odd_names(ministack: Server, bucket_factory: MakeBucket) -> None:
    store = ministack
    bucket, client = bucket_factory(store), store.s3_client()
    keys = [f"out put/{odd}/part {odd}" for odd in ODD_NAMES]
    hidden = ["out put/_temporary/0/x", "out put/.spark/x", "out put/p=1/_SUCCESS", "out put/p=1/.x.crc"]
    for key in [*keys, *hidden, "_out/x", "out put2/x"]:
        client.put_object(Bucket=bucket, Key=key, Body=b"1")
    uploads = {key: open_upload(client, bucket, key, [])[0] for key in [*keys, "out put2/x", "_m/x"]}

    assert store.visible_keys(bucket, "out put/") == sorted(keys)
    assert store.all_keys(bucket, "out put/") == sorted([*keys, *hidden])
    assert store.visible_keys(bucket, "_out/") == ["_out/x"]
    assert store.visible_keys(bucket, "out put/p=1/_") == ["out put/p=1/_SUCCESS"]
    pending = store.pending_uploads(bucket, "out put/")
    assert {u["Key"]: u["UploadId"] for u in pending} == {key: uploads[key] for key in keys}
    assert {u["Key"] for u in store.pending_uploads(bucket)} == set(uploads)


# SeaweedFS does not say where the page after a small one begins.
@pytest.mark.parametrize("name", ["ministack", "moto"])
def test_every_open_upload_is_found_beyond_one_page(
    name: str, server: GetServer, bucket_factory: MakeBucket
) -> None:
    store = server(name)
    bucket, client = bucket_factory(store), store.s3_client()
    listing = "provide-client-params.s3.ListMultipartUploads"
    keys = [f"k/{number:02d}" for number in range(33)]
    for key in keys:
        open_upload(client, bucket, key, [])

    def a_page_of_ten(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return params | {"MaxUploads": 10}

    client.meta.events.register(listing, a_page_of_ten)
    try:
        assert [u["Key"] for u in store.pending_uploads(bucket)] == keys
        assert len(store.pending_uploads(bucket, "k/1")) == 10
    finally:
        client.meta.events.unregister(listing, a_page_of_ten)


def test_a_truncated_page_without_markers_does_not_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unhelpful:
        def list_multipart_uploads(self, **_: Any) -> dict[str, Any]:
            return {
                "IsTruncated": True,
                "Uploads": [{"Key": "b", "UploadId": "1"}, {"Key": "a", "UploadId": "2"}],
            }

    store = Ministack()
    monkeypatch.setattr(store, "s3_client", Unhelpful)
    assert [u["Key"] for u in store.pending_uploads("bucket")] == ["a", "b"]


def test_the_environment_of_the_tests_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "PYTHONPATH", "WEED_X"):
        monkeypatch.setenv(variable, "/intruder")
    for variable in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with Ministack() as store:
        environment = Path(f"/proc/{store.pid}/environ").read_bytes()
        assert b"intruder" not in environment
        assert b"127.0.0.1:9\0" not in environment
        store.create_bucket("reached")
        assert store.all_keys("reached") == []


def test_a_server_that_died_is_reported_with_its_log() -> None:
    with Ministack() as store:
        with (store.directory / "server.log").open("a") as log:
            log.write("the last words\n")
        os.kill(store.pid, signal.SIGKILL)
        time.sleep(0.1)
        with pytest.raises(ServerFailed, match="died by itself") as failed:
            store.check_alive()
        assert "the last words" in str(failed.value)


class Broken(Ministack):
    def _command(self, home: Path) -> list[str]:
        return ["/bin/sh", "-c", "echo cannot work; exit 3"]


class Mute(Ministack):
    start_timeout = 0.3

    def _command(self, home: Path) -> list[str]:
        return ["/bin/sleep", "600"]


@pytest.mark.parametrize(
    ("kind", "says"), [(Broken, r"(?s)exited.*cannot work"), (Mute, "did not answer .* within 0.3 s")]
)
def test_a_server_that_does_not_start_leaves_nothing(
    kind: type[Server], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ServerFailed, match=says):
        kind().start()
    assert list(tmp_path.iterdir()) == []


def test_a_lost_race_for_a_port_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    choose, attempts = processes.free_ports, []

    def first_a_taken_one(count: int) -> list[int]:
        attempts.append(count)
        return [taken._port()] if len(attempts) == 1 else choose(count)

    with Ministack() as taken:
        monkeypatch.setattr(processes, "free_ports", first_a_taken_one)
        with Ministack() as other:
            assert other.endpoint != taken.endpoint
    assert len(attempts) == 2


def test_an_old_server_cannot_pass_for_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    free = processes.port_is_free
    with Ministack() as old:
        # The port looks free to the loser of a race, and the winner answers its readiness probe.
        looks = iter([True])
        monkeypatch.setattr(processes, "port_is_free", lambda port: next(looks, None) or free(port))
        monkeypatch.setattr(processes, "free_ports", lambda count: [old._port()])
        with pytest.raises(ServerFailed, match=r"where another program listens|exited instead of starting"):
            Ministack().start()
        old.check_alive()


def test_only_the_owner_of_a_port_listens_on_it(ministack: Server, moto: Server) -> None:
    port, both = ministack._ports, [*ministack._ports, *moto._ports]
    assert processes.listens_on(ministack.pid, port)
    assert not processes.listens_on(ministack.pid, both)
    assert not processes.listens_on(moto.pid, port)
    assert not processes.listens_on(os.getpid(), port)
