"""The mutants that only maintenance, the public API or sizes can catch, and the check that must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SIDE_MUTANTS", "SideMutant"]

_ADOPT: Final = "magicfs.operate.adopt"
_JOB: Final = "magicfs.job.job"
_JOB_COMMIT: Final = "magicfs.job.commit"
_SETTINGS: Final = "magicfs.filesystem.job_settings"
_CAPACITY: Final = "magicfs.transaction.prepare"


@dataclass(frozen=True, slots=True)
class SideMutant:
    """One wrong line.

    Attributes:
        name: What is wrong.
        check: The check that must notice it, by its name.
        module: Where.
        line: What it says.
        instead: What it says instead.
    """

    name: str
    check: str
    module: str
    line: str
    instead: str


SIDE_MUTANTS: Final[tuple[SideMutant, ...]] = (
    # -- maintenance -----------------------------------------------------------------------------------
    SideMutant(
        "what is adopted was listed once",
        "half visible, append: adopt beside rollback",
        _ADOPT,
        "there = await listed_files(store, location)",
        "there = found.files",
    ),
    SideMutant(
        "files of unfinished jobs are adopted",
        "half visible, append: adopt beside rollback",
        _ADOPT,
        "await refuse_unfinished(engine, location)",
        "pass",
    ),
    SideMutant(
        "a compaction that was too slow takes its sum for linked",
        "no job: compact beside compact",
        "magicfs.manifests.chain",
        "if await _is_linked(store, destination, conditions, newest, manifest):",
        "if True:",
    ),
    # -- the public API --------------------------------------------------------------------------------
    SideMutant(
        "Ctrl-C stops a job past its commit point",
        "Ctrl-C: magic, append",
        "magicfs.runtime.interrupt",
        "if (call := _CALL.get()) is not None:",
        "if False:",
    ),
    SideMutant(
        "a job that is published in spite of Ctrl-C says that it is open",
        "Ctrl-C: magic, overwrite",
        "magicfs.job.commit",
        "if call.succeeded:",
        "if call.succeeded and not call.interrupted:",
    ),
    SideMutant(
        "a fork ends the job of its parent",
        "forked",
        _JOB,
        "return self._process is not None and self._process != os.getpid()",
        "return False",
    ),
    SideMutant(
        "what a process knows of one job it takes for another's",
        "alternately",
        _SETTINGS,
        "return known.settings if known else None",
        "return next(reversed(self._jobs.values())).settings if self._jobs else None",
    ),
    SideMutant(
        "options of the filesystem count for more than the job",
        "alternately",
        "magicfs.filesystem.connection",
        "return known and self._counting(path, owner, known)",
        "return self._settings",
    ),
    SideMutant(
        "another process does not read how a job is tracked",
        "elsewhere",
        _SETTINGS,
        "return WriteSettings(job.options, job.object_settings)",
        "return WriteSettings(type(job.options)(committer='magic', mode='append'), job.object_settings)",
    ),
    SideMutant(
        "a task that is never committed is not missed",
        "not_committed",
        "magicfs.job.task",
        "self._open.add(attempt)",
        "pass",
    ),
    SideMutant(
        "commits that nobody handed over are not missed",
        "not_handed_over",
        _JOB_COMMIT,
        "if missing := sorted(set(listed) - {one.task_id for one in commits}):",
        "if missing := sorted(set(listed) - set(listed)):",
    ),
    SideMutant(
        "a driver that comes late is not told what is lost",
        "late",
        "magicfs.transaction.late_driver",
        "if lost:",
        "if False:",
    ),
    SideMutant(
        "a file that was collected unclosed is not missed",
        "not_closed",
        "magicfs.filesystem.tracking",
        "self._scopes.setdefault(scope, Scope()).lost[path] = error",
        "pass",
    ),
    # -- sizes -----------------------------------------------------------------------------------------
    SideMutant(
        "a manifest may be too large to be read",
        "manifests",
        _CAPACITY,
        "if size > MANIFEST_SIZE_LIMIT:",
        "if False:",
    ),
    SideMutant(
        "statistics may be too large to be read",
        "statistics",
        _CAPACITY,
        "if size > SUCCESS_SIZE_LIMIT - _NAMES:",
        "if False:",
    ),
    SideMutant(
        "a job object may be too large to be read",
        "job_objects",
        "magicfs.transaction.record",
        "_check_size(moved)",
        "pass",
    ),
    SideMutant(
        "a pending set may be too large to be read",
        "pending_sets",
        "magicfs.transaction.attempt_output",
        "found.to_bytes(context.options.hadoop.etag_format)  # nobody would read it: UsageError",
        "pass",
    ),
    SideMutant(
        "a chunk may have more parts than are read",
        "parts",
        "magicfs.transaction.facts",
        "if len(group) == length or (group and parts + more > _PARTS_MAX):",
        "if len(group) == length:",
    ),
    SideMutant(
        "what dead writers have left is not counted in a short listing",
        "crowded",
        "magicfs.stores.local.listing",
        "found = list(islice(entries, None if most is None else most + 1))",
        "found = [one for one in islice(entries, None if most is None else most + 1) "
        "if not OURS.fullmatch(one.name)]",
    ),
)
