"""The mutants: each is one line of the shipped code, made wrong, and the invariant that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.crash.settings import Setting
from proofs.scenes.mutants import Mutant

__all__ = ["MUTANTS", "WITHOUT_SWAP", "CrashMutant"]

_EXECUTION: Final = "magicfs.transaction.execute"
_PREPARING: Final = "magicfs.transaction.prepare"
_SWEEP: Final = "magicfs.transaction.sweep"
_LAYOUT: Final = "magicfs.protocol.layout"


@dataclass(frozen=True, slots=True)
class CrashMutant(Mutant):
    """A wrong line of a commit.

    Attributes:
        letter: The invariant that must catch it.
        jobs: Settings in which it is hunted.
        way: How: ``singles``, ``expired``; ``waited``, ``overwritten``, ``rewritten`` or ``altered`` (see
            ``dropped``); by seeds of simulations in a company (see ``Chances``); by seeds of two
            destinations, ``elsewhere``.
    """

    letter: str
    jobs: tuple[Setting, ...]
    way: str = "singles"


def _job(mode: str = "overwrite", shape: str = "two", **other: str) -> Setting:
    values = {"mode": mode, "shape": shape} | other
    return Setting(**values)  # type: ignore[arg-type]


_REPLACE: Final = (_job(),)
_CHAINED: Final = (_job(shape="three"),)
_LOSERS: Final = (_job("append", "losers"),)

WITHOUT_SWAP: Final = CrashMutant(
    "no commit point",
    "magicfs.transaction.record",
    "entry = await self._register.swap(version.entry, moved.to_bytes())",
    "entry = version.entry if state is JobState.COMMITTING else "
    "await self._register.swap(version.entry, moved.to_bytes())",
    "a",
    (_job(), _job("append"), _job("error"), _job("overwrite_partitions", "three")),
)
"""The swap to ``committing`` is not made: files become visible on nobody's word."""

