"""Rollbacks, expiries and jobs that keep, cut at every request and at every pair; and beside others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import permutations
from typing import Any, Final, get_args

from magicfs.protocol.ids import JobId
from magicfs.testing.store_faults import Fault, Kind
from proofs.crash.log_cuts import TRIALS, hunt_log, play_log
from proofs.crash.past_deeds import A_AND_B, DEEDS, IN_PLACE, C, D, Deed, outcome_of, own_files
from proofs.crash.past_programs import publish
from proofs.crash.past_scene import PastScene
from proofs.crash.processes import Outcome
from proofs.crash.wrong_log import LOG_MUTANTS
from proofs.crash.wrong_past import PAST_MUTANTS, Meeting, Other, WrongPast
from proofs.scenes.mutants import Hunted, Sound, hunt

__all__ = [
    "MEETINGS_OF_VERSIONS",
    "MODELS",
    "OF_VERSIONS",
    "PAST_MEETINGS",
    "VERSIONS",
    "PastTally",
    "beside",
    "cut_past",
    "cuts",
    "hunt_past",
    "past_units",
    "work_past",
]

MODELS: Final = ("full", "local")
"""A store with If-Match, and one without."""
VERSIONS: Final = "versions"
"""A bucket that keeps versions."""
OF_VERSIONS: Final = tuple(one for one in DEEDS if one not in IN_PLACE)
"""What is done there: a rollback leaves copies, and shows nothing again that somebody has promised."""
_DELETES: Final = "delete_all_matching"
_WISHES: Final = ("forward", "back", "again")
_DEEDS: Final[dict[Other, Deed]] = {
    "expire": "expire",
    "overwrite": "keep",
    "rollback": "rollback that keeps",
    "drop": "drop",
    "rewrite": "rewrite",
}
PAST_MEETINGS: Final[tuple[Meeting, ...]] = (
    *(("rollback", other) for other in get_args(Other)),
    *(("rollback in place", other) for other in ("overwrite", "expire", "tag")),
    *(
        ("rollback of a partition", other)
        for other in ("append", "overwrite", "rollback", "expire", "compact", "recover")
    ),
    *(("drop", other) for other in ("append", "overwrite", "rollback", "expire", "recover")),
    *(
        ("rewrite", other)
        for other in ("append", "overwrite", "rollback", "drop", "expire", "compact", "recover")
    ),
)
"""Who meets whom."""
MEETINGS_OF_VERSIONS: Final[tuple[Meeting, ...]] = tuple(
    ("rollback", other) for other in ("expire", "append", "overwrite", "rollback", "compact", "recover")
)
"""Who meets whom in a bucket that keeps versions."""
_HARMLESS: Final = ("compact", "tag", "recover")
_STARTS: Final = 160  # turns of the loop after which the other one begins, at most
_OTHER: Final = JobId("0000000e-8a4b-4f0e-9d5a-0c1b2a3d4e5f")


@dataclass
class PastTally:
    """What was tried, and what was seen that must not be."""

    cuts: int = 0
    pairs: int = 0
    worlds: int = 0
    beside: int = 0
    mutants: int = 0
    missed: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def add(self, other: PastTally) -> None:
        """Add what another one has tried."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong, and all that was made wrong was noticed."""
        return not self.findings and not self.missed

    def to_dict(self) -> dict[str, int]:
        """The figures, ready for JSON."""
        return {
            "cuts": self.cuts,
            "pairs": self.pairs,
            "worlds": self.worlds,
            "beside": self.beside,
            "mutants": self.mutants,
            "mutants_caught": self.mutants - len(self.missed),
            "violations": len(self.findings),
        }

    def take(self, scene: PastScene, where: str) -> None:
        """Take over what a scene has seen."""
        self.findings += [f"{where}: {one}" for one in dict.fromkeys(scene.violations)]


