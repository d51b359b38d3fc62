"""A rollback or a drop says what it takes, and deletes nothing for good that nobody has said may go."""

from __future__ import annotations

import inspect
import json
import logging
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import commit
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.past.drop import DropReport
from magicfs.past.rollback import RollbackReport, roll_back
from magicfs.protocol.ids import job_id
from magicfs.protocol.paths import parse_url
from magicfs.protocol.period import NOT_SAID
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import BUCKET, JobScene

DEST = "lake/daily"


@pytest.fixture
def scene() -> JobScene:
    """Days 24 and 25, day 25 again by a bad run, and day 26: all kept for a week."""
    found = JobScene(DEST)
    put(found, 24, "good-24")
    put(found, 25, "good-25")
    put(found, 25, "bad-25", b"bad")
    put(found, 26, "good-26")
    return found


def put(scene: JobScene, day: int, run: str, body: bytes | None = None, **how: Any) -> magicfs.JobReport:
    return put_days(scene, {day: body or f"{day}".encode()}, run, **how)


def put_days(scene: JobScene, days: dict[int, bytes], run: str, **how: Any) -> magicfs.JobReport:
    how = {"mode": "overwrite_partitions", "keep": "7d", **how}
    job = magicfs.Job(scene.url, run_id=run, filesystem=scene.filesystem, **arranged(**how)).setup()
    return job.commit(scene.wrote(job, {f"day={day}/a.csv": body for day, body in days.items()}))


def back(scene: JobScene, to: str, **how: Any) -> RollbackReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=to, **how)


def drop(scene: JobScene, **how: Any) -> DropReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(**how)


def days(scene: JobScene, as_of: str | None = None) -> dict[int, bytes]:
    """The body of each day that readers of manifests see."""
    found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).files(as_of=as_of)
    return {int(one.partition["day"] or ""): scene.filesystem.cat_file(one.url) for one in found}


ALL = {24: b"24", 25: b"bad", 26: b"26"}


class TestPartitions:
    def test_they_alone_go_back(self, scene: JobScene):
        report = back(scene, "good-25", partitions="day=25/", keep="7d")
        assert days(scene) == {24: b"24", 25: b"25", 26: b"26"}
        assert [one.run_id for one in report.effects.publications] == ["bad-25"]
        assert (report.effects.gone.files, report.effects.back.files, report.files) == (1, 1, 1)
        assert days(scene, as_of="good-26") == ALL
        assert (
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).history(limit=1)[0].restores is not None
        )
        back(scene, "good-26", partitions=["day=25"], keep="7d")
        assert days(scene) == ALL
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok

    def test_what_was_not_there_then_goes(self, scene: JobScene):
        report = back(scene, "good-24", partitions=["day=25", "day=26"], keep=None)
        assert days(scene) == {24: b"24"}
        assert (report.effects.lost.files, report.effects.back.files) == (2, 0)
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok

    def test_what_somebody_removed_by_hand_is_hidden(self, scene: JobScene):
        [name] = [one for one, body in scene.data().items() if body == b"bad"]
        scene.delete(name)
        back(scene, "good-25", partitions="day=25")
        assert days(scene) == {24: b"24", 25: b"25", 26: b"26"}
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok

    @pytest.mark.parametrize(
        ("partitions", "said"),
        [
            ("day=27", "no partition 'day=27'"),
            ("day=2", "no partition"),
            ("a/../b", "is not a partition"),
            ([], "is empty"),
        ],
    )
    def test_others_are_refused(self, scene: JobScene, partitions: Any, said: str):
        before = scene.everything()
        for dry_run in (False, True):
            with pytest.raises(UsageError, match=said):
                back(scene, "good-25", partitions=partitions, keep=None, dry_run=dry_run)
        assert scene.everything() == before

    def test_a_job_in_another_partition_is_in_nobodys_way(self, scene: JobScene):
        job = scene.job("overwrite_partitions")
        commits = scene.wrote(job, {"day=26/b.csv": b"later"})
        back(scene, "good-25", partitions="day=25", keep="7d")
        job.commit(commits)
        assert days(scene) == {24: b"24", 25: b"25", 26: b"later"}

    @pytest.mark.parametrize("ended_by", ["commit", "abort", "call"])
    def test_one_whose_process_has_died_before_the_commit_point(self, scene: JobScene, ended_by: str):
        place, job = parse_url(scene.url), job_id("undo")
        engine = scene.engine(
            scene.traffic(Fault(Kind.CRASH_BEFORE, operation="put", prefix=f"{DEST}/__magic", skip=3))
        )
        how: dict[str, Any] = {"to": "good-25", "partitions": ("day=25",), "keep_ms": 1_000_000}
        assert scene.lived(lambda: roll_back(engine, place, run_id="undo", job=job, **how)) is None
        assert days(scene) == ALL
        match ended_by:
            case "commit":
                commit(scene.url, job, filesystem=scene.filesystem)
            case "call":
                back(scene, "good-25", partitions="day=25", keep="7d", run_id="undo")
            case _:
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(job=job, abort=True)
        assert days(scene) == (ALL if ended_by == "abort" else {**ALL, 25: b"25"})
        assert not scene.work()

    def test_a_copy_made_from_a_version_is_of_these_alone(self):
        scene = JobScene(DEST)
        scene.filesystem.world.keep_versions(BUCKET)
        for day, run, body in ((24, "good-24", b"24"), (25, "good-25", b"25"), (25, "bad-25", b"bad")):
            put(scene, day, run, body)
        report = back(scene, "good-25", partitions="day=25", keep="7d")
        assert (report.files, days(scene)) == (1, {24: b"24", 25: b"25"})
        assert put(scene, 25, "good-25", b"new").published_before
        drop(scene, partitions="day=25", keep="7d")
        assert put(scene, 25, "good-25", b"new").published, "its copy was dropped"


