"""Every order in which the requests of several processes can reach a store.

A state is what the store holds together with all that each process has been answered. Two orders that lead
to the same state go on alike, so only one of them is followed. For this the processes must be exact: random
names are theirs by number, and no clock runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from uuid import UUID

import pytest

from magicfs.errors import MagicError
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import Store
from proofs.crash.snapshots import BUCKET, SnapshotWorld

__all__ = ["NOW", "Explored", "Process", "exact", "explore"]

_T = TypeVar("_T")

NOW: Final = 1_700_000_000.0
"""What every clock shows."""

Process = Callable[[Store], Coroutine[Any, Any, Any]]
"""What a process does, given its way to the store."""

_STATES_MAX: Final = 60_000
_AT_ONCE: Final = "'"
_STILL: Final = 4
"""Rounds of the loop after which nobody asks for more."""
_numbers = contextvars.ContextVar[Iterator[int]]("_numbers")


@dataclass(slots=True)
class Explored:
    """How much was looked at."""

    states: int = 0
    ends: int = 0  # states in which every process has ended


def exact(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    """Let modules draw the same random names in every run, and stop their clocks."""
    _numbers.set(itertools.count())
    for module in modules:
        if hasattr(module, "uuid4"):
            monkeypatch.setattr(module, "uuid4", lambda: UUID(int=next(_numbers.get())))
        if hasattr(module, "time"):
            monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: NOW))


def explore(
    base: SnapshotWorld,
    processes: Mapping[str, Process],
    look: Callable[[Store], Awaitable[None]],
    end: Callable[[Store, dict[str, Any]], Awaitable[None]],
    *,
    conditions: Conditions | None = None,
    at_once_in_turn: bool = False,
) -> Explored:
    """Follow every order of the requests of some processes.

    ``look`` is called in every state, ``end`` in those in which all have ended, with what each has returned
    or the ``MagicError`` that it raised. Both raise if something is wrong. With ``at_once_in_turn`` what one
    process asks at once arrives in one order only.
    """
    explored, seen = Explored(), set[Any]()
    orders: list[tuple[str, ...]] = [()]
    with asyncio.Runner() as runner:
        while orders:
            order = orders.pop()
            play = _Play(base, processes, conditions or Conditions(), in_turn=at_once_in_turn)
            orders += runner.run(play.follow(order, seen, look, end, explored))
            assert explored.states < _STATES_MAX, "too many states to look at: leave a process out"
    return explored


class _Play:
    def __init__(
        self, base: SnapshotWorld, processes: Mapping[str, Process], conditions: Conditions, *, in_turn: bool
    ) -> None:
        self._in_turn = in_turn
        self.world = base.copy()
        self.plain = MemoryStore(BUCKET, self.world)
        assume(self.plain, conditions)
        self._processes = processes
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._heard = dict.fromkeys(processes, b"")

    async def follow(
        self,
        order: tuple[str, ...],
        seen: set[Any],
        look: Callable[[Store], Awaitable[None]],
        end: Callable[[Store, dict[str, Any]], Awaitable[None]],
        explored: Explored,
    ) -> list[tuple[str, ...]]:
        """Play an order, go on in any way until a state is known; returns the orders that branch off."""
        tasks = {
            name: asyncio.get_running_loop().create_task(
                work(_Turns(self.plain, name, self)), context=_own_numbers(place)
            )
            for place, (name, work) in enumerate(self._processes.items())
        }
        branches: list[tuple[str, ...]] = []
        done: tuple[str, ...] = ()
        try:
            while True:
                await self._settle(tasks)
                if len(done) >= len(order):
                    if (state := self._state()) in seen:
                        return branches
                    seen.add(state)
                    explored.states += 1
                    try:
                        await look(self.plain)
                        if not self._waiting:
                            explored.ends += 1
                            await end(self.plain, {name: _result(task) for name, task in tasks.items()})
                            return branches
                    except BaseException as error:
                        error.add_note(f"after the requests of {' '.join(done)}")
                        raise
                    turn, *others = self._next()
                    branches += [(*done, other) for other in others]
                else:
                    turn = order[len(done)]
                done = (*done, turn)
                self._waiting.pop(turn).set_result(None)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    def _next(self) -> list[str]:
        labels = sorted(self._waiting)
        if not self._in_turn:
            return labels
        return list({_process_of(label): label for label in reversed(labels)}.values())[::-1]

    async def turn(self, name: str) -> None:
        # What one process asks at once may reach the store in any order, too.
        label = next(one for one in _labels(name) if one not in self._waiting)
        self._waiting[label] = waiting = asyncio.get_running_loop().create_future()
        await waiting

    def hears(self, name: str, answer: object) -> None:
        """What a process has been answered, in one line that says the same in every run."""
        self._heard[name] = hashlib.sha256(self._heard[name] + repr(answer).encode()).digest()

    async def _settle(self, tasks: Mapping[str, asyncio.Task[Any]]) -> None:
        """Wait until every process has asked for all that it asks for at once, or has ended."""
        still, before = 0, -1
        while still < _STILL:
            await asyncio.sleep(0)
            waiting = {_process_of(label) for label in self._waiting}
            if any(name not in waiting and not task.done() for name, task in tasks.items()):
                still = 0
            else:
                still = still + 1 if len(self._waiting) == before else 0
            before = len(self._waiting)

    def _state(self) -> Any:
        objects = frozenset((key, held.info.etag) for key, held in self.world.objects.items())
        return objects, tuple(self._heard.items()), tuple(sorted(self._waiting))


class _Turns(DelegatingStore):
    """One process's way to the store; a listing is one request."""

    def __init__(self, inner: Store, name: str, play: _Play) -> None:
        super().__init__(inner)
        self._name = name
        self._play = play

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        await self._play.turn(self._name)
        try:
            answer = await request()
        except MagicError as error:
            self._play.hears(self._name, (operation, key, type(error)))
            raise
        self._play.hears(self._name, (operation, key, answer))
        return answer

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        async def whole() -> AsyncIterator[_T]:
            async def read() -> list[_T]:
                return [item async for item in items]

            for item in await self._around(operation, prefix, read):
                yield item

        return whole()


def _labels(name: str) -> Iterator[str]:
    return (f"{name}{_AT_ONCE * count}" for count in itertools.count())


def _process_of(label: str) -> str:
    return label.rstrip(_AT_ONCE)


def _own_numbers(place: int) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(_numbers.set, itertools.count((place + 1) << 120, 1 << 80))  # in the first digits of each
    return context


def _result(task: asyncio.Task[Any]) -> Any:
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, MagicError):
        return error
    raise error
