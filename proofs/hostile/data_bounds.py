"""Bounds that keep jobs and logs from what has no end, each with the attack that notices when it is gone."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.formats import footer as footer_format
from magicfs.formats.footer import Footer
from magicfs.formats.job_object import JobObject
from magicfs.formats.job_options import JobOptions
from magicfs.formats.log import Log, LogFile, LoggedJob, LoggedPart, LogPart
from magicfs.manifests import footers, log, log_files
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.transaction import attempt_output, context, prepare, record
from magicfs.transaction.output import JobOutput, Taking
from magicfs.transaction.spool import TakenFiles
from proofs.hostile.part import WrongLine
from proofs.scenes.job_scene import JobScene

__all__ = ["ATTACKS", "MUTANTS"]

_JOB = JobId("0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11")
_READS_MAX = 200


def _problem(what: str, call: Callable[[], Any], *, said: str = "") -> list[str]:
    """What is wrong unless a call raises an error of ours whose text holds something."""
    try:
        found = call()
    except MagicError as error:
        return [] if said in str(error) else [f"{what}: {str(error)[:300]}"]
    except Exception as error:  # noqa: BLE001 - all that must not come out
        return [f"{what}: {type(error).__name__}: {str(error)[:300]}"]
    return [f"{what}: was accepted: {str(found)[:200]}"]


@contextmanager
def _with(module: Any, name: str, value: Any) -> Iterator[None]:
    """Within it a bound is a small one."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


# -- what a job writes -----------------------------------------------------------------------------------


def _sum_of_bytes() -> list[str]:
    output = JobOutput(bytes=2**63)
    taking = SimpleNamespace(output=output, _context=SimpleNamespace(job=_JOB), _keys=None, _statistics=[])
    return _problem(
        "2**63 bytes", lambda: Taking.finish(cast("Any", taking)), said="more than any store holds"
    )


def _unreadable_job() -> list[str]:
    job = JobObject(
        job_id=_JOB,
        bucket="b",
        destination="d",
        state=JobState.OPEN,
        nonce="n",
        driver="d",
        options=JobOptions(committer="magic", mode="append"),
        size=2**63,
    )
    return _problem("a job object of 2**63 bytes", lambda: record._check_size(job), said="bytes: outside")  # noqa: SLF001


def _values_of_a_manifest() -> list[str]:
    job = cast("Any", SimpleNamespace(job=_JOB))
    with _with(prepare, "MANIFEST_VALUE_LIMIT", 70_000):
        call = lambda: prepare.check_manifests(job, JobOutput(), ["x"] * 10_000)  # noqa: E731
        return _problem("a manifest of many values", call, said="values")


def _many_footers() -> list[str]:
    """Footers that are too many for one list are written as several, and each can be read."""
    files = [(str(number), 1, Footer(rows=1, format="x" * 1000)) for number in range(8)]
    store = _store()
    with _with(footer_format, "FOOTERS_SIZE_LIMIT", 3000):
        try:
            written = asyncio.run(footers.write(store, "d", _JOB, files))
        except MagicError as error:
            return [f"many footers: {error}"]
    return [] if len(written.lists) == 4 else [f"many footers: {len(written.lists)} lists"]


def _many_rows() -> list[str]:
    files = [(str(number), 1, Footer(rows=2**63 - 1, format="csv")) for number in range(2)]
    written = asyncio.run(footers.write(_store(), "d", _JOB, files))
    return [] if written.rows is None else [f"rows of all files: {written.rows}"]


def _held_in_memory() -> list[str]:
    taken, text = TakenFiles(), "x" * 40 * 1024**2
    for _ in range(2):
        taken.append([text], [])
    return [] if len(taken._held) == 1 else ["files of 80 MiB of JSON are held in memory"]  # noqa: SLF001


def _read_ahead() -> list[str]:
    asked: list[int] = []

    async def read(_key: str, size_max: int) -> bytes:
        asked.append(size_max)
        return b"x"

    async def all_of_them() -> None:
        engine = cast("Engine", SimpleNamespace(concurrency=4))
        async for _ in attempt_output.read_some_ahead(engine, ["a", "b", "c"], read, 2**40):
            pass

    asyncio.run(all_of_them())
    return [] if max(asked) <= 2**25 else [f"{max(asked)} bytes of a set are read ahead"]


