"""A job whose audit fails, at a destination with a past: judged, held, then accepted or discarded.

Of its two tasks the driver has heard of the first. The second has committed as well, so whoever publishes
what lies there, and not what was judged, shows a file too many.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

from magicfs import datasets
from magicfs.audit import Audited, Check
from magicfs.audit.extension import Judge
from magicfs.committers import registry
from magicfs.committers.driven import DrivenCommitter
from magicfs.datasets.abort import abort_job
from magicfs.datasets.commit import commit_listed
from magicfs.errors import AuditFailed, CommitDenied, UsageError
from magicfs.formats.job_options import Audits, JobOptions, Keep
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests import chain
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.report import JobReport
from magicfs.transaction.context import JobContext, JobSetup
from proofs.crash.history import document_of, newest
from proofs.crash.past_deeds import DAY_MS, PLACE, named
from proofs.crash.past_scene import PastScene
from proofs.crash.processes import Outcome, Process
from proofs.crash.writing import DESTINATION, write_attempt

__all__ = ["REASON", "RUN", "STEPS", "AuditScene", "Step"]

Step = Literal["judge", "judge and abort", "accept", "accept unjudged", "discard"]
"""What is done: its driver commits the job, whose audit fails, and it is held, or aborted at once; somebody
accepts a job that is held, or one whose driver died before it was judged; somebody discards one."""
STEPS: Final[tuple[Step, ...]] = get_args(Step)
REASON: Final = "a holiday"
RUN: Final = "daily"
_RULE: Final = "enough"
_ACCEPTS: Final = ("accept", "accept unjudged")
_BEFORE_COMMIT: Final = ("open", "prepared")


def _too_few(seen: Audited) -> str | None:
    return f"{seen.count} files are too few"


@dataclass
class AuditScene(PastScene):
    """One world with a past and a job that is to be judged, and one who does something to it.

    Attributes:
        step: What is done.
        begun: What the job's driver was given when it set it up.
        commits: What it has heard of its tasks.
        told: Whether it was told that the audit failed.
        accepting: Whether anybody has accepted the job.
        settled: Whether the job was brought to its end.
    """

    step: Step = "judge"
    begun: JobSetup | None = None
    commits: tuple[TaskCommit, ...] = ()
    told: bool = False
    accepting: bool = False
    settled: bool = False

    @classmethod
    def before(cls, model: str, step: Step) -> Self:
        """The world before the step."""
        scene = cls.begin(model, "keep")
        scene.stage(scene.set_up_all(), seed="set up")
        if step in {"accept", "discard"}:
            scene.stage(scene.play("the driver before"), seed="judged")
            assert scene.told
        scene.step, scene.accepting = step, step in _ACCEPTS
        if step == "accept unjudged":  # all that lies there
            scene.new |= named(("p=0/late.bin",), scene.job, task=1)
        return scene

    @property
    def name(self) -> str:
        """What is done, for people."""
        return self.step

    async def set_up_all(self) -> None:
        """Set the job up, and have its tasks commit."""
        process = self.process("the tasks")
        outcome = await process.play(self._tasks(process, 0, ("p=0/x.bin", "p=0/late.bin")))
        assert outcome.error is None, outcome

    async def _tasks(self, process: Process, attempt: int, names: tuple[str, ...]) -> None:
        """Set the job up, and have one task commit each of the files; the driver hears of the first."""
        context = self.context(attempt)
        committer = registry.make("magic", context, process.engine)
        self.begun = await committer.setup_job()
        heard = []
        for number, name in enumerate(names):
            task = ids.task_id(number)
            one = ids.attempt_id(task, f"{attempt}1")
            await write_attempt(process, context, one, (name,))
            heard.append(await committer.commit_task(task, one))
        self.commits = (heard[0],)

    def context(self, attempt: int = 0, job: JobId | None = None) -> JobContext:
        """The job, or another one of the same run."""
        return JobContext(
            url=PLACE.url,
            layout=WorkLayout(DESTINATION, job or self.job, attempt),
            options=JobOptions(
                committer="magic",
                mode="overwrite",
                run_id=RUN,
                keep=Keep(ms=7 * DAY_MS),
                audit=Audits(rules=(_RULE,)),
            ),
        )

    # -- what is seen ------------------------------------------------------------------------------

    def said_by(self, key: str) -> dict[str, Any]:
        """A document of the job's, as it stands in the store; nothing once it is gone."""
        found = newest(self.world.objects, key.removesuffix(".json"))
        return {} if found is None else dict(document_of(found.body))

    def job_object(self) -> dict[str, Any]:
        """The job object; nothing once the job has ended."""
        return self.said_by(self.context().layout.job_object_key)

    def manifest(self) -> dict[str, Any]:
        """The job's manifest."""
        return self.said_by(chain.manifest_key(DESTINATION, self.job))

    def is_held(self) -> bool:
        """Whether the job is in quarantine."""
        said = self.job_object()
        return said.get("state") in _BEFORE_COMMIT and "accepted" not in said.get("audit", {"accepted": ""})

    def look(self) -> None:
        """What readers see now: nothing of the job before somebody has accepted it."""
        super().look()
        audits = [one.get("audit") or {} for one in (self.job_object(), self.manifest())]
        accepted = any("accepted" in one for one in audits)
        if accepted and not self.accepting:
            self.violations.append("the job is accepted, and nobody has accepted it")
        shown = [
            key
            for key in self.world.objects
            if self.job in key and paths.is_under(key, DESTINATION) and paths.is_visible(key, DESTINATION)
        ]
        if shown and not accepted:
            self.violations.append(f"{shown} is there, and nobody has accepted the job")

    def check_end(self, *, done: bool = False) -> None:
        """What must hold once everything has been brought to its end; ``done``: whether it was done."""
        if self.step == "judge" and not self.settled:
            self.look()
            if not (self.told and self.is_held()):
                self.violations.append("the audit has failed, and the job is not in quarantine")
            return
        super().check_end(done=done and self.step in _ACCEPTS)
        if self.seen_new:
            said = self.manifest().get("audit") or {}
            verdicts = [(one["passed"], one["told"]) for one in said.get("verdicts", ())]
            told = "1 files are too few"
            if self.step == "accept unjudged":
                told = "did not run: the job's driver died before it"
            if (said.get("accepted"), verdicts) != (REASON, [(False, told)]):
                self.violations.append(f"the manifest says of the audit {said}")

    # -- what is done ------------------------------------------------------------------------------

    def program(self, process: Process) -> Coroutine[Any, Any, Any]:
        """What is done, as a process does it."""
        match self.step:
            case "judge":
                return self.judge(process)
            case "judge and abort":
                return self._judge(process, "abort")
            case "accept" | "accept unjudged":
                return self.accept(process)
            case "discard":
                return self.discard(process)

    def judge(self, process: Process) -> Coroutine[Any, Any, None]:
        """Its driver commits it, and it is held."""
        return self._judge(process, "quarantine")

    async def _judge(
        self, process: Process, on_failure: Literal["quarantine", "abort"], attempt: int = 0
    ) -> None:
        assert self.begun is not None
        committer = registry.make("magic", self.context(attempt), process.engine)
        assert isinstance(committer, DrivenCommitter)
        committer.given = (Judge((Check(_too_few, _RULE),), on_failure),)
        try:
            await committer.commit_job(self.commits, self.begun.driver)
        except AuditFailed as error:
            self.told = error.quarantined == (on_failure == "quarantine")

    def accept(self, process: Process) -> Coroutine[Any, Any, JobReport]:
        """Publish the job although its audit has failed."""
        self.accepting = True
        return commit_listed(process.engine, PLACE, self.job, accept=REASON)

    def discard(self, process: Process) -> Coroutine[Any, Any, Any]:
        """Abort the job."""
        return abort_job(process.engine, PLACE, job=self.job)

    async def run_again(self, process: Process, job: JobId) -> JobReport | None:
        """Another job of the same run, which nobody judges; None if the run is published already."""
        context = self.context(job=job).asked(audit=Audits())
        committer = registry.make("magic", context, process.engine)
        setup = await committer.setup_job()
        if setup.published is not None:
            await committer.abort_job([], setup.driver)
            return None
        task = ids.task_id(0)
        attempt = ids.attempt_id(task, "1")
        await write_attempt(process, context, attempt, ("p=0/x.bin",))
        return await committer.commit_job([await committer.commit_task(task, attempt)], setup.driver)

    # -- bringing it to its end --------------------------------------------------------------------

    async def settle(self, wish: str, name: str = "recovery") -> Outcome:
        """Recover, which leaves a job in quarantine; then bring it to its end.

        ``forward`` accepts it, ``back`` discards it, ``again`` does the same step once more first.
        """
        process = self.process(name)
        outcome = await process.play(self._settle(process, wish))
        if outcome.error is not None:
            self.violations.append(f"{name} raised {outcome.error!r}")
        self.settled = True
        return outcome

    async def _settle(self, process: Process, wish: str) -> None:
        if self.is_held():
            await self._leave(process)
        said = self.job_object()
        if said.get("state") in _BEFORE_COMMIT:
            if "audit" not in said:
                await self._unjudged(process)
            await self._without_token(process)
        if wish == "again":
            await self._again(process)
        await self.recover_only(process)
        said = self.job_object()
        unjudged = said.get("state") in _BEFORE_COMMIT and "audit" not in said
        if wish != "back" and unjudged and self.step == "accept unjudged":
            await self.accept(process)
        elif wish == "back" or unjudged:
            if said:
                await self.discard(process)
        elif self.is_held():
            await self.accept(process)
        elif said:
            await commit_listed(process.engine, PLACE, self.job)
        await self._recover(process, "forward")

    async def _leave(self, process: Process) -> None:
        """Nobody publishes, discards or takes over a job in quarantine who was not told to do that."""
        before = self.world.copy()
        await datasets.recover_jobs(process.engine, PLACE)
        if not before.same(self.world):
            self.violations.append("a recovery has changed something of a job in quarantine")
        with suppress(UsageError):
            await commit_listed(process.engine, PLACE, self.job)
            self.violations.append("a job in quarantine was published by who had not accepted it")

    async def _unjudged(self, process: Process) -> None:
        """Nobody publishes a job that no rule has judged, or takes it over to publish it so."""
        with suppress(UsageError):
            await commit_listed(process.engine, PLACE, self.job)
            self.violations.append("a job was published that nobody has judged, and nobody has accepted")
        with suppress(UsageError):
            await registry.make("magic", self.context().asked(audit=Audits()), process.engine).setup_job()
            self.violations.append("a driver without rules has taken over a job that is to be judged")

    async def _without_token(self, process: Process) -> None:
        """A driver that has not set the job up and has no rules may not commit it, in whatever state."""
        committer = registry.make("magic", self.context(), process.engine)
        with suppress(CommitDenied):
            await committer.commit_job(self.commits, None)
            self.violations.append(
                "a job was published by a driver who had neither set it up nor accepted it"
            )

    async def _again(self, process: Process) -> None:
        """The same step again, by another process."""
        if self.step in {*_ACCEPTS, "discard"}:
            with suppress(UsageError, CommitDenied):  # the job may have ended
                await self.program(process)
            return
        was_held = self.is_held()
        with suppress(CommitDenied):
            await self._tasks(process, 1, ("p=0/x.bin",))
            if was_held:
                self.violations.append("a new driver has taken a job over that is in quarantine")
            await self._judge(process, "quarantine" if self.step == "judge" else "abort", 1)