class TestSaying:
    def test_a_dry_run_changes_nothing_and_says_all(self, scene: JobScene):
        before = scene.everything()
        assert back(scene, "good-25", dry_run=True).effects.lost.files == 0, "they are kept for 7 days"
        report = back(scene, "good-25", keep=None, dry_run=True)
        assert scene.everything() == before
        assert (report.dry_run, report.published, report.job_id) == (True, False, "")
        effects = report.effects
        assert [one.run_id for one in effects.publications] == ["good-26", "bad-25"]
        assert (effects.gone.files, effects.gone.bytes, effects.back.files) == (2, 5, 1)
        assert effects.lost == effects.gone
        assert all(key.startswith(("day=25/", "day=26/")) for key in effects.gone.keys)
        text = str(report)
        for said in (
            "would be rolled back",
            "takes back  good-26 (job ",
            "files gone  2 files (5 B)",
            "for good",
        ):
            assert said in text
        assert json.loads(json.dumps(report.to_dict()))["effects"]["back"]["files"] == 1

    def test_one_that_undoes_a_rollback_takes_that_back_alone(self, scene: JobScene):
        back(scene, "good-25", keep="7d", run_id="back")
        effects = back(scene, "good-26", dry_run=True).effects
        assert [one.run_id for one in effects.publications] == ["back"]
        back(scene, "good-26", keep="7d", run_id="forth")
        effects = back(scene, "bad-25", dry_run=True).effects
        assert [one.run_id for one in effects.publications] == ["forth", "good-26"]
        assert days(scene) == ALL

    def test_what_is_done_says_it_too(self, scene: JobScene, caplog: pytest.LogCaptureFixture):
        with caplog.at_level(logging.INFO, "magicfs"):
            report = back(scene, "good-25", keep="7d")
            back(scene, "good-26", partitions=["day=25", "day=26"], keep="7d")
        assert "takes back  good-26" in str(report)
        assert report.effects.lost.files == 0
        first, second = (one for one in caplog.records if one.getMessage().startswith("rolling back"))
        assert (first.levelname, second.levelname) == ("WARNING", "INFO")
        assert "takes back good-26" in first.getMessage()
        assert "give partitions= (--partition)" in first.getMessage()
        with caplog.at_level(logging.INFO, "magicfs"):
            drop(scene, partitions="day=24", keep=None)
        [said] = [one for one in caplog.records if "dropping files of" in one.getMessage()]
        assert said.levelname == "INFO"
        assert "deleted for good: 1 file" in said.getMessage()
        assert "good-24" in said.getMessage()

    def test_the_command_says_it_too(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = (tmp_path / "sales").as_uri()
        for run in ("monday", "tuesday"):
            with (
                magicfs.Job(url, run_id=run, mode="overwrite", keep="7d") as job,
                job.task(0) as task,
            ):
                for day in (1, 2):
                    task.filesystem.pipe_file(f"{task.path}/day={day}/a.csv", run.encode())

        def said(*words: str, code: int = 0) -> str:
            assert main([*words]) == code
            found = capsys.readouterr()
            return found.out + found.err

        named = ("rollback", url, "--to", "monday")
        assert "takes back  tuesday" in said(*named, "--dry-run", code=1)
        found = json.loads(said(*named, "--partition", "day=1", "--keep", "7d", "--json"))
        assert found["effects"]["gone"]["files"] == found["effects"]["back"]["files"] == 1
        assert found["effects"]["publications"][0]["run_id"] == "tuesday"
        assert "would drop" in said("drop", url, "--partition", "day=2", "--dry-run", code=1)
        shown = str(magicfs.Dataset(url).drop(partitions="day=2", dry_run=True)).splitlines()
        assert "published_before False" in shown
        assert "files gone      1 file (7 B), such as day=2/a-0" in "\n".join(shown)
        assert "kept            for 7d" in shown
        assert "for good" in said("drop", url, "--partition", "day=2", "--no-keep")
        assert "kept        for 7d" in said(*named)
        assert "takes back" in said(*named, "--no-keep", "--dry-run", code=1)
        [newest] = magicfs.Dataset(url).history(limit=1).rows()
        assert (newest[2], newest[-1]) == ("rollback", f"to {magicfs.Dataset(url).history()[0].restores}")
        assert magicfs.Dataset(url).history().rows()[0][-1] == "to monday"
        assert "not allowed with" in said(*named, "--keep", "7d", "--no-keep", code=2)


class TestLoss:
    def test_nothing_is_lost_without_a_word(self, scene: JobScene):
        back(scene, "good-25")
        assert drop(scene, partitions="day=25").kept
        back(scene, "good-26")
        assert days(scene) == ALL

    def test_none_said_aloud_deletes_for_good(self, scene: JobScene):
        back(scene, "good-25", keep=None)
        with pytest.raises(ObjectNotFound):
            back(scene, "good-26", keep=None)

    def test_what_is_kept_by_others_needs_no_word(self, scene: JobScene):
        back(scene, "good-25", keep="7d")
        back(scene, "good-26")
        assert days(scene) == ALL
        back(scene, "good-24", partitions="day=25", keep="7d")
        assert drop(scene, partitions="day=25").files == 0

    def test_what_a_version_keeps_needs_no_word(self):
        scene = JobScene(DEST)
        scene.filesystem.world.keep_versions(BUCKET)
        put(scene, 24, "good-24")
        put(scene, 25, "good-25")
        back(scene, "good-24")
        back(scene, "good-25")
        assert days(scene) == {24: b"24", 25: b"25"}

    def test_a_run_that_was_published_before_is_not_asked_again(self, scene: JobScene):
        first = back(scene, "good-25", keep=None, run_id="undo")
        put(scene, 26, "good-26")
        second = back(scene, "good-25", run_id="undo")
        assert (second.published_before, second.job_id, second.effects.gone.files) == (True, first.job_id, 0)
        tidy = drop(scene, partitions="day=26", keep=None, run_id="tidy")
        put(scene, 26, "once more")
        assert drop(scene, partitions="day=26", run_id="tidy").job_id == tidy.job_id

    def test_the_default_reads_well(self):
        for verb in (magicfs.Dataset.rollback, magicfs.Dataset.drop):
            assert inspect.signature(verb).parameters["keep"].default is NOT_SAID
        assert repr(NOT_SAID) == "NOT_SAID"


class TestRuns:
    def test_one_that_was_taken_back_publishes_again(self, scene: JobScene):
        back(scene, "good-25", keep="7d")
        assert days(scene, as_of="good-26") == ALL
        assert put(scene, 24, "good-24").published_before, "it is older than what was led back to"
        assert put(scene, 26, "good-26").published
        assert put(scene, 26, "good-26").published_before
        assert days(scene) == {24: b"24", 25: b"25", 26: b"26"}

    def test_one_that_came_back_is_published(self, scene: JobScene):
        back(scene, "good-25", keep="7d")
        back(scene, "good-26", keep="7d")
        assert days(scene) == ALL
        for day, run in ((24, "good-24"), (25, "good-25"), (25, "bad-25"), (26, "good-26")):
            assert put(scene, day, run).published_before

    def test_one_that_an_ordinary_job_replaced_is_published(self, scene: JobScene):
        assert put(scene, 25, "good-25").published_before

    def test_one_that_was_replaced_and_then_taken_back_publishes_again(self, scene: JobScene):
        back(scene, "good-24", keep="7d")
        assert put(scene, 25, "good-25").published

    def test_partitions_take_back_what_lies_in_them(self, scene: JobScene):
        back(scene, "good-25", partitions="day=25", keep="7d")
        assert put(scene, 26, "good-26").published_before
        assert put(scene, 25, "good-25").published_before
        assert put(scene, 25, "bad-25").published
        back(scene, "good-24", partitions="day=25", keep="7d")
        assert put(scene, 25, "good-25").published

    @pytest.mark.parametrize("part", [True, False])
    def test_a_drop_takes_it_back_if_it_takes_all(self, scene: JobScene, part: bool):
        put_days(scene, {27: b"27", 28: b"28"}, "two")
        drop(scene, partitions="day=27", keep="7d")
        if not part:
            drop(scene, partitions="day=28", keep="7d")
        assert put_days(scene, {27: b"27", 28: b"28"}, "two").published_before == part

    def test_a_drop_that_was_taken_back_drops_again(self, scene: JobScene):
        drop(scene, partitions="day=26", keep="7d", run_id="tidy")
        assert drop(scene, partitions="day=26", keep="7d", run_id="tidy").published_before
        back(scene, "good-26", keep="7d")
        assert drop(scene, partitions="day=26", keep="7d", run_id="tidy").files == 1

    def test_rerun_fail_does_not_fail_for_it(self, scene: JobScene):
        back(scene, "good-25", keep="7d")
        assert put(scene, 26, "good-26", rerun="error").published

    def test_compaction_changes_none_of_it(self, scene: JobScene):
        back(scene, "good-25", keep="7d")
        for _ in range(2):
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
            put(scene, 30, "other")
        assert put(scene, 25, "good-25").published_before
        assert put(scene, 26, "good-26").published

    @pytest.mark.parametrize("compacted", [False, True])
    @pytest.mark.parametrize("partitions", [None, "day=25"])
    def test_an_earlier_job_of_the_run_that_is_shown_again_is_its_publication(
        self, scene: JobScene, partitions: str | None, compacted: bool
    ):
        first = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()[2].job_id
        put(scene, 25, "good-25", b"wrong", rerun="overwrite")
        back(scene, f"job:{first}", keep="7d", partitions=partitions)
        if compacted:
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
            put(scene, 30, "other")
        assert days(scene)[25] == b"25"
        assert put(scene, 25, "good-25", mode="append", keep=None).published_before
        assert days(scene)[25] == b"25"

    def test_a_run_that_was_dropped_after_it_was_published_again_publishes(self, scene: JobScene):
        put(scene, 25, "good-25", b"second", rerun="overwrite")
        drop(scene, partitions="day=25", keep="7d")
        assert put(scene, 25, "good-25", mode="append", keep=None).published

    def test_its_name_means_its_newest_publication(self, scene: JobScene):
        first = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()[0].job_id
        back(scene, "good-25", keep="7d")
        put(scene, 26, "good-26", b"again")
        put(scene, 27, "good-27")
        back(scene, "good-26", keep="7d")
        assert days(scene) == {24: b"24", 25: b"25", 26: b"again"}
        back(scene, f"job:{first}", keep="7d")
        assert days(scene) == ALL

    def test_what_joined_while_a_rollback_was_published_stays_published(self, scene: JobScene):
        # Between the commit point of a rollback and its place in the chain others may append.
        from magicfs.manifests import chain

        moved, publish = [], chain.publish

        async def late(*args: Any, **how: Any) -> bool:
            if not moved:
                moved.append(True)
                job = late_job
                scene.elsewhere(lambda engine: _appended(scene, engine, job))
            return await publish(*args, **how)

        late_job = scene.job("append", run_id="late")
        commits = scene.wrote(late_job, {"day=30/a.csv": b"30"})
        from magicfs.committers import registry

        async def _appended(scene: JobScene, engine: Any, job: magicfs.Job) -> None:
            committer = registry.make(job.spec.options.committer, job.spec.context, engine)
            await committer.commit_job(commits, job.found.driver)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chain, "publish", late)
            back(scene, "good-25", keep="7d")
        assert days(scene)[30] == b"30"
        assert put(scene, 30, "late", mode="append", keep=None).published_before


