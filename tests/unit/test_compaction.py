"""Compaction: one manifest in place of many, while jobs join, readers read and processes die."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicfs
from magicfs.cli.main import main
from magicfs.committers.magic import MagicCommitter
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, Unavailable, UsageError
from magicfs.formats.log import LoggedJob
from magicfs.formats.manifest import Hides, Manifest, ManifestFile
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT, View
from magicfs.manifests.log import publications
from magicfs.past.compact import _TRIES, CompactReport, compact_chain
from magicfs.protocol import paths
from magicfs.stores import conditions
from magicfs.stores.conditions import Conditions
from magicfs.stores.memory.store import MemoryStore
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest
from tests.sample import examples

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=2)]

NUMBERED = frozenset({"put_if_match"})
DEST = "sales"


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(ignores=NUMBERED if request.param == "numbered" else frozenset())


def compact(scene: JobScene) -> CompactReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()


def chain_of(scene: JobScene) -> list[str]:
    async def jobs(engine: Engine) -> list[str]:
        return [one.job_id async for one in chain.chain(engine.store, DEST, scene.conditions)]

    return scene.elsewhere(jobs)


def view_of(scene: JobScene) -> View:
    found = scene.elsewhere(lambda engine: chain.view(engine.store, DEST, scene.conditions))
    assert found is not None
    return found


def seen(scene: JobScene) -> Any:
    """All that a reader can tell."""
    found = view_of(scene)
    return list(found.files.items()), found.older_files, found.newest_job


def logged(scene: JobScene) -> list[LoggedJob]:
    async def read(engine: Engine) -> list[LoggedJob]:
        return [one async for one in publications(engine.store, DEST, scene.conditions)]

    return scene.elsewhere(read)


def runs(scene: JobScene) -> set[str | None]:
    return {one.run_id for one in logged(scene)}


class TestJobs:
    def test_readers_see_the_same_and_walk_less(self, scene: JobScene):
        jobs = [scene.published({f"p={n}/a.bin": b"x" * n}, run_id=f"run {n}") for n in range(5)]
        before, objects = seen(scene), set(scene.objects())
        report = compact(scene)
        assert (report.manifests, report.files, report.bytes, report.runs) == (5, 5, 0 + 1 + 2 + 3 + 4, 5)
        assert report.manifest is not None
        assert seen(scene) == before
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().job_id == jobs[-1].id
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert published_manifest(scene.url, filesystem=scene.filesystem).job_id == jobs[-1].id
        assert objects <= set(scene.objects()), "nothing was removed"
        head = view_of(scene).head
        assert (head.mode, head.previous, head.replaced) == (COMPACT, jobs[-1].id, jobs[-1].id)
        assert [(one.run_id, one.job_id) for one in logged(scene)] == [
            (f"run {n}", jobs[n].id) for n in reversed(range(5))
        ]
        # A reader of the chain asks for the pointer and for one manifest.
        traffic = Traffic()
        asyncio.run(chain.view(scene.engine(traffic).store, DEST, scene.conditions))
        read = {one.key for one in traffic.log if one.operation == "get"}
        assert len(read) == 2

    def test_a_second_call_finds_nothing_to_do(self, scene: JobScene):
        for n in range(3):
            scene.published({f"{n}.bin": b"x"})
        assert compact(scene).manifest
        before = scene.objects()
        report = compact(scene)
        assert (report.manifest, report.manifests) == (None, 0)
        assert scene.objects() == before

    def test_a_dry_run_tells_and_changes_nothing(self, scene: JobScene):
        three_jobs(scene)
        before = scene.objects()
        would = magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact(dry_run=True)
        assert scene.objects() == before
        done = compact(scene)
        assert would.manifest is not None
        assert replace(done, manifest=would.manifest) == would

    def test_a_job_that_is_named_like_a_sum_is_a_job(self, scene: JobScene):
        three_jobs(scene)
        job = scene.published({"a.bin": b"x"}, job_id="compact-me")
        for _ in range(2):
            assert published_manifest(scene.url, filesystem=scene.filesystem).job_id == job.id
            compact(scene)

    def test_one_manifest_needs_no_sum(self, scene: JobScene):
        scene.published({"a.bin": b"x"})
        before = scene.objects()
        assert compact(scene).manifest is None
        assert scene.objects() == before

    def test_nothing_published_is_an_error(self, scene: JobScene):
        with pytest.raises(ObjectNotFound, match="no job was published"):
            compact(scene)

    @pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
    def test_jobs_go_on_above_a_sum(self, scene: JobScene, mode: str):
        plain = like(scene)
        for one in (scene, plain):
            for n in range(4):
                one.published({f"p={n % 2}/{n}.bin": b"old"}, run_id=f"{n}")
            if one is scene:
                assert compact(one).manifest
            one.published({"p=1/new.bin": b"new"}, mode=mode, run_id="new")
            if one is scene:
                report = compact(one)
                assert (report.manifests, report.runs) == (2, 5)
        assert len(scene.manifest_files()) == len(plain.manifest_files())
        assert scene.manifest_files() == set(scene.data())
        assert scene.bodies() == plain.bodies()

    def test_run_that_a_sum_stands_for_is_not_published_again(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"}, run_id="one")
        scene.published({"b.bin": b"2"}, run_id="two")
        compact(scene)
        again = scene.published({"a.bin": b"again"}, run_id="one")
        assert (again.report.published_before, again.report.job_id) == (True, first.id)
        assert scene.bodies() == [b"1", b"2"]

    def test_success_of_a_job_is_written_although_a_sum_was_linked_before(self, scene: JobScene):
        """Another job's _SUCCESS lies there, and the pointer names the sum of both."""
        first = scene.published({"a.bin": b"1"})
        job = scene.job()
        commits = scene.wrote(job, {"b.bin": b"2"})
        success = scene.objects()[f"{DEST}/_SUCCESS"][0]

        def late(request: Request) -> None:
            if request.operation == "put" and request.key.endswith("/_SUCCESS") and len(chain_of(scene)) == 2:
                scene.elsewhere(lambda engine: compact_chain(engine, paths.parse_url(scene.url)))
                scene.put("_SUCCESS", success)

        assert scene.commit(job, commits, traffic=Traffic(before=late)) is not None
        assert view_of(scene).head.mode == COMPACT
        assert first.id.encode() in success
        found = scene.success()
        assert found is not None
        assert found.job_id == job.id

    def test_files_from_before_the_chain_stay_unknown(self, scene: JobScene):
        scene.put("older.bin", b"older")
        for n in range(2):
            scene.published({f"{n}.bin": b"x"})
        assert view_of(scene).older_files
        compact(scene)
        assert view_of(scene).older_files
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().manifest is not None
        assert not view_of(scene).older_files
        assert "older.bin" in scene.manifest_files()
        compact(scene)
        assert scene.manifest_files() == set(scene.data())
        assert not view_of(scene).older_files


