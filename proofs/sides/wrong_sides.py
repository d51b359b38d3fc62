"""The mutants that only maintenance, the public API or sizes can catch, and the check that must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.scenes.mutants import Mutant

__all__ = ["SIDE_MUTANTS", "SideMutant"]

_ADOPT: Final = "magicfs.operate.adopt"
_JOB: Final = "magicfs.job.job"
_JOB_COMMIT: Final = "magicfs.job.commit"
_SETTINGS: Final = "magicfs.filesystem.job_settings"
_CAPACITY: Final = "magicfs.transaction.prepare"


@dataclass(frozen=True, slots=True)
class SideMutant(Mutant):
    """A wrong line, and the check that must notice it, by its name."""

    check: str


SIDE_MUTANTS: Final[tuple[SideMutant, ...]] = (
    # -- maintenance -----------------------------------------------------------------------------------
    SideMutant(
        "what is adopted was listed once",
        _ADOPT,
        "found.leave_changed(await listed_files(store, location))",
        "pass",
        "half visible, append: adopt beside rollback",
    ),
    SideMutant(
        "files of unfinished jobs are adopted",
        _ADOPT,
        "await refuse_unfinished(engine, location)",
        "pass",
        "half visible, append: adopt beside rollback",
    ),
    SideMutant(
        "a compaction that was too slow takes its sum for linked",
        "magicfs.manifests.chain",
        "if await _is_linked(store, destination, conditions, newest, linked[-1]):",
        "if True:",
        "no job: compact beside compact",
    ),
    # -- the public API --------------------------------------------------------------------------------
    SideMutant(
        "Ctrl-C stops a job past its commit point",
        "magicfs.runtime.interrupt",
        "if (call := _CALL.get()) is not None:",
        "if False:",
        "Ctrl-C: magic, append",
    ),
    SideMutant(
        "a job that is published in spite of Ctrl-C says that it is open",
        "magicfs.job.commit",
        "if call.succeeded:",
        "if call.succeeded and not call.interrupted:",
        "Ctrl-C: magic, overwrite",
    ),
    SideMutant(
        "a fork ends the job of its parent",
        _JOB,
        "return self._process is not None and self._process != os.getpid()",
        "return False",
        "forked",
    ),
    SideMutant(
        "what a process knows of one job it takes for another's",
        _SETTINGS,
        "return known.settings if known else None",
        "return next(reversed(self._jobs.values())).settings if self._jobs else None",
        "alternately",
    ),
    SideMutant(
        "options of the filesystem count for more than the job",
        "magicfs.filesystem.connection",
        "return known and self._counting(path, owner, known)",
        "return self._settings",
        "alternately",
    ),
    SideMutant(
        "another process does not read how a job is tracked",
        _SETTINGS,
        "return WriteSettings(job.options, job.object_settings)",
        "return WriteSettings(type(job.options)(committer='magic', mode='append'), job.object_settings)",
        "elsewhere",
    ),
    SideMutant(
        "a task that is never committed is not missed",
        "magicfs.job.task",
        "self._states[attempt] = state",
        "pass",
        "not_committed",
    ),
    SideMutant(
        "commits that nobody handed over are not missed",
        _JOB_COMMIT,
        "if missing := sorted(set(listed) - {one.task_id for one in commits}):",
        "if missing := sorted(set(listed) - set(listed)):",
        "not_handed_over",
    ),
    SideMutant(
        "a driver that comes late is not told what is lost",
        "magicfs.transaction.late_driver",
        "if lost:",
        "if False:",
        "late",
    ),
    SideMutant(
        "a file that was collected unclosed is not missed",
        "magicfs.filesystem.tracking",
        "self._scopes.setdefault(scope, Scope()).lost[path] = error",
        "pass",
        "not_closed",
    ),
    # -- sizes -----------------------------------------------------------------------------------------
    SideMutant(
        "a manifest may be too large to be read",
        _CAPACITY,
        "if size > MANIFEST_SIZE_LIMIT:",
        "if False:",
        "manifests",
    ),
    SideMutant(
        "statistics may be too large to be read",
        _CAPACITY,
        "if size > SUCCESS_SIZE_LIMIT - _NAMES:",
        "if False:",
        "statistics",
    ),
    SideMutant(
        "a job object may be too large to be read",
        "magicfs.transaction.record",
        "_check_size(moved)",
        "pass",
        "job_objects",
    ),
    SideMutant(
        "a pending set may be too large to be read",
        "magicfs.transaction.attempt_output",
        "found.to_bytes(context.options.hadoop.etag_format)  # nobody would read it: UsageError",
        "pass",
        "pending_sets",
    ),
    SideMutant(
        "a chunk may have more parts than are read",
        "magicfs.transaction.facts",
        "if len(group) == length or (group and parts + more > _PARTS_MAX):",
        "if len(group) == length:",
        "parts",
    ),
    SideMutant(
        "what dead writers have left is not counted in a short listing",
        "magicfs.stores.local.listing",
        "found = list(islice(entries, None if most is None else most + 1))",
        "found = [one for one in islice(entries, None if most is None else most + 1) "
        "if not OURS.fullmatch(one.name)]",
        "crowded",
    ),
)
