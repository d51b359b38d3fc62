"""Retention by count, by calendar and by tag: what stays, what goes, and what tags hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import magicfs
from magicfs.datasets.connection import open_destination
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound, UsageError
from magicfs.formats.log import LoggedJob
from magicfs.manifests import chain, kept
from magicfs.manifests.chain import READING
from magicfs.past import held, named
from magicfs.past.earlier_files import lying_where_they_are
from magicfs.past.expire import ExpireReport, expire_kept
from magicfs.past.keeping import change_keeping
from magicfs.past.retention import Keep, in_order
from magicfs.past.tags import set_tag
from magicfs.protocol import paths
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"
DAY_MS = 86_400_000
NOON = int(datetime(2026, 11, 27, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


def dataset(scene: JobScene) -> magicfs.Dataset:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem)


def pointer_of(scene: JobScene) -> Any:
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    return seen[0]


def expire(scene: JobScene, *, days: float, keep: Keep | None = None, dry_run: bool = False) -> ExpireReport:
    destination = open_destination(scene.url, None, scene.filesystem)
    now = pointer_of(scene).changed_ms + int(days * DAY_MS)
    return destination.run(expire_kept, keep=keep, dry_run=dry_run, now_ms=now)


def bodies(scene: JobScene, as_of: str) -> list[bytes]:
    async def read(engine: Any) -> list[bytes]:
        found = await chain.view_of(chain.chain(engine.store, DEST, READING, start=as_of, hidden="none"))
        assert found is not None
        lying = await lying_where_they_are(engine, DEST, found.files)
        return sorted([await engine.store.get(paths.join(DEST, one.key)) for one in lying.values()])

    return scene.elsewhere(read)


def jobs(*days_ago: float) -> list[LoggedJob]:
    return [
        LoggedJob(job_id=f"j{number}", mode="append", committed_ms=NOON - int(days * DAY_MS), files=1, size=1)
        for number, days in enumerate(days_ago)
    ]


class TestRules:
    def test_the_last_of_each_day_week_month_and_year_that_has_one(self) -> None:
        ago = [0, 0.1, 1, 1.2, 2, 9, 9.1, 40, 400]
        found = jobs(*ago)
        assert Keep(daily=2).chosen(found, ()) == {"j0", "j2"}
        assert Keep(daily=4).chosen(found, ()) == {"j0", "j2", "j4", "j5"}
        assert Keep(weekly=2).chosen(found, ()) == {"j0", "j5"}
        assert Keep(monthly=2).chosen(found, ()) == {"j0", "j7"}
        assert Keep(yearly=9).chosen(found, ()) == {"j0", "j8"}
        assert Keep(hourly=1).chosen(found, ()) == {"j0"}
        assert Keep(last=3).chosen(found, ()) == {"j0", "j1", "j2"}
        assert Keep(tagged=True).chosen(found, {"j6", "nobody's"}) == {"j6"}
        assert Keep(daily=1, weekly=2, tagged=True).chosen(found, {"j8"}) == {"j0", "j5", "j8"}
        assert Keep(daily=7).chosen([], ()) == set()

    def test_weeks_begin_on_monday_in_utc(self) -> None:
        sunday = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
        found = [
            LoggedJob(job_id=name, mode="append", committed_ms=int(at.timestamp() * 1000), files=1, size=1)
            for name, at in (("monday", sunday + timedelta(seconds=1)), ("sunday", sunday))
        ]
        assert Keep(weekly=2).chosen(found, ()) == {"monday", "sunday"}
        assert Keep(weekly=1).chosen(found, ()) == {"monday"}

    @pytest.mark.parametrize("wrong", [-4000, 20_000])
    def test_a_wrong_clock_uses_up_no_day(self, wrong: int) -> None:
        found = jobs(0, 1, wrong, 2, 3)
        assert Keep(daily=4).chosen(found, ()) == {"j0", "j1", "j3", "j4"}

    def test_moments_that_are_in_order_stay(self) -> None:
        assert in_order([]) == []
        assert in_order([5, 5, 3]) == [5, 5, 3]
        assert in_order([5, 4, 99, 3, 0, 2, 1]) == [5, 4, 4, 3, 3, 2, 1]
        assert in_order([0, 5, 4, 3]) == [5, 5, 4, 3]

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ("dayly=7", "did you mean daily?"),
            ("7d", "choose from within, last"),
            ("daily=x", "daily='x' is not a whole number"),
            ("within=0d,daily=1", "within='0d'"),
            ({"daily": True}, "daily=True"),
            ({"daily": -1}, "daily=-1"),
            ({"daily": 10**6}, "up to 100,000"),
            ({"tagged": 1}, "not True or False"),
            ({"within": "7d"}, "no rule keeps a publication"),
            ({5: 1}, "no rule 5"),
            (7, "says nothing about publications"),
            (None, "says nothing about publications"),
        ],
    )
    def test_mistakes_are_named(self, given: object, problem: str) -> None:
        with pytest.raises(UsageError, match=r"keep|within") as raised:
            Keep.of("keep", given)
        assert problem in str(raised.value)

    def test_text_and_mapping_mean_the_same(self) -> None:
        rule = Keep(daily=7, weekly=5, tagged=True)
        assert Keep.of("keep", "daily=7, weekly=5,tagged") == rule == Keep.of("keep", rule.rule)
        assert Keep.of("keep", {"daily": 7, "weekly": 5, "tagged": True}) == rule
        assert (str(rule), Keep.or_period("keep", "7d")) == ("within=1d,daily=7,weekly=5,tagged", "7d")
        assert Keep.or_period("--keep", "tagged") == Keep(tagged=True)


class TestJobsThatKeepByRule:
    def test_what_a_kept_publication_shows_stays_and_goes_with_it(self, scene: JobScene) -> None:
        keep = Keep(within="1h", last=2)
        first = scene.published({"a.bin": b"1"})
        second = scene.published({"a.bin": b"2"}, mode="overwrite", keep=keep)
        third = scene.published({"a.bin": b"3"}, mode="overwrite", keep=keep)
        assert expire(scene, days=0.01).jobs == (), "nothing goes within the hour"
        would = expire(scene, days=9, dry_run=True)
        done = expire(scene, days=9)
        assert (would, done.jobs, done.files, done.keeping) == (done, (second.id,), 1, 1)
        assert bodies(scene, second.id) == [b"2"]
        with pytest.raises(ObjectNotFound):
            bodies(scene, first.id)
        scene.published({"b.bin": b"4"})
        assert expire(scene, days=9).jobs == (third.id,), "the second is not among the last two any more"
        assert (scene.bodies(), pointer_of(scene).keeping) == ([b"3", b"4"], ())

    def test_a_rule_of_the_caller_holds_what_a_time_does_not(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite_partitions", keep="1h")
        assert expire(scene, days=9, keep=Keep(last=2)).jobs == ()
        dataset(scene).tag("audited", first.id)
        scene.published({"c.bin": b"4"})
        assert expire(scene, days=9, keep=Keep(last=2, tagged=True)).keeping == 1
        assert bodies(scene, first.id) == [b"1", b"2"]
        assert expire(scene, days=9, keep=Keep(last=2)).files == 1

    def test_history_in_a_log_counts(self, scene: JobScene) -> None:
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep=Keep(within="1h", last=3))
        dataset(scene).compact()
        scene.published({"b.bin": b"3"})
        assert expire(scene, days=9).jobs == ()
        assert bodies(scene, first.id) == [b"1"]

    def test_a_forged_rule_deletes_nothing(self, scene: JobScene) -> None:
        scene.published({"a.bin": b"1"})
        job = scene.published({"a.bin": b"2"}, mode="overwrite", keep=Keep(within="1h", last=3))

        async def forge(engine: Any) -> None:
            key = chain.manifest_key(DEST, job.id)
            raw = await engine.store.get(key)
            await engine.store.put(key, raw.replace(b"last=3", b"lost=3"))

        scene.elsewhere(forge)
        with pytest.raises(FormatError, match=r"kept\.rule.*did you mean last"):
            expire(scene, days=9)
        assert (scene.aside(), scene.bodies()) == ([b"1"], [b"2"])

    def test_every_verb_that_replaces_takes_a_rule(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        keep = Keep(within="1h", last=3)
        dropped = dataset(scene).drop(partitions="p=1", keep=keep)
        assert expire(scene, days=9).jobs == ()
        back = dataset(scene).rollback(first.id, keep=keep)
        assert bodies(scene, first.id) == bodies(scene, back.job_id) == [b"1", b"2"]
        scene.published({"c.bin": b"3"}, mode="overwrite", keep=keep)
        done = expire(scene, days=9)
        assert (done.jobs, done.files) == ((dropped.job_id,), 1), "the rollback has a copy of its own"
        assert bodies(scene, back.job_id) == [b"1", b"2"], "what the rollback showed is among the last three"


class TestTagsThatKeep:
    def test_files_stay_whatever_replaces_them(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        at = dataset(scene)
        assert at.tag("v1", keep=True) == first.id
        before = pointer_of(scene)
        assert at.tag("v1", keep=True) == first.id
        assert pointer_of(scene) == before, "a second call changes nothing"
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite_partitions")
        scene.published({"p=9/a.bin": b"4"}, mode="overwrite")
        assert expire(scene, days=999).jobs == ()
        assert bodies(scene, first.id) == [b"1", b"2"]
        assert at.verify().ok
        at.rollback("v1", keep=None)
        assert bodies(scene, at.history(limit=1)[0].job_id) == [b"1", b"2"]
        scene.published({"p=9/a.bin": b"5"}, mode="overwrite")
        assert at.untag("v1")
        done = expire(scene, days=1)
        assert (done.files, done.keeping, scene.bodies()) == (2, 0, [b"5"])
        assert not [key for key in scene.objects() if "/tag-" in key], "its lists are gone, too"

    def test_a_tag_that_moves_lets_go(self, scene: JobScene) -> None:
        first = scene.published({"a.bin": b"1"})
        at = dataset(scene)
        at.tag("v", keep=True)
        second = scene.published({"a.bin": b"2"}, mode="overwrite")
        assert at.tag("v", move=True, keep=True) == second.id
        scene.published({"a.bin": b"3"}, mode="overwrite")
        assert expire(scene, days=1).files == 1
        assert bodies(scene, second.id) == [b"2"]
        with pytest.raises(ObjectNotFound):
            bodies(scene, first.id)

    def test_another_publication_is_refused_without_move(self, scene: JobScene) -> None:
        scene.published({"a.bin": b"1"})
        dataset(scene).tag("v")
        scene.published({"b.bin": b"2"})
        before = pointer_of(scene)
        with pytest.raises(UsageError, match="already names job"):
            dataset(scene).tag("v", keep=True)
        assert pointer_of(scene) == before

    def test_a_tag_can_be_given_its_files_later_and_again(self, scene: JobScene) -> None:
        first = scene.published({"a.bin": b"1"})
        at = dataset(scene)
        for _ in range(2):
            at.tag("v")
            at.tag("v", keep=True)
            assert at.untag("v")
            expire(scene, days=1)
        at.tag("v", keep=True)
        scene.published({"a.bin": b"2"}, mode="overwrite")
        expire(scene, days=9)
        assert bodies(scene, first.id) == [b"1"]

    def test_files_that_are_gone_cannot_be_held(self, scene: JobScene) -> None:
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite")
        with pytest.raises(ObjectNotFound, match="are gone, overwritten"):
            dataset(scene).tag("v", first.id, keep=True)
        assert dataset(scene).history()[1].tags == ()
        expire(scene, days=9)
        assert pointer_of(scene).keeping == ()

    def test_files_that_are_being_deleted_cannot_be_held(self, scene: JobScene, monkeypatch: Any) -> None:
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep="1h")
        from magicfs.past import expire as module

        async def dies(*_: object, **__: object) -> None:
            raise ObjectNotFound("delete", "k", "died")

        with monkeypatch.context() as patched:
            patched.setattr(module, "remove_matching", dies)
            with pytest.raises(ObjectNotFound, match="died"):
                expire(scene, days=9)
        assert pointer_of(scene).expiring
        with pytest.raises(ObjectNotFound, match="being deleted"):
            dataset(scene).tag("v", first.id, keep=True)

    def test_a_job_that_is_replacing_is_waited_for(self, scene: JobScene, monkeypatch: Any) -> None:
        first = scene.published({"a.bin": b"1"})

        class Busy:
            job_id = "other"
            job = None

        async def busy(*_: object, **__: object) -> list[Any]:
            return [Busy()]

        with monkeypatch.context() as patched:
            patched.setattr(held, "find_unfinished_jobs", busy)
            with pytest.raises(CommitDenied, match=r"job other .* is replacing files; nothing was tagged"):
                dataset(scene).tag("v", keep=True)
        found = scene.elsewhere(lambda engine: named.all_tags(engine.store, DEST, READING))
        assert found == []
        dataset(scene).tag("v", keep=True)
        scene.published({"a.bin": b"2"}, mode="overwrite")
        expire(scene, days=9)
        assert bodies(scene, first.id) == [b"1"]

    @pytest.mark.parametrize("where", ["kept.write", "_look", "_put"])
    def test_a_call_that_dies_leaves_nothing_for_long(
        self, scene: JobScene, monkeypatch: Any, where: str
    ) -> None:
        scene.published({"a.bin": b"1"})
        module, _, name = f"held.{where}".rpartition(".")
        owner = held if module == "held" else kept
        real = getattr(owner, name)

        async def dies(*given: Any, **how: Any) -> Any:
            await real(*given, **how)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, dies)
            with pytest.raises(KeyboardInterrupt):
                dataset(scene).tag("v", keep=True)
        assert dataset(scene).history()[0].tags == ()
        scene.published({"a.bin": b"2"}, mode="overwrite")
        expire(scene, days=1)
        assert (pointer_of(scene).keeping, scene.bodies()) == ((), [b"2"])
        dataset(scene).tag("v", keep=True)
        scene.published({"a.bin": b"3"}, mode="overwrite")
        assert expire(scene, days=1).keeping == 1
        assert scene.bodies() == [b"2", b"3"]

    def test_a_job_that_has_planned_before_sees_the_tag(self, scene: JobScene, monkeypatch: Any) -> None:
        """The tag comes after a job has read the pointer, and before it announces what it replaces."""
        from magicfs.transaction import planning, prepare

        first = scene.published({"a.bin": b"1"})
        real, asked = planning.look, list[bool]()

        async def look(*given: Any) -> Any:
            found = await real(*given)
            if not asked:
                asked.append(True)
                location = open_destination(scene.url, None, scene.filesystem).location
                conditions = await held_conditions(given[0])
                await named.set_tag(
                    *(given[0].store, DEST, conditions, "v", first.id),
                    move=False,
                    keeps=await held.hold(given[0], location, conditions, first.id),
                )
            return found

        monkeypatch.setattr(prepare, "look", look)
        scene.published({"a.bin": b"2"}, mode="overwrite")
        monkeypatch.undo()
        assert asked
        expire(scene, days=9)
        assert bodies(scene, first.id) == [b"1"]


async def held_conditions(engine: Any) -> Any:
    from magicfs.stores.conditions import conditions_of

    return await conditions_of(engine.store, paths.join(DEST, "_magicfs"))


class TestFilesAside:
    """What tags and rules hold of the files that jobs have moved aside."""

    def test_a_tag_holds_what_lies_aside_already(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite_partitions", keep="1h")
        at = dataset(scene)
        assert at.tag("v1", first.id, keep=True) == first.id
        scene.published({"p=2/b.bin": b"4"}, mode="overwrite_partitions")
        done = expire(scene, days=9)
        assert (done.files, done.keeping) == (0, 1)
        assert (scene.aside(), bodies(scene, first.id)) == ([b"1"], [b"1", b"2"])
        assert sorted(scene.filesystem.cat_file(one.url) for one in at.files(as_of="v1")) == [b"1", b"2"]
        at.rollback("v1", keep=None)
        assert bodies(scene, at.history(limit=1)[0].job_id) == [b"1", b"2"]
        scene.published({"p=9/a.bin": b"5"}, mode="overwrite")
        assert at.untag("v1")
        done = expire(scene, days=9)
        assert (done.files, done.keeping, scene.aside(), scene.bodies()) == (2, 0, [], [b"5"])

    def test_what_a_tag_holds_in_place_and_a_job_moves_aside(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.bin": b"1"}, {"p=2/b.bin": b"2"})
        at = dataset(scene)
        at.tag("v1", keep=True)
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="1h")
        expire(scene, days=9)
        assert bodies(scene, first.id) == [b"1", b"2"]
        assert at.untag("v1")
        expire(scene, days=9)
        assert (pointer_of(scene).keeping, scene.aside(), scene.bodies()) == ((), [], [b"3"])

    def test_a_tag_that_is_gone_takes_nothing_from_a_promise(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.bin": b"1"})
        at = dataset(scene)
        at.tag("v1", keep=True)
        scene.published({"p=1/a.bin": b"3"}, mode="overwrite", keep="9d")
        assert at.untag("v1")
        expire(scene, days=1)
        assert bodies(scene, first.id) == [b"1"]
        assert at.tag("v2", first.id, keep=True) == first.id
        expire(scene, days=99)
        assert bodies(scene, first.id) == [b"1"]

    def test_a_rule_holds_what_lies_aside(self, scene: JobScene) -> None:
        keep = Keep(within="1h", daily=1, tagged=True)
        first = scene.published({"a.bin": b"1"})
        second = scene.published({"a.bin": b"2"}, mode="overwrite", keep=keep)
        third = scene.published({"a.bin": b"3"}, mode="overwrite", keep=keep)
        dataset(scene).tag("audited", first.id)
        done = expire(scene, days=9)
        assert (done.jobs, scene.aside()) == ((third.id,), [b"1"])
        assert bodies(scene, first.id) == [b"1"]
        with pytest.raises(ObjectNotFound):
            bodies(scene, second.id)
        dataset(scene).untag("audited")
        assert expire(scene, days=9).jobs == (second.id,)
        assert (scene.aside(), scene.bodies()) == ([], [b"3"])

    def test_a_tag_that_comes_between_the_look_and_the_mark(self, scene: JobScene, monkeypatch: Any) -> None:
        first = scene.published({"a.bin": b"1"})
        scene.published({"a.bin": b"2"}, mode="overwrite", keep="1h")
        real, asked = change_keeping, list[bool]()

        async def late(*given: Any) -> Any:
            if not asked:
                asked.append(True)
                destination = open_destination(scene.url, None, scene.filesystem)
                await set_tag(
                    destination.engine, destination.location, name="v", as_of=first.id, move=False, keep=True
                )
            return await real(*given)

        with monkeypatch.context() as patched:
            patched.setattr("magicfs.past.expire.change_keeping", late)
            assert expire(scene, days=9).files == 0
        for _ in range(2):
            assert expire(scene, days=9).files == 0
            assert (scene.aside(), bodies(scene, first.id)) == ([b"1"], [b"1"])
        dataset(scene).untag("v")
        expire(scene, days=9)
        assert (scene.aside(), pointer_of(scene).keeping) == ([], ())
