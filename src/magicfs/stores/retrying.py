"""A store whose failures are waited out, each request by its own row of one table."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from magicfs.errors import ObjectExists, ObjectNotFound, PreconditionFailed, StoreError, Unavailable
from magicfs.runtime import parallel, watchers
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Body, ObjectInfo, PutMode, Store, Update

if TYPE_CHECKING:
    from tenacity import RetryCallState

STALL_TIMEOUT_S = 60.0
"""Longer than a short failure of a store, shorter than what a person waits for a failed job."""


class StallTimeoutStore(DelegatingStore):
    """Raises ``Unavailable`` once the store within has answered nothing for ``timeout_s`` seconds.

    The time counts from the last answer to any request, so work of any size goes on while answers come; while
    nothing is asked it does not count. A request that is given up is cancelled, and may take place all the
    same.
    """

    def __init__(self, inner: Store, timeout_s: float) -> None:
        super().__init__(inner)
        self._timeout_s = timeout_s
        self._silent_since: float | None = None
        self._in_flight = 0

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        if self._silent_since is None:
            self._silent_since = _now()
        self._in_flight += 1
        try:
            async with asyncio.timeout(max(self._silent_since + self._timeout_s - _now(), 0)):
                result = await request()
        except TimeoutError as error:
            raise Unavailable(
                operation,
                f"{self.bucket}/{key}",
                f"timed out: the store did not answer for {self._timeout_s:g} s",
                hint="check that the endpoint is right and up, then abort again",
            ) from error
        except Unavailable:
            raise
        except Exception:
            self._answered()
            raise
        else:
            self._answered()
            return result
        finally:
            self._in_flight -= 1

    def _answered(self) -> None:
        others = self._in_flight - 1
        self._silent_since = _now() if others else None


def _now() -> float:
    return asyncio.get_running_loop().time()


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How one operation is tried again.

    The n-th pause is drawn between half and all of ``first_s`` · 2ⁿ⁻¹, at most ``longest_s``.
    """

    attempts: int  # the first one included
    first_s: float
    longest_s: float
    errors: tuple[type[StoreError], ...] = (Unavailable,)
    throttled: int | None = None
    """As ``attempts``, where the store has said that there are too many requests; None for the same."""

    def attempts_after(self, error: BaseException | None) -> int:
        """How many attempts there are in all, given how the last one failed."""
        is_throttled = isinstance(error, Unavailable) and error.throttled
        return self.throttled if is_throttled and self.throttled is not None else self.attempts

    def pause_s(self, failed: int, share: float) -> float:
        """Seconds to wait after so many failed attempts; the share, 0 to 1, is drawn for every pause."""
        longest = min(self.first_s * 2.0 ** (failed - 1), self.longest_s)
        return longest * (1 + share) / 2


_USUAL = Retry(attempts=6, first_s=0.2, longest_s=5.0)
# The store works, and will take this one, too; the pace sees to it that others do not push in.
_UPLOAD = Retry(attempts=6, first_s=0.2, longest_s=5.0, throttled=20)
# What a job's outcome hangs on.
_PATIENT = Retry(attempts=8, first_s=0.2, longest_s=5.0)
_PUT = Retry(attempts=8, first_s=0.2, longest_s=5.0, throttled=20)  # both

RETRIES: Mapping[str, Retry] = {
    **dict.fromkeys(("create_upload", "put_part", "copy_part"), _UPLOAD),
    **dict.fromkeys(("complete_upload", "copy"), _PATIENT),
    "put": _PUT,
    **dict.fromkeys(("abort_upload", "list_uploads", "get", "get_range", "head", "checksums"), _USUAL),
    **dict.fromkeys(("list", "list_directories"), _USUAL),
    **dict.fromkeys(("delete", "delete_matching", "delete_all_matching"), _USUAL),
    # Of folders. A rename is not made again: where its answer was lost, who asked looks what is there.
    **dict.fromkeys(("folders_exist", "look", "entries", "make_directory"), _USUAL),
    **dict.fromkeys(("delete_directory", "delete_tree"), _USUAL),
    # Of versions.
    **dict.fromkeys(("versions_kept", "head_version", "get_version"), _USUAL),
    **dict.fromkeys(("delete_versions", "list_versions"), _USUAL),
    # Of upkeep.
    **dict.fromkeys(("clock", "written", "rules"), _USUAL),
}
"""By operation of the port. A listing's attempts are those for one page."""


_PACED = frozenset({"create_upload", "put_part", "put"})
"""By which files are uploaded: the pace of the store says how many are under way at once."""


_CHECK: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("magicfs_checked_again", default=None)


