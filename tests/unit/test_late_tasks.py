"""A task that runs where nobody tells it of its job's end looks at the job, and leaves nothing behind."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import magicfs
from magicfs.errors import ProtocolViolation
from proofs.scenes.job_scene import JobScene


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def elsewhere(task: magicfs.Task) -> magicfs.Task:
    """The task as it comes to another process."""
    make, arguments = task.__reduce__()
    loaded: magicfs.Task = make(*arguments)
    return loaded


@pytest.mark.parametrize("tracking", ["memory", "store"])
@pytest.mark.parametrize("end", ["abort", "commit"])
def test_task_of_a_job_that_has_ended_uploads_nothing(scene: JobScene, tracking: Any, end: str) -> None:
    job = scene.job(tracking=tracking, allow_empty=True).setup()
    task = elsewhere(job.task(0))
    job.commit(()) if end == "commit" else job.abort()
    with pytest.raises(ProtocolViolation, match="task 000000 was not started"), task:
        pytest.fail("it is not begun")
    assert (scene.uploads(), scene.work(), scene.data()) == ([], [], {})


@pytest.mark.parametrize("tracking", ["memory", "store"])
def test_task_whose_job_ends_while_it_writes_leaves_nothing(scene: JobScene, tracking: Any) -> None:
    job = scene.job(tracking=tracking).setup()
    task = elsewhere(job.task(0)).setup()
    job.abort()
    job.spec.tell_filesystem(task.attempt_id)  # in another process nobody forgets the job
    task.filesystem.pipe_file(f"{task.path}/día 50%=a b/part.bin", b"1")
    assert scene.uploads()
    with pytest.raises(ProtocolViolation, match="ended"):
        task.commit()
    assert (task.committed, scene.uploads(), scene.data()) == (None, [], {})


def test_pickled_task_is_elsewhere() -> None:
    job = magicfs.Job("s3://bucket/sales")
    task = pickle.loads(pickle.dumps(magicfs.Task(job.spec, magicfs.Task.__name__.lower())))
    assert task._is_elsewhere
    assert pickle.loads(pickle.dumps(task))._is_elsewhere