# -- while others are at work -----------------------------------------------------------------------------


def like(scene: JobScene) -> JobScene:
    return JobScene(ignores=frozenset() if scene.conditions.put_if_match else NUMBERED)


def joining(number: int, join: Callable[[], object]) -> Traffic:
    """Requests of a compaction, before one of which somebody else joins."""

    def before(request: Request) -> None:
        if request.number == number:
            join()

    return Traffic(before=before)


def three_jobs(scene: JobScene) -> None:
    for n in range(3):
        scene.published({f"p={n}/{n}.bin": b"old"}, run_id=f"{n}")


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_a_job_that_joins_before_any_request_of_a_compaction_is_kept_whole(
    scene: JobScene, mode: str
) -> None:
    for number in range(1, 60):
        place = like(scene)
        three_jobs(place)
        job = place.job(mode, run_id="new")
        commits = place.wrote(job, {"p=1/new.bin": b"new"})
        traffic = joining(number, lambda: commit_elsewhere(place, job, commits))  # noqa: B023
        engine = place.engine(traffic)
        report = place.lived(lambda: compact_chain(engine, paths.parse_url(place.url)))  # noqa: B023
        if len(traffic.log) < number:
            break
        assert report.manifest is not None
        kept = {"append": 3, "overwrite": 0, "overwrite_partitions": 2}[mode]
        for _ in range(2):
            assert place.bodies() == [b"new"] + [b"old"] * kept
            assert place.manifest_files() == set(place.data())
            assert runs(place) == {"0", "1", "2", "new"}
            compact(place)
    assert 8 < number < 59, "every request"


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_a_compaction_before_any_request_of_a_job_commit_neither_stops_it_nor_brings_old_files_back(
    mode: str,
) -> None:
    for number in range(1, 100):
        place = JobScene()
        three_jobs(place)
        job = place.job(mode, run_id="new")
        commits = place.wrote(job, {"p=1/new.bin": b"new"})

        def join() -> None:
            place.elsewhere(lambda engine: compact_chain(engine, paths.parse_url(place.url)))  # noqa: B023

        traffic = joining(number, join)
        assert place.commit(job, commits, traffic=traffic) is not None
        assert (
            place.bodies()
            == [b"new"] + [b"old"] * {"append": 3, "overwrite": 0, "overwrite_partitions": 2}[mode]
        )
        assert place.manifest_files() == set(place.data())
        compact(place)
        assert place.manifest_files() == set(place.data())
        if len(traffic.log) < number:
            break
    assert 15 < number < 99, "every request"


