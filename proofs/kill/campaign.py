"""All rounds of a run: run times are measured, processes are killed, and what came of it is added up."""

from __future__ import annotations

import itertools
import queue
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from proofs.kill import plans
from proofs.kill.content import Lane
from proofs.kill.disk import Disk
from proofs.kill.ground import Ground, Seen
from proofs.kill.phases import DRIVER, Phase
from proofs.kill.plans import EVERY_SHAPE, JOBS_PER_LANE, Plan, Shape
from proofs.kill.rounds import Round
from proofs.kill.stores import Place
from proofs.kill.victim import CommitterName

__all__ = ["Campaign", "Tally"]

_BUCKET = "kill"
_TELL_EVERY = 10
_WRONG_MAX = 20


@dataclass
class Tally:
    """The figures of a run.

    Attributes:
        kills: Rounds in which SIGKILL ended at least one running process of a job.
        rounds_wrong: Rounds in which anything went wrong.
        late: Rounds whose job was over before the drawn time; they are no kills.
        phases: How often each phase was hit.
        figures: Everything else that is counted.
        groups: Kills by who was killed, mode, tracking and the state of the job.
        run_s: The measured run time of each shape of job.
    """

    kills: int = 0
    rounds_wrong: int = 0
    late: int = 0
    phases: Counter[Phase] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    groups: dict[str, Counter[str]] = field(default_factory=dict)
    run_s: dict[str, float] = field(default_factory=dict)

    _MUST_BE_ZERO = (
        *("rows_lost", "rows_duplicated", "partial_datasets", "seen_early", "seen_torn"),
        *("uploads_left", "work_left", "troubles"),
    )
    _OTHERS = (
        "server_kills",
        "recoveries",
        "recoveries_killed",
        "rolled_back",
        "reruns",
        "hurried",
        "versions_swept",
        "files_of_the_store",
    )

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, duplicated, seen in half or left."""
        return not any(self.figures[name] for name in self._MUST_BE_ZERO)

    def add(self, plan: Plan, seen: Seen) -> None:
        """Add a round."""
        counted = {
            "rows_lost": seen.rows_lost,
            "rows_duplicated": seen.rows_duplicated,
            "partial_datasets": seen.partial,
            "seen_early": seen.early,
            "seen_torn": seen.torn,
            "uploads_left": len(seen.uploads),
            "work_left": len(seen.work),
            "troubles": len(seen.troubles),
            "server_kills": seen.server_killed,
            "recoveries": seen.recoveries,
            "recoveries_killed": seen.recoveries_killed,
            "rolled_back": seen.rolled_back,
            "reruns": seen.rerun,
            "hurried": seen.hurried,
            "versions_swept": seen.versions_swept,
        }
        self.figures.update(counted)
        self.rounds_wrong += bool(seen.troubles)
        if not seen.killed:
            self.late += 1
            return
        self.kills += 1
        self.phases[seen.phase] += 1
        alone = "driver" if seen.killed == [DRIVER] else "worker" if len(seen.killed) == 1 else "all"
        for group, value in (
            ("victims", alone),
            ("modes", plan.shape.mode),
            ("tracking", plan.shape.tracking),
            ("states", seen.state),
        ):
            self.groups.setdefault(group, Counter())[value] += 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "kills": self.kills,
            **{name: self.figures[name] for name in (*self._MUST_BE_ZERO, *self._OTHERS)},
            "phases": {phase.value: self.phases[phase] for phase in Phase},
            "rounds_wrong": self.rounds_wrong,
            "late": self.late,
            **{name: dict(sorted(found.items())) for name, found in sorted(self.groups.items())},
            "run_s": self.run_s,
        }


class Campaign:
    """Kills until enough kills have hit.

    Args:
        server: Running, and not used by anybody else: it is killed, too.
        directory: For logs.
        seed: Of all that is drawn.
        committer: Of all jobs.
        say: Told what is going on, in lines.

    Attributes:
        tally: The figures so far.
    """

    def __init__(
        self,
        server: Place,
        directory: Path,
        seed: int,
        *,
        committer: CommitterName = "magic",
        say: Callable[[str], None],
    ) -> None:
        self._ground = Ground(server, directory, committer)
        self._seed = seed
        self._say = say
        self.tally = Tally()
        self._lock = threading.Lock()
        self._lanes: queue.SimpleQueue[Lane | None] = queue.SimpleQueue()
        self._lane_numbers = itertools.count()
        self._bucket = server.create_bucket(_BUCKET)

    def run(self, kills: int, *, parallel: int = 1) -> None:
        """Kill. Before the first kill in a job of some shape, one of that shape runs undisturbed.

        Args:
            kills: How many kills must hit.
            parallel: Rounds at once. One in which the server is killed always runs alone.

        Raises:
            RuntimeError: A job that nobody disturbed went wrong.
        """
        self._warm_up()
        for _ in range(parallel):
            self._lanes.put(None)
        numbers = itertools.count()
        with ThreadPoolExecutor(parallel, thread_name_prefix="kill-round") as pool:
            while (missing := kills - self.tally.kills) > 0 and self.tally.rounds_wrong < _WRONG_MAX:
                batch = list(itertools.islice(numbers, min(missing, plans.SERVER_EVERY)))
                alone = [number for number in batch if plans.kills_server(number)]
                list(pool.map(self._round, [number for number in batch if number not in alone]))
                for number in alone:
                    self._round(number)
        if self.tally.kills < kills:
            self._say(f"given up: {self.tally.rounds_wrong} rounds went wrong")
        if isinstance(self._ground.server, Disk):
            self.tally.figures["files_of_the_store"] = len(self._ground.server.residue(self._bucket))
        measured = [shape for shape in EVERY_SHAPE if shape in self._ground.runs]
        self.tally.run_s = {str(shape): round(self._ground.run_time(shape), 2) for shape in measured}

    def _warm_up(self) -> None:
        """Run a job that is not counted: it meets a server that has just started."""
        self._measure(self._new_lane(), EVERY_SHAPE[0])
        self._ground.runs.clear()

    def _measure(self, lane: Lane, shape: Shape) -> None:
        label = f"measured-{lane.key}-{lane.jobs}"
        round_ = Round(self._ground, lane, plans.undisturbed(shape, f"{self._seed}/{label}"), label)
        seen = round_.measure()
        self._say(f"an undisturbed job ({shape}) takes {self._ground.run_time(shape):.2f} s")
        if seen.troubles:
            raise RuntimeError(f"an undisturbed job ({shape}) went wrong: {seen.troubles}\n{round_.log}")

    def _round(self, number: int) -> None:
        lane = self._lanes.get() or self._new_lane()
        plan = plans.plan(self._seed, number, fresh=lane.jobs == 0)
        if self._ground.committer != "magic":
            plan = plans.of_renames(plan)
        round_ = None
        seen = Seen()
        try:
            if plan.shape not in self._ground.runs:
                # Where the round will be, so that as much is there; but for "error" nothing may be.
                fails = plan.shape.mode == "error"
                self._measure(self._new_lane() if fails else lane, plan.shape)
            round_ = Round(self._ground, lane, plan, f"round-{number}")
            seen = round_.seen
            round_.run()
        except Exception as error:  # noqa: BLE001 - the other rounds go on, and this one is told
            seen.troubles.append("".join(traceback.format_exception(error)))
        with self._lock:
            self.tally.add(plan, seen)
            self._tell(plan, seen, round_.log if round_ else "", lane)
        used_up = lane.jobs >= JOBS_PER_LANE or bool(seen.troubles)
        self._lanes.put(None if used_up else lane)

    def _tell(self, plan: Plan, seen: Seen, log: str, lane: Lane) -> None:
        if seen.troubles:
            self._say(f"round {plan.number} on {lane.url} went wrong: {plan}")
            self._say(f"  killed {seen.killed} at {seen.phase}; state {seen.state}; result {seen.result}")
            for trouble in seen.troubles:
                self._say(f"  {trouble}")
            self._say(f"  its processes said:\n{log}")
        elif seen.killed and self.tally.kills % _TELL_EVERY == 0:
            hit = {phase.value: count for phase, count in self.tally.phases.items()}
            self._say(f"{self.tally.kills} kills, {self.tally.late} late; {hit}")

    def _new_lane(self) -> Lane:
        number = next(self._lane_numbers)
        form: Literal["text", "parquet"] = "text" if number % 3 == 2 else "parquet"
        return Lane(self._bucket, f"d{number:04}", form, scheme=self._ground.server.scheme)
