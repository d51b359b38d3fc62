"""What is found out about a store's conditions, at which price, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar

import pytest

from magicfs.errors import MagicError, ObjectExists, PermissionDenied, Unavailable, Unsupported
from magicfs.stores import conditions
from magicfs.stores.conditions import Conditions, conditions_of, remove_matching, sweep_probes
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Body, ObjectInfo, PutMode, Store, Update
from magicfs.testing.counting_store import CountingStore

_T = TypeVar("_T")
NAMES = [field.name for field in fields(Conditions)]
DIRECTORY = "sales/__magic_job-1/job-1"
REQUESTS = {
    "put": 5,
    "create_upload": 1,
    "put_part": 1,
    "complete_upload": 1,
    "abort_upload": 1,
    "delete_all_matching": 1,
    "delete_matching": 2,
    "delete": 1,
}


class Faulty(DelegatingStore):
    """Fails the n-th request, from 0, before or after it took place."""

    def __init__(self, inner: Store, at: int, *, after: bool, error: type[MagicError] = Unavailable) -> None:
        super().__init__(inner)
        self.at, self.after, self.error = at, after, error
        self.requests = 0

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        number, self.requests = self.requests, self.requests + 1
        if number == self.at:
            if self.after:
                with contextlib.suppress(MagicError):
                    await request()
            raise self.error(operation, f"{self.bucket}/{key}", "made to fail")  # type: ignore[call-arg]
        return await request()


class Slow(DelegatingStore):
    """Gives others their turn during each request."""

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        await asyncio.sleep(0)
        return await request()


class Refusing(DelegatingStore):
    """Answers some requests with an error, as a store does that has no such conditions."""

    def __init__(self, inner: Store, refuses: Callable[[str, dict[str, Any]], MagicError | None]) -> None:
        super().__init__(inner)
        self.refuses = refuses

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        if (error := self.refuses(operation, {})) is not None:
            raise error
        return await request()

    async def put(self, key: str, body: Any, **options: Any) -> ObjectInfo:
        if (error := self.refuses("put", options)) is not None:
            raise error
        return await self.inner.put(key, body, **options)

    async def complete_upload(self, key: str, upload_id: str, parts: Any, **options: Any) -> ObjectInfo:
        if (error := self.refuses("complete_upload", options)) is not None:
            raise error
        return await self.inner.complete_upload(key, upload_id, parts, **options)


def condition_of(options: dict[str, Any]) -> str | None:
    mode = options.get("mode")
    if isinstance(mode, Update):
        return "if_match"
    return "if_absent" if mode is PutMode.CREATE or options.get("if_absent") else None


@pytest.fixture
def memory() -> MemoryStore:
    return make()


def make(*ignores: str) -> MemoryStore:
    world = World(ignores=frozenset(ignores))
    world.create_bucket("bucket")
    return MemoryStore("bucket", world)


def probe(store: Store) -> Conditions:
    return asyncio.run(conditions_of(store, DIRECTORY))


def left(store: Store) -> list[str]:
    async def look() -> list[str]:
        uploads = [info.key async for info in store.list_uploads("")]
        return uploads + [info.key async for info in store.list("")]

    return asyncio.run(look())


def test_store_that_honours_everything_is_asked_thirteen_times_and_never_again(memory: MemoryStore) -> None:
    counts: Counter[str] = Counter()
    store = CountingStore(memory, counts)
    assert probe(store) == Conditions()
    assert counts == REQUESTS
    assert counts.total() == 13
    assert (probe(CountingStore(memory, counts)), counts.total()) == (Conditions(), 13)
    assert left(memory) == []


@pytest.mark.parametrize("ignored", [*[(name,) for name in NAMES], tuple(NAMES)], ids="+".join)
def test_condition_that_a_store_ignores_is_found_out(ignored: tuple[str, ...]) -> None:
    store = make(*ignored)
    assert asdict(probe(store)) == {name: name not in ignored for name in NAMES}
    assert left(store) == []


@pytest.mark.parametrize(
    ("operation", "condition", "name"),
    [
        ("put", "if_absent", "put_if_absent"),
        ("put", "if_match", "put_if_match"),
        ("complete_upload", "if_absent", "complete_if_absent"),
        ("delete_matching", None, "delete"),
        ("delete_all_matching", None, "bulk_delete"),
        ("create_upload", None, "complete_if_absent"),
    ],
)
def test_condition_that_is_answered_with_501_is_not_honoured(
    memory: MemoryStore, operation: str, condition: str | None, name: str
) -> None:
    def refuses(asked: str, options: dict[str, Any]) -> MagicError | None:
        if asked != operation or (condition and condition_of(options) != condition):
            return None
        return Unsupported(asked, "bucket/key", "no such header (501 NotImplemented)")

    assert asdict(probe(Refusing(memory, refuses))) == {each: each != name for each in NAMES}
    assert left(memory) == []


def test_store_that_takes_no_etag_at_all_does_not_honour_it(memory: MemoryStore) -> None:
    """As Ceph's gateway, which refuses the right one, too."""

    class TakesNone(MemoryStore):
        def _holds(self, *_: Any) -> bool:
            return False

    store = TakesNone("bucket", memory.world)
    assert probe(store) == Conditions(put_if_match=False, delete=False)
    assert left(memory) == []


