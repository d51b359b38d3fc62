"""``magicfs maintain --policy``: mistakes are named, living jobs are left, and the rest is looked after."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets.connection import open_destination
from magicfs.errors import AuditFailed, CommitDenied, UsageError
from magicfs.past import expire as past_expire
from magicfs.upkeep import dead_jobs, places, signs
from magicfs.upkeep.dead_jobs import Limits, end_dead_jobs
from magicfs.upkeep.leftovers import sweep_leftovers
from magicfs.upkeep.policy import Policy, read_policy

Said = Callable[..., Any]
ALL = """
exclude = ["tmp"]
[recover]
finish_after = "1s"
abort_after = "1s"
[sweep]
older_than = "1s"
[expire]
keep = {within = "1s", daily = 7, tagged = true}
[compact]
above = 2
[catalogs]
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two datasets, one below the other's parent, and files of nobody."""
    top = tmp_path / "lake 1+#%ü"
    for name in ("sales", "deep/er/visits"):
        for number in range(3):
            publish(top / name, f"day=d{number}/{number}.bin", mode="append")
    (top / "tmp").mkdir()
    (top / "other").mkdir()
    (top / "other" / "x.csv").write_text("x")
    return top


def publish(where: Path, name: str, **how: Any) -> magicfs.Job:
    with magicfs.Job(str(where), committer="magic", **how) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/{name}", b"12")
    return job


def open_job(where: Path, **how: Any) -> magicfs.Job:
    """A job whose driver has gone away after one task."""
    job = magicfs.Job(str(where), committer="magic", mode="append", **how)
    job.setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/late.bin", b"12")
    return job


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], str]:
    def written(text: str) -> str:
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return str(path)

    return written


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*words: str, status: int = 0) -> Any:
        assert main(["maintain", *words, "--json"]) == status
        shown = capsys.readouterr()
        return json.loads(shown.out or shown.err)

    return said


class TestPolicies:
    def test_each_part_gets_its_arguments(self, policy: Callable[[str], str]) -> None:
        found = read_policy(policy(ALL + '[rewrite]\nkeep = "last=2"\npartitions = ["day=d1"]\n'))
        assert found.exclude == ("tmp",)
        assert found.parts["recover"] == {"finish_after_ms": 1000, "abort_after_ms": 1000}
        assert found.parts["rewrite"] == {
            "rewrite": 128 * 2**20,
            "keep": magicfs.Keep(last=2),
            "partitions": ("day=d1",),
        }
        rule = magicfs.Keep(within="1s", daily=7, tagged=True)
        assert found.arguments(["expire", "compact"]) == {"expire_keep": rule, "compact_above": 2}
        assert read_policy(policy("[recover]")) == Policy({"recover": {"finish_after_ms": 600_000}})

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[expires]", "line 1: no part 'expires'; did you mean expire?"),
            ("[register]\ntable = 'db.t'", "line 1: no part 'register'; it runs from the command line only"),
            (
                "\n[recover]\n\nabort_afer = '1d'",
                "line 4: [recover] has no setting 'abort_afer'",
            ),
            ("[recover]\nabort_after = 7", "line 2: abort_after=7 is not a period of time"),
            ("[recover]\nabort_after = '7 days'", "line 2: abort_after='7 days' is not a period of time"),
            ("[rewrite]\ntarget = 128", "line 2: target=128 is not a size"),
            ("[rewrite]\ntarget = '0M'", "is not a size"),
            ("[compact]\nabove = true", "line 2: above=True is not a whole number"),
            ("[expire]\nkeep = {dayly = 7}", "line 2: keep has no rule 'dayly'; did you mean daily?"),
            ("[expire]\nkeep = '7d'", "line 2: keep has no rule '7d'"),
            ("[expire.keep]\ndaily = 'x'", "daily='x' is not a whole number"),
            ("[catalogs]\nmetastores = 'thrift://h'", "is not a list of texts"),
            ("exclude = 'tmp'\n[expire]", "line 1: exclude='tmp' is not a list of texts"),
            ("expire = true", "line 1: expire is not a table"),
            ("[[expire]]", "expire is not a table"),
            ("[compact]\nsettings = 1", "[compact] has no setting 'settings'"),
            ("", "it asks for nothing"),
            ("[expire", "is not TOML: "),
            ("[expire]\n[expire]", "is not TOML: "),
            ("x = '\x00'", "is not TOML: "),
            ("#" * 70_000, "larger than 65,536 bytes"),
        ],
    )
    def test_mistakes_are_named_with_their_line_and_nothing_is_done(
        self, text: str, problem: str, policy: Callable[[str], str], lake: Path, said: Said
    ) -> None:
        before = sorted(lake.rglob("*"))
        document = said(str(lake), "--policy", policy(text), status=2)
        assert document["kind"] == "UsageError"
        assert problem in document["message"]
        assert "nothing was changed" in document["message"]
        assert sorted(lake.rglob("*")) == before

    def test_all_mistakes_are_named_at_once(self, policy: Callable[[str], str]) -> None:
        with pytest.raises(UsageError, match=r"line 2: .*line 3: .*line 4: "):
            read_policy(policy("[recover]\nabort_after = 7\nfinsh_after = '1d'\n[swep]\n"))

    def test_what_is_no_text_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"\xff\xfe[")
        with pytest.raises(UsageError, match="is not UTF-8 text"):
            read_policy(str(tmp_path / "x"))
        for path in (str(tmp_path), str(tmp_path / "none.toml")):
            with pytest.raises(UsageError, match="cannot be read"):
                read_policy(path)


