"""``keep`` on a bucket that keeps versions: files are read, expired and rolled back by version."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitDenied, MagicError, ObjectNotFound, UsageError
from magicfs.formats import deletions
from magicfs.past.expire import ExpireReport, expire_kept
from magicfs.past.rollback import roll_back
from magicfs.protocol import ids, paths
from magicfs.stores.memory.store import MemoryVersions
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import BUCKET, JobScene
from proofs.scenes.manifests import published_manifest
from tests.sample import Some
from tests.unit.test_versions import manifest_of, opened, rows, values

DEST = "env=prod/día 50% + #1"
ENDED = timedelta(milliseconds=1)
KINDS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.REPLY_LOST)
WISHES = ("forward", "back", "again")


def made(*, ignores: frozenset[str] = frozenset()) -> JobScene:
    scene = JobScene(DEST, ignores=ignores)
    scene.filesystem.world.keep_versions(BUCKET)
    return scene


class Shown:
    """A table of a catalog that shows everything."""

    def register(self, url: str, **_: object) -> None:
        """Nothing to do."""


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return made(ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


def as_of(scene: JobScene, job: magicfs.Job) -> list[int]:
    return values(magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow(as_of=job.id))


def rolled_back(scene: JobScene, job: magicfs.Job, **how: Any) -> magicfs.JobReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(
        to=f"job:{job.id}", **{"keep": None, **how}
    )


def expired(scene: JobScene) -> ExpireReport:
    time.sleep(0.01)
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).expire()


def kept(scene: JobScene) -> list[tuple[str, str, bool]]:
    """Name, version and whether it is a marker, of all versions of data."""
    contents = scene.filesystem.world.find(BUCKET)
    assert contents is not None
    return [
        (paths.relative_to(key, DEST), one.version, one.held is None)
        for key, line in contents.versions.items()
        for one in line
        if paths.is_under(key, DEST) and paths.is_visible(key, DEST) and not key.endswith("_SUCCESS")
    ]


def footers(scene: JobScene) -> list[tuple[int, Any, Any] | None]:
    """Rows, least and greatest value of each file, in their order; None for one of which nothing is known."""
    found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).footers().values()
    columns = [(one, one.column("n")) for one in found if one is not None]
    known = [(one.rows, column.min, column.max) for one, column in columns if column is not None]
    return [*(None for one in found if one is None), *sorted(known)]


def gone(scene: JobScene) -> set[str]:
    """Names of data of which there are versions, and nothing to see."""
    return {name for name, _, _ in kept(scene)} - set(scene.data())


def replaced(scene: JobScene, **how: Any) -> tuple[magicfs.Job, magicfs.Job]:
    """Two files, replaced by one."""
    first = scene.published({"a.parquet": rows(1, 2)}, {"p=1/b ü.parquet": rows(3)})
    second = scene.published({"a.parquet": rows(9)}, mode="overwrite", **{"keep": "1h", **how})
    return first, second


def test_listers_see_the_new_files_alone_and_readers_of_then_all(scene: JobScene) -> None:
    scene.published({"a.parquet": rows(1, 2)}, {"p=1/b.parquet": rows(3)})
    held = opened(scene)
    first, second = replaced(scene)
    del first
    assert set(scene.data()) == set(manifest_of(scene)) | {"_SUCCESS"} - {"_SUCCESS"}
    assert values(held) == [1, 2, 3]
    assert values(opened(scene)) == as_of(scene, second) == [9]
    assert scene.work() == []


def test_as_of_reads_exactly_what_was_published(scene: JobScene) -> None:
    first, second = replaced(scene)
    third = scene.published({"p=1/c.parquet": rows(4)})
    how = {"mode": "overwrite_partitions", "keep": "1h"}
    fourth = scene.published({"p=1/d.parquet": rows(5)}, **how)
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    shown = [as_of(scene, one) for one in (first, second, third, fourth)]
    assert shown == [[1, 2, 3], [9], [4, 9], [5, 9]]
    assert len(scene.data()) == 2
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok


def test_the_lists_name_versions_and_older_ones_cannot_be_misread(scene: JobScene) -> None:
    _, second = replaced(scene)
    raw = next(body for key, (body, _, _) in scene.objects().items() if "/kept-" in key)
    assert b'"requires":["relative","versions"]' in raw
    listed = deletions.read("p", raw)
    assert {(one.key, one.version) for one in listed} == {
        (name, version) for name, version, is_marker in kept(scene) if not is_marker and name in gone(scene)
    }
    assert second.id in next(key for key in scene.objects() if "/kept-" in key)


def test_what_has_no_version_stays_where_it_is(scene: JobScene) -> None:
    scene.filesystem.world.keep_versions(BUCKET, None)
    first = scene.published({"a.parquet": rows(1)})
    scene.filesystem.world.keep_versions(BUCKET)
    scene.published({"b.parquet": rows(2)})
    job = scene.published({"c.parquet": rows(3)}, mode="overwrite", keep=ENDED)
    names = sorted(scene.data())
    assert [name[0] for name in names] == ["a", "c"]
    assert (values(opened(scene)), as_of(scene, first)) == ([3], [1])
    assert expired(scene).jobs == (job.id,)
    assert [name[0] for name in scene.data()] == ["c"]
    assert not any(name.startswith("b") for name, _, _ in kept(scene))


def test_without_keeping_nothing_is_promised_and_nothing_listed(scene: JobScene) -> None:
    scene.published({"a.parquet": rows(1)})
    scene.published({"a.parquet": rows(2)}, mode="overwrite")
    assert not [key for key in scene.objects() if "/kept-" in key]


class TestExpire:
    def test_versions_and_markers_go_and_others_stay(self, scene: JobScene) -> None:
        first, second = replaced(scene, keep=ENDED)
        third = scene.published({"a.parquet": rows(4)}, mode="overwrite", keep="1h")
        done = expired(scene)
        assert (done.jobs, done.files, done.keeping) == ((second.id,), 2, 1)
        assert gone(scene) == {one for one in gone(scene) if second.id in one}
        assert len(gone(scene)) == 1
        with pytest.raises(ObjectNotFound, match="2 of 2 files"):
            as_of(scene, first)
        assert (as_of(scene, second), as_of(scene, third)) == ([9], [4])
        assert expired(scene).files == 0

    def test_what_somebody_wrote_to_the_name_stays(self, scene: JobScene) -> None:
        replaced(scene, keep=ENDED)
        name = next(iter(gone(scene)))
        scene.put(name, b"another's")
        expired(scene)
        assert scene.data()[name] == b"another's"

    def test_a_marker_above_something_else_stays(self, scene: JobScene) -> None:
        scene.put("a.parquet", b"what was there before")
        scene.delete("a.parquet")
        scene.published({"a.parquet": rows(1)}, unique_names=False)
        scene.published({"b.parquet": rows(2)}, mode="overwrite", keep=ENDED)
        assert expired(scene).files == 1
        assert "a.parquet" not in scene.data(), "what lies below does not come up"

    def test_who_may_not_list_versions_leaves_the_markers(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        replaced(scene, keep=ENDED)

        def denied(_self: MemoryVersions, prefix: str) -> Any:
            raise magicfs.errors.PermissionDenied("list_versions", prefix, "no s3:ListBucketVersions")

        monkeypatch.setattr(MemoryVersions, "list", denied)
        assert expired(scene).files == 2
        assert {is_marker for name, _, is_marker in kept(scene) if name in gone(scene)} == {True}

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_one_that_was_cut_anywhere_is_called_again(self, kind: Kind) -> None:
        for number in range(1, 100):
            scene = made()
            first, second = replaced(scene, keep=ENDED)
            third = scene.published({"a.parquet": rows(4)}, mode="overwrite", keep="1h")
            time.sleep(0.005)
            traffic = scene.traffic(Fault(kind, number=number))
            place = paths.parse_url(scene.url)
            scene.lived(lambda: expire_kept(scene.engine(traffic), place))  # noqa: B023
            assert (as_of(scene, second), values(opened(scene))) == ([9], [4])
            expired(scene)
            assert gone(scene) == {one for one in gone(scene) if second.id in one}, number
            with pytest.raises(ObjectNotFound):
                as_of(scene, first)
            assert expired(scene).keeping == 1
            if not traffic.met:
                break
        assert number > 10
        del third


class TestRollback:
    def test_each_version_is_copied_to_a_new_name(self, scene: JobScene) -> None:
        first, second = replaced(scene)
        before = {name: version for name, version, is_marker in kept(scene) if not is_marker}
        report = rolled_back(scene, first, keep="1h", run_id="back")
        assert (values(opened(scene)), report.files) == ([1, 2, 3], 2)
        assert set(scene.data()) == set(manifest_of(scene))
        assert all(report.job_id in name for name in scene.data())
        assert {name.rpartition("/")[0] for name in scene.data()} == {"", "p=1"}
        assert before.items() <= {(n, v) for n, v, is_marker in kept(scene) if not is_marker}
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()[0].restores == first.id
        assert rolled_back(scene, first, run_id="back").published_before
        rolled_back(scene, second)
        assert (values(opened(scene)), as_of(scene, first)) == ([9], [1, 2, 3])
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        assert (scene.work(), scene.uploads()) == ([], [])

    def test_a_copy_of_a_copy_has_no_longer_name(self, scene: JobScene) -> None:
        jobs = list(replaced(scene))
        lengths = set()
        for turn in range(6):
            rolled_back(scene, jobs[turn % 2], keep="1h")
            lengths.add(max(map(len, scene.data())))
        assert len(lengths) <= 2

    def test_what_is_still_there_is_shown_where_it_is(self, scene: JobScene) -> None:
        first = scene.published({"p=1/a.parquet": rows(1)}, {"p=2/b.parquet": rows(2)})
        scene.published({"p=1/a.parquet": rows(9)}, mode="overwrite_partitions", keep="1h")
        there = {name for name in scene.data() if name.startswith("p=2")}
        rolled_back(scene, first)
        assert values(opened(scene)) == [1, 2]
        assert there <= set(scene.data())
        assert len(scene.data()) == 2

    def test_metadata_and_checksums_come_along(self) -> None:
        scene = made()
        first = scene.published({"a.parquet": rows(1), "empty.bin": b""}, checksums=True)
        before = {file.checksum: file.size for file in manifest_of(scene).values()}
        scene.published({"a.parquet": rows(2)}, mode="overwrite", keep="1h")
        rolled_back(scene, first)
        assert {file.checksum: file.size for file in manifest_of(scene).values()} == before
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify(deep=True).ok

    def test_rows_and_footers_come_along(self, scene: JobScene) -> None:
        first = scene.published(
            {"a.parquet": rows(1, 2), "b.parquet": rows(3)}, {"p=1/c.parquet": rows(4, 5, 6)}, footers=True
        )
        plain = scene.published({"plain.parquet": rows(7)}, mode="append")
        scene.published({"d.parquet": rows(9)}, mode="overwrite", keep="1h")
        report = rolled_back(scene, first, keep="1h")
        assert footers(scene) == [(1, 3, 3), (2, 1, 2), (3, 4, 6)]
        told = published_manifest(scene.url, filesystem=scene.filesystem).footers
        assert told is not None
        assert (told.rows, len(told.schemas)) == (6, 1)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        rolled_back(scene, plain, keep="1h")
        assert footers(scene) == [None, (1, 3, 3), (2, 1, 2), (3, 4, 6)]
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=f"job:{report.job_id}", keep=None)
        assert footers(scene) == [(1, 3, 3), (2, 1, 2), (3, 4, 6)], "copies of copies"
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        assert footers(scene) == [(1, 3, 3), (2, 1, 2), (3, 4, 6)]
        assert (
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(where="n >= 4", keep=None).files == 1
        )

    def test_lists_of_footers_that_are_lost_keep_nobody_from_rolling_back(self, scene: JobScene) -> None:
        first = scene.published({"a.parquet": rows(1, 2)}, footers=True)
        scene.published({"d.parquet": rows(9)}, mode="overwrite", keep="1h")
        for key in [key for key in scene.objects() if "/footers-" in key]:
            scene.delete(paths.relative_to(key, DEST))
        rolled_back(scene, first)
        assert (values(opened(scene)), footers(scene)) == ([1, 2], [None])

    def test_large_files_are_copied_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("magicfs.past.copies._PART", 1000)
        scene = made()
        body = bytes(range(256)) * 40
        first = scene.published({"a.bin": body})
        scene.published({"b.bin": b"2"}, mode="overwrite", keep="1h")
        rolled_back(scene, first)
        assert list(scene.data().values()) == [body]

    def test_versions_that_are_gone_refuse_it_and_nothing_is_left(self, scene: JobScene) -> None:
        first, _ = replaced(scene, keep=ENDED)
        expired(scene)
        before = scene.data()
        with pytest.raises(ObjectNotFound, match="nothing was changed"):
            rolled_back(scene, first)
        assert (scene.data(), scene.work(), scene.uploads()) == (before, [], [])
        assert values(opened(scene)) == [9]

    def test_one_version_that_is_gone_meanwhile_refuses_all(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, _ = replaced(scene)
        copied: list[str] = []
        whole = MemoryVersions.copy_part

        async def copy_part(self: MemoryVersions, key: str, *rest: Any) -> Any:
            copied.append(key)
            if len(copied) == 2:
                raise ObjectNotFound("copy_part", key, "an expiry was faster")
            return await whole(self, key, *rest)

        monkeypatch.setattr(MemoryVersions, "copy_part", copy_part)
        with pytest.raises(ObjectNotFound, match="nothing was changed"):
            rolled_back(scene, first)
        assert (values(opened(scene)), scene.work(), scene.uploads()) == ([9], [], [])

    @pytest.mark.slow
    @pytest.mark.sample(most=1)
    @pytest.mark.parametrize("wish", WISHES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_one_that_was_cut_anywhere_comes_to_an_end(self, kind: Kind, wish: str, some: Some) -> None:
        shown = set()
        for number in some(range(1, 200), 50):
            scene = made()
            first, second = replaced(scene)
            traffic = scene.traffic(Fault(kind, number=number))
            asked = {"to": f"job:{first.id}", "keep_ms": 3_600_000, "run_id": "back"}
            job, place = ids.job_id("0000000f-8a4b-4f0e-9d5a-0c1b2a3d4e5f"), paths.parse_url(scene.url)
            with suppress(MagicError):
                scene.lived(lambda: roll_back(scene.engine(traffic), place, job=job, **asked))  # noqa: B023
            assert values(opened(scene)) in ([1, 2, 3], [9]), number
            if wish == "again":
                rolled_back(scene, first, keep="1h", run_id="back")
                assert values(opened(scene)) == [1, 2, 3]
            for how in ({"rollback": wish == "back"}, {}, {"abort": True}):
                with suppress(UsageError, CommitDenied):  # there is nothing to recover, or to take back
                    magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(**how)
            now = values(opened(scene))
            shown.add(tuple(now))
            assert now in ([1, 2, 3], [9]), number
            assert (as_of(scene, first), as_of(scene, second)) == ([1, 2, 3], [9])
            assert set(scene.data()) == set(manifest_of(scene)), number
            assert (scene.work(), scene.uploads()) == ([], []), number
            if not traffic.met:
                break
        assert number > 30
        assert shown == ({(1, 2, 3)} if wish == "again" else {(1, 2, 3), (9,)})


@pytest.mark.slow
@pytest.mark.sample(most=1)
@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_keeps_and_was_cut_anywhere_comes_to_an_end(kind: Kind, mode: Any, some: Some) -> None:
    seen = set()
    for number in some(range(1, 200), 50):
        scene = made()
        first = scene.published({"p=1/a.parquet": rows(1)})
        held = opened(scene)
        job = scene.job(mode, keep="1h")
        commits = scene.wrote(job, {"p=1/a.parquet": rows(2)})
        traffic = scene.traffic(Fault(kind, number=number))
        with suppress(MagicError):
            scene.commit(job, commits, traffic=traffic)
        assert values(held) == [1], number
        for abort in (False, True):
            with suppress(UsageError):  # there is nothing to recover
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(abort=abort)
        now = values(opened(scene))
        seen.add(tuple(now))
        assert now in ([1], [2]), number
        assert (values(held), as_of(scene, first)) == ([1], [1]), number
        assert set(scene.data()) == set(manifest_of(scene)), number
        assert (scene.work(), scene.uploads()) == ([], []), number
        if not traffic.met:
            break
    assert (number > 20, seen) == (True, {(1,), (2,)})


@pytest.mark.parametrize("how", [{"keep_in_place": True}, {"catalogs": [Shown()]}])
def test_who_reads_by_names_alone_can_go_on(scene: JobScene, how: dict[str, Any]) -> None:
    scene.published({"a.parquet": rows(1)})
    before = set(scene.data())
    with (
        magicfs.Job(
            scene.url, mode="overwrite", keep=ENDED, filesystem=scene.filesystem, **arranged(**how)
        ) as job,
        job.task(0) as task,
    ):
        task.filesystem.pipe_file(f"{task.path}/a.parquet", rows(2))
    assert before < set(scene.data())
    assert values(opened(scene)) == [2]
    assert expired(scene).files == 1
    assert not before & set(scene.data())


def in_place(scene: JobScene, kind: str, **how: Any) -> None:
    """Let a job that is none of ``magicfs.Job`` replace the only file, and keep it."""
    there = magicfs.Dataset(scene.url, filesystem=scene.filesystem)
    match kind:
        case "rollback":
            there.rollback(there.history()[-1].job_id, **how)
        case "drop":
            there.drop(partitions="p=1", **how)
        case _:
            there.rewrite(**how)


@pytest.mark.parametrize("stays", [True, False])
@pytest.mark.parametrize("kind", ["rollback", "drop", "rewrite"])
def test_jobs_on_what_is_there_leave_it_in_place_if_they_are_told_to(
    scene: JobScene, kind: str, stays: bool
) -> None:
    scene.published({"p=2/x.parquet": rows(7)})
    scene.published({"p=1/a.parquet": rows(1), "p=1/b.parquet": rows(2)}, mode="append")
    before = {name for name in scene.data() if name.startswith("p=1")}
    in_place(scene, kind, keep=ENDED, keep_in_place=stays)
    shown = {"rollback": [7], "drop": [7], "rewrite": [1, 2, 7]}[kind]
    assert values(opened(scene)) == shown
    assert (before & set(scene.data())) == (before if stays else set())
    assert expired(scene).files == 2
    assert set(scene.data()) == set(magicfs.Dataset(scene.url, filesystem=scene.filesystem).footers())
    assert values(opened(scene)) == shown


@pytest.mark.parametrize("kind", ["rollback", "drop", "rewrite"])
def test_nothing_stays_in_place_for_no_time(scene: JobScene, kind: str) -> None:
    scene.published({"p=1/a.parquet": rows(1)})
    before = scene.everything()
    with pytest.raises(UsageError, match="keep_in_place needs keep"):
        in_place(scene, kind, keep=None, keep_in_place=True)
    assert scene.everything() == before


def test_no_job_leaves_files_in_place_for_no_time(scene: JobScene) -> None:
    before = scene.everything()
    with pytest.raises(UsageError, match="keep_in_place needs keep"):
        magicfs.Job(scene.url, mode="overwrite", filesystem=scene.filesystem, options={"keep_in_place": True})
    assert scene.everything() == before


def test_the_log_says_how_files_are_kept(scene: JobScene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "magicfs")
    replaced(scene)
    assert "as object versions if the bucket has them" in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_tag_keeps_versions(scene: JobScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magicfs.past.held._GRACE_MS", 1)
    first = scene.published({"a.parquet": rows(1, 2)}, {"p=1/b ü.parquet": rows(3)})
    at = magicfs.Dataset(scene.url, filesystem=scene.filesystem)
    at.tag("v1", keep=True)
    scene.published({"a.parquet": rows(9)}, mode="overwrite")
    assert (len(scene.data()), expired(scene).jobs) == (1, ())
    assert as_of(scene, first) == [1, 2, 3]
    at.tag("v2", first.id, keep=True)  # its files are there by their versions alone
    assert at.untag("v1")
    assert expired(scene).files == 0
    assert as_of(scene, first) == [1, 2, 3]
    assert at.untag("v2")
    assert (expired(scene).files, len(kept(scene))) == (2, 1)
