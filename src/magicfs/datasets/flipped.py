"""What jobs that flip have left beside a destination: old datasets, and what a job makes there."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from functools import partial

from magicfs.datasets.connection import context_of
from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.formats.job_object import JobObject
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState, Wish
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.report import Action, RecoveredJob
from magicfs.stores.conditions import conditions_of
from magicfs.transaction.flip_remains import Beside, clear_beside, inner_job, is_made
from magicfs.transaction.outcome import refusal

__all__ = ["clear", "end_of_job"]


async def clear(
    engine: Engine,
    location: Location,
    beside: Iterable[Beside],
    unfinished: Collection[JobId],
    *,
    dry_run: bool,
) -> list[RecoveredJob]:
    """Bring what lies beside a destination to its end, but for the work of jobs that have not ended.

    ``beside``: what ``find_beside`` found, before ``unfinished``, the jobs that have their object at the
    destination, were listed: a job writes its object there first.
    """
    found = [one for one in beside if one.job not in unfinished]
    return [await end_of_job(engine, location, one, Wish.FINISH, dry_run=dry_run) for one in found]


async def end_of_job(
    engine: Engine, location: Location, one: Beside, wish: Wish, *, dry_run: bool
) -> RecoveredJob:
    """Bring what one job has left beside a destination to its end.

    A job whose object another flip has taken away is open until its driver commits: it is left, unless the
    wish is to abort it. Raises CommitDenied if the wish is to take back what is published; nothing changed.
    """
    layout = WorkLayout(location.key, one.job, 0, one.layout)
    context = context_of(location, layout)
    if one.stage != "new" and wish is not Wish.FINISH:
        raise refusal(one.job, JobState.COMPLETED, wish)
    inner = await inner_job(engine, one) if one.stage == "new" else None
    is_open = inner is not None or (one.stage == "new" and await is_made(engine, one))
    if is_open and wish is Wish.FINISH:
        return _as_recovered_job(one, "left", inner, is_open=True)
    done: Action = "finished" if one.stage != "new" else "aborted" if is_open else "swept"
    told = partial(_as_recovered_job, one, inner=inner, is_open=is_open)
    if dry_run:
        would: dict[Action, Action] = {
            "finished": "would finish",
            "swept": "would sweep",
            "aborted": "would abort",
        }
        return told(would[done])
    conditions = await conditions_of(engine.store, f"{one.directory}/__magic")
    try:
        is_published, deleted, warnings = await clear_beside(engine, context, conditions, one)
    except MagicError as error:
        return told("not finished", reason=str(error))
    done = "not finished" if warnings else "finished" if is_published else done
    return told(done, deleted=deleted, warnings=tuple(warnings))


def _as_recovered_job(
    one: Beside,
    action: Action,
    inner: JobObject | None,
    *,
    is_open: bool,
    deleted: int = 0,
    warnings: tuple[str, ...] = (),
    reason: str = "",
) -> RecoveredJob:
    ended = "ended" if one.stage == "new" else "flipped"
    return RecoveredJob(
        job_id=one.job,
        found="open" if is_open else ended,
        action=action,
        age_s=0.0 if inner is None else max(0.0, time.time() - inner.changed_ms / 1000),
        host="" if inner is None else inner.host,
        deleted=deleted,
        reason=reason,
        warnings=warnings,
    )
