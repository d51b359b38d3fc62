"""Cutting at every request, before and after it is done; then recovering; and cutting the recovery as well.

Single cuts let a process crash for real. For pairs the world is kept at every moment of the job and of its
recovery: what a crash leaves is the world at that moment and nothing else. Moments between which nothing has
changed in the store are one world; every cut is counted, and every distinct world is recovered.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, cast, get_args

from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.crash.invariants import Violation
from proofs.crash.scene import Moment, Scene, Wish
from proofs.crash.settings import Setting

__all__ = [
    "PLANS",
    "STAGED_PLANS",
    "Finding",
    "Grid",
    "Plan",
    "Recorder",
    "Side",
    "at_cut",
    "each_single",
    "expired_of",
    "finish",
    "pairs_of",
    "recorded_job",
    "reproduce",
    "singles_of",
    "wishes_of",
]

Side = Literal["before", "after"]
Plan = tuple[Wish, Wish]
PLANS: Final[tuple[Plan, ...]] = (
    ("forward", "forward"),
    ("rollback", "forward"),
    ("forward", "rollback"),
    ("rollback", "rollback"),
    ("commit", "forward"),
)
"""What the first recovery wants, and what the second, after the first was cut."""

STAGED_PLANS: Final[tuple[Plan, ...]] = (*PLANS, ("abort", "forward"), ("commit", "abort"))
"""The same for committers that stage, whose jobs are also aborted on their driver's machine."""

