"""What all rounds share, and what is seen in one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proofs.kill.content import Lane, Witness
from proofs.kill.disk import Disk, DiskWatch
from proofs.kill.phases import Phase
from proofs.kill.plans import Shape
from proofs.kill.stores import Place, kind_of
from proofs.kill.victim import CommitterName, Result
from proofs.kill.watching import DELAYS_S, NO_DELAYS, WatchingProxy

__all__ = ["Ground", "Seen"]

_RUNS_REMEMBERED = 5


@dataclass
class Ground:
    """What all rounds share.

    Attributes:
        server: The store.
        directory: For logs.
        committer: Of all jobs.
        runs: The last measured run times of each shape, in seconds.
        recoveries: The last measured run times of recoveries.
    """

    server: Place
    directory: Path
    committer: CommitterName = "magic"
    runs: dict[Shape, deque[float]] = field(default_factory=dict)
    recoveries: deque[float] = field(default_factory=lambda: deque([0.5], _RUNS_REMEMBERED))

    def __post_init__(self) -> None:
        self.kind = kind_of(self.server)
        self.witness = Witness(self.server)

    def environment(self, endpoint: str) -> dict[str, str]:
        """What processes find in their environment that reach the store by ``endpoint``."""
        return self.kind.environment(self.server, endpoint)

    def options(self, endpoint: str) -> dict[str, Any]:
        """Storage options without secrets."""
        return self.kind.options(self.server, endpoint)

    def watch(self, lane: Lane, *, slow: bool) -> WatchingProxy | DiskWatch:
        """Somebody who watches what processes do at a destination, and slows them down if so wished."""
        if isinstance(self.server, Disk):
            return DiskWatch(self.server, lane.bucket, lane.key, slow=slow)
        return WatchingProxy(self.server.endpoint, self.kind, lane.key, DELAYS_S if slow else NO_DELAYS)

    def measured(self, shape: Shape, seconds: float) -> None:
        """Remember how long a job ran."""
        self.runs.setdefault(shape, deque(maxlen=_RUNS_REMEMBERED)).append(seconds)

    def run_time(self, shape: Shape) -> float:
        """The mean of the last measured run times."""
        return sum(self.runs[shape]) / len(self.runs[shape])


@dataclass
class Seen:
    """What came of a round.

    Attributes:
        killed: The roles that were killed; empty if the job was over before.
        phase: What they were doing.
        state: The job's state when all of its processes had ended; ``none`` without a job object.
        server_killed: Whether the server was.
        result: How the driver ended, if it was not killed.
        published: Whether the first job ended published.
        rerun: Whether the job had to be run again.
        rolled_back: Whether a rollback was asked for and done.
        recoveries: How many recoveries ran to their end.
        recoveries_killed: How many were killed.
        hurried: Whether recovery began while workers of the dead driver were still at work.
        versions_swept: How many numbered versions of the ended job's object waited for a sweep of that job.
        rows_lost: Rows that were missing after a recovery or a job.
        rows_duplicated: Rows that were there too often.
        partial: How often the destination was neither exactly old nor exactly new, or not what it had to be.
        early: How often something was visible, or gone, before it could be.
        torn: How often a reader of manifests saw neither the old state nor the new one.
        uploads: Keys of uploads that were left.
        work: Work objects that were left.
        troubles: All that went wrong, in words.
    """

    killed: list[str] = field(default_factory=list)
    phase: Phase = Phase.START
    state: str = "none"
    server_killed: bool = False
    result: Result | None = None
    published: bool = False
    rerun: bool = False
    rolled_back: bool = False
    recoveries: int = 0
    recoveries_killed: int = 0
    hurried: bool = False
    versions_swept: int = 0
    rows_lost: int = 0
    rows_duplicated: int = 0
    partial: int = 0
    early: int = 0
    torn: int = 0
    uploads: list[str] = field(default_factory=list)
    work: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
