"""Tasks in other processes that an engine lets run on, kills, or begins again, once the job has failed.

The driver has aborted the job by then, and what such a task writes nobody collects. So a task looks before it
writes whether its job is there, and when it has written everything whether that still waits. Either it sees
that the job has ended, and discards its own files; or the job ends later, and finds them. For what tasks
leave that are killed meanwhile the driver looks again, for some seconds.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from magicfs.committers.registry import committer_info
from magicfs.errors import MagicError, PermissionDenied, ProtocolViolation
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.protocol.steps import Abort, Batch
from magicfs.runtime.interrupt import run_on
from magicfs.stores.register import is_there

if TYPE_CHECKING:
    from magicfs.engine import Engine
    from magicfs.formats.task_commit import TaskCommit
    from magicfs.job.spec import JobSpec
    from magicfs.protocol.ids import TaskId
    from magicfs.transaction.context import JobContext

_PAUSES_S: Final = (0.0, 0.5, 1.0, 2.0)


def refuse_if_ended(spec: JobSpec, task: TaskId) -> None:
    """Raise ProtocolViolation if a job has ended. One request; none for a committer without job objects.

    A worker that may only write cannot look, and goes on. Raises StoreError if the store does not answer.
    """
    if not committer_info(spec.options.committer).driven:
        return
    with suppress(PermissionDenied):
        if not run_on(spec.loop, is_there, spec.store(), spec.work_layout.job_object_key):
            ended = f"job {spec.job} has ended, or was never set up"
            raise ProtocolViolation(f"{ended}; task {task} was not started, and wrote nothing")


def discard_if_ended(spec: JobSpec, commit: TaskCommit) -> None:
    """Discard the files of a committed task whose job does not wait for it any more.

    A second call finds them discarded. One request, and none for files that only a listing shows. A worker
    that may only write cannot look, and its files stay until the job is swept.

    Raises:
        ProtocolViolation: The job has ended, or is being ended; nothing of the task is published.
        StoreError: The job could not be looked at, or the files could not be discarded; both are still there.
    """
    if commit.content is None or not _is_known(spec):
        return
    committer = spec.make_committer()
    has_ended = False
    with suppress(PermissionDenied):
        has_ended = run_on(spec.loop, _discarded, committer.engine, committer.context, commit)
    if has_ended:
        raise ProtocolViolation(
            f"job {commit.job_id} ended while task {commit.task_id} was still writing; its files were "
            "discarded and not published"
        )


def sweep_again(spec: JobSpec) -> None:
    """Discard what tasks of a job that has ended have left since, now and for some seconds more.

    A job that has not ended is left alone. What cannot be discarded now is left to ``magicfs recover``: the
    engine has failed, and that is what is told.
    """
    if not _is_known(spec):
        return
    committer = spec.make_committer()
    with suppress(MagicError):
        for pause_s in _PAUSES_S:
            time.sleep(pause_s)
            run_on(spec.loop, _swept, committer.engine, committer.context)


def _is_known(spec: JobSpec) -> bool:
    return spec.options.committer == "magic"


async def _swept(engine: Engine, context: JobContext) -> None:
    from magicfs.transaction.record import read_record
    from magicfs.transaction.sweep import sweep

    _, version = await read_record(engine.store, context.layout, probe=False)
    if version is None:
        await sweep(engine.for_cleanup(), context)


async def _discarded(engine: Engine, context: JobContext, commit: TaskCommit) -> bool:
    from magicfs.transaction.output import carried
    from magicfs.transaction.record import read_record

    _, version = await read_record(engine.store, context.layout, probe=False)
    if version is not None and version.job.state in BEFORE_COMMIT:
        return False
    files = carried(engine, context, [commit])
    steps = [Abort(one.destination_key, one.upload_id) for one in files if one.is_upload]
    await engine.for_cleanup().run(Batch("abort", steps), stop_on_failure=False)
    return True
