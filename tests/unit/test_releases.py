"""Several datasets released together: at every instant readers see all of one release, or all of another."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.committers import registry
from magicfs.datasets.connection import Destination
from magicfs.errors import (
    CommitDenied,
    FormatError,
    MagicError,
    ObjectNotFound,
    ProtocolViolation,
    UsageError,
)
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past.earlier_files import files_as_of
from magicfs.past.expire import expire_kept
from magicfs.protocol import paths
from magicfs.releases import holds, publish
from magicfs.releases.publish import Wanted
from magicfs.releases.reading import as_released, read_record
from magicfs.releases.record import Record
from magicfs.tables.release import PublishedRelease, Release
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Crash, Fault, Kind, Request
from proofs.scenes.job_scene import BUCKET, JobScene

SALES = "año=1/sales 50% + #1"
CUSTOMERS = "customers"
PLACE = "releases/marts"
DAY_MS = 86_400_000
EVERY = 3
"""Of the requests at which something happens: another third of them each time."""


class Direct(Destination):
    """A destination of a process of its own, also within a request of another one."""

    def run(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any, **kwargs: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(
                lambda: asyncio.run(work(self.engine, self.location, *args, **kwargs))
            ).result()


class Marts:
    """Two datasets in one bucket, and a release of them."""

    def __init__(self, **how: Any) -> None:
        self.sales, self.customers = JobScene(SALES, **how), JobScene.__new__(JobScene)
        self.customers.__dict__.update(self.sales.__dict__, destination=CUSTOMERS)
        self.scenes = (self.sales, self.customers)
        self.fs = self.sales.filesystem
        self.url = f"memory://{BUCKET}/{PLACE}"

    def release(self, **how: Any) -> Release:
        return Release(self.url, filesystem=self.fs, **how)

    def latest(self, *which: str) -> PublishedRelease:
        return Release.latest(self.url, *which, filesystem=self.fs)

    def publish(self, generation: str, *, keep: str | None = "1d") -> list[str]:
        """Publish both datasets, each by itself."""
        how = {} if keep is None else {"keep": keep, "keep_in_place": True}
        return [
            one.published({"p=1/a.bin": generation.encode()}, mode="overwrite", **how).id
            for one in self.scenes
        ]

    def released(self, generation: str, **how: Any) -> PublishedRelease:
        jobs = self.publish(generation)
        one = self.release(**how)
        for scene, job in zip(self.scenes, jobs, strict=True):
            one.add(scene.url, f"job:{job}", name=scene.destination.rpartition("/")[2])
        return one.commit()

    def place(self, key: str, traffic: Traffic | None = None) -> Direct:
        engine = self.sales.engine(traffic or Traffic())
        return Direct(paths.parse_url(f"memory://{BUCKET}/{key}"), self.fs, engine)

    def wanted(self, jobs: list[str], traffic: Traffic | None = None) -> list[Wanted]:
        names = (SALES.rpartition("/")[2], CUSTOMERS)
        keys = (SALES, CUSTOMERS)
        return [
            Wanted(name, self.place(key, traffic), job)
            for name, key, job in zip(names, keys, jobs, strict=True)
        ]

    def move(self, jobs: list[str], traffic: Traffic | None = None, base: Record | None = None) -> Any:
        """Release in a process of its own; None if it died."""
        release = self.place(PLACE, traffic)
        try:
            before = release.run(read_record)[0] if base is None else base
            return publish.published(release, self.wanted(jobs, traffic), base=before)
        except Crash:
            return None

    def seen(self) -> set[str]:
        """The generation that a reader of the release sees in each dataset, at this instant."""
        release = self.place(PLACE)
        one = as_released(release.location, release.run(read_record)[0])
        return self.rows(one)

    def rows(self, one: Any) -> set[str]:
        found = set()
        for member in one.members:
            place = self.place(member.location.key)
            for file in place.run(files_as_of, f"job:{member.job_id}").values():
                body = place.run(_body, paths.join(member.location.key, file.key))
                found.add(body.decode())
        return found

    def sweep(self, keep_ms: int = 0) -> Any:
        """What ``expire`` does, as of a moment when all older releases are over."""
        release = self.place(PLACE)
        base, gone = publish.expired(release, 10**15)
        places = [self.place(one.destination) for one in self.scenes]
        stray = publish.stray_holds(release, places, base, gone)
        return publish.end_holds(release, base, gone, stray)

    def expire_datasets(self, days: float = 3) -> None:
        for one in self.scenes:
            place = self.place(one.destination)
            seen = place.run(_pointer)
            place.run(expire_kept, now_ms=seen.changed_ms + int(days * DAY_MS))

    def data(self) -> list[str]:
        """The contents of all files of both datasets."""
        return sorted(body.decode() for one in self.scenes for body in one.bodies())

    def entries(self) -> list[str]:
        """What the pointers of both datasets say of holds."""
        found = []
        for one in self.scenes:
            seen = self.place(one.destination).run(_pointer)
            found += [each.job_id for each in seen.keeping if each.job_id.startswith("release-")]
        return found


async def _body(engine: Any, _: Any, key: str) -> bytes:
    body: bytes = await engine.store.get(key)
    return body


async def _pointer(engine: Any, location: Any) -> Any:
    seen = await chain.read_pointer(engine.store, location.key, READING)
    assert seen is not None
    return seen[0]


def overwrite(scene: JobScene, body: str, traffic: Traffic | None = None) -> Callable[[], Any]:
    """A job that is ready to be committed; the returned function commits it in a process of its own."""
    job = scene.job("overwrite")
    commits = scene.wrote(job, {"p=1/a.bin": body.encode()})

    def commit() -> Any:
        engine = scene.engine(traffic or Traffic())
        committer = registry.make(job.spec.options.committer, job.spec.context, engine)
        with ThreadPoolExecutor(1) as pool:
            work = lambda: asyncio.run(committer.commit_job(commits, job.found.driver))  # noqa: E731
            return pool.submit(work).result()

    return commit


@contextmanager
def no_driver_at_work() -> Iterator[None]:
    """However young a hold is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publish, "_AT_WORK_MS", -1)
        yield


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR", logger="magicfs")
    monkeypatch.setattr(holds, "_LOOKS", 2)
    monkeypatch.setattr(holds, "_PAUSE_S", 0.001)


