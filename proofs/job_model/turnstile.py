"""A store whose requests wait at a turnstile until their executor's turn comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Body, ObjectInfo, Part, PutMode, Store, Update

__all__ = ["Dead", "Label", "Turnstile", "TurnstileStore", "Waiting"]

_T = TypeVar("_T")


class Label(NamedTuple):
    """What the model calls a request; both empty for one that the model does not have."""

    verb: str = ""
    key: str = ""

    @property
    def changes(self) -> bool:
        """Whether it changes the store in a way that the model has."""
        return self.verb not in ("", "get", "list", "jobs", "jobs-above", "sums")


class Dead(BaseException):
    """The executor has died: nothing that it still tries reaches the store."""


@dataclass(slots=True)
class Waiting:
    """A request at the turnstile.

    Attributes:
        label: What the model calls it.
        passed: Set when it may go on.
    """

    label: Label
    passed: asyncio.Future[None]


class Turnstile:
    """Where the requests of one executor wait.

    Args:
        done: Told of every request that was carried out.
        is_open: Whether nobody waits here.
    """

    def __init__(self, done: Callable[[], None], *, is_open: bool = False) -> None:
        self.waiting: list[Waiting] = []
        self.dead = False
        self.last: Callable[[], Awaitable[object]] | None = None
        self._done = done
        self._is_open = is_open

    async def carry_out(self, label: Label, request: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for the turn, then make the request."""
        if self.dead:
            raise Dead
        if not self._is_open:
            await self._turn(label)
        self.last = request
        try:
            return await request()
        finally:
            self._done()

    async def _turn(self, label: Label) -> None:
        one = Waiting(label, asyncio.get_running_loop().create_future())
        self.waiting.append(one)
        try:
            await one.passed
        finally:
            if one in self.waiting:
                self.waiting.remove(one)
        if self.dead:
            raise Dead

    def let_pass(self, one: Waiting) -> None:
        """Let a waiting request go on."""
        self.waiting.remove(one)
        one.passed.set_result(None)


class TurnstileStore(DelegatingStore):
    """Every request waits at a turnstile, and so does the first page of every listing.

    Args:
        inner: The store.
        turnstile: The executor's.
        label: What the model calls a request, by the port's name of it, its key and its upload.
    """

    def __init__(self, inner: Store, turnstile: Turnstile, label: Callable[[str, str, str], Label]) -> None:
        super().__init__(inner)
        self._turnstile = turnstile
        self._label = label

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        label = self._label("complete", key, upload_id)
        return await self._turnstile.carry_out(
            label, lambda: self.inner.complete_upload(key, upload_id, parts, if_absent=if_absent)
        )

    async def abort_upload(self, key: str, upload_id: str) -> None:
        label = self._label("abort", key, upload_id)
        await self._turnstile.carry_out(label, lambda: self.inner.abort_upload(key, upload_id))

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        return await self._turnstile.carry_out(
            self._label("create" if mode is PutMode.CREATE else "put", key, ""),
            lambda: self.inner.put(key, body, metadata=metadata, mode=mode),
        )

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        return await self._turnstile.carry_out(self._label(operation, key, ""), request)

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        return self._listed(self._label(operation, prefix, ""), items)

    async def _listed(self, label: Label, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        first = await self._turnstile.carry_out(label, lambda: anext(items, None))
        if first is not None:
            yield first
            async for item in items:
                yield item
