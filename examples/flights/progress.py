"""What the demo shows while it works, all on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from examples.flights.watcher import Look

__all__ = ["ProgressDisplay"]


class ProgressDisplay:
    """A bar for the step at hand, and a line for each step that is done."""

    def __init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        self._step: TaskID | None = None
        self._description = ""
        self._began = 0.0

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None:
            self._end_step()
        self._progress.__exit__(exc_type, exc, trace)

    def begin(self, description: str, total: int | None = None) -> None:
        """Begin a step; the one before it is over, and shown with the seconds that it took."""
        self._end_step()
        self._description, self._began = description, time.monotonic()
        self._step = self._progress.add_task(description, total=total, note="")

    def advance(self, done: int, total: int | None = None) -> None:
        """Show how far the step is."""
        if self._step is not None:
            self._progress.update(self._step, completed=done, total=total)

    def show_look(self, look: Look) -> None:
        """Show what the watcher sees."""
        if self._step is not None:
            note = f"visible {look.visible}, pending {look.pending}"
            self._progress.update(self._step, note=note)

    def _end_step(self) -> None:
        if self._step is None:
            return
        self._progress.remove_task(self._step)
        self._step = None
        line = f"{time.monotonic() - self._began:6.1f} s  {self._description}"
        self._progress.console.print(line, markup=False, highlight=False)
