"""What the driver of a job with catalogs has not registered when it died, and who registers it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import magicfs
from magicfs.catalogs import CaughtUp, Delta, DuckLake, Glue, Iceberg, SymlinkManifest, catch_up
from magicfs.catalogs import in_jobs as job_catalogs
from magicfs.cli.main import main
from magicfs.errors import FormatError
from magicfs.manifests import registrations
from proofs.scenes.catalog_scene import CatalogScene, parquet
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"


class Died(BaseException):
    """A driver that is not there any more."""


@pytest.fixture
def scene() -> JobScene:
    return JobScene(DEST)


def dies_before_it_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> None:
        raise Died

    monkeypatch.setattr(job_catalogs, "shown_by", die)


def published(scene: JobScene, *catalogs: Any, **how: Any) -> magicfs.Job:
    """A job whose driver died after the commit, before it had registered."""
    with pytest.MonkeyPatch.context() as patch:
        dies_before_it_registers(patch)
        job = scene.job(catalogs=list(catalogs), **how)
        commits = scene.wrote(job, {"p=1/f.bin": b"1"})
        with pytest.raises(Died):
            job.commit(commits)
    return job


def notes(scene: JobScene) -> list[str]:
    return scene.below("_magicfs/.catalogs")


def listed(scene: JobScene) -> str:
    return "".join(
        scene.objects()[f"{DEST}/{one}"][0].decode() for one in scene.below("_symlink_format_manifest")
    )


def again(scene: JobScene, **how: Any) -> list[tuple[str, str]]:
    return [(one.catalog, one.done) for one in catch_up(scene.url, filesystem=scene.filesystem, **how)]


def test_what_is_registered_leaves_no_note(scene: JobScene):
    scene.published({"f.bin": b"1"}, catalogs=[SymlinkManifest()])
    scene.published({"f.bin": b"2"}, run_id="monday", catalogs=[SymlinkManifest()])
    scene.published({"f.bin": b"3"}, run_id="monday", catalogs=[SymlinkManifest()])
    assert notes(scene) == []
    before = scene.everything()
    assert again(scene) == []
    assert scene.everything() == before


def test_what_was_not_is_registered_once(scene: JobScene):
    job = published(scene, SymlinkManifest())
    assert len(notes(scene)) == 1
    assert listed(scene) == ""
    before = scene.everything()
    assert again(scene, dry_run=True) == [("symlink", "would register")]
    assert scene.everything() == before
    assert again(scene) == [("symlink", "registered")]
    assert listed(scene).count(job.id) == 1
    assert notes(scene) == []
    assert again(scene) == []


def test_later_jobs_and_calls_of_register_settle_it_too(scene: JobScene):
    published(scene, SymlinkManifest())
    published(scene, SymlinkManifest(), mode="append")
    assert len(notes(scene)) == 2
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).register(SymlinkManifest())
    assert notes(scene) == []
    published(scene, SymlinkManifest())
    scene.published({"g.bin": b"2"}, catalogs=[SymlinkManifest()])
    assert notes(scene) == []


def test_a_sum_in_between_hides_nothing(scene: JobScene):
    job = published(scene, SymlinkManifest())
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    scene.published({"g.bin": b"2"})
    assert again(scene) == [("symlink", "registered")]
    assert listed(scene).count(job.id) == 1
    assert notes(scene) == []


def test_a_job_that_has_not_ended_is_left_alone_and_one_that_was_aborted_is_forgotten(scene: JobScene):
    job = scene.job(catalogs=[SymlinkManifest()])
    job_catalogs.note(job.spec, [SymlinkManifest()])
    assert again(scene) == []
    assert len(notes(scene)) == 1
    job.abort()
    assert notes(scene) == []
    other = scene.job(catalogs=[SymlinkManifest()])
    job_catalogs.note(other.spec, [SymlinkManifest()])
    scene.recover(abort=True)
    assert again(scene, dry_run=True) == [("symlink", "forgotten")]
    assert len(notes(scene)) == 1
    assert again(scene) == [("symlink", "forgotten")]
    assert notes(scene) == scene.below("_symlink_format_manifest") == []


def test_a_job_that_recover_finishes_is_registered(scene: JobScene):
    from magicfs.testing.store_faults import Fault, Kind

    job = scene.job(catalogs=[SymlinkManifest()])
    commits = scene.wrote(job, {"f.bin": b"1"})
    job_catalogs.note(job.spec, [SymlinkManifest()])
    assert scene.commit(job, commits, Fault(Kind.CRASH_AFTER, operation="complete_upload")) is None
    assert again(scene) == []
    scene.recover()
    assert again(scene) == [("symlink", "registered")]
    assert listed(scene).count(job.id) == 1


def test_one_that_fails_keeps_its_note_and_the_others_are_registered(scene: JobScene):
    published(scene, Delta(), SymlinkManifest())
    found = {one.catalog: one for one in catch_up(scene.url, filesystem=scene.filesystem)}
    assert found["symlink"].done == "registered"
    assert found["delta"].done == "not registered"
    assert "memory://" in found["delta"].problem
    assert found["delta"].line == f"magicfs maintain '{scene.url}' --register delta"
    assert len(notes(scene)) == 1


def test_what_only_a_program_can_reach_is_said_with_the_line(scene: JobScene):
    secret = Delta(storage_options={"AWS_SECRET_ACCESS_KEY": "s3cr3t"})
    lake = DuckLake(object(), "lake", "sales")
    published(scene, secret, lake)
    assert b"s3cr3t" not in b"".join(body for body, *_ in scene.objects().values())
    found = {one.catalog: one for one in catch_up(scene.url, filesystem=scene.filesystem)}
    assert {one.done for one in found.values()} == {"not registered"}
    assert (
        found["ducklake"].line
        == f"magicfs.Dataset({scene.url!r}).register(DuckLake(connection, 'lake', 'sales', 'main'))"
    )
    assert "storage_options" in found["delta"].line
    assert len(notes(scene)) == 2


def test_a_malformed_note_is_an_error_that_names_it(scene: JobScene):
    published(scene, SymlinkManifest())
    [name] = notes(scene)
    scene.put(name, b"{}")
    with pytest.raises(FormatError, match=r"_magicfs/\.catalogs/.*\.json"):
        again(scene)
    # A later registration works, and leaves it.
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).register(SymlinkManifest())


class Moments:
    """Counts what a driver does about its notes; before or after one of them it dies."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at = dies_at
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.dies_at:
            raise Died

    def around(self, work: Any) -> Any:
        async def watched(*args: Any, **how: Any) -> Any:
            self()
            result = await work(*args, **how)
            self()
            return result

        return watched