def _unread_footers() -> list[str]:
    scene = JobScene()
    job = scene.job(footers=True)
    task = job.task(0)
    task.setup()
    task.filesystem.pipe_file(f"{task.path}/f.csv", b"a\n1\n")
    [name] = [one for one in scene.work() if one.endswith(".pending")]
    raw = scene.objects()[f"{scene.destination}/{name}"][0]
    scene.put(name, raw.replace(b'{\\"rows\\":2', b'{\\"rows\\":-2'))
    report = job.commit([task.commit()])
    said = [one for one in report.warnings if "cannot be read" in one]
    return [] if len(said) == 1 else [f"a footer that cannot be read: {report.warnings}"]


def _many_jobs() -> list[str]:
    said = context.crowded("s3://b/d", 1001)
    return (
        []
        if "magicfs recover s3://b/d --job ID --abort" in said and not context.crowded("x", 1000)
        else [f"1,001 jobs: {said}"]
    )


# -- the log of publications -----------------------------------------------------------------------------


def _store() -> Store:
    world = World()
    world.create_bucket("b")
    return world.store("b")


class _Logs:
    """A log in the making, whose parts name each other as nobody would write them."""

    def __init__(self) -> None:
        self.store = _store()
        self.reads = 0
        self._get = self.store.get
        self.store.get = self._counted  # type: ignore[method-assign]

    async def _counted(self, key: str, *, size_max: int | None = None) -> bytes:
        self.reads += 1
        if self.reads > _READS_MAX:
            raise AssertionError(f"more than {_READS_MAX} files of a log are read")
        return await self._get(key, size_max=size_max)

    def part(self, content: LoggedPart, number: int, *, level: int, jobs: int) -> LogPart:
        """Write a part, and say of it what is given."""
        raw = content.to_bytes()
        sha256 = hashlib.sha256(raw).hexdigest()
        name = f"log-{number:05d}-{sha256[:16]}.json"
        asyncio.run(self.store.put(log_files.key_of("d", (_JOB, name)), raw))
        return LogPart(job_id=_JOB, name=name, sha256=sha256, level=level, jobs=jobs, oldest_ms=1)

    def jobs(self, parts: Sequence[LogPart]) -> list[LoggedJob]:
        """All jobs of a log of these parts."""
        whole = Log(job_id=_JOB, newest=_JOB, jobs=0, runs=0, parts=tuple(parts))

        async def read() -> list[LoggedJob]:
            return [one async for one in log.newest_first(self.store, "d", whole)]

        return asyncio.run(read())


def _leaf(jobs: int = 1) -> LoggedPart:
    listed = [LoggedJob(job_id=f"j{n}", mode="append", committed_ms=1, files=0, size=0) for n in range(jobs)]
    return LoggedPart(job_id=_JOB, jobs=tuple(listed))


def _named_twice() -> list[str]:
    logs = _Logs()
    below = logs.part(_leaf(), 0, level=0, jobs=1)
    top = logs.part(LoggedPart(job_id=_JOB, parts=(below, below)), 1, level=1, jobs=2)
    return _problem("a part that names one twice", lambda: logs.jobs([top]), said="named twice")


def _wrong_sum() -> list[str]:
    logs = _Logs()
    return _problem(
        "a part of fewer jobs than it says",
        lambda: logs.jobs([logs.part(_leaf(2), 0, level=0, jobs=9)]),
        said="2 jobs, and not the 9",
    )


def _wrong_sum_of_all() -> list[str]:
    logs, raw = _Logs(), Log(job_id=_JOB, newest=_JOB, jobs=7, runs=0).to_bytes()
    name = "log-00000-0123456789abcdef.json"
    asyncio.run(logs.store.put(log_files.key_of("d", (_JOB, name)), raw))
    file = LogFile(job_id=_JOB, name=name, sha256=hashlib.sha256(raw).hexdigest())
    call = lambda: asyncio.run(log_files.read_log(logs.store, "d", file))  # noqa: E731
    return _problem("a log of fewer jobs than it says", call, said="and it names 0")


def _too_high() -> list[str]:
    logs = _Logs()
    below = logs.part(_leaf(), 0, level=0, jobs=1)
    for level in range(1, 90):
        content = LoggedPart(job_id=_JOB, parts=(below,))
        below = logs.part(content, level, level=level, jobs=1)
    return _problem("90 parts, each in the next", lambda: logs.jobs([below]), said="at most 20 are read")


