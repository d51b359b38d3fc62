"""One place has one spelling: what URLs of destinations, and paths of files below them, may look like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import UsageError
from proofs.scenes.job_scene import JobScene

TWICE = ("memory://bucket//sales", "memory://bucket/a//sales", "memory://bucket/a///sales/")
VERSION = "memory://bucket/sales?versionId=1"
KEPT = (
    "memory://bucket/x/__magic/y",
    "memory://bucket/x/__magic_job-1/y",
    "memory://bucket/_magicfs",
    "memory://bucket/sales/_magicfs/x",
    "memory://bucket/sales/_temporary",
)


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


@pytest.mark.parametrize("url", [*TWICE, VERSION, "memory://bucket/a/../b", *KEPT])
@pytest.mark.parametrize("committer", ["magic", "directory", "direct", "file"])
def test_a_destination_that_could_be_two_places_is_refused_by_the_job(
    scene: JobScene, url: str, committer: str
) -> None:
    with pytest.raises(UsageError):
        magicfs.Job(url, committer=committer, filesystem=scene.filesystem)
    assert scene.everything() == ({}, [])


@pytest.mark.parametrize("url", [*TWICE, VERSION])
@pytest.mark.parametrize(
    "verb",
    [
        magicfs.Dataset.verify,
        magicfs.Dataset.adopt,
        magicfs.Dataset.recover,
        magicfs.Dataset.to_arrow,
        magicfs.Dataset.compact,
        magicfs.Dataset.files,
    ],
)
def test_all_who_take_a_destination_refuse_it_alike(
    scene: JobScene, url: str, verb: Callable[..., object]
) -> None:
    with pytest.raises(UsageError, match=r"two slashes in a row|names a version"):
        verb(magicfs.Dataset(url, filesystem=scene.filesystem))


@pytest.mark.parametrize("url", [*TWICE, VERSION])
@pytest.mark.parametrize("command", ["uploads", "verify", "recover"])
def test_commands_refuse_it_alike(url: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, url]) == 2
    assert "two slashes in a row" in (said := capsys.readouterr().err) or "names a version" in said


@pytest.mark.parametrize("url", [*TWICE, VERSION, *KEPT, "memory://bucket", "memory://bucket/a/../b"])
def test_an_extra_destination_that_could_be_two_places_is_refused(scene: JobScene, url: str) -> None:
    with pytest.raises(UsageError):
        magicfs.Job(
            "memory://bucket/sales", filesystem=scene.filesystem, options={"extra_destinations": [url]}
        )


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_slashes_at_the_end_make_no_other_place(scene: JobScene, slashes: str) -> None:
    with magicfs.Job(f"{scene.url}{slashes}", filesystem=scene.filesystem) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a", b"1")
    assert job.url == scene.url
    assert scene.bodies() == [b"1"]


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_a_tasks_file_has_one_spelling(scene: JobScene, tracking: str) -> None:
    job = scene.job(tracking=tracking)
    with job.task(0) as task:
        filesystem, path = task.filesystem, task.path
        filesystem.pipe_file(f"{path}/day=1/a.csv", b"1")
        before = scene.everything()
        for call in (
            lambda: filesystem.pipe_file(f"{path}//day=1///a.csv", b"2"),
            lambda: filesystem.exists(f"{path}/day=1//a.csv"),
            lambda: filesystem.rm(f"{path}//day=1/a.csv"),
            lambda: filesystem.pipe_file(f"{path}/a?versionId=1", b"2"),
        ):
            with pytest.raises(UsageError, match=r"two slashes in a row; write it as|names a version"):
                call()
        assert scene.everything() == before
        assert filesystem.find(f"{path}/") == filesystem.find(f"{path}//") == [f"{path}/day=1/a.csv"]
    job.commit([task.committed])
    assert scene.bodies() == [b"1"]
    assert scene.uploads() == []


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("memory://bucket/_sales", True),
        ("memory://bucket/.sales/", True),
        ("memory://bucket/_day=1", False),
        ("memory://bucket/_staging/sales", False),
        ("memory://bucket", False),
    ],
)
def test_a_hidden_destination_is_warned_of_and_works(
    scene: JobScene, url: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with magicfs.Job(url, filesystem=scene.filesystem) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a", b"1")
    assert magicfs.Dataset(url, filesystem=scene.filesystem).verify().ok
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [f"{job.url}: readers of" in one for one in said] == [True] * warned
