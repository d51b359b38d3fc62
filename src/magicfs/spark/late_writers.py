"""Attempts that go on, or even begin, after their job has ended: what they upload is discarded.

Spark kills the Python of tasks that it has given up with SIGKILL, 2 s between two looks plus
``spark.python.task.killTimeout`` (2 s) later, without notice. Until then they go on uploading. So once a
job has ended it is swept a second time, by its id: no upload of any other job is touched.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - it must have registered its end before we do
import logging
import threading
import time
from functools import cache

from magicfs.errors import CommitDenied, MagicError, ProtocolViolation
from magicfs.job.job import Job
from magicfs.runtime.interrupt import run_on
from magicfs.spark.options import LateWriters

LATE_WRITERS_SECONDS = 4.5
"""How long after the end of a job an attempt may still upload."""

_running: set[threading.Thread] = set()
_LOG = logging.getLogger(__name__)


def sweep_late(job: Job, how: LateWriters) -> threading.Thread | None:
    """Discard what attempts of a job upload after its end. Troubles are logged, nothing is raised.

    ``job``: a job that was committed or aborted through this object or a copy of it. ``how``: ``wait``
    returns when it is done, ``LATE_WRITERS_SECONDS`` later. ``background`` does it in a thread, for which the
    process waits before it exits. ``leave`` does nothing: ``magicfs recover URL --job ID --abort
    --driver-is-dead`` or a lifecycle rule of the bucket will.

    Returns the thread, with ``background``.
    """
    match how:
        case "wait":
            _sweep_later(job)
        case "background":
            return _in_background(job)
        case "leave":
            pass
    return None


def _in_background(job: Job) -> threading.Thread:
    def run() -> None:
        try:
            _sweep_later(job)
        finally:
            _running.discard(thread)

    _wait_at_exit()
    thread = threading.Thread(target=run, name=f"late writers of {job.id}", daemon=True)
    _running.add(thread)
    thread.start()
    return thread


@cache
def _wait_at_exit() -> None:
    """Have this process wait for the threads before it exits."""
    # Threads that are no daemons are waited for when thread pools, which stores need, are closed already.
    # What is registered here is called before that, the last one first.
    threading._register_atexit(_wait_for_all)  # type: ignore[attr-defined] # noqa: SLF001


def _wait_for_all() -> None:
    for thread in tuple(_running):
        thread.join()


def _sweep_later(job: Job) -> None:
    time.sleep(LATE_WRITERS_SECONDS)
    try:
        # With the driver's own token: a job that another process has set up again is left to it.
        run_on(job.spec.loop, job.spec.make_committer().abort_job, (), job.found.driver)
    except CommitDenied:
        _LOG.info("job %s was taken over; its uploads are left to its new driver", job.id)
    except ProtocolViolation as error:
        _LOG.info("late uploads of job %s were not searched for: %s", job.id, error)
    except MagicError as error:
        text = (
            "late attempts of job %s may have left uploads that were not discarded: %s; after all of them "
            "have ended, magicfs recover %s --job %s --abort --driver-is-dead discards them"
        )
        _LOG.warning(text, job.id, error, job.url, job.id)
