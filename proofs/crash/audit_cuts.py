"""Audits, quarantine and acceptance, cut at every request and at every pair; and beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Final

from magicfs.datasets.abort import abort_job
from magicfs.errors import UsageError
from magicfs.protocol.ids import JobId
from magicfs.testing.store_faults import Fault, Kind
from proofs.crash.audit_scene import RUN, STEPS, AuditScene, Step
from proofs.crash.history import document_of
from proofs.crash.past_cuts import MODELS, PastTally, cuts
from proofs.crash.past_deeds import PLACE, D, own_files
from proofs.crash.past_programs import publish
from proofs.crash.processes import Outcome, Process
from proofs.crash.writing import DESTINATION
from proofs.crash.wrong_audit import AUDIT_MUTANTS, Rival, WrongAudit
from proofs.scenes.mutants import Hunted, Sound, hunt

__all__ = ["MEETINGS", "audit_units", "beside_audit", "cut_audit", "hunt_audit", "work_audit"]

MEETINGS: Final[tuple[tuple[Step, Rival], ...]] = (
    ("judge", "recover"),
    ("judge", "rerun"),
    ("judge", "discard"),
    ("accept", "recover"),
    ("accept", "rerun"),
    ("accept", "discard"),
    ("accept", "accept"),
    ("accept", "append"),
    ("accept", "overwrite"),
    ("accept unjudged", "recover"),
    ("accept unjudged", "rerun"),
    ("accept unjudged", "discard"),
    ("accept unjudged", "accept"),
    ("accept unjudged", "driver"),
)
"""Who meets whom."""
_STARTS: Final = 160  # turns of the loop after which the other one begins, at most
_OTHER: Final = JobId("0000000e-8a4b-4f0e-9d5a-0c1b2a3d4e5f")


def audit_units(*, quick: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What is to be tried, in units of work for ``work_audit``."""
    for model in MODELS:
        yield from (("audits", ("cuts", model, step, 11 if quick else 1)) for step in STEPS)
    yield from (("audits", ("beside", *both, 10 if quick else 1000)) for both in MEETINGS)
    yield from (("audits", ("mutant", wrong)) for wrong in AUDIT_MUTANTS)


def work_audit(kind: str, *what: Any) -> PastTally:
    """Do one unit of work."""
    if kind == "cuts":
        model, step, every = what
        return cut_audit(model, step, every=every)
    if kind == "mutant":
        (wrong,) = what
        return PastTally(mutants=1, missed=[] if hunt_audit(wrong).caught else [wrong.name])
    step, rival, seeds = what
    begun = AuditScene.before("full", step)
    found = [one for seed in range(seeds) for one in beside_audit(begun, rival, seed)]
    return PastTally(beside=seeds, findings=found)


def cut_audit(model: str, step: Step, *, every: int = 1, pairs: bool = True) -> PastTally:
    """Cut it at every request, bring it to its end; cut that at every request, and end that as well."""
    tally = PastTally()
    for _ in cuts(tally, AuditScene.before(model, step), every, pairs=pairs):
        pass
    return tally


def beside_audit(begun: AuditScene, rival: Rival, seed: int) -> list[str]:
    """Somebody judges or accepts the job, and somebody else is there, in an order that the seed draws.

    Returns what was seen that must not be: something of the job that nobody has accepted; somebody who was
    told that all was done, and it is not; something that is left.
    """
    one = begun.at(begun.world, seen_new=False)
    one.alone = False
    # Every third time the other one stands still before it writes.
    stands = Fault(Kind.DELAY, actor="the other", operation="put", times=None, seconds=60.0)
    one.watch(*([stands] if seed % 3 == 2 else []))

    async def both() -> tuple[Outcome, Outcome]:
        async def first() -> Outcome:
            await _turns(0 if seed % 2 else seed * 7 % _STARTS)
            return await one.play()

        async def second() -> Outcome:
            await _turns(seed * 7 % _STARTS if seed % 2 else 0)
            process = one.process("the other")
            return await process.play(_rivals(one, process)[rival]())

        return await asyncio.gather(first(), second())

    outcomes = one.stage(both(), order=str(seed))
    one.watch()
    if rival == "rerun" and not outcomes[1].done:
        one.stage(_give_up(one))
    one.stage(one.settle("forward"))
    if one.step == "accept unjudged" and rival in {"accept", "driver"}:
        one.stage(_sweep(one))  # one that stood still has written facts of a job that had ended
    done = [outcome.done for outcome in outcomes]
    problems = [f"ended with {each.error!r}" for each in outcomes if each.surprising]
    problems += [*_ended(one, rival, done, outcomes[1]), *one.violations]
    return [
        f"{begun.model} {one.step} beside {rival}, seed {seed}, {done}: {each}"
        for each in dict.fromkeys(problems)
    ]


