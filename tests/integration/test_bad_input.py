"""Bad input and failing stores: what is told, what is left, what is never touched."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ObjectNotFound,
    OutputExists,
    PermissionDenied,
    Unavailable,
    Unsupported,
    UsageError,
)
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.servers import SeaweedFS, Server
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended, forget_files

pytestmark = pytest.mark.sample(most=1)

DESTINATION = "wäre house/sales%201 +#"
OLD = f"{DESTINATION}/old.txt"
# Long enough for a loaded machine, short enough for a test that waits for it.
SILENCE_S = 15.0


@dataclass
class Place:
    """A bucket with an old file in it, a job's way to it, and faults on that way."""

    server: Server
    bucket: str
    proxy: FaultProxy
    attempts: int = 1
    # Only a test whose store falls silent is to give up a request that a stalled machine answers late.
    read_timeout: float = 60.0

    def options(self, **changes: Any) -> dict[str, Any]:
        plain = self.server.storage_options() | {"endpoint_url": self.proxy.endpoint}
        retries = {"mode": "standard", "total_max_attempts": self.attempts}
        return {**plain, "config_kwargs": {"retries": retries, "read_timeout": self.read_timeout}, **changes}

    def job(self, destination: str = DESTINATION, **options: Any) -> Job:
        storage_options = options.pop("storage_options", None) or self.options()
        url = f"s3://{self.bucket}/{destination}"
        return Job(url, mode="append", storage_options=storage_options, **arranged(**options))

    def objects(self) -> list[str]:
        all_ended()
        return self.server.all_keys(self.bucket)

    def pending(self) -> set[tuple[str, str]]:
        all_ended()
        return {(u["Key"], u["UploadId"]) for u in self.server.pending_uploads(self.bucket)}

    def read(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)

    @property
    def client(self) -> Any:
        return self.server.s3_client()

    def assert_as_before(self, job: Job | None = None) -> None:
        """Nothing but the old file, and the object of a job that is still open."""
        still = [job.spec.work_layout.job_object_key] if job else []
        assert self.objects() == [*still, OLD]
        assert self.read(OLD) == b"old"
        assert not self.pending()

    def data(self) -> list[str]:
        others = ("/__magic", "/_magicfs/", "/_SUCCESS")
        return [key for key in self.objects() if not any(text in key for text in others)]


@pytest.fixture
def make_place(
    server: Callable[[str], Server], bucket_factory: Callable[..., str]
) -> Iterator[Callable[[str], Place]]:
    proxies: list[FaultProxy] = []

    def make(name: str) -> Place:
        running = server(name)
        proxy = FaultProxy(running.endpoint)
        proxy.__enter__()
        proxies.append(proxy)
        place = Place(running, bucket_factory(running, "bad"), proxy)
        place.put(OLD, b"old")
        return place

    yield make
    for proxy in proxies:
        proxy.__exit__(None, None, None)


@pytest.fixture
def place(make_place: Callable[[str], Place]) -> Place:
    return make_place("ministack")