@pytest.fixture
def marts() -> Marts:
    return Marts()


def at_request(number: int, work: Callable[[], Any]) -> tuple[Traffic, list[Any]]:
    """A traffic before whose n-th request something else is done, whatever comes of that."""
    done: list[Any] = []

    def before(request: Request) -> None:
        if request.number == number and not done:
            done.append(None)
            try:
                done[0] = work()
            except MagicError as error:
                done[0] = error

    return Traffic(before=before), done


class TestReading:
    def test_readers_of_the_release_and_of_the_datasets_each_see_theirs(self, marts: Marts) -> None:
        marts.released("1")
        marts.publish("2")
        release = marts.latest()
        for name, scene in zip(("sales 50% + #1", "customers"), marts.scenes, strict=True):
            now = magicfs.Dataset(scene.url, filesystem=marts.fs)
            by_url = magicfs.Dataset(scene.url, filesystem=marts.fs, release=marts.url)
            assert [marts.fs.cat_file(one.url) for one in now.files()] == [b"2"]
            for one in (release.dataset(name), by_url):
                assert [marts.fs.cat_file(file.url) for file in one.files()] == [b"1"]
        again = marts.released("3")
        assert (release.number, again.number) == (1, 2)
        assert marts.rows(release.released) == {"1"}, "a release that was read stays the same"
        assert [one.number for one in marts.release().history()] == [2, 1]
        assert marts.rows(marts.latest("1").released) == {"1"}

    def test_a_job_in_the_block_is_released_at_its_end(self, marts: Marts) -> None:
        marts.released("1")
        with marts.release() as release, release.job(marts.sales.url, mode="overwrite") as job:
            with job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/a.bin", b"2")
            assert release.url == marts.url
        assert marts.rows(release.published.released) == {"1", "2"}, "the other one stays as it was"
        assert job.report.files == 1
        assert job.spec.options.keep.ms == DAY_MS

    def test_a_body_that_raises_leaves_the_release_before(self, marts: Marts) -> None:
        marts.released("1")
        with pytest.raises(RuntimeError), marts.release() as release:
            with release.job(marts.sales.url, mode="overwrite") as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/a.bin", b"2")
            raise RuntimeError
        assert marts.seen() == {"1"}
        assert marts.latest().number == 1

    def test_a_job_that_is_not_committed_releases_nothing(self, marts: Marts) -> None:
        with pytest.raises(ProtocolViolation, match="is not committed"), marts.release() as release:
            release.job(marts.sales.url, mode="append")
        with pytest.raises(ObjectNotFound, match="nothing was released"):
            marts.latest()

    def test_nothing_to_release_is_an_error(self, marts: Marts) -> None:
        with pytest.raises(UsageError, match="nothing to release"), marts.release():
            pass

    def test_a_dataset_of_a_release_can_only_be_read(self, marts: Marts) -> None:
        one = marts.released("1").dataset(CUSTOMERS)
        for verb in (one.expire, one.recover, one.compact, lambda: one.drop(jobs="x"), lambda: one.tag("x")):
            with pytest.raises(UsageError, match="can only be read"):
                verb()
        with pytest.raises(UsageError, match="fixes what is read"):
            one.files(as_of="x")
        assert one.verify().ok
        assert len(one.history()) == 1
        assert (
            pickle.loads(pickle.dumps(magicfs.Dataset("s3://b/x", release="s3://b/r"))).release == "s3://b/r"
        )
        assert "customers" in str(one)

    def test_a_dataset_that_is_not_in_it_is_named(self, marts: Marts) -> None:
        marts.released("1")
        other = JobScene.__new__(JobScene)
        other.__dict__.update(marts.sales.__dict__, destination="other")
        other.published({"a.bin": b"x"})
        with pytest.raises(UsageError, match="is not in release 1 of"):
            magicfs.Dataset(other.url, filesystem=marts.fs, release=marts.url).files()
        with pytest.raises(UsageError, match="has no dataset 'other'; it has customers"):
            marts.latest().dataset("other")

    def test_two_datasets_of_one_name_are_refused(self, marts: Marts) -> None:
        marts.released("1")
        marts.publish("2")
        one = marts.release()
        with pytest.raises(UsageError, match="is the name of"):
            one.add(marts.sales.url, name=CUSTOMERS)
        one.add(marts.sales.url)
        with pytest.raises(UsageError, match="give name="):
            one.add(marts.sales.url)
        for name in ("", "a\nb", "x" * 201):
            with pytest.raises(UsageError, match="printable"):
                one.add(marts.sales.url, name=name)

    def test_a_run_is_released_once(self, marts: Marts) -> None:
        first = marts.released("1", run_id="monday")
        again = marts.released("2", run_id="monday")
        assert (again.id, marts.seen()) == (first.id, {"1"})
        assert marts.latest("run:monday").id == first.id

    def test_the_same_again_changes_nothing(self, marts: Marts) -> None:
        one = marts.released("1")
        before = marts.sales.objects()
        release = marts.release()
        release.add(marts.customers.url)
        assert release.commit().id == one.id
        assert marts.sales.objects() == before

    def test_write_takes_a_release(self, marts: Marts) -> None:
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"x": [1, 2]})
        url = f"memory://{BUCKET}/written"
        magicfs.write(table, url, release=marts.url, filesystem=marts.fs)
        assert marts.latest().dataset("written").to_arrow().to_table().num_rows == 2
        with marts.release() as release:
            magicfs.write(table, url, mode="append", release=release, filesystem=marts.fs)
            assert marts.latest().dataset("written").to_arrow().to_table().num_rows == 2
        assert marts.latest().dataset("written").to_arrow().to_table().num_rows == 4


