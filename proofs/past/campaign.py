"""All turns of a run, and its figures."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from proofs.past.judge import WRONG, Judge
from proofs.past.ledger import Ledger
from proofs.past.orders import Deed, Drawing, Turn
from proofs.past.places import Place
from proofs.past.readers import Held, Onlookers
from proofs.past.turns import Done, Runner

__all__ = ["Campaign"]

_HELD: Final = 3
_HOLD_EVERY: Final = 4
_PAST_EACH_TURN: Final = 4
_WRONG_MAX: Final = 20
_TELL_EVERY: Final = 20


class Campaign:
    """Runs turns until there are enough publications, or enough kills.

    Args:
        place: Empty.
        directory: For logs.
        seed: Of all that is drawn.
        keeps_s: For how long jobs keep what they replace.
        only: The only kind of deed that is killed; by default all.
        say: Told what is going on, in lines.
    """

    def __init__(
        self,
        place: Place,
        directory: Path,
        seed: int,
        keeps_s: Sequence[int],
        *,
        only: str | None = None,
        say: Callable[[str], None],
    ) -> None:
        self._ledger = Ledger()
        self._drawing = Drawing(seed, keeps_s, only)
        self._runner = Runner(place, directory)
        self._judge = Judge(place, self._ledger, random.Random(seed))  # noqa: S311 - to be repeatable
        self._place = place
        self._held: deque[Held] = deque(maxlen=_HELD)
        self._say = say
        self._kills: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._turns = 0

    @property
    def wrong(self) -> int:
        """How much was wrong."""
        return sum(self._judge.figures[name] for name in WRONG)

    @property
    def publications(self) -> int:
        """How many there were."""
        return len(self._ledger.states)

    @property
    def kills(self) -> int:
        """How many processes SIGKILL has met."""
        return self._kills.total()

    def run(self, enough: Callable[[Campaign], bool]) -> None:
        """Run turns until it is enough, or too much is wrong; then read every state, and expire the rest."""
        while not enough(self) and self.wrong < _WRONG_MAX:
            turn = self._drawing.turn(self._turns, self._ledger, self._judge.names)
            self._turns += 1
            self._play(turn)
            if self._turns % _TELL_EVERY == 0:
                self._say(f"{self.publications} publications, {self.kills} kills, {self.wrong} wrong")
        said = len(self._judge.said)
        self._judge.check_past(self._ledger.states)
        for text in self._judge.said[said:]:
            self._say(f"in the end: {text}")
        last = max(self._ledger.promised.values(), default=0) / 1000
        time.sleep(max(last - time.time(), 0))
        self._play(Turn(self._turns, (Deed("expire", "the last"),)))
        said = len(self._judge.said)
        self._judge.check_end()
        for text in self._judge.said[said:]:
            self._say(f"in the end: {text}")

    def _play(self, turn: Turn) -> None:
        said = len(self._judge.said)
        done: list[Done] = []
        try:
            with Onlookers(self._place, tuple(self._held) if self.publications else ()) as seen:
                done = self._runner.run(turn)
            if turn.number == 0:
                seen = Onlookers(self._place, ())  # before the first publication there is nothing to read
            self._judge.after(done, seen)
            some = self._judge.draw.choices(self._ledger.states, k=_PAST_EACH_TURN)
            self._judge.check_past(some)
            if turn.number % _HOLD_EVERY == 0:
                self._held.append(self._judge.hold())
        except Exception:  # noqa: BLE001 - told, and the run goes on to its figures
            self._judge.wrong("troubles", traceback.format_exc())
        for text in self._runner.troubles:
            self._judge.wrong("troubles", text)
        self._runner.troubles.clear()
        for one in done:
            if one.killed:
                self._kills[one.deed.kind] += 1
                self._ended[one.deed.ended_by] += 1
        if self._judge.said[said:]:
            self._say(f"turn {turn.number} went wrong: {turn}")
            for text in self._judge.said[said:]:
                self._say(f"  {text}")
            self._say(f"  its processes said:\n{self._runner.log(turn.number)}")

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        figures = self._judge.figures
        return {
            "publications": self.publications,
            "turns": self._turns,
            "kills": self.kills,
            **{name: figures[name] for name in WRONG},
            "kills_by_kind": dict(sorted(self._kills.items())),
            "states_at_kill": {kind: dict(sorted(found.items())) for kind, found in self._states()},
            "ended_by": dict(sorted(self._ended.items())),
            "recoveries": self._runner.recoveries,
            "versions_swept": self._runner.swept,
            **{name: count for name, count in sorted(figures.items()) if name not in WRONG},
            "usual_s": {
                kind: round(sum(found) / len(found), 2) for kind, found in self._runner.usual_s.items()
            },
        }

    def _states(self) -> list[tuple[str, dict[str, int]]]:
        return sorted(self._runner.states.items())