def past_units(*, quick: bool) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What is to be tried, in units of work for ``work_past``."""
    for model in MODELS:
        yield from (("past", ("cuts", model, deed, 11 if quick else 1)) for deed in DEEDS)
    yield from (("past", ("cuts", VERSIONS, deed, 11 if quick else 1)) for deed in OF_VERSIONS)
    yield from (("past", ("beside", *both, 20 if quick else 1000)) for both in PAST_MEETINGS)
    yield from (("past", ("beside", *both, 20 if quick else 1000, VERSIONS)) for both in MEETINGS_OF_VERSIONS)
    yield from (("past", ("mutant", wrong)) for wrong in PAST_MUTANTS)
    yield from (("past", ("log", trial)) for trial in TRIALS)
    yield from (("past", ("log mutant", wrong)) for wrong in LOG_MUTANTS)


def work_past(kind: str, *what: Any) -> PastTally:
    """Do one unit of work."""
    if kind == "cuts":
        model, deed, step = what
        return cut_past(model, deed, step=step)
    if kind == "mutant":
        (wrong,) = what
        return PastTally(mutants=1, missed=[] if hunt_past(wrong).caught else [wrong.name])
    if kind == "log":
        return PastTally(findings=play_log(*what))
    if kind == "log mutant":
        (wrong,) = what
        return PastTally(mutants=1, missed=[] if hunt_log(wrong).caught else [wrong.name])
    deed, other, seeds, *model = what
    begun = PastScene.begin(model[0] if model else "full", deed)
    found = [one for seed in range(seeds) for one in beside(begun, other, seed)]
    return PastTally(beside=seeds, findings=found)


def cut_past(model: str, deed: Deed, *, step: int = 1, pairs: bool = True) -> PastTally:
    """Cut it at every request, bring it to its end; cut that at every request, and end that as well."""
    tally = PastTally()
    for _ in cuts(tally, PastScene.begin(model, deed), step, pairs=pairs):
        pass
    return tally


def cuts(tally: PastTally, whole: PastScene, step: int, *, pairs: bool) -> Iterator[None]:
    """Do what ``cut_past`` does, of any scene, and give way wherever something may have been found."""
    model, deed = whole.model, whole.name
    first = whole.at(whole.world, seen_new=False)
    first.watch(record=True)
    outcome = first.stage(first.play())
    if outcome.error is not None:
        first.violations.append(f"it ended with {outcome.error!r}")
    first.check_end(done=True)
    tally.take(first, f"{model} {deed} whole")
    tally.cuts = first.cuts
    yield
    for number, (world, seen) in [*enumerate(first.moments)][::step]:
        for wish in _WISHES:
            scene = first.at(world, seen)
            scene.watch(record=pairs)
            scene.stage(scene.settle(wish))
            where = f"{model} {deed} cut {number} {wish}"
            scene.check_end(done=wish == "again" and scene.is_call)
            tally.take(scene, where)
            tally.worlds += 1
            yield
            for again, (left, new) in enumerate(scene.moments):
                last = scene.at(left, new)
                last.watch()
                then = _WISHES[again % 3]
                last.stage(last.settle(then, "second recovery"))
                last.check_end(done=then == "again" and last.is_call)
                tally.take(last, f"{where} cut {again} {then}")
                tally.worlds += 1
            tally.pairs += scene.cuts
            yield


def beside(begun: PastScene, other: Other, seed: int) -> list[str]:
    """What ``begun`` is about, and somebody else at once, in an order that the seed draws.

    Returns what was seen that must not be: a file that is shown and gone, or one that is gone before its
    time; somebody who was told that all was done, and it is not; something that is left.
    """
    one = begun.at(begun.world, seen_new=False)
    one.alone = False
    # Every third time the other one stands still before it deletes.
    stands = Fault(Kind.DELAY, actor="the other", operation=_DELETES, times=None, seconds=60.0)
    one.watch(*([stands] if seed % 3 == 2 else []))
    two = one.beside(_OTHER, _DEEDS.get(other, "keep"))

    async def both() -> tuple[Outcome, Outcome]:
        async def first() -> Outcome:
            await _turns(0 if seed % 2 else seed * 7 % _STARTS)
            return await one.play()

        async def second() -> Outcome:
            await _turns(seed * 7 % _STARTS if seed % 2 else 0)
            process = two.process("the other")
            match other:
                case "append":
                    return await process.play(publish(process, _OTHER, "append", ("p=0/x.bin",)))
                case "compact":
                    return await process.play(two.compact(process))
                case "tag":
                    return await process.play(two.tag(process))
                case "recover":
                    return await process.play(two.recover_only(process))
            return await two.play("the other")

        return await asyncio.gather(first(), second())

    outcomes = one.stage(both(), order=str(seed))
    one.watch()
    one.stage(one.settle("forward"))
    done = [outcome.done for outcome in outcomes]
    problems = [f"ended with {each.error!r}" for each in outcomes if each.surprising]
    problems += [*_ended(one, other, done), *one.violations, *two.violations]
    return [
        f"{begun.model} {begun.deed} beside {other}, seed {seed}, {done}: {each}"
        for each in dict.fromkeys(problems)
    ]


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _ended(scene: PastScene, other: Other, done: list[bool]) -> Iterator[str]:
    shown = scene.meant(scene.view()[1])
    first, second = done
    if other in _HARMLESS and not second:
        yield f"{other} was refused"
    if other in _HARMLESS and not first:
        yield f"the {scene.deed} was refused"
    if shown not in _one_after_the_other(scene, other, done):
        yield f"readers of manifests see {sorted(shown)}"


def _one_after_the_other(scene: PastScene, other: Other, done: list[bool]) -> set[frozenset[str]]:
    """What readers may see afterwards: what they would if those who succeeded had done so in turn."""
    both: list[tuple[Deed | Other, JobId]] = [(scene.deed, scene.job), (other, _OTHER)]
    found = set()
    for order in permutations([one for one, succeeded in zip(both, done, strict=True) if succeeded]):
        shown = D
        for deed, job in order:
            shown = _after(deed, job, shown)
        found.add(shown)
    return found


def _after(deed: Deed | Other, job: JobId, shown: frozenset[str]) -> frozenset[str]:
    """What is shown after a deed."""
    match deed:
        case "append":
            return shown | own_files(job)
        case "overwrite" | "keep" | "rewrite" | "rewrite that keeps":
            return own_files(job)
        case "compact" | "tag" | "recover" | "expire":
            return shown
        case "rollback" if job == _OTHER:
            return C
        case "drop" | "rollback of a partition":
            return outcome_of(deed, job, shown)
    return A_AND_B


def hunt_past(wrong: WrongPast) -> Hunted[WrongPast]:
    """Look everywhere with a wrong line. The world before is made by sound code, as by another process."""
    return hunt(wrong, partial(_seen, wrong))


def _seen(wrong: WrongPast, sound: Sound) -> Iterator[str]:
    for deed in wrong.deeds:
        tally = PastTally()
        with sound():
            whole = PastScene.begin(wrong.model, deed)
        for _ in cuts(tally, whole, 1, pairs=True):
            yield from tally.findings
    for deed, other in wrong.beside:
        with sound():
            whole = PastScene.begin("full", deed)
        for seed in range(400):
            yield from beside(whole, other, seed)
