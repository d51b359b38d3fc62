"""Jobs of small shape, played in memory on one loop: driver, workers, losers, zombies, recoveries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from magicfs import datasets
from magicfs.datasets.commit import commit_listed
from magicfs.errors import CommitDenied, CommitFailed, ProtocolViolation, UsageError
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.ids import AttemptId, JobId
from magicfs.protocol.paths import Location
from magicfs.report import JobReport, RecoverReport
from magicfs.transaction.context import JobContext
from proofs.crash import beside, days
from proofs.crash.history import Facts, JobFacts, JobHistory
from proofs.crash.invariants import Violation
from proofs.crash.past import before_of
from proofs.crash.processes import Outcome, Process
from proofs.crash.settings import SHAPES, Attempt, Setting
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.store_models import MODELS
from proofs.crash.watched import Watched
from proofs.crash.writing import DESTINATION, START, Clock, committer_of, context_of, write_attempt
from proofs.doubles import virtual_time

__all__ = ["Moment", "Scene", "Wish"]

Wish = Literal["forward", "rollback", "commit", "abort"]
"""What somebody wants who finds the job: its end; its old state; an open job committed as it is listed, or by
a second attempt of the job where no listing shows it; the job aborted on its driver's machine."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The world as a crash at one moment would leave it.

    Attributes:
        world: The world.
        history: What the job had gone through.
        now: Seconds since the epoch.
    """

    world: SnapshotWorld
    history: JobHistory
    now: float

    def same(self, world: SnapshotWorld) -> bool:
        """Whether a world holds the very same."""
        return self.world.same(world)


@dataclass
class Scene(Watched):
    """One job in one world, watched.

    Attributes:
        setting: What kind of job.
        context: The job.
        wait_h: How many hours the driver waits before it commits.
        late: Workers that outlive their job.
    """

    setting: Setting = field(kw_only=True)
    context: JobContext = field(kw_only=True)
    wait_h: int = 0
    late: list[asyncio.Task[Outcome]] = field(default_factory=list)
    _attempts: int = 0

    @classmethod
    def new(cls, setting: Setting, wait_h: int = 0) -> Scene:
        """The scene before its job, always the same."""
        before = before_of(setting)
        with virtual_time.deterministic(0, Clock(START)):
            context = context_of(setting, JobId(str(uuid4())))
        shape = SHAPES[setting.shape]
        tasks = frozenset(ids.task_id(one.task) for one in shape.attempts if one.end == "accepted")
        job = JobFacts(
            context.job,
            context.layout.job_directory,
            setting.mode,
            tasks,
            unique=setting.names == "unique",
            committer=setting.name,
            by_tasks=setting.by_tasks,
        )
        world = SnapshotWorld(Clock(START + 86400), before)
        facts = Facts(DESTINATION, [job], hides=MODELS[setting.store].hides_uploads)
        return cls(before, world, facts, setting=setting, context=context, wait_h=wait_h)

    def at(self, moment: Moment) -> Scene:
        """The scene as it was at a moment, all processes dead."""
        return Scene(
            self.before,
            SnapshotWorld(Clock(moment.now), moment.world),
            self.facts,
            {self.context.job: moment.history.copy()},
            setting=self.setting,
            context=self.context,
        )

    @property
    def history(self) -> JobHistory:
        """What the job went through."""
        return self.histories[self.context.job]

    def moment(self) -> Moment:
        """This moment, to come back to."""
        self.look_at_disk()
        return Moment(self.world.copy(), self.history.copy(), self.clock.now)

    @property
    def job(self) -> JobFacts:
        """The job."""
        return self.facts.jobs[0]

    def process(self, name: str) -> Process:
        """A new process."""
        cold = self.setting.shape == "one"
        return Process(
            name, self.world, self.traffic, self.setting.store, cold=cold, renames=self.setting.one_step
        )

    # -- the job ---------------------------------------------------------------------------------------

    async def play_job(self) -> Outcome:
        """The whole job, from its setup to the end of its driver and of the last of its workers."""
        driver = self.process("driver")
        outcome = await driver.play(self._drive(driver))
        for task in self.late:
            late = await task
            if late.surprising:
                self.surprised("a late worker", late)
        if not outcome.died:
            has_uploads = self.job.has_uploads(self.history.plan, self.context.options.small_files)
            upload_days = MODELS[self.setting.store].upload_days if has_uploads else None
            if isinstance(outcome.error, CommitFailed) and days.is_going(self.wait_h, upload_days):
                return outcome
            self.surprised("the driver", outcome)
            warnings = outcome.result.warnings if isinstance(outcome.result, JobReport) else None
            committing = self.history.reached("committing")
            if wrong := days.complaint(self.wait_h, upload_days, committing=committing, warnings=warnings):
                self.violations.append(Violation("b", wrong))
            published = self.history.reached("completed")
            if outcome.error is None and not published:
                self.violations.append(Violation("b", "the driver says that the job is published"))
            elif not published and not self.traffic.met:
                self.violations.append(Violation("b", "nothing went wrong, and the job is not published"))
            # Whoever still runs on may leave something afterwards.
            self.look_beside(tidy=outcome.error is None and not self.late)
        return outcome

    async def _drive(self, driver: Process) -> Any:
        committer = committer_of(self.context, driver)
        setup = await committer.setup_job()
        commits = [await self._accepted(attempt) for attempt in SHAPES[self.setting.shape].attempts]
        taken = [commit for commit in commits if commit is not None]
        self.clock.now += self.wait_h * 3600
        if self.setting.winners == "listed":
            return await committer.commit_job(None, setup.driver)
        self.job.accepted = [{commit.attempt_id for commit in taken}]
        return await committer.commit_job(taken, setup.driver)

    async def _accepted(self, attempt: Attempt) -> TaskCommit | None:
        """Run an attempt as the engine does: what should be accepted is tried again when its process dies."""
        again: AttemptId | None = None
        for _ in range(3):
            worker = self.process(f"worker-{attempt.task}")
            program = self._work(worker, attempt, again)
            if attempt.end == "late":
                self.late.append(worker.start(program))
                await asyncio.sleep(0)
                return None
            outcome = await worker.play(program)
            if outcome.error is not None:
                self.surprised("a worker", outcome)
            if attempt.end != "accepted":
                return None
            if isinstance(outcome.result, TaskCommit):
                return outcome.result
            if self.setting.by_tasks:
                # It is not run again once it has begun to commit: its attempt goes on, or a listing finds it.
                own = ids.attempt_id(ids.task_id(attempt.task), f"{self._attempts:04x}")
                again = own if own in self.job.outputs else None
                if own in self.history.claims and self.setting.winners == "listed":
                    return None
        return None

    async def _work(self, worker: Process, attempt: Attempt, again: AttemptId | None) -> TaskCommit | None:
        task = ids.task_id(attempt.task)
        if again is not None:
            return await committer_of(self.context, worker).commit_task(task, again)
        self._attempts += 1
        attempt_id = ids.attempt_id(task, f"{self._attempts:04x}")
        wrote = await write_attempt(worker, self.context, attempt_id, attempt.files)
        if attempt.end == "lost":
            worker.actor.dead = True
            return None
        self.job.outputs[attempt_id] = wrote
        return await committer_of(self.context, worker).commit_task(task, attempt_id)

    # -- afterwards ------------------------------------------------------------------------------------

    async def recover(self, wish: Wish, name: str = "recovery") -> Outcome:
        """Bring the job to its end from another process."""
        process = self.process(name)
        outcome = await process.play(self._settle(process, wish))
        if not outcome.died:
            self.surprised(name, outcome)
        return outcome

    async def _settle(self, process: Process, wish: Wish) -> None:
        if wish == "rollback" and self.history.state is not None:
            published = self.history.reached("completed")
            try:
                await self._recovered(process, rollback=True)
            except CommitDenied:
                if not self.history.reached("completed") and not self._irreversible():
                    raise
            else:
                if self.history.reached("completed") and not published:
                    self.violations.append(Violation("b", "a rollback has published the job"))
                return
        if wish == "abort":
            await self._aborted(process)
            return
        if wish == "commit" and self._can_be_listed():
            if self.setting.tracking == "cluster":
                await self._second_attempt(process)
                return
            place = Location("memory", BUCKET, DESTINATION)
            await commit_listed(process.engine, place, self.context.job)
            return
        report = await self._recovered(process)
        if report is not None and report.undecided:
            await self._recovered(process, abort=True)

    async def _recovered(self, process: Process, **wish: Any) -> RecoverReport | None:
        """What ``magicfs recover --job`` does; None if the job has ended."""
        place = Location("memory", BUCKET, DESTINATION)
        try:
            return await datasets.recover_jobs(process.engine, place, job=self.context.job, **wish)
        except UsageError:
            if self.history.state is not None:
                raise
            # Without a name, too, nothing happens: the other job is open, and left alone.
            await datasets.recover_jobs(process.engine, place)
            return None

    async def _aborted(self, process: Process) -> None:
        """What ``job.abort()`` does on the driver's machine; a job that is published is finished."""
        try:
            await committer_of(self.context, process).abort_job((), None)
        except (ProtocolViolation, CommitDenied):
            if not self.history.reached("completed") and not self._irreversible():
                raise
            await self._recovered(process)
        else:
            self.look_beside(tidy=True)

    async def _second_attempt(self, process: Process) -> None:
        """What an engine does that starts a driver again: the next attempt publishes what tasks committed."""
        context = replace(self.context, layout=replace(self.context.layout, attempt=1))
        committer = committer_of(context, process)
        setup = await committer.setup_job()
        await committer.commit_job(await committer.recover_tasks(), setup.driver)
        self.look_beside(tidy=True)

    def _can_be_listed(self) -> bool:
        """Whether the job is open and every task has committed; whoever commits it has looked."""
        sets = f"{self._sets_directory}/"
        names = [key[len(sets) :] for key in self.world.objects if key.startswith(sets)]
        done = {name.removeprefix("attempt-").partition("-")[0] for name in names}
        if self.setting.tracking == "cluster":
            done = set(beside.committed(self.world, self.context.job))
        open_ = self.history.state in {"open", "prepared"} and self.setting.winners == "listed"
        return open_ and done >= self.job.tasks

    @property
    def _sets_directory(self) -> str:
        temporary = self.context.temporary
        if self.setting.by_tasks:
            return temporary.claims_directory
        return temporary.manifests_directory if self.setting.renames else self.context.layout.sets_directory

    def _irreversible(self) -> bool:
        copies = self.setting.renames and not self.setting.one_step
        can_be = copies or self.setting.names == "equal" or self.setting.tracking == "small"
        return can_be and self.history.reached("committing")

    async def end(self) -> None:
        """Check the end; after one sweep, where more than a recovery is needed.

        That is where a process may have come too late, or the job never began, or its object is many keys, of
        which the first goes first. What lies beside the store is removed by aborting the job on its driver's
        machine, whatever became of it.
        """
        if self.late or not self.history.states or self.setting.numbered or self._is_nameless:
            await self._sweep()
        self.look(ended=True)
        if self.staged:
            await self._sweep()
            self.look(ended=True)
            self.look_beside(tidy=True)

    @property
    def _is_nameless(self) -> bool:
        """Whether only the cluster, which a recovery does not know, tells whose an upload is."""
        return self.setting.names == "equal" and self.setting.tracking == "cluster"

    async def _sweep(self) -> None:
        sweeper = self.process("sweeper")
        outcome = await sweeper.play(committer_of(self.context, sweeper).abort_job((), None))
        self.surprised("the sweeper", outcome)