class TestRerunOfPartitions:
    def test_it_replaces_what_it_brings_and_takes_its_other_files(self, scene: JobScene):
        put_days(scene, {27: b"27", 28: b"28"}, "two")
        put(scene, 28, "beside", b"beside", mode="append", keep=None)
        report = put_days(scene, {27: b"new"}, "two", rerun="overwrite")
        assert report.published
        assert days(scene) == {**ALL, 27: b"new", 28: b"beside"}
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert sorted(scene.data().values()) == sorted([*scene_kept(scene), *days(scene).values()])

    def test_what_others_have_put_in_its_place_stays(self, scene: JobScene):
        put_days(scene, {27: b"27", 28: b"28"}, "two")
        put(scene, 28, "later", b"later")
        put_days(scene, {27: b"new"}, "two", rerun="overwrite")
        assert days(scene) == {**ALL, 27: b"new", 28: b"later"}

    def test_the_first_time_it_is_as_any(self, scene: JobScene):
        put(scene, 27, "new", rerun="overwrite")
        assert days(scene) == {**ALL, 27: b"27"}

    def test_without_keeping_the_files_are_deleted(self, scene: JobScene):
        put_days(scene, {27: b"27", 28: b"28"}, "two", keep=None)
        put_days(scene, {28: b"new"}, "two", rerun="overwrite", keep=None)
        assert not {b"27", b"28"} & set(scene.data().values())
        assert days(scene) == {**ALL, 28: b"new"}

    def test_nested_and_root_places_go_too(self, scene: JobScene):
        job = scene.job("append", run_id="mixed")
        job.commit(scene.wrote(job, {"day=40/h=1/a.csv": b"h", "a.csv": b"root"}))
        put(scene, 41, "mixed", rerun="overwrite")
        assert not any(one.startswith(("a-", "day=40")) for one in scene.manifest_files())
        assert days(scene) == {**ALL, 41: b"41"}

    @pytest.mark.parametrize("mode", ["append", "error"])
    def test_modes_that_replace_nothing_are_refused(self, scene: JobScene, mode: str):
        with pytest.raises(UsageError, match="replaces nothing"):
            scene.job(mode, run_id="x", rerun="overwrite")


def scene_kept(scene: JobScene) -> list[bytes]:
    """The bodies of what is there and not shown."""
    shown = scene.manifest_files()
    return [body for name, body in scene.data().items() if name not in shown]