class TestWhich:
    def test_a_release_is_named_by_number_run_tag_or_time(self) -> None:
        record = Record().with_next("a" * 32, 1000, (), "monday")
        record = replace(
            record.with_next("b" * 32, 2000, (), "1970-01-01"), tags={"2": "a" * 32, "x": "a" * 32}
        )
        place = paths.parse_url("s3://bucket/release")
        named = {
            "1": 1,
            "a" * 32: 1,
            "x": 1,
            "tag:2": 1,
            "monday": 1,
            "run:1970-01-01": 2,
            "1970-01-01": 2,
            "time:1970-01-01T00:00:01.5Z": 1,
            "1970-01-01T00:00:09Z": 2,
        }
        for name, number in named.items():
            assert as_released(place, record, name).number == number, name
        assert as_released(place, record).number == 2
        for name in ("time:1970-01-01T00:00:00Z", "tag:y", "run:1", "other"):
            with pytest.raises(ObjectNotFound, match="there is no release"):
                as_released(place, record, name)
        with pytest.raises(UsageError, match="matches several releases"):
            as_released(place, record, "2")
        with pytest.raises(UsageError, match="time zone"):
            as_released(place, record, "time:1970-01-01")


class TestKeeping:
    @pytest.mark.parametrize("ignores", [(), ("put_if_match",)])
    def test_what_a_release_names_outlives_every_verb(self, ignores: tuple[str, ...]) -> None:
        marts = Marts(ignores=frozenset(ignores)) if ignores else Marts()
        marts.released("1")
        for scene in marts.scenes:
            dataset = magicfs.Dataset(scene.url, filesystem=marts.fs)
            scene.published({"p=1/a.bin": b"2"}, mode="overwrite")
            scene.published({"p=1/b.bin": b"3"}, mode="overwrite_partitions")
            dataset.drop(where="file.size > 0", keep=None)
            scene.published({"p=1/c.bin": b"4"}, mode="overwrite", keep="1s")
            dataset.compact()
            dataset.rollback(dataset.history()[1].job_id, keep=None)
        marts.expire_datasets()
        assert marts.seen() == {"1"}
        assert marts.data() == ["1", "1"]
        marts.released("5")
        assert marts.data() == ["1", "1", "5", "5"]
        assert marts.sweep() == 2
        assert marts.data() == ["1", "1", "5", "5"], "expire of each dataset deletes"
        marts.expire_datasets()
        assert (marts.data(), marts.seen()) == (["5", "5"], {"5"})
        assert len(marts.entries()) == 2

    def test_what_a_job_moves_aside_stays_as_long_as_a_release_names_it(self, marts: Marts) -> None:
        marts.released("1")
        for scene in marts.scenes:
            scene.published({"p=1/a.bin": b"2"}, mode="overwrite", keep="1s")
            assert scene.aside() == [b"1"]
        for _ in range(2):
            marts.expire_datasets()
            assert marts.seen() == {"1"}
        marts.released("3")
        assert marts.sweep() == 2
        marts.expire_datasets()
        assert (marts.seen(), [scene.aside() for scene in marts.scenes]) == ({"3"}, [[], []])

    def test_a_publication_that_lies_aside_can_be_released(self, marts: Marts) -> None:
        jobs = marts.publish("1")
        for scene in marts.scenes:
            scene.published({"p=1/a.bin": b"2"}, mode="overwrite", keep="1d")
        release = marts.release()
        for scene, job in zip(marts.scenes, jobs, strict=True):
            release.add(scene.url, f"job:{job}")
        release.commit()
        for _ in range(2):
            marts.expire_datasets()
            assert marts.seen() == {"1"}
        marts.released("3")
        marts.sweep()
        marts.expire_datasets()
        assert [scene.aside() for scene in marts.scenes] == [[], []]

    def test_what_is_being_deleted_aside_is_not_released(
        self, marts: Marts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = marts.publish("1")
        for scene in marts.scenes:
            scene.published({"p=1/a.bin": b"2"}, mode="overwrite", keep="1s")

        async def dies(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("magicfs.past.aside.delete", dies)
            marts.expire_datasets()
        release = marts.release()
        release.add(marts.sales.url, f"job:{jobs[0]}")
        with pytest.raises(ObjectNotFound, match="being deleted"):
            release.commit()
        marts.expire_datasets()
        assert [scene.aside() for scene in marts.scenes] == [[], []]

    def test_holds_of_files_that_are_still_shown_do_not_pile_up(self, marts: Marts) -> None:
        marts.publish("1")
        for number in range(5):
            for scene in marts.scenes:
                scene.published({f"p=1/{number}.bin": b"1"})
            release = marts.release()
            for scene in marts.scenes:
                release.add(scene.url)
            release.commit()
            marts.sweep()
        assert len(marts.entries()) == 2
        marts.expire_datasets()
        assert marts.data() == ["1"] * 12

    def test_expire_keeps_what_is_tagged_and_the_newest(self, marts: Marts) -> None:
        for generation in "1234":
            marts.released(generation)
        release = marts.release()
        release.tag("audited", "2")
        would = release.expire(timedelta(milliseconds=1), last=2, dry_run=True)
        assert (would.releases, would.holds, len(release.history())) == ((1,), 2, 4)
        assert release.expire("1d").releases == ()
        done = release.expire(timedelta(milliseconds=1), last=2)
        assert (done.releases, done.holds) == ((1,), 2)
        assert release.expire(timedelta(milliseconds=1)).releases == (3,)
        marts.expire_datasets()
        assert marts.data() == ["2", "2", "4", "4"]
        assert marts.rows(marts.latest("audited").released) == {"2"}
        with pytest.raises(ObjectNotFound, match="no release '1'"):
            marts.latest("1")
        assert (release.untag("audited"), release.untag("audited")) == (True, False)
        release.expire(timedelta(milliseconds=1))
        marts.expire_datasets()
        assert marts.data() == ["4", "4"]

    def test_a_rollback_shows_all_datasets_as_they_were(self, marts: Marts) -> None:
        marts.released("1")
        marts.released("2")
        assert marts.release().rollback("1").number == 3
        assert marts.seen() == {"1"}
        marts.sweep()
        marts.expire_datasets()
        assert marts.seen() == {"1"}
        with pytest.raises(ObjectNotFound, match="there is no release '7'"):
            marts.release().rollback("7")

    def test_a_release_without_its_record_lets_its_datasets_go(self, marts: Marts) -> None:
        marts.released("1")
        marts.publish("2")
        marts.sales.filesystem.rm(f"{BUCKET}/{PLACE}", recursive=True)
        with no_driver_at_work():
            done = marts.release().expire("1d", datasets=[one.url for one in marts.scenes])
        assert done.holds == 2
        marts.expire_datasets()
        assert marts.data() == ["2", "2"]

    def test_files_that_are_gone_are_not_released(self, marts: Marts) -> None:
        old = marts.publish("1", keep=None)
        marts.publish("2", keep=None)
        release = marts.release()
        release.add(marts.customers.url)
        release.add(marts.sales.url, old[0])
        with pytest.raises(ObjectNotFound, match="nothing was released"):
            release.commit()
        assert marts.entries() == [] or all(
            one.until_ms == 0 for one in marts.place(CUSTOMERS).run(_pointer).keeping
        )
        with pytest.raises(ObjectNotFound):
            marts.latest()

    def test_many_files_take_several_entries(self, marts: Marts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(holds, "_LISTS_OF_ONE", 1)
        monkeypatch.setattr(holds, "CHUNK_LENGTH", 2)
        marts.sales.published({f"{one}.bin": b"1" for one in range(5)})
        marts.customers.published({"a.bin": b"1"})
        release = marts.release()
        release.add(marts.sales.url, name="s")
        release.add(marts.customers.url)
        release.commit()
        assert len(marts.entries()) == 4
        marts.sales.published({"x.bin": b"2"}, mode="overwrite")
        assert marts.data() == ["1"] * 6 + ["2"]
        monkeypatch.setattr(holds, "_LISTS_MAX", 4)
        release = marts.release()
        release.add(marts.sales.url, name="s")
        release.commit()
        marts.sales.published({f"{one}.bin": b"1" for one in range(9)}, mode="overwrite")
        release = marts.release()
        release.add(marts.sales.url, name="s")
        with pytest.raises(UsageError, match="expire older releases first"):
            release.commit()


class TestTwoAtOnce:
    def test_the_second_of_two_that_release_one_dataset_is_denied(self, marts: Marts) -> None:
        marts.released("1")
        first, second = marts.release(), marts.release()
        with pytest.raises(CommitDenied, match="has changed dataset 'customers' since"), second:
            marts.publish("2")
            with first:
                first.add(marts.customers.url)
            marts.customers.published({"x.bin": b"3"}, mode="overwrite")
            second.add(marts.customers.url)
        assert marts.latest().number == 2

    def test_two_that_release_other_datasets_both_count(self, marts: Marts) -> None:
        marts.released("1")
        first, second = marts.release(), marts.release()
        with second:
            marts.publish("2")
            with first:
                first.add(marts.customers.url)
            second.add(marts.sales.url)
        assert (marts.latest().number, marts.seen()) == (3, {"2"})

    def test_a_job_that_does_not_end_is_named(self, marts: Marts) -> None:
        marts.released("1")
        jobs = marts.publish("2")
        job = marts.sales.job("overwrite")
        commits = marts.sales.wrote(job, {"p=1/a.bin": b"3"})
        marts.sales.commit(job, commits, Fault(Kind.CRASH_BEFORE, operation="complete_upload"))
        with pytest.raises(CommitDenied, match="magicfs recover"):
            marts.move(jobs)
        assert marts.seen() == {"1"}
        marts.sales.recover()
        with pytest.raises(ObjectNotFound):
            marts.move(jobs)
        marts.publish("4")
        assert marts.move([marts.place(one.destination).run(_pointer).job_id for one in marts.scenes])
        assert marts.seen() == {"4"}


class TestCutAnywhere:
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.REPLY_LOST])
    def test_a_release_that_dies_is_there_or_not_and_the_next_one_goes_on(
        self, kind: Kind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publish, "_AT_WORK_MS", -1)
        outcomes = set()
        for number in count(random.randint(1, EVERY), EVERY):
            marts = Marts()
            marts.released("1")
            jobs = marts.publish("2", keep=None)
            traffic = Traffic([Fault(kind, number=number)])
            try:
                marts.move(jobs, traffic)
            except MagicError:
                assert kind is Kind.REPLY_LOST
            seen = marts.seen()
            assert seen in ({"1"}, {"2"}), f"torn, cut at {traffic.met}"
            outcomes |= seen
            marts.publish("3")
            marts.expire_datasets()
            assert marts.seen() == seen, f"lost, cut at {traffic.met}"
            now = [marts.place(one.destination).run(_pointer).job_id for one in marts.scenes]
            marts.move(now)
            assert marts.seen() == {"3"}
            marts.sweep()
            marts.expire_datasets()
            assert (marts.data(), len(marts.entries())) == (["3", "3"], 2), f"cut at request {number}"
            if not traffic.met:
                break
        assert number > 20
        assert "1" in outcomes
        assert outcomes <= {"1", "2"}

    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_an_expiry_that_dies_loses_nothing_and_the_next_one_ends_it(self, kind: Kind) -> None:
        for number in count(random.randint(1, EVERY), EVERY):
            marts = Marts()
            for generation in "12":
                marts.released(generation)
            marts.publish("3", keep=None)
            traffic = Traffic([Fault(kind, number=number)])
            release = marts.place(PLACE, traffic)
            try:
                base, gone = publish.expired(release, 10**15)
                places = [marts.place(one.destination, traffic) for one in marts.scenes]
                stray = publish.stray_holds(release, places, base, gone)
                publish.end_holds(release, base, gone, stray)
            except Crash:
                pass
            marts.expire_datasets()
            assert marts.seen() == {"2"}
            with no_driver_at_work():
                marts.sweep()
            marts.expire_datasets()
            assert marts.data() == ["2", "2", "3", "3"]
            if not traffic.met:
                break
        assert number > 10

    def test_a_reader_between_any_two_requests_sees_one_release(self) -> None:
        marts = Marts()
        marts.released("1")
        jobs = marts.publish("2")
        seen = []
        marts.move(jobs, Traffic(before=lambda _: seen.append(marts.seen())))
        assert {"1"} in seen
        assert all(one in ({"1"}, {"2"}) for one in seen)
        assert marts.seen() == {"2"}


class TestBesideOthers:
    def test_a_job_that_replaces_while_a_release_is_made(self) -> None:
        refused = 0
        for number in count(random.randint(1, EVERY), EVERY):
            marts = Marts()
            marts.released("1")
            jobs = marts.publish("2")
            commit = overwrite(marts.sales, "x")
            traffic, done = at_request(number, commit)
            try:
                moved = marts.move(jobs, traffic)
            except (ObjectNotFound, CommitDenied):
                moved, refused = None, refused + 1
            if not done:
                break
            assert not isinstance(done[0], MagicError)
            marts.expire_datasets()
            assert marts.seen() == ({"1"} if moved is None else {"2"}), f"at request {number}"
        assert 0 < refused < number

    def test_a_release_that_is_made_while_a_job_replaces(self) -> None:
        seen = []
        for number in count(random.randint(1, EVERY), EVERY):
            marts = Marts()
            marts.released("1")
            jobs = marts.publish("2")
            traffic, done = at_request(number, partial(marts.move, jobs))
            try:
                overwrite(marts.sales, "x", traffic)()
            except CommitDenied:
                pytest.fail("a release must not stop a job")
            if not done:
                break
            marts.expire_datasets()
            now = marts.seen()
            assert now == ({"1"} if isinstance(done[0], MagicError) else {"2"}), f"at request {number}"
            seen.append(now)
        assert {"1"} in seen
        assert {"2"} in seen

    @pytest.mark.parametrize("swapped", [False, True])
    def test_a_dataset_is_expired_while_an_older_publication_is_released(self, swapped: bool) -> None:
        refused = 0
        for number in count(random.randint(1, EVERY), EVERY):
            marts = Marts()
            marts.released("1")
            jobs = marts.publish("2")
            marts.publish("3")

            def expire(marts: Marts = marts, traffic: Traffic | None = None) -> Any:
                at = marts.place(SALES, traffic)
                now = marts.place(SALES).run(_pointer).changed_ms + 3 * DAY_MS
                return at.run(expire_kept, now_ms=now)

            moved: Any = None
            try:
                if swapped:
                    traffic, done = at_request(number, partial(marts.move, jobs))
                    expire(marts, traffic)
                    moved = None if done and isinstance(done[0], MagicError) else done and done[0]
                else:
                    traffic, done = at_request(number, expire)
                    moved = marts.move(jobs, traffic)
            except (ObjectNotFound, CommitDenied):
                moved = None
            refused += moved is None
            if not done:
                break
            marts.expire_datasets()
            assert marts.seen() == ({"1"} if not moved else {"2"}), f"at request {number}"
        assert 0 < refused < number

    @pytest.mark.parametrize("swapped", [False, True])
    def test_releases_are_expired_while_one_is_made(
        self, swapped: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(publish, "_AT_WORK_MS", -1)
        for number in count(random.randint(1, EVERY), EVERY):
            marts = Marts()
            for generation in "12":
                marts.released(generation)
            jobs = marts.publish("3")
            base = marts.place(PLACE).run(read_record)[0]
            if swapped:
                traffic, done = at_request(number, partial(marts.move, jobs))
                release = marts.place(PLACE, traffic)
                before, gone = publish.expired(release, 10**15)
                places = [marts.place(one.destination, traffic) for one in marts.scenes]
                stray = publish.stray_holds(release, places, before, gone)
                publish.end_holds(release, before, gone, stray)
            else:
                traffic, done = at_request(number, marts.sweep)
                assert marts.move(jobs, traffic, base)
            if not done:
                break
            marts.publish("4", keep=None)
            marts.expire_datasets()
            assert marts.seen() in ({"2"}, {"3"}), f"at request {number}"
            assert marts.seen() == {"3"} or swapped


FORGED = [
    ("releases[0].id", "x"),
    ("releases[0].number", 0),
    ("releases[0].published", 10**18),
    ("releases[0].restores", "../x"),
    ("releases[0].datasets", {"customers": {}}),
    ("releases[0].datasets.customers.url", "http://user:secret@host/x"),
    ("releases[0].datasets.customers.url", "s3://bucket/../x"),
    ("releases[0].datasets.customers.url", "no scheme"),
    ("releases[0].datasets.customers.url", "a::s3://bucket/x"),
    ("releases[0].datasets.customers.jobId", "../../etc"),
    ("releases[0].datasets.customers.manifest", "0"),
    ("releases[0].datasets.customers.hold", "release-x"),
    ("releases[0].datasets", {"a\nb": None}),
    ("releases", {}),
    ("tags", {"x": "0" * 32}),
    ("sweeps", -1),
    ("format", "magicfs.release/2"),
    ("nonce", ""),
]


class TestForged:
    def forge(self, marts: Marts, path: str, value: object) -> None:
        key = f"{PLACE}/_magicfs/.release.json"
        document = json.loads(marts.sales.objects()[key][0])
        at: Any = document
        *names, last = path.replace("[0]", ".0").split(".")
        for name in names:
            at = at[int(name)] if name.isdigit() else at[name]
        at[last] = value
        asyncio.run(marts.sales.plain.put(key, json.dumps(document).encode()))

    @pytest.mark.parametrize(("path", "value"), FORGED)
    def test_a_forged_field_is_refused_by_name(self, marts: Marts, path: str, value: object) -> None:
        marts.released("1")
        self.forge(marts, path, value)
        before = marts.sales.objects()
        for verb in (marts.latest, marts.release().history, lambda: marts.release().expire("1d")):
            with pytest.raises(FormatError) as caught:
                verb()
            assert path.replace("[0]", "").split(".")[0] in str(caught.value)
        assert "secret" not in str(caught.value)
        marts.publish("2")
        with pytest.raises(FormatError):
            marts.release().rollback("1")
        assert set(marts.sales.objects()) >= set(before)

    def test_another_job_than_the_released_one_is_only_one_of_the_dataset(self, marts: Marts) -> None:
        marts.released("1")
        jobs = marts.publish("2")
        self.forge(marts, "releases[0].datasets.customers.jobId", jobs[1])
        with pytest.raises(FormatError, match="another manifest than the one that was released"):
            marts.latest().dataset(CUSTOMERS).files()
        self.forge(marts, "releases[0].datasets.customers.jobId", "no-such-job")
        with pytest.raises(FormatError, match="missing"):
            magicfs.Dataset(marts.customers.url, filesystem=marts.fs, release=marts.url).files()

    def test_a_url_of_another_bucket_or_store_is_not_followed(self, marts: Marts, tmp_path: Any) -> None:
        marts.released("1")
        for url in ("memory://other/customers", f"file://{tmp_path}/x", "s3://bucket/customers"):
            self.forge(marts, "releases[0].datasets.customers.url", url)
            with pytest.raises(UsageError, match="lies in another bucket; nothing was read"):
                marts.latest().dataset(CUSTOMERS)
            with pytest.raises(UsageError, match="another bucket"):
                marts.release().expire("1d")
            with pytest.raises(UsageError, match="another bucket"):
                Release.latest(marts.url, buckets=["bucket"], filesystem=marts.fs).dataset(CUSTOMERS)
        self.forge(marts, "releases[0].datasets.customers.url", "memory://other/customers")
        allowed = Release.latest(marts.url, buckets=["other"], filesystem=marts.fs)
        assert allowed.dataset(CUSTOMERS).url == "memory://other/customers"

    def test_a_record_that_names_a_strangers_dataset_ends_none_of_its_holds(self, marts: Marts) -> None:
        marts.released("1")
        marts.publish("2", keep=None)
        stranger = Release(f"memory://{BUCKET}/releases/other", filesystem=marts.fs)
        stranger.add(marts.customers.url)
        stranger.commit()
        stranger.expire(timedelta(milliseconds=1), datasets=[marts.sales.url])
        marts.expire_datasets()
        assert marts.seen() == {"1"}


class TestSeveralBuckets:
    def test_a_release_spans_buckets(self, marts: Marts) -> None:
        marts.fs.world.create_bucket("other")
        url = "memory://other/customers"
        marts.publish("1")
        with Release(marts.url, filesystem=marts.fs, buckets=["other"]) as release:
            release.add(marts.sales.url, name="sales")
            with release.job(url, mode="overwrite") as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
        with pytest.raises(UsageError, match="another bucket"):
            marts.latest().dataset(CUSTOMERS)
        by_url = magicfs.Dataset(url, filesystem=marts.fs, release=marts.url)
        assert len(by_url.files()) == 1, "who names the dataset need not trust the record"
        assert release.expire("1d").releases == ()


class TestCommand:
    def run(self, capsys: Any, *words: str) -> tuple[int, Any]:
        status = main(["--json", "release", *words])
        out = capsys.readouterr()
        return status, json.loads(out.out or out.err)

    def test_all_of_it(self, tmp_path: Any, capsys: Any) -> None:
        url, sales = f"{tmp_path}/releases/marts", f"file://{tmp_path}/sales"
        status, error = self.run(capsys, url)
        assert (status, error["kind"]) == (3, "ObjectNotFound"), "perhaps the URL has a typo"
        for number in range(2):
            with magicfs.Job(sales, mode="overwrite") as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/a.bin", str(number).encode())
            status, done = self.run(capsys, url, "--add", sales, f"job:{job.id}", "facts")
            assert (status, done["number"], done["datasets"][0]["name"]) == (0, number + 1, "facts")
        assert self.run(capsys, url, "--tag", "audited", "--as-of", "1")[1]["number"] == 1
        assert self.run(capsys, url, "--show", "audited")[1]["number"] == 1
        assert self.run(capsys, url, "--rollback", "audited")[1]["number"] == 3
        assert self.run(capsys, url, "--untag", "audited")[1]["removed"]
        assert self.run(capsys, url, "--untag", "audited")[0] == 2
        assert self.run(capsys, url, "--expire", "30d")[1]["releases"] == []
        assert self.run(capsys, url, "--add", "a", "b", "c", "d")[0] == 2
        for words in ([url], [url, "--show", "latest"], [url, "--expire", "30d"]):
            assert main(["release", *words]) == 0
        out = capsys.readouterr().out
        assert "NUMBER" in out
        assert "facts" in out
        assert "has expired" in out
