"""Drawing the jobs of a simulation from its chances."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from magicfs.committers.registry import committer_info, committers
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId, TaskId
from magicfs.protocol.temporary import RENAMING
from magicfs.transaction.context import JobContext
from proofs.crash.chances import Chances
from proofs.crash.history import JobFacts
from proofs.crash.settings import Setting, models_of
from proofs.crash.store_models import KINDS
from proofs.crash.writing import SMALL, START, Clock, context_of
from proofs.doubles import virtual_time

__all__ = ["DRIVEN", "DrawnJob", "again", "draw_jobs", "keep_small_files"]

DRIVEN: Final = tuple(name for name, traits in committers().items() if traits.driven)
"""Names of the committers whose jobs are driven by a job object, and simulated."""

_SMALL: Final = 0.5
"""Share of the jobs that track in memory which keep small files."""

_ALONE: Final = frozenset({"races", "drivers"})


@dataclass
class DrawnJob:
    """One job.

    Attributes:
        setting: What kind of job.
        context: The job.
        facts: What its engine knows.
        files: What each task writes.
    """

    setting: Setting
    context: JobContext
    facts: JobFacts
    files: dict[TaskId, tuple[str, ...]]


def again(job: DrawnJob) -> DrawnJob:
    """The same job as a second driver has it, which the engine has started in place of the first."""
    context = replace(job.context, layout=replace(job.context.layout, attempt=1))
    return replace(job, context=context)


def draw_jobs(chances: Chances, committer: str, kind: str = "s3") -> list[DrawnJob]:
    """One job of a committer, or two rivals, on a kind of store."""
    draw = chances.random.choice
    layout, store = (
        draw(("__magic_job", "__magic")),
        draw(_models(committer, kind)),
    )
    shape = draw(("one", "two", "three"))
    alone = chances.company in _ALONE or (chances.company != "rivals" and not chances.one_in(3))
    while True:
        first = _setting(chances, layout, shape, store, committer)
        second = _setting(chances, layout, shape, store, committer)
        settings = [first] if alone else [first, second]
        # Names that replace each other say nothing of whose job was the last.
        if all(one.possible and (alone or one.names == "unique") for one in settings):
            break
    made = []
    for number, setting in enumerate(settings):
        with virtual_time.deterministic(f"{chances.random.random()}", Clock(START)):
            context = context_of(setting, JobId(str(uuid4())))
        count = chances.random.choice((1, 1, 2, 3))
        files = {
            ids.task_id(task): tuple(
                f"p={(task + one + number) % 3}/part-{one}.bin" for one in range(draw((1, 1, 2)))
            )
            for task in range(count)
        }
        if setting.names == "equal":
            files = {task: tuple(f"p={task}/{name[4:]}" for name in names) for task, names in files.items()}
        facts = JobFacts(
            context.job,
            context.layout.job_directory,
            setting.mode,
            frozenset(files),
            unique=setting.names == "unique",
            accepted=[] if setting.winners == "handed" else None,
            committer=committer,
        )
        made.append(DrawnJob(setting, context, facts, files))
    return made


def _models(committer: str, kind: str) -> tuple[str, ...]:
    models = models_of(committer, kind)
    return ("full", *models) if models == KINDS["s3"] else models


def keep_small_files(source: random.Random, jobs: Iterable[DrawnJob]) -> None:
    """Let some jobs that track in memory keep small files in hand. Of a source of its own: what else is drawn
    stays as it was.
    """
    for job in jobs:
        small = replace(job.setting, tracking="small")
        if job.setting.tracking == "memory" and small.possible and source.random() < _SMALL:
            job.setting, job.context = small, job.context.asked(small_files=SMALL)


def _setting(chances: Chances, layout: str, shape: str, store: str, committer: str) -> Setting:
    draw = chances.random.choice
    names = draw(("unique", "unique", "unique", "equal"))
    if names == "equal":
        shape = "two"
    modes = committer_info(committer).modes
    # Rivals replace each other, as far as their committer does.
    mode = (
        next(one for one in modes if one.startswith("overwrite"))
        if chances.company == "rivals"
        else draw(modes)
    )
    beside = "memory" if committer == "magic" else "store" if committer in RENAMING else "cluster"
    tracking, winners = draw(("store", beside)), draw(("handed", "listed"))
    if committer in RENAMING:
        layout = Setting().layout
    return Setting.of(f"{layout},{tracking},{winners},{mode},{shape},{store},{names},{committer}")
