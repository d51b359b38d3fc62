"""One round: a job runs, somebody is killed, the job is recovered as a user would, and rows are counted."""

from __future__ import annotations

import random
import time

from proofs.kill.content import Lane, outcome, tasks_for
from proofs.kill.crew import Crew
from proofs.kill.disk import Disk
from proofs.kill.ground import Ground, Seen
from proofs.kill.judge import Judge
from proofs.kill.phases import DRIVER, Phase
from proofs.kill.plans import Plan
from proofs.kill.recovery import Recovery, Watch
from proofs.kill.victim import Order

__all__ = ["Round"]

_JOB_SECONDS = 120.0


class Round:
    """Carries a plan out on a lane; on return the lane holds what its job was to publish.

    Args:
        ground: What rounds share.
        lane: The destination, which no other round uses meanwhile.
        plan: What is to happen.
        label: Different for every round; part of every row.
    """

    def __init__(self, ground: Ground, lane: Lane, plan: Plan, label: str) -> None:
        self._ground = ground
        self._lane = lane
        self._plan = plan
        self._log = ground.directory / f"{label}.log"
        self._tasks = tasks_for(label, random.Random(plan.seed))  # noqa: S311  a run must be repeatable
        self.seen = Seen()
        new = outcome(plan.shape.mode, lane.rows, self._tasks)
        self._judge = Judge(ground, lane, lane.rows, new, self.seen)
        self._recovery = Recovery(ground, lane, plan, self._judge, self._log)
        self._proxies: list[Watch] = []

    @property
    def log(self) -> str:
        """What the processes of the round said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def measure(self) -> Seen:
        """Run the job with nobody killed, and remember how long it took."""
        self._run_undisturbed("an undisturbed job")
        self._leave()
        return self.seen

    def run(self) -> Seen:
        """Run the round."""
        with self._proxy() as proxy, self._crew(proxy.endpoint) as crew:
            self._run_and_kill(proxy, crew)
            self._kill_server_too()
            alone = self.seen.killed == [DRIVER] and not self.seen.server_killed
            self.seen.hurried = self._plan.hurry and alone and len(crew.alive()) > 0
            if not self.seen.hurried:
                self._wait(proxy, crew)
            self._check_kill(crew)
            self._bring_to_an_end(proxy)
            if self.seen.hurried:
                self._wait(proxy, crew)
            self._sweep(proxy)
            self._judge.look_for_leftovers(self._history)
        if not self.seen.published:
            self.seen.rerun = True
            self._run_undisturbed("the job that was run again")
        self._leave()
        return self.seen

    def _proxy(self, *, slow: bool = True) -> Watch:
        made = self._ground.watch(self._lane, slow=slow)
        self._proxies.append(made)
        return made

    def _history(self, key: str) -> list[str]:
        """All requests about a key, of the job, its recoveries and the job that was run again."""
        return [one for proxy in self._proxies for one in proxy.history(key)]

    def _crew(self, endpoint: str) -> Crew:
        plan = self._plan
        order = Order(
            url=self._lane.url,
            storage_options=self._ground.options(endpoint),
            mode=plan.shape.mode,
            tracking=plan.shape.tracking,
            winners=plan.winners,
            on_loss=plan.on_loss,
            format=self._lane.format,
            tasks=self._tasks,
            committer=self._ground.committer,
        )
        return Crew(order, self._ground.environment(endpoint), self._log)

    def _run_and_kill(self, proxy: Watch, crew: Crew) -> None:
        """Kill at the drawn time, unless the job is over by then.

        Such a job does not count as measured: only quick ones would.
        """
        run_time = self._ground.run_time(self._plan.shape)
        crew.go()
        if crew.over_within(self._plan.fraction * run_time):
            self.seen.result = crew.result(_JOB_SECONDS)
            return
        self.seen.killed = self._plan.victims(crew.alive())
        crew.kill(self.seen.killed)
        self.seen.phase = proxy.phase(self.seen.killed)

    def _kill_server_too(self) -> None:
        server = self._ground.server
        if self._plan.server and self.seen.killed and not isinstance(server, Disk) and server.keeps_data:
            server.kill()
            server.restart()
            self.seen.server_killed = True

    def _wait(self, proxy: Watch, crew: Crew) -> None:
        """Until every process of the job has ended."""
        if self.seen.result is None:
            self.seen.result = crew.result(_JOB_SECONDS)
        crew.wait_for_all(_JOB_SECONDS)
        self._recovery.let_requests_settle(proxy)

    def _check_kill(self, crew: Crew) -> None:
        """Whether the signal met a running process: a driver's exit tells, and a driver tells of workers."""
        if not self.seen.killed:
            return
        if DRIVER in self.seen.killed:
            hit = crew.driver_killed()
        else:
            hit = self.seen.result is not None and self.seen.result.lost > 0
        if not hit:
            self.seen.killed = []

    def _bring_to_an_end(self, proxy: Watch) -> None:
        """Do what a user would do, until the job has ended; then compare."""
        self._recovery.let_requests_settle(proxy, (DRIVER,))
        self._judge.look_between()
        result, state = self.seen.result, self.seen.state
        if self.seen.killed == [DRIVER] and self.seen.phase is Phase.START and state != "none":
            self.seen.troubles.append("there is a job, but no request of its driver was recognized")
        if result is not None and not result.published and not self._may_fail():
            self.seen.troubles.append(f"a job failed that should not: {result.said}")
        if result is not None and result.published:
            self._judge.compare(self._judge.new, "a job that said it was published")
            return
        if result is not None and state == "none" and not self.seen.server_killed:
            self._judge.compare(self._judge.old, f"a job that said it failed ({result.said})")
            return
        completes = proxy.has_published()
        with self._proxy(slow=False) as direct:
            expected = self._recovery.run(direct, completes=completes)
        self._judge.compare(expected, f"the recovery of a job that was {state}")

    def _may_fail(self) -> bool:
        """Whether a job whose driver lives may fail: with the server, or because a lost worker ends it."""
        return self.seen.server_killed or (bool(self.seen.killed) and self._plan.on_loss == "abort")

    def _sweep(self, proxy: Watch) -> None:
        """Once more, where tasks may have worked on when their job ended, or its object went in part."""
        result = self.seen.result
        if self._ground.kind.numbered:
            self.seen.versions_swept = len(self._judge.versions_of_ended_jobs())
        at_work = self.seen.hurried or (result is not None and not result.published)
        if not at_work and not self.seen.versions_swept:
            return
        if (job := proxy.job()) is None:
            return  # it had not come so far as to have a name in the store
        with self._proxy(slow=False) as direct:
            self._recovery.sweep(direct, job)
        expected = self._judge.new if self.seen.published else self._judge.old
        self._judge.compare(expected, "sweeping once more")

    def _run_undisturbed(self, what: str) -> None:
        with self._proxy() as proxy, self._crew(proxy.endpoint) as crew:
            started = time.monotonic()
            crew.go()
            result = crew.result(_JOB_SECONDS)
            self._ground.measured(self._plan.shape, time.monotonic() - started)
        if result is None or not result.published:
            self.seen.troubles.append(f"{what} ended in {result}")
        self._judge.compare(self._judge.new, what)
        self._judge.look_for_leftovers(self._history)

    def _leave(self) -> None:
        """The lane is as the job was to leave it, for the next."""
        self._lane.rows = self._judge.new
        self._lane.jobs += 1
