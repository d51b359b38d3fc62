"""Where a rank dies: lines of the shipped code are wrapped in the victim alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from magicfs.filesystem.upload.stream import Upload
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.torch import StorageWriter

__all__ = ["POINTS", "RAISES", "arm"]

RAISES: Final = "raises"


def arm(point: str, job_options: dict[str, Any]) -> None:
    """Let this process die, or raise, when it comes to a point."""
    POINTS[point](job_options)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process went on")


def _raise() -> NoReturn:
    raise RuntimeError("a rank has failed, as it was told")


def _before(place: Any, name: str, end: Callable[[], NoReturn] = _die) -> None:
    def ended(*_: Any, **__: Any) -> NoReturn:
        end()

    setattr(place, name, ended)


def _after(place: Any, name: str) -> None:
    whole = getattr(place, name)

    def ended(*args: Any, **kwargs: Any) -> NoReturn:
        whole(*args, **kwargs)
        _die()

    setattr(place, name, ended)


POINTS: Final[Mapping[str, Callable[[dict[str, Any]], object]]] = {
    "before it writes": lambda _: _before(StorageWriter, "_write"),
    "in the middle of a file": lambda _: _before(Upload, "seal"),
    "before its task commits": lambda _: _before(Task, "commit"),
    "after its task has committed": lambda _: _after(StorageWriter, "_write"),
    "before the job commits": lambda _: _before(Job, "commit"),
    "while it publishes": lambda options: options.update(progress=lambda _: _die()),
    "after the job has committed": lambda _: _after(StorageWriter, "finish"),
    RAISES: lambda _: _before(Task, "commit", _raise),
}
"""Any rank may come to the first four; the coordinator alone to the next three."""
