"""What recover, commit and abort say to input that cannot be right: nothing is deleted, and how to go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

import magicfs
from magicfs.cli import main as cli
from magicfs.datasets import abort, commit
from magicfs.errors import (
    FormatError,
    MagicError,
    UsageError,
)
from magicfs.protocol.job_state import JobState
from proofs.scenes.unfinished import Bucket, died_in, written

HOW = [{}, {"rollback": True}, {"abort": True}]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return bucket.url("sales")


@pytest.fixture
def unchanged(bucket: Bucket) -> Iterator[Callable[[], None]]:
    """Remember what lies in the bucket when called; at the end of the test the same must lie there."""
    seen: list[tuple[dict[str, bytes], list[str]]] = []

    def remember() -> None:
        seen.append((bucket.objects(), bucket.uploads()))

    yield remember
    assert seen
    assert (bucket.objects(), bucket.uploads()) == seen[0]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return code, said.err


def edit_job(lies_in: Bucket, job: magicfs.Job, /, **changes: object) -> None:
    key = job.spec.work_layout.job_object_key
    document = json.loads(lies_in.objects()[key])
    lies_in.put(key, json.dumps(document | changes).encode())


# -- no job, two jobs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "states", [(JobState.COMMITTING, JobState.COMMITTING), (JobState.COMPLETED, JobState.OPEN)]
)
@pytest.mark.parametrize("how", [how for how in HOW if how])
def test_two_jobs(
    url: str, states: tuple[JobState, JobState], how: dict, unchanged: Callable[[], None]
) -> None:
    jobs = [died_in(state, url) for state in reversed(states)]
    unchanged()
    with pytest.raises(UsageError) as caught:
        magicfs.Dataset(url).recover(**how)
    for said in (*(job.id for job in jobs), "--job", "nothing was changed", *states):
        assert said in str(caught.value)
    with pytest.raises(UsageError, match="unfinished are"):
        magicfs.Dataset(url).recover(job="daily")


@pytest.mark.parametrize("state", [JobState.COMMITTING, JobState.COMPLETED])
def test_two_jobs_past_their_commit_points_are_both_finished(url: str, state: JobState) -> None:
    """As a machine leaves them that ran several drivers, and stopped."""
    jobs = [died_in(one, url) for one in (JobState.COMMITTING, state)]
    dataset = magicfs.Dataset(url)
    listed = dataset.recover(dry_run=True)
    assert {one.job_id: one.action for one in listed.jobs} == {job.id: "would finish" for job in jobs}
    assert {one.action for one in dataset.recover().jobs} == {"finished"}
    assert dataset.recover().jobs == ()
    assert {one.job_id for one in dataset.history()} >= {job.id for job in jobs}


# -- a job object that is malformed ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "magicfs.job/9"}, "use a newer magicfs"),
        ({"state": "undecided"}, "not one of open"),
        ({"destination": "elsewhere"}, "it was moved"),
        ({"bucket": "elsewhere"}, "it was moved"),
        ({"jobId": "elsewhere"}, "it was copied here"),
    ],
)
@pytest.mark.parametrize("command", [["recover"], ["recover", "--rollback"]])
def test_a_job_object_that_is_not_to_be_believed(
    bucket: Bucket,
    url: str,
    changes: dict[str, str],
    said: str,
    command: list[str],
    unchanged: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    edit_job(bucket, died_in(JobState.COMMITTING, url, completed=1), **changes)
    unchanged()
    code, err = told(capsys, *command, url)
    assert code == 7
    assert said in err
    assert "job.json" in err


def test_a_newer_job_object_is_not_committed_either(
    bucket: Bucket, url: str, unchanged: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    job = written(url)
    edit_job(bucket, job, format="magicfs.job/9")
    unchanged()
    code, err = told(capsys, "recover", "--commit", url, "--job", job.id)
    assert code == 7
    assert "use a newer magicfs" in err
    with pytest.raises(FormatError):
        abort(url, job=job.id)


@pytest.mark.slow
def test_a_newer_job_in_the_way_of_replace_is_named(bucket: Bucket, url: str) -> None:
    bucket.put("sales/old.bin", b"old")
    newer = written(url)
    edit_job(bucket, newer, format="magicfs.job/9")
    job = written(url, mode="overwrite")
    with pytest.raises(MagicError, match="newer magicfs"):
        job.commit()
    assert bucket.data("sales") == {"sales/old.bin": b"old"}


# -- facts that are gone or altered ----------------------------------------------------------------------


def test_what_recover_could_not_finish_is_told_with_the_way_to_go_on(
    bucket: Bucket, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("sales/old.bin", b"old")
    died_in(JobState.COMPLETED, url, mode="overwrite")
    (deletions,) = (key for key in bucket.objects() if "deletions-" in key)
    bucket.delete(deletions)
    before = bucket.objects()
    assert cli.main(["recover", url]) == 6
    said = capsys.readouterr().out
    assert deletions in said
    assert "fix what the warnings name, then run magicfs recover" in said
    assert bucket.objects() == before


# -- an empty job with replace ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
@pytest.mark.parametrize("tasks", [0, 1])
def test_an_empty_job_that_replaces(bucket: Bucket, url: str, mode: str, tasks: int) -> None:
    bucket.put("sales/day=1/old.bin", b"old")
    job = magicfs.Job(url, mode=mode).setup()
    for number in range(tasks):
        with job.task(number):
            pass
    for ask in (job.commit, lambda: commit(url, job.id)):
        with pytest.raises(UsageError, match=r"has no files.*nothing was changed.*allow_empty|no task"):
            ask()
        assert bucket.data("sales") == {"sales/day=1/old.bin": b"old"}
    job.abort()
    assert bucket.objects() == {"sales/day=1/old.bin": b"old"}


def test_an_empty_job_that_replaces_on_purpose(bucket: Bucket, url: str) -> None:
    bucket.put("sales/old.bin", b"old")
    job = magicfs.Job(url, mode="overwrite").setup()
    with job.task(0):
        pass
    assert cli.main(["recover", "--commit", url, "--job", job.id, "--allow-empty"]) == 0
    assert bucket.data("sales") == {}
    assert "sales/_SUCCESS" in bucket.objects()
