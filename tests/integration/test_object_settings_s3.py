"""Encryption, ACL, tags and storage class on everything that a job writes, whichever process writes it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets.abort import abort
from magicfs.errors import CommitOutcomeUnknown, StoreError, UsageError
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from magicfs.stores.s3 import copy as s3_copy
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, RequestSeen, Rule
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

DESTINATION = "wäre house/sales%201 +#"
TOLD = {
    "ServerSideEncryption": "aws:kms",
    "SSEKMSKeyId": "key of the house",
    "SSEKMSEncryptionContext": "e30=",
    "BucketKeyEnabled": True,
    "ACL": "bucket-owner-full-control",
    "StorageClass": "STANDARD_IA",
    "Tagging": "team=sales&cost=a%20b",
}
HEADERS = {
    "x-amz-server-side-encryption": "aws:kms",
    "x-amz-server-side-encryption-aws-kms-key-id": "key of the house",
    "x-amz-server-side-encryption-context": "e30=",
    "x-amz-server-side-encryption-bucket-key-enabled": "true",
    "x-amz-acl": "bucket-owner-full-control",
    "x-amz-storage-class": "STANDARD_IA",
    "x-amz-tagging": "team=sales&cost=a%20b",
}
OTHERS = {"ServerSideEncryption": "AES256", "ACL": "public-read", "GrantRead": 'id="x"'}
CUSTOMER_KEY = "k" * 32
CUSTOMERS = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": CUSTOMER_KEY}
ALGORITHM = "x-amz-server-side-encryption-customer-algorithm"
SENT_KEY = "x-amz-server-side-encryption-customer-key"
CREATES = {"PutObject", "CreateMultipartUpload", "CopyObject"}
WITH_KEY = CREATES | {"UploadPart", "CompleteMultipartUpload", "GetObject", "HeadObject"}


@dataclass
class Wire:
    """A bucket behind a proxy that remembers headers."""

    server: Server
    bucket: str
    proxy: FaultProxy
    seen: list[RequestSeen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{DESTINATION}"

    @property
    def bare(self) -> dict[str, Any]:
        """Storage options that tell nothing of objects."""
        once = {"config_kwargs": {"retries": {"total_max_attempts": 1}}}
        return {**self.server.storage_options(), "endpoint_url": self.proxy.endpoint, **once}

    def options(self, told: dict[str, Any]) -> dict[str, Any]:
        return {**self.bare, "s3_additional_kwargs": told}

    def job(self, told: dict[str, Any], mode: Any = "append", **how: Any) -> magicfs.Job:
        return magicfs.Job(self.url, mode=mode, storage_options=self.options(told), **arranged(**how)).setup()

    def environment(self, **more: str) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": self.server.access_key, "AWS_SECRET_ACCESS_KEY": self.server.secret_key}
        return {**os.environ, **keys, **more}

    def run(self, program: str, *arguments: str, given: bytes = b"", **more: str) -> str:
        done = subprocess.run(
            [sys.executable, *(["-c", program] if program else ["-m", "magicfs.cli"]), *arguments],
            input=given,
            capture_output=True,
            env=self.environment(**more),
            check=False,
        )
        return f"{done.returncode} {done.stdout.decode()}{done.stderr.decode()}"

    def writes(self, operations: set[str] = CREATES) -> list[RequestSeen]:
        """What was asked since the last call."""
        found = [one for one in self.proxy.requests if one.operation in operations]
        self.proxy.clear()
        return found

    def assert_told(self, *expected: str) -> None:
        """Everything written since the last call bears what was told; operations or keys are among it."""
        writes = self.writes()
        for one in writes:
            assert {name: one.headers.get(name) for name in HEADERS} == HEADERS, one
            assert "x-amz-grant-read" not in one.headers, one
            if one.operation == "CopyObject":
                assert one.headers["x-amz-tagging-directive"] == "REPLACE"
        for name in expected:
            assert any(name in f"{one.operation} {one.path}" for one in writes), (name, writes)

    def bodies(self) -> list[bytes]:
        client = self.server.s3_client()
        keys = self.server.visible_keys(self.bucket, f"{DESTINATION}/")
        return sorted(client.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys)

    def refuse_completes(self) -> None:
        self.proxy.add(Rule("CompleteMultipartUpload", Action.ERROR, status=503, code="SlowDown", times=200))


@pytest.fixture
def wire(ministack: Server, bucket_factory: Callable[..., str]) -> Iterator[Wire]:
    with FaultProxy(ministack.endpoint) as proxy:
        yield Wire(ministack, bucket_factory(ministack, "settings"), proxy)


def write(job: magicfs.Job, *bodies: bytes) -> list[Any]:
    for number, body in enumerate(bodies):
        with job.task(number) as task, task.filesystem.open(f"{task.path}/p=1/a b%20é.bin", "wb") as file:
            file.write(body)
    return list(job.commits)


DRIVEN = [("magic", "store"), ("magic", "memory"), ("directory", "store")]
OTHER_COMMITTERS = ["file", "direct", "stocator", "task-completing"]


@pytest.mark.parametrize(("committer", "tracking"), DRIVEN)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_every_write_of_a_job_bears_what_it_was_told(
    wire: Wire, committer: Any, tracking: Any, mode: Any
) -> None:
    if mode == "overwrite":
        write(old := wire.job(TOLD), b"old")
        old.commit(old.commits)
    extra = f"s3://{wire.bucket}/other place"
    job = wire.job(TOLD, mode, committer=committer, tracking=tracking, extra_destinations=[extra])
    wire.assert_told("job.json")
    write(job, b"one", b"two")
    with job.task("aside") as task:
        path = task.path_to(extra)
        with task.filesystem.open(f"{path}/x.bin", "wb") as file:
            file.write(b"x")
    wire.assert_told("CreateMultipartUpload")
    job.commit(job.commits)
    wire.assert_told("_SUCCESS", "current.json", "facts", "other%20place/_magicfs")
    assert wire.bodies() == [b"one", b"two"]
    assert magicfs.Dataset(wire.url, storage_options=wire.bare).verify().ok
    assert wire.writes() == []


@pytest.mark.parametrize("committer", OTHER_COMMITTERS)
def test_every_write_without_a_job_object_bears_it_too(wire: Wire, committer: str) -> None:
    job = wire.job(TOLD, committer=committer)
    write(job, b"one", b"two")
    job.commit(job.commits)
    wire.assert_told("_SUCCESS", *(["CopyObject"] if committer == "file" else []))
    assert wire.bodies() == [b"one", b"two"]
    write(job := wire.job(TOLD, committer=committer), b"three")
    job.abort()
    wire.assert_told()


def test_abort_bears_what_the_job_was_told(wire: Wire) -> None:
    job = wire.job(TOLD)
    write(job, b"one")
    job.abort()
    wire.assert_told("job.json", ".pending", ".pendingset")
    assert wire.server.pending_uploads(wire.bucket) == []


@pytest.mark.parametrize("given", [{}, OTHERS], ids=["told nothing", "told others"])
@pytest.mark.parametrize("how", ["recover", "rollback", "commit", "abort"])
def test_another_process_writes_as_the_job_was_told(wire: Wire, how: str, given: dict[str, Any]) -> None:
    old = wire.job(TOLD)
    write(old, b"old")
    old.commit(old.commits)
    job = wire.job(TOLD, "overwrite")
    commits = write(job, b"new")
    if how in {"recover", "rollback"}:
        wire.refuse_completes()
        with pytest.raises(CommitOutcomeUnknown):
            job.commit(commits)
    wire.assert_told()
    wire.proxy.clear()
    options = ["--storage-options", json.dumps(public(wire.options(given)))]
    arguments = {
        "recover": ["recover", wire.url],
        "rollback": ["recover", wire.url, "--rollback"],
        "commit": ["recover", "--commit", wire.url, "--job", job.id],
        "abort": ["recover", "--abort", wire.url, "--job", job.id],
    }[how]
    told = wire.run("", *arguments, *options)
    assert told.startswith("0 "), told
    wire.assert_told(*(["_SUCCESS", "current.json"] if how in {"recover", "commit"} else ["job.json"]))
    assert wire.bodies() == ([b"new"] if how in {"recover", "commit"} else [b"old"])


def public(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in {"key", "secret"}}


def test_compact_and_adopt_write_as_the_newest_job_was_told(wire: Wire) -> None:
    for body in (b"one", b"two"):
        job = wire.job(TOLD)
        write(job, body)
        job.commit(job.commits)
    wire.writes()
    magicfs.Dataset(wire.url, storage_options=wire.options(OTHERS)).compact()
    wire.assert_told("_magicfs", "current.json")
    wire.server.s3_client().put_object(Bucket=wire.bucket, Key=f"{DESTINATION}/foreign", Body=b"x")
    assert magicfs.Dataset(wire.url, storage_options=wire.bare).adopt().manifest is not None
    wire.assert_told("_magicfs", "current.json")
    pointer = f"{DESTINATION}/_magicfs/current.json"
    wire.server.s3_client().delete_object(Bucket=wire.bucket, Key=pointer)
    magicfs.Dataset(wire.url, storage_options=wire.options(OTHERS)).adopt()
    wire.assert_told("current.json")


WRITE = """
import sys, fsspec, json
url, options = sys.argv[1], json.loads(sys.argv[2])
with fsspec.open(url, "wb", s3=options) as file:
    file.write(b"chained")
