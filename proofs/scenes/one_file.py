"""One file from ``open`` to ``_SUCCESS`` in memory, and which modules run for it.

``python -m proofs.scenes.one_file`` prints them.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from uuid import uuid4

import fsspec.asyn

import magicfs
from magicfs.job.job import Job
from proofs.scenes.known import all_ended

__all__ = ["PHASES", "functions", "rooms_of", "spine_of", "walk"]

PHASES = ("set up", "open to close", "task commit", "job commit")
"""The phases of a walk, in order."""

_HOME = Path(magicfs.__file__).parent
_LEAVES = ("formats.", "protocol.", "errors", "stores.memory")
"""Where a reader need not go: values, rules and the store in memory."""


def walk() -> dict[str, list[str]]:
    """Publish one file; returns the modules that run in each phase, in the order of the first call into each.

    Modules are named below ``magicfs``. A first job, which is not watched, imports what is imported late.
    """
    return _watched().entered


def functions() -> set[CodeType]:
    """Publish one file; returns the functions that run in modules of the spine.

    In values and rules it depends on the second whether a date is written or remembered.
    """
    return _watched().called


def _watched() -> _Watch:
    _publish(_Watch())
    watch = _Watch()
    before = sys.getprofile()
    gc.collect()
    gc.disable()  # finalizers of other people's files would run modules, too
    _on_the_loop(watch.hook)
    threading.setprofile(watch.hook)
    sys.setprofile(watch.hook)
    try:
        _publish(watch)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
        _on_the_loop(None)
        gc.enable()
    return watch


def rooms_of(modules: Iterable[str]) -> list[str]:
    """The rooms of modules, each once, in order; a module at the top has none."""
    return list(dict.fromkeys(module.partition(".")[0] for module in modules if "." in module))


def spine_of(walked: dict[str, list[str]]) -> list[str]:
    """The modules of a walk that one has to open to follow it, each once, in order."""
    every = dict.fromkeys(module for modules in walked.values() for module in modules)
    return [module for module in every if not module.startswith(_LEAVES)]


class _Watch:
    def __init__(self) -> None:
        self.entered: dict[str, list[str]] = {phase: [] for phase in PHASES}
        self.phase: str | None = PHASES[0]
        self.called: set[CodeType] = set()

    def hook(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or self.phase is None:
            return
        entered = self.entered[self.phase]
        if (module := _module(frame.f_code)) is not None:
            if not module.startswith(_LEAVES):
                self.called.add(frame.f_code)
            if module not in entered:
                entered.append(module)


def _module(code: CodeType) -> str | None:
    """The module of a function; None for bodies of modules and classes, and for other packages."""
    return _module_in(code.co_filename) if code.co_flags & inspect.CO_OPTIMIZED else None


@cache
def _module_in(file: str) -> str | None:
    path = Path(file)
    if not path.is_relative_to(_HOME):
        return None
    return ".".join(path.relative_to(_HOME).with_suffix("").parts).removesuffix(".__init__")


def _publish(watch: _Watch) -> None:
    bucket = f"walk-{uuid4().hex}"
    job = Job(f"memory://{bucket}/dest", mode="append").setup()
    watch.phase = "open to close"
    task = job.task(0).setup()
    with task.filesystem.open(f"{task.path}/year=2026/part-0.csv", "wb") as file:
        file.write(b"x,y\n1,2\n")
    all_ended()
    watch.phase = "task commit"
    commit = task.commit()
    watch.phase = "job commit"
    job.commit([commit])
    watch.phase = None


def _on_the_loop(hook: Any) -> None:
    """Watch the thread of fsspec's loop, or stop watching it."""
    done = threading.Event()

    def change() -> None:
        sys.setprofile(hook)
        done.set()

    fsspec.asyn.get_loop().call_soon_threadsafe(change)
    done.wait()


def main() -> None:
    """Print the modules of each phase, and how many there are."""
    walked = walk()
    for phase, modules in walked.items():
        print(f"{phase}, {len(modules)} modules, rooms {', '.join(rooms_of(modules))}:")  # noqa: T201
        print("  " + " ".join(modules))  # noqa: T201
    every = {module for modules in walked.values() for module in modules}
    print(f"{len(every)} modules, {len(spine_of(walked))} of them on the spine")  # noqa: T201


if __name__ == "__main__":
    main()