def _shared_parts() -> list[str]:
    """Two parts of each level name both of the level below: 2**12 ways down, and 24 files."""
    logs, jobs = _Logs(), 1
    pair = [logs.part(_leaf(1), 0, level=0, jobs=1), logs.part(_leaf(1), 1, level=0, jobs=1)]
    for level in range(1, 13):
        jobs *= 2
        contents = [LoggedPart(job_id=_JOB, parts=tuple(pair), unknown={"n": n}) for n in range(2)]
        pair = [
            logs.part(content, 2 * level + n, level=level, jobs=jobs) for n, content in enumerate(contents)
        ]
    return _problem(
        "parts that share parts", lambda: logs.jobs(pair), said="several parts of the log name it"
    )


ATTACKS: Sequence[Callable[[], list[str]]] = (
    *(_sum_of_bytes, _unreadable_job, _values_of_a_manifest, _many_footers, _many_rows, _held_in_memory),
    *(_read_ahead, _unread_footers, _many_jobs, _named_twice, _wrong_sum, _wrong_sum_of_all, _too_high),
    _shared_parts,
)
"""Each returns what is wrong, nothing with sound code."""

_TRANSACTION, _MANIFESTS = "magicfs.transaction", "magicfs.manifests"


def _mutant(name: str, module: str, line: str, instead: str, attack: Callable[[], list[str]]) -> WrongLine:
    return WrongLine(name, module, line, instead, attack)


MUTANTS: Sequence[WrongLine] = (
    _mutant(
        "bytes of a job have no bound",
        f"{_TRANSACTION}.output",
        "if output.bytes > LONG_MAX:",
        "if False:",
        _sum_of_bytes,
    ),
    _mutant(
        "a job object is written unread",
        f"{_TRANSACTION}.record",
        'JobObject.from_bytes(f"the object of job {job.job_id}, which was not written", raw)',
        "pass",
        _unreadable_job,
    ),
    _mutant(
        "a manifest may have any number of values",
        f"{_TRANSACTION}.prepare",
        "if values > MANIFEST_VALUE_LIMIT:",
        "if False:",
        _values_of_a_manifest,
    ),
    _mutant(
        "footers have one list however many they are",
        f"{_MANIFESTS}.footers",
        "if len(group) == 1:",
        "if True:",
        _many_footers,
    ),
    _mutant(
        "a manifest has rows beyond 64 bits",
        f"{_MANIFESTS}.footers",
        "rows = None if rows is None or rows > LONG_MAX else rows",
        "pass",
        _many_rows,
    ),
    _mutant(
        "few files are held in memory whatever they say",
        f"{_TRANSACTION}.spool",
        "if self._files <= FILES_HELD and self._characters <= CHARACTERS_HELD:",
        "if self._files <= FILES_HELD:",
        _held_in_memory,
    ),
    _mutant(
        "sets of any size are read ahead",
        f"{_TRANSACTION}.attempt_output",
        "return key, await read(key, min(READ_AHEAD_SIZE, size_limit) + 1)",
        "return key, await read(key, size_limit + 1)",
        _read_ahead,
    ),
    _mutant(
        "nobody hears of footers that cannot be read",
        f"{_TRANSACTION}.output",
        "self.unread_footers = unread",
        "pass",
        _unread_footers,
    ),
    _mutant(
        "a crowd of jobs is not worth a word",
        f"{_TRANSACTION}.context",
        "if jobs <= MANY_JOBS:",
        "if True:",
        _many_jobs,
    ),
    _mutant(
        "a part of a log is named twice",
        "magicfs.formats.log",
        "if len({(one.job_id, one.name) for one in parts}) < len(parts):",
        "if False:",
        _named_twice,
    ),
    _mutant(
        "a part of a log stands for any number of jobs",
        f"{_MANIFESTS}.log_files",
        "if jobs != part.jobs:",
        "if False:",
        _wrong_sum,
    ),
    _mutant(
        "a log may name any number of jobs",
        f"{_MANIFESTS}.log_files",
        "if jobs != log.jobs:",
        "if False:",
        _wrong_sum_of_all,
    ),
    _mutant(
        "parts of a log lie in each other without an end",
        "magicfs.formats.log",
        "if one.level > LEVEL_MAX:",
        "if False:",
        _too_high,
    ),
    _mutant(
        "a part of a log is read as often as it is named",
        f"{_MANIFESTS}.log",
        "if whose(part) in seen:",
        "if False:",
        _shared_parts,
    ),
)
