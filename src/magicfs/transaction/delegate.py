"""Completing a job's files in other processes: cutting the work, doing it there, taking back what was done.

What other processes tell only saves work. Whoever holds the job object completes in the ordinary way whatever
they have not told to be visible, and so finds out by itself what cannot be published. Therefore other
processes may die, do their part twice, or do it late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from magicfs.engine import Engine, Event
from magicfs.errors import UsageError
from magicfs.formats.job_object import Chunk, JobObject
from magicfs.protocol.job_state import JobState
from magicfs.protocol.plan import Complete, Stage
from magicfs.protocol.readback import Outcome
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord

__all__ = [
    "Completed",
    "Order",
    "Portion",
    "Spread",
    "Spreading",
    "complete_portion",
    "elsewhere",
]

_TROUBLE_MAX = 500


@dataclass(frozen=True, slots=True)
class Portion:
    """Files that one process completes: some that follow each other in one chunk of a job's facts.

    Attributes:
        chunk: The chunk.
        start: Number of the first of the files in it, from 0.
        stop: Number after the last.
    """

    chunk: Chunk
    start: int
    stop: int

    def cut(self, files: int) -> list[Portion]:
        """Into portions of at most so many files.

        Raises:
            UsageError: That is less than one.
        """
        if files < 1:
            raise UsageError(f"portions of {files} files are none; choose 1 or more")
        starts = range(self.start, self.stop, files)
        return [Portion(self.chunk, start, min(start + files, self.stop)) for start in starts]


@dataclass(frozen=True, slots=True)
class Order:
    """How the portions of a job are to be completed.

    Attributes:
        nonce: The version of the job object that says so; under another one nothing is done.
        if_absent: Whether no file may replace an object.
        verify: Whether every file is looked at before it counts, for it may have been completed before.
    """

    nonce: str
    if_absent: bool
    verify: bool


@dataclass(frozen=True, slots=True)
class Completed:
    """What became of a portion.

    Attributes:
        chunk: Key of its chunk.
        start: Number of the first file.
        etags: For each file its ETag, empty where no answer told it, if the file is known to be visible;
            else None.
        trouble: Why not all are known to be; empty otherwise.
    """

    chunk: str
    start: int
    etags: tuple[str | None, ...]
    trouble: str = ""

    @classmethod
    def nothing(cls, portion: Portion, trouble: str) -> Self:
        """A portion of which nothing is known."""
        return cls(portion.chunk.key, portion.start, (None,) * (portion.stop - portion.start), trouble)


Spread = Callable[[Order, Sequence[Portion]], Iterable[Completed]]
"""Has portions completed by other processes, and tells what became of them; called in a thread of its own.

It may leave portions out, tell of one twice, and raise: then what it has told until then counts.
"""


@runtime_checkable
class Spreading(Protocol):
    """A committer whose job commit can have its files completed by other processes.

    Attributes:
        spread: How; None completes them in this process.
    """

    spread: Spread | None


@dataclass(slots=True)
class _Told:
    """What other processes have told.

    Attributes:
        etags: By key of the chunk and number of the file in it, the ETags of files that are visible.
        trouble: The first trouble of any; empty if there was none.
    """

    etags: dict[str, dict[int, str]] = field(default_factory=dict)
    trouble: str = ""

    def add(self, one: Completed) -> None:
        """Take in what became of a portion."""
        known = self.etags.setdefault(one.chunk, {})
        known.update({n: etag for n, etag in enumerate(one.etags, one.start) if etag is not None})
        self.trouble = self.trouble or one.trouble


async def elsewhere(
    spread: Spread, order: Order, engine: Engine, job: JobObject, output: JobOutput
) -> tuple[dict[Complete, str], list[str]]:
    """Have the files of a job completed by other processes. No trouble of theirs raises.

    Returns:
        The steps that they have told to be done, with the ETags of the files; and warnings, if there are
        files that they were to complete and have not told of.
    """
    told = await _told(spread, order, [Portion(chunk, 0, chunk.files) for chunk in job.chunks])
    last, done, left = set(job.equal_keys), dict[Complete, str](), 0
    for name, pendings in output.by_set():
        known = told.etags.get(name, {})
        for number, pending in enumerate(pendings):
            if pending.destination_key in last:
                continue
            if (etag := known.get(number)) is None:
                left += 1
                continue
            step = job_output.completing(pending, if_absent=order.if_absent)
            done[step] = etag
            engine.tell(Event("complete", step, Outcome.DONE))
    if not left:
        return done, []
    why = told.trouble or "they have told nothing of them"
    return done, [
        f"{left} of {output.files} files were left to the driver by the processes asked first: {why}"
    ]


async def _told(spread: Spread, order: Order, portions: Sequence[Portion]) -> _Told:
    told, loop = _Told(), asyncio.get_running_loop()

    def in_a_thread() -> None:
        for one in spread(order, portions):
            loop.call_soon_threadsafe(told.add, one)

    try:
        await asyncio.to_thread(in_a_thread)
    except Exception as error:  # noqa: BLE001 - an engine's, of any type; its work is done here then
        # Spark's have a hundred lines.
        told.trouble = told.trouble or " ".join(f"{type(error).__name__}: {error}".split())[:_TROUBLE_MAX]
    return told


async def complete_portion(engine: Engine, context: JobContext, order: Order, portion: Portion) -> Completed:
    """Complete a portion's files; those that are replaced in place come last, and are left to the driver.

    A second call, at the same time or later, finds the files completed; one that comes after the job was
    moved does nothing.

    Raises:
        FormatError: The job object, or the chunk, cannot be believed; nothing was done.
        ObjectNotFound: The chunk is gone; nothing was done.
        StoreError: They could not be read; nothing was done.
    """
    held = await JobRecord(engine.store, context.layout, Conditions()).read()
    if held is None or held.job.state is not JobState.COMMITTING or held.job.nonce != order.nonce:
        return Completed.nothing(portion, f"job {context.job} was moved by another process meanwhile")
    if portion.chunk not in held.job.chunks:
        return Completed.nothing(portion, f"{portion.chunk.key} is no chunk of job {context.job}")
    output = await facts.read_chunk(engine, context, portion.chunk)
    last = set(held.job.equal_keys)
    files = [
        None if pending.destination_key in last else job_output.completing(pending, if_absent=order.if_absent)
        for pending in list(output.pendings())[portion.start : portion.stop]
    ]
    steps = [step for step in files if step is not None]
    result = await engine.run(Stage("complete", steps), keep=True, verify=order.verify)
    etags = tuple(None if step is None else result.completed.get(step) for step in files)
    trouble = str(result.failures[0].error) if result.failures else ""
    return Completed(portion.chunk.key, portion.start, etags, trouble)