def test_a_driver_that_dies_before_or_after_any_of_it_leaves_what_can_be_caught_up(
    monkeypatch: pytest.MonkeyPatch,
):
    at, died = 0, True
    while died:
        at += 1
        place, moments = JobScene(DEST), Moments(at)
        job = place.job(catalogs=[SymlinkManifest()])
        commits = place.wrote(job, {"f.bin": b"1"})
        with monkeypatch.context() as patch:
            for name in ("write", "all_registrations", "remove"):
                patch.setattr(registrations, name, moments.around(getattr(registrations, name)))
            try:
                job.commit(commits)
                died = False
            except Died:
                died = True
        if place.state(job) is None:
            again(place)
            assert listed(place).count(job.id) == 1
        else:
            place.recover(abort=True)
            again(place)
            assert place.below("_symlink_format_manifest") == []
        assert notes(place) == []
    assert at > 4


class TestByName:
    @pytest.fixture
    def place(self, tmp_path: Path) -> CatalogScene:
        (tmp_path / "catalog").mkdir()
        return CatalogScene(f"{tmp_path}/día 50% + #1/sales", tmp_path / "catalog")

    def test_delta_and_iceberg(self, place: CatalogScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        catalog = place.iceberg_catalog()
        with pytest.MonkeyPatch.context() as patch:
            dies_before_it_registers(patch)
            job = magicfs.Job(place.url, catalogs=[Delta(), Iceberg(catalog, "db.sales")])
            with pytest.raises(Died), job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/p=a/f.parquet", parquet(1, 2))
        raw = b"".join(one.read_bytes() for one in Path(place.url).rglob("_magicfs/.catalogs/*.json"))
        uri = catalog.properties["uri"]
        assert uri.encode() not in raw
        # In a process whose configuration names the catalog.
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.setenv("PYICEBERG_HOME", str(home))
        found = {one.catalog: one for one in catch_up(place.url)}
        assert found["delta"].done == "registered"
        assert found["iceberg"].done == "not registered", "nobody has told of it here"
        properties = {"type": "sql", **catalog.properties}
        monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda name: SqlCatalog(name, **properties))
        other = {**properties, "uri": f"sqlite:///{tmp_path}/other.db"}
        with monkeypatch.context() as patch:
            patch.setattr("pyiceberg.catalog.load_catalog", lambda name: SqlCatalog(name, **other))
            [one] = catch_up(place.url)
            assert one.done == "not registered"
            assert "is not the one that job" in one.problem
        assert [one.done for one in catch_up(place.url)] == ["registered"]
        assert catch_up(place.url) == ()
        assert place.table_rows("iceberg") == place.rows() == place.table_rows("delta")

    def test_the_command(self, place: CatalogScene, capsys: pytest.CaptureFixture[str]):
        def run() -> magicfs.Job:
            with pytest.MonkeyPatch.context() as patch:
                dies_before_it_registers(patch)
                job = magicfs.Job(
                    place.url,
                    mode="append",
                    catalogs=[SymlinkManifest(), DuckLake(object(), "lake", "sales")],
                )
                with pytest.raises(Died), job, job.task(0) as task:
                    task.filesystem.pipe_file(f"{task.path}/p=a/f.parquet", parquet(1))
            return job

        job = run()
        assert main(["recover", place.url, "--dry-run"]) == 1
        assert "would register" in capsys.readouterr().out
        assert main(["recover", place.url]) == 1
        out = capsys.readouterr().out
        assert "no unfinished job" in out
        assert "registered" in out
        assert "DuckLake(connection, 'lake', 'sales', 'main')" in out
        assert job.id in out
        assert main(["recover", place.url, "--json"]) == 1
        [table] = json.loads(capsys.readouterr().out)["catalogs"]
        assert (table["catalog"], table["done"]) == ("ducklake", "not registered")
        note = next(Path(place.url).rglob("_magicfs/.catalogs/*.json"))
        assert main(["show", str(note)]) == 0
        assert "registration" in capsys.readouterr().out
        note.unlink()
        assert main(["recover", place.url]) == 0


def test_what_is_noted_of_glue_is_no_secret():
    class Meta:
        region_name = "eu-west-1"
        endpoint_url = "https://key:secret@glue.example"

    class Client:
        meta = Meta()

    told = Glue(Client(), "db", "sales").options()
    assert told is not None
    assert "secret" not in str(told)
    assert told["region"] == "eu-west-1"
    assert Glue(object(), "db", "sales").options() is None
    assert isinstance(CaughtUp("j", "glue", "db.sales", "registered").to_dict(), dict)
