"""An abort of a job that has ended, beside one that writes its files again under their names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.datasets.abort import abort
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene


@pytest.mark.parametrize("deeper", [False, True])
def test_abort_of_an_ended_job_leaves_what_another_job_writes_under_its_names(deeper: bool) -> None:
    scene = JobScene()
    ended = scene.job()
    late = magicfs.Task(ended.spec, ended.task(1).id)
    ended.commit(scene.wrote(ended, {"p=1/a": b"1"}))
    (name,) = scene.data()
    late.setup()
    late.filesystem.pipe_file(f"{late.path}/p=1/late", b"1")  # its job's files record the upload
    url = f"{scene.url}/p=1" if deeper else scene.url
    how: dict[str, Any] = {"filesystem": scene.filesystem, "unique_names": False}
    how |= {"also_overwrite": [scene.url]} if deeper else {}
    other = magicfs.Job(url, mode="overwrite", **arranged(**how)).setup()
    commits = scene.wrote(other, {name.removeprefix("p=1/") if deeper else name: b"2"})
    assert len(scene.uploads()) == 2

    swept = [
        abort(scene.url, job=ended.id, filesystem=scene.filesystem, dry_run=dry) for dry in (True, False)
    ]
    for (done,) in (one.jobs for one in swept):
        assert done.uploads == 1
        assert re.search(rf"left \(1\), such as sales/{name}: .* job {other.id}, .*again", done.warnings[0])
    assert [key for key, _ in scene.uploads()] == [f"sales/{name}"]
    assert [one for one in scene.work() if ended.id in one.split("/")[0]] == []
    other.commit(commits)
    assert scene.bodies() == [b"2"]
    assert abort(scene.url, job=ended.id, filesystem=scene.filesystem).jobs[0].warnings == ()


@pytest.mark.parametrize("ends", [False, True])
def test_abort_of_an_ended_job_sweeps_its_late_upload_where_no_other_job_can_have_opened_it(
    ends: bool,
) -> None:
    scene = JobScene()
    ended = scene.published({"a": b"1"})
    (name,) = scene.data()
    # As a task that died before it recorded its upload.
    sync(scene.filesystem.loop, scene.plain.create_upload, f"sales/{name}", metadata={})
    other = scene.job(unique_names=not ends)
    if ends:
        other.abort()
    (done,) = abort(scene.url, job=ended.id, filesystem=scene.filesystem).jobs
    assert (done.uploads, done.warnings, scene.uploads()) == (1, (), [])
