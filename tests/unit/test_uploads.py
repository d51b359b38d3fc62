"""``magicfs uploads``: whose open uploads are, and that nothing is ended that a job could still need."""

from __future__ import annotations

import asyncio
import json
import math
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.cli.main import main
from magicfs.engine import Engine
from magicfs.errors import AuditFailed, PermissionDenied, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.operate.lifecycle import days_for, judge, rule_document
from magicfs.operate.open_uploads import Owner
from magicfs.operate.prices import Price, price_of
from magicfs.operate.uploads import MIN_AGE_S, UploadsReport, survey
from magicfs.protocol.paths import parse_url
from magicfs.stores.azure.store import AzureStore
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.gcs.store import GcsStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.port import Rule, Store
from magicfs.stores.s3.store import S3Store
from magicfs.testing.counting_store import CountingStore
from proofs.scenes.job_scene import BUCKET, JobScene

DAY = 86_400.0
WEEK = 7 * DAY
HOSTILE = ("day=1/a b%50+#ä.parquet", "-rf", "a\n\x1b[31mb", "..", "__magic", "a//b", "ÿ\u202e/x")
HADOOP = f"__magic_job-{uuid4()}"


class Scene(JobScene):
    """A bucket in which things were written ten days ago."""

    def __init__(self) -> None:
        super().__init__()
        self.at(-10 * DAY)

    def at(self, seconds: float) -> None:
        """Let the store's clock be so far from ours."""
        self.filesystem.world.clock = lambda: time.time() + seconds

    def begun(self, *keys: str, body: bytes = b"") -> list[str]:
        """Open an upload of each key, as any program may; returns the ids."""

        async def begin(key: str) -> str:
            upload = await self.plain.create_upload(key, metadata={})
            if body:
                await self.plain.put_part(key, upload, 1, body)
            return upload

        return [asyncio.run(begin(key)) for key in keys]

    def open(self) -> list[str]:
        """The keys of all open uploads."""

        async def listed() -> list[str]:
            return [one.key async for one in self.plain.list_uploads("")]

        return asyncio.run(listed())

    def look(self, url: str = f"memory://{BUCKET}", store: Store | None = None, **how: Any) -> UploadsReport:
        self.at(0)
        engine = Engine(store or self.plain, 8)
        return asyncio.run(survey(engine, parse_url(url), Price(1.0, "a test"), **how))

    def end(self, url: str = f"memory://{BUCKET}", **how: Any) -> UploadsReport:
        return self.look(url, older_than_s=WEEK, **how)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def owners(report: UploadsReport) -> dict[Owner, int]:
    return {owner: one.uploads for owner, one in report.owners.items()}


def reasons(report: UploadsReport) -> str:
    assert report.aborting is not None
    return "; ".join(report.aborting.left)


def hadoops(scene: Scene, directory: str, *names: str, layout: str = HADOOP, recorded: bool = True) -> None:
    """What a task of Hadoop's magic committer leaves that has committed."""
    job = layout.removeprefix("__magic_job-")
    made = []
    for name in names:
        key = f"{directory}/{name}"
        [upload] = scene.begun(key)
        part = asyncio.run(scene.plain.put_part(key, upload, 1, b"1234567"))
        pending = {
            "uploadId": upload,
            "bucket": BUCKET,
            "destinationKey": key,
            "etags": [part.etag],
            "length": 7,
        }
        raw = json.dumps({**pending, "version": 2}).encode()
        made.append(Pending.from_bytes("p.pending", raw))
    work = f"{BUCKET}/{directory}/{layout}/job-{job}/00"
    scene.filesystem.pipe_file(f"{work}/tasks/attempt_1_0001_m_000000_0/__base/marker", b"")
    if recorded:
        body = PendingSet.merge(job, made).to_bytes()
        scene.filesystem.pipe_file(f"{work}/task_1_0001_m_000000.pendingset", body)


def quarantined(scene: Scene, url: str = "") -> magicfs.Job:
    job = scene.job("append", audit=[lambda _: "never"])
    with pytest.raises(AuditFailed):
        job.commit(scene.wrote(job, {"q": b"123"}))
    return job


