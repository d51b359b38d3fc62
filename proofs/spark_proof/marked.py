"""Processes found by a mark in their environment, which all that they start inherit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["VARIABLE", "children", "kill", "marked", "wait_for_end"]

VARIABLE = "MAGICFS_SPARK_PROOF"
"""The environment variable that marks processes."""

_POLL_SECONDS = 0.02


def marked(mark: str) -> list[int]:
    """The numbers of the processes that run with a mark."""
    wanted = f"{VARIABLE}={mark}".encode()
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if wanted in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
    return sorted(found)


def children(parent: int, word: str) -> list[int]:
    """The numbers of a process's children whose command line holds a word, the oldest first."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError, ValueError):
            # The name in parentheses may hold anything, so what follows is counted from its end.
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            alive = fields[0] not in {"Z", "X"}
            if alive and int(fields[1]) == parent and word.encode() in (directory / "cmdline").read_bytes():
                found.append(int(directory.name))
    return sorted(found)


def kill(numbers: Iterable[int]) -> None:
    """Send SIGKILL, in this order; those that have ended already do not matter."""
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def wait_for_end(mark: str, seconds: float) -> list[int]:
    """Wait until no process with a mark runs.

    Args:
        mark: The mark.
        seconds: How long at most.

    Returns:
        Those that still run.
    """
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return left
