"""Replaced files that are moved aside: who lists sees only the new ones, and readers of manifests all."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.datasets.connection import open_destination
from magicfs.datasets.recover import recover_jobs
from magicfs.errors import FormatError, ObjectNotFound, PermissionDenied
from magicfs.formats import deletions
from magicfs.formats.deletions import OldObject
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past import aside
from magicfs.past.expire import ExpireReport, expire_kept
from magicfs.past.rollback import roll_back
from magicfs.protocol import paths
from magicfs.protocol.ids import job_id
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=3)

DEST = "env=prod/día 50% + #1"
ASIDE = f"{DEST}/_magicfs/kept/"
DAY_MS = 86_400_000
UNDO = job_id("12345678-8a4b-4f0e-9d5a-0c1b2a3d4e5f")


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


def dataset(scene: JobScene) -> magicfs.Dataset:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem)


def read(scene: JobScene, as_of: str | None = None) -> list[bytes]:
    """The bodies at the URLs that ``files`` returns."""
    return sorted(scene.filesystem.cat_file(one.url) for one in dataset(scene).files(as_of=as_of))


def kept(scene: JobScene) -> list[str]:
    return [key.removeprefix(ASIDE) for key in sorted(scene.objects()) if key.startswith(ASIDE)]


def expire(scene: JobScene, *, days: float = 0, **how: Any) -> ExpireReport:
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    now = seen[0].changed_ms + int(days * DAY_MS)
    return open_destination(scene.url, None, scene.filesystem).run(expire_kept, now_ms=now, **how)


class TestKeeping:
    def test_who_lists_sees_exactly_the_new_files(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
        assert scene.bodies() == read(scene) == [b"3"]
        assert second.report.files_deleted == 2
        assert read(scene, first.id) == [b"1", b"2"]
        assert all(one.startswith(f"{second.id}/p=") for one in kept(scene))
        assert [one.partition for one in dataset(scene).files(as_of=first.id)] == [{"p": "1"}, {"p": "2"}]
        assert dataset(scene).verify().ok
        assert expire(scene, days=6.9).files == 0
        would, before = expire(scene, days=7.1, dry_run=True), scene.objects()
        done = expire(scene, days=7.1)
        assert before != scene.objects()
        assert would == done
        assert (done.jobs, done.files, done.bytes) == ((second.id,), 2, 2)
        assert (kept(scene), scene.bodies()) == ([], [b"3"])
        with pytest.raises(ObjectNotFound):
            dataset(scene).files(as_of=first.id)
        assert dataset(scene).verify().ok

    def test_several_jobs_keep_apart(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1", "p=2/b.bin": b"2"})
        second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite_partitions", keep="1d")
        third = scene.published({"p=1/a.bin": b"4"}, mode="overwrite", keep="7d")
        assert scene.bodies() == [b"4"]
        assert [read(scene, one.id) for one in (first, second, third)] == [[b"1", b"2"], [b"2", b"3"], [b"4"]]
        assert expire(scene, days=2).files == 1
        assert read(scene, second.id) == [b"2", b"3"]

    def test_equal_names_of_other_times_have_places_of_their_own(self, plain: JobScene):
        one = plain.published({"a.bin": b"1"}, unique_names=False)
        dataset(plain).drop(jobs=one.id, keep="7d")
        two = plain.published({"a.bin": b"1"}, unique_names=False)
        dataset(plain).drop(jobs=two.id, keep="1d")
        assert len(kept(plain)) == 2
        expire(plain, days=2)
        assert read(plain, one.id) == [b"1"]

    def test_what_another_program_wrote_meanwhile_stays(self, plain: JobScene):
        plain.published({"a.bin": b"1"})
        job = plain.job("overwrite", keep="7d")
        commits = plain.wrote(job, {"b.bin": b"2"})
        (old,) = plain.data()

        def overwrite(request: Request) -> None:
            if request.operation == "copy" and "/_magicfs/kept/" in request.target:
                plain.put(old, b"theirs")

        assert plain.commit(job, commits, traffic=Traffic(before=overwrite)) is not None
        assert plain.bodies() == [b"2", b"theirs"]
        assert kept(plain) == []

    def test_in_place_if_asked(self, plain: JobScene):
        plain.published({"a.bin": b"1"})
        plain.published({"a.bin": b"2"}, mode="overwrite", keep="7d", keep_in_place=True)
        assert (plain.bodies(), kept(plain)) == ([b"1", b"2"], [])

    def test_in_place_if_the_store_refuses_copies(self, plain: JobScene, caplog: pytest.LogCaptureFixture):
        first = plain.published({"a.bin": b"1"})
        job = plain.job("overwrite", keep="7d")
        commits = plain.wrote(job, {"a.bin": b"2"})

        def deny(request: Request) -> None:
            if request.operation == "copy":
                raise PermissionDenied("copy", request.key, "403")

        plain.commit(job, commits, traffic=Traffic(before=deny))
        assert (plain.work(), kept(plain), plain.bodies()) == ([], [], [b"1", b"2"])
        assert "keeps replaced files in place, next to the new ones" in caplog.text
        assert read(plain, first.id) == [b"1"]
        expire(plain, days=8)
        assert plain.bodies() == [b"2"]

    def test_a_place_with_too_long_a_name_is_none(self):
        room = 1024 - len(f"{DEST}/_magicfs/kept/job/".encode())
        old = [OldObject(f"{DEST}/{'x' * size}", '"e"', 1) for size in (room, room + 1)]
        assert [one.aside for one in aside.marked(DEST, "job", old)] == [True, False]

    def test_beside_versions_what_has_none_stays(self):
        old = [OldObject(f"{DEST}/a", '"e"', 1, "v1"), OldObject(f"{DEST}/b", '"e"', 1)]
        assert aside.marked(DEST, "job", old) == old

    def test_lists_say_so_and_older_readers_refuse_them(self):
        old = [OldObject(f"{DEST}/a", '"e"', 1, aside=True), OldObject(f"{DEST}/b", '"f"', 2)]
        raw = deletions.write(old, destination=DEST)
        assert deletions.read_below("path", raw, DEST) == tuple(old)
        assert b'"aside"' in raw.split(b'"objects"')[0], "required"
        for forged in (b"1", b'"yes"', b"[true]"):
            with pytest.raises(FormatError):
                deletions.read_below("path", re.sub(rb'("aside": ?)true', rb"\g<1>" + forged, raw), DEST)


class TestReaders:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return str(tmp_path / "sales 50% #1")

    def publish(self, url: str, value: int, **how: Any) -> str:
        table = pa.table({"n": [value] * 3, "day": ["a", "b", "02"]})
        return magicfs.write(table, url, partition_by=["day"], **how).job_id

    def test_of_an_older_list_go_on(self, url: str):
        self.publish(url, 1)
        held = magicfs.Dataset(url).to_arrow()
        self.publish(url, 2, mode="overwrite", keep="7d")
        assert held.to_table().column("n").to_pylist() == [1, 1, 1]
        assert (
            pickle.loads(pickle.dumps(magicfs.Dataset(url))).to_arrow().to_table()["n"].to_pylist() == [2] * 3
        )
        assert ds.dataset(url, partitioning="hive").to_table()["n"].to_pylist() == [2] * 3

    @pytest.mark.parametrize("partitioning", ["hive", None])
    def test_of_then_read_what_was_then(self, url: str, partitioning: Any):
        first = self.publish(url, 1)
        self.publish(url, 2, mode="overwrite", keep="7d")
        then = magicfs.Dataset(url).to_arrow(as_of=first, partitioning=partitioning)
        table = then.to_table()
        assert table["n"].to_pylist() == [1, 1, 1]
        if partitioning:
            assert sorted(table["day"].to_pylist()) == ["02", "a", "b"]
        fragments = [pickle.loads(pickle.dumps(one)) for one in then.get_fragments()]
        assert [one.to_table()["n"].to_pylist() for one in fragments] == [[1]] * 3
        assert [
            pq.read_table(
                one.url.removeprefix("file://").replace("%23", "#").replace("%25", "%").replace("%20", " "),
                partitioning=None,
            ).num_rows
            for one in magicfs.Dataset(url).files(as_of=first)
        ] == [1] * 3

    def test_a_hard_link_is_what_a_local_file_becomes(self, url: str):
        self.publish(url, 1)
        before = {one.stat().st_ino for one in Path(url).rglob("*.parquet")}
        self.publish(url, 2, mode="overwrite", keep="7d")
        moved = {one.stat().st_ino for one in (Path(url) / "_magicfs" / "kept").rglob("*.parquet")}
        assert moved == before

    def test_a_link_is_copied(self, url: str, tmp_path: Path):
        self.publish(url, 1)
        (old, *_) = sorted(Path(url).rglob("*.parquet"))
        target = tmp_path / "elsewhere.parquet"
        old.rename(target)
        old.symlink_to(target)
        first = magicfs.Dataset(url).history()[0].job_id
        self.publish(url, 2, mode="overwrite", keep="7d")
        assert magicfs.Dataset(url).to_arrow(as_of=first).to_table()["n"].to_pylist() == [1] * 3
        assert target.exists()


class TestRollback:
    def test_brings_files_back_where_who_lists_sees_them(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2" * 1000, "p=2/empty.bin": b""})
        second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
        would = dataset(scene).rollback(first.id, dry_run=True)
        report = dataset(scene).rollback(first.id)
        assert (report.files, would.effects.back.files) == (3, 3)
        assert scene.bodies() == read(scene) == read(scene, first.id) == [b"", b"1", b"2" * 1000]
        assert read(scene, second.id) == [b"3"], "it keeps what it replaces, without a word"
        dataset(scene).rollback(second.id)
        assert scene.bodies() == [b"3"]
        expire(scene, days=8)
        assert (scene.bodies(), kept(scene)) == ([b"3"], [])

    def test_of_partitions(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1", "p=2/b.bin": b"2"})
        scene.published({"p=1/a.bin": b"3", "p=2/b.bin": b"4"}, mode="overwrite", keep="7d")
        dataset(scene).rollback(first.id, partitions="p=1")
        assert scene.bodies() == read(scene) == [b"1", b"4"]

    def test_to_what_is_over_is_refused(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep="1d")
        expire(scene, days=2)
        with pytest.raises(ObjectNotFound, match="nothing was changed"):
            dataset(scene).rollback(first.id)
        assert scene.work() == []

    def test_keeps_for_as_long_as_the_dataset_promises(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.published({"a.bin": b"2"}, mode="overwrite", keep="30d")
        assert dataset(plain).rollback(first.id, dry_run=True).effects.kept_ms == 30 * DAY_MS
        other = JobScene("other")
        one = other.published({"a.bin": b"1"})
        other.published({"b.bin": b"2"})
        assert dataset(other).rollback(one.id, dry_run=True).effects.kept_ms == 7 * DAY_MS
        assert dataset(other).drop(jobs=one.id).kept
        assert (read(other), other.bodies()) == ([b"2"], [b"2"])

    def test_of_a_table_of_delta_keeps_in_place(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.published({"b.bin": b"2"})
        plain.put("_delta_log/.magicfs", b"")
        dataset(plain).rollback(first.id)
        assert (plain.bodies(), kept(plain)) == ([b"1", b"2"], [])


class Onlooker:
    """Looks after each request what readers of each kind see."""

    def __init__(self, scene: JobScene, first: str, old: list[bytes], new: list[bytes]) -> None:
        self.scene, self.first, self.old, self.new = scene, first, old, new
        self.problems: list[str] = []

    def look(self, request: Request) -> None:
        if not request.changes:
            return
        if (then := read_all(self.scene, self.first)) != self.old:
            self.problems.append(f"as of then: {then} after {request.operation} {request.key}")
        if (now := read_all(self.scene)) not in (self.old, self.new):
            self.problems.append(f"now: {now} after {request.operation} {request.key}")


def read_all(scene: JobScene, job: str | None = None) -> list[bytes]:
    """What a reader finds by the rule: at the old place, or where the pointer says that it lies aside."""
    from magicfs.past.earlier_files import lying_where_they_are

    async def look(engine: Any) -> list[bytes]:
        found = await chain.view_of(chain.chain(engine.store, DEST, READING, start=job, hidden="none"))
        assert found is not None
        moved = await lying_where_they_are(engine, DEST, found.files)
        return sorted([await engine.store.get(paths.join(DEST, one.key)) for one in moved.values()])

    return scene.elsewhere(look)


@pytest.mark.slow
class TestDeaths:
    """A process dies at each of its requests, before and after the store does it; another one finishes."""

    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_a_job_that_moves_files_aside(self, kind: Kind):
        ends = set()
        for number in range(1, 120):
            scene = JobScene(DEST)
            first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
            job = scene.job("overwrite", keep="7d")
            commits = scene.wrote(job, {"p=1/a.bin": b"3"})
            sight = Onlooker(scene, first.id, [b"1", b"2"], [b"3"])
            traffic = Traffic([Fault(kind, number=number)], after=sight.look)
            done = scene.commit(job, commits, traffic=traffic)
            for _ in range(2):
                scene.recover()
            if scene.work():
                dataset(scene).recover(abort=True)
            assert sight.problems == []
            assert read_all(scene, first.id) == read(scene, first.id) == [b"1", b"2"], number
            assert scene.work() == []
            now = tuple(read(scene))
            ends.add(now)
            assert scene.bodies() == list(now), "who lists sees exactly what is published"
            assert len(kept(scene)) == (2 if now == (b"3",) else 0)
            expire(scene, days=8)
            assert kept(scene) == []
            if done is not None:
                break
        assert 20 < number < 119, "every request"
        assert ends == {(b"1", b"2"), (b"3",)}

    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_a_rollback(self, kind: Kind):
        ends = set()
        for number in range(1, 150):
            scene = JobScene(DEST)
            first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
            second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            done = scene.lived(
                lambda: roll_back(engine, place, to=first.id, keep_ms=DAY_MS, job=UNDO)  # noqa: B023
            )
            assert read_all(scene) in ([b"3"], [b"1", b"2"])
            for _ in range(2):
                scene.recover()
            if scene.work():
                dataset(scene).recover(abort=True)
            now = read(scene)
            ends.add(tuple(now))
            assert scene.work() == scene.uploads() == []
            assert (scene.bodies(), read(scene, first.id), read(scene, second.id)) == (
                now,
                [b"1", b"2"],
                [b"3"],
            )
            expire(scene, days=8)
            assert (read(scene), scene.bodies(), kept(scene)) == (now, now, [])
            if done is not None:
                break
        assert 20 < number < 149, "every request"
        assert ends == {(b"3",), (b"1", b"2")}

    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_an_expiry(self, kind: Kind):
        for number in range(1, 60):
            scene = JobScene(DEST)
            first = scene.published({"a.bin": b"1", "b.bin": b"2"})
            second = scene.published({"a.bin": b"3"}, mode="overwrite", keep="1d")
            scene.published({"a.bin": b"4"}, mode="overwrite", keep="7d")
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            moment = (
                2 * DAY_MS
                + scene.elsewhere(lambda one: chain.read_pointer(one.store, DEST, READING))[0].changed_ms
            )
            done = scene.lived(lambda: expire_kept(engine, place, now_ms=moment))  # noqa: B023
            assert (read(scene), read(scene, second.id)) == ([b"4"], [b"3"])
            expire(scene, days=2)
            assert [one.partition("/")[0] for one in kept(scene)] != []
            assert len(kept(scene)) == 1
            with pytest.raises(ObjectNotFound):
                dataset(scene).files(as_of=first.id)
            if done is not None:
                break
        assert 5 < number < 59, "every request"


def recover_elsewhere(scene: JobScene) -> None:
    scene.elsewhere(lambda engine: recover_jobs(engine, paths.parse_url(scene.url)))


class TestLate:
    def test_a_copy_that_comes_late_brings_nothing_back(self, plain: JobScene):
        """Its source is gone: whoever finished the job has deleted that before the job ended."""
        plain.published({"a.bin": b"1"})
        (old,) = plain.data()
        etag = plain.objects()[f"{DEST}/{old}"][1]
        second = plain.published({"a.bin": b"2"}, mode="overwrite", keep="1d")
        expire(plain, days=2)
        late = [OldObject(f"{DEST}/{old}", etag, 1, aside=True)]
        plain.elsewhere(lambda engine: aside.copy_all(engine, DEST, second.id, late))
        assert kept(plain) == []

    def test_two_recoveries_at_once(self, plain: JobScene):
        """One finishes the job between any two requests of the other, which then finishes as well."""
        for number in range(1, 80):
            scene = JobScene(DEST)
            first = scene.published({"a.bin": b"1", "b.bin": b"2"})
            job = scene.job("overwrite", keep="7d")
            commits = scene.wrote(job, {"a.bin": b"3"})
            count, met = 0, False

            def pause(_request: Request) -> None:
                nonlocal count, met
                count += 1
                if count == number and not met:  # noqa: B023
                    met = True
                    recover_elsewhere(scene)  # noqa: B023

            scene.commit(job, commits, traffic=Traffic(before=pause))
            scene.recover()
            if scene.work():
                dataset(scene).recover(abort=True)
            assert read(scene, first.id) == [b"1", b"2"], number
            assert scene.bodies() == read(scene), number
            if not met:
                break
        assert number > 20