@pytest.mark.parametrize(("looked_at", "kept"), [("a", ["r.bin", "b.bin"]), ("b", ["r.bin"])])
def test_a_sum_that_joined_after_a_replacing_job_had_looked_is_passed_over(
    scene: JobScene, looked_at: str, kept: list[str]
) -> None:
    async def publish(engine: Engine, manifest: Manifest) -> None:
        await chain.publish(engine.store, scene.conditions, DEST, manifest)

    for job in ("a", "b"):
        scene.elsewhere(lambda engine: publish(engine, plain(job)))  # noqa: B023
    assert compact(scene).manifests == 2
    replacing = plain("r", hides="all", replaced=looked_at)
    scene.elsewhere(lambda engine: publish(engine, replacing))
    assert list(view_of(scene).files) == kept
    assert compact(scene).manifests == 2
    assert list(view_of(scene).files) == kept


def commit_elsewhere(scene: JobScene, job: magicfs.Job, commits: list[TaskCommit]) -> None:
    context, driver = job.spec.context, job.found.driver
    scene.elsewhere(lambda engine: MagicCommitter(context, engine).commit_job(commits, driver))


def test_a_compaction_among_batches_that_never_end_gives_up_and_changes_nothing(scene: JobScene) -> None:
    three_jobs(scene)
    count = 0

    def before(request: Request) -> None:
        nonlocal count
        if request.operation == "put" and "/current." in request.key:
            count += 1
            scene.elsewhere(
                lambda engine: chain.publish(engine.store, scene.conditions, DEST, plain(f"b{count}"))
            )

    engine = scene.engine(Traffic(before=before))
    with pytest.raises(Unavailable, match="other jobs were published each time"):
        scene.lived(lambda: compact_chain(engine, paths.parse_url(scene.url)))
    assert count == _TRIES
    jobs = chain_of(scene)
    assert len(jobs) == 3 + count
    # The manifests of the sums that were never linked are gone, too.
    assert [name for name in scene.below("_magicfs/") if COMPACT in name] == []


def plain(job: str, *keys: str, **changes: Any) -> Manifest:
    return Manifest(
        job_id=job,
        bucket="bucket",
        destination=DEST,
        mode="append",
        committed_ms=1,
        files=tuple(ManifestFile(key=key, size=1, etag=f'"{job}"') for key in keys or (f"{job}.bin",)),
        **changes,
    )


