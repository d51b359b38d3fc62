"""Each wrong line of a commit is noticed by its invariant, which holds again when the line is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final

from proofs.crash import dropped, grid
from proofs.crash.elsewhere import Elsewhere
from proofs.crash.grid import Finding
from proofs.crash.past import before_of
from proofs.crash.settings import Setting
from proofs.crash.simulation import Simulation
from proofs.crash.store_models import KINDS
from proofs.crash.watched import Watched
from proofs.crash.wrong_bundles import BUNDLE_MUTANTS
from proofs.crash.wrong_company import COMPANY_MUTANTS
from proofs.crash.wrong_lines import MUTANTS, WITHOUT_SWAP, CrashMutant
from proofs.crash.wrong_places import FAR_MUTANTS
from proofs.crash.wrong_renames import RENAME_MUTANTS
from proofs.crash.wrong_staging import STAGED_MUTANTS
from proofs.crash.wrong_stores import STORE_MUTANTS
from proofs.scenes.mutants import Hunted, Sound, hunt

__all__ = [
    "ALL_MUTANTS",
    "hunt_crash",
    "prepare_the_beaten_path",
    "reproduced",
    "seen_on_the_beaten_path",
    "without_swap",
]


ALL_MUTANTS: Final = (
    *MUTANTS,
    *FAR_MUTANTS,
    *STAGED_MUTANTS,
    *RENAME_MUTANTS,
    *COMPANY_MUTANTS,
    *BUNDLE_MUTANTS,
)
"""Of all driven committers."""

_SEEDS = 4000

_FAR: Final = ("elsewhere", "names")
"""Ways of mutants that jobs with plain names at one destination must not notice."""

_BEATEN: Final = (Setting(), Setting(mode="overwrite", shape="losers"))
_BEATEN_STEP: Final = 9
_BEATEN_SEEDS: Final = tuple(
    f"{way}-{number}" for way in ("rivals", "races", "drivers") for number in range(4)
)


def hunt_crash(mutant: CrashMutant) -> Hunted[CrashMutant]:
    """Look for a violation of the mutant's invariant that sound code does not have, until one is found."""
    kind = _kind_of(mutant)
    prepare_the_beaten_path(kind)
    for job in mutant.jobs:
        before_of(job)  # made by sound code, and kept
    elsewhere = partial(seen_on_the_beaten_path, kind) if mutant.way in _FAR else str
    return hunt(mutant, partial(_seen, mutant), elsewhere)


def _seen(mutant: CrashMutant, sound: Sound) -> Iterator[str]:
    for finding in _findings(mutant):
        seen = finding if finding is not None and finding.violation.letter == mutant.letter else None
        if seen is not None:
            with sound():
                if mutant.letter in {one.letter for one in reproduced(seen.reproduction).violations}:
                    seen = None
        yield str(Finding(seen.violation, f"{mutant.name}|{seen.reproduction}")) if seen else ""


def prepare_the_beaten_path(kind: str = "s3") -> None:
    """Have sound code make what ``seen_on_the_beaten_path`` begins with."""
    for job in _beaten(kind):
        before_of(job)


def seen_on_the_beaten_path(kind: str = "s3") -> str:
    """What is wrong now with one job and its rivals at one destination, in a part of all cuts and seeds."""
    for job in _beaten(kind):
        for finding in grid.singles_of(job, _BEATEN_STEP).findings:
            return str(finding)
    for seed in _BEATEN_SEEDS:
        text = f"simulated:{_before_seeds(kind)}{seed}"
        for violation in reproduced(text).violations:
            return f"{text}: {violation}"
    return ""


def _beaten(kind: str) -> Iterator[Setting]:
    for job in _BEATEN:
        yield replace(job, store=KINDS[kind][0])


def _before_seeds(kind: str) -> str:
    return "" if kind == "s3" else f"{kind}@"


def reproduced(text: str) -> Watched:
    """The world of one reproduction, of whatever kind, after it has run.

    Raises:
        ValueError: It is none.
    """
    name, bar, rest = text.partition("|")
    if bar:
        every = (*ALL_MUTANTS, *chain.from_iterable(STORE_MUTANTS.values()))
        mutant = next((one for one in every if one.name == name), None)
        if mutant is None:
            raise ValueError(f"no mutant {name!r}; there are: {', '.join(one.name for one in every)}")
        for job in mutant.jobs:
            before_of(job)
        with mutant.wrong():
            return reproduced(rest)
    if text.startswith("simulated:"):
        simulation = Simulation.of(text.removeprefix("simulated:"))
        simulation.run()
        return simulation
    if text.startswith("elsewhere:"):
        scene = Elsewhere.of(text.removeprefix("elsewhere:"))
        scene.run()
        return scene
    if text.startswith(tuple(f"{kind}:" for kind in dropped.KINDS)):
        return dropped.reproduce(text)
    return grid.reproduce(text)


def _kind_of(mutant: CrashMutant) -> str:
    """The kind of store that a mutant is hunted on."""
    return next(kind for kind, models in KINDS.items() if mutant.jobs[0].store in models)


def _findings(mutant: CrashMutant) -> Iterator[Finding | None]:
    """What is found, one by one; None for each world in which nothing is."""
    for job in mutant.jobs:
        match mutant.way:
            case "singles":
                for found in grid.each_single(job):
                    yield from found.findings
                    yield None
            case "expired":
                yield from grid.expired_of(job).findings
            case "waited":
                yield from dropped.waited_of(job).findings
            case "overwritten":
                yield from dropped.overwritten_of(job).findings
            case "rewritten":
                yield from dropped.rewritten_of(job).findings
            case "altered":
                yield from dropped.altered_of(job).findings
            case way:
                before = _before_seeds(_kind_of(mutant))
                for number in range(_SEEDS):
                    text = f"simulated:{before}{way}-{number}"
                    if way == "elsewhere":
                        text = f"elsewhere:{before}{number}"
                    yield from (Finding(one, text) for one in reproduced(text).violations)
                    yield None


def without_swap(job: Setting) -> int:
    """How many violations the loop of single cuts reports of a job without its commit point."""
    before_of(job)
    with WITHOUT_SWAP.wrong():
        return len([one for one in grid.singles_of(job).findings if one.violation.letter != "x"])
