"""A bar that shows how far a job is: by rich or tqdm where they are installed, else by plain lines."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from magicfs.formats.task_commit import TaskCommit
from magicfs.job.commit import NoBar
from magicfs.report import Progress, human_bytes

_LINE_EVERY_S = 5.0
_STAGES = {"tasks": "tasks committed", "complete": "files visible", "upload": "files uploaded"}


class _Display(Protocol):
    def show(self, stage: str, done: int, total: int | None, note: str) -> None: ...

    def close(self) -> None: ...


class Bar(NoBar):
    """Counts tasks as they commit, then files as they become visible. May be called from any thread."""

    def __init__(self, display: Callable[[], _Display] | None = None) -> None:
        self._make = display or _display
        self._display: _Display | None = None
        self._lock = threading.Lock()
        self._commits: dict[str, TaskCommit] = {}

    def __call__(self, progress: Progress) -> None:
        """Show how far the job commit is."""
        note = f"{human_bytes(progress.bytes_done)} of {human_bytes(progress.bytes_total)}"
        self._show(progress.stage, progress.files_done, progress.files_total, note)

    def committed(self, commit: TaskCommit) -> None:
        """Show that a task has committed; one that is known already counts once."""
        with self._lock:
            self._commits[commit.task_id] = commit
            known = list(self._commits.values())
        files, size = sum(one.files for one in known), sum(one.bytes for one in known)
        self._show("tasks", len(known), self.tasks_total, f"{files} files, {human_bytes(size)}")

    def close(self) -> None:
        """Leave what is shown, and show no more of it. A second call does nothing."""
        with self._lock:
            display, self._display = self._display, None
        if display is not None:
            display.close()

    def _show(self, stage: str, done: int, total: int | None, note: str) -> None:
        with self._lock:
            if self._display is None:
                self._display = self._make()
            self._display.show(_STAGES.get(stage, stage), done, total, note)


def _display() -> _Display:
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        for kind in (_Rich, _Tqdm):
            with contextlib.suppress(ImportError):
                return kind()
    return _Lines()


class _Rich:
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
        self._progress = Progress(
            *columns, TextColumn("{task.fields[note]}"), TimeElapsedColumn(), console=Console(file=sys.stderr)
        )
        self._tasks: dict[str, Any] = {}
        self._progress.start()
        atexit.register(self._progress.stop)  # it hides the cursor

    def show(self, stage: str, done: int, total: int | None, note: str) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total, note=note)
        self._progress.update(self._tasks[stage], completed=done, total=total, note=note)

    def close(self) -> None:
        self._progress.stop()
        atexit.unregister(self._progress.stop)


class _Tqdm:
    def __init__(self) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]

        self._make = tqdm
        self._bars: dict[str, Any] = {}

    def show(self, stage: str, done: int, total: int | None, note: str) -> None:
        bar = self._bars.get(stage)
        if bar is None:
            bar = self._bars[stage] = self._make(desc=stage, total=total, file=sys.stderr)
        bar.total = total
        bar.set_postfix_str(note, refresh=False)
        bar.update(done - bar.n)

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()


class _Lines:
    def __init__(self) -> None:
        self._last = ("", 0.0)
        self._left = ""

    def show(self, stage: str, done: int, total: int | None, note: str) -> None:
        count = f"{done}" if total is None else f"{done} of {total}"
        line = f"magicfs: {stage}: {count} ({note})\n"
        shown, at = self._last
        now = time.monotonic()
        if shown != stage and self._left:
            self.close()
        if shown == stage and done != total and now - at < _LINE_EVERY_S:
            self._left = line
            return
        self._last, self._left = (stage, now), ""
        sys.stderr.write(line)

    def close(self) -> None:
        if self._left:
            sys.stderr.write(self._left)
            self._left = ""