@pytest.mark.parametrize("kind", [Kind.CRASH_AFTER, Kind.REPLY_LOST, Kind.ERROR_BEFORE])
def test_a_compaction_that_dies_at_any_request_leaves_readers_what_they_saw(
    scene: JobScene, kind: Kind
) -> None:
    for number in range(1, 60):
        place = like(scene)
        three_jobs(place)
        before = seen(place)
        engine = place.engine(traffic := Traffic((Fault(kind, number=number),)))
        try:
            report = place.lived(lambda: compact_chain(engine, paths.parse_url(place.url)))  # noqa: B023
        except magicfs.errors.MagicError:
            report = None
        assert seen(place) == before
        # Somebody else goes on: a batch joins, and another compaction is run to its end.
        place.published({"p=9/new.bin": b"new"}, run_id="new")
        assert place.manifest_files() == set(place.data())
        compact(place)
        assert place.manifest_files() == set(place.data())
        assert runs(place) == {"0", "1", "2", "new"}
        if len(traffic.log) < number:
            break
    assert report is not None
    assert 8 < number < 59, "every request was cut"


@pytest.mark.parametrize("later_jobs", [0, 2])
def test_what_a_dead_compaction_has_left_is_removed_by_the_next(scene: JobScene, later_jobs: int) -> None:
    three_jobs(scene)
    cut = Fault(Kind.CRASH_AFTER, operation="put", prefix=f"{DEST}/_magicfs/{COMPACT}-", skip=1)
    assert (
        scene.lived(lambda: compact_chain(scene.engine(Traffic((cut,))), paths.parse_url(scene.url))) is None
    )
    [left] = [name for name in scene.below("_magicfs/") if COMPACT in name and "/log-" not in name]
    assert len(chain_of(scene)) == 3
    kept = scene.published({"k.bin": b"k"}, job_id="compact-kept").id
    for n in range(later_jobs):
        scene.published({f"later {n}.bin": b"x"})
    report = compact(scene)
    assert report.manifest is not None
    assert not report.manifest.endswith(left)
    sums = [name for name in scene.below("_magicfs/") if COMPACT in name and "/log-" not in name]
    assert sorted(sums) == sorted([f"_magicfs/{kept}.json", report.manifest[len(scene.url) + 1 :]])
    assert not scene.below(left.removesuffix(".json")), "its log is gone, too"
    assert len(chain_of(scene)) == 5 + later_jobs


def test_a_compaction_that_may_list_nothing_leaves_what_a_dead_one_left() -> None:
    scene = JobScene()
    three_jobs(scene)
    refused = Fault(Kind.ERROR_BEFORE, operation="list", prefix=f"{DEST}/_magicfs/{COMPACT}-", times=None)
    engine = scene.engine(Traffic((refused,)))
    assert scene.lived(lambda: compact_chain(engine, paths.parse_url(scene.url))).manifest is not None
    assert scene.manifest_files() == set(scene.data())


def test_two_compactions_at_once_link_one_sum(scene: JobScene) -> None:
    three_jobs(scene)
    for number in range(1, 40):
        place = like(scene)
        three_jobs(place)
        other: list[Any] = []

        def join() -> None:
            other.append(place.elsewhere(lambda engine: compact_chain(engine, paths.parse_url(place.url))))  # noqa: B023

        engine = place.engine(joining(number, join))
        place.lived(lambda: compact_chain(engine, paths.parse_url(place.url)))  # noqa: B023
        assert len(chain_of(place)) == 4
        assert place.manifest_files() == set(place.data())
        if not other:
            break
    assert number > 8


def test_a_store_without_conditional_writes_is_left_alone() -> None:
    scene = JobScene(ignores=frozenset({"put_if_match", "put_if_absent"}))
    for n in range(2):
        scene.published({f"{n}.bin": b"x"}, single_driver=True)
    before = scene.objects()
    with pytest.raises(UsageError, match="ignores conditional writes"):
        compact(scene)
    assert scene.objects() == before


