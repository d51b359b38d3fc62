"""What a log does not tell of yet, read from the manifests above it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

from magicfs.errors import FormatError
from magicfs.formats.log import LoggedJob
from magicfs.formats.manifest import Manifest
from magicfs.manifests.chain import COMPACT, READING
from magicfs.manifests.log import Past, above, logged
from magicfs.manifests.runs import published_runs
from magicfs.stores.port import Store

__all__ = ["News", "runs_beside"]


class News:
    """What a log does not tell of. Each manifest is read once, however often somebody asks.

    ``known``: as for ``chain.chain``.
    """

    def __init__(self, known: Mapping[str, Manifest]) -> None:
        self._known = known
        self._read: dict[str, Manifest] = {}

    async def of(self, store: Store, destination: str, past: Past) -> tuple[list[LoggedJob], dict[str, str]]:
        """The jobs, the oldest first; and jobs by the runs that only the pointer or an older sum tells of.

        Raises FormatError if the chain is broken. What lies below a sum may be.
        """
        found: list[LoggedJob] = []
        summed: dict[str, str] = {}
        is_below = False
        known = {**self._read, **self._known}
        try:
            async with aclosing(above(store, destination, READING, past, known)) as manifests:
                async for one in manifests:
                    self._read[one.job_id] = one
                    if one.conflict != COMPACT:
                        found.append(logged(one))
                        continue
                    is_below = True
                    for run in published_runs(one):
                        summed.setdefault(run.run_id, run.job_id)
        except FormatError as error:
            if "newer magicfs" in error.problem or not is_below:
                raise
        return found[::-1], runs_beside(found, dict(past.pointer.runs), summed)


def runs_beside(jobs: list[LoggedJob], *named: Mapping[str, str]) -> dict[str, str]:
    """The runs that somebody names and of which none of these jobs is; the first who names one counts."""
    told = {one.run_id for one in jobs}
    found: dict[str, str] = {}
    for runs in named:
        found |= {run: job for run, job in runs.items() if run not in told and run not in found}
    return found
