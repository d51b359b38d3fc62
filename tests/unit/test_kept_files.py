"""Replaced files that are kept in place for a time, deleted afterwards, and shown again by a rollback.

Files that are moved aside are in ``test_kept_aside``.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import commit
from magicfs.datasets.connection import open_destination
from magicfs.errors import CommitDenied, ObjectNotFound, UsageError
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past.drop import Order, drop_files
from magicfs.past.expire import ExpireReport, expire_kept
from magicfs.past.rollback import roll_back
from magicfs.protocol import paths
from magicfs.protocol.ids import job_id
from magicfs.protocol.period import parse_period, period_text
from magicfs.stores.conditions import conditions_of
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from magicfs.transaction import record
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=2)

DEST = "env=prod/día 50% + #1"
DAY_MS = 86_400_000


class InPlace(JobScene):
    """Its jobs keep what they replace where it is."""

    def job(self, mode: Any = "append", **options: Any) -> magicfs.Job:
        in_place = {"keep_in_place": True} if options.get("keep") else {}
        return super().job(mode, **in_place, **options)


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return InPlace(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return InPlace(DEST)


def expire(scene: JobScene, *, days: float = 0, dry_run: bool = False) -> ExpireReport:
    """``expire`` as it would be some days later."""
    destination = open_destination(scene.url, None, scene.filesystem)
    now = pointer_of(scene).changed_ms + int(days * DAY_MS)
    return destination.run(expire_kept, dry_run=dry_run, now_ms=now)


def pointer_of(scene: JobScene) -> Any:
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    return seen[0]


def shown(scene: JobScene, job: str | None = None) -> list[bytes]:
    """The bodies that a reader of manifests finds, now or as of a job."""

    async def read(engine: Any) -> list[bytes]:
        found = await chain.view_of(chain.chain(engine.store, DEST, READING, start=job, hidden="none"))
        return sorted([await engine.store.get(paths.join(DEST, key)) for key in found.files])

    return scene.elsewhere(read)


def rollback(scene: JobScene, to: str, **how: Any) -> magicfs.JobReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(
        to=to, **{"keep": None, "keep_in_place": bool(how.get("keep")), **how}
    )


class TestKeeping:
    def test_replaced_files_stay_until_their_time_is_over(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
        assert shown(scene) == [b"3"]
        assert shown(scene, first.id) == [b"1", b"2"], "who holds the old list goes on"
        assert scene.bodies() == [b"1", b"2", b"3"], "who lists sees both"
        assert second.report.files_deleted == 0
        verified = magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify()
        assert (verified.ok, verified.kept) == (True, 2)
        before = scene.objects()
        early = expire(scene, days=6.9)
        assert (early.jobs, early.files, early.keeping) == ((), 0, 1)
        would = expire(scene, days=7.1, dry_run=True)
        assert scene.objects() == before
        done = expire(scene, days=7.1)
        assert would == done
        assert (done.jobs, done.files, done.bytes, done.keeping) == ((second.id,), 2, 2, 0)
        assert scene.bodies() == [b"3"]
        assert pointer_of(scene).keeping == ()
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert expire(scene, days=8).jobs == ()

    def test_partitions_keep_theirs(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1", "p=2/b.bin": b"2"})
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite_partitions", keep="1h")
        assert shown(scene) == [b"2", b"3"]
        assert shown(scene, first.id) == [b"1", b"2"]
        assert expire(scene, days=1).files == 1
        assert scene.bodies() == [b"2", b"3"]

    @pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
    @pytest.mark.parametrize("keeps", [None, "1d", "30d"])
    def test_a_later_job_leaves_them_alone(self, scene: JobScene, mode: str, keeps: str | None):
        first = scene.published({"p=1/a.bin": b"1"})
        second = scene.published({"p=1/a.bin": b"2"}, mode=mode, keep="7d")
        scene.published({"p=1/a.bin": b"3"}, mode=mode, keep=keeps)
        assert shown(scene, first.id) == [b"1"]
        assert scene.bodies() == ([b"1", b"2", b"3"] if keeps else [b"1", b"3"])
        assert expire(scene, days=6).files == (keeps == "1d")
        assert shown(scene, first.id) == [b"1"]
        assert expire(scene, days=31).files == (2 if keeps == "30d" else 1)
        assert scene.bodies() == [b"3"]
        assert second.id in {
            one.job_id for one in magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
        }

    @pytest.mark.parametrize("keeps", [None, "1d", "30d"])
    def test_partitions_hide_what_a_rollback_had_shown_again(self, scene: JobScene, keeps: str | None):
        first = scene.published({"p=1/a.bin": b"1", "p=2/b.bin": b"2"})
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
        rollback(scene, first.id)
        assert shown(scene) == [b"1", b"2"]
        scene.published({"p=1/c.bin": b"4"}, mode="overwrite_partitions", keep=keeps)
        assert shown(scene) == [b"2", b"4"]
        assert shown(scene, first.id) == [b"1", b"2"], "promised, so still there"
        expire(scene, days=8)
        assert scene.bodies() == ([b"1", b"2", b"4"] if keeps == "30d" else [b"2", b"4"])
        expire(scene, days=31)
        assert shown(scene) == scene.bodies() == [b"2", b"4"]

    def test_compaction_keeps_what_is_promised(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        second = scene.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        scene.published({"a.bin": b"3"})
        assert expire(scene, days=6).files == 0
        assert shown(scene, first.id) == [b"1"]
        assert rollback(scene, second.id).files == 1
        assert shown(scene) == [b"2"]
        assert expire(scene, days=8).files == 1

    def test_a_driver_that_died_keeps_them_too(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        job = scene.job("overwrite", keep="7d")
        commits = scene.wrote(job, {"a.bin": b"2"})
        fault = Fault(Kind.CRASH_BEFORE, operation="put", prefix=f"{DEST}/_magicfs/current")
        assert scene.commit(job, commits, fault) is None
        scene.recover()
        assert shown(scene) == [b"2"]
        assert shown(scene, first.id) == [b"1"]
        assert expire(scene, days=8).files == 1

    def test_the_pointer_is_made_again_with_its_promises(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.put("foreign.bin", b"x")
        plain.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
        plain.published({"a.bin": b"3"})
        before = pointer_of(plain)
        plain.delete("_magicfs/current.json")
        assert magicfs.Dataset(plain.url, filesystem=plain.filesystem).adopt().manifest is None
        assert pointer_of(plain).keeping == before.keeping
        plain.published({"a.bin": b"4"}, mode="overwrite")
        assert shown(plain, first.id) == [b"1"]
        assert plain.bodies() == [b"1", b"4", b"x"]
        assert expire(plain, days=8).files == 2

    def test_what_somebody_wrote_anew_stays(self, plain: JobScene):
        plain.published({"a.bin": b"1"}, unique_names=False)
        plain.published({"b.bin": b"2"}, mode="overwrite", keep="7d")
        plain.put("a.bin", b"somebody else's")
        report = expire(plain, days=8)
        assert (report.files, report.altered) == (0, (f"{DEST}/a.bin",))
        assert plain.bodies() == [b"2", b"somebody else's"]

    def test_equal_names_cannot_be_kept(self, plain: JobScene):
        plain.published({"a.bin": b"1"}, unique_names=False)
        with pytest.raises(UsageError, match="keep has to preserve"):
            plain.published({"a.bin": b"2"}, mode="overwrite", unique_names=False, keep="7d")
        plain.published({"b.bin": b"2"}, mode="overwrite", keep="7d")
        with pytest.raises(CommitDenied, match="still keeps"):
            plain.published({"a.bin": b"3"}, mode="overwrite", unique_names=False)
        assert shown(plain) == [b"2"]

    def test_setup_tells_what_listing_readers_will_see(
        self, plain: JobScene, caplog: pytest.LogCaptureFixture
    ):
        plain.job("overwrite", keep=timedelta(days=7))
        assert "until magicfs maintain" in caplog.text

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mode": "append"}, "replaces none"),
            ({"committer": "direct", "mode": "append"}, "writes none"),
            ({"also_overwrite": ["memory://bucket/other"]}, "also_overwrite"),
            ({"keep": "a week"}, "not a period of time"),
            ({"keep": timedelta()}, "out of range"),
            ({"keep": "99999d"}, "out of range"),
        ],
    )
    def test_what_cannot_be_kept_is_refused(self, plain: JobScene, options: Any, message: str):
        given = {"mode": "overwrite", "keep": "7d"} | options
        with pytest.raises(UsageError, match=message):
            magicfs.Job(plain.url, filesystem=plain.filesystem, **arranged(**given))

    def test_periods_are_read_and_shown(self):
        for text, milliseconds in (("7d", 7 * DAY_MS), ("36h", 129_600_000), ("5m", 300_000), ("1s", 1000)):
            assert parse_period("x", text) == milliseconds
            assert period_text(milliseconds) == text
        assert period_text(1) == "1 ms"


class TestCounting:
    @pytest.mark.parametrize("command", ["expire", "recover"])
    def test_what_a_dead_command_has_tried_conditions_on_goes(
        self, scene: JobScene, command: str, monkeypatch: pytest.MonkeyPatch
    ):
        scene.published({"a.bin": b"1"})
        key = f"{DEST}/_magicfs/probe-0123456789abcdef-upload"
        scene.elsewhere(lambda engine: engine.store.create_upload(key, metadata={}))
        call = getattr(magicfs.Dataset(scene.url, filesystem=scene.filesystem), command)
        call()
        assert len(scene.uploads()) == 1, "it may be at work"
        monkeypatch.setattr("magicfs.stores.conditions.PROBES_LAST_S", -60.0)
        call(dry_run=True)
        assert len(scene.uploads()) == 1
        call()
        assert scene.uploads() == []

    def test_a_file_that_went_is_not_counted_again_while_another_one_is_shown(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        scene.published({"p=1/c.bin": b"3"}, mode="overwrite", keep="1d")
        rollback(scene, first.id)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(partitions="p=2", keep=None)
        assert shown(scene) == [b"1"]
        assert expire(scene, days=2, dry_run=True).files == 1
        assert expire(scene, days=2).files == 1
        assert expire(scene, days=2, dry_run=True).files == 0
        again = expire(scene, days=2)
        assert (again.files, again.bytes, len(again.jobs)) == (0, 0, 1)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(partitions="p=1", keep=None)
        assert expire(scene, days=2).files == 1
        assert expire(scene, days=2).jobs == ()
        assert scene.data() == {}


class TestRollback:
    def test_an_earlier_state_is_published_as_a_new_job(self, scene: JobScene):
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"}, run_id="monday")
        second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
        third = scene.published({"p=1/a.bin": b"4"})
        report = rollback(scene, "monday", keep="2d")
        assert (report.files, report.bytes, report.published) == (2, 2, True)
        assert shown(scene) == [b"1", b"2"]
        assert shown(scene, second.id) == [b"3"]
        assert shown(scene, third.id) == [b"3", b"4"]
        newest, *_ = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
        assert (newest.job_id, newest.restores) == (report.job_id, first.id)
        success = scene.success()
        assert success is not None
        assert success.job_id == report.job_id
        assert len(success.filenames) == 2
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert scene.work() == []
        # What is shown again outlives the time for which it was kept.
        assert expire(scene, days=8).files == 2
        assert scene.bodies() == [b"1", b"2"]
        assert shown(scene) == [b"1", b"2"]

    def test_and_back_again(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        second = scene.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
        rollback(scene, first.id, keep="7d")
        assert shown(scene) == [b"1"]
        rollback(scene, second.id, keep="7d")
        assert shown(scene) == [b"2"]
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).tag("good", first.id)
        rollback(scene, "good")
        assert shown(scene) == [b"1"]
        assert scene.bodies() == [b"1", b"2"], "it is still kept by the rollback before"
        assert shown(scene, second.id) == [b"2"]
        assert expire(scene, days=8).files == 1
        assert scene.bodies() == [b"1"]

    def test_what_is_shown_again_and_replaced_is_promised_once_more(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep="1d")
        back = rollback(scene, first.id)
        scene.published({"a.bin": b"3"}, mode="overwrite", keep="7d")
        assert expire(scene, days=2).files == 0
        assert shown(scene, back.job_id) == [b"1"]
        assert expire(scene, days=8).files == 1
        assert scene.bodies() == [b"3"]

    @pytest.mark.slow
    def test_expire_beside_a_job_that_replaces_what_is_shown_again_leaves_no_file(self):
        for number in range(1, 100):
            scene = InPlace(DEST)
            first = scene.published({"a.bin": b"1"})
            scene.published({"a.bin": b"2"}, mode="overwrite", keep="1d")
            rollback(scene, first.id)
            job = scene.job("overwrite")
            commits = scene.wrote(job, {"a.bin": b"3"})

            def before(request: Request) -> None:
                if request.number == number:  # noqa: B023
                    place = paths.parse_url(scene.url)  # noqa: B023
                    scene.elsewhere(lambda engine: expire_kept(engine, place, now_ms=2**60))  # noqa: B023

            traffic = Traffic(before=before)
            assert scene.commit(job, commits, traffic=traffic) is not None
            expire(scene, days=9)
            assert shown(scene) == scene.bodies() == [b"3"]
            assert pointer_of(scene).keeping == ()
            if len(traffic.log) < number:
                break
        assert 15 < number < 99, "every request"

    def test_without_keeping_it_replaces_what_came_since(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"})
        scene.put("foreign.bin", b"x")
        report = rollback(scene, first.id)
        assert report.files_deleted == 2
        assert scene.bodies() == [b"1"] == shown(scene)

    def test_files_that_are_gone_cannot_be_shown(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite")
        before = scene.everything()
        with pytest.raises(ObjectNotFound, match="nothing was changed"):
            rollback(scene, first.id)
        assert scene.everything() == before

    def test_files_that_are_being_deleted_cannot_be_shown(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
        dies = Fault(Kind.CRASH_BEFORE, operation="delete_all_matching")
        place = paths.parse_url(plain.url)
        late = pointer_of(plain).changed_ms + 8 * DAY_MS
        engine = plain.engine(plain.traffic(dies))
        plain.elsewhere(lambda _: conditions_of(plain.plain, f"{DEST}/_magicfs"))
        assert plain.lived(lambda: expire_kept(engine, place, now_ms=late)) is None
        assert [one.expires for one in pointer_of(plain).keeping] == [True]
        assert shown(plain, first.id) == [b"1"]
        with pytest.raises(ObjectNotFound, match="being deleted"):
            rollback(plain, first.id)
        # The mark counts, whatever the clock of the next one says.
        assert expire(plain).files == 1
        assert shown(plain) == plain.bodies() == [b"2"]

    @pytest.mark.slow
    def test_expire_before_any_request_of_a_rollback_and_the_other_way_round(self):
        """Whichever comes first: what is shown is there, and what is refused was not changed."""
        refused = {"expire": 0, "rollback": 0}
        for beside in ("expire", "rollback"):
            for number in range(1, 100):
                scene = InPlace(DEST)
                first = scene.published({"a.bin": b"1"})
                scene.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
                late, place = pointer_of(scene).changed_ms + 8 * DAY_MS, paths.parse_url(scene.url)
                works = {
                    "expire": lambda engine: expire_kept(engine, place, now_ms=late),  # noqa: B023
                    "rollback": lambda engine: roll_back(engine, place, to=first.id, job=job_id("undo")),  # noqa: B023
                }
                within = "rollback" if beside == "expire" else "expire"

                def done(which: str, engine: Any) -> Any:
                    async def tried() -> Any:
                        try:
                            return await works[which](engine)  # noqa: B023
                        except (CommitDenied, ObjectNotFound):
                            refused[which] += 1
                            return None

                    return tried()

                def before(request: Request) -> None:
                    if request.number == number:  # noqa: B023
                        scene.elsewhere(lambda engine: done(beside, engine))  # noqa: B023

                traffic = Traffic(before=before)
                engine = scene.engine(traffic)
                scene.lived(lambda: done(within, engine))  # noqa: B023
                assert len(shown(scene)) == 1
                if shown(scene) == [b"2"]:
                    assert scene.work() == []
                expire(scene, days=9)
                assert shown(scene) == scene.bodies()
                if len(traffic.log) < number:
                    break
            assert 10 < number < 99, "every request"
        assert all(refused.values()), refused

    def test_a_run_is_rolled_back_once(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
        one = rollback(scene, first.id, run_id="undo", keep="7d")
        before = scene.everything()
        two = rollback(scene, first.id, run_id="undo", keep="7d")
        assert (two.published_before, two.job_id) == (True, one.job_id)
        assert scene.everything() == before

    @pytest.mark.parametrize("to", ["", "never", "2001-01-01T00:00Z"])
    def test_no_such_publication(self, scene: JobScene, to: str):
        scene.published({"a.bin": b"1"})
        before = scene.everything()
        with pytest.raises((ObjectNotFound, UsageError)):
            rollback(scene, to)
        assert scene.everything() == before

    def test_a_driver_that_died_before_the_commit_point_can_be_followed(self, plain: JobScene):
        first = plain.published({"a.bin": b"1"})
        plain.published({"a.bin": b"2"}, mode="overwrite", keep="7d")
        # Dies at the announcement, the third write of the job object.
        dies = Fault(
            Kind.CRASH_BEFORE, operation="put", prefix=f"{DEST}/__magic_job-undo/job-undo/job", skip=2
        )
        engine = plain.engine(plain.traffic(dies))
        place = paths.parse_url(plain.url)
        assert plain.lived(lambda: roll_back(engine, place, to=first.id, job=job_id("undo"))) is None
        assert shown(plain) == [b"2"]
        report = magicfs.Dataset(plain.url, filesystem=plain.filesystem).recover()
        assert report.undecided, "an open job is left to its driver"
        commit(plain.url, "undo", filesystem=plain.filesystem)  # though it has no tasks
        assert shown(plain) == [b"1"]
        assert plain.work() == []


class TestTags:
    def test_a_tag_names_a_publication(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"})
        second = scene.published({"a.bin": b"2"})
        tag = lambda *given, **how: magicfs.Dataset(scene.url, filesystem=scene.filesystem).tag(*given, **how)  # noqa: E731
        assert tag("v1", first.id) == first.id
        assert tag("newest") == second.id
        assert tag("v1", first.id) == first.id, "a second call changes nothing"
        assert tag("same", "v1") == first.id
        tags = {
            one.job_id: one.tags for one in magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
        }
        assert tags == {first.id: ("same", "v1"), second.id: ("newest",)}
        with pytest.raises(UsageError, match=r"already names job"):
            tag("v1", second.id)
        assert tag("v1", second.id, move=True) == second.id
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).untag("v1")
        assert not magicfs.Dataset(scene.url, filesystem=scene.filesystem).untag("v1")
        with pytest.raises(ObjectNotFound):
            tag("x", "v1")
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        assert shown(scene) == [b"1", b"2"]
        assert scene.data().keys() == scene.manifest_files()

    @pytest.mark.parametrize("name", ["", ".hidden", "a/b", "é", "v.00001", "x" * 101])
    def test_names_that_no_tag_can_have(self, plain: JobScene, name: str):
        plain.published({"a.bin": b"1"})
        with pytest.raises(UsageError, match="cannot be the name of a tag"):
            magicfs.Dataset(plain.url, filesystem=plain.filesystem).tag(name)

    def test_nothing_was_published(self, plain: JobScene):
        with pytest.raises(ObjectNotFound, match="no job was published"):
            magicfs.Dataset(plain.url, filesystem=plain.filesystem).tag("v1")


class TestCommands:
    def test_from_keeping_to_expiring(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales 50% #1")

        def publish(body: bytes, **how: Any) -> str:
            with magicfs.Job(url, **arranged(**how)) as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/a.csv", body)
            return str(job.id)

        def said(*words: str, code: int = 0) -> Any:
            assert main([*words, "--json"]) == code
            return json.loads(capsys.readouterr().out)

        first = publish(b"1")
        second = publish(b"22", mode="overwrite", keep="1h")
        assert said("tag", url, "v1", "--as-of", first)["job_id"] == first
        assert said("rollback", url, "--to", "v1", "--keep", "7d")["files"] == 1
        log = said("log", url)["publications"]
        assert [(one["restores"], one["tags"]) for one in log] == [(first, []), (None, []), (None, ["v1"])]
        assert main(["log", url]) == 0
        assert "rollback" in capsys.readouterr().out
        assert said("maintain", url)["expire"]["files"] == 0
        assert said("rollback", url, "--to", second)["files"] == 1
        assert said("tag", url, "v1", "--delete")["removed"] is True
        assert main(["tag", url, "v1", "--delete"]) == 2
        for words in (["maintain", url], ["maintain", url, "--dry-run"], ["tag", url, "v2"], ["verify", url]):
            assert main(words) == 0
        pointer = f"{url}/_magicfs/current.json"
        for path in (pointer, f"{url}/_magicfs/.tags/v2.json", f"{url}/_magicfs/{second}.json"):
            assert main(["show", path]) == 0
        assert "a name for a publication" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.sample(most=1)
class TestDeaths:
    """A process dies at each of its requests, before and after the store does it."""

    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_a_rollback(self, kind: Kind):
        ends = set()
        for number in range(1, 100):
            scene = InPlace(DEST)
            first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
            second = scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            done = scene.lived(lambda: roll_back(engine, place, to=first.id, job=job_id("undo")))  # noqa: B023
            assert shown(scene) in ([b"3"], [b"1", b"2"])
            for _ in range(2):
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover()
            if scene.work():
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(abort=True)
            ends.add(tuple(now := shown(scene)))
            assert scene.work() == []
            # Nothing of then is lost, whatever became of the rollback.
            assert shown(scene, first.id) == [b"1", b"2"]
            assert scene.bodies() == ([b"1", b"2", b"3"] if now == [b"3"] else [b"1", b"2"])
            if now == [b"3"]:
                rollback(scene, first.id, keep="1d")
                assert shown(scene, second.id) == [b"3"]
            expire(scene, days=9)
            assert shown(scene) == scene.bodies() == [b"1", b"2"]
            assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
            if done is not None:
                break
        assert 20 < number < 99, "every request"
        assert ends == {(b"3",), (b"1", b"2")}

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_a_job_that_hides_what_is_promised(self, kind: Kind):
        ends = set()
        for number in range(1, 60):
            scene = InPlace(DEST)
            first = scene.published({"p=1/a.bin": b"1", "p=2/b.bin": b"2"})
            scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
            rollback(scene, first.id)
            job = scene.job("overwrite_partitions")
            commits = scene.wrote(job, {"p=1/c.bin": b"4"})
            done = scene.commit(job, commits, Fault(kind, number=number))
            scene.recover()
            ends.add(tuple(shown(scene)))
            assert shown(scene, first.id) == [b"1", b"2"], number
            if done is not None:
                break
        assert number > 15, "every request"
        assert ends == {(b"1", b"2"), (b"2", b"4")}

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_a_drop_of_what_is_promised(self, kind: Kind):
        """It deletes nothing and brings nothing: its list of what it hides may be the first to go."""
        ends = set()
        for number in range(1, 60):
            scene = InPlace(DEST)
            first = scene.published({"p=1/a.bin": b"1", "p=2/b.bin": b"2"})
            scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="7d")
            rollback(scene, first.id)
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            job, order = job_id("12345678-8a4b-4f0e-9d5a-0c1b2a3d4e5f"), Order.of(partitions="p=1")
            done = scene.lived(lambda: drop_files(engine, place, order=order, job=job))  # noqa: B023
            scene.recover()
            for one in scene.recover().jobs:
                assert (one.found, one.action) in {("open", "left"), ("prepared", "left")}, number
                scene.recover(abort=True)
            ends.add(tuple(shown(scene)))
            assert shown(scene, first.id) == [b"1", b"2"], number
            assert scene.work() == []
            if done is not None:
                break
        assert number > 15, "every request"
        assert ends == {(b"1", b"2"), (b"2",)}

    def test_of_an_expire_that_has_marked_what_another_job_keeps_for_longer(self):
        scene = InPlace(DEST)
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep="1d")
        rollback(scene, first.id)
        scene.published({"a.bin": b"3"}, mode="overwrite", keep="7d")
        late, place = pointer_of(scene).changed_ms + 2 * DAY_MS, paths.parse_url(scene.url)
        pointer = paths.join(DEST, "_magicfs/current")
        engine = scene.engine(Traffic([Fault(Kind.CRASH_AFTER, operation="put", prefix=pointer)]))
        scene.lived(lambda: expire_kept(engine, place, now_ms=late))
        assert [one.expires for one in pointer_of(scene).keeping] == [True, False]
        rollback(scene, first.id)
        assert shown(scene) == [b"1"]

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_an_expire(self, kind: Kind):
        for number in range(1, 60):
            scene = InPlace(DEST)
            scene.published({"a.bin": b"1"}, {"b.bin": b"2"})
            second = scene.published({"a.bin": b"3"}, mode="overwrite", keep="1d")
            scene.published({"a.bin": b"4"}, mode="overwrite", keep="7d")
            late, place = pointer_of(scene).changed_ms + 2 * DAY_MS, paths.parse_url(scene.url)
            engine = scene.engine(Traffic([Fault(kind, number=number)]))
            done = scene.lived(lambda: expire_kept(engine, place, now_ms=late))  # noqa: B023
            assert shown(scene) == [b"4"]
            assert shown(scene, second.id) == [b"3"], "its time is not over"
            expire(scene, days=2)
            assert scene.bodies() == [b"3", b"4"]
            assert len(pointer_of(scene).keeping) == 1
            if done is not None:
                break
        assert 10 < number < 59, "every request"


class TestAnExpiryThatStoodStill:
    """Meanwhile another call has done its work, and a job has published the same files again."""

    @pytest.mark.slow
    @pytest.mark.parametrize("ignored", ["", "bulk_delete"])
    def test_it_deletes_nothing_that_is_published_again(self, monkeypatch: pytest.MonkeyPatch, ignored: str):
        monkeypatch.setattr(record, "_HEARD_S", 0.0)  # as if it had stood still for long
        for number in range(1, 60):
            scene = JobScene(DEST, ignores=frozenset({ignored} - {""}))
            scene.published({"a.bin": b"1"}, {"b.bin": b"2"}, unique_names=False)
            scene.published({"c.bin": b"3"}, mode="overwrite", keep="1d")
            late, place = pointer_of(scene).changed_ms + 2 * DAY_MS, paths.parse_url(scene.url)

            def publish_again(scene: JobScene = scene) -> None:
                expire(scene, days=2)
                scene.published({"a.bin": b"1"}, {"b.bin": b"2"}, unique_names=False)

            def stands_still(request: Request) -> None:
                # A DELETE that is on its way cannot be called back.
                if request.number == number and not request.operation.startswith("delete"):  # noqa: B023
                    publish_again()

            traffic = Traffic(before=stands_still)
            asyncio.run(expire_kept(scene.engine(traffic), place, now_ms=late))
            if len(traffic.log) < number:
                break
            if not traffic.log[number - 1].operation.startswith("delete"):
                assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok, traffic.log[
                    number - 1
                ]
        assert 10 < number < 59, "every request"

    def test_it_asks_once_as_long_as_it_hears(self, plain: JobScene):
        plain.published(*({f"{number}.bin": b"1"} for number in range(4)))
        plain.published({"c.bin": b"3"}, mode="overwrite", keep="1d")
        late, place = pointer_of(plain).changed_ms + 2 * DAY_MS, paths.parse_url(plain.url)
        traffic = Traffic()
        plain.lived(lambda: expire_kept(plain.engine(traffic), place, now_ms=late))
        kinds = [(one.operation, one.key.rpartition("/")[2]) for one in traffic.log]
        deleted = [number for number, (operation, _) in enumerate(kinds) if operation.startswith("delete_")]
        assert ("get", "current.json") in kinds[deleted[0] - 2 : deleted[0]]
        assert ("get", "current.json") not in kinds[deleted[0] : deleted[-1]]
