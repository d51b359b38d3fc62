"""How a log grows: a new one for each sum, of which nearly all was written for earlier ones.

The last jobs stand in the log itself. Once they are many the oldest hundred of them becomes a part; once
there are many parts of a level the oldest of them become one part of the next. So a log is always short, what
is once written stays, and each compaction writes some files, however many jobs there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from magicfs.errors import MagicError
from magicfs.formats.log import Log, LogFile, LoggedJob, LoggedPart, LogPart
from magicfs.manifests import log_names
from magicfs.manifests.log_files import LogWriter, whose
from magicfs.manifests.log_names import Names
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.stores.port import Store

__all__ = ["JOBS_IN_PART", "LAST_KEPT", "PARTS_IN_PART", "Before", "delete_outdated", "write"]

JOBS_IN_PART: Final = 100
"""How many jobs a part lists."""

LAST_KEPT: Final = 50
"""How many jobs, the newest, are never in parts."""

PARTS_IN_PART: Final = 8
"""How many parts one of the next level stands for."""

Before = tuple[LogFile, Log]
"""A log, and where it is."""


async def write(
    writer: LogWriter,
    store: Store,
    destination: str,
    before: Before | None,
    newest: str,
    jobs: Sequence[LoggedJob],
    runs: Mapping[str, str],
    *,
    outdated: Sequence[str] = (),
    merge: bool = True,
) -> tuple[LogFile, Log]:
    """Write the log of all that an older one tells of, and of more jobs, the oldest of them first.

    ``newest``: the newest of the chain that it tells of. ``runs``: jobs by runs of which no manifest tells.
    ``outdated``: files that are to be deleted, beside those that are not needed any more.
    ``merge``: as for ``log_names.grown``.
    """
    old = None if before is None else before[1]
    last = [*(old.last if old else ()), *jobs]
    full = max(0, (len(last) - LAST_KEPT) // JOBS_IN_PART) * JOBS_IN_PART
    groups = [tuple(last[start : start + JOBS_IN_PART]) for start in range(0, full, JOBS_IN_PART)]
    parts = await writer.parts([LoggedPart(job_id=writer.job, jobs=group) for group in groups])
    names, left = await log_names.grown(
        writer, store, destination, old.names if old else (), Names.of(last[:full], runs), merge=merge
    )
    if before is not None:
        left.append(whose(before[0]))
    log = Log(
        job_id=writer.job,
        newest=newest,
        jobs=(old.jobs if old else 0) + len(jobs),
        runs=(old.runs if old else 0) + len(runs) + sum(one.run_id is not None for one in jobs),
        parts=await _put_together(writer, [*(old.parts if old else ()), *parts]),
        last=tuple(last[full:]),
        names=names,
        outdated=(*outdated, *("/".join(at) for at in left)),
    )
    return await writer.log(log), log


async def _put_together(writer: LogWriter, parts: Sequence[LogPart]) -> tuple[LogPart, ...]:
    found, level = list(parts), 0
    while any(one.level >= level for one in found):
        older = [one for one in found if one.level > level]
        here = [one for one in found if one.level == level]
        newer = [one for one in found if one.level < level]
        full = max(0, len(here) // PARTS_IN_PART - 1) * PARTS_IN_PART
        groups = [tuple(here[start : start + PARTS_IN_PART]) for start in range(0, full, PARTS_IN_PART)]
        older += await writer.parts([LoggedPart(job_id=writer.job, parts=group) for group in groups])
        found, level = [*older, *here[full:], *newer], level + 1
    return tuple(found)


async def delete_outdated(store: Store, destination: str, log: Log) -> tuple[str, ...]:
    """Delete what a log needs no more of earlier ones; returns what could not be deleted.

    Only a tidy directory is at stake, so no trouble raises.
    """
    keys = [paths.join(destination, MANIFESTS, one) for one in log.outdated]
    at_once = store.capabilities.bulk_delete_max
    with suppress(MagicError):
        for start in range(0, len(keys), at_once):
            await store.delete(keys[start : start + at_once])
        return ()
    return log.outdated
