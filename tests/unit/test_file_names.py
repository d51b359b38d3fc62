"""Jobs whose files hold the ids of earlier jobs, or job ids in directories, or are called too long names."""

from __future__ import annotations

from typing import Any

import pytest

import magicfs
from magicfs import datasets
from magicfs.errors import CommitFailed, UsageError
from magicfs.protocol.paths import KEY_BYTES_MAX
from proofs.scenes.job_scene import JobScene

STAGED = ("directory", "partitioned")


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def rewritten(scene: JobScene, files: int = 1, **options: Any) -> dict[str, bytes]:
    """A job that replaces every file by one of the same name; returns what is there then."""
    written = {name: body + b"+" for name, body in scene.data().items()}
    assert len(written) == files
    scene.published(written, mode="overwrite", **options)
    return scene.data()


def test_a_sweep_leaves_uploads_of_a_job_that_rewrites_files_under_their_own_names(scene: JobScene) -> None:
    first = scene.published({"part-0.parquet": b"1"})
    (name,) = scene.data()
    second = scene.job("overwrite")
    commits = scene.wrote(second, {name: b"2"})
    swept = datasets.abort(scene.url, job=first.id, filesystem=scene.filesystem)
    assert [one.uploads for one in swept.jobs] in ([], [0])
    assert second.commit(commits).files == 1
    assert scene.bodies() == [b"2"]


@pytest.mark.parametrize("tracking", ["store", "memory"])
@pytest.mark.parametrize("name", ["load={}/part-0.csv", "{}/{}.csv", "part-{}.csv", "a.{}.csv"])
def test_a_job_id_elsewhere_in_a_path_neither_makes_it_unique_nor_hides_its_upload(
    scene: JobScene, tracking: str, name: str
) -> None:
    job = scene.job(tracking=tracking)
    name = name.replace("{}", job.id)
    dead = job.task(0).setup()
    dead.filesystem.pipe_file(f"{dead.path}/{name}x", b"dead")
    writing = dead.filesystem.open(f"{dead.path}/{name}", "wb", block_size=1)
    writing.write(bytes(9 * 2**20))
    commits = scene.wrote(job, {name: b"1"}, {name: b"2"})
    report = job.commit(commits)
    assert (report.files, scene.bodies()) == (2, [b"1", b"2"])
    assert (scene.uploads(), scene.work()) == ([], [])
    writing.close()
    with pytest.raises(magicfs.errors.MagicError):
        dead.commit()
    assert (scene.uploads(), scene.work()) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("committer", ["magic", "directory"])
def test_names_of_files_that_are_rewritten_do_not_grow(scene: JobScene, committer: str) -> None:
    scene.published({"part-0.parquet": b""})
    lengths = [len(name) for _ in range(30) for name in rewritten(scene, committer=committer)]
    assert len(set(lengths)) == 1
    assert scene.bodies() == [b"+" * 30]


def test_one_task_rewrites_files_of_many_tasks_and_jobs_that_are_called_alike(scene: JobScene) -> None:
    for number in range(2):
        scene.published({"part-0.csv": b"%d" % number}, {"part-0.csv": b"x%d" % number})
    for _ in range(3):
        rewritten(scene, files=4)
    assert scene.bodies() == [b"0+++", b"1+++", b"x0+++", b"x1+++"]


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_a_key_that_is_too_long_is_refused_when_its_file_is_opened(scene: JobScene, tracking: str) -> None:
    job = scene.job(tracking=tracking)
    task = job.task(0).setup()
    name = "/".join(["ж" * 100] * 5)
    before = scene.everything()
    with pytest.raises(UsageError, match=r"has 10\d\d bytes, and a key has at most 1,024; nothing was upl"):
        task.filesystem.open(f"{task.path}/{name}", "wb")
    assert scene.everything() == before


def test_the_longest_key_is_published_and_one_byte_more_is_refused(scene: JobScene) -> None:
    job = scene.job(tracking="memory")
    added = len(f"{scene.destination}/-000000-{job.id}")
    commits = []
    with job.task(0) as task:
        longest = "x" * (KEY_BYTES_MAX - added)
        with pytest.raises(UsageError, match="1025 bytes"):
            task.filesystem.pipe_file(f"{task.path}/{longest}x", b"1")
        task.filesystem.pipe_file(f"{task.path}/{longest}", b"1")
    commits.append(task.committed)
    job.commit(commits)
    assert [len(f"{scene.destination}/{name}") for name in scene.data()] == [KEY_BYTES_MAX]


