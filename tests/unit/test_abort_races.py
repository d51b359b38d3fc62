"""An abort by a job's id, while the job is only set up: it removes nothing of it, or all of it."""

from __future__ import annotations

import asyncio

import pytest

import magicfs
from magicfs.datasets.abort import abort_job
from magicfs.errors import CommitDenied, CommitFailed
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from proofs.scenes.job_scene import JobScene

_FILES = ({"p=1/a +#%.bin": b"a"}, {"p=2/b.bin": b"b"})


def _aborted_at(number: int, *, left: bool) -> tuple[JobScene, magicfs.Job, bool, list[BaseException]]:
    """Abort a job that is set up, and whose tasks run, before the given request of the abort."""
    scene = JobScene()
    job = magicfs.Job(scene.url, filesystem=scene.filesystem)
    if left:
        scene.put(f"__magic_job-{job.id}/job-{job.id}/00/tasks/attempt-000009-00/__base/x.bin", b"")
    happened, refused = [], []

    def run_job(request: Request) -> None:
        if request.number == number:
            happened.append(request)
            job.setup()
            scene.wrote(job, *_FILES)

    traffic = Traffic(before=run_job)
    try:
        asyncio.run(abort_job(scene.engine(traffic), paths.parse_url(scene.url), job=job.id))
    except CommitDenied as error:
        refused.append(error)
    return scene, job, bool(happened), refused


@pytest.mark.parametrize("left", [False, True])
def test_a_job_that_is_set_up_during_an_abort_of_its_id_is_whole_or_gone(left: bool) -> None:
    number, ends = 0, set()
    while True:
        number += 1
        scene, job, happened, refused = _aborted_at(number, left=left)
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
    assert ends == {"gone", "refused"} | (set() if left else {"whole"})
