"""The manifest committer as a whole: jobs, attempts, neighbours, reports."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli import main as cli
from magicfs.committers import registry
from magicfs.committers.registry import ManifestOptions
from magicfs.committers.renaming.manifest import ManifestCommitter
from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    OutputExists,
    ProtocolViolation,
    UsageError,
)
from magicfs.formats.job_options import JobOptions
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.progress import Meter
from magicfs.protocol.layout import WorkLayout
from magicfs.report import JobReport, Progress
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.testing.store_faults import Crash, Fault, Kind
from magicfs.transaction.context import JobContext
from proofs.committer_exam.names import hostile
from proofs.scenes.arranged import arranged
from proofs.scenes.manifest_scene import Driver, ManifestScene


@pytest.fixture
def scene(tmp_path: Path) -> ManifestScene:
    made = ManifestScene(tmp_path, unique_names=True)
    made.set_up()
    return made


def commit(
    scene: ManifestScene, commits: list[TaskCommit] | None, driver: Driver | None = None, **more: Any
) -> JobReport:
    return scene.run((driver or scene.driver()).committer.commit_job(commits, **more))


def final(scene: ManifestScene, task: int, name: str) -> str:
    stem, dot, extension = name.partition(".")
    return f"{stem}-{task:06d}-{scene.job}{dot}{extension}"


# -- a job that goes well --------------------------------------------------------------------------------


def test_136_job_commit_publishes_the_files_and_says_it(scene: ManifestScene) -> None:
    commits = [scene.commit_task(n, {"a.txt": b"1", "day=1/b.txt": b"22"}) for n in range(3)]
    assert not scene.visible()
    driver = scene.driver()
    report = commit(scene, commits, driver)
    names = {final(scene, n, name) for n in range(3) for name in ("a.txt", "day=1/b.txt")}
    assert set(scene.visible()) == names
    assert (report.tasks, report.files, report.bytes, report.committer) == (3, 6, 9, "manifest")
    assert set(report.filenames) == {f"file://{scene.destination}/{name}" for name in names}
    assert not report.warnings
    success = scene.success()
    assert (success.success, success.job_id, success.committer) == (True, scene.job, "manifest")
    assert set(success.filenames) == set(report.filenames)
    counters = success.statistics.counters
    assert counters["committer_files_committed"] == counters["committer_commits_completed"] == 6
    assert counters["committer_bytes_committed"] == 9
    assert counters["committer_tasks_completed"] == counters["task_stage_save_task_manifest"] == 3
    assert success.diagnostics["stage"] == "committer_commit_job"
    assert success.diagnostics["mapreduce.manifest.committer.io.threads"] == "4"
    there = [one for one in scene.everything() if not one.startswith("_magicfs")]
    assert there == sorted(["_SUCCESS", "day=1", *names])
    assert magicfs.Dataset(f"file://{scene.destination}").verify().ok


def test_136_success_names_at_most_a_hundred_files(scene: ManifestScene) -> None:
    only = scene.commit_task(0, {f"{number}.txt": b"" for number in range(103)})
    assert commit(scene, [only]).files == len(scene.visible()) == 103
    assert len(scene.success().filenames) == SUCCESS_MARKER_FILE_LIMIT


def test_files_of_hostile_names_are_published_under_their_names(tmp_path: Path) -> None:
    for seed in (20261121, 7):
        scene = ManifestScene(tmp_path / str(seed) / "a b%20#+ü?", unique_names=False)
        scene.set_up()
        names = {
            f"{name}": name.encode()
            for name in [*hostile(seed), "line\nbreak", "tab\t", '"', "back\\s", "x" * 255]
        }
        commit(scene, [scene.commit_task(0, names)])
        visible = {name for name in names if not any(part[0] in "_." for part in name.split("/"))}
        assert scene.visible() == {name: names[name] for name in visible}
        left = {name for name in names if (scene.destination / name).read_bytes() == names[name]}
        assert left == set(names)
        assert not (scene.destination / "_temporary").exists()


def test_progress_goes_on_until_the_last_rename(scene: ManifestScene) -> None:
    commits = [scene.commit_task(n, {f"{one}": b"xyz" for one in range(5)}) for n in range(2)]
    seen: list[Progress] = []
    driver = scene.driver()
    driver.committer.engine._observer = Meter(seen.append, commits)
    commit(scene, commits, driver)
    assert [one.files_done for one in seen] == list(range(1, 11))
    assert {(one.stage, one.files_total, one.bytes_total) for one in seen} == {("complete", 10, 30)}
    assert seen[-1].bytes_done == 30


def test_validation_before_success(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, validate_output=True)
    scene.set_up()
    only = scene.commit_task(0, {"a": b"1", "b": b"22"})
    driver = scene.driver()
    commit(scene, [only], driver)
    looks = driver.operations("look")
    assert {f"{scene.destination}/{name}"[1:] for name in "ab"} <= set(looks)


def test_136_a_file_that_was_altered_since_its_commit_fails_the_job_without_success(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, validate_output=True, concurrency=1)
    scene.set_up()
    only = scene.commit_task(0, {"a": b"1", "b": b"22"})
    # The writer is still at it: what is renamed is not what was committed.
    (scene.work_directory(only.attempt_id) / "a").write_bytes(b"altered")
    with pytest.raises(CommitFailed, match="a is not the file that its task committed: it has 7 bytes"):
        commit(scene, [only])
    assert not (scene.destination / "_SUCCESS").exists()
    assert not (scene.destination / "b").exists(), "what had become visible was removed again"


# -- what is refused -------------------------------------------------------------------------------------


def test_138_a_store_that_copies_is_refused_with_the_reason(tmp_path: Path) -> None:
    store = MemoryStore("bucket", World(create_buckets=True))
    with pytest.raises(UsageError, match="renames by copying every byte") as by_registry:
        registry.check_store("manifest", store)
    context = scene_context(tmp_path)
    with pytest.raises(UsageError) as by_class:
        ManifestCommitter(context, Engine(store, 1))
    assert str(by_class.value) == str(by_registry.value)


def scene_context(directory: Path) -> JobContext:
    return ManifestScene(directory).driver().committer.context


def test_too_few_tasks_and_a_manifest_of_somebody_else_publish_nothing(scene: ManifestScene) -> None:
    only = scene.commit_task(0, {"a": b"x"})
    before = scene.everything()
    with pytest.raises(ProtocolViolation):
        commit(scene, None, tasks=2)
    with pytest.raises(CommitFailed, match="which does not belong to job"):
        commit(scene, [replace(only, set_key="somewhere/else")])
    assert scene.everything() == before
    commit(scene, [only])


def test_two_tasks_of_one_destination_are_found_before_any_rename(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    commits = [scene.commit_task(n, {"day=1/a": b"x", f"b{n}": b""}) for n in range(2)]
    before = scene.everything()
    driver = scene.driver()
    with pytest.raises(CommitFailed, match="day=1/a is written by two tasks") as caught:
        commit(scene, commits, driver)
    assert caught.value.failed == (f"{scene.destination}/day=1/a"[1:],)
    assert scene.everything() == before
    assert not driver.told
    scene.commit_task(1, {"day=2/a": b"x"}, suffix="1")  # tasks can commit again
    commit(scene, None)
    assert set(scene.visible()) == {"day=1/a", "b0", "day=2/a"}


def test_a_file_of_one_task_that_is_a_directory_of_another_is_found_before_any_rename(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    commits = [scene.commit_task(0, {"a": b"file"}), scene.commit_task(1, {"a/b": b"below"})]
    before = scene.everything()
    with pytest.raises(CommitFailed, match="dest/a is a file of one task and a directory of another"):
        commit(scene, commits)
    assert scene.everything() == before


def test_a_manifest_that_is_gone_is_told(scene: ManifestScene) -> None:
    commits = [scene.commit_task(n, {"a": b"x"}) for n in range(2)]
    scene.manifest_path(1).unlink()
    with pytest.raises(CommitFailed, match=r"manifest .*000001.* is gone"):
        commit(scene, commits)
    assert not scene.visible()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"writer_queue_capacity": 0}, "writer_queue_capacity=0 must be at least 1"),
        ({"save_attempts": 0}, "save_attempts=0 must be at least 1"),
        ({"renames_per_second": -1}, "must not be negative"),
        ({"target_directories": "delete"}, "write mode='error', 'overwrite' or 'overwrite_partitions'"),
        ({"colour": "red"}, "no option 'colour'; nothing was changed; options are after, alias, allow_empty"),
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        magicfs.Job("file:///nowhere/sales", committer="manifest", options=options)


# -- attempts of a job -----------------------------------------------------------------------------------


# -- aborts ----------------------------------------------------------------------------------------------


def test_a_published_job_cannot_be_aborted(scene: ManifestScene) -> None:
    only = scene.commit_task(0, {"a": b"x"})
    commit(scene, [only])
    with pytest.raises(ProtocolViolation, match="is published"):
        scene.run(scene.driver().committer.abort_job([only]))
    # What a lost attempt wrote since goes without a word.
    scene.write(1, {"late": b"x"})
    scene.run(scene.driver().committer.abort_job(()))
    assert not (scene.destination / "_temporary").exists()
    assert len(scene.visible()) == 1


def test_an_unknown_job_is_denied(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.destination.mkdir()
    with pytest.raises(CommitDenied, match="was not published: another process"):
        commit(scene, [])
    scene.run(scene.driver().committer.abort_job(()))
    assert scene.run(scene.driver().committer.committed_tasks()) == []
    assert scene.everything() == []


# -- two jobs --------------------------------------------------------------------------------------------


def test_two_jobs_at_one_destination_at_once_publish_both(tmp_path: Path) -> None:
    scenes = [ManifestScene(tmp_path, unique_names=True, concurrency=8) for _ in range(2)]
    drivers = [scene.set_up() for scene in scenes]
    for number in range(5):
        for scene in scenes:
            scene.commit_task(number, {f"day={one}/a": scene.job.encode() for one in range(4)})

    async def both() -> list[JobReport]:
        return list(await asyncio.gather(*(driver.committer.commit_job(None) for driver in drivers)))

    reports = asyncio.run(both())
    assert [report.files for report in reports] == [20, 20]
    found = list(scenes[0].visible().values())
    assert [found.count(scene.job.encode()) for scene in scenes] == [20, 20]
    assert not (tmp_path / "dest" / "_temporary").exists()
    assert scenes[0].success().job_id in {scene.job for scene in scenes}


# -- reports ---------------------------------------------------------------------------------------------


def summary(directory: Path, scene: ManifestScene) -> SuccessData:
    path = directory / f"summary-{scene.job}.json"
    return SuccessData.from_bytes(str(path), path.read_bytes())


@pytest.mark.parametrize("how", ["key", "url", "elsewhere"])
def test_154_a_report_of_a_job_is_kept(tmp_path: Path, how: str) -> None:
    reports = tmp_path / "re ports"
    named = {"key": str(reports)[1:], "url": f"file://{reports}/", "elsewhere": f"local://{reports}"}[how]
    scene = ManifestScene(tmp_path, summary_report_directory=named)
    scene.set_up()
    commit(scene, [scene.commit_task(0, {"a": b"x"})])
    kept, success = summary(reports, scene), scene.success()
    assert (kept.success, kept.job_id, kept.committer) == (True, scene.job, "manifest")
    assert kept.filenames == success.filenames
    assert kept.statistics == success.statistics


def test_154_a_report_of_a_failed_job_has_the_exception_and_the_stack_trace(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    scene = ManifestScene(tmp_path, summary_report_directory=str(reports)[1:])
    scene.set_up()
    only = scene.commit_task(0, {"a": b"x"})
    (scene.destination / "a" / "in the way").mkdir(parents=True)
    with pytest.raises(CommitFailed) as caught:
        commit(scene, [only])
    kept = summary(reports, scene)
    assert not kept.success
    assert kept.diagnostics["exception"] == f"CommitFailed: {caught.value}"
    assert "Traceback" in kept.diagnostics["stacktrace"]
    assert "ObjectExists" in kept.diagnostics["stacktrace"]
    scene.run(scene.driver().committer.abort_job([only]))
    assert summary(reports, scene) == kept, "an abort does not replace what tells more"


def test_154_a_report_of_an_aborted_job_says_so(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    scene = ManifestScene(tmp_path, summary_report_directory=f"local://{reports}")
    driver = scene.set_up()
    for _ in range(2):
        scene.run(driver.committer.abort_job(()))
    kept = summary(reports, scene)
    assert (kept.success, kept.diagnostics["stage"]) == (False, "job_stage_abort")


def test_a_driver_that_is_denied_does_not_replace_the_report_of_the_one_that_published(
    tmp_path: Path,
) -> None:
    reports = tmp_path / "reports"
    scene = ManifestScene(tmp_path, summary_report_directory=str(reports)[1:])
    scene.set_up()
    only = scene.commit_task(0, {"a": b"x"})
    commit(scene, [only])
    (scene.destination / "_magicfs" / f"{scene.job}.json").unlink()
    with pytest.raises(CommitDenied):
        commit(scene, [only])
    assert summary(reports, scene).success


def test_a_report_that_cannot_be_kept_fails_no_job(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    scene = ManifestScene(tmp_path, summary_report_directory=f"{tmp_path}/file/reports"[1:])
    scene.set_up()
    report = commit(scene, [scene.commit_task(0, {"a": b"x"})])
    assert "could not be kept" in report.warnings[0]
    with pytest.raises(CommitDenied) as caught:
        commit(ManifestScene(tmp_path, summary_report_directory=f"{tmp_path}/file/reports"[1:]), [])
    assert "could not be kept" in caught.value.__notes__[-1]


@pytest.mark.parametrize("url", [False, True])
def test_manifests_are_moved_to_the_directory_for_them(tmp_path: Path, url: bool) -> None:
    kept = tmp_path / "kept"
    named = f"file://{kept}" if url else str(kept)[1:]
    scene = ManifestScene(tmp_path, diagnostics_manifest_directory=named)
    scene.set_up()
    (kept / scene.job / "of an earlier run").mkdir(parents=True)
    commit(scene, [scene.commit_task(0, {"a": b"x"})])
    assert [path.name for path in (kept / scene.job).iterdir()] == ["attempt-000000-0-manifest.json"]


@pytest.mark.parametrize("named", ["s3://bucket/manifests", "{tmp}/file/below"])
def test_manifests_that_cannot_be_moved_fail_no_job(tmp_path: Path, named: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    scene = ManifestScene(tmp_path, diagnostics_manifest_directory=named.format(tmp=str(tmp_path)[1:]))
    scene.set_up()
    report = commit(scene, [scene.commit_task(0, {"a": b"x"})])
    assert "the manifests could not be kept" in report.warnings[0]
    there = [one for one in scene.everything() if not one.startswith("_magicfs")]
    assert there == ["_SUCCESS", "a"]


def work_failing(scene: ManifestScene) -> Driver:
    return scene.driver(Fault(Kind.ERROR_BEFORE, operation="delete_tree", times=None))


def test_work_that_cannot_be_removed_keeps_the_job_for_recover(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    only = scene.commit_task(0, {"a": b"x"})
    (warning,) = commit(scene, [only], work_failing(scene)).warnings
    assert "cleaning up failed" in warning
    assert scene.visible() == {"a": b"x"}
    with pytest.raises(ProtocolViolation, match="is published"):
        scene.run(scene.driver().committer.abort_job(()))
    assert [one.action for one in scene.recover().jobs] == ["finished"]
    assert not (scene.destination / "_temporary").exists()


def test_work_that_cannot_be_removed_may_be_ignored(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, cleanup_failures_ignored=True)
    scene.set_up()
    only = scene.commit_task(0, {"a": b"x"})
    (warning,) = commit(scene, [only], work_failing(scene)).warnings
    assert "could not be removed" in warning
    assert not scene.recover().jobs
    assert scene.job_directory.exists()


def test_work_is_left_if_asked_for(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, cleanup_skipped=True)
    scene.set_up()
    only = scene.commit_task(0, {"a": b"x"})
    commit(scene, [only])
    assert scene.manifest_path(0).exists()
    assert commit(scene, [only]).warnings[0] == "another process finished the job"


# -- what is in the way ----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["delete_target_files", "delete_obstacles"])
def test_files_of_equal_names_are_written_over_only_if_asked_for(tmp_path: Path, option: str) -> None:
    for allowed in (False, True):
        scene = ManifestScene(tmp_path / str(allowed), **({option: True} if allowed else {}))
        scene.destination.mkdir(parents=True)
        (scene.destination / "a").write_bytes(b"old")
        scene.set_up()
        only = scene.commit_task(0, {"a": b"new", "b": b"b"})
        if allowed:
            commit(scene, [only])
            assert scene.visible() == {"a": b"new", "b": b"b"}
            continue
        with pytest.raises(OutputExists, match="names that are taken"):
            commit(scene, [only])
        assert scene.visible() == {"a": b"old"}


@pytest.mark.parametrize("mode", ["append", "overwrite", "append, deleting"])
def test_a_file_in_the_place_of_a_directory(tmp_path: Path, mode: str) -> None:
    mode: Any = mode.partition(",")[0]
    scene = ManifestScene(tmp_path, mode=mode, delete_obstacles=mode.endswith("deleting"))
    scene.destination.mkdir(parents=True)
    (scene.destination / "d").write_bytes(b"old")
    scene.set_up()
    only = scene.commit_task(0, {"d/a": b"new", "b": b"b"})
    if mode == "append":
        with pytest.raises(CommitFailed, match="d already exists as a file"):
            commit(scene, [only])
        assert scene.visible() == {"d": b"old"}
        return
    commit(scene, [only])
    assert scene.visible() == {"d/a": b"new", "b": b"b"}
    assert magicfs.Dataset(f"file://{scene.destination}").verify().ok


def test_a_job_that_has_deleted_what_was_in_the_way_can_only_go_forward(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, delete_obstacles=True, concurrency=1)
    scene.destination.mkdir(parents=True)
    (scene.destination / "d").write_bytes(b"old")
    scene.set_up()
    only = scene.commit_task(0, {"d/a": b"new", "b": b"b"})
    dead = scene.driver(
        Fault(Kind.CRASH_AFTER, operation="delete_all_matching", prefix=f"{scene.destination}/d"[1:])
    )
    with pytest.raises(Crash):
        commit(scene, [only], dead)
    with pytest.raises(CommitDenied, match="can no longer be rolled back: old files have been replaced"):
        scene.recover(rollback=True)
    assert [one.action for one in scene.recover().jobs] == ["finished"]
    assert scene.visible() == {"d/a": b"new", "b": b"b"}


def test_a_directory_in_the_place_of_a_file_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    only = scene.commit_task(0, dict.fromkeys("abc", b"x"))
    (scene.destination / "b").mkdir()
    (scene.destination / "b" / "old").write_bytes(b"old")
    with pytest.raises(CommitFailed, match="b already exists as a directory"):
        commit(scene, [only])
    assert scene.visible() == {"b/old": b"old"}
    (scene.destination / "b" / "old").unlink()
    (scene.destination / "b").rmdir()
    assert commit(scene, [only]).files == 3


def test_an_empty_directory_in_the_place_of_a_file_takes_the_job_back(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path)
    scene.set_up()
    only = scene.commit_task(0, dict.fromkeys("abc", b"x"))
    (scene.destination / "b" / "in the way").mkdir(parents=True)
    with pytest.raises(CommitFailed, match="could not be published") as caught:
        commit(scene, [only])
    assert caught.value.failed == (f"{scene.destination}/b"[1:],)
    assert not scene.visible()
    assert not (scene.destination / "_temporary").exists()
    assert not (scene.destination / "_SUCCESS").exists()


# -- what a job object gives -----------------------------------------------------------------------------


def test_tasks_of_an_earlier_attempt_of_the_job_are_recovered(scene: ManifestScene) -> None:
    scene.commit_task(0, {"a": b"of attempt 0"})
    second = scene.set_up(attempt=1)
    recovered = scene.run(second.committer.recover_tasks())
    assert [one.task_id for one in recovered] == ["000000"]
    other = scene.commit_task(1, {"b": b"of attempt 1"}, job_attempt=1)
    commit(scene, [*recovered, other], second)
    assert sorted(scene.visible().values()) == [b"of attempt 0", b"of attempt 1"]
    assert not (scene.destination / "_temporary").exists()


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions", "error"])
def test_old_data_is_replaced_or_refused_as_the_conflict_mode_says(tmp_path: Path, mode: Any) -> None:
    scene = ManifestScene(tmp_path, mode=mode, unique_names=True)
    (scene.destination / "day=1").mkdir(parents=True)
    (scene.destination / "day=2").mkdir(parents=True)
    for number in (1, 2):
        (scene.destination / f"day={number}" / "old").write_bytes(b"old")
    if mode == "error":
        with pytest.raises(OutputExists):
            scene.set_up()
        return
    scene.set_up()
    report = commit(scene, [scene.commit_task(0, {"day=1/a": b"new"})])
    assert report.files_deleted == (2 if mode == "overwrite" else 1)
    assert sorted(scene.visible().values()) == [b"new"] + [b"old"] * (mode != "overwrite")


@pytest.mark.slow
def test_151_more_than_200_manifests(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, unique_names=True, concurrency=16)
    scene.set_up()
    commits = [scene.commit_task(number, {f"d={number % 5}/a": b"x"}) for number in range(230)]
    report = commit(scene, commits)
    assert (report.tasks, report.files, len(scene.visible())) == (230, 230, 230)


def test_a_run_is_published_once(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/dest"
    reports = []
    for _ in range(2):
        how: Any = {"committer": "manifest", "mode": "append", "run_id": "2026-11-25"}
        with magicfs.Job(url, **arranged(**how)) as job, job.task(0) as task:
            task.filesystem.pipe({f"{task.path}/a.txt": b"x"})
        reports.append(job.report)
    assert [report.published_before for report in reports] == [False, True]
    assert len(list((tmp_path / "dest").rglob("a-*.txt"))) == 1
    assert not (tmp_path / "dest" / "_temporary").exists()


def test_a_manifest_that_names_a_file_of_others_publishes_nothing(scene: ManifestScene) -> None:
    only = scene.commit_task(0, {"a": b"x"})
    path = scene.manifest_path(0)
    foreign = scene.destination / "others.txt"
    foreign.write_bytes(b"of others")
    source = f"file://{scene.work_directory(only.attempt_id)}/a"
    path.write_text(path.read_text().replace(source, f"file://{foreign}"))
    with pytest.raises(CommitFailed, match="not a file of the job's tasks; nothing was published"):
        commit(scene, [only])
    assert foreign.read_bytes() == b"of others"


# -- the command line ------------------------------------------------------------------------------------


def test_show_prints_a_task_manifest(scene: ManifestScene, capsys: pytest.CaptureFixture[str]) -> None:
    only = scene.commit_task(0, {"day=1/50% +#.txt": b"x"})
    path = str(scene.manifest_path(0))
    assert cli.main(["show", path]) == 0
    shown = capsys.readouterr().out
    assert only.attempt_id in shown
    assert f"file://{scene.destination}/day=1/50% +#-000000-{scene.job}.txt" in shown
    assert f"not_found  1      file://{scene.destination}/day=1" in shown
    assert cli.main(["show", path, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["document"]) == ("task manifest", json.loads(Path(path).read_text()))


def test_show_prints_success_and_reports_as_manifest_printer_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = ManifestScene(tmp_path, summary_report_directory=str(tmp_path / "reports")[1:])
    scene.set_up()
    only = scene.commit_task(0, {"a": b"x"})
    (scene.destination / "a" / "in the way").mkdir(parents=True)
    with pytest.raises(CommitFailed):
        commit(scene, [only])
    path = str(tmp_path / "reports" / f"summary-{scene.job}.json")
    assert cli.main(["show", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Manifest file: {path}", "succeeded: false"]
    assert f"jobId: {scene.job}" in lines
    assert "  stage = committer_commit_job" in lines
    assert any(line.startswith("counters=(") for line in lines)
    assert "gauges=();" in lines


def test_what_a_task_commit_hands_over_names_the_manifest(scene: ManifestScene) -> None:
    only = scene.commit_task(0, {"a": b"x", "b": b"yy"})
    assert only.set_key == str(scene.manifest_path(0))[1:]
    assert (only.files, only.bytes, only.content) == (2, 3, None)


def test_the_context_of_a_job_without_options_takes_the_defaults(scene: ManifestScene) -> None:
    committer = scene.driver().committer
    layout = WorkLayout("x", scene.job)
    bare = JobContext("file:///x", layout, JobOptions(committer="manifest", mode="append"))
    assert ManifestCommitter(bare, committer.engine)._options == ManifestOptions()
