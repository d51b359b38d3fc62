"""A pointer in whose place somebody has put an older copy of it, such as one from a backup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitDenied, FormatError
from magicfs.operate import adopt as adopting
from magicfs.operate import old_pointer
from magicfs.operate.old_pointer import Unlinked, unlinked
from magicfs.operate.status import DatasetStatus, status
from magicfs.protocol.paths import parse_url
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from magicfs.watch.operations import operations
from proofs.scenes.job_scene import JobScene

CURRENT = "_magicfs/current.json"
PLACE = "env=prod/día 50% + #1"


def there(scene: JobScene) -> magicfs.Dataset:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem)


def rows(scene: JobScene) -> list[bytes]:
    return sorted(scene.data()[one.key] for one in there(scene).files())


def pointer(scene: JobScene) -> bytes:
    return scene.objects()[f"{scene.destination}/{CURRENT}"][0]


def put_back(scene: JobScene, work: Callable[[], object]) -> None:
    """Work, and then put the pointer back that was there before."""
    older = pointer(scene)
    work()
    scene.put(CURRENT, older)


def problems(scene: JobScene) -> list[str]:
    found = status(scene.url, filesystem=scene.filesystem)
    assert isinstance(found, DatasetStatus)
    return found.problems


def two_more(scene: JobScene) -> list[str]:
    """Two publications and a sum of them, which the pointer then no longer leads to."""
    jobs: list[str] = []

    def work() -> None:
        jobs.append(scene.published({"p=2/a.bin": b"2"}, run_id="two").id)
        there(scene).compact()
        jobs.append(scene.published({"p=1/a.bin": b"new"}, mode="overwrite_partitions", keep="7d").id)

    scene.published({"p=1/a.bin": b"1"}, run_id="one")
    put_back(scene, work)
    return jobs


def test_what_was_published_above_an_older_pointer_is_linked_again() -> None:
    scene = JobScene(PLACE)
    jobs = two_more(scene)
    assert problems(scene)[0].startswith(
        f"the pointer is an older copy of itself: it does not lead to job {jobs[0]} (run two), "
    )
    assert [one.advice for one in there(scene).doctor().findings if one.subject == "dataset"] == [
        f"magicfs adopt {quote(scene.url)}"
    ]
    found = there(scene).verify()
    assert not found.ok
    assert {*jobs} < {*found.unlinked}
    assert len(found.advice) == 1
    assert "magicfs adopt" in found.advice[0]
    before = scene.everything()
    expected = there(scene).adopt(dry_run=True)
    assert scene.everything() == before
    report = there(scene).adopt()
    assert (report.problem, report.files, report.lost) == (expected.problem, expected.files, ())
    assert report.adopted == expected.adopted == ()
    assert report.manifest is None
    assert rows(scene) == [b"2", b"new"]
    assert [one.job_id for one in there(scene).history()[:2]] == jobs[::-1]
    assert there(scene).verify().ok
    assert problems(scene) == []
    assert there(scene).adopt().problem == ""
    [done] = operations(scene.url, filesystem=scene.filesystem)
    assert (done.verb, done.job_id) == ("adopt", jobs[-1])
    for run in ("one", "two"):
        assert scene.published({"p=2/b.bin": b"again"}, run_id=run).report.published_before


def branch(scene: JobScene, *lost: dict[str, Any], then: dict[str, Any]) -> list[magicfs.Job]:
    """One publication, others that an older pointer does not lead to, and one above that pointer."""
    scene.published({"p=1/a.bin": b"A"}, run_id="first", unique_names=False)
    jobs: list[magicfs.Job] = []
    put_back(scene, lambda: jobs.extend(scene.published(one.pop("files"), **one) for one in lost))
    return [*jobs, scene.published(then.pop("files"), **then)]


def named(partition: int, body: bytes, **options: Any) -> dict[str, Any]:
    return {"files": {f"p={partition}/a.bin": body}, "unique_names": False} | options


OVERWRITE = "overwrite_partitions"


@pytest.mark.parametrize(
    ("lost", "then", "expected"),
    [
        ([named(2, b"B", run_id="two")], named(3, b"J"), b"ABJ"),
        ([named(2, b"B"), named(1, b"C", mode=OVERWRITE, run_id="two")], named(3, b"J"), b"BCJ"),
        ([named(1, b"B", mode=OVERWRITE, keep="7d", run_id="two", unique_names=True)], named(3, b"J"), b"BJ"),
        ([named(1, b"B", mode="overwrite"), named(2, b"C", mode="overwrite")], named(3, b"J"), b"CJ"),
        ([named(2, b"B", mode="overwrite")], named(3, b"J", mode="overwrite"), b"J"),
        ([named(2, b"B")], named(2, b"J", mode=OVERWRITE), b"AJ"),
        ([named(2, b"B")], named(2, b"J", mode=OVERWRITE, keep="7d", unique_names=True), b"AJ"),
        ([named(1, b"B", mode=OVERWRITE)], named(1, b"J", mode=OVERWRITE), b"J"),
        (
            [named(2, b"B", run_id="two"), named(2, b"C", mode=OVERWRITE, run_id="two", rerun="overwrite")],
            named(3, b"J"),
            b"ACJ",
        ),
        ([named(2, b"B", run_id="two")], named(4, b"b", run_id="two"), b"Ab"),
        ([named(1, b"B", mode=OVERWRITE, run_id="two")], named(4, b"b", run_id="two"), b"b"),
    ],
)
def test_what_was_published_before_others_is_taken_in_once(
    lost: list[dict[str, Any]], then: dict[str, Any], expected: bytes
) -> None:
    """What jobs above the older pointer have replaced, and published again, does not come back."""
    scene = JobScene(PLACE)
    branch(scene, *map(dict, lost), then=dict(then))
    dry = there(scene).adopt(dry_run=True)
    report = there(scene).adopt()
    assert (report.files, report.adopted, report.lost) == (dry.files, dry.adopted, dry.lost)
    assert b"".join(rows(scene)) == bytes(sorted(expected))
    found = there(scene).verify()
    assert (found.missing, found.altered, found.unlinked) == ((), (), ())
    assert there(scene).adopt().adopted == ()
    there(scene).compact()
    for one in lost:
        if run := one.get("run_id"):
            assert scene.published({"x.bin": b"again"}, run_id=run).report.published_before
    assert b"".join(rows(scene)) == bytes(sorted(expected))


def test_a_run_that_was_taken_in_can_be_published_over() -> None:
    """What the run has published goes, and of what was taken in with it nothing else."""
    scene = JobScene(PLACE)
    files = {"p=2/a.bin": b"B", "p=3/a.bin": b"C"}
    branch(scene, {"files": files, "run_id": "two"}, then=named(4, b"J"))
    scene.put("p=5/stranger.bin", b"S")
    there(scene).adopt()
    assert rows(scene) == [b"A", b"B", b"C", b"J", b"S"]
    scene.published({"p=2/a.bin": b"new"}, mode=OVERWRITE, run_id="two", rerun="overwrite")
    assert rows(scene) == [b"A", b"J", b"S", b"new"]
    assert there(scene).verify().ok


@pytest.mark.parametrize("how", ["rollback", "drop the run", "drop the partition"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_run_that_was_taken_in_can_be_taken_back(how: str, compacted: bool) -> None:
    scene = JobScene(PLACE)
    _, then = branch(scene, named(2, b"B", run_id="two"), then=named(3, b"J"))
    there(scene).adopt()
    if compacted:
        there(scene).compact()
    if how == "rollback":
        there(scene).rollback(then.id)
    else:
        there(scene).drop(**{"jobs": "run:two"} if how == "drop the run" else {"partitions": ["p=2"]})
    assert rows(scene) == [b"A", b"J"]
    assert not scene.published({"p=2/again.bin": b"Z"}, run_id="two").report.published_before
    assert rows(scene) == [b"A", b"J", b"Z"]


KEPT: dict[str, Any] = {"keep": "7d", "keep_in_place": True}


def test_what_an_unlinked_rollback_shows_again_is_taken_in() -> None:
    scene = JobScene(PLACE)
    scene.published({"p=0/a.bin": b"0"})

    def work() -> None:
        first = scene.published({"p=1/a.bin": b"A"})
        scene.published({"p=1/b.bin": b"K"}, mode=OVERWRITE, **KEPT)
        there(scene).rollback(first.id, **KEPT)

    put_back(scene, work)
    scene.published({"p=3/a.bin": b"J"})
    there(scene).adopt()
    assert rows(scene) == [b"0", b"A", b"J"]
    assert there(scene).verify().unlinked == ()


@pytest.mark.parametrize("how", ["overwrite", "drop", "rollback"])
def test_what_an_unlinked_job_keeps_in_place_does_not_stay(how: str) -> None:
    scene = JobScene(PLACE)
    scene.published({"p=0/a.bin": b"0"})
    first = scene.published({"p=1/a.bin": b"A"})

    def work() -> None:
        if how == "overwrite":
            scene.published({"p=1/b.bin": b"B"}, mode=OVERWRITE, **KEPT)
        elif how == "drop":
            there(scene).drop(partitions=["p=1"], **KEPT)
        else:
            scene.published({"p=2/a.bin": b"R"})
            there(scene).rollback(first.id, **KEPT)

    put_back(scene, work)
    scene.published({"p=3/a.bin": b"J"})
    dry = there(scene).adopt(dry_run=True)
    assert there(scene).adopt().files == dry.files
    assert (
        rows(scene)
        == {
            "overwrite": [b"0", b"B", b"J"],
            "drop": [b"0", b"J"],
            "rollback": [b"0", b"A", b"J"],
        }[how]
    )
    assert there(scene).verify().unlinked == ()
    assert there(scene).adopt().adopted == ()


def test_what_an_unlinked_job_has_replaced_does_not_come_back() -> None:
    """Its deletion may have failed, or somebody has restored it."""
    scene = JobScene(PLACE)
    scene.published({"p=0/a.bin": b"0"})

    def work() -> None:
        scene.published({"p=1/a.bin": b"A"})
        before = scene.data()
        scene.published({"p=1/b.bin": b"B"}, mode=OVERWRITE)
        for name, body in before.items():
            scene.put(name, body)

    put_back(scene, work)
    scene.published({"p=3/a.bin": b"J"})
    there(scene).adopt()
    assert rows(scene) == [b"0", b"B", b"J"]
    assert there(scene).adopt().adopted == ()


def test_runs_that_were_taken_in_are_linked_again_with_their_files() -> None:
    scene = JobScene(PLACE)
    branch(scene, named(2, b"B", run_id="two"), then=named(3, b"J"))

    def work() -> None:
        there(scene).adopt()
        scene.published({"p=4/a.bin": b"K"})

    put_back(scene, work)
    there(scene).adopt()
    assert rows(scene) == [b"A", b"B", b"J", b"K"]
    assert scene.published({"x.bin": b"again"}, run_id="two").report.published_before


def test_their_files_are_not_called_foreign_alone() -> None:
    scene = JobScene(PLACE)
    job, _ = branch(scene, named(2, b"B"), then=named(3, b"J"))
    found = there(scene).verify()
    assert found.unlinked == (job.id,)
    assert len(found.advice) == 1
    assert "magicfs adopt" in found.advice[0]


def test_a_run_that_was_published_again_stays_left_out() -> None:
    scene = JobScene(PLACE)
    job, again = branch(scene, named(2, b"B", run_id="two"), then=named(4, b"b", run_id="two"))
    for _ in range(2):
        assert there(scene).verify().unlinked == ()
        there(scene).compact()
        report = there(scene).adopt()
        assert report.lost[0].startswith(f"1 files of job {job.id}, such as p=2/a.bin: job {again.id} has ")
        assert rows(scene) == [b"A", b"b"]


@pytest.mark.parametrize("is_first", [False, True])
def test_compacting_since_hides_nothing_of_them(is_first: bool) -> None:
    scene = JobScene(PLACE)
    scene.published({"p=1/a.bin": b"A"})
    scene.published({"p=1/b.bin": b"B"})
    put_back(scene, lambda: scene.published({"p=2/a.bin": b"C"}, run_id="two"))
    if not is_first:
        scene.published({"p=3/a.bin": b"J"})
    there(scene).compact()
    assert len(there(scene).verify().unlinked) == 1
    there(scene).adopt()
    assert rows(scene) == [b"A", b"B", b"C"] + [b"J"] * (not is_first)
    assert there(scene).verify().ok
    there(scene).compact()
    assert scene.published({"x.bin": b"again"}, run_id="two").report.published_before


@pytest.mark.parametrize("how", ["gone", "malformed"])
def test_above_a_manifest_that_is_lost_their_runs_are_known(how: str) -> None:
    scene = JobScene(PLACE)
    scene.published({"p=1/a.bin": b"A"})
    jobs: list[str] = []

    def work() -> None:
        jobs.extend(scene.published({f"p=2/{one}.bin": one.encode()}, run_id=one).id for one in "BC")

    put_back(scene, work)
    name = f"_magicfs/{jobs[0]}.json"
    scene.delete(name) if how == "gone" else scene.put(name, b"{}")
    assert there(scene).verify().unlinked == (jobs[1],)
    there(scene).adopt()
    assert rows(scene) == [b"A", b"B", b"C"]
    assert scene.published({"x.bin": b"again"}, run_id="C").report.published_before


def test_two_branches_are_taken_in_together() -> None:
    scene = JobScene(PLACE)
    scene.published({"p=1/a.bin": b"A"})
    for number in (1, 2):
        put_back(scene, lambda: scene.published({f"p=2/{number}.bin": b"%d" % number}, run_id=f"{number}"))  # noqa: B023
    there(scene).adopt()
    assert rows(scene) == [b"1", b"2", b"A"]
    for run in ("1", "2"):
        assert scene.published({"x.bin": b"again"}, run_id=run).report.published_before


def test_nothing_is_linked_above_what_is_published_meanwhile() -> None:
    scene = JobScene(PLACE)
    two_more(scene)
    before = pointer(scene)
    seen: list[bytes] = []
    filesystem = scene.filesystem
    listed = old_pointer.unlinked

    async def late(*args: Any, **how: Any) -> old_pointer.Unlinked:
        found = await listed(*args, **how)
        await asyncio.to_thread(scene.published, {"p=2/late.bin": b"late"}, mode=OVERWRITE)
        seen.append(pointer(scene))
        return found

    with pytest.MonkeyPatch.context() as patched, pytest.raises(CommitDenied, match="nothing was adopted"):
        patched.setattr(adopting, "unlinked", late)
        magicfs.Dataset(scene.url, filesystem=filesystem).adopt()
    assert before != seen[0] == pointer(scene)
    there(scene).adopt()
    assert there(scene).verify().missing == ()


@pytest.mark.slow
@pytest.mark.parametrize("ignores", [(), ("put_if_match",)])
@pytest.mark.parametrize("is_fork", [False, True])
def test_adopt_dies_at_each_request_and_is_called_again(ignores: tuple[str, ...], is_fork: bool) -> None:
    for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
        for number in range(1, 120):
            scene = JobScene(PLACE, ignores=frozenset(ignores))
            scene.published({"p=1/a.bin": b"A"})
            before = set(scene.below("_magicfs/current."))
            older = {name: scene.objects()[f"{scene.destination}/{name}"][0] for name in before}
            for one in "BC":
                scene.published({f"p={ord(one)}/a.bin": one.encode()}, run_id=one)
            for name in scene.below("_magicfs/current."):
                scene.put(name, older[name]) if name in older else scene.delete(name)
            if is_fork:
                scene.published({"p=3/a.bin": b"J"})
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), parse_url(scene.url)
            done = scene.lived(lambda: adopting.adopt_files(engine, place))  # noqa: B023
            there(scene).adopt()
            assert rows(scene) == [b"A", b"B", b"C", *[b"J"] * is_fork]
            assert there(scene).verify().unlinked == ()
            for run in "BC":
                assert scene.published({"x.bin": b"again"}, run_id=run).report.published_before
            if done is not None:
                break
        assert 5 < number < 119, "every request"


def test_on_files_the_newest_version_of_the_pointer_is_removed(tmp_path: Path) -> None:
    url = (tmp_path / "sales").as_uri()
    for number in range(3):
        with magicfs.Job(url, mode="append", run_id=f"{number}") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/part.bin", b"%d" % number)
    (tmp_path / "sales/_magicfs/current.00002.json").unlink()
    there = magicfs.Dataset(url)
    assert len(there.files()) == 2
    assert len(there.verify().unlinked) == 1
    there.adopt()
    assert [one.run_id for one in there.history()] == ["2", "1", "0"]
    assert len(there.files()) == 3
    assert there.verify().ok


def test_a_job_between_manifest_and_pointer_is_not_meant() -> None:
    scene = JobScene(PLACE)
    scene.published({"a.bin": b"1"})
    job = scene.job("append")
    commits = scene.wrote(job, {"b.bin": b"2"})
    seen: list[Unlinked] = []

    def before(request: Request) -> None:
        if request.operation == "put" and request.key.endswith(CURRENT) and not seen:
            assert scene.below(f"_magicfs/{job.id}.json")
            seen.append(scene.elsewhere(lambda engine: unlinked(engine, parse_url(scene.url))))

    scene.commit(job, commits, traffic=Traffic(before=before))
    assert [(*one.line, *one.others) for one in seen] == [()]
    assert problems(scene) == []


@pytest.mark.parametrize("verb", ["adopt", "compact"])
def test_what_a_verb_left_that_died_between_manifest_and_pointer_is_not_meant(verb: str) -> None:
    scene = JobScene(PLACE)
    scene.published({"a.bin": b"1"})
    scene.published({"b.bin": b"2"})
    scene.put("stranger.bin", b"3")
    put_back(scene, getattr(there(scene), verb))
    assert problems(scene) == []
    assert there(scene).verify().unlinked == ()


def test_a_manifest_of_a_newer_magicfs_is_not_passed_over() -> None:
    scene = JobScene(PLACE)
    scene.published({"a.bin": b"1"})
    scene.put("_magicfs/zz.json", b'{"format":"magicfs.manifest/4"}')
    assert "use a newer magicfs" in problems(scene)[0]
    for ask in (there(scene).verify, there(scene).adopt):
        with pytest.raises(FormatError, match="use a newer magicfs"):
            ask()
    scene.delete(CURRENT)
    for name in scene.below("_magicfs/"):
        if "zz.json" not in name:
            scene.delete(name)
    with pytest.raises(FormatError, match="use a newer magicfs"):
        scene.published({"c.bin": b"2"})
