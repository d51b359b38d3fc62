"""How a log grows: what it does not say yet is read from the manifests above it, and a new one is written for
each sum, of which nearly all was written for earlier ones.

The last jobs stand in the log itself. Once they are many the oldest hundred of them becomes a part; once
there are many parts of a level the oldest of them become one part of the next. So a log is always short, what
is once written stays, and each compaction writes some files, however many jobs there are.

A set of names is put together with those before it, as long as these are not ten times as large.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final

from magicfs.errors import FormatError, MagicError
from magicfs.formats.log import Log, LogFile, LoggedJob, LoggedNames, LoggedPart, LogNames, LogPart
from magicfs.formats.manifest import Manifest
from magicfs.manifests.chain import COMPACT, READING
from magicfs.manifests.log import Past, above, logged
from magicfs.manifests.log_files import (
    AT_ONCE,
    NAMED_BY,
    At,
    Names,
    file_of_names,
    key_of,
    number_of,
    read_set,
    whose,
)
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.runtime.parallel import gathered
from magicfs.stores.port import Store

JOBS_IN_PART: Final = 100
"""How many jobs a part lists."""

LAST_KEPT: Final = 50
"""How many jobs, the newest, are never in parts."""

PARTS_IN_PART: Final = 8
"""How many parts one of the next level stands for."""

Before = tuple[LogFile, Log]
"""A log, and where it is."""

_IN_FILE: Final = 250
_FILES_MAX: Final = 1000
_TIMES_AS_LARGE: Final = 10
_SETS_MAX: Final = 12


class News:
    """The publications that a log lacks. Each manifest is read once, however often this is asked.

    ``known``: as for ``chain.chain``.
    """

    def __init__(self, known: Mapping[str, Manifest]) -> None:
        self._known = known
        self._read: dict[str, Manifest] = {}

    async def of(self, store: Store, destination: str, past: Past) -> tuple[list[LoggedJob], dict[str, str]]:
        """The jobs, the oldest first; and jobs by the runs that only the pointer names.

        Raises FormatError if the chain is broken. What lies below a sum may be.
        """
        found: list[LoggedJob] = []
        is_below = False
        known = {**self._read, **self._known}
        try:
            async with aclosing(above(store, destination, READING, past, known)) as manifests:
                async for one in manifests:
                    self._read[one.job_id] = one
                    if one.mode != COMPACT:
                        found.append(logged(one))
                        continue
                    is_below = True
        except FormatError as error:
            if "newer magicfs" in error.problem or not is_below:
                raise
        logged_runs = {one.run_id for one in found}
        named = {run: job for run, job in past.pointer.runs if run not in logged_runs}
        return found[::-1], named


class LogWriter:
    """Writes the files of one log. ``job`` is the sum that it belongs to, or another name of its own."""

    def __init__(self, store: Store, destination: str, job: str) -> None:
        self.job = job
        self.written: list[At] = []
        self._store = store
        self._destination = destination

    async def parts(self, contents: Sequence[LoggedPart]) -> list[LogPart]:
        """Write parts of one level."""
        first = len(self.written)
        raws = [one.to_bytes() for one in contents]
        places = [self._place("log", first + number, raw) for number, raw in enumerate(raws)]
        await self._put(list(zip(places, raws, strict=True)))
        return [
            _part(content, place, _sha256(raw))
            for content, place, raw in zip(contents, places, raws, strict=True)
        ]

    async def names(self, contents: Sequence[LoggedNames]) -> LogNames:
        """Write names, so many files as there are hashes."""
        raws = [one.to_bytes() for one in contents]
        places = [self._place("names", number, raw) for number, raw in enumerate(raws)]
        await self._put(list(zip(places, raws, strict=True)))
        count = sum(len(one.runs) + len(one.jobs) for one in contents)
        return LogNames(job_id=self.job, names=count, sha256=tuple(map(_sha256, raws)))

    async def log(self, log: Log) -> LogFile:
        """Write the log itself, the last of all."""
        raw = log.to_bytes()
        place = self._place("log", len(self.written), raw)
        await self._put([(place, raw)])
        return LogFile(job_id=self.job, name=place[1], sha256=_sha256(raw))

    async def remove(self) -> None:
        """Delete what was written, for nobody will name it."""
        keys = [key_of(self._destination, at) for at in self.written]
        at_once = self._store.capabilities.bulk_delete_max
        for start in range(0, len(keys), at_once):
            await self._store.delete(keys[start : start + at_once])

    def _place(self, kind: str, number: int, raw: bytes) -> At:
        return self.job, f"{kind}-{number:05d}-{_sha256(raw)[:NAMED_BY]}.json"

    async def _put(self, files: Sequence[tuple[At, bytes]]) -> None:
        self.written += [at for at, _ in files]

        async def put(one: tuple[At, bytes]) -> None:
            at, raw = one
            await self._store.put(key_of(self._destination, at), raw)

        await gathered(files, put, AT_ONCE)


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
    """Write the log of everything that an older one lists, and of more jobs, the oldest of them first.

    ``newest``: the newest of the chain that it covers. ``runs``: jobs by run, for runs in no manifest.
    ``outdated``: files to delete, in addition to those that are no longer needed.
    ``merge``: as for ``_grown``.
    """
    old = None if before is None else before[1]
    last = [*(old.last if old else ()), *jobs]
    full = max(0, (len(last) - LAST_KEPT) // JOBS_IN_PART) * JOBS_IN_PART
    groups = [tuple(last[start : start + JOBS_IN_PART]) for start in range(0, full, JOBS_IN_PART)]
    parts = await writer.parts([LoggedPart(job_id=writer.job, jobs=group) for group in groups])
    names, left = await _grown(
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


async def _grown(
    writer: LogWriter, store: Store, destination: str, before: Sequence[LogNames], news: Names, *, merge: bool
) -> tuple[tuple[LogNames, ...], list[At]]:
    """The sets of names after more ids have come, and the files that are needed no more.

    ``merge``: whether to put sets together, where that takes long.
    """
    sets, outdated = list(before), list[At]()
    while sets and len(news) * _TIMES_AS_LARGE >= sets[-1].names and (merge or len(sets) >= _SETS_MAX):
        older = sets.pop()
        news = news.above(await read_set(store, destination, older))
        outdated += [file_of_names(older, number) for number in range(len(older.sha256))]
    if len(news):
        sets.append(await writer.names(_files(writer.job, news)))
    return tuple(sets), outdated


def _files(job: str, names: Names) -> list[LoggedNames]:
    count = min(-(-len(names) // _IN_FILE), _FILES_MAX)
    runs: list[list[tuple[str, str]]] = [[] for _ in range(count)]
    jobs: list[list[str]] = [[] for _ in range(count)]
    for run, one in names.runs.items():
        runs[number_of(run, count)].append((run, one))
    for name in names.jobs:
        jobs[number_of(name, count)].append(name)
    return [
        LoggedNames(job_id=job, runs=tuple(runs[number]), jobs=tuple(jobs[number])) for number in range(count)
    ]


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


def _part(content: LoggedPart, at: At, sha256: str) -> LogPart:
    below = content.parts
    return LogPart(
        job_id=at[0],
        name=at[1],
        sha256=sha256,
        level=1 + max(one.level for one in below) if below else 0,
        jobs=sum(one.jobs for one in below) or len(content.jobs),
        oldest_ms=min(one.oldest_ms for one in below)
        if below
        else min(one.committed_ms for one in content.jobs),
    )


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
