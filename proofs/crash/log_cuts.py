"""The log of publications, so small that some jobs fill all levels of it: cut, met by others, damaged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain, log
from magicfs.manifests.chain import READING
from magicfs.manifests.log import job_of_run
from magicfs.manifests.log_files import file_of_names, read_part
from magicfs.operate.adopt import adopt_files
from magicfs.past import log_growth
from magicfs.past.as_of import job_as_of
from magicfs.past.compact import compact_chain
from magicfs.past.history import Publication, history_of
from magicfs.protocol import paths
from magicfs.stores.conditions import Conditions
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Crash, Fault, Kind, Request
from proofs.crash.wrong_log import WrongLog
from proofs.scenes.job_scene import JobScene
from proofs.scenes.mutants import Hunted, Sound, hunt

__all__ = ["TRIALS", "hunt_log", "play_log"]

_DEST: Final = "env=prod/día 50% + #1"
_PLACE: Final = paths.parse_url(f"memory://bucket/{_DEST}")
_DAY_MS: Final = 86_400_000
_JOBS: Final = 23
_EVERY: Final = 5
_AGAIN: Final = {4: 1, 7: 3, 9: 9}  # of ten jobs these run again what was run so many jobs before
_MOST: Final = 90  # requests of one compaction, at most
_SMALL: Final = (
    (log_growth, "JOBS_IN_PART", 2),
    (log_growth, "LAST_KEPT", 2),
    (log_growth, "PARTS_IN_PART", 2),
    (log_growth, "_IN_FILE", 2),
    (log_growth, "_TIMES_AS_LARGE", 3),
)


class _Log:
    """A destination of so many jobs, and what is known of them past the log."""

    def __init__(self, jobs: int = 0) -> None:
        self.scene = JobScene(_DEST)
        self.jobs = 0
        self.publish(jobs)

    def publish(self, jobs: int, every: int = _EVERY) -> None:
        """Publish more jobs, with a compaction after so many of them."""
        for _ in range(jobs):
            number, self.jobs = self.jobs, self.jobs + 1
            one = Manifest(
                job_id=f"job-{number}",
                run_id=self.run_of(number),
                bucket=self.scene.plain.bucket,
                destination=_DEST,
                mode="append",
                committed_ms=_DAY_MS * (1 + number),
                files=(ManifestFile(key=f"p={number % 10}/a b.bin", size=1, etag=f'"{number}"'),),
            )
            self.now(partial(_publish, conditions=self.scene.conditions, one=one))
            if self.jobs % every == 0:
                self.compact()

    @staticmethod
    def run_of(number: int) -> str:
        return f"run {number - _AGAIN.get(number % 10, 0)}/día"

    def now(self, work: Callable[[Engine], Coroutine[Any, Any, Any]], traffic: Traffic | None = None) -> Any:
        """Do something, even within a request of somebody else; None if its process dies."""
        if traffic is None:
            return self.scene.elsewhere(work)
        with suppress(Crash):
            return asyncio.run(work(self.scene.engine(traffic)))
        return None

    def asked(self, work: Callable[..., Coroutine[Any, Any, Any]], *what: Any) -> Any:
        """Ask the log, or the chain."""
        return self.now(lambda engine: work(engine.store, _DEST, READING, *what))

    def compact(self, traffic: Traffic | None = None) -> Any:
        return self.now(lambda engine: compact_chain(engine, _PLACE), traffic)

    def adopt(self, traffic: Traffic | None = None) -> Any:
        return self.now(lambda engine: adopt_files(engine, _PLACE), traffic)

    def files(self) -> set[str]:
        """All files of logs that are there."""
        return {name for name in self.scene.below("_magicfs/") if name.count("/") == 2}

    def named(self, *, outdated: bool = True) -> set[str]:
        """Those that the log of the pointer names, or needs."""
        found: set[str] = self.now(lambda engine: _named(engine, outdated=outdated))
        return found

    def problems(self, *, clean: bool = False) -> Iterator[str]:
        """What is wrong; with ``clean`` also files that no log names."""
        try:
            yield from self._told_wrongly()
        except MagicError as error:
            yield f"it cannot be read: {error}"
            return
        if left := sorted(
            self.files() - self.named() if clean else self.named(outdated=False) - self.files()
        ):
            yield f"{len(left)} files are {'left' if clean else 'missing'}, such as {left[0]}"

    def _told_wrongly(self) -> Iterator[str]:
        right = [f"job-{number}" for number in reversed(range(self.jobs))]
        for limit in (None, 3, self.jobs - 1):
            told = [one.job_id for one in self.now(partial(_history, limit=limit))]
            if told != right[:limit]:
                yield f"the history of {limit} is {told}"
        runs = {self.run_of(number): f"job-{number}" for number in range(self.jobs)}
        for run in [*runs, "never"]:
            job = self.asked(job_of_run, run)
            if job != runs.get(run):
                yield f"{run} is of {job}"
        for number in range(self.jobs):
            known = self.asked(log.is_published, f"job-{number}")
            then = self.asked(log.job_at, _DAY_MS * (1 + number) + 1)[0]
            if (known, then) != (True, f"job-{number}"):
                yield f"job-{number} is known: {known}, and at its moment the newest is {then}"


async def _publish(engine: Engine, conditions: Conditions, one: Manifest) -> None:
    await chain.publish(engine.store, conditions, _DEST, one)


async def _history(engine: Engine, limit: int | None) -> list[Publication]:
    return await history_of(engine, _PLACE, limit)


async def _named(engine: Engine, *, outdated: bool) -> set[str]:
    past = await log.read_past(engine.store, _DEST, READING)
    if past is None or past.log is None or past.pointer.log is None:
        return set()
    found = {f"{past.pointer.log.job_id}/{past.pointer.log.name}"}
    parts = list(past.log.parts)
    while parts:
        one = parts.pop()
        found.add(f"{one.job_id}/{one.name}")
        parts += (await read_part(engine.store, _DEST, one)).parts
    for names in past.log.names:
        found |= {"/".join(file_of_names(names, n)) for n in range(len(names.sha256))}
    return {f"_magicfs/{one}" for one in found | set(past.log.outdated if outdated else ())}


def _grown() -> Iterator[str]:
    """Jobs with a compaction now and then, looked at after each."""
    draw = random.Random(7)  # noqa: S311 - a trial that is the same each time
    one = _Log()
    while one.jobs < 2 * _JOBS:
        one.publish(draw.choice((1, 1, 2, 5)), every=1000)
        if draw.random() < 0.6:
            one.compact()
            yield from one.problems(clean=True)
        else:
            yield from one.problems()


def _cut() -> Iterator[str]:
    """A compaction that dies at each request, before it or after it, and the next ones."""
    for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
        for number in range(1, _MOST):
            one = _Log(_JOBS)
            traffic = Traffic((Fault(kind, number=number),))
            one.compact(traffic)
            yield from one.problems()
            for _ in range(2):
                one.publish(1, every=1)
            yield from one.problems(clean=True)
            if traffic.count < number:
                break


def _beside() -> Iterator[str]:
    """Two compactions and a job come before each request of a compaction."""

    def others(one: _Log) -> None:
        for _ in range(2):
            one.publish(1, every=1)
        one.publish(1, every=1000)

    yield from _met(lambda one, traffic: one.compact(traffic), others)


def _read() -> Iterator[str]:
    """Compactions and jobs come before each request of somebody who reads."""

    def read(one: _Log, traffic: Traffic) -> None:
        jobs = one.now(lambda engine: history_of(engine, _PLACE, None), traffic)
        first = one.now(lambda engine: job_of_run(engine.store, _DEST, READING, "run 0/día"), traffic)
        as_of = one.now(lambda engine: job_as_of(engine, _PLACE, "job:job-1"), traffic)
        if (jobs[-1].job_id, first, as_of) != ("job-0", "job-9", "job-1"):
            one.scene.put("_wrong", f"{jobs[-1].job_id}, {first}, {as_of}".encode())

    def others(one: _Log) -> None:
        for _ in range(3):
            one.publish(2, every=2)

    yield from _met(read, others)


def _met(work: Callable[[_Log, Traffic], Any], others: Callable[[_Log], None]) -> Iterator[str]:
    for number in range(1, _MOST):
        one = _Log(_JOBS)

        def before(request: Request, number: int = number, one: _Log = one) -> None:
            if request.number == number:
                others(one)

        traffic = Traffic(before=before)
        try:
            work(one, traffic)
        except MagicError as error:
            yield f"before request {number}: {error}"
        yield from one.problems()
        if "_wrong" in one.scene.below("_wrong"):
            yield f"before request {number} somebody read {one.scene.objects()[f'{_DEST}/_wrong'][0]!r}"
        for _ in range(2):
            one.publish(1, every=1)
        yield from one.problems(clean=True)
        if traffic.count < number:
            return


def _lost() -> Iterator[str]:
    """Each file is lost, and the log left for another one; or the command that does it dies, too."""
    count = len(_Log(_JOBS).named(outdated=False))
    for number in range(count):
        for cut in (0, 3 + number):
            one = _Log(_JOBS)
            one.scene.delete(sorted(one.named(outdated=False))[number])
            if cut:
                one.adopt(Traffic((Fault(Kind.CRASH_AFTER, number=cut),)))
            one.adopt()
            yield from one.problems()
            for _ in range(2):
                one.publish(1, every=1)
            yield from one.problems()


TRIALS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "grown": _grown,
    "cut": _cut,
    "beside": _beside,
    "read": _read,
    "lost": _lost,
}
"""What is tried, by name; each tells what was wrong, wherever that is seen."""


@contextmanager
def _small() -> Iterator[None]:
    usual = [(module, name, getattr(module, name)) for module, name, _ in _SMALL]
    try:
        for module, name, value in _SMALL:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in usual:
            setattr(module, name, value)


def play_log(trial: str) -> list[str]:
    """Try it; what was seen that must not be."""
    with _small():
        return [f"log, {trial}: {one}" for one in TRIALS[trial]()]


def hunt_log(wrong: WrongLog) -> Hunted[WrongLog]:
    """Try everything with one line made wrong."""

    def look(_: Sound) -> Iterator[str]:
        with _small():  # what is seen first counts: later the trial may die of it
            yield from (f"log, {trial}: {seen}" for trial in wrong.trials for seen in TRIALS[trial]())

    return hunt(wrong, look)
