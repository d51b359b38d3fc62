"""Processes of a scene: each with a connection and a memory of its own, all on one loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from magicfs.committers.staging import attempts
from magicfs.engine import Engine
from magicfs.errors import CommitUnfinished, MagicError
from magicfs.filesystem import tracking
from magicfs.filesystem.tracking import Closing, PlaceName, Scope, Tracker
from magicfs.stores.conditions import assume
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash
from proofs.crash.cluster_files import CURRENT
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import MODELS, store_of
from proofs.crash.trees import tree_store
from proofs.doubles.virtual_time import replaced

__all__ = ["CONCURRENCY", "Outcome", "Process", "apart", "check_alive"]

CONCURRENCY = 4
"""Requests at once: enough for some to be under way when another is cut."""

_FILES: ContextVar[dict[PlaceName, Scope]] = ContextVar("files of the process")
_CLOSING: ContextVar[dict[PlaceName, Closing]] = ContextVar("files that go on in the process")
_LOCKS: ContextVar[dict[str, int]] = ContextVar("locks that the process holds")


class _TrackerOfProcess(Tracker):
    """Knows only the files of the process that asks."""

    @property
    def _scopes(self) -> dict[PlaceName, Scope]:
        return _FILES.get({})  # a thread that another test has left, such as a sweep of late writers

    @_scopes.setter
    def _scopes(self, _value: dict[PlaceName, Scope]) -> None:
        """Each process brings its own."""

    @property
    def _closing(self) -> dict[PlaceName, Closing]:
        return _CLOSING.get({})

    @_closing.setter
    def _closing(self, _value: dict[PlaceName, Closing]) -> None:
        """Likewise."""


class _LocksOfProcess(MutableMapping[str, int]):
    """The locks on local directories that the process that asks holds."""

    def __getitem__(self, directory: str) -> int:
        return _LOCKS.get()[directory]

    def __setitem__(self, directory: str, descriptor: int) -> None:
        _LOCKS.get()[directory] = descriptor

    def __delitem__(self, directory: str) -> None:
        del _LOCKS.get()[directory]

    def __iter__(self) -> Iterator[str]:
        return iter(_LOCKS.get())

    def __len__(self) -> int:
        return len(_LOCKS.get())


@contextmanager
def apart() -> Iterator[None]:
    """Within it every process knows only what it began itself, although all share one memory."""
    with (
        replaced(tracking, "_TRACKER", _TrackerOfProcess()),
        replaced(attempts, "_locks", _LocksOfProcess()),
    ):
        yield


def check_alive() -> None:
    """Called before everything that a process does to its machine: the dead do nothing.

    Raises:
        Crash: The process that runs is dead.
    """
    if (process := CURRENT.get(None)) is not None and process.actor.dead:
        raise Crash(f"{process.actor.name} is dead")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a process ended.

    Attributes:
        result: What it returned.
        error: What it raised.
        died: Whether it crashed.
    """

    result: Any = None
    error: BaseException | None = None
    died: bool = False

    @property
    def done(self) -> bool:
        """Whether what it was to do counts; perhaps a recovery has to finish it."""
        return not self.died and (self.error is None or isinstance(self.error, CommitUnfinished))

    @property
    def surprising(self) -> bool:
        """Whether it ended in an error that magicfs does not raise on purpose."""
        return self.error is not None and not isinstance(self.error, MagicError)


class Process:
    """One process: an actor, its way to the store, and its memory.

    Args:
        name: For reproductions.
        world: The store's contents.
        traffic: Every request passes it.
        model: The name of what the store is.
        cold: Whether the process must find that out itself.
        renames: Whether the store is to rename in one step.
    """

    def __init__(
        self,
        name: str,
        world: SnapshotWorld,
        traffic: Traffic,
        model: str,
        *,
        cold: bool = False,
        renames: bool = False,
    ) -> None:
        self.actor = Actor(name)
        self.world = world
        self.traffic = traffic
        self.store: Store = (
            tree_store(world, model, traffic, self.actor)
            if renames
            else faulty(store_of(world, model), traffic, self.actor)
        )
        assume(self.store, None if cold else MODELS[model].honoured)

    @property
    def engine(self) -> Engine:
        """Bound to the bucket."""
        return Engine(self.store, CONCURRENCY)

    async def play(self, program: Coroutine[Any, Any, Any]) -> Outcome:
        """Run a program as this process, to its end or its death."""
        return await self.start(program)

    def start(self, program: Coroutine[Any, Any, Any]) -> asyncio.Task[Outcome]:
        """Begin to run a program as this process."""
        return asyncio.ensure_future(self._run(program))

    async def _run(self, program: Coroutine[Any, Any, Any]) -> Outcome:
        _FILES.set({})
        _CLOSING.set({})
        locks: dict[str, int] = {}
        _LOCKS.set(locks)
        CURRENT.set(self)
        try:
            return await self._outcome(program)
        finally:
            if not self.actor.dead:
                attempts._remove_at_exit()  # noqa: SLF001 - what the interpreter calls at its end
            for descriptor in locks.values():
                os.close(descriptor)  # as the kernel does, which lets go of the locks

    async def _outcome(self, program: Coroutine[Any, Any, Any]) -> Outcome:
        try:
            result = await program
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a crash is no exception, and this is its end
            if self.actor.dead:
                return Outcome(died=True)
            return Outcome(error=error)
        # Whoever swallows a crash is dead all the same.
        return Outcome(died=True) if self.actor.dead else Outcome(result)
