"""Whether an engine still wants a driver to end its job.

A driver that was cut off may have been replaced. So the engine is asked at the last moment before a job is
changed for good, and no contact counts as no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from magicfs.errors import CommitDenied
from magicfs.protocol.ids import JobId

__all__ = ["Asking", "require_current_driver"]


@runtime_checkable
class Asking(Protocol):
    """A committer that asks by itself whether its driver is still wanted.

    Attributes:
        is_current_driver: Returns whether the engine still wants this driver; None asks nobody.
    """

    is_current_driver: Callable[[], bool] | None


async def require_current_driver(is_current_driver: Callable[[], bool] | None, job: JobId) -> None:
    """Ask whether the engine still wants this driver, in a thread, since it may take a request to find out.

    Raises:
        CommitDenied: It does not, or could not be asked.
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
