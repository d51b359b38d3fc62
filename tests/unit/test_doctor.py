"""``magicfs doctor``: what is right, what is not, what to do; and nothing is left of the looking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets.checkup import DoctorReport, Finding
from magicfs.errors import PermissionDenied
from magicfs.stores.memory import MemoryVersions
from proofs.scenes.job_scene import BUCKET, JobScene


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def look(scene: JobScene, url: str = "", **options: bool) -> DoctorReport:
    return magicfs.doctor(url or scene.url, filesystem=scene.filesystem, **options)


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
    assert of(report, "dataset").told.startswith(f"job {job.id} was published last")
    assert "every conditional request is honoured" in of(report, "write").told
    assert f"magicfs {magicfs.__version__}" in of(report, "versions").told
    assert "write" not in [one.subject for one in look(scene, read_only=True).findings]


def test_an_unfinished_job_is_named_with_the_command(scene: JobScene) -> None:
    job = magicfs.Job(scene.url, filesystem=scene.filesystem, conflict="append").setup()
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
    assert (found.verdict, "two drivers could not be told apart" in found.told) == ("wrong", True)
    half = JobScene(ignores=frozenset({"delete"}))
    assert "ignores delete" in of(look(half), "write").told


def test_the_command_prints_and_says_by_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/a b%"
    assert main(["doctor", url]) == 0
    assert [one.name for one in tmp_path.rglob("*")] == ["a b%"]
    said = capsys.readouterr().out.splitlines()
    assert all(line.startswith("ok ") for line in said)
    magicfs.Job(url, committer="magic", conflict="append").setup()
    assert main(["doctor", url, "--read-only"]) == 1
    assert "-> if no driver of theirs lives: magicfs recover" in capsys.readouterr().out
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
    job = magicfs.Job(url, committer="magic", conflict="append").setup()
    assert main(["recover", f"file://{tmp_path}/lake"]) == 1
    assert f"  magicfs recover {url}\n" in capsys.readouterr().out
    assert magicfs.recover(tmp_path / "lake").below == (url,)
    job.abort()
    assert main(["recover", f"file://{tmp_path}/lake"]) == 0


def test_it_says_whether_the_bucket_keeps_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = JobScene()
    assert "keeps none" in of(look(scene), "bucket versions").told
    scene.filesystem.world.keep_versions(BUCKET)
    assert "read by them" in of(look(scene), "bucket versions").told

    async def denied(_self: MemoryVersions) -> bool:
        raise PermissionDenied("versions_kept", BUCKET, "no s3:GetBucketVersioning")

    monkeypatch.setattr(MemoryVersions, "are_kept", denied)
    found = of(look(scene), "bucket versions")
    assert (found.verdict, "s3:GetBucketVersioning" in found.told) == ("ok", True)
