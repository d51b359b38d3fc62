"""Datasets that are made readable again after a manifest was lost."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets.repair import repair_chain
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound, UsageError
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=3)

DEST = "env=prod/día 50% + #1"


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


def shown(scene: JobScene) -> list[bytes]:
    async def read(engine: Any) -> list[bytes]:
        found = await chain.view(engine.store, DEST, READING)
        assert not found.older_files
        return sorted([await engine.store.get(paths.join(DEST, key)) for key in found.files])

    return scene.elsewhere(read)


def repair(scene: JobScene, **how: Any) -> magicfs.RepairReport:
    return magicfs.repair(scene.url, filesystem=scene.filesystem, **how)


def lose(scene: JobScene, job: magicfs.Job, how: str = "gone") -> None:
    name = f"_magicfs/{job.id}.json"
    if how == "gone":
        scene.delete(name)
    else:
        scene.put(name, {"empty": b"", "cut": b'{"format": "magicfs.mani', "other": b"{}"}[how])
    with pytest.raises(FormatError):
        shown(scene)


class TestRepair:
    @pytest.mark.parametrize("how", ["gone", "empty", "cut", "other"])
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_each_manifest_can_be_lost(self, scene: JobScene, which: int, how: str):
        jobs = [scene.published({f"p={n}/a b.bin": str(n).encode()}) for n in range(3)]
        lose(scene, jobs[which], how)
        before = scene.everything()
        would = repair(scene, dry_run=True)
        assert scene.everything() == before
        report = repair(scene)
        assert report.lost == would.lost == jobs[which].id
        assert report.files == 3
        assert len(report.recovered) == which + 1, "its own, and those of the jobs before it"
        assert (report.missing, would.recovered) == ((), report.recovered)
        assert shown(scene) == [b"0", b"1", b"2"]
        assert magicfs.verify(scene.url, filesystem=scene.filesystem).ok
        assert repair(scene).lost is None
        scene.published({"p=3/d.bin": b"3"})
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        magicfs.compact(scene.url, filesystem=scene.filesystem)
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        magicfs.drop(scene.url, partitions="p=0", filesystem=scene.filesystem, keep_replaced=None)
        assert shown(scene) == scene.bodies() == [b"1", b"2", b"3"]

    def test_what_jobs_have_replaced_and_keep_does_not_come_back(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        second = scene.published({"p=1/a.bin": b"3"}, conflict="replace_partitions", keep_replaced="7d")
        third = scene.published({"p=2/b.bin": b"4"}, conflict="replace_partitions", keep_replaced="7d")
        for lost in (first, second, third):
            copy = JobScene(DEST, world=scene.filesystem.world)
            kept = scene.objects()[f"{DEST}/_magicfs/{lost.id}.json"][0]
            scene.delete(f"_magicfs/{lost.id}.json")
            assert repair(copy, dry_run=True).files == 2, lost.id
            scene.put(f"_magicfs/{lost.id}.json", kept)
        lose(scene, second)
        repair(scene)
        assert shown(scene) == [b"3", b"4"]
        assert len(scene.data()) == 4, "nothing was deleted"

    def test_files_that_are_gone_are_told_of(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2", "c.bin": b"3"})
        lose(plain, first)
        [gone] = [name for name in plain.data() if name.startswith("b")]
        [over] = [name for name in plain.data() if name.startswith("c")]
        plain.delete(gone)
        plain.put(over, b"somebody else's")
        report = repair(plain)
        assert report.missing == (gone, over)
        assert b"1" in shown(plain)

    def test_a_run_that_was_lost_is_not_published_again(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"}, run_id="monday")
        scene.published({"b.bin": b"2"})
        lose(scene, first)
        repair(scene)
        again = scene.job(run_id="monday")
        assert again.found.published == first.id

    def test_a_sum_that_is_lost(self, scene: JobScene):
        scene.published({"a.bin": b"1"})
        scene.published({"b.bin": b"2"})
        magicfs.compact(scene.url, filesystem=scene.filesystem)
        scene.published({"c.bin": b"3"})
        [name] = [one for one in scene.below("_magicfs/compact-") if one.count("/") == 1]
        scene.delete(name)
        with pytest.raises(FormatError):
            shown(scene)
        assert len(repair(scene).recovered) == 2
        assert shown(scene) == [b"1", b"2", b"3"]

    def test_nothing_is_changed_where_nothing_is_wrong(self, scene: JobScene):
        with pytest.raises(ObjectNotFound, match="neither a pointer nor a manifest"):
            repair(scene)
        scene.published({"a.bin": b"1"})
        before = scene.everything()
        assert repair(scene) == magicfs.RepairReport(scene.url)
        assert scene.everything() == before

    def test_an_unfinished_job_is_waited_for(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2"})
        job = plain.job()
        lose(plain, first)
        with pytest.raises(UsageError, match="unfinished"):
            repair(plain)
        job.abort()
        assert repair(plain).lost == first.id


POINTER = "_magicfs/current"


def lose_pointer(scene: JobScene, how: str = "gone") -> None:
    """All versions of the pointer are gone, or the one that counts is malformed."""
    names = scene.below(POINTER)
    if how == "gone":
        for name in names:
            scene.delete(name)
    else:
        scene.put(max(names, key=lambda one: (len(one), one)), b"{")


class TestPointerAndManifest:
    @pytest.mark.parametrize("how", ["gone", "cut"])
    @pytest.mark.parametrize("pointer", ["gone", "malformed"])
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_each_manifest_can_be_lost_with_the_pointer(
        self, scene: JobScene, which: int, pointer: str, how: str
    ):
        jobs = [scene.published({f"p={n}/a b.bin": str(n).encode()}, run_id=f"run {n}") for n in range(3)]
        lose(scene, jobs[which], how)
        lose_pointer(scene, pointer)
        before = scene.everything()
        would = repair(scene, dry_run=True)
        assert scene.everything() == before
        report = repair(scene)
        assert report.lost == would.lost == jobs[which].id
        assert report.newest == would.newest == jobs[1 if which == 2 else 2].id
        assert POINTER in report.problem
        assert jobs[which].id in report.problem
        assert (report.files, report.missing, report.recovered) == (3, (), would.recovered)
        assert shown(scene) == [b"0", b"1", b"2"]
        assert magicfs.verify(scene.url, filesystem=scene.filesystem).ok
        assert repair(scene).problem == ""
        for n in {0, 1, 2} - {which}:
            assert scene.job(run_id=f"run {n}").found.published == jobs[n].id
        scene.published({"p=3/d.bin": b"3"})
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        magicfs.drop(scene.url, partitions="p=0", filesystem=scene.filesystem, keep_replaced=None)
        assert shown(scene) == scene.bodies() == [b"1", b"2", b"3"]

    @pytest.mark.parametrize("pointer", ["gone", "malformed"])
    def test_the_pointer_alone(self, scene: JobScene, pointer: str):
        jobs = [
            scene.published(
                {f"{n}.bin": str(n).encode()}, run_id=f"run {n}", conflict=mode, keep_replaced=keep
            )
            for n, (mode, keep) in enumerate([("append", None), ("replace", "7d"), ("append", None)])
        ]
        scene.put("foreign.bin", b"?")
        lose_pointer(scene, pointer)
        before = scene.everything()
        would = repair(scene, dry_run=True)
        assert scene.everything() == before
        report = repair(scene)
        assert report == would
        assert (report.lost, report.newest, report.manifest, report.recovered) == (None, jobs[2].id, None, ())
        assert report.files == 2
        assert shown(scene) == [b"1", b"2"]
        assert scene.job(run_id="run 0").found.published == jobs[0].id
        found = magicfs.history(scene.url, filesystem=scene.filesystem)
        assert [one.job_id for one in found] == [one.id for one in reversed(jobs)]
        assert found[1].kept_until is not None

    @pytest.mark.parametrize("mode", ["replace", "replace_partitions"])
    def test_what_a_lost_newest_job_has_replaced_and_keeps_does_not_come_back(
        self, scene: JobScene, mode: str
    ):
        scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        newest = scene.published({"p=1/c.bin": b"3"}, conflict=mode, keep_replaced="7d")
        lose(scene, newest)
        lose_pointer(scene)
        report = repair(scene)
        assert report.lost == newest.id
        assert shown(scene) == ([b"3"] if mode == "replace" else [b"2", b"3"])
        assert len(scene.data()) == 3, "nothing was deleted"

    def test_what_a_lost_newest_job_has_replaced_and_deleted_is_told_as_missing(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        [old] = scene.data()
        newest = scene.published({"b.bin": b"2"}, conflict="replace")
        lose(scene, newest)
        lose_pointer(scene)
        report = repair(scene)
        assert (report.lost, report.newest, report.missing) == (newest.id, first.id, (old,))
        assert shown(scene) == [b"2"]

    def test_several_are_lost(self, scene: JobScene):
        jobs = [scene.published({f"{n}.bin": str(n).encode()}) for n in range(6)]
        for n in (1, 3, 5):
            scene.delete(f"_magicfs/{jobs[n].id}.json")
        lose_pointer(scene)
        report = repair(scene)
        assert report.newest == jobs[4].id
        assert report.lost == jobs[3].id
        assert shown(scene) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert repair(scene).problem == ""

    def test_all_are_lost(self, scene: JobScene):
        jobs = [scene.published({f"{n}.bin": str(n).encode()}) for n in range(2)]
        for job in jobs:
            scene.put(f"_magicfs/{job.id}.json", b"{}")
            for name in scene.below(f"_magicfs/{job.id}."):
                scene.put(name, b"{}")
        lose_pointer(scene)
        report = repair(scene)
        assert (report.newest, report.lost in {one.id for one in jobs}, report.files) == (None, True, 2)
        assert shown(scene) == [b"0", b"1"]

    def test_a_sum_and_the_pointer(self, scene: JobScene):
        for n in range(3):
            scene.published({f"{n}.bin": str(n).encode()}, run_id=f"run {n}")
        magicfs.compact(scene.url, filesystem=scene.filesystem)
        scene.published({"3.bin": b"3"})
        lose_pointer(scene)
        copy = scene.below("_magicfs/compact-")
        assert repair(scene, dry_run=True).lost is None
        for name in copy:
            scene.delete(name)
        repair(scene)
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        assert scene.job(run_id="run 1").found.published is not None

    @pytest.mark.slow
    def test_it_dies_at_each_request(self):
        for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
            for ignores in ((), ("put_if_match",)):
                for number in range(1, 90):
                    scene = JobScene(DEST, ignores=frozenset(ignores))
                    scene.published({"a.bin": b"1"})
                    lost = scene.published({"b.bin": b"2"}, run_id="lost")
                    scene.published({"c.bin": b"3"}, run_id="known")
                    lose(scene, lost)
                    lose_pointer(scene, "malformed" if number % 2 else "gone")
                    engine = scene.engine(Traffic([Fault(kind, number=number)]))
                    place = paths.parse_url(scene.url)
                    done = scene.lived(lambda: repair_chain(engine, place))  # noqa: B023
                    repair(scene)
                    assert shown(scene) == scene.bodies() == [b"1", b"2", b"3"]
                    assert scene.job(run_id="known").found.published is not None
                    if done is not None:
                        break
                assert 5 < number < 89, "every request"

    def test_beside_a_job_that_makes_the_pointer_it_gives_way(self, plain: JobScene):
        lost = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2"})
        lose(plain, lost)
        lose_pointer(plain)

        def before(request: Request) -> None:
            if request.operation == "put" and POINTER in request.key and len(seen) < 1:
                seen.append(request)
                plain.published({"c.bin": b"3"})

        seen: list[Request] = []
        engine, place = plain.engine(Traffic(before=before)), paths.parse_url(plain.url)
        with pytest.raises(CommitDenied, match=r"published to .* meanwhile"):
            asyncio.run(repair_chain(engine, place))
        assert plain.below("_magicfs/repaired-") == []

    def test_an_unfinished_job_is_waited_for(self, plain: JobScene):
        lost = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2"})
        lose(plain, lost)
        lose_pointer(plain)
        job = plain.job()
        with pytest.raises(UsageError, match="unfinished"):
            repair(plain)
        job.abort()
        assert repair(plain).lost == lost.id


class TestBeside:
    def test_it_dies_at_each_request(self):
        for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
            for number in range(1, 60):
                scene = JobScene(DEST)
                first = scene.published({"a.bin": b"1"})
                scene.published({"b.bin": b"2"})
                lose(scene, first)
                engine, place = (
                    scene.engine(Traffic([Fault(kind, number=number)])),
                    paths.parse_url(scene.url),
                )
                done = scene.lived(lambda: repair_chain(engine, place))  # noqa: B023
                repair(scene)
                assert shown(scene) == scene.bodies() == [b"1", b"2"]
                if done is not None:
                    break
            assert 5 < number < 59, "every request"

    def test_a_job_at_each_request(self):
        """A job that joins meanwhile is never cut off."""
        ends = set()
        for number in range(1, 60):
            scene = JobScene(DEST)
            first = scene.published({"a.bin": b"1"})
            scene.published({"b.bin": b"2"})
            lose(scene, first)

            def before(request: Request, number: int = number, scene: JobScene = scene) -> None:
                if request.number == number:
                    scene.published({"c.bin": b"3"})

            traffic = Traffic(before=before)
            engine, place = scene.engine(traffic), paths.parse_url(scene.url)
            try:
                asyncio.run(repair_chain(engine, place))
                ends.add("repaired")
            except CommitDenied:
                ends.add("denied")
                repair(scene)
            came = len(traffic.log) >= number
            assert shown(scene) == ([b"1", b"2", b"3"] if came else [b"1", b"2"])
            assert shown(scene) == scene.bodies()
            if not came:
                break
        assert 5 < number < 59
        assert ends == {"repaired", "denied"}


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "manifests.md").read_text()
    [code] = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "repair" in one]
    exec(code, {})
    assert magicfs.verify("memory://bucket/lost").ok


class TestCommand:
    def test_it_repairs_and_says_what_is_lost(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales 50% #1")
        jobs = []
        for n in range(2):
            with magicfs.Job(url, conflict="append") as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/{n}.csv", b"12")
            jobs.append(job.id)
        assert main(["repair", url]) == 0
        assert "nothing to repair" in capsys.readouterr().out
        Path(url, "_magicfs", f"{jobs[0]}.json").write_text("{}")
        assert main(["verify", url]) == 1
        assert "magicfs repair" in capsys.readouterr().err
        assert main(["repair", url, "--dry-run"]) == 1
        assert "recovered" in capsys.readouterr().out
        assert main(["repair", url, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["lost"], found["files"], len(found["recovered"])) == (jobs[0], 2, 1)
        assert main(["verify", url]) == 0
        for one in Path(url, "_magicfs").glob("current*.json"):
            one.unlink()
        assert main(["repair", url, "--dry-run"]) == 1
        assert "newest" in capsys.readouterr().out
        assert main(["repair", url]) == 0
        assert "the pointer was lost" in capsys.readouterr().out
        assert main(["verify", url]) == 0
