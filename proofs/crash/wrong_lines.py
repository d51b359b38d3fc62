"""The mutants: each is one line of the shipped code, made wrong, and the invariant that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.crash.settings import Setting

__all__ = ["MUTANTS", "WITHOUT_SWAP", "Mutant"]

_EXECUTION: Final = "magicfs.transaction.execute"
_PREPARING: Final = "magicfs.transaction.prepare"
_SWEEP: Final = "magicfs.transaction.sweep"
_LAYOUT: Final = "magicfs.protocol.layout"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong line.

    Attributes:
        name: What is wrong.
        letter: The invariant that must catch it.
        module: Where.
        line: What it says.
        instead: What it says instead.
        jobs: Settings in which it is hunted.
        way: How: ``singles``, ``expired``; ``waited``, ``overwritten``, ``rewritten`` or ``altered`` (see
            ``dropped``); by seeds of simulations in a company (see ``Chances``); by seeds of two
            destinations, ``elsewhere``.
    """

    name: str
    letter: str
    module: str
    line: str
    instead: str
    jobs: tuple[Setting, ...]
    way: str = "singles"


def _job(mode: str = "overwrite", shape: str = "two", **other: str) -> Setting:
    values = {"mode": mode, "shape": shape} | other
    return Setting(**values)  # type: ignore[arg-type]


_REPLACE: Final = (_job(),)
_CHAINED: Final = (_job(shape="three"),)
_LOSERS: Final = (_job("append", "losers"),)

WITHOUT_SWAP: Final = Mutant(
    "no commit point",
    "a",
    "magicfs.transaction.record",
    "entry = await self._register.swap(version.entry, moved.to_bytes())",
    "entry = version.entry if state is JobState.COMMITTING else "
    "await self._register.swap(version.entry, moved.to_bytes())",
    (_job(), _job("append"), _job("error"), _job("overwrite_partitions", "three")),
)
"""The swap to ``committing`` is not made: files become visible on nobody's word."""

