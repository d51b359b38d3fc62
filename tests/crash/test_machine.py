"""Orders that no loop reaches: drivers, workers, cuts, recoveries and sweeps of one job, in any order."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import Phase, settings, target
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from magicfs import datasets
from magicfs.committers.magic import MagicCommitter
from magicfs.errors import MagicError
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol import ids
from magicfs.protocol.paths import Location
from magicfs.testing.store_faults import Fault, Kind
from proofs.crash.past import before_of
from proofs.crash.scene import Scene
from proofs.crash.settings import Setting
from proofs.crash.snapshots import BUCKET
from proofs.crash.writing import DESTINATION, write_attempt
from proofs.crash.wrong_lines import WITHOUT_SWAP
from tests.sample import examples

TASKS = (0, 1)
CUTS = st.none() | st.builds(
    Fault, st.sampled_from([Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.REPLY_LOST]), number=st.integers(1, 60)
)
WISHES = st.sampled_from([{}, {"rollback": True}, {"abort": True}])
PLACE = Location("memory", BUCKET, DESTINATION)


class OneJob(RuleBasedStateMachine):
    """One job, whose processes do what comes to their minds."""

    @initialize(
        layout=st.sampled_from(["__magic_job", "__magic"]),
        winners=st.sampled_from(["handed", "listed"]),
        mode=st.sampled_from(["error", "append", "overwrite", "overwrite_partitions"]),
        shape=st.sampled_from(["one", "two", "three"]),
        store=st.sampled_from(["full", "full", "write-once"]),
    )
    def begin(self, layout: Any, winners: Any, mode: Any, shape: str, store: str) -> None:
        self.scene = Scene.new(Setting(layout, "store", winners, mode, shape, store))
        self.scene.job.tasks = frozenset(map(ids.task_id, TASKS))
        self.scene.job.accepted = [] if winners == "handed" else None
        self.commits: dict[int, TaskCommit] = {}
        self.drivers: list[str] = []
        self.steps = 0

    def play(self, name: str, fault: Fault | None, program: Any) -> Any:
        """Run a program as a new process, perhaps cut; what it returned."""
        self.steps += 1

        async def whole() -> Any:
            self.scene.watch(faults=[fault] if fault else [])
            process = self.scene.process(f"{name}-{self.steps}")
            return await process.play(program(process))

        outcome = self.scene.stage(whole(), seed=self.steps)
        if outcome.error is not None and not isinstance(outcome.error, MagicError):
            raise outcome.error
        return outcome.result

    # The id of a job that has ended is not used again.
    @precondition(lambda self: self.scene.history.state is not None or not self.scene.history.states)
    @rule(cut=CUTS)
    def set_up(self, cut: Fault | None) -> None:
        setup = self.play(
            "setup", cut, lambda one: MagicCommitter(self.scene.context, one.engine).setup_job()
        )
        if setup is not None:
            self.drivers.append(setup.driver)

    @rule(number=st.sampled_from(TASKS), cut=CUTS)
    def work(self, number: int, cut: Fault | None) -> None:
        task = ids.task_id(number)
        attempt = ids.attempt_id(task, f"{self.steps:04x}")

        async def program(process: Any) -> TaskCommit:
            wrote = await write_attempt(process, self.scene.context, attempt, (f"p={number}/part-0.bin",))
            self.scene.job.outputs[attempt] = wrote
            return await MagicCommitter(self.scene.context, process.engine).commit_task(task, attempt)

        commit = self.play("worker", cut, program)
        if commit is not None:
            self.commits[number] = commit

    @precondition(lambda self: len(self.commits) == len(TASKS) and self.drivers)
    @rule(data=st.data(), cut=CUTS)
    def commit(self, data: st.DataObject, cut: Fault | None) -> None:
        driver = data.draw(st.sampled_from(self.drivers))
        chosen = list(self.commits.values())
        if self.scene.job.accepted is not None:
            self.scene.job.accepted.append({one.attempt_id for one in chosen})
        handed = chosen if self.scene.job.accepted is not None else None
        report = self.play(
            "driver",
            cut,
            lambda one: MagicCommitter(self.scene.context, one.engine).commit_job(handed, driver),
        )
        assert report is None or self.scene.history.reached("completed")

    @precondition(lambda self: self.drivers)
    @rule(data=st.data(), cut=CUTS)
    def abort(self, data: st.DataObject, cut: Fault | None) -> None:
        driver = data.draw(st.sampled_from(self.drivers))

        def program(process: Any) -> Coroutine[Any, Any, None]:
            committer = MagicCommitter(self.scene.context, process.engine)
            return committer.abort_job(list(self.commits.values()), driver)

        self.play("abort", cut, program)

    @rule(wish=WISHES, cut=CUTS)
    def recover(self, wish: dict[str, bool], cut: Fault | None) -> None:
        self.play("recovery", cut, lambda one: self.recovering(one, **wish))

    def recovering(self, process: Any, **wish: bool) -> Coroutine[Any, Any, Any]:
        return datasets.recover_jobs(process.engine, PLACE, job=self.scene.context.job, **wish)

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "scene"):
            self.check()

    def check(self) -> None:
        if self.scene.violations:
            raise AssertionError("\n".join(map(str, self.scene.violations)))

    def teardown(self) -> None:
        if not hasattr(self, "scene"):
            return
        target(float(len(self.scene.history.states)))
        if self.scene.history.state is not None:
            self.play("last", None, self.recovering)
        if self.scene.history.state is not None:
            self.play("last", None, lambda one: self.recovering(one, abort=True))
        self.play(
            "sweeper", None, lambda one: MagicCommitter(self.scene.context, one.engine).abort_job((), None)
        )
        self.scene.look(ended=True)
        self.check()


@pytest.mark.nightly
def test_the_machine_would_notice() -> None:
    wrong = WITHOUT_SWAP
    before_of(Setting(mode="append"))
    thorough = settings(max_examples=500, database=None, deadline=None, phases=[Phase.generate])
    with (
        wrong.wrong(),
        pytest.raises(AssertionError, match="never committing"),
    ):
        run_state_machine_as_test(OneJob, settings=thorough)


TestOneJob = OneJob.TestCase
TestOneJob.settings = settings(max_examples=examples(150), stateful_step_count=14, deadline=None)
