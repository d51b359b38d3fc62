"""The crash loops of the committers that publish without a job object, or before it, judged by what each
promises.

Every request of a whole job is lost, has its reply lost, and is the last of its process, on either side of
it. Then follows what engines do and documents say: the step is done again, or the job is aborted, started
again, or cured. The runs are those of ``proofs.guarantees``, and each belongs to one promise. A
committer that makes it must keep it in all of them; one that does not must be seen to break it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from magicfs.committers.registry import committer_info
from magicfs.errors import MagicError
from proofs.guarantees import jobs, tasks, whole
from proofs.guarantees.case import cuts_of
from proofs.guarantees.experiments import EXPERIMENTS
from proofs.guarantees.ground import LocalGround
from proofs.guarantees.main import declared
from proofs.guarantees.subjects import SUBJECTS, Subject

__all__ = ["CLASSIC", "Tally", "hold", "places_of", "played", "promises_of"]

CLASSIC: Final = {
    one.column: one
    for one in SUBJECTS
    if not committer_info(one.committer).driven or one.options.get("algorithm") == 2
}
"""The committers that are tried here, by what the table calls them: those without a job object, and the one
whose tasks publish before it.
"""

_Run = Callable[[Subject, str], str | None]
_Loop = tuple[_Run, Callable[[Subject], Iterable[str]]]


def _steps(*names: str) -> Callable[[Subject], Iterable[str]]:
    return lambda subject: whole.variants_of(subject, *names)


def _cuts(requests: Callable[[Subject], int]) -> Callable[[Subject], Iterable[str]]:
    return lambda subject: map(str, cuts_of(requests(subject), losses=True))


def _recovered(subject: Subject) -> Iterable[str]:
    """For committers whose jobs can be started again: what a task leaves whose commit dies."""
    found = declared(subject)["recoverable_job"]
    return whole.variants_of(subject, "task 0: commit", "task 1: commit") if found else ()


def _run_again(subject: Subject) -> Iterable[str]:
    """For committers whose tasks may be run again when their commit dies; of others the job has failed."""
    repeatable = subject.options.get("algorithm") != 2
    return whole.variants_of(subject, "task 0: commit") if repeatable else ()


_LOOPS: Final[dict[str, tuple[_Loop, ...]]] = {
    "speculative_tasks": (
        (tasks.speculative, EXPERIMENTS["speculative_tasks"].variants),
        (whole.finished, _steps("loser")),
    ),
    "recoverable_job": ((whole.restarted, _steps("loser", "task 0: writing", "task 1: writing")),),
    "abortable_task": (
        (tasks.abortable, _cuts(tasks.requests_of_writing)),
        (whole.finished, _steps("task 0: writing")),
    ),
    "abortable_job": ((whole.aborted, _steps(*whole.STEPS, "abort")),),
    "atomic_task_commit": (
        (tasks.atomic, _cuts(tasks.requests)),
        (whole.finished, _run_again),
        (whole.restarted, _recovered),
    ),
    "repeatable_job_commit": (
        (jobs.repeatable, _cuts(jobs.requests)),
        (whole.finished, _steps("setup")),
    ),
    "survives_driver_loss": ((jobs.survives, _cuts(jobs.requests)),),
}


@dataclass(slots=True)
class Tally:
    """What the loops of one promise of one committer came to.

    Attributes:
        name: The committer, as the table calls it.
        promise: The attribute.
        promised: Whether the committer declares it.
        cuts: How many runs.
        seen: What was seen that must not be, by the run that shows it.
    """

    name: str
    promise: str
    promised: bool
    cuts: int = 0
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def honest(self) -> bool:
        """Whether the committer keeps what it promises, or was seen to break what it does not promise."""
        return self.promised != bool(self.seen)


def promises_of() -> Iterable[str]:
    """The promises that cuts can break."""
    return _LOOPS


def places_of(name: str) -> tuple[Subject, ...]:
    """Where a committer is tried: where the table tries it; the file committer also on local files."""
    subject = CLASSIC[name]
    if subject.committer != "file":
        return (subject,)
    return subject, replace(subject, ground=LocalGround, place=LocalGround.name)


def hold(name: str, promise: str, step: int = 1) -> Tally:
    """Try one promise of one committer.

    Args:
        name: The committer.
        promise: The attribute.
        step: Only every so many cut of each loop is made, where the table tries the committer; more until
            one shows that a promise is rightly not made.
    """
    places = places_of(name) if step == 1 else places_of(name)[:1]
    tally = Tally(name, promise, declared(places[0])[promise])
    for subject in places:
        loops = [(n, run, list(variants(subject))) for n, (run, variants) in enumerate(_LOOPS[promise])]
        # An odd step takes both sides of requests, and both kinds of cut, in turn.
        some = [(n, run, one) for n, run, variants in loops for one in variants[::step]]
        others = [
            (n, run, one) for n, run, variants in loops for one in variants if (n, run, one) not in some
        ]
        for number, run, variant in some:
            _try(tally, subject, number, run, variant)
        for number, run, variant in others:
            if tally.promised or tally.seen:
                break
            _try(tally, subject, number, run, variant)
    return tally


def _try(tally: Tally, subject: Subject, number: int, run: _Run, variant: str) -> None:
    tally.cuts += 1
    if (seen := _seen(run, subject, variant)) is not None:
        tally.seen[f"classic:{tally.name}:{subject.place}:{tally.promise}:{number}:{variant}"] = seen


def _seen(run: _Run, subject: Subject, variant: str) -> str | None:
    try:
        return run(subject, variant)
    except MagicError as error:
        return f"raised {error!r}"


def played(text: str) -> str | None:
    """Run exactly one cut again.

    Args:
        text: What a run was printed with, from ``classic:`` on.

    Raises:
        ValueError: There is no such run.
    """
    _, name, place, promise, number, variant = (text.split(":", 5) + [""] * 6)[:6]
    loops = _LOOPS.get(promise, ())
    subject = next((one for one in places_of(name) if one.place == place), None) if name in CLASSIC else None
    if subject is None or not number.isdecimal() or int(number) >= len(loops) or not variant:
        raise ValueError(f"{text!r} reproduces nothing; give the text that a finding was printed with")
    return _seen(loops[int(number)][0], subject, variant)
