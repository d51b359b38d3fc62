"""Other jobs and uploads under a destination: who is at work, since when, in what state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.job_object import JOB_OBJECT_SIZE_LIMIT, JobObject
from magicfs.parallel import drained
from magicfs.protocol import ids, paths
from magicfs.protocol.conflict import is_by_partition, overlap
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import CHANGES_FILES
from magicfs.protocol.layout import JOB_OBJECT, LayoutName, WorkLayout
from magicfs.protocol.magic import MAGIC, MAGIC_JOB
from magicfs.transaction.context import FoundJob

__all__ = ["OtherJob", "conflicting", "find_unfinished_jobs", "jobs_among"]

_JOB = "job-"
_STEM = f"{JOB_OBJECT.removesuffix('.json')}."


@dataclass(frozen=True, slots=True)
class OtherJob:
    """A job whose object lies under a destination."""

    layout: WorkLayout
    job: JobObject | None  # what its object says; None if it is malformed
    problem: FormatError | None = None  # why not

    def found(self) -> FoundJob:
        """The same for people."""
        job = self.job
        if job is None:
            return FoundJob(self.job_id, None, 0.0, 0.0, "", None, str(self.problem))
        created, changed = job.created_ms / 1000, job.changed_ms / 1000
        return FoundJob(self.job_id, job.state.value, created, changed, job.host, job.run_id)

    @property
    def job_id(self) -> JobId:
        """The job, as the place of its object tells."""
        return self.layout.job


async def find_unfinished_jobs(engine: Engine, destination: str) -> list[OtherJob]:
    """Every job that has set itself up under a destination and has not ended, the oldest first."""
    prefix = paths.prefix_of(destination) + MAGIC
    keys = [info.key async for info in engine.store.list(prefix)]
    return await jobs_among(engine, destination, keys)


async def jobs_among(engine: Engine, destination: str, keys: Iterable[str]) -> list[OtherJob]:
    """Read the job objects among the keys below a destination's magic directories."""
    versions: dict[WorkLayout, list[str]] = {}
    for key in keys:
        layout = _layout_of(key, destination)
        if layout is not None:
            versions.setdefault(layout, []).append(key)
    # Numbered versions whose first is gone are leftovers of a job that has ended.
    newest = {
        layout: max(listed, key=lambda one: (len(one), one))
        for layout, listed in versions.items()
        if layout.job_object_key in listed
    }
    found: list[OtherJob] = []

    async def read(layout: WorkLayout) -> bool:
        key = newest[layout]
        path = f"{engine.store.bucket}/{key}"
        try:
            raw = await engine.store.get(key, size_max=JOB_OBJECT_SIZE_LIMIT + 1)
            found.append(OtherJob(layout, JobObject.from_bytes(path, raw)))
        except ObjectNotFound:
            pass  # it has ended since
        except FormatError as error:
            found.append(OtherJob(layout, None, error))
        return True

    await drained(list(newest), read, engine.concurrency)
    return sorted(found, key=lambda one: (one.job.created_ms if one.job else 0, one.job_id))


def conflicting(others: Sequence[OtherJob], own: JobId, scope: tuple[str, ...] | None) -> list[OtherJob]:
    """Those that may be changing files in a scope at this moment.

    An open job is none of them: what it will publish comes after us. An aborting one never shows a file.
    """
    return [
        one
        for one in others
        if one.job_id != own
        and (one.job is None or (one.job.state in CHANGES_FILES and overlap(scope, _scope_of(one.job))))
    ]


def _scope_of(job: JobObject) -> tuple[str, ...] | None:
    return job.partitions if is_by_partition(job.conflict, job.committer) else None


def _layout_of(key: str, destination: str) -> WorkLayout | None:
    """The job whose object a key is; None for any other key."""
    magic, _, rest = paths.relative_to(key, destination).partition("/")
    directory, _, name = rest.partition("/")
    if "/" in name or not name.startswith(_STEM) or not name.endswith(".json"):
        return None
    if not directory.startswith(_JOB):
        return None
    try:
        job = ids.job_id(directory.removeprefix(_JOB))
    except UsageError:
        return None
    name_of: LayoutName = "__magic" if magic == MAGIC else "__magic_job"
    if name_of == "__magic_job" and magic != f"{MAGIC_JOB}{job}":
        return None
    return WorkLayout(destination, job, 0, name_of)
