"""``python -m proofs.crash``: all that can be cut, simulated and made wrong, and its figures."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import pickle
import random
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import magicfs
from proofs.crash import classic, dropped, elsewhere, grid, other_stores
from proofs.crash.audit_cuts import audit_units, work_audit
from proofs.crash.classic import CLASSIC
from proofs.crash.disk import move_to, room
from proofs.crash.drawing import DRIVEN
from proofs.crash.figures import Figures, Targets, say, tell
from proofs.crash.grid import PLANS, STAGED_PLANS, Plan
from proofs.crash.mutants import ALL_MUTANTS, hunt_crash, reproduced, without_swap
from proofs.crash.other_stores import seeds_of
from proofs.crash.past_cuts import past_units, work_past
from proofs.crash.settings import BY_TASKS, Setting, all_settings
from proofs.crash.simulation import Result, simulate
from proofs.crash.store_models import KINDS
from proofs.crash.wrong_lines import WITHOUT_SWAP, CrashMutant
from proofs.job_model import run as run_model
from proofs.sides.checks import CHECKS
from proofs.sides.mutants import hunt_side

__all__ = ["COMMITTERS", "main", "run", "units"]

COMMITTERS: Final = (*DRIVEN, *CLASSIC)
"""What can be asked for, as the table of promises names them."""

PROCESSES: Final = 2
_SILENCE_S: Final = 20.0
_REPLAYS: Final = 200
_PAIRED: Final = 24
_NAMED: Final = 5
"""Of so many seeds of two destinations there is one of hostile names alone."""
_Unit = tuple[str, Any]
_CODE: Final = (Path(magicfs.__file__).parent, Path(__file__).parents[1])

_WHOLE: Final = Targets(
    single_cuts=1_000, pairs=100_000, simulated_jobs=20_000, staged_jobs=5_000, elsewhere=5_000
)
_QUICK: Final = Targets(single_cuts=1_000, pairs=100_000, simulated_jobs=600, staged_jobs=40, elsewhere=200)

_EPILOG: Final = """
The last line of the standard output is one JSON object. Its keys are totals of all committers asked for:
single_cuts of all nine; pairs, pair_worlds, simulated_jobs, mutants and mutants_caught of the three that a
job object drives (magic, directory, partitioned); violations counts broken invariants, broken promises, and
what the model found. expired_uploads, elsewhere_jobs (two jobs at destinations that touch), model_states,
model_replays and without_swap_violations are magic's alone. "committers" has the figures of each: of those
that a job object drives the invariants' violations, which must be none; of the others how often a run broke
a promise that the committer does not make ("violations"), and whether exactly those promises broke
("declared"). file-v2 is among both: its tasks publish, under a job object.
"ok" is false if a promise that is made was broken, if one that is not made never was, or if a
target was missed. waited_jobs are those that wait for days between their tasks and their commit, cut in the
end where uploads expire; overwritten_files and rewritten_files those that somebody else writes amid a commit,
on other stores than S3. "sides" counts for each side of the world (a: maintenance, b: other destinations, c:
names, d: the public API, e: sizes) settings, scenes, mutants, and mutants that this side caught and one job
with its rivals did not; an empty cell makes "ok" false. "past" are
rollbacks, expiries and jobs that keep what they replace: cuts, pairs, rollbacks beside others, and mutants of
these places; "audits" are jobs whose audit fails, and which are held, accepted or discarded, likewise.
Of directory and partitioned every single cut is made; pairs are those of some settings, drawn
by --first, all pairs of each. With --store gcs, azure, local or
wire the three run on a model of such a store: every single cut, pairs of some settings, simulations in the
company of each side, and the mutants that such a store can show.
"""


# -- the work ------------------------------------------------------------------------------------------


def work(unit: _Unit) -> tuple[_Unit, Any]:
    """Do one unit of work, in whatever process."""
    kind, what = unit
    match kind:
        case "singles":
            return unit, grid.singles_of(*what)
        case "expired":
            return unit, grid.expired_of(what)
        case "waited":
            return unit, dropped.waited_of(what)
        case "overwritten":
            return unit, dropped.overwritten_of(what)
        case "rewritten":
            return unit, dropped.rewritten_of(what)
        case "altered":
            return unit, dropped.altered_of(what)
        case "pairs":
            return unit, grid.pairs_of(*what)
        case "mutant":
            return unit, hunt_crash(what)
        case "without swap":
            return unit, without_swap(what)
        case "model":
            return unit, run_model(what, 1)
        case "past":
            _be_silent()
            return unit, work_past(*what)
        case "audits":
            _be_silent()
            return unit, work_audit(*what)
        case "classic":
            _be_silent()
            return unit, classic.hold(*what)
        case "side":
            _be_silent()
            name, store = what
            return unit, CHECKS[name].play(store)
        case "side mutant":
            _be_silent()
            return unit, hunt_side(*what)
        case "elsewhere":
            prefix, start, stop = what
            result = Result()
            for seed in range(start, stop):
                elsewhere.play(f"{prefix}{seed}", result)
            return unit, result
        case _:
            _be_silent()
            _, prefix, start, stop = what
            result = Result()
            for seed in range(start, stop):
                simulate(f"{prefix}{seed}", result)
            return unit, result


def _be_silent() -> None:
    # Jobs that are aborted warn of what stays, and those that stage of what is left out, by the hundred.
    logging.getLogger("magicfs").setLevel(logging.ERROR)


def units(committers: Collection[str], *, quick: bool, targets: Targets, first: int) -> list[_Unit]:
    """What is to be done: what takes longest comes first."""
    made: list[_Unit] = []
    for committer in DRIVEN:
        if committer == "magic" and committer in committers:
            made += _units_of_magic(quick=quick)
        elif committer in committers:
            made += _units_of_staging(committer, quick=quick, first=first)
    if BY_TASKS in committers:
        made += _units_of_staging(BY_TASKS, quick=quick, first=first)
    made += [("mutant", mutant) for mutant in mutants_of(committers)]
    step = 17 if quick else 1
    made += [
        ("classic", (name, promise, step))
        for name in CLASSIC
        if name in committers
        for promise in classic.promises_of()
    ]
    if "magic" in committers:
        if not quick:
            made.append(("model", _REPLAYS))
        made += [("without swap", job) for job in WITHOUT_SWAP.jobs[: 2 if quick else None]]
        expiring = list(all_settings())[:: 7 if quick else 1]
        made += [("expired", one) for one in expiring]
        made += [("waited", one) for one in expiring]
        made += [("altered", one) for one in expiring if one.tracking == "small"]
    if "magic" in committers:
        made += other_stores.sides_on("s3", checks=4 if quick else 1)
        made += seeds_of("company", ("names", "names-"), first, targets.elsewhere // _NAMED)
        made += seeds_of("elsewhere", ("",), first, targets.elsewhere)
        made += past_units(quick=quick)
        made += audit_units(quick=quick)
    for committer in DRIVEN:
        if committer in committers:
            seeds = targets.simulated_jobs if committer == "magic" else targets.staged_jobs
            prefix = "" if committer == "magic" else f"{committer}."
            made += seeds_of("simulated", (committer, prefix), first, seeds)
    if "magic" in committers:
        made += _units_on_wire(first, targets.elsewhere)
    return made


def _units_on_wire(first: int, seeds: int) -> Iterator[_Unit]:
    """One job behind our own requests to S3, cut at each; and simulated ones."""
    yield "singles", (Setting(store="wire"),)
    yield from seeds_of("simulated", ("magic", "wire@"), first, seeds // 5)


def mutants_of(committers: Collection[str]) -> list[CrashMutant]:
    """The mutants that some committers can show."""
    return [one for one in ALL_MUTANTS if any(job.committer in committers for job in one.jobs)]


def _units_of_magic(*, quick: bool) -> Iterator[_Unit]:
    every = list(all_settings())
    # Steps that are prime to every dimension, so that each value of each is among those that are taken.
    singles, pairs = (every[::23], every[::19]) if quick else (every, every)
    plans: Sequence[Plan] = (PLANS[0], PLANS[1], PLANS[-1]) if quick else PLANS
    for setting in pairs:
        wishes = grid.wishes_of(setting)
        yield from (("pairs", (setting, plan)) for plan in plans if plan[0] in wishes)
    yield from (("singles", (setting,)) for setting in singles)


def _units_of_staging(committer: str, *, quick: bool, first: int) -> Iterator[_Unit]:
    every = list(all_settings(committer))
    if quick:
        # Few cuts of many settings; of one setting for each plan some worlds.
        draw = random.Random(f"pairs {first}")  # noqa: S311 - no secret
        for setting, plan in zip(draw.sample(every, len(STAGED_PLANS)), STAGED_PLANS, strict=True):
            if plan[0] in grid.wishes_of(setting):
                yield "pairs", (setting, plan, 17)
        yield from (("singles", (setting, 29)) for setting in every[::17])
        return
    chosen = random.Random(f"pairs {first}").sample(every, _PAIRED)  # noqa: S311 - no secret
    for setting in chosen:
        wishes = grid.wishes_of(setting)
        yield from (("pairs", (setting, plan)) for plan in STAGED_PLANS if plan[0] in wishes)
    yield from (("singles", (setting,)) for setting in every)


def run(batch: Sequence[_Unit], kind: str, journal: Path | None = None) -> Figures:
    """Do all of it in two processes; of what a journal has already, take the result."""
    figures, told = Figures.of(kind), time.monotonic()
    known = _known(journal, batch)
    for number, result in known.items():
        figures.add(batch[number], result)
    left = [(number, unit) for number, unit in enumerate(batch) if number not in known]
    # The order of sets of text must be the same in every process, or a reproduction reproduces nothing.
    os.environ["PYTHONHASHSEED"] = "0"
    spawning = multiprocessing.get_context("spawn")
    with room() as top, spawning.Pool(PROCESSES, initializer=move_to, initargs=(top,)) as pool:
        for done, (number, result) in enumerate(pool.imap_unordered(_numbered, left), start=len(known) + 1):
            figures.add(batch[number], result)
            if journal:
                with journal.open("ab") as file:
                    pickle.dump((number, result), file)
            if time.monotonic() - told > _SILENCE_S:
                told = time.monotonic()
                say(f"{done} of {len(batch)} units of work, {figures.violations} violations")
    return figures


def _numbered(one: tuple[int, _Unit]) -> tuple[int, Any]:
    number, unit = one
    return number, work(unit)[1]


def _known(journal: Path | None, batch: Sequence[_Unit]) -> dict[int, Any]:
    """What a run of the same work by the same code has done, and was broken off."""
    if journal is None:
        return {}
    code = hashlib.sha256(repr(batch).encode())
    for path in sorted(path for where in _CODE for path in where.rglob("*.py")):
        code.update(path.read_bytes())
    with journal.open("ab+") as file:
        if not file.tell():
            pickle.dump(code.hexdigest(), file)
        file.seek(0)
        if pickle.load(file) != code.hexdigest():  # noqa: S301 - our own
            raise SystemExit(f"{journal} is of other work, or of other code; name a new file")
        known, whole = {}, file.tell()
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                number, known_result = pickle.load(file)  # noqa: S301 - our own
                known[number], whole = known_result, file.tell()
        file.truncate(whole)  # what was being written when it was broken off
    return known


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit code 1 if a target is missed, 2 for a reproduction that is none."""
    parser = argparse.ArgumentParser(
        prog="python -m proofs.crash",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--committer", action="append", choices=COMMITTERS, help="only this one; may be repeated; default all"
    )
    parser.add_argument(
        "--store", choices=KINDS, default="s3", help="a model of which; by default %(default)s"
    )
    parser.add_argument("--seeds", type=int, help="how many jobs of each driven committer are simulated")
    parser.add_argument("--first", type=int, default=0, help="the first seed; it also draws pairs")
    parser.add_argument("--quick", action="store_true", help="the part that belongs to every test run")
    parser.add_argument(
        "--journal",
        type=Path,
        help="keep results here: the same command goes on where it ended, and times its last part alone",
    )
    parser.add_argument("--reproduce", metavar="TEXT", help="run exactly what a finding was printed with")
    given = parser.parse_args(arguments)
    if given.reproduce is not None:
        return _reproduce(given.reproduce)
    on_s3 = given.store == "s3"
    committers = given.committer or (COMMITTERS if on_s3 else DRIVEN)
    if on_s3:
        base = _QUICK if given.quick else _WHOLE
    else:
        base = other_stores.QUICK if given.quick else other_stores.WHOLE
    simulated, staged = (base.simulated_jobs, base.staged_jobs) if given.seeds is None else [given.seeds] * 2
    touching = base.elsewhere if given.seeds is None else given.seeds
    mutants = len(mutants_of(committers) if on_s3 else other_stores.mutants_on(given.store, committers))
    targets = Targets(base.single_cuts, base.pairs, simulated, staged, touching, mutants)
    begun = time.perf_counter()
    if on_s3:
        batch = units(committers, quick=given.quick, targets=targets, first=given.first)
    else:
        batch = other_stores.units_on(
            given.store, committers, quick=given.quick, targets=targets, first=given.first
        )
    figures = run(batch, given.store, given.journal)
    tell(figures)
    document = figures.document(targets, time.perf_counter() - begun)
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if document["ok"] else 1


def _reproduce(text: str) -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "proofs.crash", "--reproduce", text]
        os.execve(sys.executable, command, environment)  # noqa: S606 - ourselves
    try:
        if text.startswith("classic:"):
            return _ended([seen] if (seen := classic.played(text)) is not None else [])
        watched = reproduced(text)
    except ValueError as error:
        say(str(error))
        return 2
    met = {request.number: fault.kind for fault, request in watched.traffic.met}
    for request in watched.traffic.log:
        say(f"{request} {request.condition} {met.get(request.number, '')}".rstrip())
    for job, history in watched.histories.items():
        say(f"{job}: {' -> '.join(history.states)}")
    return _ended([str(one) for one in dict.fromkeys(watched.violations)])


def _ended(violations: Sequence[str]) -> int:
    for violation in violations:
        say(violation)
    print(json.dumps({"violations": len(violations), "ok": not violations}, separators=(",", ":")))  # noqa: T201
    return 1 if violations else 0
