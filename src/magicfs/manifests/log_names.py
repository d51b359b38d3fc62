"""Finding a job or a run in a log by its id, whatever the length of the log.

The ids of jobs and runs lie in files by their hash, so that one file tells of an id. They are written in
sets: a later one is put together with those before it, as long as these are not ten times as large. So there
are few sets, each id is written anew only now and then, and nothing that is written changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from magicfs.formats.log import Log, LoggedJob, LoggedNames, LogNames
from magicfs.manifests.log_files import AT_ONCE, checked_job, file_of_names, read_names
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store

__all__ = ["Names", "is_job", "job_of_run", "number_of", "read_set"]


@dataclass(slots=True)
class Names:
    """Ids that belong together."""

    runs: dict[str, str] = field(default_factory=dict)
    """Jobs by the ids of their runs."""
    jobs: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: Sequence[LoggedJob], runs: Mapping[str, str]) -> Names:
        """Those of jobs, the oldest first, and of other runs."""
        own = {one.run_id: one.job_id for one in jobs if one.run_id is not None}
        return cls({**runs, **own}, dict.fromkeys(one.job_id for one in jobs))

    def __len__(self) -> int:
        return len(self.runs) + len(self.jobs)

    def above(self, older: Names) -> Names:
        """Both together; where two name one run the newer counts."""
        return Names({**older.runs, **self.runs}, {**older.jobs, **self.jobs})


async def job_of_run(store: Store, destination: str, log: Log, run: str) -> str | None:
    """The job that published a run; None if none has.

    At most one request for each set of names, all of them at once. Raises FormatError if names are gone,
    malformed or altered.
    """
    job = next((one.job_id for one in reversed(log.last) if one.run_id == run), None)
    if job is not None:
        return job

    async def look(names: LogNames) -> str | None:
        number = number_of(run, len(names.sha256))
        runs = (await read_names(store, destination, names, number)).runs
        job = next((job for one, job in runs if one == run), None)
        return None if job is None else checked_job(store, destination, file_of_names(names, number), job)

    found = await gathered(reversed(log.names), look, AT_ONCE)
    return next((one for one in found if one is not None), None)


async def is_job(store: Store, destination: str, log: Log, job: str) -> bool:
    """Whether a job is among those of a log. Costs and raises as ``job_of_run``."""
    if any(one.job_id == job for one in log.last):
        return True

    async def look(names: LogNames) -> bool:
        return job in (await read_names(store, destination, names, number_of(job, len(names.sha256)))).jobs

    return any(await gathered(log.names, look, AT_ONCE))


async def read_set(store: Store, destination: str, names: LogNames) -> Names:
    """All ids of a set. Raises FormatError if they are gone, malformed or altered."""

    async def read(number: int) -> LoggedNames:
        return await read_names(store, destination, names, number)

    found = Names()
    for one in await gathered(range(len(names.sha256)), read, AT_ONCE):
        found.runs.update(one.runs)
        found.jobs.update(dict.fromkeys(one.jobs))
    return found


def number_of(name: str, files: int) -> int:
    """The file that tells of an id, of so many."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]) * files >> 64