@contextmanager
def impatience() -> Iterator[None]:
    """Give a silent store up after a second, where users wait a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("magicfs.engine.STALL_TIMEOUT_S", 1.0)
        yield


def write(task: Task, *names: str) -> None:
    for name in names:
        task.filesystem.pipe_file(f"{task.path}/{name}", name.encode())


# -- .pending files ------------------------------------------------------------------------------------


def without(name: str) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps({k: v for k, v in json.loads(raw).items() if k != name}).encode()


def changed(**fields: Any) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps(json.loads(raw) | fields).encode()


BAD_PENDING: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "one byte": lambda raw: raw[:1],
    "half": lambda raw: raw[: len(raw) // 2],
    "all but one byte": lambda raw: raw[:-1],
    "binary": lambda raw: b"\xff\xfe\x00" + raw,
    "another value": lambda raw: b"[]",
    "no upload id": without("uploadId"),
    "no bucket": without("bucket"),
    "no destination": without("destinationKey"),
    "no etags": without("etags"),
    "no length": without("length"),
    "empty etags": changed(etags=[]),
    "version of the future": changed(version=3),
    "negative length": changed(length=-1),
    "other bucket": changed(bucket="somebody-elses"),
    "outside": changed(destinationKey="elsewhere/x"),
    "sibling": changed(destinationKey=f"{DESTINATION}0/x"),
    "destination itself": changed(destinationKey=DESTINATION),
    "old file of the parent": changed(destinationKey="wäre house/x"),
    "larger than any": lambda raw: raw + b" " * 16 * 2**20,
}


def test_pending_files_that_cannot_be_believed_fail_their_task_by_name(place: Place) -> None:
    job = place.job().setup()
    task = job.task(0).setup()
    names = {f"bad-{number:02d}.txt": alter for number, alter in enumerate(BAD_PENDING.values())}
    write(task, "good.txt", *names)
    bad = [key for key in place.objects() if "/bad-" in key and key.endswith(".pending")]
    for key, alter in zip(bad, names.values(), strict=True):
        place.put(key, alter(place.read(key)))
    forget_files(task)
    with pytest.raises(
        CommitFailed, match=r"task 000000 was not committed, and its 1 readable upload"
    ) as caught:
        task.commit()
    cause = caught.value.__cause__
    assert isinstance(cause, ExceptionGroup)
    assert cause.subgroup(FormatError) is not None
    assert len(cause.exceptions) == len(names)
    told = str(caught.value) + "".join(caught.value.__notes__)
    assert [key for key in bad if key not in told] == []
    assert len(place.pending()) == len(names), "nobody knows whose they are"
    assert place.data() == [OLD]
    job.abort()
    place.assert_as_before()


def test_marker_without_its_pending_file_fails_its_task(place: Place) -> None:
    job = place.job().setup()
    task = job.task(0).setup()
    write(task, "good.txt", "bad.txt")
    place.client.delete_object(
        Bucket=place.bucket, Key=next(key for key in place.objects() if key.endswith("bad.txt.pending"))
    )
    with pytest.raises(
        CommitFailed, match=r"bad\.txt: the marker has no \.pending file, because .* write it again"
    ):
        task.commit()
    place.assert_as_before(job)


def test_pending_file_that_may_not_be_read_fails_its_task(place: Place) -> None:
    job = place.job().setup()
    task = job.task(0).setup()
    write(task, "good.txt", "bad.txt")
    forget_files(task)
    denied = Rule("GetObject", Action.ERROR, match=r"bad\.txt\.pending", status=403, code="AccessDenied")
    place.proxy.add(denied)
    with pytest.raises(PermissionDenied, match=r"bad\.txt\.pending.*check the credentials"):
        task.commit()
    assert place.data() == [OLD]
    place.proxy.clear()
    job.abort()
    place.assert_as_before()


# -- pending sets --------------------------------------------------------------------------------------


def altered(raw: bytes, fields: dict[str, Any]) -> bytes:
    document = json.loads(raw)
    document["commits"][0] |= fields
    return json.dumps(document).encode()


# What only a store can refuse; the committer exam has the others.
ALTERED_SET: dict[str, dict[str, Any]] = {
    "upload id": {"uploadId": "0123456789abcdef"},
    "etag": {"etags": ['"' + "0" * 32 + '"']},
    "one more part": {"etags": ['"0"', '"1"']},
    "another key": {"destinationKey": OLD},
}


@pytest.mark.parametrize("how", ALTERED_SET)
def test_altered_pending_set_publishes_nothing(place: Place, how: str) -> None:
    # A name that is taken is found before the commit point.
    error = OutputExists if how == "another key" else CommitFailed
    with pytest.raises(error), place.job(concurrency=1) as job:
        for number in range(3):
            with job.task(number) as task:
                write(task, "part-0.txt")
        key = sorted(key for key in place.objects() if key.endswith(".pendingset"))[1]
        place.put(key, altered(place.read(key), ALTERED_SET[how]))
        job.commit()
    place.assert_as_before()


def test_set_that_is_gone_publishes_nothing(place: Place) -> None:
    job = place.job().setup()
    with job.task(0) as task:
        write(task, "part-0.txt")
    (commit,) = job.commits
    place.client.delete_object(Bucket=place.bucket, Key=commit.set_key)
    with pytest.raises(CommitFailed, match=r"is gone: .*; nothing was published; run the job again"):
        job.commit([replace(commit, content=None)])
    job.abort()
    place.assert_as_before()


# -- destinations, buckets, credentials, multipart -----------------------------------------------------


def test_destination_that_is_a_file_is_refused(place: Place) -> None:
    with pytest.raises(UsageError, match="is a file; choose a directory, or remove the file first"):
        place.job(OLD).setup()
    place.assert_as_before()


def test_bucket_that_does_not_exist_is_named_and_not_created(place: Place) -> None:
    url = "s3://magicfs-no-such-bucket/sales"
    job = Job(url, mode="append", storage_options=place.options())
    with pytest.raises(ObjectNotFound, match=r"magicfs-no-such-bucket.*create the bucket first") as caught:
        job.setup()
    # No look at what would be there, such as a table's log, is the user's key.
    assert "_delta_log" not in str(caught.value)
    assert "__magic" not in str(caught.value)
    with pytest.raises(ObjectNotFound, match="create the bucket first"), job:
        pytest.fail("the body of the with block was run")
    buckets = [bucket["Name"] for bucket in place.client.list_buckets()["Buckets"]]
    assert "magicfs-no-such-bucket" not in buckets


def test_wrong_credentials_are_told_at_setup(make_place: Callable[[str], Place]) -> None:
    place = make_place("seaweedfs")
    for wrong in ({"secret": "wrong"}, {"key": "nobody"}):
        with pytest.raises(PermissionDenied, match=r"list of bad-.*check the credentials"):
            place.job(storage_options=place.options(**wrong)).setup()
    place.assert_as_before()


def test_missing_credentials_are_told_at_setup(
    make_place: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    place = make_place("seaweedfs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(PermissionDenied, match=r"no usable credentials.*set AWS_ACCESS_KEY_ID"):
        place.job(storage_options=place.options(key=None, secret=None)).setup()


def test_store_that_knows_no_multipart_uploads_is_told_at_the_first_file(place: Place) -> None:
    place.proxy.add(Rule("CreateMultipartUpload", Action.ERROR, status=501, code="NotImplemented"))
    with (
        pytest.raises(CommitFailed, match=r"part-0.*use another store, or another committer") as caught,
        place.job() as job,
        job.task(0) as task,
    ):
        write(task, "part-0.txt")
    assert isinstance(caught.value.__cause__, Unsupported)
    place.assert_as_before()


# -- stores that fail while a file is written ----------------------------------------------------------

FAULTS = {
    "500": Rule("UploadPart", Action.ERROR, status=500, code="InternalError", match="part-0"),
    "408": Rule("UploadPart", Action.ERROR, status=408, code="RequestTimeout", match="part-0"),
    "507": Rule("UploadPart", Action.ERROR, status=507, code="InsufficientStorage", match="part-0"),
    "reset": Rule("UploadPart", Action.RESET, match="part-0"),
    "400": Rule("UploadPart", Action.ERROR, status=400, code="InvalidDigest", match="part-0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_store_that_fails_in_mid_write_fails_the_task_and_leaves_nothing(place: Place, fault: str) -> None:
    place.proxy.add(FAULTS[fault])
    with pytest.raises(CommitFailed) as caught, place.job() as job, job.task(0) as task:
        write(task, "part-0.txt")
    told = str(caught.value)
    assert f"put_part of {place.bucket}/{DESTINATION}/part-0-000000-{job.id}.txt" in told
    assert told.rpartition("; ")[2], "what to do"
    if fault == "507":
        assert "free space on the store" in told
    else:
        assert isinstance(caught.value.__cause__, Unavailable) == (fault != "400")
    place.assert_as_before()


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "UploadPart", "PutObject"])
def test_task_is_run_again_once_the_store_is_back(place: Place, operation: str) -> None:
    job = place.job().setup()
    place.proxy.add(Rule(operation, Action.ERROR, status=500, code="InternalError"))
    with pytest.raises(CommitFailed) as caught, job.task(0) as task:
        write(task, "part-0.txt")
    assert isinstance(caught.value.__cause__, Unavailable)
    place.proxy.clear()
    with job.task(0) as task:
        write(task, "part-0.txt")
    job.commit(job.commits)
    assert place.data() == [OLD, f"{DESTINATION}/part-0-000000-{job.id}.txt"]
    assert not place.pending()


def test_server_that_dies_in_mid_write_leaves_nothing_once_it_is_back() -> None:
    with SeaweedFS() as server, FaultProxy(server.endpoint) as proxy:
        place = Place(server, server.create_bucket("dies"), proxy)
        place.put(OLD, b"old")
        job = place.job()
        began = time.monotonic()
        with (
            impatience(),
            pytest.raises(Unavailable, match="check that the endpoint is right and up") as caught,
            job,
            job.task(0) as task,
        ):
            write(task, "whole.txt")
            with task.filesystem.open(f"{task.path}/cut.txt", "wb") as file:
                file.write(b"x" * 9 * 2**20)
                server.kill()
        assert time.monotonic() - began < 60
        assert "could not be fully aborted" in "".join(caught.value.__notes__)
        server.restart()
        # For some seconds SeaweedFS answers 500 for what it has not looked up again.
        patient = place.server.s3_client(attempts=20)
        patient.get_object(Bucket=place.bucket, Key=job.spec.work_layout.job_object_key)["Body"].read()
        assert place.data() == [OLD]
        job.abort()
        place.assert_as_before()


# -- stores that fail while a job commits --------------------------------------------------------------


def committed(place: Place, tasks: int = 3, **options: Any) -> Job:
    job = place.job(**options).setup()
    for number in range(tasks):
        with job.task(number) as task:
            write(task, f"part-{number}.txt")
    return job


def assert_published(place: Place, job: Job, tasks: int = 3) -> None:
    names = [f"{DESTINATION}/part-{number}-{number:06d}-{job.id}.txt" for number in range(tasks)]
    assert place.data() == sorted([OLD, *names])
    assert [place.read(key) for key in names] == [f"part-{number}.txt".encode() for number in range(tasks)]
    assert f"{DESTINATION}/_SUCCESS" in place.objects()
    assert not [key for key in place.objects() if "/__magic" in key]
    assert not place.pending()


@pytest.mark.parametrize(
    ("rule", "attempts"),
    [
        (Rule("CompleteMultipartUpload", Action.LOST), 1),
        (Rule("CompleteMultipartUpload", Action.LOST_500), 3),
        (Rule("CompleteMultipartUpload", Action.LOST_500, status=404, code="NoSuchUpload"), 1),
    ],
    ids=["lost", "500", "not found"],
)
def test_complete_whose_reply_was_lost_is_found_out(place: Place, rule: Rule, attempts: int) -> None:
    place.attempts = attempts
    job = committed(place)
    place.proxy.add(rule)
    report = job.commit(job.commits)
    assert (report.files, report.warnings) == (3, ())
    assert place.proxy.counts["HeadObject"] >= 3
    assert_published(place, job)


@pytest.mark.parametrize(
    "rule",
    [
        Rule("CompleteMultipartUpload", Action.ERROR, skip=1, status=500, code="InternalError"),
        Rule("CompleteMultipartUpload", Action.HANG, skip=1),
        Rule("CompleteMultipartUpload", Action.ERROR_IN_200, skip=1),
    ],
    ids=["500", "silence", "error-in-200"],
)
@pytest.mark.nightly
def test_silence_of_the_store_removes_nothing_and_a_second_commit_succeeds(place: Place, rule: Rule) -> None:
    place.read_timeout = SILENCE_S
    job = committed(place, concurrency=1)
    place.proxy.add(rule)
    looks = Action.HANG if rule.action is Action.HANG else Action.RESET
    place.proxy.add(Rule("HeadObject", looks, match="part-"))
    with pytest.raises(
        CommitOutcomeUnknown, match=r"1 of 3 files are published.*commit again, or run magicfs recover"
    ) as caught:
        job.commit(job.commits)
    error = caught.value
    assert (len(error.done), len(error.failed), len(error.not_started)) == (1, 1, 1)
    assert error.failed[0] in str(error)
    assert len(place.data()) == 2
    assert len(place.pending()) == 2
    assert [key for key in place.objects() if key.endswith(".pendingset")]
    place.proxy.clear()
    assert job.commit(job.commits).files == 3
    assert_published(place, job)


def test_silence_in_a_with_block_removes_nothing(place: Place) -> None:
    job = place.job()
    with pytest.raises(CommitOutcomeUnknown), job:
        with job.task(0) as task:
            write(task, "part-0.txt")
        place.proxy.add(Rule("CompleteMultipartUpload", Action.RESET))
    place.proxy.clear()
    assert len(place.pending()) == 1
    job.commit()
    assert_published(place, job, 1)


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (403, "AccessDenied", "check the credentials"),
        (400, "InvalidPart", "(400 InvalidPart)"),
        (507, "InsufficientStorage", "free space on the store"),
    ],
)
def test_refused_complete_undoes_what_was_published(place: Place, status: int, code: str, told: str) -> None:
    job = committed(place, concurrency=1)
    place.proxy.add(Rule("CompleteMultipartUpload", Action.ERROR, skip=2, status=status, code=code))
    with pytest.raises(CommitFailed, match="visible files were removed again") as caught:
        job.commit(job.commits)
    error = caught.value
    assert (len(error.done), len(error.failed), len(error.not_started)) == (2, 1, 0)
    assert told in str(error)
    assert error.failed[0] in str(error)
    place.assert_as_before()


def test_upload_that_was_aborted_behind_our_back_undoes_the_job_and_nothing_else(place: Place) -> None:
    other = committed(place, 1)
    theirs = place.client.create_multipart_upload(Bucket=place.bucket, Key=f"{DESTINATION}/theirs.txt")
    job = committed(place, concurrency=1)
    (victim,) = (u for u in place.pending() if f"part-1-000001-{job.id}" in u[0])
    place.client.abort_multipart_upload(Bucket=place.bucket, Key=victim[0], UploadId=victim[1])
    before = place.pending()
    with pytest.raises(
        CommitFailed, match=r"part-1-000001.* could not be published; the 1 visible files"
    ) as caught:
        job.commit(job.commits)
    assert caught.value.failed == (victim[0],)
    assert place.data() == [OLD]
    assert place.pending() == {u for u in before if job.id not in u[0]}
    assert len(place.pending()) == 2
    assert f"{DESTINATION}/_SUCCESS" not in place.objects()
    other.commit()
    assert len(place.data()) == 2
    assert place.pending() == {(theirs["Key"], theirs["UploadId"])}


def test_file_that_somebody_replaced_meanwhile_is_not_removed(place: Place) -> None:
    job = committed(place, concurrency=1)
    replaced = f"{DESTINATION}/part-0-000000-{job.id}.txt"
    place.proxy.add(Rule("CompleteMultipartUpload", Action.ERROR, skip=1, status=403, code="AccessDenied"))
    committer = job.spec.make_committer(lambda event: place.put(replaced, b"theirs"))
    with pytest.raises(CommitFailed):
        sync(job.spec.loop, committer.commit_job, job.commits)
    assert place.data() == sorted([OLD, replaced])
    assert place.read(replaced) == b"theirs"
    assert not place.pending()


def test_undoing_that_fails_is_told_and_finished_by_an_abort(place: Place) -> None:
    job = committed(place, concurrency=1)
    place.proxy.add(Rule("CompleteMultipartUpload", Action.ERROR, skip=1, status=403, code="AccessDenied"))
    place.proxy.add(Rule("AbortMultipartUpload", Action.ERROR, status=403, code="AccessDenied"))
    with pytest.raises(CommitFailed, match=r"could not be fully undone.*call job\.abort") as caught:
        job.commit(job.commits)
    assert "and undoing it failed: abort_upload of" in "".join(caught.value.__notes__)
    assert (len(caught.value.done), len(caught.value.failed), len(caught.value.not_started)) == (1, 1, 1)
    assert place.data() == [OLD]
    assert len(place.pending()) == 2
    place.proxy.clear()
    job.abort()
    place.assert_as_before()


def test_published_job_that_cannot_clean_up_is_published(place: Place) -> None:
    job = committed(place)
    for operation in ("ListMultipartUploads", "DeleteObjects"):
        place.proxy.add(Rule(operation, Action.ERROR, status=503, code="SlowDown"))
    report = job.commit(job.commits)
    assert report.files == 3
    assert "cleaning up failed" in report.warnings[0]
    place.proxy.clear()
    again = Job(job.url, mode="append", storage_options=place.options(), job_id=job.id)
    with pytest.raises(CommitDenied, match=rf"job {job.id} is completed; .* run magicfs recover"):
        again.setup()
    (recovered,) = magicfs.Dataset(job.url, storage_options=place.options()).recover().jobs
    assert (recovered.found, recovered.action, recovered.warnings) == ("completed", "finished", ())
    assert_published(place, job)


# -- the task's set ------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Action.RESET, Action.LOST])
def test_set_whose_write_is_in_doubt_is_committed_again(place: Place, action: Action) -> None:
    job = place.job().setup()
    task = job.task(0).setup()
    write(task, "part-0.txt")
    place.proxy.add(Rule("PutObject", action, match=r"\.pendingset"))
    with pytest.raises(CommitOutcomeUnknown, match=r"\.pendingset was written; nothing was aborted"):
        task.commit()
    assert len(place.pending()) == 1
    place.proxy.clear()
    assert task.commit().files == 1
    job.commit(job.commits)
    assert_published(place, job, 1)


def test_set_whose_reply_was_lost_and_repeated_is_the_one_that_is_there(place: Place) -> None:
    place.attempts = 3
    job = place.job().setup()
    task = job.task(0).setup()
    write(task, "part-0.txt")
    place.proxy.add(Rule("PutObject", Action.LOST, match=r"\.pendingset", times=1))
    assert task.commit().files == 1
    assert place.proxy.counts["PutObject"] >= 4
    job.commit()
    assert_published(place, job, 1)


# -- aborts that fail or never answer ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "tracking"), [(Action.HANG, "store"), (Action.RESET, "memory"), (Action.ERROR, "store")]
)
def test_abort_that_fails_never_hides_the_first_error_and_ends(
    place: Place, tracking: Any, action: Action
) -> None:
    place.read_timeout = SILENCE_S
    job = place.job(tracking=tracking)
    began = time.monotonic()
    with impatience(), pytest.raises(ZeroDivisionError) as caught, job, job.task(0) as task:
        write(task, *(f"part-{number}.txt" for number in range(40)))
        place.proxy.add(Rule("AbortMultipartUpload", action, status=503, code="SlowDown"))
        raise ZeroDivisionError
    assert time.monotonic() - began < 30
    notes = caught.value.__notes__
    # On a slow machine it is another request that is given up first, for all wait behind the aborts.
    assert re.match("and task 000000 could not be fully aborted: (abort_upload of |.*: given up: )", notes[0])
    assert notes[1].startswith(f"and job {job.id} could not be fully aborted: ")
    assert place.data() == [OLD]
    assert len(place.pending()) == 40
    place.proxy.clear()
    job.abort()
    place.assert_as_before()


def test_store_that_answers_nothing_is_given_up_and_told(place: Place) -> None:
    job = place.job().setup()
    with job.task(0) as task:
        write(task, "part-0.txt")
    place.proxy.add(Rule("*", Action.HANG))
    began = time.monotonic()
    told = r"timed out: the store did not answer for 1 s.*abort again"
    with impatience(), pytest.raises(MagicError, match=told):
        job.abort()
    assert time.monotonic() - began < 20
    place.proxy.clear()
    job.abort()
    place.assert_as_before()
