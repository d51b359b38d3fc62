"""Publishing an earlier state again: one job more, whose files are old ones that are still there."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

from magicfs.datasets.commit import commit_or_abort
from magicfs.datasets.connection import told_as_newest
from magicfs.engine import Engine
from magicfs.formats.job_options import JobOptions, Rollback
from magicfs.manifests.chain import READING
from magicfs.past.as_of import job_as_of
from magicfs.past.chosen_partitions import partitions_where
from magicfs.past.copies import copy_what_is_gone
from magicfs.past.effects import Effects, log_effects, of_rollback
from magicfs.past.promise import keep_of
from magicfs.past.row_condition import Condition
from magicfs.protocol import ids
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.protocol.period import NotSaid
from magicfs.report import JobReport
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput
from magicfs.transaction.taken_back import run_in_effect

_ADVICE: Final = "give partitions= (--partition) to roll back only some directories"


@dataclass(frozen=True, slots=True)
class RollbackReport(JobReport):
    """A rollback that was published, or with ``dry_run`` would be.

    Attributes:
        effects: The publications that it takes back, and the files that it removes, restores, or deletes for
            good; empty if the run was already published.
        dry_run: Whether nothing was changed.
    """

    effects: Effects = field(default_factory=Effects)
    dry_run: bool = False

    @classmethod
    def of(cls, report: JobReport, effects: Effects, *, dry_run: bool = False) -> RollbackReport:
        """The report of a rollback's job, with what it changes."""
        known = {one.name: getattr(report, one.name) for one in fields(JobReport)}
        return cls(**known, effects=effects, dry_run=dry_run)

    @property
    def published(self) -> bool:
        """Whether this call published the rollback."""
        return not (self.dry_run or self.published_before)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = JobReport.to_dict(replace(self, effects=Effects()))
        return {**plain, "effects": self.effects.to_dict()}

    def __str__(self) -> str:
        first = f"dry run     {self.destination} would be rolled back; nothing was changed"
        lines = [f"{name:<12}{value}" for name, value in self.effects.lines() if value]
        return "\n".join([first if self.dry_run else JobReport.__str__(self), *lines])


async def look_and_roll_back(
    engine: Engine, location: Location, *, dry_run: bool, **how: Any
) -> RollbackReport:
    """``magicfs.Dataset.rollback``, on the store's loop; ``how`` is what ``roll_back`` takes."""
    context = await _context(engine, location, **how)
    if dry_run:
        effects = await of_rollback(engine, location, context)
        nothing = JobReport("", location.url, context.options.committer, context.options.mode, 0, 0, 0, 0.0)
        return RollbackReport.of(nothing, effects, dry_run=True)
    run, effects = context.options.run_id, Effects()
    if run is None or await run_in_effect(engine.store, location.key, READING, run) is None:
        effects = await of_rollback(engine, location, context)
        advice = (
            _ADVICE if context.options.rollback.partitions is None and len(effects.publications) > 1 else ""
        )
        log_effects(effects, location.url, "rolling back", advice=advice)
    report = await _publish(engine, location, context)
    return RollbackReport.of(report, Effects() if report.published_before else effects)


async def roll_back(
    engine: Engine,
    location: Location,
    *,
    to: str | datetime,
    partitions: tuple[str, ...] | None = None,
    where: Condition | None = None,
    keep_ms: int | NotSaid | None = None,
    keep_in_place: bool = False,
    keep_rule: str = "",
    run_id: str | None = None,
    job: ids.JobId,
) -> JobReport:
    """``rollback``, on the store's loop, for callers who have looked before what it changes."""
    asked = (to, partitions, where, keep_ms, keep_in_place, keep_rule, run_id, job)
    return await _publish(engine, location, await _context(engine, location, *asked))


async def _context(
    engine: Engine,
    location: Location,
    to: str | datetime,
    partitions: tuple[str, ...] | None,
    where: Condition | None,
    keep_ms: int | NotSaid | None,
    keep_in_place: bool,
    keep_rule: str,
    run_id: str | None,
    job: ids.JobId,
) -> JobContext:
    if where is not None:
        partitions = await partitions_where(engine, location, to, where)
    return JobContext(
        url=location.url,
        layout=WorkLayout(location.key, job),
        options=JobOptions(
            committer="magic",
            mode="overwrite" if partitions is None else "overwrite_partitions",
            run_id=run_id,
            keep=await keep_of(engine, location, keep_ms, in_place=keep_in_place, rule=keep_rule),
            rollback=Rollback(job=await job_as_of(engine, location, to), partitions=partitions),
        ),
    )


async def _publish(engine: Engine, location: Location, context: JobContext) -> JobReport:
    transaction = JobTransaction(await told_as_newest(engine, location), context)
    found = await transaction.set_up()
    if found.published is not None:
        await transaction.abort((), found.driver, given=False)
        return JobReport.before(
            found.published, location.url, context.options.committer, context.options.mode
        )

    async def load() -> JobOutput:
        return await copy_what_is_gone(transaction.engine, context, READING)

    return await commit_or_abort(transaction, load, found.driver)
