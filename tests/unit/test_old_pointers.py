"""A pointer in whose place somebody has put an older copy of it, such as one from a backup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import magicfs
from magicfs.errors import FormatError
from magicfs.formats.manifest import Manifest
from magicfs.operate.old_pointer import unlinked
from magicfs.operate.status import DatasetStatus, status
from magicfs.protocol.paths import parse_url
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
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


def test_jobs_published_above_the_older_pointer_stay() -> None:
    scene = JobScene(PLACE)
    jobs = two_more(scene)
    scene.published({"p=3/a.bin": b"3"})
    assert jobs[0] in problems(scene)[0]
    expected = there(scene).adopt(dry_run=True)
    report = there(scene).adopt()
    assert (report.files, report.lost) == (expected.files, ()) == (3, ())
    assert rows(scene) == [b"2", b"3", b"new"]
    assert there(scene).verify().ok
    assert problems(scene) == []
    assert scene.published({"p=2/b.bin": b"again"}, run_id="two").report.published_before


def test_what_they_have_replaced_does_not_come_back() -> None:
    scene = JobScene(PLACE)
    scene.published({"p=1/a.bin": b"1"})
    put_back(scene, lambda: scene.published({"p=2/a.bin": b"2", "p=3/a.bin": b"3"}, run_id="two"))
    scene.published({"p=2/b.bin": b"newer"}, mode="overwrite_partitions")
    report = there(scene).adopt()
    assert len(report.lost) == 1
    assert report.lost[0].startswith("1 files of job ")
    assert rows(scene) == [b"1", b"3", b"newer"]
    assert there(scene).verify().ok
    assert problems(scene) == []


def test_a_run_that_was_published_again_above_it_is_not_doubled() -> None:
    scene = JobScene(PLACE)
    scene.published({"p=1/a.bin": b"1"})
    put_back(scene, lambda: scene.published({"p=2/a.bin": b"2"}, run_id="two"))
    again = scene.published({"p=2/b.bin": b"2"}, run_id="two")
    assert not again.report.published_before
    report = there(scene).adopt()
    assert f"its run two was published again by job {again.id}" in report.lost[0]
    for _ in range(2):
        assert rows(scene) == [b"1", b"2"]
        assert problems(scene) == []
        assert len(there(scene).verify().foreign) == 1
        assert there(scene).adopt().adopted == ()


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
    seen: list[list[Manifest]] = []

    def before(request: Request) -> None:
        if request.operation == "put" and request.key.endswith(CURRENT) and not seen:
            assert scene.below(f"_magicfs/{job.id}.json")
            seen.append(scene.elsewhere(lambda engine: unlinked(engine, parse_url(scene.url))))

    scene.commit(job, commits, traffic=Traffic(before=before))
    assert seen == [[]]
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