MUTANTS: Final[tuple[CrashMutant, ...]] = (
    WITHOUT_SWAP,
    CrashMutant(
        "complete before the commit point",
        _PREPARING,
        "planner.check()",
        "from magicfs.protocol.steps import Batch; "
        'await engine.run(Batch("complete", output.steps())); '
        "planner.check()",
        "a",
        _REPLACE,
    ),
    CrashMutant(
        "delete first",
        _EXECUTION,
        "output, *success = await at_once(reading, *looks)",
        "output, *success = await at_once(reading, *looks); "
        "await publish.delete_old(self.cleaner, self.record.conditions, "
        "await facts.read_deletions(self.cleaner, self.context, job), output, "
        "partial(self.record.confirm, version))",
        "b",
        _REPLACE,
    ),
    CrashMutant(
        "_SUCCESS first",
        _EXECUTION,
        "altered = await publish.delete_old(self.cleaner, conditions, settling.deleted, done.output, check)",
        "await publish.write_success(self.cleaner, context, conditions, job, done.output); "
        "altered = await publish.delete_old(self.cleaner, conditions, settling.deleted, done.output, check)",
        "f",
        _REPLACE,
    ),
    CrashMutant(
        "the old _SUCCESS stays while files appear",
        _EXECUTION,
        "version = await publish.hide_success(self.engine, self.context, self.record, version, *success)",
        "pass",
        "f",
        _REPLACE,
    ),
    CrashMutant(
        "the old _SUCCESS is not restored",
        "magicfs.transaction.revert",
        "if job.old_success is not None and old_success is not None and not problems:",
        "if False:",
        "b",
        _REPLACE,
    ),
    CrashMutant(
        "manifest first",
        _EXECUTION,
        "last = set(job.equal_keys)",
        "last = set(job.equal_keys); await publish.publish_manifest("
        "self.cleaner, self.context, self.record.conditions, job, output, [], ETags(), {})",
        "f",
        _CHAINED,
    ),
    CrashMutant(
        "no readback: an unknown upload is taken for done",
        "magicfs.protocol.readback",
        "if found is not None and found.exists and write_id is not None and found.write_id == write_id:",
        "if isinstance(error, UploadNotFound):",
        "b",
        (_job("append", "three"),),
        "expired",
    ),
    CrashMutant(
        "completed although a file failed",
        _EXECUTION,
        "if not result.ok:",
        "if False:",
        "b",
        (_job("append", "three"),),
        "expired",
    ),
    CrashMutant(
        "equal names are replaced first",
        _EXECUTION,
        "last = set(job.equal_keys)",
        "last = set[str]()",
        "b",
        (_job(names="equal"),),
    ),
    CrashMutant(
        "a revert leaves what is visible",
        "magicfs.transaction.revert",
        "if may_delete(Purpose.TAKE_BACK, info.key, shown, own):",
        "if None in own.values():",
        "b",
        _REPLACE,
    ),
    CrashMutant(
        "cleanup removes the job object first",
        _EXECUTION,
        "swept = await sweep(",
        "await self.record.remove(version); swept = await sweep(",
        "d",
        (_job("append", "losers"), _job("append", "losers", tracking="memory")),
    ),
    CrashMutant(
        "losers' uploads are not looked for",
        _SWEEP,
        "if swept.unlisted is None:",
        "if False:",
        "d",
        (_job("append", "losers", tracking="memory"),),
    ),
    CrashMutant(
        "cleanup sees the first page only",
        _SWEEP,
        "listed = [info.key async for info in engine.store.list(prefix)]",
        "listed = [info.key async for info in engine.store.list(prefix, limit=3)]",
        "d",
        _LOSERS,
    ),
    CrashMutant(
        "replace sees the first page only",
        "magicfs.transaction.planning",
        "async for info in engine.store.list(paths.prefix_of(directory)):",
        "async for info in engine.store.list(paths.prefix_of(directory), limit=16):",
        "b",
        _REPLACE,
    ),
    CrashMutant(
        "prefix without slash",
        "magicfs.protocol.paths",
        'return f"{directory}/" if directory else ""',
        "return directory",
        "e",
        _REPLACE,
    ),
    CrashMutant(
        "every upload under the destination is the job's own",
        _SWEEP,
        "if _is_own(context, upload.key):",
        "if True:",
        "e",
        _REPLACE,
    ),
    CrashMutant(
        "cleanup takes the work of all jobs",
        _SWEEP,
        "prefix = paths.prefix_of(context.layout.job_directory)",
        "prefix = paths.prefix_of(context.layout.magic_directory)",
        "e",
        (_job("append", layout="__magic"),),
    ),
    CrashMutant(
        "pending sets are named by task only",
        _LAYOUT,
        'return f"{self.sets_directory}/{attempt}{PENDING_SET}"',
        'return f"{self.sets_directory}/attempt-{ids.task_of_attempt(attempt)}-0{PENDING_SET}"',
        "c",
        _LOSERS,
    ),
    CrashMutant(
        "what the engine accepted is ignored",
        "magicfs.transaction.output",
        "output = await load_commits(engine, context, sets, commits)",
        "output = await load_listed(engine, context, sets)",
        "c",
        _LOSERS,
    ),
    CrashMutant(
        "nobody else is looked for",
        _PREPARING,
        "rivals = conflicting(others, context.job, partitions)",
        "rivals = []",
        "b",
        (_job(),),
        "rivals",
    ),
    CrashMutant(
        "the pointer is not read again",
        _PREPARING,
        "if not in_the_way and pointer != plan.pointer:",
        "if False:",
        "b",
        (_job(),),
        "rivals",
    ),
    CrashMutant(
        "a swap replaces whatever is there",
        "magicfs.stores.register",
        "self.key, body, metadata=_digest(body), mode=mode",
        "self.key, body, metadata=_digest(body)",
        "b",
        (_job(),),
        "races",
    ),
    CrashMutant(
        "a job that has ended is begun again",
        "magicfs.transaction.driver",
        "may_create = context.layout.attempt == 0",
        "may_create = True",
        "d",
        (_job(),),
        "drivers",
    ),
    CrashMutant(
        "the state table takes a rollback for a wish to finish",
        "magicfs.protocol.job_state",
        "case JobState.COMMITTING, Wish.ROLLBACK:",
        "case JobState.REVERTING, Wish.ROLLBACK:",
        "b",
        (_job(),),
    ),
)
"""At least fifteen."""
