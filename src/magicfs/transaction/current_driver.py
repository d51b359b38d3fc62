"""Whether a driver is still the one that may end its job: by the job object, and by the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magicfs.errors import CommitDenied
from magicfs.protocol.ids import JobId
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import JobVersion

__all__ = ["IsCurrentDriver", "check_driver", "require_current_driver"]

IsCurrentDriver = Callable[[], bool]
"""Tells whether the engine still wants this driver to end the job. May take a request; called in a thread."""


async def require_current_driver(is_current_driver: IsCurrentDriver | None, job: JobId) -> None:
    """Ask the engine, at the last moment before a job is changed for good; None asks nobody.

    A fencing check: a driver that was cut off may have been replaced. If the engine cannot be reached the
    answer is no, and ``CommitDenied`` is raised.
    """
    advice = "nothing was changed; the job is left to the driver that the engine has started in its place"
    if is_current_driver is None:
        return
    try:
        wanted = await asyncio.to_thread(is_current_driver)
    except Exception as error:
        raise CommitDenied(f"job {job}: no contact with the engine ({error!r}); {advice}") from error
    if not wanted:
        raise CommitDenied(f"job {job}: the engine does not want this driver any more; {advice}")


def check_driver(context: JobContext, version: JobVersion, driver: str | None) -> None:
    """Raise CommitDenied if another driver has taken the job over; None is whoever it is."""
    if driver is not None and version.job.driver != driver:
        raise CommitDenied(
            f"job {context.job} was taken over by another driver, attempt {version.job.attempt} on "
            f"{version.job.host}; nothing was changed; leave it to that one"
        )
