"""Finds a worker process that has just opened uploads, and kills it (SIGKILL).

Workers cannot be told apart from outside: neither their command lines nor their open files name a task. So
every worker that is connected to the store is stopped (SIGSTOP), one of them is let go for a moment, and if
new uploads have appeared then, they are its own. A process that is in a system call finishes it before it
stops, so what each of them has done is looked at only when all its threads stand still, and the store has
carried out what it was asked for before.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from examples.flights.buckets import Bucket
from magicfs.errors import UsageError

__all__ = ["Hunter", "Killed", "connected_workers"]

# A task has its uploads open for a tenth of a second, on a fast machine.
_PAUSE_SECONDS = 0.02
# Long enough for a request or two; a worker is stopped again long before it has opened all of its files.
_SLOT_SECONDS = 0.03
_SLOTS = 20
_PROOF_SECONDS = 10.0
_LOOK_SECONDS = 0.001
# Between two looks that must show the same: requests that stopped workers have sent take less.
_REST_SECONDS = 0.25
_STANDS_STILL = frozenset("TtZX")  # states of a thread: stopped, traced, ended
_ESTABLISHED = "01"
_TASK = re.compile(r"-(?P<task>\d{6})-[0-9a-f]{8}-[0-9a-f-]{27}")


@dataclass(frozen=True, slots=True)
class Killed:
    """A worker that was killed."""

    pid: int
    task: int  # the number of its task, from the names of its uploads
    uploads: int  # how many uploads of the task were pending when it died


class Hunter:
    """Kills one worker that writes, in a thread of its own, from ``__enter__`` to ``__exit__``.

    ``bucket``: the store; workers are known by their connections to it, if it is a server. ``is_worker``:
    whether a command line is a worker's. ``attempts_lost``: how many task attempts the engine has seen fail.
    """

    def __init__(
        self,
        bucket: Bucket,
        directory: str,
        *,
        is_worker: Callable[[str], bool],
        attempts_lost: Callable[[], int],
    ) -> None:
        if not Path("/proc/net/tcp").exists():
            raise UsageError("the demo finds the process to kill in /proc; run it on Linux")
        self.killed: Killed | None = None
        self._bucket = bucket
        self._directory = directory
        self._is_worker = is_worker
        self._attempts_lost = attempts_lost
        self._error: Exception | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="magicfs-demo-hunter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        if exc is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while self.killed is None and not self._end.is_set():
                if found := self._workers():
                    self.killed = self._hunt(found)
                self._end.wait(_PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            self._error = error

    def _workers(self) -> set[int]:
        port = self._bucket.port
        if port is None:
            return _workers_of(os.getpid(), self._is_worker)
        return connected_workers(os.getpid(), port, self._is_worker)

    def _hunt(self, workers: set[int]) -> Killed | None:
        lost = self._attempts_lost()
        stopped = set(workers)
        try:
            _stop(stopped)
            caught = self._let_go_in_turn(stopped)
            if caught is None:
                return None
            _signal([caught.pid], signal.SIGKILL)
        finally:
            _signal(stopped, signal.SIGCONT)
        return caught if self._was_felt(lost) else None

    def _let_go_in_turn(self, stopped: set[int]) -> Killed | None:
        """Let one worker go at a time until one opens uploads; it is stopped again then."""
        before = self._pending_at_rest()
        for turn in range(_SLOTS):
            pid = sorted(stopped)[turn % len(stopped)]
            _signal([pid], signal.SIGCONT)
            self._end.wait(_SLOT_SECONDS)
            _stop([pid])
            after = self._pending_at_rest()
            others = self._workers() - stopped
            if others:
                # It may have been one of these, which have just connected.
                _stop(others)
                stopped |= others
                before = self._pending_at_rest()
                continue
            if (task := _task_of(after - before)) is not None:
                return Killed(pid, task, sum(_task_of([upload]) == task for upload in after))
            before = after
        return None

    def _pending_at_rest(self) -> set[tuple[str, str]]:
        before = set(self._bucket.pending(self._directory))
        while not self._end.wait(_REST_SECONDS):
            if (after := set(self._bucket.pending(self._directory))) == before:
                break
            before = after
        return before

    def _was_felt(self, lost: int) -> bool:
        """Whether the engine lost an attempt: a worker that had just finished is not missed."""
        for _ in range(int(_PROOF_SECONDS / _PAUSE_SECONDS)):
            if self._attempts_lost() > lost:
                return True
            if self._end.wait(_PAUSE_SECONDS):
                break
        return self._attempts_lost() > lost


def connected_workers(ancestor: int, port: int, is_worker: Callable[[str], bool]) -> set[int]:
    """The descendants of a process that hold a connection to a remote TCP port and are workers."""
    sockets = _sockets_to(port)
    return {pid for pid in _workers_of(ancestor, is_worker) if not sockets.isdisjoint(_open_files(pid))}


def _workers_of(ancestor: int, is_worker: Callable[[str], bool]) -> set[int]:
    return {pid for pid in _descendants(ancestor) if is_worker(_command_line(pid))}


def _descendants(ancestor: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name in parentheses may hold anything; state and parent follow it.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    left = [ancestor]
    while left:
        new = children.get(left.pop(), [])
        found += new
        left += new
    return found


def _command_line(pid: int) -> str:
    with suppress(OSError):
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        return raw.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    return ""


def _open_files(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(descriptor.readlink()))
    return found


def _sockets_to(port: int) -> set[str]:
    """Sockets that are connected to a remote port, as ``/proc/PID/fd`` names them."""
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                remote, state, inode = fields[2], fields[3], fields[9]
                if state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{inode}]")
    return found


def _task_of(uploads: Iterable[tuple[str, str]]) -> int | None:
    """The task that uploads belong to, from their names; None unless it is one task."""
    matches = [_TASK.search(key.rpartition("/")[2]) for key, _ in uploads]
    tasks = {int(match["task"]) for match in matches if match is not None}
    return tasks.pop() if len(tasks) == 1 else None


def _stop(pids: Collection[int]) -> None:
    """Stop processes, and wait until each of their threads stands still."""
    _signal(pids, signal.SIGSTOP)
    end = time.monotonic() + _PROOF_SECONDS
    while any(map(_runs, pids)) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def _runs(pid: int) -> bool:
    """Whether a thread of a process still runs, or is in a system call."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in _STANDS_STILL:
                    return True
    return False


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
