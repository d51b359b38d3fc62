"""An application of Spark's in processes of its own, held so that it can be killed at any moment."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from proofs.doubles import die_with_parent, processes
from proofs.spark_proof.marked import VARIABLE, kill, marked, wait_for_end
from proofs.spark_proof.plans import Target

__all__ = ["Application", "Failed"]

_START_SECONDS = 120.0
_END_SECONDS = 45.0
_POLL_SECONDS = 0.001


class Failed(RuntimeError):
    """An application did not start, or did not end. It was killed."""


class Application:
    """A driver with its JVM and its workers, started and waiting for ``go``; leaves none of them behind.

    Args:
        given: What ``proofs.spark_proof.victim`` is to do.
        log: Where its output goes.
    """

    def __init__(self, given: Mapping[str, Any], log: Path) -> None:
        self._mark = uuid4().hex
        self._log = log
        launcher = (sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()))
        program = (sys.executable, "-m", "proofs.spark_proof.victim", json.dumps(dict(given)))
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*launcher, *program],
                env={**os.environ, VARIABLE: self._mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        try:
            self.jvm = int(self._line(_START_SECONDS))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def over(self) -> bool:
        """Whether it has done its work, or has ended; it keeps its JVM until it is let go or killed."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0]) or processes.has_exited(
            self._process
        )

    def wait(self, happened: Callable[[], bool], seconds: float) -> bool:
        """Wait until something has happened or the work is done.

        Args:
            happened: Asked over and over.
            seconds: How long at most.

        Returns:
            Whether it has happened, and the work is not done.

        Raises:
            Failed: Neither came in time.
        """
        deadline = time.monotonic() + seconds
        while not self.over():
            if happened():
                return True
            if time.monotonic() > deadline:
                raise Failed(f"an application did not get on within {seconds:g} s; see {self._log}")
            time.sleep(_POLL_SECONDS)
        return False

    def kill(self, target: Target) -> list[int]:
        """Send SIGKILL to the JVM, or to all its processes, the JVM first; and wait for the end of all.

        Returns:
            The processes that did not end by themselves, and were killed in the end.
        """
        kill([self.jvm])
        if target == "all":
            kill(marked(self._mark))
        assert self._process.stdin is not None
        self._process.stdin.close()
        left = wait_for_end(self._mark, _END_SECONDS)
        self.close()
        return left

    def finish(self, seconds: float) -> None:
        """Wait for its work, and let it go.

        Raises:
            Failed: It did not succeed, or not in time.
        """
        said = self._line(seconds)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_END_SECONDS)
        if said != "done" or self._process.returncode != 0:
            raise Failed(f"an application failed: {self._tail()}")

    def close(self) -> None:
        """Kill what still runs. A second call does nothing."""
        kill(marked(self._mark))
        processes.end(self._process, grace=0)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def _line(self, seconds: float) -> str:
        stream = self._process.stdout
        assert stream is not None
        if not select.select([stream], [], [], seconds)[0]:
            raise Failed(f"an application said nothing for {seconds:g} s: {self._tail()}")
        line = stream.readline().decode().strip()
        if not line:
            raise Failed(f"an application ended: {self._tail()}")
        return line

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-30:])
