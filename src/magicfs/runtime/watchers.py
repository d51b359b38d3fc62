"""What happens to jobs, for people and programs that watch them.

Each step of a job is a line in the log ``magicfs``, with its facts as fields of the record. Guests put
watchers into ``WATCHERS``, which see more: work as it begins and ends, and requests that are made again. What
sees every request goes around the store (``stores.resolve.AROUND``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from magicfs.protocol import ids
from magicfs.version import __version__

_LOGGER = logging.getLogger("magicfs")
_JOB: ContextVar[str] = ContextVar("magicfs_job", default="")
_AGENT: Final = f"magicfs/{__version__}"

STEPS: Final = {
    "set up": "is set up",
    "commit point": "has passed its commit point",
    "published": "is published",
    "aborted": "is aborted",
    "reverted": "is rolled back",
    "recovered": "is recovered",
}
"""The steps of a job that are logged, with the words of the log."""
_FIGURES: Final = {
    "action": "{}",
    "run": "run {!a}",
    "mode": "mode {}",
    "rows": "{} rows",
    "files": "{} files",
    "bytes": "{} bytes",
    "seconds": "in {:.2f} s",
}


class Watcher(Protocol):
    """Sees what happens. Nothing that it raises is caught."""

    def work(self, name: str, facts: Mapping[str, object]) -> AbstractContextManager[object]:
        """Work of a job: ``setup``, ``commit``, ``abort``, ``task commit``, ``task abort`` or ``recover``."""

    def happened(self, name: str, facts: Mapping[str, object]) -> None:
        """A step or a state of a job, ``retry``, ``conflict`` or ``task set up``."""


WATCHERS: Final[list[Watcher]] = []


def happened(name: str, /, **facts: object) -> None:
    """Report an event to watchers, and log it if it is a step. Facts that are None are unknown."""
    for one in WATCHERS:
        one.happened(name, facts)
    if name in STEPS and _LOGGER.isEnabledFor(logging.INFO):
        figures = [form.format(facts[fact]) for fact, form in _FIGURES.items() if facts.get(fact) is not None]
        text = f"{STEPS[name]}: {', '.join(figures)}" if figures else STEPS[name]
        extra = {"magicfs": {"event": name, **facts}}
        _LOGGER.info("%s: job %s %s", facts["url"], facts["job"], text, extra=extra)


@contextmanager
def work(name: str, /, **facts: object) -> Iterator[None]:
    """Work of a job: its requests bear the job's id, and watchers see it begin and end."""
    job = str(facts["job"])
    with ExitStack() as stack:
        stack.callback(_JOB.reset, _JOB.set(job if ids.is_job_id(job) else ""))
        for one in WATCHERS:
            stack.enter_context(one.work(name, facts))
        yield


@contextmanager
def acting(job: str) -> Iterator[None]:
    """Requests within are made for a job; text that is no id of one is not sent."""
    token = _JOB.set(job if ids.is_job_id(job) else "")
    try:
        yield
    finally:
        _JOB.reset(token)


def job() -> str:
    """The id of the job that requests are made for now; empty for none."""
    return _JOB.get()


def agent() -> str:
    """Who makes a request, for its header ``User-Agent``: ``magicfs/1.0 job/ID``."""
    return f"{_AGENT} job/{job()}" if job() else _AGENT
