"""What a task does on SIGTERM or SIGHUP: it discards what it has written, and then exits.

Spark's Python daemon sends SIGHUP to its workers when it shuts down. Containers and machines that stop send
SIGTERM. To the tasks of a job that has failed Spark sends SIGKILL, which no process can handle: that is what
``late_writers`` is for.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class ToldToExit(SystemExit):
    """A signal asked the process to exit while a task was writing. Its exit code is 128 and the signal."""


class ExitSignals:
    """Holds signals back for as long as a task needs to end well. A context manager, for the main thread.

    While the task writes, the first signal raises ``ToldToExit``. While it commits or discards, signals wait;
    one that came during the commit ends the process afterwards. Elsewhere than in the main thread, where no
    signal arrives, it does nothing.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._received: int | None = None
        self._raised = False
        self._writing = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._received is not None and not self._raised:
            os.kill(os.getpid(), self._received)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The time in which a signal raises."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._received = number
        if self._writing:
            self._writing, self._raised = False, True
            raise ToldToExit(128 + number)
