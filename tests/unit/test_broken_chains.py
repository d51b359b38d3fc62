"""Manifests and pointers that somebody removed or overwrote, and jobs that could not publish theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import magicfs
from magicfs.datasets import recover_jobs
from magicfs.errors import CommitDenied, CommitUnfinished, FormatError, PreconditionFailed, UsageError
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain
from magicfs.manifests.chain import COMPACT
from magicfs.operate.lost_pointer import newest_of
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene

CURRENT = "_magicfs/current.json"


def files(scene: JobScene) -> set[str]:
    """What a reader of the dataset sees, or an error."""
    found = asyncio.run(chain.view(scene.plain, scene.destination, scene.conditions))
    assert found is not None
    assert not found.older_files
    return set(found.files)


def bodies(scene: JobScene) -> list[bytes]:
    return sorted(scene.data()[name] for name in files(scene))


def broken(scene: JobScene, name: str, how: str) -> None:
    if how == "gone":
        scene.delete(name)
    else:
        scene.put(name, b"{}")


# -- a manifest ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gone", "corrupt"])
def test_one_full_replace_heals_a_dataset_whose_newest_manifest_is_lost(how: str) -> None:
    scene = JobScene()
    scene.published({"a.bin": b"1"})
    lost = scene.published({"b.bin": b"2"}, run_id="lost")
    broken(scene, f"_magicfs/{lost.id}.json", how)
    there = magicfs.Dataset(scene.url, filesystem=scene.filesystem)
    for command in (there.verify, there.compact):
        with pytest.raises(FormatError, match="publish all of the data again by one job with mode='over"):
            command()
    scene.published({"r.bin": b"new"}, mode="overwrite")
    assert bodies(scene) == [b"new"]
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().manifest is None
    scene.published({"more.bin": b"more"}, run_id="later")
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact().manifest is not None
    assert bodies(scene) == [b"more", b"new"]
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok


def test_what_a_lost_and_replaced_manifest_may_have_named_is_not_adopted() -> None:
    scene = JobScene()
    lost = scene.published({"b.bin": b"2"})
    scene.delete(f"_magicfs/{lost.id}.json")
    scene.published({"r.bin": b"new"}, mode="overwrite")
    scene.put("stranger.bin", b"?")
    before = scene.objects()
    with pytest.raises(UsageError, match=r"may have listed 1 files of .*stranger\.bin.*nothing was changed"):
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert scene.objects() == before


@pytest.mark.parametrize("is_linked", [True, False])
def test_adopt_whose_answer_is_lost_while_a_job_is_published_removes_no_manifest_of_the_chain(
    monkeypatch: pytest.MonkeyPatch, is_linked: bool
) -> None:
    scene = JobScene()
    scene.published({"a.bin": b"1"})
    scene.put("stranger.bin", b"2")
    move = chain._move

    async def lost(head: Any, seen: Any, manifest: Manifest) -> Pointer:
        if manifest.mode != chain.ADOPT:
            return await move(head, seen, manifest)
        if is_linked:
            await move(head, seen, manifest)
        await asyncio.to_thread(scene.published, {"b.bin": b"3"})
        raise PreconditionFailed("put", CURRENT, "somebody changed it")

    monkeypatch.setattr(chain, "_move", lost)
    if is_linked:
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    else:
        with pytest.raises(CommitDenied, match="nothing was adopted"):
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert bodies(scene) == ([b"1", b"2", b"3"] if is_linked else [b"1", b"3"])
    assert len(scene.below("_magicfs/adopted-")) == is_linked


# -- the pointer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gone", "corrupt"])
def test_adopt_makes_a_lost_pointer_again(how: str) -> None:
    scene = JobScene()
    for number in range(4):
        scene.published({f"{number}.bin": b"%d" % number}, run_id=f"run {number}")
        if number == 1:
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    scene.published({"4.bin": b"4"}, mode="overwrite")
    scene.published({"5.bin": b"5"})
    before = files(scene)
    broken(scene, CURRENT, how)
    if how == "corrupt":
        with pytest.raises(
            FormatError, match="run magicfs adopt with the dataset's URL, which rebuilds the pointer"
        ):
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify()
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().manifest is None
    assert files(scene) == before
    again = scene.published({"2.bin": b"2"}, run_id="run 2")
    assert again.report.published_before
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok


@pytest.mark.parametrize("how", ["gone", "corrupt"])
@pytest.mark.parametrize(
    "newest",
    [
        {"mode": "append"},
        {"mode": "overwrite", "success_marker": False},
        {"mode": "append", "success_marker": False, "unique_names": False},
        {"mode": "overwrite", "keep": "7d", "success_marker": False, "unique_names": False},
        {"mode": "append", "unique_names": False},
    ],
    ids=["appended", "replaced", "nothing tells", "by its list", "by its marker"],
)
def test_adopt_takes_no_older_manifest_for_the_newest(how: str, newest: dict[str, Any]) -> None:
    """Where the newest is lost with the pointer: as far as its files, lists or ``_SUCCESS`` tell."""
    scene = JobScene("env=prod/día 50% + #1")
    scene.published({"a.bin": b"1"}, mode="append")
    scene.published({"b.bin": b"2"}, mode="overwrite", keep="7d")
    open_ = scene.job()  # of which nothing is published
    lost = scene.published({"c.bin": b"3"}, **newest)
    for name in scene.below(f"_magicfs/{lost.id}."):
        scene.delete(name)
    broken(scene, CURRENT, how)
    before = scene.everything()
    if newest == {"mode": "append", "success_marker": False, "unique_names": False}:
        open_.abort()
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().lost == ()
        assert bodies(scene) == [b"2", b"3"], "and its file is adopted"
        return
    with pytest.raises(UsageError, match="unfinished"):
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert scene.everything() == before
    open_.abort()
    report = magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert f"the manifest of job {lost.id}, the newest one" in report.problem
    assert b"3" in bodies(scene)


def test_a_pointer_of_a_newer_magicfs_is_left_alone() -> None:
    scene = JobScene()
    scene.published({"a.bin": b"1"})
    scene.put(CURRENT, b'{"format":"magicfs.pointer/4"}')
    with pytest.raises(FormatError, match="use a newer magicfs"):
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()


def test_manifests_of_which_none_is_the_newest_are_replaced_by_what_lies_there() -> None:
    scene = JobScene()
    scene.published({"a.bin": b"1"})
    older = scene.data()
    for name in (*older, CURRENT):
        scene.delete(name)
    scene.published({"b.bin": b"1"})
    for name, body in older.items():
        scene.put(name, body)
    scene.put(CURRENT, b"{}")
    report = magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert "do not show which is the newest" in report.problem
    assert bodies(scene) == [b"1", b"1"]


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_nothing_begins_a_second_chain_where_the_pointer_is_gone(mode: str) -> None:
    scene = JobScene("env=prod/día 50% + #1")
    scene.published({"p=1/a.bin": b"1"}, run_id="first")
    scene.published({"p=2/a.bin": b"2"}, run_id="second")
    scene.delete(CURRENT)
    before = scene.everything()
    there = magicfs.Dataset(scene.url, filesystem=scene.filesystem)
    job = scene.job(mode)
    commits = scene.wrote(job, {"p=1/b.bin": b"new"})
    refused = (
        r"current.json: gone, although job .* was published there; nothing was changed; run magicfs adopt"
    )
    asked = (lambda: there.rollback("first"), lambda: there.files(as_of="second"), there.expire)
    for ask in (lambda: scene.commit(job, commits), there.files, there.history, there.compact, *asked):
        with pytest.raises(FormatError, match=refused):
            ask()
    job.abort()
    assert scene.everything() == before
    there.adopt()
    assert [one.run_id for one in there.history()] == ["second", "first"]
    scene.published({"p=1/b.bin": b"new"}, mode=mode)
    assert b"new" in bodies(scene)


@pytest.mark.parametrize("name", ["x.json", "../x.json", ".json", "x y.json", "current.00001.json.json"])
def test_what_others_put_where_manifests_are_stops_no_job(name: str) -> None:
    scene = JobScene()
    scene.put("older.bin", b"1")
    scene.put(f"_magicfs/{name}", b"theirs")
    scene.published({"a.bin": b"2"}, mode="overwrite")
    assert bodies(scene) == [b"2"]


@pytest.mark.parametrize("how", ["gone", "corrupt"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_pointer_that_is_lost_before_it_is_moved_loses_no_file(mode: str, how: str) -> None:
    scene = JobScene()
    for number in range(2):
        scene.published({f"{number}.bin": b"%d" % number})
    job = scene.job(mode)
    commits = scene.wrote(job, {"new.bin": b"new"})

    def before(request: Request) -> None:
        if (
            request.operation == "put"
            and request.key.endswith(f"{job.id}.json")
            and "_magicfs" in request.key
        ):
            broken(scene, CURRENT, how)

    traffic = Traffic(before=before)
    if how == "corrupt":
        with pytest.raises(CommitUnfinished):
            scene.commit(job, commits, traffic=traffic)
    else:
        assert scene.commit(job, commits, traffic=traffic) is not None
    found = asyncio.run(_view_or_none(scene))
    if mode == "append":
        # Readers are told, and nobody sees the new files alone.
        assert found is None or found.older_files or set(found.files) == set(scene.data())
    if how == "corrupt":
        with pytest.raises(UsageError, match=r"is unfinished, .* or run: magicfs recover"):
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover()
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert bodies(scene) == ([b"0", b"1", b"new"] if mode == "append" else [b"new"])
    assert scene.work() == []
    assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok


async def _view_or_none(scene: JobScene) -> chain.View | None:
    try:
        return await chain.view(scene.plain, scene.destination, scene.conditions)
    except FormatError:
        return None


def test_manifests_removed_with_their_pointer_leave_files_that_readers_are_told_of() -> None:
    scene = JobScene()
    scene.published({"0.bin": b"0"})
    job = scene.job()
    commits = scene.wrote(job, {"new.bin": b"new"})

    def before(request: Request) -> None:
        if request.operation == "put" and request.key.endswith(f"_magicfs/{job.id}.json"):
            for name in scene.below("_magicfs/"):
                scene.delete(name)

    assert scene.commit(job, commits, traffic=Traffic(before=before)) is not None
    found = asyncio.run(_view_or_none(scene))
    assert found is not None
    assert found.older_files
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
    assert bodies(scene) == [b"0", b"new"]


def test_the_newest_manifest_is_the_one_that_no_other_names() -> None:
    def manifest(job: str, previous: str | None, mode: str = "append") -> Manifest:
        return Manifest(job_id=job, bucket="b", destination="d", mode=mode, committed_ms=1, previous=previous)

    ones = [
        manifest("a", None),
        manifest("b", "a"),
        manifest("s", "b", COMPACT),
        manifest("t", "s", COMPACT),
    ]
    every = {one.job_id: one for one in ones}
    assert newest_of(every, ()) == ["b"]
    every["c"] = manifest("c", "t")
    assert newest_of(every, ()) == ["c"]
    every["open"] = manifest("open", "b")
    assert newest_of(every, ["open"]) == ["c"]
    assert newest_of(every, ()) == ["c", "open"]
    every["later"] = manifest("later", "open")
    assert newest_of(every, ["open", "c"]) == ["later"]
    assert newest_of({}, ()) == []


# -- two first jobs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("moment", [("complete_upload", "/b"), ("put", "current.json")])
def test_files_of_a_job_at_work_are_not_older_than_the_first_job(
    moment: tuple[str, str], older: bool
) -> None:
    scene = JobScene()
    if older:
        scene.put("p=9/older.bin", b"older")
    first = scene.job()
    commits = scene.wrote(first, {"p=1/a.bin": b"a", "p=1/b.bin": b"b"})
    other = scene.job()
    others = scene.wrote(other, {"p=2/c.bin": b"c"})

    def before(request: Request) -> None:
        if request.operation == moment[0] and moment[1] in request.key and not before.done:  # type: ignore[attr-defined]
            before.done = True  # type: ignore[attr-defined]
            engine = scene.engine(Traffic())
            committer = magicfs.committers.registry.make("magic", other.spec.context, engine)
            scene.elsewhere(lambda _: committer.commit_job(others, other.found.driver))

    before.done = False  # type: ignore[attr-defined]
    assert scene.commit(first, commits, traffic=Traffic(before=before)) is not None
    found = asyncio.run(_view_or_none(scene))
    assert found is not None
    assert found.older_files == older
    assert len(found.files) == 3


# -- a job that cannot publish its manifest --------------------------------------------------------------


@pytest.mark.parametrize("part", ["_magicfs/", "_SUCCESS"])
def test_a_job_that_could_not_be_finished_says_so_and_so_does_recover(part: str) -> None:
    scene = JobScene()
    scene.published({"a.bin": b"1"})
    job = scene.job()
    commits = scene.wrote(job, {"b.bin": b"2"})
    fault = Fault(Kind.ERROR_BEFORE, operation="put", prefix=f"{scene.destination}/{part}", times=None)
    with pytest.raises(CommitUnfinished) as caught:
        scene.commit(job, commits, fault)
    told = str(caught.value)
    assert told in caught.value.report.warnings
    assert "the files are published but the job could not be finished" in told
    assert told.endswith(f"fix the cause, then run magicfs recover {scene.url}")
    assert scene.state(job) == "completed"
    place, engine = paths.parse_url(scene.url), scene.engine(Traffic((fault,)))
    [one] = asyncio.run(recover_jobs(engine, place)).jobs
    assert (one.found, one.action) == ("completed", "not finished")
    assert one.warnings
    recovered = scene.recover()
    assert recovered is not None
    assert [one.action for one in recovered.jobs] == ["finished"]
    assert bodies(scene) == [b"1", b"2"]


def test_a_job_whose_work_could_not_be_swept_is_not_finished() -> None:
    scene = JobScene()
    job = scene.job()
    commits = scene.wrote(job, {"b.bin": b"2"})
    fault = Fault(Kind.ERROR_BEFORE, operation="delete", prefix=f"{scene.destination}/__magic", times=None)
    assert scene.commit(job, commits, fault) is not None
    place, engine = paths.parse_url(scene.url), scene.engine(Traffic((fault,)))
    [one] = asyncio.run(recover_jobs(engine, place)).jobs
    assert one.action == "not finished"
    assert scene.state(job) == "completed"
