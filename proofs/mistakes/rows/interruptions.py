"""Ctrl-C at odd moments."""

from __future__ import annotations

import threading
from unittest import mock

import magicfs
from magicfs.runtime import interrupt
from magicfs.stores.memory.filesystem import MemoryFileSystem
from proofs.mistakes.rows import drivers
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = drivers.GROUP
_HANGS_S = 60


def before_its_first_step(user: User) -> Rows:
    """The loop is busy, so that the commit is handed over and has not begun."""
    filesystem = MemoryFileSystem()
    job = user.job(filesystem=filesystem).setup()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    busy = threading.Event()
    filesystem.loop.call_soon_threadsafe(busy.wait, _HANGS_S)
    asked = iter([KeyboardInterrupt])

    def wait(running: threading.Lock) -> None:
        if (error := next(asked, None)) is not None:
            raise error
        busy.set()
        if not running.acquire(timeout=_HANGS_S):
            raise AssertionError("the call waits for a second Ctrl-C")

    with mock.patch.object(interrupt, "_wait", wait):
        try:
            job.commit(job.commits)
        except KeyboardInterrupt:
            user.told.append("KeyboardInterrupt")
    user.told += [f"magicfs recover: {len(magicfs.Dataset(user.url).recover().jobs)} jobs"]
    return ["old"]


MISTAKES = {
    "Ctrl-C when a busy loop has not begun the commit yet": before_its_first_step,
}
