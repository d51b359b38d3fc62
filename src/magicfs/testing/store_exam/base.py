"""How a store is brought before the exam: the two doors of a subject, and how its tests are run."""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pytest
from fsspec.asyn import get_loop, sync

from magicfs.errors import MagicError
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Part, Store

_T = TypeVar("_T")
_Test = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Deviation:
    """One test that one subject is known to fail.

    The test is not skipped: it must fail as the row says. So a server that was repaired, or that breaks in
    another way, shows up.
    """

    test: str  # its name in the exam
    server: str
    what: str  # what the server does instead, for the reader
    seen: str  # regular expression found in the failure, written ``Type: message``
    always: bool = True  # or the server does right at times, by a race of its own, and the test may pass


class Subject(ABC):
    """A subject of an exam. Coroutine tests run on fsspec's loop, as stores do.

    Attributes:
        exam: What the summary calls the exam.
        subject: The server or store under exam: its name in the summary.
        required: Whether a skipped test fails the run.
        without: Parts of the exam that the subject is not asked, but for their absence; the summary names
            them.
    """

    exam: ClassVar[str]
    subject: ClassVar[str]
    required: ClassVar[bool] = True
    without: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "subject"):
            return
        tests = {name: getattr(cls, name) for name in dir(cls) if name.startswith("test_")}
        rows = {row.test: row for row in cls.deviations()}
        if unknown := sorted(set(rows) - set(tests)):
            raise TypeError(f"the deviations of {cls.subject} name tests that do not exist: {unknown}")
        for name, test in tests.items():
            if not hasattr(test, "__examined__"):
                setattr(cls, name, _examined(test, rows.get(name)))

    @classmethod
    def deviations(cls) -> Sequence[Deviation]:
        """The tests that the subject is known to fail."""
        return ()

    def run(self, awaitable: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine from a test that is none itself."""
        return _on_loop(awaitable)


async def outcomes(*requests: Coroutine[Any, Any, object]) -> list[Any]:
    """What requests return, or the errors of magicfs that they raise, one after the other."""
    found: list[Any] = []
    for request in requests:
        try:
            found.append(await request)
        except MagicError as error:
            found.append(error)
    return found


class Examined(Subject):
    """What every part of the store exam builds on."""

    exam = "store exam"

    @property
    def honoured(self) -> Conditions:
        """What the subject honours; by default everything."""
        return Conditions()

    @abstractmethod
    def make_store(self, bucket: str | None = None) -> Store:
        """The store on the test's own bucket, which is empty when the test begins, or on another one."""

    @abstractmethod
    def peek(self, key: str) -> bytes | None:
        """What the test's own bucket holds at a key, seen past the store; None for nothing."""

    @abstractmethod
    def poke(self, key: str, body: bytes) -> None:
        """Write an object into the test's own bucket past the store."""

    def leave_behind(self, directory: str) -> None:
        """Let dead writers leave something in a directory, if anything of theirs can lie there.

        It is no object.
        """

    @functools.cached_property
    def store(self) -> Store:
        """The store of the test's own bucket."""
        return self.make_store()

    def unknown(self) -> Store:
        """The store of a bucket that is not there."""
        return self.make_store("magicfs-exam-no-such-bucket")

    def full_part(self, fill: bytes) -> bytes:
        """A body of one repeated byte that is just large enough for a part that is not the last."""
        return fill * self.store.capabilities.parts.size_min

    def remembered(self, **metadata: str) -> dict[str, str]:
        """What the store keeps of user metadata: all or nothing."""
        return metadata if self.store.capabilities.metadata else {}

    async def upload(self, key: str, *bodies: bytes, **metadata: str) -> tuple[str, list[Part]]:
        """Open an upload and send its parts; returns its id and the parts."""
        upload_id = await self.store.create_upload(key, metadata=metadata)
        parts = [await self.store.put_part(key, upload_id, n, body) for n, body in enumerate(bodies, start=1)]
        return upload_id, parts

    async def pending(self, prefix: str = "") -> set[tuple[str, str]]:
        """Keys and ids of the uploads that are listed."""
        return {(info.key, info.upload_id) for info in await collected(self.store.list_uploads(prefix))}

    async def listed(self, prefix: str = "") -> list[str]:
        """Keys that are listed, sorted: the port promises no order."""
        return sorted([info.key async for info in self.store.list(prefix)])


async def collected(items: AsyncIterator[_T]) -> list[_T]:
    """All items of an asynchronous iterator."""
    return [item async for item in items]


def _on_loop(awaitable: Coroutine[Any, Any, _T]) -> _T:
    failures: list[BaseException] = []

    async def watched() -> _T | None:
        try:
            return await awaitable
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)
            return None

    # fsspec's sync loses what is no Exception, and pytest's own failures are none.
    result: _T = sync(get_loop(), watched)
    if failures:
        raise failures[0]
    return result


def _examined(test: Callable[..., Awaitable[None] | None], deviation: Deviation | None) -> _Test:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        if inspect.iscoroutinefunction(test):
            _on_loop(test(*args, **kwargs))
        else:
            test(*args, **kwargs)

    @functools.wraps(test)
    def run_deviating(*args: Any, **kwargs: Any) -> None:
        assert deviation is not None
        try:
            run(*args, **kwargs)
        except (Exception, pytest.fail.Exception) as error:
            if not re.search(deviation.seen, f"{type(error).__name__}: {error}"):
                raise
            return
        if deviation.always:
            pytest.fail(f"{deviation.server} passes now: remove the row of its deviation ({deviation.what})")

    chosen = run_deviating if deviation else run
    chosen.__examined__ = True  # type: ignore[attr-defined]
    return chosen
