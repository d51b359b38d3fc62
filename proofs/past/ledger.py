"""What was published, in the order of the chain, and until when replaced files must stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from proofs.kill.content import Rows

__all__ = ["Files", "Ledger", "State"]

Files = Mapping[str, tuple[str, ...]]
"""The rows of each file, by its name below the destination."""


@dataclass(frozen=True, slots=True)
class State:
    """The dataset after one publication.

    Attributes:
        job_id: The job.
        run_id: Its run; empty if it has none.
        published: When, as the history says.
        files: All that is visible.
        keeps: Whether the job kept what it replaced.
    """

    job_id: str
    run_id: str
    published: datetime
    files: Files
    keeps: bool = False

    @property
    def rows(self) -> Rows:
        """How often each row is there, by its day and its text."""
        return Counter((day_of(name), row) for name, rows in self.files.items() for row in rows)


def day_of(name: str) -> str:
    """The partition of a file."""
    return name.partition("/")[0].removeprefix("day=")


@dataclass
class Ledger:
    """All states, the oldest first.

    Attributes:
        states: After each publication.
        promised: Until when a file stays that was replaced, in milliseconds since the epoch: as long as it is
            there, whether it is shown again or not.
        ever_promised: All files that were ever promised.
        tags: The jobs that tags name.
    """

    states: list[State] = field(default_factory=list)
    promised: dict[str, int] = field(default_factory=dict)
    ever_promised: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> Files:
        """What is visible now."""
        return self.states[-1].files if self.states else {}

    @property
    def known(self) -> Files:
        """All files that were ever visible."""
        return {name: rows for state in self.states for name, rows in state.files.items()}

    def state(self, job_id: str) -> State:
        """The state after a job."""
        return next(one for one in self.states if one.job_id == job_id)

    def add(self, state: State, until_ms: int | None) -> None:
        """Note a publication; ``until_ms`` is when the promise ends for what it has replaced."""
        if until_ms is not None:
            for name in self.shown.keys() - state.files.keys():
                self.ever_promised.add(name)
                self.promised[name] = max(until_ms, self.promised.get(name, 0))
        self.states.append(state)

    def at(self, moment: datetime) -> State:
        """The state at a moment: of the newest publication that was made by then."""
        return next(one for one in reversed(self.states) if one.published <= moment)

    def holds(self, name: str, now_ms: float) -> bool:
        """Whether a file must be there at a moment."""
        return name in self.shown or self.promised.get(name, 0) > now_ms
