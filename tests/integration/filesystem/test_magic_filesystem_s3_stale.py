"""No stale listing ever decides anything: the cache of s3fs is filled with lies, and nobody believes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from proofs.scenes.s3_scene import S3Scene

pytestmark = pytest.mark.sample(most=1)

ATTEMPT = "dataset1/__magic/job 1/task%2F1/__base"
BODY = b"one\ntwo\n"


def lie(scene: S3Scene, directory: str, *entries: dict[str, Any]) -> None:
    """Make s3fs believe that a directory holds exactly these."""
    path = f"{scene.bucket}/{directory}".rstrip("/")
    listed = [
        {"name": f"{path}/{entry['name']}", **_file(7), **entry, "Key": f"{path}/{entry['name']}"}
        for entry in entries
    ]
    for entry in listed:
        entry["name"] = entry["Key"]
    scene.wrapped.dircache[path] = listed


def _file(size: int) -> dict[str, Any]:
    return {"size": size, "Size": size, "type": "file", "StorageClass": "STANDARD", "ETag": '"lie"'}


@pytest.fixture
def lied_to(scene: S3Scene) -> S3Scene:
    """One file is pending and one was removed behind s3fs's back; its cache says otherwise."""
    scene.filesystem.pipe_file(f"{scene.bucket}/{ATTEMPT}/there", BODY)
    lie(scene, ATTEMPT, {"name": "gone"}, {"name": "gone.pending"})
    lie(scene, ATTEMPT.rpartition("/")[0], {"name": "__base", "type": "file"})
    lie(scene, "dataset1/__magic")
    lie(scene, "dataset1", {"name": "__magic", "type": "file"}, {"name": "there"})
    lie(scene, "")
    return scene


def test_cache_really_lies(lied_to: S3Scene) -> None:
    base = f"{lied_to.bucket}/{ATTEMPT}"
    assert lied_to.wrapped.exists(f"{base}/gone")
    assert lied_to.wrapped.ls(base) == [f"{base}/gone", f"{base}/gone.pending"]


def test_looking_under_magic_asks_the_store(lied_to: S3Scene) -> None:
    fs, base = lied_to.filesystem, f"{lied_to.bucket}/{ATTEMPT}"
    assert fs.exists(f"{base}/there")
    assert fs.info(f"{base}/there")["size"] == len(BODY)
    assert fs.isfile(f"{base}/there")
    assert not fs.exists(f"{base}/gone")
    assert not fs.isfile(f"{base}/gone")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{base}/gone")
    assert fs.isdir(base)
    assert fs.ls(base, detail=False) == [f"{base}/there"]
    assert fs.find(base) == [f"{base}/there"]
    assert fs.find(f"{lied_to.bucket}/dataset1/__magic") == [f"{base}/there"]
    assert fs.glob(f"{base}/*re") == [f"{base}/there"]
    assert [files for _, _, files in fs.walk(base)] == [["there"]]


def test_reading_under_magic_asks_the_store(lied_to: S3Scene) -> None:
    fs, base = lied_to.filesystem, f"{lied_to.bucket}/{ATTEMPT}"
    with pytest.raises(ValueError, match="it will be dataset1/there"):
        fs.cat_file(f"{base}/there")
    with pytest.raises(ValueError, match="it will be dataset1/there"):
        fs.open(f"{base}/there", "rb")
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{base}/gone")


def test_removing_under_magic_asks_the_store(lied_to: S3Scene) -> None:
    fs, base = lied_to.filesystem, f"{lied_to.bucket}/{ATTEMPT}"
    fs.rm(f"{base}/gone")
    fs.rm(base, recursive=True)
    assert (lied_to.uploads(), lied_to.objects()) == ([], {})


def test_writing_onto_a_name_that_the_cache_knows_writes_it(lied_to: S3Scene) -> None:
    base = f"{lied_to.bucket}/{ATTEMPT}"
    for mode in ("xb", "wb"):
        with lied_to.filesystem.open(f"{base}/gone", mode) as file:
            file.write(BODY)
    assert lied_to.publish() == {"dataset1/there": BODY, "dataset1/gone": BODY}


def lie_about_everything(scene: S3Scene) -> None:
    """Every directory that a job touches is empty, or holds what is not there."""
    known = {key.rpartition("/")[0] for key in scene.server.all_keys(scene.bucket)}
    for directory in {"", "dataset1", "dataset1/day=1", *known}:
        for depth in range(directory.count("/") + 2):
            lie(scene, "/".join(directory.split("/")[:depth]), {"name": "lie"})


@pytest.mark.parametrize("commit", ["handed over", "listed"])
def test_whole_job_believes_no_listing_and_drops_them_when_it_has_committed(
    scene: S3Scene, commit: str
) -> None:
    job = Job(f"s3://{scene.bucket}/dataset1", mode="append", filesystem=scene.wrapped)
    lie_about_everything(scene)
    job.setup()
    commits = []
    for number in range(3):
        with job.task(number) as task:
            lie_about_everything(scene)
            task.filesystem.pipe({f"{task.path}/day={day}/part 0.csv": BODY for day in (1, 2)})
            lie_about_everything(scene)
        commits.append(task.committed)
    lie_about_everything(scene)
    report = job.commit([one for one in commits if one] if commit == "handed over" else None)
    assert report.files == 6
    visible = scene.server.visible_keys(scene.bucket, "dataset1/")
    assert len(visible) == 6
    told = ["_SUCCESS", f"_magicfs/{job.id}.json", "_magicfs/current.json"]
    there = sorted([*visible, *(f"dataset1/{name}" for name in told)])
    assert (scene.uploads(), sorted(scene.objects())) == ([], there)
    assert sorted(scene.wrapped.find(f"{scene.bucket}/dataset1")) == [
        f"{scene.bucket}/{key}" for key in there
    ]
    assert sorted(scene.filesystem.ls(f"{scene.bucket}/dataset1", detail=False)) == [
        f"{scene.bucket}/dataset1/{name}" for name in ("_SUCCESS", "_magicfs", "day=1", "day=2")
    ]


def test_aborted_job_believes_no_listing(scene: S3Scene) -> None:
    job = Job(f"s3://{scene.bucket}/dataset1", mode="append", filesystem=scene.wrapped).setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/part 0.csv", BODY)
    lie_about_everything(scene)
    job.abort()
    assert (scene.uploads(), scene.objects()) == ([], {})


ROUTES: list[Callable[[S3Scene], MagicFileSystem]] = [
    lambda scene: MagicFileSystem(scene.wrapped),
    lambda scene: MagicFileSystem(target_protocol="s3", target_options=scene.storage_options),
]


@pytest.mark.parametrize("route", ROUTES)
def test_cache_of_magic_is_that_of_the_wrapped_filesystem(
    scene: S3Scene, route: Callable[[S3Scene], MagicFileSystem]
) -> None:
    fs, directory = route(scene), f"{scene.bucket}/dataset1"
    scene.put("dataset1/old")
    assert fs.ls(directory, detail=False) == [f"{directory}/old"]
    scene.put("dataset1/new")
    assert fs.ls(directory, detail=False) == [f"{directory}/old"]
    assert fs.dircache is fs.fs.dircache
    fs.invalidate_cache(directory)
    assert fs.ls(directory, detail=False) == [f"{directory}/new", f"{directory}/old"]
