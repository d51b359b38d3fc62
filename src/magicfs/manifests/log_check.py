"""Reading all of a log, and as much as can be read of one that is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from magicfs.errors import FormatError
from magicfs.formats.log import LogFile, LoggedJob, LogNames, LogPart
from magicfs.manifests.log_files import AT_ONCE, At, file_of_names, read_log, read_names, read_part, whose
from magicfs.parallel import gathered
from magicfs.stores.port import Store

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

    def lost(self, error: FormatError) -> None:
        """Note what cannot be read. Raises what a newer magicfs wrote: that is not lost."""
        if "newer magicfs" in error.problem:
            raise error
        self.problem = self.problem or str(error)


async def read_all(store: Store, destination: str, file: LogFile) -> Readable:
    """Read a log with all its files. Raises FormatError only if a newer magicfs wrote it."""
    found = Readable(files=[whose(file)])
    try:
        log = await read_log(store, destination, file)
    except FormatError as error:
        found.lost(error)
        return found
    found.jobs = [*await _of_parts(store, destination, log.parts, found), *log.last]
    for names in log.names:
        await _of_names(store, destination, names, found)
    return found


async def _of_parts(
    store: Store, destination: str, parts: Sequence[LogPart], found: Readable
) -> list[LoggedJob]:
    async def read(part: LogPart) -> list[LoggedJob]:
        found.files.append(whose(part))
        try:
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
