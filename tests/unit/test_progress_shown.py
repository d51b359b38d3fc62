"""What a person sees of a job: a bar, lines in the log, a table in a notebook."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import magicfs
from magicfs.job.task import Task
from magicfs.report import JobReport, Progress
from magicfs.watch.bar import Bar, _display, _Lines, _Rich
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene


@pytest.fixture
def scene() -> JobScene:
    return JobScene("sales & <co>")


def write(task: Task) -> None:
    task.filesystem.pipe_file(f"{task.path}/a", b"123")


def run(scene: JobScene, **options: Any) -> magicfs.Job:
    with magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem, **arranged(**options)) as job:
        for number in range(2):
            with job.task(number) as task:
                write(task)
    return job


def test_progress_true_shows_tasks_and_files_in_lines(
    scene: JobScene, capsys: pytest.CaptureFixture[str]
) -> None:
    run(scene, progress=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "magicfs: tasks committed: 1 (1 files, 3 B)",
        "magicfs: tasks committed: 2 (2 files, 6 B)",
        "magicfs: files visible: 1 of 2 (3 B of 6 B)",
        "magicfs: files visible: 2 of 2 (6 B of 6 B)",
    ]


def test_map_tells_how_many_tasks_there_are(scene: JobScene, capsys: pytest.CaptureFixture[str]) -> None:
    job = magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem, progress=True)
    with job, ThreadPoolExecutor(2) as pool:
        job.map(write, range(3), executor=pool)
    assert "magicfs: tasks committed: 3 of 3 (3 files, 9 B)" in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_unless_asked_for(
    scene: JobScene, progress: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(scene, progress=progress)
    assert capsys.readouterr().err == ""


def test_a_job_that_is_aborted_leaves_no_bar_behind(scene: JobScene) -> None:
    closed: list[str] = []

    class Shown(_Lines):
        def close(self) -> None:
            closed.append("closed")

    job = magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem, progress=True).setup()
    job._bar._make = Shown
    with job.task(0) as task:
        write(task)
    job.abort()
    job.abort()
    assert closed == ["closed"]


def test_on_a_terminal_rich_draws_the_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert isinstance(_display(), _Lines)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = _display()
    assert isinstance(shown, _Rich)
    bar = Bar(lambda: shown)
    bar(Progress("complete", 1, 2, 3, 6))
    bar(Progress("complete", 2, 2, 6, 6))
    bar.close()
    drawn = capsys.readouterr().err
    assert "files visible" in drawn
    assert "2/2" in drawn


def test_the_log_tells_each_step_of_a_job(scene: JobScene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "magicfs")
    job = run(scene)
    steps = [one.getMessage() for one in caplog.records if one.levelno == logging.INFO]
    assert steps[0] == f"{scene.url}: job {job.id} is set up: mode append"
    assert steps[1] == f"job {job.id}: task 000000 is committed: 1 files, 3 bytes"
    assert steps[-1].startswith(f"{scene.url}: job {job.id} is published: mode append, 2 files, 6 bytes, in ")
    with magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem).setup().task(0) as task:
        task.abort()
    assert caplog.messages[-1].endswith("task 000000 is aborted")


def test_a_notebook_shows_a_table(scene: JobScene) -> None:
    job = run(scene)
    shown = job._repr_html_()
    assert "<td style='text-align:left'>committed</td>" in shown
    assert "2 committed, with 2 files (6 B)" in shown
    report = job.report._repr_html_()
    assert "<th style='text-align:left'>published</th>" in report
    for html in (shown, report):
        assert "sales &amp; &lt;co&gt;" in html
        assert "<co>" not in html
    skipped = JobReport.before("j", "memory://b/x", "magic", "append")._repr_html_()
    assert "nothing was published now" in skipped