def test_a_sum_that_no_reader_would_take_is_not_published(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_jobs(scene)
    before = scene.objects()
    monkeypatch.setattr(sys.modules["magicfs.past.compact"], "MANIFEST_SIZE_LIMIT", 500)
    with pytest.raises(UsageError, match="3 files are too many for one manifest"):
        compact(scene)
    assert scene.objects() == before


# -- against a chain that is never summed up --------------------------------------------------------------

KEYS = ["p=1/a", "p=1/b", "p=2/a", "p=2/b", "c"]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sets(st.sampled_from(KEYS))),
        st.tuples(st.just("keys"), st.sets(st.sampled_from(KEYS))),
        st.tuples(st.just("look"), st.just(frozenset())),
        st.tuples(st.just("overwrite"), st.sets(st.sampled_from(KEYS))),
        st.tuples(st.just("compact"), st.just(frozenset())),
        st.tuples(st.just("compact"), st.just(frozenset())),
    ),
    max_size=20,
)


@settings(max_examples=examples(100), deadline=None)
@given(EVENTS, st.booleans())
def test_a_reader_cannot_tell_whether_a_chain_was_ever_summed_up(events: list[Any], older: bool) -> None:
    """Replacing jobs look at any time before they join, as they do when others join in between."""

    async def whole() -> None:
        summed, whole = JobScene(), JobScene()
        for one in (summed, whole):
            conditions.assume(one.plain, Conditions())
        looked: list[tuple[str | None, str | None]] = []
        for number, (what, keys) in enumerate(events):
            if what == "compact":
                if number:
                    with suppress(ObjectNotFound):
                        await compact_chain(summed.engine(Traffic()), paths.parse_url(summed.url))
            elif what == "look":
                looked.append((await newest(summed.plain), await newest(whole.plain)))
            else:
                ends = looked.pop() if what == "overwrite" and looked else None
                for index, one in enumerate((summed, whole)):
                    changes: dict[str, Any] = {"older_files": older and not number}
                    hides: Hides = "nothing"
                    if what == "keys":
                        hides, changes["deleted"] = "keys", ("p=1/a", "p=2/a")
                    if what == "overwrite":
                        hides = "all"
                        changes["replaced"] = ends[index] if ends else await newest(one.plain)
                    manifest = plain(f"j{number}", *(keys or {f"{number}"}), hides=hides, **changes)
                    await chain.publish(one.plain, Conditions(), DEST, manifest)
            left, right = [await chain.view(one.plain, DEST, Conditions()) for one in (summed, whole)]
            if left is None or right is None:
                assert left is right
                continue
            assert list(left.files.items()) == list(right.files.items())
            assert (left.older_files, left.newest_job) == (right.older_files, right.newest_job)

    asyncio.run(whole())


async def newest(store: MemoryStore) -> str | None:
    found = await chain.read_pointer(store, DEST, Conditions())
    return found[0].job_id if found else None


# -- the format and the command -----------------------------------------------------------------------------


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    url = "memory://compact-command/sales"
    for n in range(3):
        with magicfs.Job(url, mode="append", run_id=f"{n}") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/{n}.bin", b"12")
    assert main(["maintain", url, "--dry-run"]) == 1
    assert "compact   would merge 3 manifests" in capsys.readouterr().out
    assert published_manifest(url).previous is not None
    assert main(["maintain", url]) == 0
    assert "compact   merged 3 manifests, of 3 files (6 B) and 3 runs, into" in capsys.readouterr().out
    assert main(["maintain", url]) == 0
    assert "compact   there is one manifest only" in capsys.readouterr().out
    assert main(["maintain", url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compact"]["manifest"] is None
    assert main(["maintain", "memory://compact-command/none"]) == 3
