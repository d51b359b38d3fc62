"""``magicfs doctor``: what is right, what is not, what to do; and nothing is left of the looking."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.cli.main import main
from magicfs.engine import Engine
from magicfs.errors import AuditFailed, PermissionDenied
from magicfs.operate.checkup import DoctorReport, Finding
from magicfs.operate.upload_owners import shares_of
from magicfs.past.aside import cost_of
from magicfs.protocol.paths import parse_url
from magicfs.stores.memory.store import MemoryStore, MemoryVersions
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.job_scene import BUCKET, JobScene


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def look(scene: JobScene, url: str = "", **options: bool) -> DoctorReport:
    return magicfs.Dataset(url or scene.url, filesystem=scene.filesystem).doctor(**options)


def of(report: DoctorReport, subject: str) -> Finding:
    [found] = [one for one in report.findings if one.subject == subject]
    return found


def test_a_sound_destination_needs_nothing_and_keeps_nothing(scene: JobScene) -> None:
    with magicfs.Job(scene.url, filesystem=scene.filesystem) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a", b"1")
    before = scene.everything()
    report = look(scene)
    assert report.ok
    assert scene.everything() == before
    assert of(report, "dataset").told.startswith(f"the last published job is {job.id}")
    assert "every conditional request is honoured" in of(report, "write").told
    assert f"magicfs {magicfs.__version__}" in of(report, "versions").told
    assert "write" not in [one.subject for one in look(scene, read_only=True).findings]


def test_what_keeping_will_cost_is_said_before_and_after(scene: JobScene, tmp_path: Path) -> None:
    def publish(url: str, filesystem: Any, **how: Any) -> magicfs.report.JobReport:
        with magicfs.Job(url, filesystem=filesystem, **how) as job, job.task(0) as task:
            for name in "abc":
                task.filesystem.pipe_file(f"{task.path}/{name}", b"12")
        assert job.report is not None
        return job.report

    publish(scene.url, scene.filesystem)
    said = of(look(scene), "keep").told
    assert said == "if a job with keep= replaces all 3 files, the store copies 6 B in at most 6 requests"
    report = publish(scene.url, scene.filesystem, mode="overwrite", keep="7d")
    assert "kept        3 old files aside, 6 B copied in at most 6 requests" in str(report).splitlines()
    assert report.to_dict()["statistics"]["counters"]["files_copied_bytes"] == 6
    assert "kept" not in str(publish(scene.url, scene.filesystem, mode="overwrite"))

    here = f"file://{tmp_path}/d"
    publish(here, None)
    assert of(magicfs.Dataset(here).doctor(), "keep").told.endswith(
        "each gets a second name, and nothing is copied"
    )
    report = publish(here, None, mode="overwrite", keep="7d", committer="magic")
    assert "kept        3 old files aside, 0 B copied in at most 0 requests" in str(report).splitlines()


def test_large_files_are_counted_by_their_parts_as_on_the_page() -> None:
    row = "| 1 copy + 1 HEAD (none on Google); on S3, above 5 GiB, 1 for each 512 MiB + 3 |"
    assert f"moved aside {row}" in (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    gib = 2**30
    assert cost_of(MemoryStore("b"), [1, 5 * gib, 5 * gib + 1]) == (3, 10 * gib + 2, 2 + 2 + (3 + 11))


def test_an_unfinished_job_is_named_with_the_command(scene: JobScene) -> None:
    job = magicfs.Job(scene.url, filesystem=scene.filesystem, mode="append").setup()
    found = of(look(scene), "jobs")
    assert found.verdict == "look"
    assert job.id in found.told
    assert f"magicfs recover {scene.url} --dry-run" in found.advice
    below = of(look(scene, scene.url.rpartition("/")[0]), "jobs")
    assert (below.verdict, below.advice) == ("look", f"magicfs recover {scene.url}")


def test_a_table_or_a_file_in_the_place_is_wrong(scene: JobScene) -> None:
    scene.filesystem.pipe_file("bucket/sales/_delta_log/00000000000000000000.json", b"{}")
    found = of(look(scene), "place")
    assert (found.verdict, "is a table of Delta Lake" in found.told) == ("wrong", True)
    assert "choose another destination" in found.advice


def test_a_broken_pointer_is_wrong_and_says_how_to_make_it_again(scene: JobScene) -> None:
    scene.filesystem.pipe_file("bucket/sales/_magicfs/current.json", b"{")
    found = of(look(scene), "dataset")
    assert (found.verdict, found.error) == ("wrong", "FormatError")
    assert "magicfs recover" in found.advice


def test_a_store_that_ignores_conditions_is_wrong() -> None:
    ignoring = JobScene(ignores=frozenset({"put_if_absent", "put_if_match"}))
    found = of(look(ignoring), "write")
    assert (found.verdict, "it cannot keep two drivers of a job apart" in found.told) == ("wrong", True)
    half = JobScene(ignores=frozenset({"delete"}))
    assert "conditional requests for delete" in of(look(half), "write").told


def test_the_command_prints_and_says_by_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/a b%"
    assert main(["doctor", url]) == 3
    assert "-> check the URL, unless its first job is still to come" in capsys.readouterr().out
    assert [one.name for one in tmp_path.rglob("*")] == ["a b%"]
    (tmp_path / "a b%" / "a.bin").write_bytes(b"1")
    assert main(["doctor", url]) == 0
    said = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok ") for line in said)
    magicfs.Job(url, committer="magic", mode="append").setup()
    assert main(["doctor", url, "--read-only"]) == 1
    assert "-> if none of their drivers is running: magicfs recover" in capsys.readouterr().out
    assert main(["doctor", url, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["destination"], document["ok"]) == (url, False)
    assert {one["verdict"] for one in document["findings"]} == {"ok", "look"}
    assert main(["doctor", "nonsense"]) == 2


def test_help_leads_to_the_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "something does not work     magicfs doctor s3://bucket/sales" in capsys.readouterr().out


def test_recover_above_a_destination_says_where_the_job_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/lake/team/sales 1"
    job = magicfs.Job(url, committer="magic", mode="append").setup()
    assert main(["recover", f"file://{tmp_path}/lake"]) == 1
    assert f"  magicfs recover '{url}'\n" in capsys.readouterr().out
    assert magicfs.Dataset(tmp_path / "lake").recover().below == (url,)
    job.abort()
    (tmp_path / "lake" / "a.bin").write_bytes(b"1")
    assert main(["recover", f"file://{tmp_path}/lake"]) == 0


def test_it_says_whether_the_bucket_keeps_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = JobScene()
    assert "keeps no deleted" in of(look(scene), "bucket versions").told
    scene.filesystem.world.keep_versions(BUCKET)
    assert "use them to read" in of(look(scene), "bucket versions").told

    async def denied(_self: MemoryVersions) -> bool:
        raise PermissionDenied("versions_kept", BUCKET, "no s3:GetBucketVersioning")

    monkeypatch.setattr(MemoryVersions, "are_kept", denied)
    found = of(look(scene), "bucket versions")
    assert (found.verdict, "s3:GetBucketVersioning" in found.told) == ("ok", True)


class TestUploads:
    """Whose pending uploads are, and who can still use them."""

    @staticmethod
    def begun(scene: JobScene, key: str) -> None:
        store = scene.filesystem.store(BUCKET)
        sync(scene.filesystem.loop, store.create_upload, key, metadata={})

    @staticmethod
    def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        at = time.time() + seconds
        monkeypatch.setattr("magicfs.operate.upload_owners.time.time", lambda: at)

    @staticmethod
    def uploads(scene: JobScene, url: str = "") -> list[tuple[str, str, str]]:
        found = [one for one in look(scene, url, read_only=True).findings if one.subject == "uploads"]
        return [(one.verdict, one.told, one.advice) for one in found]

    def test_those_of_a_job_that_was_just_seen_are_in_use(self, scene: JobScene) -> None:
        job = scene.job("append")
        scene.wrote(job, {"a": b"123"})
        now = r"\d s ago \(20\S+ \S+Z\)"
        [(verdict, told, advice)] = self.uploads(scene)
        assert (verdict, advice) == ("ok", "")
        assert re.fullmatch(f"1 pending of job {job.id}, seen {now}, the oldest started {now}, 3 B", told)

    def test_those_of_a_job_that_is_silent_are_to_be_looked_at(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = scene.job("append")
        scene.wrote(job, {"a": b"123"})
        self.later(monkeypatch, 2 * 86_400 + 3 * 3600 + 30)
        [(verdict, told, advice)] = self.uploads(scene)
        assert verdict == "look"
        ago = r"2 d 3 h ago \(20\S+ \S+Z\)"
        assert re.fullmatch(
            f"1 pending of job {job.id}, last seen {ago}, the oldest started {ago}, 3 B", told
        )
        line = f"magicfs recover {scene.url} --job {job.id}"
        assert advice == f"if none of their drivers is running: {line} --commit, or {line} --abort"

    def test_a_fresh_upload_shows_that_an_old_job_runs(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = scene.job("append")
        self.later(monkeypatch, 7200)
        monkeypatch.setattr(scene.filesystem.world, "clock", time.time)
        scene.wrote(job, {"a": b"123"})
        assert [verdict for verdict, _, _ in self.uploads(scene)] == ["ok"]

    def test_those_of_a_quarantined_job_wait_for_a_decision(self, scene: JobScene) -> None:
        job = scene.job("append", audit=[lambda _: "never"])
        with pytest.raises(AuditFailed):
            job.commit(scene.wrote(job, {"a": b"123"}))
        [(verdict, told, advice)] = self.uploads(scene)
        assert (verdict, f"1 pending of job {job.id}, in quarantine" in told) == ("look", True)
        assert (
            f"magicfs recover {scene.url} --job {job.id} --commit --accept REASON, or magicfs recover"
            in advice
        )

    def test_those_of_an_ended_job_and_of_nobody_are_paid_for_without_use(self, scene: JobScene) -> None:
        job = scene.job("append")
        job.abort()
        self.begun(scene, f"sales/a-000000-{job.id}.parquet")
        self.begun(scene, "sales/x.parquet")
        ended, nobodys = self.uploads(scene)
        line = f"magicfs recover {scene.url} --job {job.id} --abort --driver-is-dead"
        assert (ended[0], ended[2], nobodys[0]) == ("look", line, "look")
        told = f"1 pending of job {job.id}, ended or unknown at this URL, the oldest started 0 s ago (20"
        assert ended[1].startswith(told)
        assert nobodys[1].startswith("1 pending of unknown programs, the oldest started 0 s ago (20")
        assert f"magicfs uploads {scene.url} lists them" in nobodys[2]

    def test_a_job_in_a_directory_above_is_not_taken_for_ended(self, scene: JobScene) -> None:
        job = scene.job("append")
        scene.wrote(job, {"day=1/a": b"123"})
        [(verdict, told, _)] = self.uploads(scene, f"{scene.url}/day=1")
        assert (verdict, f"1 pending of job {job.id}, seen" in told) == ("ok", True)

    def test_at_an_extra_destination_the_job_is_found_at_its_own(self, scene: JobScene) -> None:
        extra = f"memory://{BUCKET}/extra"
        job = scene.job("append", extra_destinations=[extra])
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path_to(extra)}/a", b"123")
        report = look(scene, extra, read_only=True)
        assert f"1 pending of job {job.id}, seen" in of(report, "uploads").told
        assert f"magicfs recover {scene.url} --dry-run" in of(report, "jobs").advice

    @pytest.mark.slow
    def test_requests_are_bounded(self, scene: JobScene) -> None:
        job = scene.job("append", unique_names=False)
        scene.wrote(job, *({f"{task}/a": b"1"} for task in range(150)))
        for number in range(1100):
            self.begun(scene, f"sales/0/{number:05}/x")
        counts = Counter[str]()
        engine = Engine(CountingStore(scene.plain, counts), 8)
        shares = asyncio.run(shares_of(engine, parse_url(scene.url)))
        assert counts.total() < 150, counts
        assert "1000 and more pending of unknown programs" in shares[0].sentence


def test_ages_are_told_as_people_say_them(scene: JobScene) -> None:
    scene.job("append")
    assert re.search(r"open, last moved \d s ago \(20\S+ \S+Z\) on ", of(look(scene), "jobs").told)


def test_verify_has_a_word_for_jobs_that_have_not_ended(scene: JobScene) -> None:
    scene.published({"a": b"1"})
    job = scene.job("append")
    report = magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify()
    assert (report.ok, report.unfinished) == (True, (job.id,))
    [advice] = report.advice
    assert advice.endswith(f"if none of their drivers is running: magicfs recover {scene.url} --dry-run")
