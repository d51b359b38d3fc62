"""Publications that the pointer does not lead to, because somebody put an older copy of it back.

A job has its manifest before its pointer, and ends after it. So the manifest of a job that has ended, and
that is not in the chain, was published. Sums and what ``adopt`` writes have no job: on their own, they may be
left of a process that died.

Those right above the newest publication are linked again as they were, in one write. If others were published
there since, nobody knows the order any more: then ``adopt`` takes the files in, and their runs count as
published.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import FormatError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import ADOPT, COMPACT, READING
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store
from magicfs.transaction.others import find_unfinished_jobs

_OF_NO_JOB: Final = (ADOPT, COMPACT)
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Unlinked:
    """Manifests of such publications, with their files.

    Attributes:
        line: Those right above the newest publication, the oldest first.
        others: The others, the newest first by the clocks of their drivers.
        runs: The last runs that the pointer names, with their jobs.
    """

    line: Sequence[Manifest] = ()
    others: Sequence[Manifest] = ()
    runs: Mapping[str, str] = field(default_factory=dict)

    @property
    def problem(self) -> str:
        """What is wrong with the pointer, in words; empty if nothing is."""
        if not self.line:
            return ""
        jobs = [one.job_id + (f" (run {one.run_id})" if one.run_id else "") for one in self.line]
        more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
        named = ", ".join(jobs[:_SHOWN]) + more
        return f"the pointer is an older copy of itself: it does not lead to job {named}"

    def naming(self, files: Mapping[str, str]) -> list[Manifest]:
        """The others that name one of these files, given by their relative keys and ETags."""
        return [one for one in self.others if any(map(partial(is_of, files), one.files))]

    def jobs(self, foreign: Mapping[str, str]) -> tuple[str, ...]:
        """The jobs that ``adopt`` brings back, given the files that readers do not see."""
        named = self.naming(foreign)
        left = [one for one in named if self.runs.get(one.run_id or "", one.job_id) == one.job_id]
        return tuple(one.job_id for one in (*self.line, *left))


def is_of(files: Mapping[str, str], file: ManifestFile) -> bool:
    """Whether a file of a manifest is among files by their keys and ETags."""
    return file.key in files and (not file.etag or files[file.key].strip('"') == file.etag.strip('"'))


async def unlinked(engine: Engine, location: Location, *, young: bool = False) -> Unlinked:
    """The manifests of such publications.

    ``young``: look only at manifests that are younger than that of the newest publication, so one listing is
    enough where nothing is wrong. Else the whole chain is read, and every manifest that is not in it.

    Raises FormatError if a newer magicfs wrote one.
    """
    store, destination = engine.store, location.key
    written = await chain.jobs_with_manifests(store, destination)
    # Before the chain: a job that ends meanwhile is then in it.
    unfinished = {one.job_id for one in await find_unfinished_jobs(engine, destination, visitors=True)}
    seen = await chain.read_pointer(store, destination, READING)
    if seen is None or not (walked := await _chain(store, destination, seen[0].job_id, whole=not young)):
        return Unlinked()
    since = written.get(walked[-1].job_id, 0.0) if young else 0.0
    linked = {one.job_id for one in walked}
    names = {job for job, moment in written.items() if moment >= since} - linked - unfinished
    known = _of_jobs(await _read(engine, destination, names))
    line = _line(walked, known)
    # What lies below a manifest that cannot be read may be of the chain.
    is_whole = not young and walked[-1].previous is None
    return Unlinked(line, _others(line, known) if is_whole else (), dict(seen[0].runs))


async def _read(engine: Engine, destination: str, jobs: Collection[str]) -> Mapping[str, Manifest]:
    """The manifests that can be read, by their jobs."""
    read = partial(chain.readable, engine.store, destination)
    found = await gathered(sorted(jobs), read, engine.concurrency)
    return {one.job_id: one for one in found if one is not None}


async def _chain(store: Store, destination: str, newest: str, *, whole: bool) -> list[Manifest]:
    """The manifests of the chain as far as they can be read; else down to the newest publication."""
    walked: list[Manifest] = []
    manifests = chain.chain(store, destination, READING, start=newest, hidden="readable", files=False)
    with suppress(FormatError):
        async with aclosing(manifests) as below:
            async for one in below:
                walked.append(replace(one, files=()))
                if one.mode != COMPACT and not whole:
                    break
    return walked


def _of_jobs(known: Mapping[str, Manifest]) -> Mapping[str, Manifest]:
    """Without those of no job that no other one is above."""
    while True:
        named = {one.previous for one in known.values()}
        left = {job: one for job, one in known.items() if one.mode not in _OF_NO_JOB or job in named}
        if len(left) == len(known):
            return known
        known = left


def _line(walked: Sequence[Manifest], known: Mapping[str, Manifest]) -> list[Manifest]:
    """Those above the newest publication, or above a sum of it; none if they branch."""
    sums = [*takewhile(lambda one: one.mode == COMPACT, walked)]
    at = {one.job_id for one in walked[: len(sums) + 1]}
    line: list[Manifest] = []
    while above := [one for one in known.values() if one.previous in at]:
        if len(above) > 1:
            return []
        line += above
        at = {above[0].job_id}
    return line


def _others(line: Sequence[Manifest], known: Mapping[str, Manifest]) -> list[Manifest]:
    left = known.keys() - {one.job_id for one in line}
    return sorted((known[job] for job in left), key=lambda one: (-one.committed_ms, one.job_id))
