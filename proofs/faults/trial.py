"""One writer, all cases: each a process of its own that overwrites what the writer itself has written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import magicfs
from magicfs.testing.fault_proxy import FaultProxy
from proofs.doubles import environments
from proofs.doubles.servers import Server
from proofs.faults import ground
from proofs.faults.cases import Case, Stop, rule_of, stop_of
from proofs.faults.ground import Found
from proofs.faults.place import Place
from proofs.faults.rows import NEW_IDS, NEW_ROWS, OLD_ROWS
from proofs.faults.tools import Tool

__all__ = ["Absent", "Outcome", "Trial", "faults_of"]

_ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 300
_SETTLE_S = 0.5
"""Requests that are under way when a process is killed have ended by then."""
_READS = 3
"""So often a writer's own reader is asked: on a busy machine one has failed once, and then read it all."""


class Absent(RuntimeError):
    """A writer cannot take part here; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What one case came to."""

    case: str
    ended: str  # ``failed``, ``killed``, or ``written``: then it did not fail at all
    found: Found
    by_log: tuple[int, int] | None = None  # old and new rows that readers of manifests, or of its log, saw
    recovered: Found | None = None  # after recover; ours

    def figures(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        told: dict[str, Any] = {"ended": self.ended, **self.found.figures()}
        if self.by_log is not None:
            told["rows_by_log"] = list(self.by_log)
        if self.recovered is not None:
            told["after_recover"] = self.recovered.figures()
        return told


class Trial:
    """One writer on one server."""

    def __init__(self, tool: Tool, server: Server, number: int) -> None:
        self.tool = tool
        self.versions: dict[str, str] = {}
        self._server = server
        self._python = _python(tool)
        self._bucket = server.create_bucket(f"faults-{number}")

    def run(self, cases: Sequence[Case]) -> list[Outcome]:
        """Write without a fault, then with each. Raises Absent if the writer cannot write here at all."""
        wanted = [one for one in cases if one.how != "raise" or self.tool.takes_source]
        prefixes = {one.name: f"data set/{number}" for number, one in enumerate(wanted)}
        whole = "data set/whole"
        self._seed([whole, *prefixes.values()])
        with FaultProxy(self._server.endpoint) as proxy:
            process = self._start(proxy.endpoint, whole, {"new": True})
            _, told = process.communicate(timeout=_TIMEOUT_S)
            requests = proxy.requests
        found = ground.seen(self._server, self._bucket, whole, {})
        if process.returncode or found.new_rows != NEW_ROWS:
            raise Absent(f"{self.tool.name} writes {found.new_rows} rows of {NEW_ROWS}: {told[-300:]}")
        return [self._case(one, prefixes[one.name], stop_of(requests, one)) for one in wanted]

    def _seed(self, prefixes: Sequence[str]) -> None:
        places = [self._place(self._server.endpoint, one).dump() for one in prefixes]
        done = subprocess.run(  # noqa: S603 - our own module
            self._command({"new": False}, *places),
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise Absent(f"{self.tool.name}: {done.stderr.strip()[-300:]}")
        self.versions = json.loads(done.stdout.splitlines()[0])

    def _case(self, case: Case, prefix: str, stop: Stop | None) -> Outcome:
        before = ground.objects(self._server, self._bucket, prefix)
        with FaultProxy(self._server.endpoint) as proxy:
            if case.how != "raise" and stop is not None:
                proxy.add(rule_of(stop, case))
            process = self._start(proxy.endpoint, prefix, {"new": True, "fails": case.how == "raise"})
            killed = case.how == "kill" and _killed(process, proxy, stop)
            _end(process)
        time.sleep(_SETTLE_S)
        found = ground.seen(self._server, self._bucket, prefix, before)
        ended = "killed" if killed else "failed" if process.returncode else "written"
        if not self.tool.ours:
            return Outcome(case.name, ended, found, self._by_log(prefix) if self.tool.log else None)
        by_manifest = self._by_manifest(prefix)
        self._recover(prefix)
        recovered = ground.seen(self._server, self._bucket, prefix, before)
        return Outcome(case.name, ended, found, by_manifest, recovered)

    def _by_manifest(self, prefix: str) -> tuple[int, int]:
        place = self._place(self._server.endpoint, prefix)
        dataset = magicfs.Dataset(place.url, storage_options=place.storage_options).to_arrow()
        return _old_and_new(dataset.to_table(columns=["id"])["id"].to_pylist())

    def _by_log(self, prefix: str) -> tuple[int, int]:
        place = self._place(self._server.endpoint, prefix).dump()
        command = [self._python, "-m", "proofs.faults.victim", self.tool.name, "read", place]
        for _ in range(_READS):
            done = subprocess.run(  # noqa: S603 - our own module
                command, cwd=_ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
            if done.returncode == 0:
                return _old_and_new(json.loads(done.stdout))
            time.sleep(_SETTLE_S)
        raise RuntimeError(f"{self.tool.name} cannot read its own log at {prefix!r}:\n{done.stderr[-2000:]}")

    def _recover(self, prefix: str) -> None:
        """As a user does whose driver is dead: finish what was being committed, discard what was not."""
        place = self._place(self._server.endpoint, prefix)
        report = magicfs.Dataset(place.url, storage_options=place.storage_options).recover()
        for job in report.jobs:
            if job.action == "left":
                magicfs.Dataset(place.url, storage_options=place.storage_options).recover(
                    job=job.job_id, abort=True
                )

    def _place(self, endpoint: str, prefix: str) -> Place:
        server = self._server
        return Place(endpoint, server.access_key, server.secret_key, server.region, self._bucket, prefix)

    def _command(self, rows: dict[str, bool], *places: str) -> list[str]:
        return [self._python, "-m", "proofs.faults.victim", self.tool.name, json.dumps(rows), *places]

    def _start(self, endpoint: str, prefix: str, rows: dict[str, bool]) -> subprocess.Popen[str]:
        # A session of its own, so that the processes that it starts die with it.
        return subprocess.Popen(  # noqa: S603 - our own module
            self._command(rows, self._place(endpoint, prefix).dump()),
            cwd=_ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def _old_and_new(ids: Sequence[int]) -> tuple[int, int]:
    return sum(one < NEW_IDS for one in ids), sum(one >= NEW_IDS for one in ids)


def _killed(process: subprocess.Popen[str], proxy: FaultProxy, stop: Stop | None) -> bool:
    """Kill a process when its request hangs; False if it ends before it gets there."""
    deadline = time.monotonic() + _TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        if stop is not None and proxy.caught:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return True
        time.sleep(0.002)
    return False


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _python(tool: Tool) -> str:
    if not tool.requirements:
        return sys.executable
    try:
        home = environments.ensure(tool.side.partition(":")[2], tool.requirements)
    except environments.EnvironmentNotMade as error:
        raise Absent(f"{tool.name} cannot be installed here: {error}") from error
    return str(home / "bin" / "python")


def faults_of(outcome: Outcome, case: Case) -> list[str]:
    """What is wrong with an outcome of ours; nothing may be."""
    wrong = []
    if outcome.ended == "written":
        wrong.append("it did not fail")
    assert outcome.recovered is not None
    after = outcome.recovered
    old = (OLD_ROWS, 0)
    if outcome.by_log not in (old, (0, NEW_ROWS)):
        wrong.append(f"a reader of manifests sees rows {outcome.by_log}")
    if not case.publishing and (outcome.found.old_rows, outcome.found.new_files) != old:
        wrong.append(f"{outcome.found.old_rows} old rows and {outcome.found.new_files} new files are visible")
    if (after.old_rows, after.new_rows) not in (old, (0, NEW_ROWS)):
        wrong.append(f"after recover {after.old_rows} old and {after.new_rows} new rows are there")
    if after.uploads:
        wrong.append(f"after recover {after.uploads} uploads are left")
    return wrong
