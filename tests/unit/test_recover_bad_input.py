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
    CommitFailed,
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


def chunk_of(bucket: Bucket, job: magicfs.Job, name: str = "chunks") -> str:
    document = json.loads(bucket.objects()[job.spec.work_layout.job_object_key])
    return str(document[name][0]["key"])


# -- no job, two jobs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"rollback": True}, {"abort": True}, {"job": str(uuid4())}])
def test_no_job(bucket: Bucket, url: str, how: dict, unchanged: Callable[[], None]) -> None:
    bucket.put("sales/old.bin", b"old")
    unchanged()
    with pytest.raises(UsageError, match=r"no unfinished job .* nothing was changed"):
        magicfs.recover(url, **how)
    assert magicfs.recover(url).jobs == ()


@pytest.mark.parametrize(
    "states", [(JobState.COMMITTING, JobState.COMMITTING), (JobState.COMPLETED, JobState.OPEN)]
)
@pytest.mark.parametrize("how", HOW)
def test_two_jobs(
    url: str, states: tuple[JobState, JobState], how: dict, unchanged: Callable[[], None]
) -> None:
    jobs = [died_in(state, url) for state in reversed(states)]
    if not how and JobState.OPEN in states:
        how = {"abort": True}
    unchanged()
    with pytest.raises(UsageError) as caught:
        magicfs.recover(url, **how)
    for said in (*(job.id for job in jobs), "--job", "nothing was changed", *states):
        assert said in str(caught.value)


def test_one_of_two_jobs_is_recovered_when_it_is_named(bucket: Bucket, url: str) -> None:
    first, second = died_in(JobState.COMMITTING, url), died_in(JobState.COMMITTING, url, completed=1)
    assert cli.main(["recover", url, "--job", second.id, "--rollback"]) == 0
    assert cli.main(["recover", url, "--job", first.id]) == 0
    assert all(first.id in key for key in bucket.data("sales"))
    assert len(bucket.data("sales")) == 3


# -- a job object that is malformed ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "magicfs.job/2"}, "use a newer magicfs"),
        ({"state": "undecided"}, "none of open"),
        ({"destination": "elsewhere"}, "it was moved"),
        ({"bucket": "elsewhere"}, "somebody copied it here"),
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
    assert code == 1
    assert said in err
    assert "job.json" in err


def test_a_newer_job_object_is_not_committed_either(
    bucket: Bucket, url: str, unchanged: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    job = written(url)
    edit_job(bucket, job, format="magicfs.job/2")
    unchanged()
    code, err = told(capsys, "commit", url, "--job", job.id)
    assert code == 1
    assert "use a newer magicfs" in err
    with pytest.raises(FormatError):
        abort(url, job=job.id)


@pytest.mark.slow
def test_a_newer_job_in_the_way_of_replace_is_named(bucket: Bucket, url: str) -> None:
    bucket.put("sales/old.bin", b"old")
    newer = written(url)
    edit_job(bucket, newer, format="magicfs.job/2")
    job = written(url, conflict="replace")
    with pytest.raises(MagicError, match="newer magicfs"):
        job.commit()
    assert bucket.data("sales") == {"sales/old.bin": b"old"}


# -- facts that are gone or altered ----------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"rollback": True}, {"rollback": True, "dry_run": True}])
@pytest.mark.parametrize("completed", [0, 2])
def test_a_chunk_that_is_gone(
    bucket: Bucket, url: str, how: dict, completed: int, unchanged: Callable[[], None]
) -> None:
    job = died_in(JobState.COMMITTING, url, completed=completed)
    bucket.delete(chunk_of(bucket, job))
    unchanged()
    with pytest.raises(CommitFailed, match=r"is gone.*nothing was done.*by hand"):
        magicfs.recover(url, **how)


@pytest.mark.parametrize("how", [{}, {"rollback": True}])
@pytest.mark.parametrize("body", [b"", b"{}", b"altered"])
def test_a_chunk_that_was_altered(
    bucket: Bucket, url: str, how: dict, body: bytes, unchanged: Callable[[], None]
) -> None:
    job = died_in(JobState.COMMITTING, url, completed=1)
    bucket.put(chunk_of(bucket, job), body)
    unchanged()
    with pytest.raises(FormatError, match=r"was altered since.*nothing is done"):
        magicfs.recover(url, **how)


def test_one_altered_byte_of_a_chunk_is_noticed(
    bucket: Bucket, url: str, unchanged: Callable[[], None]
) -> None:
    job = died_in(JobState.COMMITTING, url)
    key = chunk_of(bucket, job)
    bucket.put(key, bucket.objects()[key].replace(b"part-000001", b"part-000007"))
    unchanged()
    with pytest.raises(FormatError, match="SHA-256"):
        magicfs.recover(url)


@pytest.mark.parametrize("kind", ["gone", "altered"])
def test_deletions_of_a_completed_job_that_cannot_be_believed_delete_nothing(
    bucket: Bucket, url: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("sales/old.bin", b"old")
    job = died_in(JobState.COMPLETED, url, conflict="replace")
    key = chunk_of(bucket, job, "deletions")
    if kind == "gone":
        bucket.delete(key)
    else:
        bucket.put(key, bucket.objects()[key].replace(b"old.bin", b"odd.bin"))
    before = bucket.objects()
    code = cli.main(["recover", url])
    said = capsys.readouterr()
    assert code in {1, 3}
    assert key in said.out + said.err
    assert bucket.objects() == before


def test_a_chunk_outside_the_job_is_not_read(bucket: Bucket, url: str, unchanged: Callable[[], None]) -> None:
    job = died_in(JobState.COMMITTING, url)
    chunk = json.loads(bucket.objects()[job.spec.work_layout.job_object_key])["chunks"][0]
    bucket.put("elsewhere.json", bucket.objects()[chunk["key"]])
    edit_job(bucket, job, chunks=[chunk | {"key": "elsewhere.json"}])
    unchanged()
    with pytest.raises(FormatError, match="outside its directory"):
        magicfs.recover(url)


def test_an_old_success_that_was_altered_stops_a_rollback(bucket: Bucket, url: str) -> None:
    with magicfs.Job(url, conflict="append") as first, first.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"a")
    job = died_in(JobState.COMMITTING, url, completed=1)
    (copy,) = (key for key in bucket.objects() if "/facts/" in key and key.endswith("_SUCCESS"))
    bucket.put(copy, b"altered")
    visible = bucket.data("sales")
    with pytest.raises(FormatError, match="was altered"):
        magicfs.recover(url, rollback=True)
    assert bucket.data("sales") == visible
    assert job.id in magicfs.recover(url, dry_run=True).jobs[0].job_id


# -- an empty job with replace ----------------------------------------------------------------------------


@pytest.mark.parametrize("conflict", ["replace", "replace_partitions"])
@pytest.mark.parametrize("tasks", [0, 1])
def test_an_empty_job_that_replaces(bucket: Bucket, url: str, conflict: str, tasks: int) -> None:
    bucket.put("sales/day=1/old.bin", b"old")
    job = magicfs.Job(url, conflict=conflict).setup()
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
    job = magicfs.Job(url, conflict="replace").setup()
    with job.task(0):
        pass
    assert cli.main(["commit", url, "--job", job.id, "--allow-empty"]) == 0
    assert bucket.data("sales") == {}
    assert "sales/_SUCCESS" in bucket.objects()
