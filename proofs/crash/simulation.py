"""Whole jobs from one seed, in virtual time: drivers, workers, zombies, rivals, recoveries, clocks that jump.

Everything goes wrong with some probability, and at the end the weather clears: late requests arrive, what is
unfinished is recovered, one sweep follows, and the invariants must hold.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from magicfs import datasets
from magicfs.committers.base import Committer
from magicfs.datasets.commit import commit_listed
from magicfs.errors import CommitOutcomeUnknown, CommitUnfinished, MagicError, StoreError
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId, TaskId
from magicfs.protocol.paths import Location
from magicfs.report import JobReport
from magicfs.stores.retrying import RetryingStore
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.crash import days
from proofs.crash.chances import Chances
from proofs.crash.company import MAINTENANCE, Maintenance, interrupted, is_company, near_limits
from proofs.crash.drawing import DRIVEN, DrawnJob, again, draw_jobs, keep_small_files
from proofs.crash.history import Facts
from proofs.crash.invariants import Violation
from proofs.crash.names import draw_names, lay_names
from proofs.crash.past import before_of
from proofs.crash.processes import Outcome, Process
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import KINDS, MODELS
from proofs.crash.watched import Watched
from proofs.crash.writing import DESTINATION, START, Clock, committer_of, write_attempt

__all__ = ["Result", "Simulation", "simulate"]


_PLACE = Location("memory", BUCKET, DESTINATION)
_TRIES = 4
# Share of the seeds whose jobs have names that make trouble.
_HOSTILE = 0.3
_RECOVERIES = {"rivals": (0,), "races": (2, 3), "drivers": (2,), "interrupts": (0, 0, 1)}


@dataclass(slots=True)
class Result:
    """What simulated jobs came to.

    Attributes:
        jobs: How many ran.
        endings: How many were published, taken back, aborted, or never began.
        met: Faults by kind and by the state of the job that they met.
        findings: Violations, each with its seed.
    """

    jobs: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[tuple[Violation, str]] = field(default_factory=list)


@dataclass
class Simulation(Watched):
    """One seed.

    Attributes:
        chances: What happens.
        jobs: One job, or two rivals.
        seed: The seed.
    """

    chances: Chances = field(kw_only=True)
    seed: str = field(kw_only=True)
    jobs: list[DrawnJob] = field(kw_only=True)
    _running: list[asyncio.Task[Outcome]] = field(default_factory=list)
    _numbers: int = 0
    _skew: float = 0.0
    _interruption: random.Random | None = None
    _patience: random.Random | None = None
    _helped: set[JobId] = field(default_factory=set)

    @classmethod
    def of(cls, seed: str) -> Simulation:
        """The simulation of a seed, before it runs.

        Args:
            seed: A text; of another committer than ``magic`` its name and a dot come first, and before that
                of another store than S3 its kind and an ``@``.

        Raises:
            ValueError: No driven committer, or no kind of store, has that name.
        """
        kind, _, rest = seed.rpartition("@")
        committer, _, rest = rest.rpartition(".")
        if (committer := committer or "magic") not in DRIVEN:
            raise ValueError(f"{committer!r} is not one of {', '.join(DRIVEN)}, whose jobs are simulated")
        if (kind := kind or "s3") not in KINDS:
            raise ValueError(
                f"{kind!r} is not one of {', '.join(KINDS)}, the stores that there are models of"
            )
        chances = Chances.of(seed, rest.partition("-")[0] if "-" in rest else "")
        jobs = draw_jobs(chances, committer, kind)
        keep_small_files(random.Random(f"small {seed}"), jobs)  # noqa: S311 - no secret
        before = before_of(jobs[0].setting)
        # Of a source of its own: what else is drawn stays as it was.
        source = random.Random(f"names {seed}")  # noqa: S311 - no secret
        if chances.company == "names" or (not chances.company and source.random() < _HOSTILE):
            draw_names(source, jobs)
            before = before.copy()
            lay_names(before, jobs)
        world = SnapshotWorld(Clock(START + 86400), before)
        model = MODELS[jobs[0].setting.store]
        facts = Facts(
            DESTINATION, [job.facts for job in jobs], not model.honoured.delete, model.hides_uploads
        )
        return cls(before, world, facts, chances=chances, jobs=jobs, seed=seed)

    def _fault(self, request: Request) -> Fault | None:
        fault = self.chances.fault(request, self._state(request))
        honoured = MODELS[self.jobs[0].setting.store].honoured
        if fault is None:
            return None
        if fault.kind is Kind.REFUSED and request.condition == "if_match" and not honoured.put_if_match:
            return None  # a store that does not look at it does not refuse either
        # Without conditional deletes a late one may meet another object: a window that is no secret. A work
        # file that comes once more after its task has committed has the same bytes, and only another ETag.
        meets = "delete" if not honoured.delete else "put" if "/_temporary/" in request.key else ""
        return None if fault.kind is Kind.LATE and request.operation == meets else fault

    def _state(self, request: Request) -> str:
        """The state of the job whose process sent a request."""
        number = int(request.actor.partition("-")[0][1:])
        history = self.histories[self.jobs[number].context.job]
        return history.state or ("ended" if history.states else "none")

    def run(self) -> None:
        """Run it to its end, and look."""
        self.watch(
            page=self.chances.weather.page,
            stale=self.chances.weather.stale,
            latency=self.chances.latency,
            choose=self._fault,
        )
        seed = str(self.chances.random.random())
        with near_limits(self._company("limits", 0.1)):
            self.stage(self._run(), seed=seed, order=seed, clock=lambda: self.clock() + self._skew)

    def _company(self, wanted: str, share: float) -> random.Random | None:
        return is_company(self.seed, self.chances.company, wanted, share)

    async def _run(self) -> None:
        chances = self.chances
        self._interruption = self._company("interrupts", 0.1)
        self._patience = self._company("days", 0.1)
        for number, job in enumerate(self.jobs):
            self._start(f"j{number}-driver", chances.moment() if number else 0.0, self._driver, number, job)
            if chances.company == "drivers" or (not chances.company and chances.one_in(6)):
                self._start(f"j{number}-second", chances.moment(), self._driver, number, again(job))
                self._helped.add(job.context.job)
            how_many = _RECOVERIES.get(chances.company, (0, 0, 1, 1, 2))
            for _ in range(chances.random.choice(how_many)):
                self._start(f"j{number}-recovery", chances.moment(), self._recovery, number, job)
                self._helped.add(job.context.job)
        if chances.one_in(4):
            self._running.append(asyncio.ensure_future(self._clock_jumps()))
        if not chances.company and chances.one_in(10):
            self._running.append(asyncio.ensure_future(self._upload_expires()))
        if (source := self._company("maintenance", 0.2)) is not None:
            for number in range(source.randint(1, 4)):
                self._helped |= {job.context.job for job in self.jobs}
                command = MAINTENANCE[source.choice(list(MAINTENANCE))]
                after = source.uniform(0.0, 60 * chances.weather.latency_s)
                self._start(
                    f"j0-maintenance{number}", after, partial(self._maintain, command), 0, self.jobs[0]
                )
        while self._running:
            outcome = await self._running.pop(0)
            if outcome.surprising:
                self.surprised("a process", outcome)
        chances.calm = True
        await self.traffic.settle()
        for number, job in enumerate(self.jobs):
            await self._end(number, job)
        self.look(ended=True)
        self.look_beside(tidy=True)

    # -- processes -------------------------------------------------------------------------------------

    def _process(self, name: str) -> Process:
        self._numbers += 1
        full = f"{name}-{self._numbers}"
        cold = self.chances.one_in(20)
        setting = self.jobs[0].setting
        process = Process(full, self.world, self.traffic, setting.store, cold=cold, renames=setting.one_step)
        process.store = RetryingStore(process.store)
        if self.chances.one_in(2):
            self.chances.mortal.add(full)
        return process

    def _start(self, name: str, after: float, program: object, number: int, job: DrawnJob) -> None:
        process = self._process(name)

        async def run() -> None:
            await asyncio.sleep(after)
            await program(process, number, job)  # type: ignore[operator]

        self._running.append(process.start(run()))

    async def _driver(self, driver: Process, number: int, job: DrawnJob) -> None:
        committer = committer_of(job.context, driver)
        setup = await committer.setup_job()
        commits = await asyncio.gather(*(self._task(number, job, task) for task in job.files))
        accepted = [commit for commit in commits if commit is not None]
        if len(accepted) < len(job.files) or self.chances.one_in(25):
            await committer.abort_job(accepted, setup.driver)
            return
        hours = await self._wait()
        handed = accepted if job.setting.winners == "handed" else None
        if job.facts.accepted is not None:
            job.facts.accepted.append({commit.attempt_id for commit in accepted})
        for _ in range(_TRIES):
            try:
                report = await self._committed(committer, handed, setup.driver, job)
            except (CommitOutcomeUnknown, CommitUnfinished, StoreError):
                await asyncio.sleep(self.chances.pause(30.0))
                continue
            except MagicError:
                self._look_back(job, hours)
                if self.chances.one_in(2):
                    await committer.abort_job(accepted, setup.driver)
                raise
            if report is None:
                return
            self._look_back(job, hours, report)
            if report.job_id and not self.histories[job.context.job].reached("completed"):
                self.violations.append(
                    Violation("b", "a driver says that the job is published, and it is not")
                )
            return

    async def _wait(self) -> int:
        """Let days go by, once, while everything else goes on or stands still; returns how many hours."""
        source, self._patience = self._patience, None
        if source is None:
            return 0
        # Names that were replaced in place are gone with their uploads, if a clock goes wrong meanwhile.
        hours = source.choice(days.HOURS if all(one.facts.unique for one in self.jobs) else days.HOURS[:-1])
        await asyncio.sleep(source.choice((0.0, 3600.0)))
        self.clock.now += hours * 3600
        return hours

    def _look_back(self, job: DrawnJob, hours: int, report: JobReport | None = None) -> None:
        """Whether a job that has waited ended as it must, if nobody else has begun or ended it."""
        if not hours or self._skew or job.context.job in self._helped:
            return
        history = self.histories[job.context.job]
        has_uploads = job.facts.has_uploads(history.plan, job.context.options.small_files)
        wrong = days.complaint(
            hours,
            MODELS[job.setting.store].upload_days if has_uploads else None,
            committing=history.reached("committing"),
            warnings=report.warnings if report is not None else None,
        )
        if wrong:
            self.violations.append(Violation("b", wrong))

    async def _committed(
        self, committer: Committer, handed: list[TaskCommit] | None, driver: str | None, job: DrawnJob
    ) -> JobReport | None:
        """Commit the job; None if somebody interrupts that in time, and aborts the job."""
        source, self._interruption = self._interruption, None
        if source is None:
            return await committer.commit_job(handed, driver)
        after = source.uniform(0.0, 40 * self.chances.weather.latency_s)
        call = await interrupted(partial(committer.commit_job, handed, driver), after)
        if not isinstance(call.error, asyncio.CancelledError):
            return call.result()
        alone = job.context.job not in self._helped
        if alone and self.histories[job.context.job].reached("committing"):
            self.violations.append(Violation("b", "a driver was stopped after its commit point"))
        await committer.abort_job(handed or (), driver)
        return None

    async def _maintain(self, command: Maintenance, process: Process, _number: int, job: DrawnJob) -> None:
        await command(process.engine, _PLACE, job.context.job)

    async def _task(self, number: int, job: DrawnJob, task: TaskId) -> TaskCommit | None:
        """Run a task as engines do: again when an attempt fails, and beside one that takes too long."""
        for _ in range(_TRIES):
            worker = self._process(f"j{number}-worker")
            running = worker.start(self._attempt(worker, job, task))
            done, _pending = await asyncio.wait({running}, timeout=300.0)
            if not done:
                self._running.append(running)  # a zombie, which the engine has given up
                continue
            outcome = running.result()
            if outcome.surprising:
                self.surprised("a worker", outcome)
            if isinstance(outcome.result, TaskCommit):
                return outcome.result
        return None

    async def _attempt(self, worker: Process, job: DrawnJob, task: TaskId) -> TaskCommit | None:
        self._numbers += 1
        attempt = ids.attempt_id(task, f"{self._numbers:04x}")
        committer = committer_of(job.context, worker)
        files = job.files[task]
        if self.chances.one_in(8):
            files = files[:-1] or files
        try:
            wrote = await write_attempt(worker, job.context, attempt, files)
            if self.chances.one_in(10):
                await asyncio.sleep(self.chances.pause(2000.0))
            if self.chances.one_in(20):
                await committer.abort_task(attempt)
                return None
        except MagicError:
            await committer.abort_task(attempt)
            raise
        job.facts.outputs[attempt] = wrote
        return await committer.commit_task(task, attempt)

    async def _recovery(self, process: Process, _number: int, job: DrawnJob) -> None:
        """Somebody is impatient, whether or not the driver lives."""
        wishes: list[dict[str, bool]] = [{}, {}, {"rollback": True}, {"abort": True}]
        if job.setting.winners == "listed" and job.setting.tracking == "store" and self.chances.one_in(4):
            # Whoever commits what is listed says that this is all.
            job.facts.tasks = frozenset()
            await commit_listed(process.engine, _PLACE, job.context.job)
            return
        if self.chances.company == "drivers":
            wishes = [{"abort": True}]
        wish = self.chances.random.choice(wishes)
        await datasets.recover_jobs(process.engine, _PLACE, job=job.context.job, **wish)  # type: ignore[arg-type]

    async def _clock_jumps(self) -> Outcome:
        for _ in range(3):
            await asyncio.sleep(self.chances.moment())
            self._skew += self.chances.random.choice((-86400.0, -60.0, 60.0, 86400.0 * 30))
        return Outcome()

    async def _upload_expires(self) -> Outcome:
        """A lifecycle rule, or somebody who tidies up, aborts an upload of a job."""
        await asyncio.sleep(self.chances.moment())
        own = [one for one in self.world.uploads if one not in self.before.uploads]
        if own and all(job.facts.unique for job in self.jobs):
            self.world.uploads.pop(self.chances.random.choice(own))
        return Outcome()

    # -- the end ---------------------------------------------------------------------------------------

    async def _end(self, number: int, job: DrawnJob) -> None:
        for _ in range(3):
            self.look()
            if self.histories[job.context.job].state is None:
                break
            process = self._process(f"j{number}-finisher")
            outcome = await process.play(self._finish(process, job))
            self.surprised("the last recovery", outcome)
        process = self._process(f"j{number}-sweeper")
        outcome = await process.play(committer_of(job.context, process).abort_job((), None))
        self.surprised("the sweeper", outcome)

    async def _finish(self, process: Process, job: DrawnJob) -> None:
        report = await datasets.recover_jobs(process.engine, _PLACE, job=job.context.job)
        if report.jobs and report.jobs[0].action == "left":
            await datasets.recover_jobs(process.engine, _PLACE, job=job.context.job, abort=True)

    def endings(self) -> Iterator[str]:
        """How each job ended."""
        for job in self.jobs:
            states = self.histories[job.context.job].states
            yield states[-1] if states else "never set up"


def simulate(seed: str, result: Result) -> None:
    """Run one seed, and add what came of it."""
    simulation = Simulation.of(seed)
    simulation.run()
    result.jobs += len(simulation.jobs)
    result.endings.update(simulation.endings())
    result.met.update(simulation.chances.met)
    result.findings += [(one, f"simulated:{seed}") for one in dict.fromkeys(simulation.violations)]
