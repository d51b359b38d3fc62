"""Files that are taken out of a dataset by a job of their own."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import commit
from magicfs.datasets.connection import open_destination
from magicfs.datasets.read import current_view
from magicfs.errors import CommitDenied, MagicError, ObjectNotFound, UsageError
from magicfs.formats.job_object import Chunk, JobObject
from magicfs.formats.job_options import JobOptions
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past.drop import DropReport, Order, choose, drop_files
from magicfs.past.earlier_files import lying_where_they_are
from magicfs.past.expire import expire_kept
from magicfs.protocol import paths
from magicfs.protocol.ids import job_id
from magicfs.protocol.job_state import JobState
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=3)

DEST = "env=prod/día 50% + #1"
DAY_MS = 86_400_000


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


def shown(scene: JobScene, job: str | None = None) -> list[bytes]:
    """The bodies that a reader of manifests finds, now or as of a job."""

    async def read(engine: Any) -> list[bytes]:
        found = await chain.view_of(chain.chain(engine.store, DEST, READING, start=job, hidden="none"))
        lying = await lying_where_they_are(engine, DEST, found.files)
        return sorted([await engine.store.get(paths.join(DEST, one.key)) for one in lying.values()])

    return scene.elsewhere(read)


def drop(scene: JobScene, **how: Any) -> DropReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(**{"keep": None, **how})


def expire(scene: JobScene, *, days: float) -> int:
    destination = open_destination(scene.url, None, scene.filesystem)
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    return destination.run(expire_kept, now_ms=seen[0].changed_ms + int(days * DAY_MS)).files


def three_days(scene: JobScene) -> magicfs.Job:
    return scene.published(
        {"day=1/a b.bin": b"1"}, {"day=2/b.bin": b"22"}, {"day=10/ü%+#.bin": b"333"}, run_id="monday"
    )


class TestChoosing:
    def test_partitions_with_all_below(self, scene: JobScene):
        scene.published({"y=1/m=1/a": b"1", "y=1/m=2/b": b"2", "y=10/m=1/c": b"3", "y=2/d": b"4"})
        report = drop(scene, partitions="y=1/")
        assert (report.files, report.bytes, report.kept) == (2, 2, False)
        assert shown(scene) == scene.bodies() == [b"3", b"4"]
        drop(scene, partitions=["y=10/m=1", "y=2"])
        assert shown(scene) == scene.bodies() == []
        assert scene.work() == []
        assert [one.mode for one in magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()] == [
            "drop",
            "drop",
            "append",
        ]
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok

    @pytest.mark.parametrize(
        ("where", "left"),
        [
            ("day < 3", [b"333"]),
            ("day < '3'", []),
            ("day in (1, 10)", [b"22"]),
            ("file.size >= 2 and not day = 2", [b"1", b"22"]),
            ("file.key = 'x'", [b"1", b"22", b"333"]),
            (lambda file: file.partition["day"] == "2" or file.size == 3, [b"1"]),
        ],
    )
    def test_by_a_condition(self, plain: JobScene, where: Any, left: list[bytes]):
        three_days(plain)
        assert drop(plain, where=where).files == 3 - len(left)
        assert shown(plain) == plain.bodies() == left

    def test_null_is_no_value(self, plain: JobScene):
        plain.published({"a=__HIVE_DEFAULT_PARTITION__/x": b"0", "a=1%2F2/y": b"1"})
        assert drop(plain, where="a != '7' and a is not null", dry_run=True).files == 1
        assert drop(plain, where="a = '1/2'").files == 1
        assert drop(plain, where="a is null").files == 1

    def test_what_a_job_brought_and_is_still_shown(self, scene: JobScene):
        first = three_days(scene)
        scene.published({"day=1/a b.bin": b"4"}, mode="overwrite_partitions")
        second = scene.published({"day=1/a b.bin": b"5"})
        assert drop(scene, jobs="monday", partitions="day=2", dry_run=True).files == 1
        report = drop(scene, jobs=[f"run:{'monday'}", first.id])
        assert report.files == 2
        assert shown(scene) == scene.bodies() == [b"4", b"5"]
        assert drop(scene, jobs=second.id).files == 1

    def test_files_of_mixed_rows_are_refused(self, plain: JobScene):
        three_days(plain)
        before = plain.everything()
        with pytest.raises(
            UsageError, match=r"3 files .* they have no values recorded for hour; nothing was changed"
        ):
            drop(plain, where="hour = 3")
        assert plain.everything() == before
        assert drop(plain, where="hour = 3", partitions="day=7").files == 0

    @pytest.mark.parametrize(
        "how",
        [
            {},
            {"partitions": []},
            {"jobs": []},
            {"partitions": ""},
            {"partitions": "/"},
            {"partitions": "a/../b"},
            {"partitions": "_magicfs"},
            {"where": "day <"},
            {"where": "day < 'x' extra"},
            {"partitions": "day=1", "keep": "soon"},
        ],
    )
    def test_orders_that_are_refused(self, plain: JobScene, how: dict[str, Any]):
        three_days(plain)
        before = plain.everything()
        with pytest.raises(UsageError):
            drop(plain, **how)
        assert plain.everything() == before

    def test_a_dry_run_and_nothing_to_drop_change_nothing(self, scene: JobScene):
        three_days(scene)
        before = scene.everything()
        report = drop(scene, partitions="day=1", dry_run=True)
        assert (report.job_id, report.files) == (None, 1)
        assert drop(scene, partitions="day=3").files == 0
        assert scene.everything() == before

    def test_nothing_was_published(self, plain: JobScene):
        with pytest.raises(ObjectNotFound):
            drop(plain, partitions="day=1")
        three_days(plain)
        with pytest.raises(ObjectNotFound):
            drop(plain, jobs="tuesday")

    def test_files_that_no_manifest_knows_are_told_of(self, plain: JobScene):
        plain.put("day=1/foreign.bin", b"x")
        three_days(plain)
        with pytest.raises(UsageError, match="adopt"):
            drop(plain, partitions="day=1")
        assert magicfs.Dataset(plain.url, filesystem=plain.filesystem).adopt().manifest is not None
        assert drop(plain, partitions="day=1").files == 2


class TestRuns:
    def test_a_run_is_dropped_once(self, scene: JobScene):
        three_days(scene)
        first = drop(scene, partitions="day=1", run_id="tidy")
        scene.published({"day=1/again": b"4"})
        before = scene.everything()
        second = drop(scene, partitions="day=1", run_id="tidy")
        assert (second.published_before, second.job_id, second.files) == (True, first.job_id, 0)
        assert scene.everything() == before

    def test_a_run_of_nothing_leaves_nothing(self, scene: JobScene):
        three_days(scene)
        before = scene.everything()
        assert drop(scene, partitions="day=7", run_id="tidy").job_id is None
        assert scene.everything() == before


class TestKeeping:
    def test_what_is_dropped_can_be_kept_and_rolled_back(self, scene: JobScene):
        first = three_days(scene)
        assert drop(scene, partitions="day=1", keep="7d").kept
        assert shown(scene) == [b"22", b"333"]
        assert scene.bodies() == [b"22", b"333"]
        assert shown(scene, first.id) == [b"1", b"22", b"333"]
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert drop(scene, partitions="day=1").files == 0
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=first.id, keep=None)
        assert shown(scene) == [b"1", b"22", b"333"]

    @pytest.mark.parametrize("again", [None, "1d", "30d"])
    def test_what_an_earlier_job_keeps_is_hidden_and_stays(self, scene: JobScene, again: str | None):
        """Since a rollback files are shown that another job has promised to keep."""
        first = scene.published({"p=1/a": b"1"}, {"p=2/b": b"2"})
        scene.published({"p=1/a": b"3"}, mode="overwrite", keep="7d", keep_in_place=True)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=first.id, keep=None)
        drop(scene, partitions="p=1", keep=again, keep_in_place=again is not None)
        assert shown(scene) == [b"2"]
        assert shown(scene, first.id) == [b"1", b"2"], "as was promised"
        assert expire(scene, days=6) == 0
        expire(scene, days=8)
        assert scene.bodies() == ([b"1", b"2"] if again == "30d" else [b"2"])
        expire(scene, days=31)
        assert shown(scene) == scene.bodies() == [b"2"]

    @pytest.mark.parametrize("again", [None, "1d"])
    def test_so_does_a_job_that_replaces_partitions(self, scene: JobScene, again: str | None):
        first = scene.published({"p=1/a": b"1"}, {"p=2/b": b"2"})
        scene.published({"p=1/a": b"3"}, mode="overwrite", keep="7d", keep_in_place=True)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=first.id, keep=None)
        in_place = {"keep": again, "keep_in_place": True} if again else {}
        scene.published({"p=1/a": b"4"}, mode="overwrite_partitions", **in_place)
        assert shown(scene) == [b"2", b"4"]
        assert shown(scene, first.id) == [b"1", b"2"]
        expire(scene, days=8)
        assert shown(scene) == scene.bodies() == [b"2", b"4"]

    def test_compaction_and_sums(self, scene: JobScene):
        three_days(scene)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        drop(scene, partitions="day=1")
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        assert shown(scene) == [b"22", b"333"]
        scene.published({"day=1/a b.bin": b"4"})
        assert shown(scene) == [b"22", b"333", b"4"]


class TestOthers:
    def test_files_that_are_gone_are_taken_out_all_the_same(self, plain: JobScene):
        three_days(plain)
        [gone] = [name for name in plain.data() if name.startswith("day=1/")]
        plain.delete(gone)
        assert drop(plain, partitions="day=1").files == 1
        assert magicfs.Dataset(plain.url, filesystem=plain.filesystem).verify().ok

    def test_a_file_that_somebody_wrote_over_is_refused(self, plain: JobScene):
        three_days(plain)
        [name] = [name for name in plain.data() if name.startswith("day=1/")]
        plain.put(name, b"somebody else's")
        before = plain.everything()
        with pytest.raises(CommitDenied, match="overwritten since it was published"):
            drop(plain, partitions="day=1")
        assert plain.everything() == before

    def test_foreign_files_in_a_partition_stay(self, plain: JobScene):
        three_days(plain)
        plain.put("day=1/foreign.bin", b"x")
        drop(plain, partitions="day=1")
        assert plain.bodies() == [b"22", b"333", b"x"]

    @pytest.mark.slow
    def test_another_replacing_job_at_every_request(self):
        """Whichever comes first: nothing is lost that was added, and nothing shown that was dropped."""
        ends = set()
        for number in range(1, 100):
            scene = JobScene(DEST)
            scene.published({"p=1/a": b"1", "p=2/b": b"2"})
            place = paths.parse_url(scene.url)

            def other(scene: JobScene = scene) -> None:
                job = scene.job("overwrite_partitions")
                try:
                    job.commit(scene.wrote(job, {"p=1/a": b"3"}))
                except CommitDenied:
                    ends.add("the other was denied")
                    job.abort()

            def before(request: Request, number: int = number, other: Any = other) -> None:
                if request.number == number:
                    other()  # on the loop of its filesystem, which is not this one

            traffic = Traffic(before=before)
            engine = scene.engine(traffic)
            order = Order.of(partitions="p=1")
            done = asyncio.run(_tried(engine, place, order))
            now = shown(scene)
            ends.add((done, tuple(now)))
            assert now == [b"2"]
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover()
            assert shown(scene) == scene.bodies() == now
            assert scene.work() == []
            if len(traffic.log) < number:
                break
        assert 20 < number < 99
        # What comes before the drop has announced itself is dropped, too; what comes later waits for it.
        assert ends == {"the other was denied", ("dropped", (b"2",))}

    @pytest.mark.slow
    def test_an_appending_job_at_every_request(self):
        for number in range(1, 100):
            scene = JobScene(DEST)
            scene.published({"p=1/a": b"1", "p=2/b": b"2"})
            place = paths.parse_url(scene.url)

            def before(request: Request, number: int = number, scene: JobScene = scene) -> None:
                if request.number == number:
                    scene.published({"p=1/c": b"3"})

            traffic = Traffic(before=before)
            engine = scene.engine(traffic)
            order = Order.of(partitions="p=1")
            assert asyncio.run(_tried(engine, place, order)) == "dropped"
            now = shown(scene)
            assert now in ([b"2"], [b"2", b"3"])
            assert scene.bodies() == now
            assert now == [b"2"] or len(traffic.log) >= number
            if len(traffic.log) < number:
                break
        assert 20 < number < 99


class TestDeaths:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    @pytest.mark.parametrize("keep", [None, DAY_MS])
    def test_at_each_request(self, kind: Kind, keep: int | None):
        ends = set()
        for number in range(1, 100):
            scene = JobScene(DEST)
            scene.published({"p=1/a": b"1"}, {"p=2/b": b"2"})
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            how = {"order": Order.of(partitions="p=1"), "job": job_id("tidy"), "keep_ms": keep}
            done = scene.lived(lambda: drop_files(engine, place, **how))  # noqa: B023
            assert shown(scene) in ([b"2"], [b"1", b"2"])
            for _ in range(2):
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover()
            if scene.work():
                with pytest.raises(UsageError, match="only its own process knew which files"):
                    commit(scene.url, "tidy", filesystem=scene.filesystem)
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(abort=True)
            now = shown(scene)
            ends.add(tuple(now))
            assert scene.work() == []
            assert scene.bodies() == now
            if now == [b"1", b"2"]:
                assert drop(scene, partitions="p=1", keep="1d" if keep else None).files == 1
            assert drop(scene, partitions="p=1").files == 0
            assert shown(scene) == [b"2"]
            if keep:
                assert expire(scene, days=2) == 1
            assert scene.bodies() == [b"2"]
            assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
            if done is not None:
                break
        assert 20 < number < 99, "every request"
        assert ends == {(b"2",), (b"1", b"2")}

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_the_run_repeated_ends_one_that_died_at_any_request(self, kind: Kind):
        """Nobody runs recover: the second call does what the first could not."""
        ways = set()
        for number in range(1, 100):
            scene = JobScene(DEST)
            scene.published({"p=1/a": b"1"}, {"p=2/b": b"2"})
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            how = {"order": Order.of(partitions="p=1"), "job": job_id("first"), "run_id": "tidy"}
            done = scene.lived(lambda: drop_files(engine, place, **how))  # noqa: B023
            second = drop(scene, partitions="p=1", run_id="tidy")
            ways.add((second.files, second.published_before))
            assert shown(scene) == scene.bodies() == [b"2"]
            assert scene.work() == [] == scene.uploads()
            assert len(magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()) == 2
            assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
            if done is not None:
                break
        assert 20 < number < 99, "every request"
        assert ways == {(1, False), (0, True)}


class TestJobObject:
    @pytest.mark.parametrize("mode", ["drop", "rewrite"])
    def test_an_older_magicfs_refuses_it(self, mode: str):
        chunk = Chunk("d/k", "0" * 64, 1, 1)
        job = JobObject(
            job_id=job_id("j"),
            bucket="b",
            destination="d",
            state=JobState.PREPARED,
            nonce="n",
            driver="d",
            options=JobOptions(committer="magic", mode=mode),
            hidden=(chunk,),
        )
        raw = job.to_bytes()
        assert json.loads(raw)["requires"] == ["hidden", "removal"]
        assert JobObject.from_bytes("x", raw) == job
        assert b"hidden" not in replace(job, hidden=()).to_bytes()


class TestCommand:
    def test_it_drops_and_says_what(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales 50% #1")
        with magicfs.Job(url, run_id="monday") as job, job.task(0) as task:
            for day in (1, 2, 3):
                task.filesystem.pipe_file(f"{task.path}/day={day}/a.csv", b"12")

        def said(*words: str, status: int = 0) -> str:
            assert main(["drop", url, *words]) == status
            return capsys.readouterr().out

        assert "would drop" in said("--where", "day < 2", "--dry-run", status=1)
        assert "nothing to drop" in said("--where", "day < 1", "--dry-run")
        assert "2 B" in said("--where", "day < 2", "--run-id", "tidy", "--no-keep")
        assert "already made this drop" in said("--where", "day < 2", "--run-id", "tidy")
        assert "nothing to drop" in said("--where", "day < 2")
        found = json.loads(said("--partition", "day=2", "--published-by", "monday", "--keep", "1d", "--json"))
        assert (found["files"], found["kept"]) == (1, True)
        assert main(["drop", url]) == 2
        assert "to choose what to drop" in capsys.readouterr().err
        assert main(["log", url]) == 0
        assert capsys.readouterr().out.count("drop") == 2


async def _tried(engine: Any, place: Any, order: Order) -> str:
    try:
        done = await drop_files(engine, place, order=order, job=job_id("tidy"))
    except MagicError as error:
        return type(error).__name__
    return "dropped" if done.job_id else "nothing"


def publish_table(scene: JobScene, values: list[Any], **how: Any) -> None:
    table = pa.table({"n": values, "ratio": [0.5] * len(values), "when": [date(2026, 1, 2)] * len(values)})
    how = {"mode": "append", "footers": True, "filesystem": scene.filesystem} | how
    magicfs.write(table, scene.url, **arranged(**how))


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("n < 10", [[10, 11], [20, None]]),
        ("n >= 10 and \"when\" = '2026-01-02'", [[1, 2], [20, None]]),
        ("n is not null and n > 5", [[1, 2], [20, None]]),
        ("\"when\" < '2026-01-02'", [[1, 2], [10, 11], [20, None]]),
        ("\"when\" <= '2026-01-02'", []),
    ],
)
def test_files_are_chosen_by_what_their_footers_say(plain: JobScene, where: str, left: list[Any]) -> None:
    for values in ([1, 2], [10, 11], [20, None]):
        publish_table(plain, values)
    if "n >= 10" in where or "n is not null" in where:
        with pytest.raises(UsageError, match="may have both rows"):
            drop(plain, where="n >= 10")
        where += " and n < 20"
    drop(plain, where=where)
    found = magicfs.Dataset(plain.url, filesystem=plain.filesystem).to_arrow(
        schema=pa.schema({"n": pa.int64()})
    )
    assert sorted(found.to_table()["n"].to_pylist(), key=str) == sorted(
        (one for file in left for one in file), key=str
    )


@pytest.mark.parametrize(("where", "footers"), [("ratio < 1", True), ("n < 10", False)])
def test_bounds_that_prove_nothing_refuse_the_drop(plain: JobScene, where: str, footers: bool) -> None:
    publish_table(plain, [1, 2], footers=footers)
    with pytest.raises(UsageError, match="nothing was changed"):
        drop(plain, where=where)


def test_the_footer_of_a_file_that_was_replaced_since_counts_for_nothing(plain: JobScene) -> None:
    publish_table(plain, [1, 2], mode="overwrite", unique_names=False)
    destination = open_destination(plain.url, None, plain.filesystem)
    before = destination.run(current_view)
    [(key, was)] = [(key, one) for key, one in before.files.items() if key.endswith(".parquet")]
    publish_table(plain, [1, 2, 99], mode="overwrite", unique_names=False)
    [now] = [one for name, one in destination.run(current_view).files.items() if name == key]
    footer = magicfs.Dataset(plain.url, filesystem=plain.filesystem).footers()[key]
    order = Order.of(where="n < 200")
    location = paths.parse_url(plain.url)
    assert choose(location, order, {key: now}, None, {key: (now, footer)})
    with pytest.raises(UsageError, match="may have both rows"):
        choose(location, order, {key: now}, None, {key: (was, footer)})
