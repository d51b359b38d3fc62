"""Datasets whose manifests, pointer or log of publications were lost, and what ``adopt`` makes of them."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import CommitDenied, FormatError, UsageError
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.operate.adopt import AdoptReport, adopt_files
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=2)

DEST = "env=prod/día 50% + #1"
POINTER = "_magicfs/current"


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


def adopt(scene: JobScene, **how: Any) -> AdoptReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt(**how)


def changes_nothing(report: AdoptReport) -> bool:
    return (report.problem, report.manifest, report.adopted, report.lost) == ("", None, (), ())


def lose(scene: JobScene, job: magicfs.Job, how: str = "gone") -> None:
    name = f"_magicfs/{job.id}.json"
    if how == "gone":
        scene.delete(name)
    else:
        scene.put(name, {"empty": b"", "cut": b'{"format": "magicfs.mani', "other": b"{}"}[how])
    with pytest.raises(FormatError, match="run magicfs adopt"):
        shown(scene)


def lose_pointer(scene: JobScene, how: str = "gone") -> None:
    """All versions of the pointer are gone, or the one that counts is malformed."""
    names = scene.below(POINTER)
    if how == "gone":
        for name in names:
            scene.delete(name)
    else:
        scene.put(max(names, key=lambda one: (len(one), one)), b"{")


class TestManifest:
    @pytest.mark.parametrize("how", ["gone", "empty", "cut", "other"])
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_each_can_be_lost(self, scene: JobScene, which: int, how: str):
        jobs = [scene.published({f"p={n}/a b.bin": str(n).encode()}) for n in range(3)]
        lose(scene, jobs[which], how)
        before = scene.everything()
        would = adopt(scene, dry_run=True)
        assert scene.everything() == before
        report = adopt(scene)
        assert jobs[which].id in report.problem
        assert (report.files, would.manifest) == (3, None)
        assert len(report.adopted) == which + 1, "its own, and those of the jobs before it"
        assert (report.adopted, report.lost, report.kept) == (would.adopted, would.lost, ())
        assert jobs[which].id in report.lost[0]
        assert shown(scene) == [b"0", b"1", b"2"]
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert changes_nothing(adopt(scene))
        scene.published({"p=3/d.bin": b"3"})
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(partitions="p=0", keep=None)
        assert shown(scene) == scene.bodies() == [b"1", b"2", b"3"]

    def test_what_is_lost_is_logged(self, plain: JobScene, caplog: pytest.LogCaptureFixture):
        first = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2"})
        lose(plain, first)
        with caplog.at_level(logging.WARNING, "magicfs"):
            report = adopt(plain)
        assert [one.getMessage() for one in caplog.records] == [
            f"{plain.url}: adopt could not recover {one}" for one in report.lost
        ]

    @pytest.mark.parametrize("in_place", [True, False])
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_what_jobs_have_replaced_for_certain_does_not_come_back(
        self, scene: JobScene, which: int, in_place: bool
    ):
        """Those above the lost one and itself; those below that stay in place may have been undone by a
        rollback.
        """
        how: dict[str, Any] = {"mode": "overwrite_partitions", "keep": "7d", "keep_in_place": in_place}
        jobs = [scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})]
        jobs += [scene.published({f"p={n}/a.bin": b"%d" % (n + 2)}, **how) for n in (1, 2)]
        lose(scene, jobs[which])
        report = adopt(scene)
        back = [b"1"] if which == 2 and in_place else []
        assert shown(scene) == [*back, b"3", b"4"]
        assert len(report.kept) == len(back)
        assert any("magicfs drop" in one for one in report.lost) == bool(back)
        assert sorted(scene.bodies() + scene.aside()) == [b"1", b"2", b"3", b"4"], "nothing was deleted"

    @pytest.mark.parametrize("in_place", [True, False])
    def test_files_that_a_lost_rollback_has_shown_again_stay(self, scene: JobScene, in_place: bool):
        first = scene.published({"a.bin": b"1"})
        scene.published({"b.bin": b"2"}, mode="overwrite", keep="7d", keep_in_place=in_place)
        back = magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=first.id, keep="7d")
        assert shown(scene) == [b"1"]
        scene.delete(f"_magicfs/{back.job_id}.json")
        report = adopt(scene)
        assert shown(scene) == [b"1"]
        assert len(report.kept) == int(in_place), "of what lies aside the rollback made copies"

    @pytest.mark.parametrize("in_place", [True, False])
    def test_a_list_of_kept_files_that_is_lost_too(self, plain: JobScene, in_place: bool):
        plain.published({"a.bin": b"1"})
        keeps = plain.published({"b.bin": b"2"}, mode="overwrite", keep="7d", keep_in_place=in_place)
        [name] = [one for one in plain.below(f"_magicfs/{keeps.id}/") if "/kept-" in one]
        plain.put(name, b"[]")
        plain.put("stranger.bin", b"?")
        with pytest.raises(FormatError, match="kept-"):
            adopt(plain)
        lose(plain, keeps)
        report = adopt(plain)
        assert any("which files were kept" in one for one in report.lost)
        assert shown(plain) == plain.bodies() == [*([b"1"] if in_place else []), b"2", b"?"]
        assert plain.aside() == ([] if in_place else [b"1"])

    def test_a_run_that_was_lost_is_not_published_again(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"}, run_id="monday")
        scene.published({"b.bin": b"2"})
        lose(scene, first)
        adopt(scene)
        again = scene.job(run_id="monday")
        assert again.found.published == first.id

    def test_a_sum_that_is_lost(self, scene: JobScene):
        scene.published({"a.bin": b"1"})
        scene.published({"b.bin": b"2"})
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        scene.published({"c.bin": b"3"})
        [name] = [one for one in scene.below("_magicfs/compact-") if one.count("/") == 1]
        scene.delete(name)
        with pytest.raises(FormatError):
            shown(scene)
        assert len(adopt(scene).adopted) == 2
        assert shown(scene) == [b"1", b"2", b"3"]

    def test_below_a_sum_readers_miss_nothing_and_strangers_stay_out(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"}, run_id="monday")
        scene.published({"b.bin": b"2"})
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        scene.delete(f"_magicfs/{first.id}.json")
        before = scene.everything()
        assert changes_nothing(adopt(scene))
        scene.put("stranger.bin", b"?")
        with pytest.raises(UsageError, match=r"may have listed 1 files .*stranger\.bin.*nothing was changed"):
            adopt(scene)
        scene.delete("stranger.bin")
        assert scene.everything() == before
        [log] = [one for one in scene.below("_magicfs/") if "/log-" in one]
        scene.delete(log)
        assert adopt(scene).manifest is not None
        assert shown(scene) == [b"1", b"2"]
        assert scene.published({"c.bin": b"3"}, run_id="tuesday").report.files == 1
        assert shown(scene) == [b"1", b"2", b"3"]

    def test_nothing_is_changed_where_nothing_is_wrong(self, scene: JobScene):
        assert adopt(scene) == AdoptReport(scene.url)
        scene.published({"a.bin": b"1"})
        before = scene.everything()
        assert adopt(scene) == AdoptReport(scene.url, files=1, bytes=1)
        assert scene.everything() == before

    @pytest.mark.parametrize("pointer", ["sound", "gone"])
    def test_an_unfinished_job_is_waited_for(self, plain: JobScene, pointer: str):
        first = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2"})
        job = plain.job()
        lose(plain, first)
        if pointer == "gone":
            lose_pointer(plain)
        with pytest.raises(UsageError, match="unfinished"):
            adopt(plain)
        job.abort()
        assert first.id in adopt(plain).problem
        assert shown(plain) == [b"1", b"2"]

    def test_a_store_that_ignores_conditions_is_refused(self):
        scene = JobScene(DEST, ignores=frozenset({"put_if_match", "put_if_absent"}))
        first = scene.published({"a.bin": b"1"}, single_driver=True)
        scene.published({"b.bin": b"2"}, single_driver=True)
        lose(scene, first)
        with pytest.raises(UsageError, match="ignores conditional writes"):
            adopt(scene)
        assert scene.below("_magicfs/adopted-") == []


class TestPointer:
    @pytest.mark.parametrize("how", ["gone", "cut"])
    @pytest.mark.parametrize("pointer", ["gone", "malformed"])
    @pytest.mark.parametrize("which", [0, 1, 2])
    def test_each_manifest_can_be_lost_with_it(self, scene: JobScene, which: int, pointer: str, how: str):
        jobs = [scene.published({f"p={n}/a b.bin": str(n).encode()}, run_id=f"run {n}") for n in range(3)]
        lose(scene, jobs[which], how)
        lose_pointer(scene, pointer)
        before = scene.everything()
        would = adopt(scene, dry_run=True)
        assert scene.everything() == before
        report = adopt(scene)
        assert POINTER in report.problem
        assert (report.files, report.adopted, report.lost) == (3, would.adopted, would.lost)
        assert report.lost
        assert shown(scene) == [b"0", b"1", b"2"]
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert changes_nothing(adopt(scene))
        for n in {0, 1, 2} - {which}:
            assert scene.job(run_id=f"run {n}").found.published == jobs[n].id
        scene.published({"p=3/d.bin": b"3"})
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(partitions="p=0", keep=None)
        assert shown(scene) == scene.bodies() == [b"1", b"2", b"3"]

    @pytest.mark.parametrize("pointer", ["gone", "malformed"])
    def test_it_alone(self, scene: JobScene, pointer: str):
        jobs = [
            scene.published({f"{n}.bin": str(n).encode()}, run_id=f"run {n}", mode=mode, keep=keep)
            for n, (mode, keep) in enumerate([("append", None), ("overwrite", "7d"), ("append", None)])
        ]
        lose_pointer(scene, pointer)
        before = scene.everything()
        would = adopt(scene, dry_run=True)
        assert scene.everything() == before
        report = adopt(scene)
        assert report == would
        assert (report.manifest, report.adopted, report.lost, report.files) == (None, (), (), 2)
        assert shown(scene) == [b"1", b"2"]
        assert scene.job(run_id="run 0").found.published == jobs[0].id
        found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
        assert [one.job_id for one in found] == [one.id for one in reversed(jobs)]
        assert found[1].kept_until is not None

    def test_what_a_lost_newest_job_has_replaced_and_deleted_is_not_named(self, scene: JobScene):
        scene.published({"a.bin": b"1"})
        newest = scene.published({"b.bin": b"2"}, mode="overwrite")
        lose(scene, newest)
        lose_pointer(scene)
        assert newest.id in adopt(scene).problem
        assert shown(scene) == [b"2"]

    def test_several_manifests_are_lost(self, scene: JobScene):
        jobs = [scene.published({f"{n}.bin": str(n).encode()}) for n in range(6)]
        for n in (1, 3, 5):
            scene.delete(f"_magicfs/{jobs[n].id}.json")
        lose_pointer(scene)
        assert len(adopt(scene).adopted) == 6
        assert shown(scene) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert changes_nothing(adopt(scene))

    def test_all_manifests_are_lost(self, scene: JobScene):
        jobs = [scene.published({f"{n}.bin": str(n).encode()}) for n in range(2)]
        for job in jobs:
            scene.put(f"_magicfs/{job.id}.json", b"{}")
            for name in scene.below(f"_magicfs/{job.id}."):
                scene.put(name, b"{}")
        lose_pointer(scene)
        assert adopt(scene).files == 2
        assert shown(scene) == [b"0", b"1"]

    def test_a_sum_is_lost_too(self, scene: JobScene):
        for n in range(3):
            scene.published({f"{n}.bin": str(n).encode()}, run_id=f"run {n}")
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        scene.published({"3.bin": b"3"})
        lose_pointer(scene)
        assert adopt(scene, dry_run=True).lost == ()
        for name in scene.below("_magicfs/compact-"):
            scene.delete(name)
        adopt(scene)
        assert shown(scene) == [b"0", b"1", b"2", b"3"]
        assert scene.job(run_id="run 1").found.published is not None

    def test_a_manifest_and_the_log_are_lost_too(self, scene: JobScene):
        first = scene.published({"0.bin": b"0"}, run_id="run 0")
        scene.published({"1.bin": b"1"})
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        lose(scene, scene.published({"2.bin": b"2"}))
        [log] = [one for one in scene.below("_magicfs/compact-") if "/log-" in one]
        scene.delete(log)
        lose_pointer(scene)
        report = adopt(scene)
        assert any("only the log named" in one for one in report.lost)
        assert shown(scene) == [b"0", b"1", b"2"]
        assert changes_nothing(adopt(scene))
        assert scene.job(run_id="run 0").found.published == first.id

    @pytest.mark.slow
    def test_it_dies_at_each_request(self):
        for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
            for ignores in ((), ("put_if_match",)):
                for number in range(1, 120):
                    scene = JobScene(DEST, ignores=frozenset(ignores))
                    scene.published({"a.bin": b"1"})
                    lost = scene.published({"b.bin": b"2"}, run_id="lost")
                    scene.published({"c.bin": b"3"}, run_id="known")
                    lose(scene, lost)
                    lose_pointer(scene, "malformed" if number % 2 else "gone")
                    engine = scene.engine(Traffic([Fault(kind, number=number)]))
                    place = paths.parse_url(scene.url)
                    done = scene.lived(lambda: adopt_files(engine, place))  # noqa: B023
                    adopt(scene)
                    assert shown(scene) == scene.bodies() == [b"1", b"2", b"3"]
                    assert scene.job(run_id="known").found.published is not None
                    if done is not None:
                        break
                assert 5 < number < 119, "every request"

    @pytest.mark.parametrize("what", ["the pointer", "a manifest, too"])
    def test_beside_another_that_makes_the_pointer_it_gives_way(self, plain: JobScene, what: str):
        plain.published({"b.bin": b"2"})
        newest = plain.published({"a.bin": b"1"})
        if what == "a manifest, too":
            lose(plain, newest)
        lose_pointer(plain)

        def before(request: Request) -> None:
            if request.operation == "put" and POINTER in request.key and len(seen) < 1:
                seen.append(request)
                adopt(plain)

        seen: list[Request] = []
        engine, place = plain.engine(Traffic(before=before)), paths.parse_url(plain.url)
        with pytest.raises(CommitDenied, match=r"published to .* meanwhile"):
            asyncio.run(adopt_files(engine, place))
        assert len(plain.below("_magicfs/adopted-")) == (what == "a manifest, too"), "the other's"
        assert shown(plain) == [b"1", b"2"]


class TestBeside:
    @pytest.mark.parametrize("which", [0, 1])
    def test_it_dies_at_each_request(self, which: int):
        for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
            for number in range(1, 60):
                scene = JobScene(DEST)
                lose(scene, [scene.published({f"{n}.bin": b"%d" % n}) for n in (1, 2)][which])
                engine, place = (
                    scene.engine(Traffic([Fault(kind, number=number)])),
                    paths.parse_url(scene.url),
                )
                done = scene.lived(lambda: adopt_files(engine, place))  # noqa: B023
                adopt(scene)
                assert shown(scene) == scene.bodies() == [b"1", b"2"]
                if done is not None:
                    break
            assert 5 < number < 59, "every request"

    @pytest.mark.parametrize("which", [0, 1])
    def test_a_job_at_each_request(self, which: int):
        """A job that joins meanwhile is never cut off."""
        ends = set()
        for number in range(1, 60):
            scene = JobScene(DEST)
            lose(scene, [scene.published({f"{n}.bin": b"%d" % n}) for n in (1, 2)][which])

            def before(request: Request, number: int = number, scene: JobScene = scene) -> None:
                if request.number == number:
                    scene.published({"c.bin": b"3"})

            traffic = Traffic(before=before)
            engine, place = scene.engine(traffic), paths.parse_url(scene.url)
            try:
                asyncio.run(adopt_files(engine, place))
                ends.add("adopted")
            except CommitDenied:
                ends.add("denied")
                adopt(scene)
            came = len(traffic.log) >= number
            assert shown(scene) == ([b"1", b"2", b"3"] if came else [b"1", b"2"])
            assert shown(scene) == scene.bodies()
            if not came:
                break
        assert 5 < number < 59
        assert ends == {"adopted", "denied"}


def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "manifests.md").read_text()
    [code] = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "adopt(" in one]
    exec(code, {})
    assert magicfs.Dataset("memory://bucket/lost").verify().ok


class TestCommand:
    def test_it_mends_and_says_what_is_lost(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales 50% #1")
        jobs = []
        for n in range(2):
            with magicfs.Job(url, mode="append") as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/{n}.csv", b"12")
            jobs.append(job.id)
        assert main(["adopt", url]) == 0
        assert "nothing to adopt" in capsys.readouterr().out
        Path(url, "by-hand.csv").write_text("3")
        assert main(["verify", url]) == 1
        assert "magicfs adopt" in capsys.readouterr().out
        Path(url, "_magicfs", f"{jobs[0]}.json").write_text("{}")
        assert main(["verify", url]) == 7
        assert "magicfs adopt" in capsys.readouterr().err
        assert main(["adopt", url, "--dry-run"]) == 1
        out = capsys.readouterr().out
        assert "adopted  by-hand.csv" in out
        assert "2 files that were in no manifest" in out
        assert main(["adopt", url, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["files"], len(found["adopted"]), len(found["lost"])) == (3, 2, 2)
        assert main(["verify", url]) == 0
        for one in Path(url, "_magicfs").glob("current*.json"):
            one.unlink()
        assert main(["adopt", url, "--dry-run"]) == 1
        assert main(["adopt", url]) == 0
        assert "is gone" in capsys.readouterr().out
        assert main(["verify", url]) == 0
