"""What jobs that flip have left beside a destination: old datasets, and the work of jobs that have ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from magicfs.datasets.connection import context_of
from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.report import Action, RecoveredJob
from magicfs.stores.conditions import conditions_of
from magicfs.transaction.flip_remains import Beside, clear_beside

__all__ = ["clear"]


async def clear(
    engine: Engine,
    location: Location,
    beside: Iterable[Beside],
    unfinished: Collection[JobId],
    *,
    dry_run: bool,
) -> list[RecoveredJob]:
    """Remove what lies beside a destination, but for the work of jobs that have not ended.

    ``beside``: what ``find_beside`` found, before ``unfinished``, the jobs that have their object at the
    destination, were listed: a job writes its object there first.
    """
    found = [one for one in beside if one.job not in unfinished]
    return [await _clear(engine, location, one, dry_run=dry_run) for one in found]


async def _clear(engine: Engine, location: Location, one: Beside, *, dry_run: bool) -> RecoveredJob:
    if dry_run:
        return _as_recovered_job(one, "would sweep" if one.stage == "new" else "would finish")
    layout = WorkLayout(location.key, one.job, 0, one.layout)
    conditions = await conditions_of(engine.store, f"{one.directory}/__magic")
    try:
        deleted, warnings = await clear_beside(engine, context_of(location, layout), conditions, one)
    except MagicError as error:
        return _as_recovered_job(one, "not finished", reason=str(error))
    done: Action = "swept" if one.stage == "new" else "finished"
    return _as_recovered_job(
        one, "not finished" if warnings else done, deleted=deleted, warnings=tuple(warnings)
    )


def _as_recovered_job(
    one: Beside, action: Action, *, deleted: int = 0, warnings: tuple[str, ...] = (), reason: str = ""
) -> RecoveredJob:
    return RecoveredJob(
        job_id=one.job,
        found="ended" if one.stage == "new" else "flipped",
        action=action,
        age_s=0.0,
        host="",
        deleted=deleted,
        reason=reason,
        warnings=warnings,
    )
