"""The difference of publications, partitions that go back by a condition, and the files of one job again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.past.cherry_pick import cherry_pick
from magicfs.protocol import paths
from magicfs.protocol.ids import job_id
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.job_scene import BUCKET, JobScene

pytestmark = pytest.mark.sample(most=3)

DEST = "env=prod/día 50% + #1"
PICK = job_id("12345678-8a4b-4f0e-9d5a-0c1b2a3d4e5f")


@pytest.fixture(params=["aside", "in place", "versions"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    made = JobScene(DEST)
    made.how = {"keep_in_place": True} if request.param == "in place" else {}
    if request.param == "versions":
        made.filesystem.world.keep_versions(BUCKET)
    return made


def dataset(scene: JobScene) -> magicfs.Dataset:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem)


def read(scene: JobScene) -> list[bytes]:
    return sorted(scene.filesystem.cat_file(one.url) for one in dataset(scene).files())


def days(scene: JobScene, *numbers: int, value: str, **how: Any) -> str:
    files = {f"day=2026-01-0{one}/a.bin": f"{value}{one}".encode() for one in numbers}
    return scene.published(files, **how).id


class TestDiff:
    def test_says_files_bytes_and_partitions(self, scene: JobScene):
        a = days(scene, 1, 2, value="a")
        b = days(scene, 2, 3, value="bb", mode="overwrite_partitions", keep="7d", **scene.how)
        found = dataset(scene).diff(a)
        assert (found.before, found.after) == (a, b)
        assert (found.added.files, found.added.bytes, found.removed.files, found.removed.bytes) == (
            2,
            6,
            1,
            2,
        )
        assert found.partitions == ("day=2026-01-02", "day=2026-01-03")
        assert (found.rows_added, found.rows_removed, found.columns) == (None, None, ())
        back = dataset(scene).diff(b, a)
        assert (back.added, back.removed) == (found.removed, found.added)
        assert dataset(scene).diff(a, a).added.files == 0
        json.dumps(found.to_dict())

    def test_a_copy_is_the_file_that_was_copied(self, scene: JobScene):
        a = days(scene, 1, 2, value="a")
        days(scene, 1, value="b", mode="overwrite", keep="7d", **scene.how)
        dataset(scene).rollback(a)
        found = dataset(scene).diff(a)
        assert (found.added.files, found.removed.files, found.partitions) == (0, 0, ())

    def test_rows_and_columns_where_jobs_collect_them(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ):
        url = str(tmp_path / "sales 50% #1")
        how: dict[str, Any] = {"partition_by": ["day"], "options": {"footers": True}}
        one = magicfs.write(pa.table({"day": ["a"], "n": [1], "x": [1]}), url, **how).job_id
        new = pa.table({"day": ["a", "b"], "n": ["1", "2"], "y": [1.0, 2.0]})
        two = magicfs.write(new, url, mode="overwrite", keep="7d", **how).job_id
        found = magicfs.Dataset(url).diff(one, two)
        assert (found.rows_added, found.rows_removed) == (2, 1)
        assert found.columns == ("+ y: double", "- x: int64", "n: int64 -> string")
        assert main(["log", url, "--diff", one, two, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found.to_dict()))
        assert main(["log", url, "--diff", one, two]) == 0
        assert "+ y: double" in capsys.readouterr().out

    def test_nobody_published_is_an_error(self, scene: JobScene):
        days(scene, 1, value="a")
        with pytest.raises(ObjectNotFound):
            dataset(scene).diff("nobody")


class TestRollbackWhere:
    def test_only_partitions_that_meet_the_condition(self, scene: JobScene):
        a = days(scene, 1, 2, 3, value="a")
        days(scene, 1, 2, 3, 4, value="b", mode="overwrite", keep="7d", **scene.how)
        report = dataset(scene).rollback(a, where="day >= '2026-01-03' or day = '2026-01-01'")
        assert read(scene) == [b"a1", b"a3", b"b2"]
        assert report.effects.gone.files == 3

    @pytest.mark.parametrize(
        ("where", "said"),
        [("day > '2027'", "no partition"), ("n = 1", "no partition value for n"), ("day >", "ends")],
    )
    def test_what_means_nothing_is_refused(self, scene: JobScene, where: str, said: str):
        a = days(scene, 1, value="a")
        before = scene.objects()
        with pytest.raises(UsageError, match=said):
            dataset(scene).rollback(a, where=where)
        with pytest.raises(UsageError, match="not both"):
            dataset(scene).rollback(a, where="day = 'x'", partitions="day=x")
        assert scene.objects() == before


class TestCherryPick:
    def test_adds_what_one_job_had_added(self, scene: JobScene):
        days(scene, 1, value="a")
        picked = days(scene, 2, 3, value="b")
        days(scene, 4, value="c", mode="overwrite", keep="7d", **scene.how)
        days(scene, 5, value="d")
        would, before = dataset(scene).cherry_pick(picked, dry_run=True), scene.objects()
        assert (would.effects.back.files, scene.objects()) == (2, before)
        report = dataset(scene).cherry_pick(picked)
        assert (report.files, report.mode) == (2, "append")
        assert read(scene) == [b"b2", b"b3", b"c4", b"d5"]
        assert dataset(scene).verify().ok
        with pytest.raises(UsageError, match="all files of job"):
            dataset(scene).cherry_pick(picked)
        assert read(scene) == [b"b2", b"b3", b"c4", b"d5"]
        assert scene.work() == scene.uploads() == []

    def test_only_what_lacks(self, scene: JobScene):
        picked = days(scene, 1, 2, value="a")
        days(scene, 1, value="b", mode="overwrite_partitions", keep="7d", **scene.how)
        assert dataset(scene).cherry_pick(picked, run_id="again").files == 1
        assert read(scene) == [b"a1", b"a2", b"b1"]
        assert dataset(scene).cherry_pick(picked, run_id="again").published_before

    def test_of_what_is_gone_is_refused(self):
        scene = JobScene(DEST)
        picked = days(scene, 1, value="a")
        days(scene, 1, value="b", mode="overwrite")
        with pytest.raises(ObjectNotFound, match=f"of the dataset as of job {picked}"):
            dataset(scene).cherry_pick(picked)
        assert (read(scene), scene.work()) == ([b"b1"], [])

    def test_the_command(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales")
        one = magicfs.write(pa.table({"n": [1]}), url).job_id
        magicfs.write(pa.table({"n": [2]}), url, mode="overwrite", keep="7d")
        assert main(["rollback", url, "--to", one, "--cherry-pick", "--partition", "x"]) == 2
        assert main(["rollback", url, "--to", one, "--cherry-pick"]) == 0
        assert sorted(magicfs.Dataset(url).to_arrow().to_table()["n"].to_pylist()) == [1, 2]
        capsys.readouterr()

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_dies_anywhere(self, kind: Kind):
        ends = set()
        for number in range(1, 100):
            scene = JobScene(DEST)
            picked = days(scene, 1, 2, value="a")
            days(scene, 3, value="b", mode="overwrite", keep="7d")
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            how: dict[str, Any] = {"which": picked, "dry_run": False, "run_id": None, "job": PICK}
            done = scene.lived(lambda: cherry_pick(engine, place, **how))  # noqa: B023
            for _ in range(2):
                scene.recover()
            if scene.work():
                dataset(scene).recover(abort=True)
            ends.add(tuple(read(scene)))
            assert scene.work() == scene.uploads() == []
            assert scene.bodies() == read(scene)
            if done is not None:
                break
        assert 20 < number < 99, "every request"
        assert ends == {(b"b3",), (b"a1", b"a2", b"b3")}