"""


def test_chained_url_of_another_process_writes_as_the_job_was_told(wire: Wire) -> None:
    job = wire.job(TOLD)
    task = job.task(0).setup()
    options = json.dumps(public(wire.options(OTHERS)))
    assert wire.run(WRITE, task.url("a.bin"), options).startswith("0 ")
    job.commit([task.commit()])
    wire.assert_told("CreateMultipartUpload", ".pending")
    assert wire.bodies() == [b"chained"]


TASK = """
import pickle, sys
with pickle.load(sys.stdin.buffer) as task:
    task.filesystem.pipe_file(task.path + "/a.bin", b"pickled")
"""


def test_pickled_task_writes_as_its_driver_was_told_by_its_configuration(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.config import conf

    monkeypatch.setitem(conf, "s3", {"s3_additional_kwargs": TOLD})
    job = magicfs.Job(wire.url, mode="append", storage_options=wire.bare).setup()
    done = wire.run(TASK, given=pickle.dumps(job.task(0)))
    assert done.startswith("0 "), done
    job.commit()
    wire.assert_told(".pendingset", "CreateMultipartUpload")


def test_nothing_told_is_nothing_sent_and_the_callers_own_counts(wire: Wire) -> None:
    job = wire.job({})
    write(job, b"one")
    for one in wire.writes():
        assert not HEADERS.keys() & one.headers.keys(), one
    abort(wire.url, job=job.id, storage_options=wire.options(TOLD))
    wire.assert_told("job.json")


def test_acl_in_small_letters_counts_as_for_s3fs(wire: Wire) -> None:
    job = wire.job({"acl": "bucket-owner-full-control"})
    write(job, b"one")
    job.commit(job.commits)
    assert {one.headers.get("x-amz-acl") for one in wire.writes()} == {"bucket-owner-full-control"}


def test_second_attempt_is_not_told_otherwise(wire: Wire) -> None:
    job = wire.job(TOLD)
    wire.writes()
    for told in ({}, OTHERS):
        with pytest.raises(UsageError, match=r"ACL=bucket-owner-full-control.*in every attempt"):
            wire.job(told, job_id=job.id, attempt=1)
    assert wire.writes() == []
    write(second := wire.job(TOLD, job_id=job.id, attempt=1), b"one")
    second.commit(second.commits)
    assert wire.bodies() == [b"one"]


@pytest.mark.parametrize("storage_class", ["GLACIER", "DEEP_ARCHIVE"])
def test_records_stay_readable_where_data_goes_to_an_archive(wire: Wire, storage_class: str) -> None:
    told = {**TOLD, "StorageClass": storage_class}
    for mode in ("append", "overwrite"):
        job = wire.job(told, mode)
        commits = write(job, b"one", b"two")
        if mode == "append":
            job.commit(commits)
            continue
        wire.refuse_completes()
        with pytest.raises(CommitOutcomeUnknown):
            job.commit(commits)
        wire.proxy.clear()
        magicfs.Dataset(wire.url, storage_options=wire.bare).recover()
    magicfs.Dataset(wire.url, storage_options=wire.bare).compact()
    assert magicfs.Dataset(wire.url, storage_options=wire.bare).verify().ok
    without = {name: value for name, value in HEADERS.items() if name != "x-amz-storage-class"}
    for one in wire.writes():
        assert without.items() <= one.headers.items(), one
        sent = one.headers.get("x-amz-storage-class")
        assert sent == (None if one.operation == "PutObject" else storage_class), one
    listed = wire.server.s3_client().list_objects_v2(Bucket=wire.bucket)["Contents"]
    assert {one["StorageClass"] for one in listed if one["Key"].endswith(".bin")} == {storage_class}


def test_committer_that_copies_refuses_an_archive(wire: Wire) -> None:
    with pytest.raises(UsageError, match="cannot be copied before they are restored; use committer='magic'"):
        wire.job({"StorageClass": "GLACIER"}, committer="file")
    assert wire.proxy.requests == []


def assert_with_key(wire: Wire) -> None:
    for one in wire.writes(WITH_KEY):
        assert one.headers.get(ALGORITHM) == "AES256", one
        assert one.headers.get(SENT_KEY), one


@pytest.mark.parametrize(("committer", "tracking"), DRIVEN)
def test_customers_key_goes_with_every_read_and_write(wire: Wire, committer: Any, tracking: Any) -> None:
    for mode in ("append", "overwrite"):
        job = wire.job(CUSTOMERS, mode, committer=committer, tracking=tracking)
        write(job, b"one", b"two")
        job.commit(job.commits)
    magicfs.Dataset(wire.url, storage_options=wire.options(CUSTOMERS)).compact()
    assert_with_key(wire)


@pytest.mark.parametrize("committer", OTHER_COMMITTERS)
def test_customers_key_goes_with_it_without_a_job_object_too(wire: Wire, committer: str) -> None:
    job = wire.job(CUSTOMERS, committer=committer)
    write(job, b"one", b"two")
    job.commit(job.commits)
    assert_with_key(wire)


def everything(wire: Wire) -> Any:
    listed = wire.server.s3_client().list_objects_v2(Bucket=wire.bucket).get("Contents", [])
    return [(one["Key"], one["ETag"]) for one in listed], len(wire.server.pending_uploads(wire.bucket))


@pytest.mark.parametrize("command", ["recover", "commit"])
@pytest.mark.nightly
def test_command_without_the_customers_key_is_refused_and_with_it_works(wire: Wire, command: str) -> None:
    job = wire.job(CUSTOMERS)
    commits = write(job, b"one")
    if command == "recover":
        wire.refuse_completes()
        with pytest.raises(CommitOutcomeUnknown):
            job.commit(commits)
        wire.proxy.clear()
    before = everything(wire)
    arguments = ["recover", wire.url, "--job", job.id, *(["--commit"] if command == "commit" else [])]
    options = ["--storage-options", json.dumps(public(wire.bare))]
    refused = wire.run("", *arguments, *options)
    assert not refused.startswith("0 ")
    assert "give the job's customer key (SSE-C)" in refused
    assert "FSSPEC_S3" in refused
    assert everything(wire) == before
    wire.writes()
    by_environment = json.dumps({"s3_additional_kwargs": CUSTOMERS})
    done = wire.run("", *arguments, *options, FSSPEC_S3=by_environment)
    assert done.startswith("0 "), done
    assert_with_key(wire)
    assert len(wire.server.visible_keys(wire.bucket, f"{DESTINATION}/")) == 1


def test_customers_key_is_written_nowhere(wire: Wire) -> None:
    write(job := wire.job(CUSTOMERS), b"one")
    client = wire.server.s3_client()
    for key in wire.server.all_keys(wire.bucket):
        body = client.get_object(Bucket=wire.bucket, Key=key, **CUSTOMERS)["Body"].read()
        assert CUSTOMER_KEY.encode() not in body
        if key.endswith("job.json"):
            assert json.loads(body)["objectSettings"] == {"SSECustomerAlgorithm": "AES256"}
    with pytest.raises(UsageError, match="SSECustomerKey"):
        pickle.dumps(job)
    job.abort()


def test_customers_key_is_refused_on_a_command_line(wire: Wire, capsys: pytest.CaptureFixture[str]) -> None:
    options = json.dumps({"s3_additional_kwargs": CUSTOMERS})
    assert main(["recover", wire.url, "--storage-options", options]) == 2
    told = capsys.readouterr().err
    assert "a key of SSE-C goes into FSSPEC_S3=" in told
    assert CUSTOMER_KEY not in told


@pytest.mark.nightly
def test_store_that_ignores_the_customers_key_does_not_hide_that_it_is_missing(
    moto: Server, bucket_factory: Callable[..., str]
) -> None:
    with FaultProxy(moto.endpoint) as proxy:
        wire = Wire(moto, bucket_factory(moto, "settings"), proxy)
        job = wire.job(CUSTOMERS)
        write(job, b"one")
        wire.writes()
        with pytest.raises(UsageError, match=r"not stored anywhere; nothing was changed; give the job"):
            abort(wire.url, job=job.id, storage_options=wire.bare)
        assert wire.writes() == []
        job.abort()


def test_wrong_key_is_told_from_missing_permission(wire: Wire) -> None:
    job = wire.job(CUSTOMERS)
    wrong = wire.options({**CUSTOMERS, "SSECustomerKey": "j" * 32})
    with pytest.raises(StoreError) as caught:
        magicfs.Dataset(wire.url, storage_options=wrong).recover()
    assert "SSE-C" in str(caught.value) or "403" in str(caught.value)
    job.abort()


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_job_beside_one_whose_key_it_lacks_is_refused_and_leaves_nothing(wire: Wire, mode: str) -> None:
    first = wire.job(CUSTOMERS)
    before = everything(wire)
    with pytest.raises(StoreError, match=r"give the job's customer key \(SSE-C\)"):
        wire.job({}, mode)
    assert everything(wire) == before
    write(first, b"one")
    first.commit(first.commits)


def test_copy_in_parts_bears_what_was_told(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_copy, "COPY_MAX", 0)
    for told in (TOLD, CUSTOMERS):
        filesystem = resolve.filesystem("s3", wire.options(told))
        store = resolve.open_store(filesystem, wire.bucket)
        run_on(filesystem.loop, store.put, "a +é", b"body")
        wire.writes()
        assert run_on(filesystem.loop, store.copy, "a +é", "b") == 4
        if told is CUSTOMERS:
            assert {one.headers.get(ALGORITHM) for one in wire.writes({"UploadPartCopy"})} == {"AES256"}
        else:
            wire.assert_told("CreateMultipartUpload")