@pytest.mark.parametrize("at", range(5))
def test_put_that_is_sent_again_and_refused_by_its_own_work_changes_no_verdict(
    memory: MemoryStore, at: int
) -> None:
    class SendsAgain(DelegatingStore):
        puts = -1

        async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
            self.puts += 1
            if self.puts == at:
                await super().put(key, body, **options)
            return await super().put(key, body, **options)

    assert probe(SendsAgain(memory)) == Conditions()
    assert left(memory) == []


class Swept(DelegatingStore):
    """Loses its objects before one request: whoever ends a job removes what lies in its directory."""

    def __init__(self, inner: MemoryStore, at: int) -> None:
        super().__init__(inner)
        self._left = at

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        self._left -= 1
        if not self._left:
            await self.inner.delete([info.key async for info in self.inner.list("")])
        return await request()


@pytest.mark.parametrize("at", range(1, 18))
def test_a_directory_that_is_swept_in_the_middle_changes_no_verdict(memory: MemoryStore, at: int) -> None:
    assert probe(Swept(memory, at)) == Conditions()
    assert left(memory) == []


def test_store_that_takes_every_key_for_taken_does_not_honour_it(memory: MemoryStore) -> None:
    def refuses(asked: str, options: dict[str, Any]) -> MagicError | None:
        return ObjectExists(asked, "bucket/key", "there") if condition_of(options) == "if_absent" else None

    found = probe(Refusing(memory, refuses))
    assert (found.put_if_absent, left(memory)) == (False, [])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(13))
def test_probe_that_fails_anywhere_leaves_nothing_and_is_tried_anew(
    memory: MemoryStore, at: int, after: bool
) -> None:
    with pytest.raises(Unavailable, match="made to fail"):
        probe(Faulty(memory, at, after=after))
    assert left(memory) == []
    assert probe(memory) == Conditions()


@pytest.mark.parametrize("ignored", NAMES)
def test_probe_of_a_lax_store_that_fails_anywhere_leaves_nothing(ignored: str) -> None:
    store = make(ignored)
    whole = Faulty(store, 1000, after=False)
    probe(whole)
    for at in range(whole.requests):
        for after in (False, True):
            conditions.assume(store, None)
            with pytest.raises(Unavailable):
                probe(Faulty(store, at, after=after))
            assert left(store) == [], (at, after)


def test_probe_that_is_cancelled_leaves_nothing(memory: MemoryStore) -> None:
    async def scenario(turns: int) -> None:
        task = asyncio.create_task(conditions_of(Slow(memory), DIRECTORY))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for turns in range(1, 10):
        asyncio.run(scenario(turns))
        assert left(memory) == [], turns


@pytest.mark.parametrize(
    ("at", "needs"),
    [(1, "s3:PutObject, and s3:GetObject for If-Match"), (5, "s3:DeleteObject"), (9, "AbortMultipartUpload")],
)
def test_denied_condition_says_what_it_needs(memory: MemoryStore, at: int, needs: str) -> None:
    with pytest.raises(PermissionDenied, match=needs) as caught:
        probe(Faulty(memory, at, after=False, error=PermissionDenied))
    assert "conditional request" in str(caught.value)
    assert left(memory) == []


def test_callers_at_the_same_time_ask_once(memory: MemoryStore) -> None:
    counts: Counter[str] = Counter()

    async def scenario() -> list[Conditions]:
        stores = [CountingStore(Slow(memory), counts) for _ in range(20)]
        return await asyncio.gather(*(conditions_of(store, DIRECTORY) for store in stores))

    assert asyncio.run(scenario()) == [Conditions()] * 20
    assert counts == REQUESTS


def test_callers_of_a_probe_that_fails_ask_once_more_each_until_one_succeeds(memory: MemoryStore) -> None:
    async def scenario() -> list[Any]:
        faulty = Faulty(Slow(memory), 3, after=False)
        return await asyncio.gather(
            *(conditions_of(faulty, DIRECTORY) for _ in range(3)), return_exceptions=True
        )

    first, *others = asyncio.run(scenario())
    assert (type(first), others) == (Unavailable, [Conditions(), Conditions()])


def test_every_world_and_bucket_is_asked_for_itself() -> None:
    lax, strict = make("delete"), make()
    assert (probe(lax).delete, probe(strict).delete) == (False, True)
    lax.world.create_bucket("another")
    other = MemoryStore("another", lax.world)
    assert len({lax.identity, strict.identity, other.identity}) == 3


def test_many_stores_are_not_remembered_for_ever() -> None:
    before = make()
    conditions.assume(before, Conditions(delete=False))
    for _ in range(1000):
        conditions.assume(make(), Conditions())
    assert probe(before) == Conditions()


# -- removing ------------------------------------------------------------------------------------------