MUTANTS: Final[tuple[Mutant, ...]] = (
    WITHOUT_SWAP,
    Mutant(
        "complete before the commit point",
        "a",
        _PREPARING,
        "planner.check()",
        "from magicfs.protocol.steps import Batch; "
        'await engine.run(Batch("complete", output.steps())); '
        "planner.check()",
        _REPLACE,
    ),
    Mutant(
        "delete first",
        "b",
        _EXECUTION,
        "output, *success = await at_once(reading, *looks)",
        "output, *success = await at_once(reading, *looks); "
        "await publish.delete_old(self.cleaner, self.record.conditions, "
        "await facts.read_deletions(self.cleaner, self.context, job), output, "
        "partial(self.record.confirm, version))",
        _REPLACE,
    ),
    Mutant(
        "_SUCCESS first",
        "f",
        _EXECUTION,
        "altered = await publish.delete_old(self.cleaner, conditions, settling.deleted, done.output, check)",
        "await publish.write_success(self.cleaner, context, conditions, job, done.output); "
        "altered = await publish.delete_old(self.cleaner, conditions, settling.deleted, done.output, check)",
        _REPLACE,
    ),
    Mutant(
        "the old _SUCCESS stays while files appear",
        "f",
        _EXECUTION,
        "version = await publish.hide_success(self.engine, self.context, self.record, version, *success)",
        "pass",
        _REPLACE,
    ),
    Mutant(
        "the old _SUCCESS is not restored",
        "b",
        "magicfs.transaction.revert",
        "if job.old_success is not None and old_success is not None and not problems:",
        "if False:",
        _REPLACE,
    ),
    Mutant(
        "manifest first",
        "f",
        _EXECUTION,
        "last = set(job.equal_keys)",
        "last = set(job.equal_keys); await publish.publish_manifest("
        "self.cleaner, self.context, self.record.conditions, job, output, [], ETags(), {})",
        _CHAINED,
    ),
    Mutant(
        "no readback: an unknown upload is taken for done",
        "b",
        "magicfs.protocol.readback",
        "if found is not None and found.exists and write_id is not None and found.write_id == write_id:",
        "if isinstance(error, UploadNotFound):",
        (_job("append", "three"),),
        "expired",
    ),
    Mutant(
        "completed although a file failed",
        "b",
        _EXECUTION,
        "if not result.ok:",
        "if False:",
        (_job("append", "three"),),
        "expired",
    ),
    Mutant(
        "equal names are replaced first",
        "b",
        _EXECUTION,
        "last = set(job.equal_keys)",
        "last = set[str]()",
        (_job(names="equal"),),
    ),
    Mutant(
        "a revert leaves what is visible",
        "b",
        "magicfs.transaction.revert",
        "if may_delete(Purpose.TAKE_BACK, info.key, shown, own):",
        "if None in own.values():",
        _REPLACE,
    ),
    Mutant(
        "cleanup removes the job object first",
        "d",
        _EXECUTION,
        "swept = await sweep(",
        "await self.record.remove(version); swept = await sweep(",
        (_job("append", "losers"), _job("append", "losers", tracking="memory")),
    ),
    Mutant(
        "losers' uploads are not looked for",
        "d",
        _SWEEP,
        "if swept.unlisted is None:",
        "if False:",
        (_job("append", "losers", tracking="memory"),),
    ),
    Mutant(
        "cleanup sees the first page only",
        "d",
        _SWEEP,
        "listed = [info.key async for info in engine.store.list(prefix)]",
        "listed = [info.key async for info in engine.store.list(prefix, limit=3)]",
        _LOSERS,
    ),
    Mutant(
        "replace sees the first page only",
        "b",
        "magicfs.transaction.planning",
        "async for info in engine.store.list(paths.prefix_of(directory)):",
        "async for info in engine.store.list(paths.prefix_of(directory), limit=16):",
        _REPLACE,
    ),
    Mutant(
        "prefix without slash",
        "e",
        "magicfs.protocol.paths",
        'return f"{directory}/" if directory else ""',
        "return directory",
        _REPLACE,
    ),
    Mutant(
        "every upload under the destination is the job's own",
        "e",
        _SWEEP,
        "if _is_own(context, upload.key):",
        "if True:",
        _REPLACE,
    ),
    Mutant(
        "cleanup takes the work of all jobs",
        "e",
        _SWEEP,
        "prefix = paths.prefix_of(context.layout.job_directory)",
        "prefix = paths.prefix_of(context.layout.magic_directory)",
        (_job("append", layout="__magic"),),
    ),
    Mutant(
        "pending sets are named by task only",
        "c",
        _LAYOUT,
        'return f"{self.sets_directory}/{attempt}{PENDING_SET}"',
        'return f"{self.sets_directory}/attempt-{ids.task_of_attempt(attempt)}-0{PENDING_SET}"',
        _LOSERS,
    ),
    Mutant(
        "what the engine accepted is ignored",
        "c",
        "magicfs.transaction.output",
        "output = await load_commits(engine, context, sets, commits)",
        "output = await load_listed(engine, context, sets)",
        _LOSERS,
    ),
    Mutant(
        "nobody else is looked for",
        "b",
        _PREPARING,
        "rivals = conflicting(others, context.job, partitions)",
        "rivals = []",
        (_job(),),
        "rivals",
    ),
    Mutant(
        "the pointer is not read again",
        "b",
        _PREPARING,
        "if not in_the_way and pointer != plan.pointer:",
        "if False:",
        (_job(),),
        "rivals",
    ),
    Mutant(
        "a swap replaces whatever is there",
        "b",
        "magicfs.stores.register",
        "self.key, body, metadata=_digest(body), mode=mode",
        "self.key, body, metadata=_digest(body)",
        (_job(),),
        "races",
    ),
    Mutant(
        "a job that has ended is begun again",
        "d",
        "magicfs.transaction.driver",
        "may_create = context.layout.attempt == 0",
        "may_create = True",
        (_job(),),
        "drivers",
    ),
    Mutant(
        "the state table takes a rollback for a wish to finish",
        "b",
        "magicfs.protocol.job_state",
        "case JobState.COMMITTING, Wish.ROLLBACK:",
        "case JobState.REVERTING, Wish.ROLLBACK:",
        (_job(),),
    ),
)
"""At least fifteen."""