class TestPlaces:
    def test_datasets_are_found_the_deepest_first(self, lake: Path) -> None:
        found = open_destination(str(lake)).run(places.find_datasets)
        assert [one.url.rpartition("lake")[2].partition("/")[2] for one in found] == [
            "deep/er/visits",
            "sales",
        ]
        assert all(one.is_published for one in found)
        [only] = open_destination(str(lake)).run(places.find_datasets, exclude=["deep/*"])
        assert only.url.endswith("sales")

    def test_partitions_are_not_looked_into(self, lake: Path) -> None:
        publish(lake / "sales" / "day=d0" / "odd", "x.bin")
        publish(lake / "sales" / "below", "x.bin")
        found = open_destination(str(lake / "sales")).run(places.find_datasets)
        assert [one.url.rpartition("/")[2] for one in found] == ["below", "sales"]

    def test_a_job_alone_is_a_place(self, tmp_path: Path) -> None:
        open_job(tmp_path / "new")
        [found] = open_destination(str(tmp_path)).run(places.find_datasets)
        assert not found.is_published

    def test_a_mistyped_url_is_an_error(self, lake: Path, policy: Callable[[str], str], said: Said) -> None:
        for wrong in ("sale", "other", "tmp"):
            document = said(str(lake / wrong), "--policy", policy(ALL), status=2)
            assert "no dataset and no job of magicfs is at or below" in document["message"]

    def test_too_many_directories_are_refused(self, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(places, "_DIRECTORIES_MAX", 2)
        with pytest.raises(UsageError, match="more than 2 directories; nothing was changed"):
            open_destination(str(lake)).run(places.find_datasets)


class TestMaintain:
    def test_everything_is_done_for_each_dataset(
        self, lake: Path, policy: Callable[[str], str], said: Said
    ) -> None:
        first = magicfs.Dataset(str(lake / "sales")).history()[-1]
        publish(lake / "sales", "day=d0/n.bin", mode="overwrite", keep="1s")
        dead = open_job(lake / "deep/er/visits")
        time.sleep(2.2)
        how = str(lake), "--policy", policy(ALL)
        before = sorted(lake.rglob("*.json"))
        would = said(*how, "--dry-run", status=1)
        assert sorted(lake.rglob("*.json")) == before
        done = said(*how)
        assert [one["url"].rpartition("/")[2] for one in done["datasets"]] == ["visits", "sales"]
        visits, sales = done["datasets"]
        assert [*visits][2:] == ["recover", "expire", "compact", "catalogs", "sweep"]
        assert would["datasets"][0]["recover"][0]["action"] == "would abort"
        assert [(one["job_id"], one["action"]) for one in visits["recover"]] == [(str(dead.id), "aborted")]
        assert (visits["compact"]["manifests"], sales["compact"]["manifests"]) == (3, 4)
        assert (sales["expire"]["files"], done["exit_status"]) == (3, 0)
        assert first.job_id not in [one.job_id for one in magicfs.Dataset(str(lake / "sales")).history()[:1]]
        again = said(*how)
        assert [one["compact"]["manifest"] for one in again["datasets"]] == [None, None]
        assert magicfs.Dataset(str(lake / "deep/er/visits")).verify().ok

    def test_what_tags_and_days_hold_stays(
        self, lake: Path, policy: Callable[[str], str], said: Said
    ) -> None:
        at = magicfs.Dataset(str(lake / "sales"))
        at.tag("v1")
        publish(lake / "sales", "n.bin", mode="overwrite", keep="1s")
        time.sleep(2.2)
        said(str(lake / "sales"), "--policy", policy(ALL))
        assert len(at.files(as_of="v1")) == 3

    def test_only_some_parts_of_a_policy_are_done(
        self, lake: Path, policy: Callable[[str], str], said: Said
    ) -> None:
        done = said(str(lake), "--policy", policy(ALL), "--only", "expire", "--only", "rewrite")
        assert [[*one][2:] for one in done["datasets"]] == [["expire"], ["expire"]]

    def test_text_for_people_names_each_dataset(
        self, lake: Path, policy: Callable[[str], str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["maintain", str(lake), "--policy", policy(ALL), "--dry-run"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert sum(line.startswith("dataset") for line in lines) == 2
        assert lines[-1].startswith("next ")

    def test_a_job_in_the_way_is_left_for_the_next_run(
        self, lake: Path, policy: Callable[[str], str], said: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def denied(*_: object, **__: object) -> None:
            raise CommitDenied("job x is replacing files; nothing was deleted")

        monkeypatch.setattr(past_expire, "expire", denied)
        done = said(str(lake), "--policy", policy(ALL))
        assert done["datasets"][0]["expire"]["error"]["kind"] == "CommitDenied"
        assert magicfs.Dataset(str(lake / "sales")).verify().ok

    def test_a_broken_dataset_keeps_no_other_from_being_looked_after(
        self, lake: Path, policy: Callable[[str], str], said: Said
    ) -> None:
        for path in (lake / "deep/er/visits/_magicfs").glob("current.*"):
            path.write_text("{")
        done = said(str(lake), "--policy", policy(ALL), status=7)
        assert [one["exit_status"] for one in done["datasets"]] == [7, 0]
        assert done["datasets"][1]["compact"]["manifests"] == 3

    def test_where_only_a_job_works_nothing_else_is_needed(
        self, tmp_path: Path, policy: Callable[[str], str], said: Said
    ) -> None:
        job = open_job(tmp_path / "new")
        young = said(
            str(tmp_path), "--policy", policy(ALL.replace('abort_after = "1s"', 'abort_after = "1d"'))
        )
        [found] = young["datasets"][0]["recover"]
        assert (found["action"], found["decide"], young["exit_status"]) == ("left", False, 0)
        report = job.commit()
        assert report.files == 1


class TestDeadJobs:
    def ended(self, where: Path, **how: Any) -> list[dead_jobs.DeadJob]:
        limits = {"finish_s": 1.0, "abort_s": 1.0, **how}
        dry_run = limits.pop("dry_run", False)
        return open_destination(str(where)).run(end_dead_jobs, limits=Limits(**limits), dry_run=dry_run)

    def test_a_sign_of_life_saves_an_old_job(self, tmp_path: Path) -> None:
        job = open_job(tmp_path / "d")
        time.sleep(1.1)
        with job.task(1) as task:
            task.filesystem.pipe_file(f"{task.path}/more.bin", b"1")
        [found] = self.ended(tmp_path / "d")
        assert (found.action, found.decide) == ("left", False)
        assert job.commit().files == 2

    def test_an_upload_that_began_is_a_sign(self, tmp_path: Path) -> None:
        job = open_job(tmp_path / "d", options={"tracking": "memory"})
        time.sleep(1.1)
        with job.task(1) as task, task.filesystem.open(f"{task.path}/more.bin", "wb") as file:
            file.write(b"1")
            [found] = self.ended(tmp_path / "d")
            assert found.action == "left"

    @pytest.mark.parametrize("ahead", [900, -900, 86_400 * 365])
    def test_no_wrong_clock_of_the_store_makes_a_job_old(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
    ) -> None:
        job = open_job(tmp_path / "d")

        async def wrong(*_: object) -> float:
            return time.time() + ahead

        monkeypatch.setattr(signs, "now_of", wrong)
        [found] = self.ended(tmp_path / "d", abort_s=60)
        assert (found.action, found.decide) == ("left", True)
        assert f"the clock of the store differs from this one by {ahead:+.0f} s" in found.reason
        assert job.commit().files == 1

    def test_no_wrong_clock_here_makes_a_job_old(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = open_job(tmp_path / "d")
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() + 7 * 86_400)
        [found] = self.ended(tmp_path / "d", abort_s=86_400)
        monkeypatch.undo()
        assert (found.action, found.decide) == ("left", True)
        assert job.commit().files == 1

    def test_old_times_of_files_make_no_job_old(self, tmp_path: Path) -> None:
        """The clock of the store was behind while the job worked, and was set right since."""
        job = open_job(tmp_path / "d")
        for path in (tmp_path / "d").rglob("*"):
            os.utime(path, (1, 1))
        [found] = self.ended(tmp_path / "d", abort_s=60)
        assert found.action == "left"
        assert job.commit().files == 1

    def test_a_drivers_clock_that_is_ahead_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() + 7 * 86_400)
        open_job(tmp_path / "d")
        monkeypatch.undo()
        [found] = self.ended(tmp_path / "d")
        assert (found.action, found.decide, found.reason) == ("left", True, "its driver's clock was ahead")

    def test_without_a_limit_open_jobs_are_left(self, tmp_path: Path) -> None:
        open_job(tmp_path / "d")
        time.sleep(1.1)
        [found] = self.ended(tmp_path / "d", abort_s=None)
        assert (found.action, found.decide, found.reason) == ("left", False, "the policy has no abort_after")

    def test_a_job_that_waits_for_its_audit_is_for_a_person(self, tmp_path: Path) -> None:
        from magicfs.audit import Rows

        where = tmp_path / "d"
        job = magicfs.Job(str(where), committer="magic", mode="append", audit=[Rows(min=5)])
        job.setup()
        time.sleep(1.1)
        [found] = self.ended(where)
        assert (found.found, found.action, found.decide) == ("unjudged", "left", True)

    @pytest.mark.parametrize("limit", [None, 3600.0])
    def test_a_job_in_quarantine_is_for_a_person_however_young_it_is(
        self, tmp_path: Path, limit: float | None
    ) -> None:
        where = tmp_path / "d"
        job = magicfs.Job(str(where), committer="magic", audit=[lambda _: "no"]).setup()
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a", b"1")
        with pytest.raises(AuditFailed):
            job.commit()
        [found] = self.ended(where, abort_s=limit)
        assert (found.found, found.action, found.decide) == ("quarantined", "left", True)
        assert found.reason == "its audit waits for a decision"

    def test_a_malformed_job_object_is_for_a_person(self, tmp_path: Path) -> None:
        open_job(tmp_path / "d")
        for path in (tmp_path / "d").rglob("job*.json"):
            path.write_text("{}")
        [found] = self.ended(tmp_path / "d")
        assert (found.found, found.decide) == ("malformed", True)


class TestLeftovers:
    def sweep(self, where: Path, **how: Any) -> Any:
        return open_destination(str(where)).run(sweep_leftovers, **{"older_than_s": 1.0, **how})

    def test_what_a_late_task_left_goes_once_it_is_old(self, tmp_path: Path) -> None:
        where = tmp_path / "d"
        job = publish(where, "a.bin", mode="append")
        late = where / f"__magic_job-{job.id}/job-{job.id}/00/tasks/attempt-000001-x/__base/late.bin.pending"
        late.parent.mkdir(parents=True)
        late.write_text("{}")
        running = open_job(where)
        assert self.sweep(where, older_than_s=60.0) == []
        time.sleep(1.1)
        [would] = self.sweep(where, dry_run=True)
        assert (would.job_id, would.action) == (str(job.id), "would sweep")
        [done] = self.sweep(where)
        assert (done.job_id, done.action) == (str(job.id), "swept")
        assert self.sweep(where) == []
        assert not late.exists()
        assert running.commit().files == 1
