"""What ``recover --dry-run`` says is what ``recover`` then does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs import datasets
from magicfs.errors import OutputExists
from magicfs.past import rollback
from magicfs.protocol.job_state import JobState
from proofs.scenes.known import all_ended
from proofs.scenes.unfinished import Bucket, died_in, written

IN_PLACE = {"keep_in_place": True}
LONG = "d" * 200 + "/"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


def publish(url: str, names: str = "abc", place: str = "", **how: Any) -> magicfs.Job:
    with magicfs.Job(url, **{"mode": "append", "committer": "magic", **how}) as job, job.task(0) as task:
        for name in names:
            task.filesystem.pipe_file(f"{task.path}/{place}{name}", b"1")
    return job


def agrees(url: str, job: str) -> int:
    """How many old files a commit replaces; its dry run has said the same of everything."""
    would = datasets.preview_commit(url, job)
    done = datasets.commit(url, job)
    assert (would.replaced, would.files, would.bytes) == (done.files_deleted, done.files, done.bytes)
    return would.replaced


@pytest.mark.parametrize("where", ["memory", "local"])
@pytest.mark.parametrize(
    ("how", "replaced"),
    [
        ({"mode": "append"}, 0),
        ({"mode": "overwrite"}, 4),
        ({"mode": "overwrite", "keep": "7d"}, 4),
        ({"mode": "overwrite", "keep": "7d", "options": IN_PLACE}, 0),
        ({"mode": "overwrite_partitions"}, 1),
        ({"mode": "overwrite_partitions", "keep": "7d"}, 1),
        ({"mode": "overwrite_partitions", "keep": "7d", "options": IN_PLACE}, 0),
    ],
)
def test_commits(bucket: Bucket, tmp_path: Path, where: str, how: dict[str, Any], replaced: int) -> None:
    url = bucket.url("día 1") if where == "memory" else f"file://{tmp_path}/día 1"
    publish(url, place="day=9/")
    publish(url, "d", place="day=1/")
    job = written(url, committer="magic", **how)
    assert agrees(url, job.id) == replaced


def test_a_commit_leaves_what_an_earlier_job_has_promised(bucket: Bucket) -> None:
    url = bucket.url("sales")
    publish(url)
    publish(url, "d", mode="overwrite", keep="7d", options={"keep_in_place": True})
    assert agrees(url, written(url, committer="magic", mode="overwrite").id) == 1


def test_what_has_too_long_a_name_to_be_moved_aside_stays(bucket: Bucket) -> None:
    url = bucket.url("sales")
    publish(url)
    bucket.put(f"sales/{LONG * 4}{'d' * 200}", b"1")
    assert agrees(url, written(url, committer="magic", mode="overwrite", keep="7d").id) == 3


def test_the_mode_refuses_in_a_dry_run_too(bucket: Bucket) -> None:
    url = bucket.url("sales")
    job = written(url, committer="magic", mode="error")
    bucket.put("sales/a.bin", b"1")
    for end in (datasets.preview_commit, datasets.commit):
        with pytest.raises(OutputExists):
            end(url, job.id)


@pytest.mark.parametrize("state", [JobState.COMMITTING, JobState.COMPLETED])
def test_past_the_commit_point(bucket: Bucket, state: JobState) -> None:
    url = bucket.url("sales")
    publish(url)
    for how, replaced in (({}, 3), ({"keep": "7d"}, 3), ({"keep": "7d", "options": IN_PLACE}, 0)):
        job = died_in(state, url, committer="magic", mode="overwrite", **how)
        assert agrees(url, job.id) == replaced


def test_a_rollback_that_was_left_open(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    url = bucket.url("sales")
    first = publish(url)
    publish(url, "d")
    publish(url, "e", mode="overwrite", keep="7d")

    async def died(_: object, load: Callable[[], Awaitable[object]], __: object) -> None:
        await load()
        raise KeyError("died")

    monkeypatch.setattr(rollback, "commit_or_abort", died)
    with pytest.raises(KeyError):
        magicfs.Dataset(url).rollback(first.id)
    [left] = magicfs.Dataset(url).recover().jobs
    assert agrees(url, left.job_id) == 1
    assert len(magicfs.Dataset(url).files()) == 3


@pytest.mark.parametrize("tasks", [0, 3])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"options": {"tracking": "memory"}},
        {"options": {"small_files": 100, "tracking": "memory"}},
        {"options": {"unique_names": False}},
    ],
)
@pytest.mark.parametrize("where", ["memory", "local"])
def test_aborts(bucket: Bucket, tmp_path: Path, where: str, how: dict[str, Any], tasks: int) -> None:
    url = bucket.url("sales") if where == "memory" else f"file://{tmp_path}/sales"
    job = written(url, committer="magic", tasks=tasks, **how)
    task = job.task(7).setup()
    task.filesystem.pipe_file(f"{task.path}/open.bin", b"1")
    all_ended()
    [would] = datasets.abort(url, dry_run=True).jobs
    [done] = datasets.abort(url).jobs
    assert (would.action, done.action) == ("would abort", "aborted")
    assert would.uploads == done.uploads
    assert would.uploads or "small_files" in str(how)


def test_an_abort_that_died_is_counted(bucket: Bucket) -> None:
    url = bucket.url("sales")
    died_in(JobState.ABORTING, url, committer="magic")
    [would] = datasets.recover(url, dry_run=True).jobs
    [done] = datasets.recover(url).jobs
    assert would.uploads == done.uploads == 3
