"""Tasks of Hadoop's and of ours in one job: who wins is published, and no upload of a loser stays open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs.datasets import abort, commit
from magicfs.errors import OutputExists
from magicfs.formats.pendingset import PendingSet
from proofs.scenes.arranged import arranged
from proofs.scenes.hadoop_form import in_form
from proofs.scenes.hadoop_jobs import HadoopJob
from proofs.scenes.unfinished import Bucket

pytestmark = pytest.mark.sample(most=2)

DESTINATION = "día 50% + #1/sales"
TASK = "task_202601010000_0001_m_000001"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture(params=["__magic_job", "__magic"])
def theirs(bucket: Bucket, request: pytest.FixtureRequest) -> HadoopJob:
    return HadoopJob(bucket, DESTINATION, layout=request.param)


def joined(theirs: HadoopJob, *, sets: bool = False) -> magicfs.Job:
    """The same job, set up by us."""
    url = f"memory://{theirs.bucket.name}/{DESTINATION}"
    job = magicfs.Job(url, mode="append", job_id=theirs.id)
    return in_form(job, layout=theirs.layout, sets=sets).setup()


def run_again(job: magicfs.Job, task: str = TASK, body: bytes = b"ours") -> None:
    with job.task(task) as one, one.filesystem.open(f"{one.path}/día=9/a+b.csv", "wb") as file:
        file.write(body)


def by_command(job: magicfs.Job) -> None:
    commit(job.url, job.id)


def check_published(bucket: Bucket, theirs: HadoopJob) -> None:
    """Raise unless task 0 of theirs and task 1 of ours are there, and nothing else is."""
    kept = sorted(body for key, body in theirs.files.items() if "día=0" in key or "día=1" in key)
    assert sorted(bucket.data(DESTINATION).values()) == [*kept, b"ours"]
    assert bucket.uploads() == []
    assert not [key for key in bucket.objects() if "__magic" in key]


@pytest.mark.parametrize("finish", [magicfs.Job.commit, by_command])
@pytest.mark.parametrize("sets", [False, True])
def test_attempt_of_hadoop_that_lost_leaves_no_upload(
    bucket: Bucket, theirs: HadoopJob, sets: bool, finish: Callable[[magicfs.Job], object]
) -> None:
    job = joined(theirs, sets=sets)
    run_again(job)
    assert len(bucket.uploads()) == 5
    finish(job)
    check_published(bucket, theirs)


@pytest.mark.parametrize("finish", [magicfs.Job.commit, by_command])
def test_attempt_of_hadoop_that_never_committed_leaves_no_upload(
    bucket: Bucket, theirs: HadoopJob, finish: Callable[[magicfs.Job], object]
) -> None:
    theirs.leave(0, 7)
    job = joined(theirs)
    run_again(job)
    finish(job)
    check_published(bucket, theirs)


def test_upload_of_another_job_that_lies_among_ours_stays(bucket: Bucket, theirs: HadoopJob) -> None:
    theirs.leave(0, 7, job_id="another")
    job = joined(theirs)
    run_again(job)
    job.commit()
    assert [key.rpartition("/")[2] for key in bucket.uploads()] == ["part-00007.c000.snappy.parquet"]


def test_set_that_ours_replaces_is_kept_until_the_job_ends(bucket: Bucket, theirs: HadoopJob) -> None:
    name = f"{theirs.work}/{TASK}.pendingset"
    before = bucket.objects()[name]
    job = joined(theirs, sets=True)
    run_again(job)
    objects = bucket.objects()
    assert objects[name] != before
    [aside] = [key for key in objects if "/replaced/" in key]
    assert objects[aside] == before
    run_again(job)  # ours replaces ours: that one has a set of its own
    assert [key for key in bucket.objects() if "/replaced/" in key] == [aside]
    job.commit()
    check_published(bucket, theirs)


@pytest.mark.parametrize("sets", [False, True])
def test_abort_discards_the_uploads_of_both(bucket: Bucket, theirs: HadoopJob, sets: bool) -> None:
    theirs.leave(0, 7)
    job = joined(theirs, sets=sets)
    run_again(job)
    abort(job.url, job=job.id)
    assert bucket.data(DESTINATION) == {}
    assert bucket.uploads() == []


def test_abort_removes_the_marker_that_is_all_a_driver_of_hadoop_has_made(bucket: Bucket) -> None:
    job = str(uuid4())
    bucket.put(f"{DESTINATION}/__magic_job-{job}/")
    bucket.put(f"{DESTINATION}/__magic_job-{job}0/")
    abort(f"memory://{bucket.name}/{DESTINATION}", job=job, driver_is_dead=True)
    assert list(bucket.objects()) == [f"{DESTINATION}/__magic_job-{job}0/"]


def test_replaced_set_that_cannot_be_read_is_no_obstacle(bucket: Bucket, theirs: HadoopJob) -> None:
    bucket.put(f"{theirs.work}/{TASK}.pendingset", b"{")
    job = joined(theirs, sets=True)
    run_again(job)
    job.commit()
    assert b"ours" in bucket.data(DESTINATION).values()


# -- a JVM that dies in its job commit of our tasks ----------------------------------------------------


def half_published(
    bucket: Bucket, count: int, **options: Any
) -> tuple[magicfs.Job, list[tuple[str, str, str]], dict[str, bytes]]:
    """A job of ours of which a JVM has completed some files; with its uploads, and what shall be there."""
    how = {"mode": "append", "hadoop": "3.5"} | options
    job = magicfs.Job(f"memory://{bucket.name}/{DESTINATION}", **arranged(**how)).setup()
    uploads = []
    for number in range(4):
        with job.task(number) as task:
            task.filesystem.pipe_file(f"{task.path}/p={number % 2}/a+b {number}.csv", b"row %d" % number)
    objects = bucket.objects()
    for key in sorted(one for one in objects if one.endswith(".pendingset") and "/sets/" not in one):
        uploads += [
            (one.destination_key, one.upload_id, one.parts[0].etag)
            for one in PendingSet.from_bytes(key, objects[key]).commits
        ]
    for one in uploads[:count]:
        bucket.complete(*one)
    return job, uploads, {key: b"row %d" % number for number, (key, _, _) in enumerate(uploads)}


@pytest.mark.parametrize("finish", [magicfs.Job.commit, by_command])
@pytest.mark.parametrize("mode", ["append", "error"])
@pytest.mark.parametrize("unique_names", [True, False])
@pytest.mark.parametrize("count", range(5))
def test_job_that_a_jvm_has_published_in_part_is_finished(
    bucket: Bucket, mode: str, unique_names: bool, count: int, finish: Callable[[magicfs.Job], object]
) -> None:
    job, _, expected = half_published(bucket, count, mode=mode, unique_names=unique_names)
    finish(job)
    assert bucket.data(DESTINATION) == expected
    assert bucket.uploads() == []
    assert not [key for key in bucket.objects() if "__magic" in key]


@pytest.mark.parametrize(
    ("mode", "told"), [("append", "names that are taken"), ("error", "already has data")]
)
def test_equal_file_of_somebody_else_is_no_file_of_the_job(bucket: Bucket, mode: str, told: str) -> None:
    job, [(key, _, _), *_], expected = half_published(bucket, 0, mode=mode, unique_names=False)
    bucket.complete(key, *bucket.upload(key, expected[key]))
    before = bucket.data(DESTINATION)
    with pytest.raises(OutputExists, match=told):
        job.commit()
    assert bucket.data(DESTINATION) == before == {key: expected[key]}
