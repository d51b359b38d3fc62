"""Carries a turn out: processes run at once, some are killed, and what they left is brought to an end."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from proofs.kill.crew import Command, Program
from proofs.kill.phases import newest_version
from proofs.past import victim
from proofs.past.orders import PUBLISHES, Deed, Turn
from proofs.past.places import Place, Way

__all__ = ["FINE", "Done", "Runner"]

FINE: Final = 0
_UNDECIDED: Final = (1, 6)
_COMMAND_S: Final = 180.0
_REMEMBERED: Final = 5
_FIRST: Final = re.compile(r"__magic_job-([^/]+)/.*/job\.json")
_VERSION: Final = re.compile(r"__magic_job-([^/]+)/.*/job\.\d+\.json")


@dataclass
class Done:
    """What became of a deed.

    Attributes:
        deed: The deed.
        began_ms: When it began; of a call that was repeated, when the last one did.
        ended_ms: When all of it had ended, recoveries included.
        killed: Whether SIGKILL met it.
        status: How its process ended, or that of the repeated call; None if it was killed and not repeated.
    """

    deed: Deed
    began_ms: float
    ended_ms: float = 0.0
    killed: bool = False
    status: int | None = None


@dataclass
class Runner:
    """Runs turns at a place.

    Attributes:
        place: The place.
        directory: For logs.
        usual_s: How long deeds of each kind took that were not killed.
        states: The states of the jobs whose processes were killed, by kind and state.
        troubles: What went wrong.
        recoveries: How often somebody recovered.
        swept: How often versions of the object of a job that had ended waited for a sweep.
    """

    place: Place
    directory: Path
    usual_s: dict[str, deque[float]] = field(default_factory=dict)
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    recoveries: int = 0
    swept: int = 0

    def run(self, turn: Turn) -> list[Done]:
        """Carry a turn out; on return nobody is at work, and no job is unfinished."""
        log = self.directory / f"turn-{turn.number}.log"
        with self.place.way() as way:
            start = threading.Barrier(len(turn.deeds) + turn.recovers)
            with ThreadPoolExecutor(3) as pool:
                running = [pool.submit(self._do, one, way, log, start) for one in turn.deeds]
                if turn.recovers:
                    pool.submit(self._recover_beside, way, log, start)
            done = [one.result() for one in running]
        killed = [one for one in done if one.killed]
        if killed:
            self._note_states(killed)
            with self.place.way() as way:
                self._end(killed, way, log)
        for one in done:
            one.ended_ms = time.time() * 1000
        return done

    def log(self, number: int) -> str:
        """What the processes of a turn said."""
        path = self.directory / f"turn-{number}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _do(self, deed: Deed, way: Way, log: Path, start: threading.Barrier) -> Done:
        usual = self.usual_s.get(deed.kind)
        start.wait()
        began = time.time()
        program = self._program(deed, way, log)
        if deed.kill_at is not None and usual:
            if program.kill_at(deed.kill_at * sum(usual) / len(usual)):
                return Done(deed, began * 1000, killed=True)
            return Done(deed, began * 1000, status=program.exit_status(_COMMAND_S))
        status = program.exit_status(_COMMAND_S)
        if status == FINE:
            self.usual_s.setdefault(deed.kind, deque(maxlen=_REMEMBERED)).append(time.time() - began)
        return Done(deed, began * 1000, status=status)

    def _end(self, killed: list[Done], way: Way, log: Path) -> None:
        """Bring to an end what killed processes have left: by the same call, or by a recovery."""
        for one in killed:
            if one.deed.ended_by == "repeat":
                one.began_ms = time.time() * 1000
                one.status = self._program(one.deed, way, log).exit_status(_COMMAND_S)
        status = self._recover(way, log)
        for job in self._jobs(_FIRST) if status in _UNDECIDED else ():
            status = self._recover(way, log, "--abort", "--job", job)
            if status != FINE:
                self.troubles.append(f"magicfs recover --abort --job {job} ended with {status}")
        if status not in {FINE, *_UNDECIDED}:
            self.troubles.append(f"magicfs recover ended with {status}")
        for job in self._jobs(_VERSION):
            # The first version of its object was gone already: it has ended, and the others wait for a sweep.
            status = self._command(way, log, "recover", "--abort", "--job", job).exit_status(_COMMAND_S)
            self.swept += 1
            if status != FINE:
                self.troubles.append(f"magicfs recover --abort --job {job}, a sweep, ended with {status}")

    def _jobs(self, pattern: re.Pattern[str]) -> list[str]:
        """The jobs of which there is such an object."""
        found = (pattern.fullmatch(name) for name in self.place.all_names())
        return sorted({match[1] for match in found if match is not None})

    def _recover_beside(self, way: Way, log: Path, start: threading.Barrier) -> None:
        """Somebody recovers who need not; jobs that are open are left to their drivers."""
        start.wait()
        self._recover(way, log)

    def _recover(self, way: Way, log: Path, *how: str) -> int:
        self.recoveries += 1
        return self._command(way, log, "recover", *how).exit_status(_COMMAND_S)

    def _program(self, deed: Deed, way: Way, log: Path) -> Program:
        keep = None if deed.keep_s is None else f"{deed.keep_s}s"
        kept = () if keep is None else ("--keep", keep)
        match deed.kind:
            case "rollback":
                named = ("--to", deed.named, "--run-id", deed.run_id)
                return self._command(way, log, "rollback", *named, *(kept or ("--no-keep",)))
            case "drop":
                named = ("--partition", f"day={deed.day}", "--run-id", deed.run_id)
                return self._command(way, log, "drop", *named, *(kept or ("--no-keep",)))
            case "rewrite":
                return self._command(way, log, "maintain", "--only", "rewrite", "--rewrite", "128M", *kept)
            case "tag":
                return self._command(way, log, "tag", deed.tag, "--as-of", deed.named, "--move")
            case "expire" | "compact":
                return self._command(way, log, "maintain", "--only", deed.kind)
        assert deed.kind in PUBLISHES
        order = victim.Order(
            self.place.url,
            way.options,
            run_id=deed.run_id,
            mode=deed.kind,  # type: ignore[arg-type]
            keep=keep,
            rows=deed.rows,
        )
        return Program(victim.publish, (order, dict(way.environment), str(log)), f"{deed.kind} {deed.run_id}")

    def _command(self, way: Way, log: Path, name: str, *arguments: str) -> Command:
        options = ("--storage-options", json.dumps(way.options)) if way.options else ()
        return Command([name, self.place.url, *arguments, *options], way.environment, log)

    def _note_states(self, killed: list[Done]) -> None:
        work = [name for name in self.place.all_names() if name.startswith("__magic")]
        found = []
        for name in work:
            if name.endswith("/job.json"):
                body = self.place.read(newest_version(name, work))
                found.append("gone" if body is None else str(json.loads(body)["state"]))
        for one in killed:
            # Of two that were killed at once both are noted with all that there is.
            for state in found or ["no job object"]:
                kind = self.states.setdefault(one.deed.kind, {})
                kind[state] = kind.get(state, 0) + 1