def test_a_work_path_that_is_too_long_is_refused_though_the_final_key_is_not(scene: JobScene) -> None:
    """The ``.pending`` file lies deeper: the bytes were sent by the time the store would refuse it."""
    name = "x" * 900
    task = scene.job().task(0).setup()
    with pytest.raises(UsageError, match=r"the \.pending file .* use tracking='memory'"):
        task.filesystem.open(f"{task.path}/{name}", "wb")
    assert scene.uploads() == []
    scene.published({name: b"1"}, tracking="memory")
    assert scene.bodies() == [b"1"]


@pytest.mark.parametrize("committer", STAGED)
def test_a_staged_file_whose_key_would_be_too_long_fails_its_task_before_any_upload(
    scene: JobScene, committer: str
) -> None:
    job = scene.job(committer=committer)
    task = job.task(0).setup()
    for name in ("/".join("x" * 200 for _ in range(5)), "a"):
        task.filesystem.pipe_file(f"{task.path}/{name}", b"1")
    with pytest.raises(CommitFailed, match="at most 1,024; nothing was uploaded"):
        task.commit()
    assert scene.uploads() == []


@pytest.mark.parametrize("committer", ["direct", "stocator"])
def test_a_final_file_whose_key_would_be_too_long_is_refused_when_it_is_opened(
    scene: JobScene, committer: str
) -> None:
    task = scene.job(committer=committer).task(0).setup()
    with pytest.raises(UsageError, match="at most 1,024"):
        task.filesystem.open(f"{task.path}/{'x' * 1000}", "wb")
    assert scene.data() == {}


HIDDEN = {"_metadata": b"m", ".part-0.csv.crc": b"c", "day=1/.part-0.csv.crc": b"c", "_tmp/x": b"t"}


def hidden(scene: JobScene) -> list[str]:
    """What lies there that no reader takes for data, but ``_SUCCESS`` and manifests."""
    return [
        name for name in scene.below() if name not in scene.data() and not name.startswith(("_S", "_magicfs"))
    ]


@pytest.mark.parametrize("unique_names", [True, False])
def test_a_replace_removes_hidden_files_of_the_jobs_that_it_replaces_and_no_others(
    scene: JobScene, unique_names: bool
) -> None:
    theirs = ["_mine", ".other/x", "day=1/_x.crc"]
    for name in theirs:
        scene.put(name, b"somebody's")
    files = {"day=1/part-0.csv": b"1", **HIDDEN}
    for number in range(3):
        scene.published({**files, f"n={number}": b""}, mode="overwrite", unique_names=unique_names)
        assert len(hidden(scene)) == len(HIDDEN) + len(theirs)
    scene.published({"day=1/part-1.csv": b"2"}, mode="overwrite")
    assert sorted(hidden(scene)) == sorted(theirs)
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok


def test_a_replace_of_partitions_removes_hidden_files_in_them(scene: JobScene) -> None:
    scene.published({f"day={n}/{name}": b"1" for n in (1, 2) for name in ("a", ".a.crc")})
    scene.put("day=1/.b.crc", b"somebody's")
    scene.published({"day=1/b": b"2"}, mode="overwrite_partitions")
    left = sorted(name.partition("-")[0] for name in hidden(scene))
    assert left == ["day=1/.b.crc", "day=2/.a"]
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok


def test_a_hidden_file_that_somebody_wrote_over_stays(scene: JobScene) -> None:
    scene.published({"a": b"1", "_notes": b"of a job"}, unique_names=False)
    scene.put("_notes", b"somebody's")
    scene.published({"b": b"2"}, mode="overwrite")
    assert hidden(scene) == ["_notes"]


def test_a_chain_that_cannot_be_read_keeps_hidden_files_and_no_replace_from_its_work(scene: JobScene) -> None:
    job = scene.published({"a": b"1", "_notes": b"of a job"}, unique_names=False)
    scene.delete(f"_magicfs/{job.id}.json")
    scene.published({"b": b"2"}, mode="overwrite")
    assert hidden(scene) == ["_notes"]
    assert scene.bodies() == [b"2"]
