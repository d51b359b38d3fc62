"""Reading all of a log, and as much as can be read of one that is broken."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.formats.log import (
    LOG_SIZE_LIMIT,
    LogFile,
    LoggedJob,
    LoggedNames,
    LoggedPart,
    LogNames,
    LogPart,
    is_log_file,
)
from magicfs.manifests.log_files import (
    AT_ONCE,
    At,
    file_of_names,
    is_named_by,
    named_twice,
    read_log,
    read_names,
    read_part,
    whose,
)
from magicfs.protocol import ids, paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import ObjectInfo, Store

__all__ = ["Readable", "read_all"]


@dataclass(slots=True)
class Readable:
    """What can be read of a log."""

    problem: str = ""
    """What cannot, the first of it; empty if all can."""
    jobs: list[LoggedJob] = field(default_factory=list)
    """The oldest first."""
    runs: dict[str, str] = field(default_factory=dict)
    """Jobs by the runs that the names tell of."""
    files: list[At] = field(default_factory=list)
    """Its files, as far as it names them, those that are gone among them."""
    parts: set[At] = field(default_factory=set)
    """Those of them that are parts; each is read once."""

    def lost(self, error: FormatError) -> None:
        """Note what cannot be read. Raises what a newer magicfs wrote: that is not lost."""
        if "newer magicfs" in error.problem:
            raise error
        self.problem = self.problem or str(error)


async def read_all(store: Store, destination: str, file: LogFile) -> Readable:
    """Read a log with all its files. Raises FormatError only if a newer magicfs wrote it.

    If a file is gone or damaged, what it names is looked for by a listing.
    """
    found = Readable(files=[whose(file)])
    try:
        log = await read_log(store, destination, file)
        found.jobs = [*await _of_parts(store, destination, log.parts, found), *log.last]
        for names in log.names:
            await _of_names(store, destination, names, found)
    except FormatError as error:
        found.lost(error)
    if found.problem:
        await _of_scattered(store, destination, found)
    return found


async def _of_scattered(store: Store, destination: str, found: Readable) -> None:
    """Find all files of logs, whether or not a file that can be read names them, and what they tell.

    Files of older logs, and of compactions that died, are among them. All tell of jobs that were published,
    and nobody needs them once there is a new log. Where two name one run the file that was written last
    counts, unless the log itself says which.
    """
    directory = paths.prefix_of(paths.join(destination, MANIFESTS))
    listed = [info async for info in store.list(directory) if _place(info.key, directory) is not None]
    listed.sort(key=lambda info: (info.modified or 0, info.key))

    async def read(info: ObjectInfo) -> LoggedNames | LoggedPart | None:
        name = info.key.rpartition("/")[2]
        kind = LoggedNames if name.startswith("names-") else LoggedPart
        with suppress(FormatError, ObjectNotFound):  # a log, or as damaged as the one that is read
            raw = await store.get(info.key, size_max=LOG_SIZE_LIMIT + 1)
            return kind.from_bytes(info.key, raw) if is_named_by(name, raw) else None
        return None

    runs: dict[str, str] = {}
    jobs: dict[str, LoggedJob] = {}
    for content in await gathered(listed, read, AT_ONCE):
        if isinstance(content, LoggedNames):
            runs |= dict(content.runs)
        elif content is not None:
            jobs |= {one.job_id: one for one in content.jobs}
    found.runs = {**runs, **found.runs}
    told = {one.job_id for one in found.jobs}
    if missing := [one for job, one in jobs.items() if job not in told]:
        found.jobs = sorted([*missing, *found.jobs], key=lambda one: one.committed_ms)
    places = [_place(info.key, directory) for info in listed]
    known = set(found.files)
    found.files += [at for at in places if at is not None and at not in known]


def _place(key: str, directory: str) -> At | None:
    """Where a file of a log is, by its key; None of any other file."""
    job, _, name = key.removeprefix(directory).partition("/")
    try:
        return (ids.job_id(job), name) if is_log_file(name) else None
    except UsageError:
        return None


async def _of_parts(
    store: Store, destination: str, parts: Sequence[LogPart], found: Readable
) -> list[LoggedJob]:
    async def read(part: LogPart) -> list[LoggedJob]:
        at = whose(part)
        try:
            if at in found.parts:
                raise named_twice(store, destination, part)
            found.parts.add(at)
            found.files.append(at)
            content = await read_part(store, destination, part)
        except FormatError as error:
            found.lost(error)
            return []
        below = await _of_parts(store, destination, content.parts, found) if content.parts else []
        return [*below, *content.jobs]

    return [job for jobs in await gathered(parts, read, AT_ONCE) for job in jobs]


async def _of_names(store: Store, destination: str, names: LogNames, found: Readable) -> None:
    async def read(number: int) -> None:
        found.files.append(file_of_names(names, number))
        try:
            found.runs.update((await read_names(store, destination, names, number)).runs)
        except FormatError as error:
            found.lost(error)

    await gathered(range(len(names.sha256)), read, AT_ONCE)