class TestOwners:
    """Who is told as the owner, with numbers, bytes and money."""

    def test_of_a_bucket_with_every_kind(self, scene: Scene) -> None:
        job = scene.job("append")
        scene.wrote(job, {"a": b"12345", "b": b"1"})
        quarantined(scene)
        hadoops(scene, "lake/hadoop", "part-0", "part-1", "part-2")
        scene.begun(f"sales/x-000000-{uuid4()}.parquet")
        scene.begun("logs/a", "logs/b", "top", f"logs/part-00000-{uuid4()}-c000.snappy.parquet", body=b"12")
        report = scene.look(sizes=True)
        assert owners(report) == {
            Owner.RUNNING: 2,
            Owner.QUARANTINED: 1,
            Owner.HADOOP: 3,
            Owner.ENDED: 1,
            Owner.NOBODY: 4,
        }
        assert {name: one.uploads for name, one in report.prefixes.items()} == {
            "sales/": 4,
            "lake/": 3,
            "logs/": 3,
            "": 1,
        }
        assert (report.total.bytes, report.total.unsized) == (6 + 3 + 3 * 7 + 4 * 2, 0)
        assert report.owners[Owner.HADOOP].bytes == 21
        document = report.to_dict()
        assert document["owners"]["hadoop"]["dollars_a_month"] == round(21 / 2**30, 4)
        assert document["count"] == len(document["pending"]) == 11

    def test_a_job_of_which_nothing_was_seen_for_an_hour_is_dead(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = scene.job("append")
        scene.at(0)
        scene.wrote(job, {"a": b"1"})
        late = time.time() + 7200
        assert owners(scene.look()) == {Owner.RUNNING: 1}
        assert owners(scene.look(clock=lambda: late)) == {Owner.DEAD: 1}

    def test_hostile_names_are_counted_and_printed(
        self, scene: Scene, capsys: pytest.CaptureFixture[str]
    ) -> None:
        scene.begun(*HOSTILE)
        assert owners(scene.look()) == {Owner.NOBODY: len(HOSTILE)}
        assert owners(scene.look(depth=9))
        ended = scene.end()
        assert (ended.total.uploads, scene.open()) == (0, [])

    def test_the_oldest_thousand_are_told(self, scene: Scene) -> None:
        scene.begun(*(f"d{number % 3}/{number}" for number in range(1205)))
        report = scene.look()
        assert (report.total.uploads, len(report.oldest)) == (1205, 1000)
        assert [one.initiated for one in report.oldest] == sorted(one.initiated for one in report.oldest)

    @pytest.mark.slow
    def test_50_000_uploads_in_bounded_memory_with_few_requests(self, scene: Scene) -> None:
        world = scene.filesystem.world
        contents = world.find(BUCKET)
        assert contents is not None
        [one] = scene.begun("d/first")
        held = contents.uploads.pop(one)
        for number in range(50_000):
            key = f"d{number % 50:02}/e/{number:06}"
            contents.uploads[f"{number}"] = type(held)(key, held.initiated, {}, {})
        counts = Counter[str]()
        peaks = []
        for size in (10_000, 50_000):
            kept = dict(contents.uploads)
            contents.uploads = dict(list(kept.items())[:size])
            tracemalloc.start()
            store = Streaming(CountingStore(scene.plain, counts))
            report = scene.look(store=store)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            contents.uploads = kept
            assert (report.total.uploads, len(report.prefixes)) == (size, 50)
        assert peaks[1] < peaks[0] + 4 * 2**20, peaks
        assert counts["list"] == 2 * (1 + 50 + 50), counts


class Streaming(DelegatingStore):
    """Lists uploads as a store does that has pages: it holds none of them."""

    def list_uploads(self, prefix: str) -> Any:
        world = self.inner.inner.world  # type: ignore[attr-defined]
        contents = world.find(BUCKET)

        async def listed() -> Any:
            from magicfs.stores.port import UploadInfo

            for upload_id, one in contents.uploads.items():
                yield UploadInfo(one.key, upload_id, one.initiated)

        return listed()


class TestEnding:
    """What ``--abort`` takes, and above all what it leaves."""

    def test_takes_old_ones_of_nobody_and_of_ended_jobs(self, scene: Scene) -> None:
        gone = [f"sales/x-000000-{uuid4()}.parquet", "logs/a", "top"]
        scene.begun(*gone, body=b"123")
        scene.at(-2 * DAY)
        scene.begun("logs/young")
        planned = scene.end(dry_run=True)
        assert planned.aborting is not None
        assert (planned.aborting.ended.uploads, planned.aborting.ended.bytes) == (3, 9)
        assert len(scene.open()) == 4, "a dry run ends nothing"
        done = scene.end()
        assert done.aborting is not None
        assert (done.aborting.ended.uploads, done.aborting.young) == (3, 1)
        assert scene.open() == ["logs/young"]
        again = scene.end()
        assert again.aborting is not None
        assert again.aborting.ended.uploads == 0

    def test_leaves_those_of_a_job_that_names_them(self, scene: Scene) -> None:
        job = scene.job("append")
        scene.wrote(job, {"a": b"1", "day=1/b": b"2"})
        scene.end()
        assert len(scene.open()) == 2
        assert job.id in reasons(scene.end())

    def test_leaves_those_that_no_record_names_of_a_job_without_unique_names(self, scene: Scene) -> None:
        """Its file is still open: neither a name nor a record says whose it is, but its job's object."""
        job = scene.job("append", unique_names=False)
        scene.wrote(job, {"day=1/a": b"1"})
        scene.begun("sales/day=1/b", "elsewhere/c")
        scene.end()
        assert scene.open() == ["sales/day=1/a", "sales/day=1/b"]
        assert "may give names without its id" in reasons(scene.end())

    def test_leaves_those_at_an_extra_destination(self, scene: Scene) -> None:
        extra = f"memory://{BUCKET}/extra"
        job = scene.job("append", extra_destinations=[extra])
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path_to(extra)}/deep/a", b"123")
        scene.end()
        assert len(scene.open()) == 1
        scene.end(extra)
        assert len(scene.open()) == 1

    def test_leaves_those_of_a_quarantined_job(self, scene: Scene) -> None:
        quarantined(scene)
        assert owners(scene.end()) == {Owner.QUARANTINED: 1}
        assert len(scene.open()) == 1

    def test_leaves_those_of_hadoop_with_and_without_a_record(self, scene: Scene) -> None:
        hadoops(scene, "lake", "part-0")
        scene.begun("lake/day=1/part-00000-not-closed-yet", "other/x")
        scene.end()
        assert scene.open() == ["lake/day=1/part-00000-not-closed-yet", "lake/part-0"]
        assert "no job object" in reasons(scene.end())

    def test_leaves_those_of_hadoop_above_a_job_that_names_its_own(self, scene: Scene) -> None:
        """What lies nearest has nothing to say of them; what lies above that has."""
        hadoops(scene, "sales", "part-0")
        other = JobScene("sales/deep", world=scene.filesystem.world)
        other.job("append")
        scene.begun("sales/deep/x")
        scene.end()
        assert scene.open() == ["sales/deep/x", "sales/part-0"]

    def test_leaves_those_of_hadoop_before_3_4(self, scene: Scene) -> None:
        scene.filesystem.pipe_file(f"{BUCKET}/lake/__magic/job-0001/tasks/attempt_1/__base/x", b"")
        scene.begun("lake/x")
        scene.end()
        assert scene.open() == ["lake/x"]

    def test_leaves_those_of_a_path_of_a_users_own(self, scene: Scene) -> None:
        magic = MagicFileSystem(fs=scene.filesystem)
        magic.pipe_file(f"{BUCKET}/sales/__magic/mine/__base/a.csv", b"row\n")
        scene.begun("sales/deep/not-closed-yet.csv")
        report = scene.end()
        assert sorted(scene.open()) == ["sales/a.csv", "sales/deep/not-closed-yet.csv"]
        assert report.owners[Owner.DEAD].uploads == 1

    def test_leaves_those_to_which_somebody_wrote_lately(self, scene: Scene) -> None:
        """A stream that runs for longer than the age: its upload is old, and its parts are not."""
        [upload] = scene.begun("logs/long", body=b"1")
        scene.at(-6 * DAY)
        asyncio.run(scene.plain.put_part("logs/long", upload, 2, b"2"))
        report = scene.end()
        assert report.aborting is not None
        assert (report.aborting.written, scene.open()) == (1, ["logs/long"])
        assert report.owners[Owner.NOBODY].uploads == 1

    def test_leaves_all_below_a_job_object_that_cannot_be_read(self, scene: Scene) -> None:
        job = str(uuid4())
        scene.filesystem.pipe_file(f"{BUCKET}/sales/__magic_job-{job}/job-{job}/job.json", b"{")
        scene.begun("sales/a", "sales/deep/b", "free")
        scene.end()
        assert scene.open() == ["sales/a", "sales/deep/b"]

    def test_leaves_all_below_a_directory_that_may_not_be_listed(self, scene: Scene) -> None:
        scene.begun("open/x", "closed/x", "closed/deep/y")

        class Closed(DelegatingStore):
            async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
                if operation.startswith("list_dir") and key.startswith("closed/__magic"):
                    raise PermissionDenied(operation, key, "AccessDenied")
                return await request()

        report = scene.end(store=Closed(scene.plain))
        assert owners(report) == {Owner.UNKNOWN: 2}
        assert sorted(scene.open()) == ["closed/deep/y", "closed/x"]
        assert "bucket/closed cannot be read (PermissionDenied)" in reasons(report)

    def test_leaves_all_if_the_root_may_not_be_listed(self, scene: Scene) -> None:
        scene.begun("sales/x")

        class Closed(DelegatingStore):
            async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
                if (operation, key) == ("list_directories", "__magic"):
                    raise PermissionDenied(operation, key, "AccessDenied")
                return await request()

        scene.end(f"memory://{BUCKET}/sales", store=Closed(scene.plain))
        assert scene.open() == ["sales/x"], "a job with its destination above may own it"

    def test_leaves_what_bears_the_id_of_a_job_anywhere(self, scene: Scene) -> None:
        job = scene.job("append")
        scene.begun(f"sales/a.my.label-{job.id}_7", f"sales/{job.id}/x", "sales/y")
        scene.end()
        assert len(scene.open()) == 2

    def test_leaves_what_is_left_of_a_job_without_an_object(self, scene: Scene) -> None:
        """As of a committer that needs none: whether it lives, nobody can tell."""
        job = str(uuid4())
        scene.filesystem.pipe_file(f"{BUCKET}/sales/__magic_job-{job}/job-{job}/00/sets/x", b"")
        scene.begun(f"sales/a-000000-{job}.parquet", "sales/b")
        scene.end()
        assert len(scene.open()) == 2

    def test_a_forged_record_takes_no_upload_from_its_job(self, scene: Scene) -> None:
        """Records that lie nearer, and say that the upload is another job's, which has ended."""
        job = scene.job("append", unique_names=False)
        scene.wrote(job, {"day=1/a": b"1"})
        [upload] = scene.open()
        ended = str(uuid4())
        found = asyncio.run(_ids(scene.plain))
        forged = {
            "uploadId": found[upload],
            "bucket": BUCKET,
            "destinationKey": upload,
            "etags": ["x"],
            "length": 1,
        }
        raw = json.dumps({**forged, "version": 2, "jobId": ended}).encode()
        scene.filesystem.pipe_file(f"{BUCKET}/sales/day=1/__magic_job-{ended}/job-{ended}/00/a.pending", raw)
        scene.filesystem.pipe_file(f"{BUCKET}/sales/day=1/__magic/job-{job.id}/job.json", b"{}")
        scene.end()
        assert scene.open() == [upload]

    def test_a_forged_job_object_makes_no_upload_free(self, scene: Scene) -> None:
        """The object of the same job in a directory below says that it is ended, or names its files."""
        job = scene.job("append", unique_names=False)
        scene.wrote(job, {"day=1/a": b"1"})
        home = f"sales/__magic_job-{job.id}/job-{job.id}/job.json"
        raw = json.loads(scene.filesystem.cat_file(f"{BUCKET}/{home}"))
        for state in ("completed", "aborting"):
            forged = json.dumps({**raw, "state": state, "destination": "sales/day=1", "uniqueNames": True})
            place = f"{BUCKET}/sales/day=1/__magic_job-{job.id}/job-{job.id}/job.json"
            scene.filesystem.pipe_file(place, forged.encode())
            scene.end()
            assert scene.open() == ["sales/day=1/a"]

    def test_of_a_neighbour_with_a_longer_name_nothing_counts(self, scene: Scene) -> None:
        scene.job("append", unique_names=False)
        scene.begun("sales10/x")
        scene.end()
        assert scene.open() == []

    @pytest.mark.parametrize("skew", [8 * DAY, 3600, -3600])
    def test_a_wrong_clock_ends_nothing(self, scene: Scene, skew: float) -> None:
        scene.begun("x")
        with pytest.raises(UsageError, match=r"this machine's clock is \d.* the store's"):
            scene.end(clock=lambda: time.time() + skew)
        assert scene.open() == ["x"]

    @pytest.mark.parametrize("age", [0.0, 1.0, MIN_AGE_S - 1])
    def test_a_short_age_is_refused(self, scene: Scene, age: float) -> None:
        scene.begun("x")
        with pytest.raises(UsageError, match="too short"):
            scene.look(older_than_s=age)
        assert scene.open() == ["x"]

    def test_leaves_those_of_which_the_store_does_not_say_when_they_were_opened(self, scene: Scene) -> None:
        scene.filesystem.world.clock = lambda: 0.0
        scene.begun("x")
        assert "does not say when" in reasons(scene.end())
        assert scene.open() == ["x"]

    def test_one_that_stops_half_way_goes_on(self, scene: Scene) -> None:
        scene.begun(*(f"d/{number:03}" for number in range(50)))
        asked = []

        class Stopping(DelegatingStore):
            async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
                if operation == "abort_upload":
                    asked.append(key)
                    if len(asked) > 20:
                        raise PermissionDenied(operation, key, "AccessDenied")
                return await request()

        with pytest.raises(PermissionDenied) as raised:
            scene.end(store=Stopping(scene.plain))
        assert "20 uploads were ended before; the same command goes on" in raised.value.__notes__
        assert len(scene.open()) == 30
        done = scene.end()
        assert done.aborting is not None
        assert (done.aborting.ended.uploads, scene.open()) == (30, [])

    def test_one_that_ends_meanwhile_is_no_error(self, scene: Scene) -> None:
        ids = scene.begun("a", "b")

        class Racing(DelegatingStore):
            async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
                if (operation, key) == ("written", "a"):
                    await self.inner.abort_upload("a", ids[0])
                return await request()

        report = scene.end(store=Racing(scene.plain))
        assert report.aborting is not None
        assert (report.aborting.gone, report.aborting.ended.uploads) == (1, 1)

    def test_two_at_once_end_each_once(self, scene: Scene) -> None:
        scene.begun(*(f"d/{number:03}" for number in range(200)))
        scene.at(0)

        async def both() -> list[UploadsReport]:
            price, location = Price(None, ""), parse_url(f"memory://{BUCKET}")
            engines = [Engine(scene.plain, 8) for _ in range(2)]
            return list(
                await asyncio.gather(*(survey(one, location, price, older_than_s=WEEK) for one in engines))
            )

        asyncio.run(both())
        assert scene.open() == []


