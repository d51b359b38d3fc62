"""The processes of one job, held so that each can be killed and none can be mistaken for another.

Processes are forked from a server that has imported everything and runs no threads, so that a job starts
within a few milliseconds.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from proofs.kill import victim
from proofs.kill.phases import DRIVER
from proofs.kill.victim import Order, Result

__all__ = ["Command", "Crew", "Hung", "Program", "adopt_orphans"]

_PR_SET_CHILD_SUBREAPER = 36

_START_SECONDS = 60.0
_EXIT_SECONDS = 10.0


class Hung(RuntimeError):
    """A process did not end in its time. It was killed."""


class Crew:
    """A driver and its workers, forked and waiting for ``go``; as a context manager it leaves none behind.

    Args:
        order: What the driver publishes.
        environment: Of all of them, credentials included.
        log: Where their output goes.
    """

    def __init__(self, order: Order, environment: Mapping[str, str], log: Path) -> None:
        self._control, theirs = _context().Pipe()
        arguments = (order, dict(environment), str(log), theirs)
        self._driver = _context().Process(target=victim.drive, args=arguments)
        self._driver.start()
        theirs.close()
        self._handles = {DRIVER: _open(self._driver)}
        if not self._control.poll(_START_SECONDS):
            self.close()
            raise Hung("a driver did not start")
        for number, pid in enumerate(self._control.recv()):
            self._handles[f"worker-{number}"] = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def go(self) -> None:
        """Let the driver begin."""
        self._control.send(None)

    def alive(self) -> list[str]:
        """The roles of the processes that run."""
        return [role for role, handle in self._handles.items() if not _ended(handle, 0)]

    def kill(self, roles: Sequence[str]) -> None:
        """Send SIGKILL to some of the processes, in this order."""
        for role in roles:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handles[role], signal.SIGKILL)

    def over_within(self, seconds: float) -> bool:
        """Wait some time; whether the job was over before it was up."""
        return self._control.poll(seconds)

    def driver_killed(self) -> bool:
        """Whether the driver has died of SIGKILL; waits for its end."""
        self._driver.join(_EXIT_SECONDS)
        return self._driver.exitcode == -signal.SIGKILL

    def result(self, seconds: float) -> Result | None:
        """Wait for what the driver says at its end.

        Returns:
            None if it was killed, and every process that it started has ended.

        Raises:
            Hung: Nothing of it happened in time.
        """
        if not self._control.poll(seconds):
            raise Hung(f"the job's processes {self.alive()} did not end within {seconds:g} s")
        try:
            answer = self._control.recv()
        except (EOFError, ConnectionError):
            return None
        assert isinstance(answer, Result)
        return answer

    def wait_for_all(self, seconds: float) -> None:
        """Wait until the driver and every worker have ended.

        Raises:
            Hung: One of them did not in time.
        """
        deadline = time.monotonic() + seconds
        for role, handle in self._handles.items():
            if not _ended(handle, max(deadline - time.monotonic(), 0)):
                raise Hung(f"{role} did not end within {seconds:g} s")

    def close(self) -> None:
        """Kill what still runs. A second call does nothing."""
        self.kill(list(self._handles))
        for handle in self._handles.values():
            _ended(handle, _EXIT_SECONDS)
            with suppress(ChildProcessError):  # its driver has, or nobody adopts orphans here
                os.waitid(os.P_PIDFD, handle, os.WEXITED | os.WNOHANG)
            os.close(handle)
        self._handles.clear()
        self._driver.join(_EXIT_SECONDS)
        self._control.close()


def adopt_orphans() -> None:
    """Let workers whose driver was killed become children of this process, which reaps them.

    The first process of a container may reap nobody.

    Raises:
        OSError: The kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


class Program:
    """One process that runs by itself, until its end or until it is killed.

    Args:
        target: What it runs, such as ``victim.command``.
        arguments: Of that.
        name: For messages.
    """

    def __init__(self, target: Callable[..., None], arguments: Sequence[Any], name: str) -> None:
        self._name = name
        self._started = time.monotonic()
        self._process = _context().Process(target=target, args=tuple(arguments))
        self._process.start()

    def exit_status(self, seconds: float) -> int:
        """Wait for its end.

        Raises:
            Hung: It did not end in time.
        """
        self._process.join(seconds)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
            raise Hung(f"{self._name} did not end within {seconds:g} s")
        return self._process.exitcode

    def kill_at(self, seconds: float) -> bool:
        """Send SIGKILL some time after the start.

        Returns:
            Whether it died of that.
        """
        self._process.join(max(self._started + seconds - time.monotonic(), 0))
        self._process.kill()
        self._process.join()
        return self._process.exitcode == -signal.SIGKILL


class Command(Program):
    """A process that is ``magicfs ARGUMENTS``.

    Args:
        arguments: Of the command line.
        environment: As for ``Crew``.
        log: Where its output goes.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        call = (tuple(arguments), dict(environment), str(log))
        super().__init__(victim.command, call, f"magicfs {' '.join(arguments)}")


_PRELOADED = ["proofs.kill.preloaded"]


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _open(process: ForkServerProcess) -> int:
    assert process.pid is not None
    return os.pidfd_open(process.pid)


def _ended(handle: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
