"""Where the processor time goes: ``python -m benchmarks.loop_profile commit``.

Profiles the thread on which magicfs makes its requests, on the stub, and prints the shares of packages and of
the functions that take most by themselves. A profile makes everything slower: only shares count.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import fsspec.asyn

from benchmarks.clock import Clock
from benchmarks.groups.bucket import on_stub
from benchmarks.session import Session
from benchmarks.sides.ours import Ours

__all__ = ["main"]

_TASKS: Final = 10
_SIZE: Final = 1000
_PACKAGES: Final = 10
_INSTALLED: Final = re.compile(r"site-packages/(\w+)")

Work = Callable[[Clock, str], Any]
Row = tuple[str, int, float]
"""A function, how often it was called, and the seconds that it took by itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop_profile", description=__doc__)
    parser.add_argument("work", choices=("commit", "pipe", "uploads", "store", "stream"))
    parser.add_argument("--files", type=int, default=5000, help="files, or MiB of a stream")
    parser.add_argument("--top", type=int, default=25, help="how many functions are printed")
    given = parser.parse_args(arguments)
    with on_stub(Session(quiet=True)) as bucket:
        side = Ours(bucket.place)
        works: dict[str, Work] = {
            "commit": partial(side.commit, files=given.files, tasks=_TASKS),
            "pipe": partial(side.pipe, files=given.files, size=_SIZE, tracking="bundles"),
            "uploads": partial(side.pipe, files=given.files, size=_SIZE, tracking="memory"),
            "store": partial(side.pipe, files=given.files, size=_SIZE, tracking="store"),
            "stream": partial(side.stream, mebibytes=given.files),
        }
        work = works[given.work]
        work(Clock(), "warm-up")
        profiler = _Profiler()
        work(profiler, "profiled")
    print(_told(profiler.rows(), given.top))
    return 0


class _Profiler(Clock):
    """Profiles what a clock would measure."""

    def __init__(self) -> None:
        super().__init__()
        self._profile = cProfile.Profile()

    @contextmanager
    def __call__(self, phase: str = "whole") -> Iterator[None]:  # noqa: ARG002 - of any name
        """Profile the thread while the ``with`` block is executed."""
        self._change(self._profile.enable)
        try:
            yield
        finally:
            self._change(self._profile.disable)

    def rows(self) -> list[Row]:
        """What was seen."""
        found: Any = pstats.Stats(self._profile)
        return [
            (_named(*function), calls, own_s) for function, (_, calls, own_s, _, _) in found.stats.items()
        ]

    def _change(self, change: Callable[[], None]) -> None:
        async def on_its_thread() -> None:
            change()

        asyncio.run_coroutine_threadsafe(on_its_thread(), fsspec.asyn.get_loop()).result()


def _named(path: str, line: int, name: str) -> str:
    return name if path == "~" else f"{_package(path)}:{Path(path).name}:{line}({name})"


def _package(path: str) -> str:
    if (found := _INSTALLED.search(path)) is not None:
        return found[1]
    parts = Path(path).parts
    return "magicfs" if "magicfs" in parts else "python"


def _told(rows: Sequence[Row], top: int) -> str:
    # Waiting for the network is no work.
    busy = [row for row in rows if "'poll' of 'select.epoll'" not in row[0]]
    whole_s = sum(own_s for _, _, own_s in busy) or sys.float_info.epsilon
    packages: defaultdict[str, float] = defaultdict(float)
    for name, _, own_s in busy:
        package, colon, _ = name.partition(":")
        packages[package if colon else "functions in C"] += own_s
    lines = ["| package | share |", "| --- | ---: |"]
    shares = sorted(packages.items(), key=lambda package: -package[1])
    lines += [f"| {name} | {own_s / whole_s:.1%} |" for name, own_s in shares[:_PACKAGES]]
    lines += ["", "| function | calls | share |", "| --- | ---: | ---: |"]
    chosen = sorted(busy, key=lambda row: -row[2])[:top]
    lines += [f"| `{name}` | {calls:,} | {own_s / whole_s:.1%} |" for name, calls, own_s in chosen]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