_WISHES: Final = frozenset(get_args(Wish))
_KINDS: Final = {"before": Kind.CRASH_BEFORE, "after": Kind.CRASH_AFTER}


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation and the line that brings it about again.

    Attributes:
        violation: What was seen.
        reproduction: For ``--reproduce``.
    """

    violation: Violation
    reproduction: str

    def __str__(self) -> str:
        again = shlex.quote(self.reproduction)
        return f"{self.violation}\n    python -m proofs.crash --reproduce {again}"


@dataclass(slots=True)
class Grid:
    """What was cut in one setting.

    Attributes:
        setting: The job.
        requests: Requests of the job.
        cuts: Single cuts.
        pairs: Pairs of cuts.
        worlds: Distinct worlds from which a second recovery was run.
        findings: What was seen that must not be.
    """

    setting: Setting
    requests: int = 0
    cuts: int = 0
    pairs: int = 0
    worlds: int = 0
    findings: list[Finding] = field(default_factory=list)

    def found(self, violations: list[Violation], reproduction: str) -> None:
        """Note violations; each once."""
        self.findings += [Finding(one, reproduction) for one in dict.fromkeys(violations)]


# -- single cuts ---------------------------------------------------------------------------------------


def singles_of(setting: Setting, step: int = 1) -> Grid:
    """Cut a job at every request of every process, on both sides; recover twice.

    The wish of the recovery changes from cut to cut.

    Args:
        setting: The job.
        step: Take every so many of the cuts.
    """
    grid = Grid(setting)
    for one in each_single(setting, step):
        grid.requests = max(grid.requests, one.requests)
        grid.cuts += one.cuts
        grid.findings += one.findings
    return grid


def each_single(setting: Setting, step: int = 1) -> Iterator[Grid]:
    """The job without a cut, and then with every single one, or every so many of them."""
    whole = Scene.new(setting)
    whole.stage(_play(whole))
    grid = Grid(setting, whole.traffic.count)
    grid.found(whole.violations, f"whole:{setting.text}")
    yield grid
    sides = [(number, side) for number in range(1, whole.traffic.count + 1) for side in get_args(Side)]
    for number, side in sides[::step]:
        wishes = wishes_of(setting)
        wish = wishes[(number + (side == "after")) % len(wishes)]
        cut = Grid(setting, cuts=1)
        cut.found(single(setting, number, side, wish), f"single:{setting.text}:{number}:{side}:{wish}")
        yield cut


def wishes_of(setting: Setting) -> tuple[Wish, ...]:
    """What can be wanted of a job: only where winners are listed can somebody else commit it."""
    wishes: tuple[Wish, ...] = ("forward", "rollback")
    if setting.winners == "listed":
        wishes += ("commit",)
    return (*wishes, "abort") if setting.staged else wishes


def expired_of(setting: Setting) -> Grid:
    """Let an upload expire at every moment of the commit; the recovery must take the job back.

    So it must where names are equal: of these settings each replaces one file, which comes last.
    """
    grid = Grid(setting)
    driver = recorded_job(setting)
    grid.requests = driver.scene.traffic.count
    for moment, cuts in driver.worlds():
        own = [one for one in moment.world.uploads if one not in driver.scene.before.uploads]
        if moment.history.state != "committing" or not own:
            continue
        scene = _expired(driver.scene, moment)
        where = f"{setting.text}:{cuts[0][0]}:{cuts[0][1]}"
        grid.found(scene.violations, f"expired:{where}")
        grid.cuts += 1
    return grid


def _expired(original: Scene, moment: Moment) -> Scene:
    scene = original.at(moment)
    own = [one for one in scene.world.uploads if one not in scene.before.uploads]
    if not own:
        raise ValueError(f"at this moment {scene.setting.text} has no upload that could expire")
    del scene.world.uploads[own[-1]]
    scene.stage(finish(scene, "forward"))
    return scene


async def _play(scene: Scene) -> None:
    scene.watch()
    await scene.play_job()
    await scene.end()


def single(setting: Setting, number: int, side: Side, wish: Wish) -> list[Violation]:
    """Cut a job once; returns what is wrong then."""
    scene = Scene.new(setting)
    scene.stage(_cut(scene, Fault(_KINDS[side], number=number), wish))
    return scene.violations


async def _cut(scene: Scene, fault: Fault, wish: Wish) -> None:
    scene.watch(faults=[fault])
    await scene.play_job()
    await scene.recover(wish)
    after = scene.moment()
    await scene.recover("forward", "second recovery")
    if not after.same(scene.world):
        scene.violations.append(Violation("b", "a second recovery changed what the first had ended"))
    await scene.end()


# -- pairs ---------------------------------------------------------------------------------------------


class Recorder:
    """Keeps the world at every side of every request of one process."""

    def __init__(self, scene: Scene, actor: str) -> None:
        self.scene = scene
        self.moments: list[Moment] = []
        self.places: list[list[tuple[int, Side]]] = []
        self._actor = actor

    def traffic(self) -> Traffic:
        return self.scene.watch(
            before=lambda request: self._note(request, "before"),
            after=lambda request: self._note(request, "after"),
        )

    def _note(self, request: Request, side: Side) -> None:
        if request.actor != self._actor:
            return
        self.scene.look_at_disk()
        if not self.moments or not self.moments[-1].same(self.scene.world):
            self.moments.append(self.scene.moment())
            self.places.append([])
        self.places[-1].append((request.number, side))

    def worlds(self) -> Iterator[tuple[Moment, list[tuple[int, Side]]]]:
        return zip(self.moments, self.places, strict=True)


def pairs_of(setting: Setting, plan: Plan, step: int = 1) -> Grid:
    """Cut the driver at every request, then the recovery at every request, then recover.

    Args:
        setting: The job.
        plan: What the two recoveries want.
        step: Take every so many of the worlds that a cut of the driver leaves.
    """
    grid = Grid(setting)
    first, second = plan
    driver = recorded_job(setting)
    grid.requests = driver.scene.traffic.count
    for moment, cuts in [*driver.worlds()][::step]:
        scene = driver.scene.at(moment)
        recovery = Recorder(scene, "recovery")
        scene.stage(_recover(recovery, first))
        where = f"{setting.text}:{cuts[0][0]}:{cuts[0][1]}:{first}"
        grid.found(scene.violations, f"driver:{where}")
        for left, again in recovery.worlds():
            last = scene.at(left)
            last.stage(finish(last, second))
            grid.found(last.violations, f"pair:{where}:{again[0][0]}:{again[0][1]}:{second}")
            grid.worlds += 1
            grid.pairs += len(cuts) * len(again)
    return grid


def recorded_job(setting: Setting, wait_h: int = 0) -> Recorder:
    """A job that nobody disturbs, and its world at every side of every request of its driver.

    Args:
        setting: The job.
        wait_h: How many hours the driver waits before it commits.
    """
    scene = Scene.new(setting, wait_h)
    recorder = Recorder(scene, "driver")

    async def play() -> None:
        recorder.traffic()
        await scene.play_job()

    scene.stage(play())
    return recorder


async def _recover(recorder: Recorder, wish: Wish) -> None:
    recorder.traffic()
    await recorder.scene.recover(wish)
    await recorder.scene.end()


async def finish(scene: Scene, wish: Wish) -> None:
    """Recover a job of which all processes are dead, and look at the end."""
    scene.watch()
    await scene.recover(wish, "second recovery")
    await scene.end()


def _pair(setting: Setting, cut: tuple[int, Side], plan: Plan, again: tuple[int, Side]) -> Scene:
    """One pair of cuts, the second of them a crash for real."""
    first, second = plan
    original, moment = at_cut(setting, cut)
    scene = original.at(moment)

    async def play() -> None:
        scene.watch(faults=[Fault(_KINDS[again[1]], number=again[0])])
        await scene.recover(first)
        await scene.recover(second, "second recovery")
        await scene.end()

    scene.stage(play())
    return scene


def at_cut(setting: Setting, cut: tuple[int, Side], wait_h: int = 0) -> tuple[Scene, Moment]:
    """A job, and the moment at which its driver is cut that has waited so many hours before it committed.

    Raises:
        ValueError: It has no such request.
    """
    driver = recorded_job(setting, wait_h)
    for moment, cuts in driver.worlds():
        if cut in cuts:
            return driver.scene, moment
    raise ValueError(f"the driver of {setting.text} has no request {cut[0]}")


# -- reproducing ---------------------------------------------------------------------------------------


def reproduce(text: str) -> Scene:
    """Run exactly one cut again.

    Args:
        text: What a finding gave as its reproduction.

    Returns:
        The scene after it was played.

    Raises:
        ValueError: It is none.
    """
    kind, setting, *rest = text.split(":")
    job = Setting.of(setting)
    scene = Scene.new(job)
    match kind, rest:
        case "whole", []:
            scene.stage(_play(scene))
        case "single", [number, ("before" | "after") as side, wish] if wish in _WISHES:
            scene.stage(_cut(scene, Fault(_KINDS[side], number=int(number)), cast("Wish", wish)))
        case "expired", [number, ("before" | "after") as side]:
            scene = _expired(*at_cut(job, (int(number), side)))
        case "driver", [number, ("before" | "after") as side, wish] if wish in _WISHES:
            original, moment = at_cut(job, (int(number), side))
            scene = original.at(moment)
            scene.stage(_recover(Recorder(scene, "recovery"), cast("Wish", wish)))
        case "pair", [
            number,
            ("before" | "after") as side,
            first,
            again,
            ("before" | "after") as other,
            second,
        ] if {first, second} <= _WISHES:
            wishes = cast("Plan", (first, second))
            scene = _pair(job, (int(number), side), wishes, (int(again), other))
        case _:
            raise ValueError(f"{text!r} reproduces nothing; give the text that a finding was printed with")
    return scene
