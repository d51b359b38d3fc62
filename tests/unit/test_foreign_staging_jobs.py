"""Jobs of Hadoop's staging committers whose driver died: found in the cluster, finished, discarded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from magicfs.cli.main import main
from magicfs.datasets import Cluster, abort, commit, preview_commit, recover
from magicfs.datasets.abort import abort_job
from magicfs.datasets.commit import commit_listed
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, MagicError, UsageError
from magicfs.protocol.paths import Location
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from proofs.scenes.hadoop_staged_jobs import HadoopStagedJob
from proofs.scenes.manifests import published_manifest
from proofs.scenes.unfinished import Bucket
from tests.sample import Some

pytestmark = pytest.mark.sample(most=2)

DESTINATION = "día 50% + #1/sales"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return bucket.url(DESTINATION)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_command


def theirs(bucket: Bucket, cluster: Path, **how: Any) -> HadoopStagedJob:
    return HadoopStagedJob(bucket, DESTINATION, cluster / "tmp é" / "staging", **how)


def where(job: HadoopStagedJob) -> str:
    return f"file://{job.cluster}"


def check_ended(bucket: Bucket, job: HadoopStagedJob, *, published: bool) -> None:
    assert bucket.data(DESTINATION) == (job.files if published else {})
    assert bucket.uploads() == []
    assert [key for key in bucket.objects() if "__magic" in key] == []
    assert not (job.cluster / job.user / job.id).exists()


@pytest.mark.parametrize("completed", [0, 3])
def test_recover_tells_of_it_and_changes_nothing(
    bucket: Bucket, url: str, run: Run, tmp_path: Path, completed: int
) -> None:
    job = theirs(bucket, tmp_path, attempt=1)
    HadoopStagedJob(bucket, "sales10", job.cluster)
    job.complete(completed)
    before = bucket.objects(), bucket.uploads()
    code, out, _ = run("recover", url, "--cluster-directory", where(job))
    assert code == 1
    for told in (
        job.id,
        "Hadoop's staging committer",
        "2 tasks, 4 files",
        f"{4 - completed} uploads",
    ):
        assert told in out
    assert len(recover(url, cluster=where(job)).jobs) == 1
    assert recover(url).jobs == ()
    assert (bucket.objects(), bucket.uploads()) == before
    assert recover(bucket.url("día 50% + #1"), cluster=where(job)).jobs == ()


@pytest.mark.parametrize("text", [{}, {"text": None}], ids=["missing", "null"])
def test_one_whose_sets_do_not_say_its_destination_is_named(
    bucket: Bucket, url: str, run: Run, tmp_path: Path, text: dict[str, None]
) -> None:
    job = theirs(bucket, tmp_path)
    for path in job.work.glob("task_*"):
        document = json.loads(path.read_text())
        for one in document["commits"]:
            del one["text"]
            one.update(text)
        path.write_text(json.dumps(document))
    code, out, _ = run("recover", url, "--cluster-directory", where(job))
    assert code == 1
    assert job.id in out
    assert "nobody knows the destination of 3 files, such as" in out
    for end in (preview_commit, commit):
        with pytest.raises(CommitFailed, match="nobody knows the destination"):
            end(url, job.id, cluster=where(job), driver_is_dead=True)
    assert len(bucket.uploads()) == 4
    assert recover(bucket.url("día 50% + #1/other"), cluster=where(job)).jobs == ()
    abort(url, job=job.id, cluster=where(job), driver_is_dead=True)
    check_ended(bucket, job, published=False)


@pytest.mark.parametrize("completed", [0, 1, 4])
def test_it_is_published_whole(bucket: Bucket, url: str, run: Run, tmp_path: Path, completed: int) -> None:
    bucket.put(f"{DESTINATION}/old.bin", b"old")
    job = theirs(bucket, tmp_path)
    job.complete(completed)
    named = ("recover", "--commit", url, "--job", job.id, "--cluster-directory", where(job))
    before = bucket.objects(), bucket.uploads()
    code, _, err = run(*named)
    assert (code, "--driver-is-dead" in err) == (2, True)
    assert preview_commit(url, job.id, driver_is_dead=True, cluster=where(job)).files == 4
    assert (bucket.objects(), bucket.uploads()) == before
    assert run(*named, "--driver-is-dead")[0] == 0
    assert bucket.data(DESTINATION).pop(f"{DESTINATION}/old.bin") == b"old"
    bucket.delete(f"{DESTINATION}/old.bin")
    check_ended(bucket, job, published=True)
    assert {file.key for file in published_manifest(url).files} == {
        key.removeprefix(f"{DESTINATION}/") for key in job.files
    }
    with pytest.raises(CommitDenied):
        commit(url, job.id, driver_is_dead=True, cluster=where(job))


def test_it_is_discarded(bucket: Bucket, url: str, run: Run, tmp_path: Path) -> None:
    job = theirs(bucket, tmp_path)
    named = ("recover", "--abort", url, "--job", job.id, "--cluster-directory", where(job))
    assert run(*named)[0] == 2
    code, out, _ = run(*named, "--driver-is-dead")
    assert (code, "4 uploads" in out) == (0, True)
    check_ended(bucket, job, published=False)


def test_in_part_it_is_not_discarded(bucket: Bucket, url: str, tmp_path: Path) -> None:
    job = theirs(bucket, tmp_path)
    job.complete(2)
    before = bucket.objects(), bucket.uploads()
    with pytest.raises(CommitDenied, match="2 of 4 files"):
        abort(url, job=job.id, driver_is_dead=True, cluster=where(job))
    assert (bucket.objects(), bucket.uploads()) == before
    assert job.work.is_dir()


def test_uploads_that_are_gone_are_told_before_anything_is_changed(
    bucket: Bucket, url: str, tmp_path: Path
) -> None:
    job = theirs(bucket, tmp_path)
    key = list(job.files)[-1]
    asyncio.run(MemoryStore(bucket.name, default_world()).abort_upload(key, job.uploads[key][0]))
    before = bucket.objects(), bucket.uploads()
    with pytest.raises(CommitFailed, match="can no longer be published"):
        commit(url, job.id, driver_is_dead=True, cluster=where(job))
    assert (bucket.objects(), bucket.uploads()) == before


def test_without_the_directory_nothing_is_swept_by_names_alone(bucket: Bucket, url: str, run: Run) -> None:
    job = str(uuid4())
    bucket.upload(f"{DESTINATION}/part-0-{job}.csv", b"1")
    code, _, err = run("recover", "--abort", url, "--job", job)
    assert (code, "--driver-is-dead" in err, "staging" in err) == (2, True, True)
    assert len(bucket.uploads()) == 1
    assert run("recover", "--abort", url, "--job", job, "--driver-is-dead")[0] == 0
    assert bucket.uploads() == []


def test_only_the_jobs_of_one_user(bucket: Bucket, url: str, run: Run, tmp_path: Path) -> None:
    job = theirs(bucket, tmp_path)
    theirs(bucket, tmp_path, user="ana")
    cluster = ("--cluster-directory", where(job), "--cluster-user")
    assert len(recover(url, cluster=where(job)).jobs) == 2
    [one] = recover(url, cluster=Cluster(where(job), "etl")).jobs
    assert one.job_id == job.id
    assert job.id in run("recover", url, *cluster, "etl")[1]
    assert run("recover", url, *cluster, "nobody")[0] == 0


@pytest.mark.parametrize("form", ["xml", "lines"])
def test_directory_from_a_configuration(
    bucket: Bucket, url: str, run: Run, tmp_path: Path, form: str
) -> None:
    job = theirs(bucket, tmp_path)
    name, conf = "fs.s3a.committer.staging.tmp.path", tmp_path / "conf"
    text = f"spark.hadoop.{name} {where(job)}\n# a remark\nother=1\n"
    if form == "xml":
        text = (
            "<?xml version='1.0'?><configuration><property><name>base</name>"
            f"<value>file://{tmp_path}</value></property><property><name>{name}</name>"
            "<value>${base}/tmp é/staging</value><final>true</final></property></configuration>"
        )
    conf.write_text(text)
    assert job.id in run("recover", url, "--hadoop-conf", str(conf))[1]


@pytest.mark.parametrize("text", ["<configuration>", None])
def test_file_that_is_no_configuration(url: str, run: Run, tmp_path: Path, text: str | None) -> None:
    conf = tmp_path / "conf"
    if text is not None:
        conf.write_text(text)
    code, _, err = run("recover", url, "--hadoop-conf", str(conf))
    assert (code, str(conf) in err) == (2, True)
    assert run("recover", url, "--cluster-user", "etl")[0] == 2


@pytest.mark.parametrize("directory", ["nosuchscheme://x", "file:///no/such/directory"])
def test_directory_that_cannot_be_reached(url: str, directory: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        recover(url, cluster=directory)


# -- killed anywhere ---------------------------------------------------------------------------------------


def command(bucket: Bucket, name: str, job: HadoopStagedJob, *faults: Fault) -> Traffic:
    traffic = Traffic(faults)
    engine = Engine(faulty(MemoryStore(bucket.name, default_world()), traffic, Actor(name)), 1)
    location = Location("memory", bucket.name, DESTINATION)
    cluster = Cluster(where(job))

    async def work() -> None:
        try:
            if name == "commit":
                await commit_listed(engine, location, job.id, driver_is_dead=True, cluster=cluster)
            else:
                await abort_job(engine, location, job=job.id, driver_is_dead=True, cluster=cluster)
        except (Crash, MagicError):
            return

    asyncio.run(work())
    return traffic


@pytest.mark.slow
@pytest.mark.parametrize("name", ["commit", "abort"])
@pytest.mark.parametrize("completed", [0, 2])
def test_command_killed_at_each_of_its_requests(
    name: str, completed: int, tmp_path: Path, some: Some
) -> None:
    def begun(number: int) -> tuple[Bucket, HadoopStagedJob]:
        bucket = Bucket(f"b-{uuid4().hex[:8]}")
        job = theirs(bucket, tmp_path / str(number))
        job.complete(completed)
        return bucket, job

    bucket, job = begun(0)
    requests = command(bucket, name, job).count
    kinds = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)
    for number in some(range(1, 2 * requests + 1), 12):
        bucket, job = begun(number)
        command(bucket, name, job, Fault(kinds[number % 2], number=(number + 1) // 2))
        url = bucket.url(DESTINATION)
        if any(one.action == "left" for one in recover(url, cluster=where(job)).jobs):
            if name == "commit" or completed:
                commit(url, job.id, driver_is_dead=True, cluster=where(job))
            else:
                abort(url, job=job.id, driver_is_dead=True, cluster=where(job))
        abort(url, job=job.id, driver_is_dead=True, cluster=where(job))  # what lies in the cluster
        check_ended(bucket, job, published=name == "commit" or completed > 0)