async def _ids(store: Store) -> dict[str, str]:
    return {one.key: one.upload_id async for one in store.list_uploads("")}


class TestCommand:
    """The command line."""

    @pytest.fixture
    def url(self) -> str:
        bucket = uuid4().hex
        filesystem = MemoryFileSystem()
        store = filesystem.store(bucket)
        for key in ("sales/a", "sales/b", "logs/c", *HOSTILE):
            sync(filesystem.loop, store.create_upload, key, metadata={})
        return f"memory://{bucket}"

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--abort"], "--abort needs --older-than"),
            (["--older-than", "7d"], "work only with --abort"),
            (["--dry-run"], "work only with --abort"),
            (["--abort", "--older-than", "week"], "is not a period of time"),
            (["--abort", "--older-than", "1h"], "is too short"),
            (["--price", "-1"], "is not a price"),
            (["--price", "nan"], "is not a price"),
            (["--price", "cheap"], "invalid float value"),
        ],
    )
    def test_bad_input_is_refused_with_what_to_do(
        self, url: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["uploads", url, *words]) == 2
        assert told in capsys.readouterr().err

    def test_it_prints_owners_prefixes_and_how_to_end_them(
        self, url: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["uploads", url, "--sizes", "--price", "0.5"]) == 1
        told = capsys.readouterr().out
        assert "\x1b" not in told
        for word in (
            "OWNER",
            "nobody",
            "PREFIX",
            "sales/",
            "to end: once 7 days old: --abort --older-than 7d",
        ):
            assert word in told, told

    def test_it_leaves_what_is_young(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["uploads", url, "--abort", "--older-than", "7d", "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["aborting"]["ended"]["uploads"] == 0
        assert document["aborting"]["left"]["young"] == 3 + len(HOSTILE)

    def test_a_store_that_cannot_say_is_refused(
        self, tmp_path: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["uploads", f"file://{tmp_path}", "--abort", "--older-than", "7d"]) == 3
        said = capsys.readouterr().err
        assert "file:// cannot say when an upload was last written" in said
        assert "use magicfs recover URL --job ID --abort" in said


class TestPrices:
    def test_a_list_price_says_where_it_is_from(self) -> None:
        found = price_of("s3", None)
        assert found.of(2**30) == pytest.approx(0.023)
        assert "us-east-1" in found.source
        assert price_of("memory", None).of(5) is None
        for store in (S3Store, GcsStore, AzureStore):
            assert price_of(store.name, None).dollars is not None
        assert price_of("s3", 0.5).of(2**31) == pytest.approx(1.0)

    @pytest.mark.parametrize("price", [-0.1, math.inf, math.nan])
    def test_no_price_is_refused(self, price: float) -> None:
        with pytest.raises(UsageError, match="is not a price"):
            price_of("s3", price)


class TestLifecycle:
    """The rule of the bucket, judged."""

    location = parse_url("s3://bucket/sales")

    @pytest.mark.parametrize(
        ("rules", "days"),
        [
            ((), None),
            ((Rule(7),), 7),
            ((Rule(7, "sales"),), 7),
            ((Rule(7, "sales/2026"),), None),
            ((Rule(7, "sales10"),), None),
            ((Rule(7), Rule(3, "sales/"), Rule(1, "logs/")), 3),
        ],
    )
    def test_the_shortest_that_covers_all_counts(self, rules: tuple[Rule, ...], days: int | None) -> None:
        assert days_for(rules, "sales") == days

    @pytest.mark.parametrize(
        ("waiting", "verdict"),
        [(None, "ok"), (DAY, "ok"), (5 * DAY, "look"), (7 * DAY, "wrong"), (90 * DAY, "wrong"), (-DAY, "ok")],
    )
    def test_it_is_judged_by_the_job_that_has_waited_longest(
        self, waiting: float | None, verdict: str
    ) -> None:
        found = judge(self.location, [Rule(7)], waiting, "j")
        assert found.verdict == verdict
        assert ("magicfs recover s3://bucket/sales --job j" in found.advice) == (verdict != "ok")

    def test_none_is_to_be_looked_at_with_one_to_paste(self) -> None:
        found = judge(self.location, [], None)
        assert found.verdict == "look"
        assert '"DaysAfterInitiation": 7' in found.advice
        document = rule_document(self.location)
        assert document is not None
        assert document["Rules"][0]["Filter"] == {"Prefix": "sales/"}  # type: ignore[index]
        assert rule_document(parse_url("memory://b")) is None
        google = rule_document(parse_url("gs://b"))
        assert google is not None
        assert google["rule"][0]["condition"] == {"age": 7}  # type: ignore[index]

    def test_doctor_reads_it(self, scene: Scene) -> None:
        scene.at(0)
        job = scene.job("append")
        contents = scene.filesystem.world.find(BUCKET)
        assert contents is not None

        def told() -> list[tuple[str, str]]:
            report = magicfs.Dataset(scene.url, filesystem=scene.filesystem).doctor(read_only=True)
            return [(one.verdict, one.told) for one in report.findings if one.subject == "lifecycle"]

        assert told() == []
        contents.rules = ()
        assert told() == [("look", "no rule of the bucket ends old open uploads")]
        contents.rules = (Rule(2),)
        [(verdict, sentence)] = told()
        assert verdict == "look"
        assert (
            f"job {job.id} has waited for 0 s, and its uploads end in 1 d 23 h" in sentence
            or "2 d" in sentence
        )
