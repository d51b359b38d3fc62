"""An abort by a job's id, while the job is only set up: it removes nothing of it, or all of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import magicfs
from magicfs.datasets.abort import abort_job
from magicfs.datasets.recover import recover_jobs
from magicfs.errors import CommitDenied, CommitFailed, UsageError
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from magicfs.transaction import record
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=2)

_JOB = "5f4c2d1e-8a4b-4f0e-9d5a-0c1b2a3d4e5f"
_EXTRA = "extra +#%"
_FILES = ({"p=1/a +#%.bin": b"a"}, {"p=2/b.bin": b"b"})


def _aborted_at(
    number: int, *, left: bool, numbered: bool
) -> tuple[JobScene, magicfs.Job, bool, list[BaseException]]:
    """Abort a job that is set up, and whose tasks run, before the given request of the abort.

    ``left``: of an earlier job of that id a file is there still; where versions are ``numbered``, two, too.
    """
    scene = JobScene(ignores=frozenset({"put_if_match"}) if numbered else frozenset())
    job = magicfs.Job(scene.url, filesystem=scene.filesystem)
    if left:
        scene.put(f"__magic_job-{job.id}/job-{job.id}/00/tasks/attempt-000009-00/__base/x.bin", b"")
    for version in (1, 2) if left and numbered else ():
        scene.put(f"__magic_job-{job.id}/job-{job.id}/job.{version:05d}.json", b"old")
    happened, refused = [], []

    def run_job(request: Request) -> None:
        if request.number == number:
            happened.append(request)
            job.setup()
            scene.wrote(job, *_FILES)

    traffic = Traffic(before=run_job)
    try:
        asyncio.run(abort_job(scene.engine(traffic), paths.parse_url(scene.url), job=job.id))
    except (CommitDenied, UsageError) as error:
        refused.append(error)
    return scene, job, bool(happened), refused


@pytest.mark.slow
@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_a_job_that_is_set_up_during_an_abort_of_its_id_is_whole_or_gone(left: bool, numbered: bool) -> None:
    number, ends = 0, set()
    while True:
        number += 1
        scene, job, happened, refused = _aborted_at(number, left=left, numbered=numbered)
        if not happened:
            break
        if scene.state(job) is None:
            with pytest.raises((CommitDenied, CommitFailed)):
                job.commit(tasks=2)
            ends.add("gone")
            assert scene.data() == {}
            continue
        job.commit(tasks=2)
        ends.add("refused" if refused else "whole")
        assert scene.bodies() == [b"a", b"b"], number
    assert number > 4
    # With a file left an abort looks for it once more at its end, and only then are versions cleared.
    assert ends == {"gone", "refused"} | ({"whole"} if numbered or not left else set())


def _extra(scene: JobScene) -> dict[str, Any]:
    return {"extra_destinations": [f"{scene.url.rpartition('/')[0]}/{_EXTRA}"]}


async def _lies_at(scene: JobScene, prefix: str) -> list[str]:
    return [info.key async for info in scene.plain.list(prefix)]


def _stands_still_at(
    number: int, clock: list[float], when: str
) -> tuple[JobScene, magicfs.Job | None, Traffic]:
    """An abort stands still before or after a request; others end the job, and set one of its id up again.

    Both have an extra destination, where a job's location tells other jobs of it.
    """
    scene = JobScene()
    first = magicfs.Job(
        scene.url, filesystem=scene.filesystem, job_id=_JOB, **arranged(**_extra(scene))
    ).setup()
    scene.wrote(first, {"p=1/old.bin": b"old"})
    later: list[magicfs.Job] = []

    def stand_still(request: Request) -> None:
        if request.number != number or scene.state(first) != "aborting":
            return
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(abort=True)
        again = magicfs.Job(
            scene.url, filesystem=scene.filesystem, job_id=_JOB, **arranged(**_extra(scene))
        ).setup()
        scene.wrote(again, *_FILES)
        later.append(again)
        clock[0] += 60

    traffic = Traffic(**{when: stand_still})
    with suppress(CommitDenied):  # it is another job now
        asyncio.run(recover_jobs(scene.engine(traffic), paths.parse_url(scene.url), abort=True))
    return scene, later[0] if later else None, traffic


@pytest.mark.parametrize("when", ["before", "after"])
def test_abort_that_stood_still_leaves_a_later_job_of_that_id_alone(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    clock = [0.0]
    monkeypatch.setattr(record.Silence, "moment", staticmethod(lambda: (clock[0], clock[0])))
    number = stood_still = 0
    while True:
        number += 1
        scene, later, traffic = _stands_still_at(number, clock, when)
        if traffic.count < number:
            break
        if later is not None:
            stood_still += 1
            # What is on its way when its sender stands still cannot be called back.
            sent = traffic.log[number - 1]
            located = asyncio.run(_lies_at(scene, _EXTRA))
            on_its_way = when == "before" and sent.operation == "delete" and sent.key.startswith(_EXTRA)
            assert located or on_its_way, number
            later.commit(tasks=2)
            assert scene.bodies() == [b"a", b"b"], number
    assert stood_still > 3