def remove(store: Store, means: Conditions, objects: list[tuple[str, str]]) -> list[str]:
    return asyncio.run(remove_matching(store, means, objects, 4))


async def filled(store: Store, number: int) -> list[tuple[str, str]]:
    return [(f"k/{n}", (await store.put(f"k/{n}", b"%d" % n)).etag) for n in range(number)]


MEANS = {
    "bulk": (Conditions(), {"delete_all_matching": 3}),
    "single": (Conditions(bulk_delete=False), {"delete_matching": 2002}),
    "compared": (Conditions(bulk_delete=False, delete=False), {"head": 2002, "delete": 2000}),
}


@pytest.mark.parametrize("means", MEANS)
def test_objects_are_removed_by_the_best_means_and_others_named(memory: MemoryStore, means: str) -> None:
    honoured, requests = MEANS[means]
    ignored = {"bulk": (), "single": ("bulk_delete",), "compared": ("bulk_delete", "delete")}[means]
    store = make(*ignored)
    objects = asyncio.run(filled(store, 2001))
    asyncio.run(store.put("k/7", b"another"))
    counts: Counter[str] = Counter()
    gone = ("k/gone", '"etag"')
    assert remove(CountingStore(store, counts), honoured, [*objects, gone]) == ["k/7"]
    assert (left(store), dict(counts)) == (["k/7"], requests)
    assert remove(store, honoured, []) == []


def test_failed_removal_ends_what_is_in_flight_and_a_second_call_does_the_rest(memory: MemoryStore) -> None:
    objects = asyncio.run(filled(memory, 20))
    means = Conditions(bulk_delete=False)
    faulty = Faulty(Slow(memory), 5, after=False)
    with pytest.raises(Unavailable):
        remove(faulty, means, objects)
    # Five before, those in flight, and none that began later.
    assert 20 - len(left(memory)) == faulty.requests - 1 <= 5 + 4
    assert remove(memory, means, objects) == []
    assert left(memory) == []


def test_removal_runs_no_more_requests_at_once_than_it_may(memory: MemoryStore) -> None:
    running: list[int] = [0, 0]

    class Watched(DelegatingStore):
        async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
            running[0] += 1
            running[1] = max(running)
            await asyncio.sleep(0)
            running[0] -= 1
            return await request()

    objects = asyncio.run(filled(memory, 50))
    remove(Watched(memory), Conditions(bulk_delete=False, delete=False), objects)
    assert (running, left(memory)) == ([0, 4], [])


class TestSweepingProbes:
    """What a trial has left whose process died at any of its requests."""

    def left(self, at: int, *, after: bool) -> tuple[World, bool]:
        """A world after a trial whose process died; and whether it came to its end before."""
        world = World()
        world.create_bucket("b")

        class Dead(Faulty):
            async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
                if self.requests > self.at:
                    raise Unavailable(operation, key, "the process is dead")
                return await super()._around(operation, key, request)

        store = Dead(world.store("b"), at, after=after)
        conditions.assume(store, None)
        with contextlib.suppress(MagicError):
            asyncio.run(conditions_of(store, "sales/_magicfs"))
        conditions.assume(store, None)
        return world, store.requests <= at

    def everything(self, store: Store) -> list[str]:
        async def look() -> list[str]:
            found = [info.key async for info in store.list("")]
            return sorted([*found, *[info.key async for info in store.list_uploads("")]])

        return asyncio.run(look())

    @pytest.mark.parametrize("after", [False, True])
    def test_all_of_it_goes_and_nothing_else(self, after: bool) -> None:
        met = 0
        for at in range(40):
            world, ended = self.left(at, after=after)
            store = world.store("b")
            others = (
                *("sales/_magicfs/probe-0123456789abcdef.json", "sales/_magicfs/probe-1/kept.json"),
                *("sales/_magicfs/probe-0123456789abcdef-upload.json", "sales/probe-0123456789abcdef"),
            )
            left = self.everything(store)

            async def rest(store: Store = store, others: tuple[str, ...] = others) -> None:
                for key in others:
                    await store.put(key, b"others'")
                await store.create_upload("sales/_magicfs/probe-1", metadata={})

            asyncio.run(rest())
            before = self.everything(store)
            assert asyncio.run(sweep_probes(store, "sales/_magicfs")) == 0, "it may be at work"
            assert self.everything(store) == before
            assert asyncio.run(sweep_probes(store, "sales/_magicfs", older_than_s=-1)) == len(left)
            assert self.everything(store) == sorted([*others, "sales/_magicfs/probe-1"])
            met += bool(left)
            if ended:
                break
        assert 10 < at < 39, "every request"
        assert met > 5

    @pytest.mark.parametrize("error", [PermissionDenied, Unsupported, Unavailable])
    def test_where_nothing_may_be_listed_it_says_nothing(self, error: type[MagicError]) -> None:
        for at in range(4):
            world, _ = self.left(4, after=True)
            store = Faulty(world.store("b"), at, after=False, error=error)
            asyncio.run(sweep_probes(store, "sales/_magicfs", older_than_s=-1))