@contextmanager
def checked_again(check: Callable[[], Awaitable[None]] | None) -> Iterator[None]:
    """Within, ``check`` is awaited before a request is made again, and stops that by raising.

    A machine that was asleep finds its connections broken, and the world changed.
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


async def _acting(job: str, request: Callable[[], Awaitable[_T]]) -> _T:
    with watchers.acting(job):
        return await request()


class RetryingStore(DelegatingStore):
    """Repeats what failed with ``Unavailable``: throttling, errors of the server, broken connections.

    Repeating is safe for every operation of the port. A conditional ``put`` that is refused after an attempt
    without an answer is read back: what that attempt itself wrote is its success. A completion that is
    refused so is not: the caller knows its write id.

    Nothing below it should repeat requests. ``share`` draws the random part of a pause, between 0 and 1; a
    seeded one makes runs repeatable.
    """

    def __init__(
        self,
        inner: Store,
        *,
        retries: Mapping[str, Retry] = RETRIES,
        share: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(inner)
        self._retries = retries
        self._share = share
        self._job = ""

    def acting_for(self, job: str) -> Self:
        """The same store, whose requests say that they are made for a job."""
        twin = copy.copy(self)
        vars(twin)["_job"] = job
        return twin

    async def put(
        self,
        key: str,
        body: Body,
        *,
        metadata: Mapping[str, str] | None = None,
        mode: PutMode | Update = PutMode.OVERWRITE,
    ) -> ObjectInfo:
        unanswered = False

        async def attempt() -> ObjectInfo:
            nonlocal unanswered
            try:
                return await self.inner.put(key, body, metadata=metadata, mode=mode)
            except Unavailable:
                unanswered = True
                raise

        try:
            return await self._around("put", key, attempt)
        except (ObjectExists, PreconditionFailed):
            if unanswered and (written := await self._written(key, bytes(body), metadata or {})):
                return written
            raise

    async def _written(self, key: str, body: bytes, metadata: Mapping[str, str]) -> ObjectInfo | None:
        """What is at the key, if it holds exactly this."""
        named = {name.lower(): value for name, value in metadata.items()}
        try:
            info = await self.head(key)
            while info.size == len(body) and dict(info.metadata) == named:
                held = await self.get(key, size_max=len(body) + 1)
                before, info = info, await self.head(key)
                if before.etag == info.etag:
                    return info if held == body else None
        except ObjectNotFound:
            return None
        return None

    def _steps(self, operation: str, prefix: str, items: AsyncIterator[_T]) -> AsyncIterator[_T]:
        # A generator that has raised is at its end: asked again, it would pass for a whole listing.
        if isinstance(items, AsyncGenerator):
            return items
        return super()._steps(operation, prefix, items)

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:  # noqa: ARG002
        if self._job:
            request = partial(_acting, self._job, request)
        row = self._retries.get(operation)
        if row is None:  # of a tree in which a rename is one step: a second one would meet the first
            return await request()
        if operation not in _PACED:
            return await self._tried(row, request if operation != "head" else partial(self._timed, request))
        slots = parallel.uploads_of(self)
        await slots.acquire()
        try:
            return await self._tried(row, request)
        finally:
            slots.release()

    async def _tried(self, row: Retry, request: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await request()
        except row.errors as error:
            self._note(error)
            return await self._again(row, request, error)

    async def _timed(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """A small request, whose answer tells how far away the store is."""
        time = asyncio.get_running_loop().time
        began = time()
        try:
            found = await request()
        except ObjectNotFound:
            parallel.answered(self, time() - began)
            raise
        parallel.answered(self, time() - began)
        return found

    def _note(self, error: StoreError) -> None:
        if isinstance(error, Unavailable) and error.throttled:
            parallel.report(self)

    async def _again(self, row: Retry, request: Callable[[], Awaitable[_T]], first: StoreError) -> _T:
        """Make a request again after its first attempt failed."""
        from tenacity import AsyncRetrying, retry_if_exception_type

        failed, last = [first], first

        async def attempt() -> _T:
            nonlocal last
            if failed:
                raise failed.pop()
            throttled = isinstance(last, Unavailable) and last.throttled
            watchers.happened("retry", operation=last.operation, throttled=throttled, error=str(last))
            if (check := _CHECK.get()) is not None:
                with checked_again(None):  # its own requests are made again without it
                    await check()
            try:
                return await request()
            except Unavailable as error:
                self._note(last := error)
                raise

        def wait(state: RetryCallState) -> float:
            return row.pause_s(state.attempt_number, self._share())

        def stop(state: RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome is not None else None
            return state.attempt_number >= row.attempts_after(error)

        repeated = AsyncRetrying(
            sleep=asyncio.sleep,
            stop=stop,
            wait=wait,
            retry=retry_if_exception_type(row.errors),
            reraise=True,
        )
        return await repeated(attempt)