def _rivals(one: AuditScene, process: Process) -> dict[Rival, Callable[[], Coroutine[Any, Any, Any]]]:
    return {
        "recover": lambda: one.recover_only(process),
        "rerun": lambda: one.run_again(process, _OTHER),
        "discard": lambda: one.discard(process),
        "accept": lambda: one.accept(process),
        "driver": lambda: one.judge(process),
        "append": lambda: publish(process, _OTHER, "append", ("p=0/x.bin",)),
        "overwrite": lambda: publish(process, _OTHER, "overwrite", ("p=0/x.bin",), keep_days=7),
    }


async def _give_up(one: AuditScene) -> None:
    """Discard what a job of the same run has left that was refused."""
    with suppress(UsageError):
        await abort_job(one.process("the other's").engine, PLACE, job=_OTHER)


async def _sweep(one: AuditScene) -> None:
    with suppress(UsageError):  # nothing is left
        await abort_job(one.process("the sweep").engine, PLACE, job=one.job)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _ended(scene: AuditScene, rival: Rival, done: list[bool], second: Outcome) -> Iterator[str]:
    _, shown = scene.view()
    own, theirs = scene.new, own_files(_OTHER)
    published = done[0] and scene.accepting
    right = [own]
    match rival:
        case "discard":
            right = [own] if published else [D] if done[1] else [own, D]
        case "rerun":
            right = (
                [theirs] if done[1] and (second.result or second.error) else [own] if published else [own, D]
            )
            if len(runs := _published_runs(scene)) > 1:
                yield f"one run was published by {runs}"
        case "append" if done[1]:
            right = [own, own | theirs]
        case "driver" if scene.told:  # what was judged, for that came first
            right = [own_files(scene.job)]
        case "overwrite" if done[1]:
            right = [own, theirs] if published else [own]
    if shown not in right:
        yield f"readers of manifests see {sorted(shown)}"
    if rival == "recover" and not all(done):
        yield "somebody was refused beside a recovery"
    if rival == "accept" and not any(done):
        yield "both were refused"
    scene.check_listing()


def _published_runs(scene: AuditScene) -> list[str]:
    prefix = f"{DESTINATION}/_magicfs/"
    said = [
        document_of(one.body)
        for key, one in scene.world.objects.items()
        if key.startswith(prefix) and key.endswith(".json") and "current" not in key
    ]
    return sorted({one["jobId"] for one in said if one.get("runId") == RUN})


def hunt_audit(wrong: WrongAudit) -> Hunted[WrongAudit]:
    """Look everywhere with a wrong line. The world before is made by sound code, as by another process."""
    return hunt(wrong, partial(_seen, wrong))


def _seen(wrong: WrongAudit, sound: Sound) -> Iterator[str]:
    for step in wrong.steps:
        tally = PastTally()
        with nullcontext() if wrong.before else sound():
            whole = AuditScene.before("full", step)
        for _ in cuts(tally, whole, 1, pairs=True):
            yield from tally.findings
    for step, rival in wrong.beside:
        with sound():
            whole = AuditScene.before("full", step)
        for seed in range(100):
            yield from beside_audit(whole, rival, seed)
