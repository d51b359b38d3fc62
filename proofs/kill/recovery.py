"""What a user does about a job whose driver has died, by the command line, and what must come of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from proofs.kill.content import Lane, Rows
from proofs.kill.crew import Command
from proofs.kill.disk import DiskWatch
from proofs.kill.ground import Ground
from proofs.kill.judge import BEFORE, Judge
from proofs.kill.plans import Plan
from proofs.kill.watching import WatchingProxy

__all__ = ["Recovery", "Watch"]

Watch = WatchingProxy | DiskWatch

_COMMAND_SECONDS = 120.0
_SETTLE_SECONDS = 30.0
_PAST = ("committing", "completed")
_FINE, _UNDECIDED, _NOT_FOUND, _DENIED = 0, 1, 3, 4


class Recovery:
    """Runs ``magicfs`` until nothing is left to decide.

    Args:
        ground: What rounds share.
        lane: The destination.
        plan: What is wanted, and when a recovery is killed.
        judge: Knows the state of the job.
        log: Where commands write to.
    """

    def __init__(self, ground: Ground, lane: Lane, plan: Plan, judge: Judge, log: Path) -> None:
        self._ground = ground
        self._lane = lane
        self._plan = plan
        self._judge = judge
        self._seen = judge.seen
        self._log = log

    def run(self, proxy: Watch, *, completes: bool) -> Rows:
        """Recover.

        Args:
            proxy: The way to the store.
            completes: Whether the job was seen to complete files.

        Returns:
            What must be there afterwards.
        """
        rollback = self._plan.wish == "rollback" and self._seen.state in _PAST
        if self._plan.recovery_cut is not None:
            self._cut(proxy, rollback=rollback)
        state = self._judge.state()
        match state:
            case "open" | "prepared":
                self._expect(_UNDECIDED, proxy, "recover")
                self._expect(_FINE, proxy, "recover", "--abort")
            case "committing" if rollback:
                self._expect(_FINE, proxy, "recover", "--rollback")
                self._seen.rolled_back = True
            case "completed" if rollback:
                self._expect(_DENIED, proxy, "recover", "--rollback")
                self._expect(_FINE, proxy, "recover")
            case _:
                self._expect(_FINE, proxy, "recover")
        if self._plan.again:
            self._expect(_FINE, proxy, "recover")
        return self._expected(state, rollback=rollback, completes=completes)

    def sweep(self, proxy: Watch, job: str) -> None:
        """Discard what tasks have left that were still at work when their job ended.

        If uploads are all that is left, their names could be those of a job of Hadoop's that lives.
        """
        self._expect(_FINE, proxy, "recover", "--abort", "--job", job, "--driver-is-dead")

    def let_requests_settle(self, proxy: Watch, roles: tuple[str, ...] | None = None) -> None:
        """Wait for what was on its way when its sender died: nobody can recover from what is yet to come."""
        if not proxy.settle(_SETTLE_SECONDS, roles):
            self._seen.troubles.append("requests did not settle")

    def _cut(self, proxy: Watch, *, rollback: bool) -> None:
        assert self._plan.recovery_cut is not None
        how = ("--rollback",) if rollback else ("--abort",) if self._seen.state in BEFORE else ()
        longest = sum(self._ground.recoveries) / len(self._ground.recoveries)
        command = self._command(proxy, "recover", *how)
        self._seen.recoveries_killed += command.kill_at(self._plan.recovery_cut * longest)
        self.let_requests_settle(proxy)

    def _expected(self, state: str, *, rollback: bool, completes: bool) -> Rows:
        old, new = self._judge.old, self._judge.new
        if state in _PAST:
            return old if rollback and state == "committing" else new
        if state != "none":
            return old
        if self._seen.state != "none":  # a recovery that was killed had done everything
            undone = self._seen.state != "completed" and (rollback or self._seen.state != "committing")
            return old if undone else new
        # There was no job yet, or it had ended and only its process had not.
        return new if completes else old

    def _expect(self, status: int, proxy: Watch, *arguments: str) -> None:
        started = time.monotonic()
        got = self._command(proxy, *arguments).exit_status(_COMMAND_SECONDS)
        self._ground.recoveries.append(time.monotonic() - started)
        self._seen.recoveries += 1
        if got == _NOT_FOUND and self._judge.nothing_is_there():
            return  # the only job there was has gone without a trace, and a URL of nothing may be a slip
        if got != status:
            self._seen.troubles.append(f"magicfs {' '.join(arguments)}: exit status {got}, not {status}")

    def _command(self, proxy: Watch, *arguments: str) -> Command:
        where = json.dumps(self._ground.options(proxy.endpoint))
        call = [arguments[0], self._lane.url, "--storage-options", where, *arguments[1:]]
        return Command(call, self._ground.environment(proxy.endpoint), self._log)
