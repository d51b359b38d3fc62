"""The sides of a group, each a process that stays, and the turns that they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.figures import Figure, Sample
from benchmarks.place import Place
from benchmarks.session import Session, SideTimes
from proofs.doubles import environments

__all__ = ["LONG_S", "WARM_UP", "Absent", "Measured", "Side", "Turn", "crew", "sized", "take_turns"]

WARM_UP = "warm-up"
"""With this begins the key of a turn whose figures are discarded."""

LONG_S: Final = 30.0
"""What a round takes at least of a group whose discarded one is smaller."""

_Result = TypeVar("_Result")
_ROOT = Path(__file__).parents[1]
_OWN_ENVIRONMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "awswrangler": ("awswrangler>=3.17",),
    "duckdb": ("duckdb==1.5.5", "duckdb-extensions", "duckdb-extension-httpfs==1.5.5", "pyarrow>=22"),
}
"""Of sides whose requirements do not go together with ours."""


class Absent(RuntimeError):
    """A side cannot take part here; the message says why."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side took in one round."""

    samples: Mapping[str, Sample]
    values: Mapping[str, Any]  # what else it told, such as its peak of memory

    def __getitem__(self, phase: str) -> Sample:
        return self.samples[phase]


class Side:
    """One side, as a process of its own."""

    def __init__(self, name: str, kind: str, place: Place | None, python: str = sys.executable) -> None:
        self.name = name
        told = json.dumps(None if place is None else place.to_dict())
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [python, "-m", "benchmarks.worker", kind, told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            env=os.environ | ({} if place is None else place.environment),
        )
        try:
            self.versions: Mapping[str, str] = self._answer()["versions"]
        except BaseException:
            self.close()
            raise

    def do(self, work: str, where: str = "", **arguments: Any) -> Turn:
        """Have the side do its work, and return what it took."""
        arguments["where"] = where
        assert self._process.stdin is not None
        print(json.dumps({"work": work, "arguments": arguments}), file=self._process.stdin, flush=True)
        answer = self._answer()
        samples = {phase: Sample(**told) for phase, told in answer["samples"].items()}
        return Turn(samples, answer["values"])

    def close(self) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Absent(f"{self.name} died with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Absent(f"{self.name}: {answer['error'].strip()}")
        return answer


@contextmanager
def crew(
    session: Session, kinds: Mapping[str, str], place: Place | None, optional: frozenset[str] = frozenset()
) -> Iterator[dict[str, Side]]:
    """Start the sides of a group. One that may be absent, and is, is remarked and left out."""
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, kind in kinds.items():
            try:
                side = Side(name, kind, place, _python(name))
            except (Absent, environments.EnvironmentNotMade) as error:
                if name not in optional:
                    raise
                session.without(name, error)
                continue
            stack.callback(side.close)
            session.versions |= side.versions
            sides[name] = side
        yield sides


def _python(name: str) -> str:
    """The Python that runs a side."""
    if name not in _OWN_ENVIRONMENTS:
        return sys.executable
    return str(environments.ensure(name, _OWN_ENVIRONMENTS[name]) / "bin" / "python")


def sized(work: Callable[..., _Result], **sizes: int) -> Callable[[str], _Result]:
    """A turn of these sizes, or what tidies up after it; of the discarded round each is a tenth."""

    def turn(where: str) -> _Result:
        divided = 10 if where.startswith(WARM_UP) else 1
        return work(where=where, **{name: max(1, size // divided) for name, size in sizes.items()})

    return turn


@dataclass(slots=True)
class Measured:
    """All turns of a group."""

    turns: dict[str, list[Turn]] = field(default_factory=dict)

    def wall_s(self, side: str, phase: str = "whole") -> list[float]:
        """Wall seconds of a phase, round by round."""
        return [turn[phase].wall_s for turn in self.turns[side]]

    def cpu_s(self, side: str, phase: str = "whole") -> list[float]:
        """The side's processor seconds."""
        return [turn[phase].cpu_s for turn in self.turns[side]]

    def server_cpu_s(self, side: str, phase: str = "whole") -> list[float]:
        """The server's processor seconds."""
        return [turn[phase].server_cpu_s for turn in self.turns[side]]


def take_turns(
    session: Session,
    turns: Mapping[str, Callable[[str], Turn]],
    after: Callable[[str], None] | None = None,
    *,
    optional: frozenset[str] = frozenset(),
    round_s: float | None = None,
) -> Measured:
    """Let all sides work, round by round, in an order that rotates; the first round is discarded.

    Each is told a key that no other turn has, and so is ``after``, which tidies up. How many rounds there
    will be hangs on what one takes: ``round_s``, or as long as the discarded one took. An optional side that
    fails in that round is remarked and left out.
    """
    names = list(turns)

    def one(name: str, number: str) -> Turn:
        where = f"{number}-{name}".replace(" ", "-").replace(",", "")
        turn = turns[name](where)
        session.fell_back(turn.values.get("fallbacks", {}))
        if after is not None:
            after(where)
        return turn

    started = time.monotonic()
    for name in list(names):
        try:
            one(name, WARM_UP)
        except Absent as error:
            if name not in optional:
                raise
            session.without(name, error)
            names.remove(name)
    rounds = session.rounds_for(time.monotonic() - started if round_s is None else round_s)
    measured = Measured({name: [] for name in names})
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            turn = one(name, f"round-{number}")
            measured.turns[name].append(turn)
            told = ", ".join(
                f"{phase} {sample.wall_s:.2f} s ({sample.cpu_s:.2f} + {sample.server_cpu_s:.2f} s processor)"
                for phase, sample in turn.samples.items()
            )
            session.say(f"   {number} {name}: {told}")
    session.sides += _times(session.group, measured)
    return measured


def _times(group: str, measured: Measured) -> Iterator[SideTimes]:
    for side, turns in measured.turns.items():
        for phase in turns[0].samples:
            wall_s, cpu_s = measured.wall_s(side, phase), measured.cpu_s(side, phase)
            server_s = measured.server_cpu_s(side, phase)
            yield SideTimes(group, side, phase, Figure.of(wall_s), Figure.of(cpu_s), Figure.of(server_s))
