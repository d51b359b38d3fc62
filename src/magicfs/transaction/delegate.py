"""Completing a job's files in other processes: cutting the work, doing it there, taking the results in.

What other processes report only saves work. Whoever has the job object completes in the ordinary way every
file that they have not reported as visible, and so finds out by itself what cannot be published. Therefore
other processes may die, do their part twice, or do it late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from magicfs.engine import Engine, Event
from magicfs.errors import UsageError
from magicfs.formats.job_object import Chunk, JobObject
from magicfs.protocol.job_state import JobState
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Batch, Complete
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.etags import ETags
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord

__all__ = [
    "CompleteRemotely",
    "CompletionRequest",
    "CompletionResult",
    "FileRange",
    "complete_range",
    "complete_remotely",
]

_TROUBLE_MAX = 500


@dataclass(frozen=True, slots=True)
class FileRange:
    """Files that one process completes: some that follow each other in one chunk of a job's facts."""

    chunk: Chunk
    start: int  # number of the first of the files in the chunk, from 0
    stop: int  # number after the last

    def cut(self, files: int) -> list[FileRange]:
        """Into ranges of at most so many files; fewer than one is a ``UsageError``."""
        if files < 1:
            raise UsageError(f"a range of {files} files is empty; choose 1 or more")
        starts = range(self.start, self.stop, files)
        return [FileRange(self.chunk, start, min(start + files, self.stop)) for start in starts]


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """How the files of a job are to be completed."""

    nonce: str  # the version of the job object that says so; under another one nothing is done
    if_absent: bool  # whether no file may replace an object
    verify: bool  # whether every file is looked at before it counts, for it may have been completed before


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """What became of a range of files."""

    chunk: str  # key of its chunk
    start: int  # number of the first file
    etags: tuple[str | None, ...]
    """Of files known to be visible, as ``Engine.run`` tells of them, empty where no answer did; else None."""
    trouble: str = ""  # why not all are known to be visible

    @classmethod
    def nothing(cls, files: FileRange, trouble: str) -> Self:
        """Nothing is known of these files."""
        return cls(files.chunk.key, files.start, (None,) * (files.stop - files.start), trouble)


CompleteRemotely = Callable[[CompletionRequest, Sequence[FileRange]], Iterable[CompletionResult]]
"""Has files completed by other processes, and reports what became of them; called in a thread of its own.

It may leave ranges out, report one twice, and raise: then what it has reported until then counts.
"""


@dataclass(slots=True)
class _Reported:
    """What other processes have reported."""

    etags: dict[str, dict[int, str]] = field(default_factory=dict)  # of visible files, by chunk and number
    trouble: str = ""  # the first one

    def add(self, one: CompletionResult) -> None:
        known = self.etags.setdefault(one.chunk, {})
        known.update({n: etag for n, etag in enumerate(one.etags, one.start) if etag is not None})
        self.trouble = self.trouble or one.trouble


async def complete_remotely(
    call: CompleteRemotely,
    request: CompletionRequest,
    engine: Engine,
    job: JobObject,
    output: JobOutput,
    etags: ETags,
) -> list[str]:
    """Have the files of a job completed by other processes. No trouble of theirs raises.

    The ETags of those that they report as done are noted. Returns warnings, if they were asked for files that
    they have not reported.
    """
    reported = await _collect(call, request, [FileRange(chunk, 0, chunk.files) for chunk in job.chunks])
    last, left = set(job.equal_keys), 0
    steps = enumerate(output.steps(if_absent=request.if_absent))
    for chunk in job.chunks:
        known = reported.etags.get(chunk.key, {})
        for number, (place, step) in enumerate(islice(steps, chunk.files)):
            if step.key in last or not isinstance(step, Complete):
                continue
            if (etag := known.get(number)) is None:
                left += 1
                continue
            etags.put(place, etag)
            engine.tell(Event("complete", step, Outcome.DONE))
    if not left:
        return []
    why = reported.trouble or "they have reported nothing of them"
    return [f"{left} of {output.files} files were left to the driver by the processes asked first: {why}"]


async def _collect(
    call: CompleteRemotely, request: CompletionRequest, ranges: Sequence[FileRange]
) -> _Reported:
    reported, loop = _Reported(), asyncio.get_running_loop()

    def in_a_thread() -> None:
        for one in call(request, ranges):
            loop.call_soon_threadsafe(reported.add, one)

    try:
        await asyncio.to_thread(in_a_thread)
    except Exception as error:  # noqa: BLE001 - an engine's, of any type; its work is done here then
        # Spark's have a hundred lines.
        trouble = " ".join(f"{type(error).__name__}: {error}".split())[:_TROUBLE_MAX]
        reported.trouble = reported.trouble or trouble
    return reported


async def complete_range(
    engine: Engine, context: JobContext, request: CompletionRequest, files: FileRange
) -> CompletionResult:
    """Complete a range of files; those that are replaced in place come last, as small files do, and are left
    to the driver.

    A second call, at the same time or later, finds the files completed; one that comes after the job was
    moved does nothing. If the job object or the chunk cannot be read, that raises and nothing was done.
    """
    version = await JobRecord(engine.store, context.layout, Conditions()).read()
    if version is None or version.job.state is not JobState.COMMITTING or version.job.nonce != request.nonce:
        return CompletionResult.nothing(files, f"job {context.job} was moved by another process meanwhile")
    if files.chunk not in version.job.chunks:
        return CompletionResult.nothing(files, f"{files.chunk.key} is no chunk of job {context.job}")
    output = await facts.read_chunk(engine, context, files.chunk)
    last = set(version.job.equal_keys)
    chosen = islice(output.steps(if_absent=request.if_absent), files.start, files.stop)
    wanted = [step if isinstance(step, Complete) and step.key not in last else None for step in chosen]
    steps = [step for step in wanted if step is not None]
    result = await engine.run(Batch("complete", steps), keep=True, verify=request.verify)
    etags = tuple(None if step is None else result.completed.get(step) for step in wanted)
    trouble = str(result.failures[0].error) if result.failures else ""
    return CompletionResult(files.chunk.key, files.start, etags, trouble)
