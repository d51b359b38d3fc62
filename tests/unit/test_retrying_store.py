"""What is repeated, how often and when, and what a refusal means after a lost answer. In virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from magicfs.errors import (
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
)
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.pages import Listing, Page, Pages
from magicfs.stores.port import ObjectInfo, Part, PutMode, Store, Update, Versions, upkeep_of
from magicfs.stores.retrying import RETRIES, Retry, RetryingStore
from proofs.doubles.virtual_time import VirtualLoop

_T = TypeVar("_T")
Outcome = tuple[str, type[StoreError] | None]
FINE: Outcome = ("after", None)


def run(coroutine: Coroutine[Any, Any, _T]) -> tuple[_T, float]:
    """The result, and the seconds that it took."""

    async def whole() -> tuple[_T, float]:
        result = await coroutine
        return result, asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(whole())


class Scripted(DelegatingStore):
    """Fails requests one after the other as a list says, before or after they take place; then works."""

    def __init__(self, inner: Store, *script: Outcome, for_ever: bool = False) -> None:
        super().__init__(inner)
        self.script = list(script)
        self.for_ever = for_ever
        self.seen: list[str] = []
        self.when: list[float] = []

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        self.seen.append(operation)
        self.when.append(asyncio.get_running_loop().time())
        side, error = self.script[0] if self.script else FINE
        if self.script and not self.for_ever:
            self.script.pop(0)
        if side == "before" and error:
            raise error(operation, f"{self.bucket}/{key}", "made to fail")
        try:
            result = await request()
        except MagicError:
            if error is None:
                raise
        if error:
            raise error(operation, f"{self.bucket}/{key}", "answer lost")
        return result


class FolderStore(MemoryStore):
    """With folders that nobody reaches: their requests fail before."""

    def folders(self) -> Any:
        async def asked(*_args: str) -> Any:
            raise AssertionError

        async def listed(*_args: str) -> AsyncIterator[Any]:
            raise AssertionError
            yield

        names = ("exist", "look", "make", "delete", "delete_tree")
        return SimpleNamespace(**dict.fromkeys(names, asked), entries=listed)


def memory() -> MemoryStore:
    world = World()
    world.create_bucket("bucket")
    return FolderStore("bucket", world)


async def everything(items: Any) -> list[Any]:
    return [item async for item in items]


def folders(store: Any) -> Any:
    return store.folders()


def versions(store: Store) -> Versions:
    found: Versions = store.versions()  # type: ignore[attr-defined]
    return found


REQUESTS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "create_upload": lambda store: store.create_upload("k", metadata={}),
    "put_part": lambda store: store.put_part("k", "upload", 1, b"x"),
    "complete_upload": lambda store: store.complete_upload("k", "upload", [Part(1, '"etag"')]),
    "abort_upload": lambda store: store.abort_upload("k", "upload"),
    "list_uploads": lambda store: everything(store.list_uploads("")),
    "put": lambda store: store.put("k", b"x"),
    "copy": lambda store: store.copy("k", "copy"),
    "get": lambda store: store.get("k"),
    "get_range": lambda store: store.get_range("k", 0, 1, etag='"etag"'),
    "head": lambda store: store.head("k"),
    "checksums": lambda store: store.checksums("k", etag='"etag"'),
    "list": lambda store: everything(store.list("")),
    "list_directories": lambda store: everything(store.list_directories("")),
    "delete": lambda store: store.delete(["k"]),
    "delete_matching": lambda store: store.delete_matching("k", '"etag"'),
    "delete_all_matching": lambda store: store.delete_all_matching([("k", '"etag"')]),
    "folders_exist": lambda store: folders(store).exist(),
    "look": lambda store: folders(store).look("k"),
    "entries": lambda store: everything(folders(store).entries("k")),
    "make_directory": lambda store: folders(store).make("k"),
    "delete_directory": lambda store: folders(store).delete("k"),
    "delete_tree": lambda store: folders(store).delete_tree("k"),
    "versions_kept": lambda store: versions(store).are_kept(),
    "head_version": lambda store: versions(store).head("k", "v"),
    "get_version": lambda store: versions(store).get_range("k", "v", 0, 1),
    "copy_part": lambda store: versions(store).copy_part("k", "upload", 1, ("k", "v"), 0, 1),
    "delete_versions": lambda store: versions(store).delete([("k", "v")]),
    "list_versions": lambda store: everything(versions(store).list("")),
    "clock": lambda store: upkeep_of(store).clock(),
    "written": lambda store: upkeep_of(store).written("k", "upload"),
    "rules": lambda store: upkeep_of(store).rules(),
}


@pytest.mark.parametrize("operation", RETRIES)
def test_lasting_failure_is_repeated_as_the_table_says_and_then_raised(operation: str) -> None:
    inner = Scripted(memory(), ("before", Unavailable), for_ever=True)
    store = RetryingStore(inner, share=lambda: 1.0)

    async def scenario() -> None:
        with pytest.raises(Unavailable, match="made to fail"):
            await REQUESTS[operation](store)

    row = RETRIES[operation]
    seconds = run(scenario())[1]
    assert inner.seen == [operation] * row.attempts
    pauses = [min(row.first_s * 2**n, row.longest_s) for n in range(row.attempts - 1)]
    assert seconds == pytest.approx(sum(pauses))
    assert seconds < 20


@pytest.mark.parametrize("error", [PermissionDenied, ObjectNotFound, PreconditionFailed, StoreError])
@pytest.mark.parametrize("operation", RETRIES)
def test_refusal_is_an_answer_and_is_not_repeated(operation: str, error: type[StoreError]) -> None:
    inner = Scripted(memory(), ("before", error))

    async def scenario() -> None:
        with pytest.raises(error, match="made to fail"):
            await REQUESTS[operation](RetryingStore(inner))

    assert run(scenario())[1] == 0
    assert inner.seen == [operation]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("operation", ["create_upload", "abort_upload", "put", "delete", "delete_matching"])
def test_passing_failure_is_waited_out(operation: str, side: str) -> None:
    inner = Scripted(memory(), *[(side, Unavailable)] * 3)
    run(REQUESTS[operation](RetryingStore(inner)))
    assert inner.seen == [operation] * 4


def test_pauses_grow_to_the_longest_and_jitter_takes_at_most_half() -> None:
    row = Retry(attempts=9, first_s=0.2, longest_s=5.0)
    assert [row.pause_s(n, 1.0) for n in range(1, 8)] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    assert [row.pause_s(n, 0.0) for n in range(1, 8)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5])


def test_seeded_jitter_makes_runs_repeatable_and_unseeded_tells_clients_apart() -> None:
    def times(share: Callable[[], float] | None) -> list[float]:
        inner = Scripted(memory(), ("before", Unavailable), for_ever=True)
        store = RetryingStore(inner, **({"share": share} if share else {}))  # type: ignore[arg-type]

        async def scenario() -> None:
            with pytest.raises(Unavailable):
                await store.put("k", b"x")

        run(scenario())
        return inner.when

    assert times(random.Random(7).random) == times(random.Random(7).random)
    assert len({tuple(times(None)) for _ in range(5)}) == 5


def test_cancelled_request_is_not_repeated() -> None:
    inner = Scripted(memory(), ("before", Unavailable), for_ever=True)

    async def scenario() -> None:
        task = asyncio.create_task(RetryingStore(inner, share=lambda: 1.0).head("k"))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(100)

    run(scenario())
    assert inner.when == [0.0, 0.2]


# -- conditional puts whose answer was lost --------------------------------------------------------------


@pytest.mark.parametrize("condition", ["create", "update"])
def test_conditional_put_that_took_place_unheard_is_a_success(condition: str) -> None:
    inner = Scripted(memory())
    store = RetryingStore(inner)

    async def scenario() -> ObjectInfo:
        first = await store.put("k", b"old") if condition == "update" else None
        inner.script = [("after", Unavailable), ("before", Unavailable)]
        mode = Update(first.etag) if first else PutMode.CREATE
        return await store.put("k", bytearray(b"new"), metadata={"Nonce": "1"}, mode=mode)

    info, _ = run(scenario())
    assert info == run(inner.inner.head("k"))[0]
    assert (info.metadata, run(inner.inner.get("k"))[0]) == ({"nonce": "1"}, b"new")
    assert inner.seen[-6:] == ["put", "put", "put", "head", "get", "head"]


@pytest.mark.parametrize(
    ("body", "metadata"),
    [(b"other", {"nonce": "1"}), (b"new", {"nonce": "2"}), (b"new", {}), (None, {})],
    ids=["another body of that length", "another nonce", "no metadata", "gone"],
)
@pytest.mark.parametrize("condition", ["create", "update"])
def test_conditional_put_that_another_writer_won_is_refused(
    condition: str, body: bytes | None, metadata: dict[str, str]
) -> None:
    inner = Scripted(memory())
    store = RetryingStore(inner)
    refusal = ObjectExists if condition == "create" else PreconditionFailed

    async def scenario() -> None:
        mode: PutMode | Update = PutMode.CREATE
        if condition == "update":
            mode = Update((await store.put("k", b"old")).etag)
        if body is not None:
            await store.put("k", body, metadata=metadata)
        elif condition == "update":
            await store.delete(["k"])
        inner.script = [("before", Unavailable)]
        if body is None and condition == "create":
            await store.put("k", b"new!!", metadata={"nonce": "1"}, mode=mode)
            return
        with pytest.raises(refusal):
            await store.put("k", b"new!!"[: len(body or b"")], metadata={"nonce": "1"}, mode=mode)

    run(scenario())


def test_conditional_put_that_was_answered_is_not_read_back() -> None:
    inner = Scripted(memory())

    async def scenario() -> None:
        await inner.put("k", b"same")
        with pytest.raises(ObjectExists):
            await RetryingStore(inner).put("k", b"same", mode=PutMode.CREATE)

    run(scenario())
    assert inner.seen == ["put", "put"]


def test_object_that_changes_while_it_is_read_back_is_read_again() -> None:
    class Replaced(Scripted):
        async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
            result = await super()._around(operation, key, request)
            if operation == "get" and self.seen.count("get") == 1:
                await self.inner.put("k", b"rival")
            return result

    inner = Replaced(memory(), ("after", Unavailable))

    async def scenario() -> None:
        with pytest.raises(ObjectExists):
            await RetryingStore(inner).put("k", b"mine!", mode=PutMode.CREATE)

    run(scenario())
    assert inner.seen == ["put", "put", "head", "get", "head", "get", "head"]


def test_read_back_that_fails_for_ever_leaves_the_outcome_open() -> None:
    inner = Scripted(memory(), ("after", Unavailable), FINE, *[("before", Unavailable)] * 6)

    async def scenario() -> None:
        with pytest.raises(Unavailable, match="head of"):
            await RetryingStore(inner).put("k", b"mine", mode=PutMode.CREATE)

    run(scenario())


# -- listings --------------------------------------------------------------------------------------------


class Paged(MemoryStore):
    """Lists by pages of three, some of which fail at first."""

    def __init__(self, failures: dict[int, int]) -> None:
        world = World()
        world.create_bucket("bucket")
        super().__init__("bucket", world)
        self.failures = failures
        self.asked: list[int] = []

    def list(self, prefix: str, *, limit: int | None = None) -> Any:
        async def page(position: dict[str, str]) -> Any:
            number = int(position.get("page", "0"))
            self.asked.append(number)
            if self.failures.get(number, 0):
                self.failures[number] -= 1
                raise Unavailable("list", "bucket/", "made to fail")
            found = [info async for info in MemoryStore.list(self, prefix)]
            more = len(found) > 3 * number + 3
            following = {"page": str(number + 1)} if more else None
            return Page(found[3 * number : 3 * number + 3], following, not found)

        return Pages(Listing("list", "bucket", prefix), page, attrgetter("key"), limit)


@pytest.mark.parametrize("failures", [{}, {0: 1}, {1: 5}, {0: 2, 1: 1, 3: 5}], ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_page_that_fails_is_asked_for_again_and_no_entry_is_lost_or_repeated(
    failures: dict[int, int], wrapped: bool
) -> None:
    inner = Paged(dict(failures))

    async def scenario() -> list[str]:
        for number in range(11):
            await inner.put(f"{number:02d}", b"")
        store = RetryingStore(DelegatingStore(inner) if wrapped else inner)
        return [info.key async for info in store.list("")]

    assert run(scenario())[0] == [f"{number:02d}" for number in range(11)]
    assert inner.asked == [page for page in range(4) for _ in range(failures.get(page, 0) + 1)]


def test_page_that_fails_for_ever_ends_the_listing_with_an_error() -> None:
    inner = Paged({1: 1000})

    async def scenario() -> list[str]:
        for number in range(11):
            await inner.put(f"{number:02d}", b"")
        seen = []
        with pytest.raises(Unavailable):
            async for info in RetryingStore(inner).list(""):
                seen.append(info.key)  # noqa: PERF401 - what came before the error counts
        return seen

    assert run(scenario())[0] == ["00", "01", "02"]
    assert inner.asked == [0] + [1] * RETRIES["list"].attempts


def test_limit_holds_over_pages_and_asks_for_none_that_it_does_not_need() -> None:
    inner = Paged({1: 1})

    async def scenario() -> list[list[str]]:
        for number in range(11):
            await inner.put(f"{number:02d}", b"")
        store = RetryingStore(inner)
        return [[info.key async for info in store.list("", limit=limit)] for limit in (0, 3, 4)]

    assert [len(keys) for keys in run(scenario())[0]] == [0, 3, 4]
    assert inner.asked == [0, 0, 1, 1]


def test_listing_by_a_generator_is_never_taken_for_whole_after_an_error() -> None:
    class Generating(MemoryStore):
        async def list(self, prefix: str, *, limit: int | None = None) -> Any:
            yield ObjectInfo("a", 0, "")
            raise Unavailable("list", "bucket/", "made to fail")

    async def scenario() -> None:
        with pytest.raises(Unavailable):
            await everything(RetryingStore(Generating("bucket", World())).list(""))

    run(scenario())


def test_table_can_be_replaced() -> None:
    inner = Scripted(memory(), ("before", Unavailable), for_ever=True)
    once = {operation: replace(row, attempts=1) for operation, row in RETRIES.items()}

    async def scenario() -> None:
        with pytest.raises(Unavailable):
            await RetryingStore(inner, retries=once).get("k")

    assert run(scenario())[1] == 0
    assert inner.seen == ["get"]
