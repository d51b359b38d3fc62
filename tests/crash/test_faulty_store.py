"""The faulty store: generated from the port, every kind of fault, dead means dead."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
)
from magicfs.stores.local.store import LocalStore
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import PutMode, Store, Update
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import tree_of
from magicfs.testing.faulty_store import FaultyStore, FaultyTree, Traffic, faulty, generate
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind, Request
from proofs.doubles import virtual_time


class Bench:
    """A bucket, an actor's faulty way to it, and the bucket itself."""

    def __init__(self, *faults: Fault, **options: Any) -> None:
        world = World()
        world.create_bucket("b")
        self.plain = MemoryStore("b", world)
        self.traffic = Traffic(faults, **options)
        self.actor = Actor("one")
        self.store = faulty(self.plain, self.traffic, self.actor)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return virtual_time.run(coroutine)

    def listed(self, prefix: str = "") -> list[str]:
        return self.run(_keys(self.plain, prefix))


async def _keys(store: Store, prefix: str = "") -> list[str]:
    return [info.key async for info in store.list(prefix)]


@pytest.mark.parametrize(("port", "target"), [(Store, FaultyStore), (Tree, FaultyTree)])
def test_every_member_of_the_port_is_wrapped(port: type, target: type) -> None:
    members = [name for name, _ in inspect.getmembers(port) if not name.startswith("_")]
    assert {"complete_upload", "rename"} & set(members)
    for name in members:
        assert name in vars(target), name


def test_a_new_method_of_the_port_is_wrapped_without_further_words() -> None:
    class Larger(Store, Protocol):
        @property
        def colour(self) -> str: ...

        async def rename(self, key: str, new: str, *, if_match: str | None = None) -> str: ...

        def list_versions(self, prefix: str) -> AsyncIterator[Any]: ...

    class Inner(MemoryStore):
        colour = "red"

        async def rename(self, key: str, new: str, *, if_match: str | None = None) -> str:
            return f"{key} {new}"

        async def list_versions(self, prefix: str) -> AsyncIterator[Any]:
            async for info in self.list(prefix):
                yield info

    made: Any = generate(Larger, type("Made", (), {"__init__": FaultyStore.__init__}))
    traffic = Traffic([Fault(Kind.THROTTLE, operation="rename", skip=1)])
    world = World(create_buckets=True)
    store = made(Inner("b", world), traffic, Actor("one"))

    async def whole() -> None:
        assert store.colour == "red"
        assert await store.rename("k", "n", if_match="x") == "k n"
        with pytest.raises(Unavailable):
            await store.rename("k", "n")
        assert [v async for v in store.list_versions("p")] == []

    virtual_time.run(whole())
    assert traffic.log == [
        Request(1, "one", "rename", "k", "if_match"),
        Request(2, "one", "rename", "k"),
        Request(3, "one", "list_versions", "p"),
    ]


def test_what_the_generator_does_not_understand_is_refused() -> None:
    class Odd(Protocol):
        def now(self) -> float: ...

    class Stranger:
        constant = 3

    for port in (Odd, Stranger):
        with pytest.raises(TypeError, match="add it to generate"):
            generate(port, type("Made", (), {}))


@pytest.mark.parametrize(("kind", "applied"), [(Kind.CRASH_BEFORE, False), (Kind.CRASH_AFTER, True)])
def test_a_crash_kills_the_process_and_everything_that_it_still_tries(kind: Kind, applied: bool) -> None:
    bench = Bench(Fault(kind, number=2))

    async def process() -> None:
        await bench.store.put("a", b"1")
        try:
            await bench.store.put("b", b"2")
        except Exception:  # noqa: BLE001
            pytest.fail("a crash is no exception to be handled")
        finally:
            for _ in range(2):
                with pytest.raises(Crash):
                    await bench.store.delete(["a"])
            with pytest.raises(Crash):
                await _keys(bench.store)

    with pytest.raises(Crash):
        bench.run(process())
    assert bench.actor.dead
    assert bench.listed() == (["a", "b"] if applied else ["a"])
    other = faulty(bench.plain, bench.traffic, Actor("two"))
    bench.run(other.put("c", b"3"))
    assert "c" in bench.listed()


def test_requests_of_a_dead_process_that_were_under_way_are_not_done() -> None:
    bench = Bench(Fault(Kind.CRASH_BEFORE, operation="delete"), latency=lambda request: 5.0)

    async def whole() -> None:
        slow = asyncio.ensure_future(bench.store.put("slow", b""))
        await asyncio.sleep(1)
        quick = faulty(bench.plain, Traffic([Fault(Kind.CRASH_BEFORE)]), bench.actor)
        with pytest.raises(Crash):
            await quick.delete(["x"])
        with pytest.raises(Crash):
            await slow

    bench.run(whole())
    assert bench.listed() == []


@pytest.mark.parametrize(
    ("kind", "applied"),
    [
        (Kind.ERROR_BEFORE, False),
        (Kind.THROTTLE, False),
        (Kind.CONFLICT, False),
        (Kind.REPLY_LOST, True),
    ],
)
def test_errors_are_transient_or_last(kind: Kind, applied: bool) -> None:
    bench = Bench(Fault(kind, operation="put", prefix="a/", times=2))
    lasting = Bench(Fault(kind, operation="put", prefix="a/", times=None))

    async def twice(store: Store) -> None:
        await store.put("b/1", b"")
        for _ in range(2):
            with pytest.raises(Unavailable):
                await store.put("a/1", b"")

    bench.run(twice(bench.store))
    assert bench.listed("a/") == (["a/1"] if applied else [])
    bench.run(bench.store.put("a/2", b""))
    bench.run(twice(lasting.store))
    with pytest.raises(Unavailable):
        lasting.run(lasting.store.put("a/3", b""))
    assert [fault.kind for fault, _ in bench.traffic.met] == [kind, kind]


def test_a_repetition_is_refused_by_its_own_work() -> None:
    bench = Bench(Fault(Kind.REFUSED, times=None))

    async def whole() -> None:
        with pytest.raises(ObjectExists):
            await bench.store.put("k", b"1", mode=PutMode.CREATE)
        etag = (await bench.plain.head("k")).etag
        with pytest.raises(PreconditionFailed):
            await bench.store.put("k", b"2", mode=Update(etag))
        assert await bench.store.get("k") == b"2"
        upload = await bench.store.create_upload("u", metadata={})
        part = await bench.store.put_part("u", upload, 1, b"3")
        with pytest.raises(UploadNotFound):
            await bench.store.complete_upload("u", upload, [part])

    bench.run(whole())
    assert bench.listed() == ["k", "u"]


def test_a_refusal_of_the_store_itself_is_not_applied_and_lost_with_its_reply() -> None:
    bench = Bench(Fault(Kind.REPLY_LOST, operation="put"))

    async def whole() -> None:
        await bench.plain.put("k", b"1")
        with pytest.raises(Unavailable):
            await bench.store.put("k", b"2", mode=PutMode.CREATE)
        assert await bench.plain.get("k") == b"1"

    bench.run(whole())


def test_delays_and_late_requests() -> None:
    bench = Bench(
        Fault(Kind.DELAY, operation="get", seconds=30), Fault(Kind.LATE, operation="put", seconds=60)
    )

    async def whole() -> None:
        loop = asyncio.get_running_loop()
        await bench.plain.put("old", b"")
        await bench.store.get("old")
        assert loop.time() == 30
        with pytest.raises(Unavailable):
            await bench.store.put("new", b"")
        with pytest.raises(ObjectNotFound):
            await bench.plain.head("new")
        bench.actor.dead = True
        await bench.traffic.settle()
        await bench.plain.head("new")
        assert loop.time() == 90

    bench.run(whole())


@pytest.mark.parametrize("stale", [False, True])
def test_tiny_and_stale_pages(stale: bool) -> None:
    bench = Bench(page=2, stale=stale)

    async def whole() -> list[str]:
        for name in "abcdef":
            await bench.plain.put(name, b"")
        found = []
        async for info in bench.store.list(""):
            found.append(info.key)
            if info.key == "b":
                await bench.plain.delete(["c", "e"])
                await bench.plain.put("d0", b"")
                await bench.plain.put("a0", b"")
        return found

    assert bench.run(whole()) == (list("abcdef") if stale else ["a", "b", "d", "d0", "f"])
    assert [request.operation for request in bench.traffic.log] == ["list"] * 3


def test_pages_of_uploads_and_faults_between_them() -> None:
    bench = Bench(Fault(Kind.THROTTLE, operation="list_uploads", skip=1), page=2)

    async def whole() -> None:
        opened = {await bench.plain.create_upload("same", metadata={}) for _ in range(5)}
        found = []
        with pytest.raises(Unavailable):
            async for upload in bench.store.list_uploads(""):
                found.append(upload.upload_id)  # noqa: PERF401 - what came before the error counts
        assert len(found) == 2
        found = [upload.upload_id async for upload in bench.store.list_uploads("")]
        assert set(found) == opened
        assert len(found) == 5

    bench.run(whole())
    assert bench.traffic.count == 2 + 3


def test_whoever_watches_is_told_before_and_after() -> None:
    told: list[str] = []
    bench = Bench(
        before=lambda request: told.append(f"before {request.operation}"),
        after=lambda request: told.append(f"after {request.operation}"),
        choose=lambda request: Fault(Kind.REPLY_LOST) if request.key == "lost" else None,
    )

    async def whole() -> None:
        with pytest.raises(Unavailable):
            await bench.store.put("lost", b"")
        with pytest.raises(StoreError):
            await bench.store.get("missing")

    bench.run(whole())
    assert told == ["before put", "after put", "before get", "after get"]


def test_copy_is_about_its_source_and_its_target_and_changes_something() -> None:
    faults = [Fault(Kind.CRASH_AFTER, prefix="published/"), Fault(Kind.THROTTLE, prefix="work/b")]
    bench = Bench(*faults)

    async def whole() -> None:
        await bench.plain.put("work/a", b"body")
        with pytest.raises(Unavailable):
            await bench.store.copy("work/b", "elsewhere")
        assert await bench.store.copy("work/a", "work/c") == 4
        with pytest.raises(Crash):
            await bench.store.copy(source="work/a", destination="published/a")
        assert await bench.plain.get("published/a") == b"body"

    bench.run(whole())
    assert bench.traffic.log[-1] == Request(3, "one", "copy", "work/a", target="published/a")
    assert bench.traffic.log[-1].changes
    assert str(bench.traffic.log[-1]) == "3 one: copy work/a to published/a"
    assert [request.target for request in bench.traffic.log] == ["elsewhere", "work/c", "published/a"]


def test_tree_over_objects_fails_request_by_request() -> None:
    bench = Bench(Fault(Kind.CRASH_BEFORE, operation="delete"))

    async def whole() -> None:
        await bench.plain.put("from/a", b"body")
        with pytest.raises(Crash):
            await tree_of(bench.store).rename("from", "to")

    bench.run(whole())
    assert bench.listed() == ["from/a", "to/a"]


def test_tree_of_one_step_renames_fails_as_a_whole(tmp_path: Path) -> None:
    faults = [
        Fault(Kind.ERROR_BEFORE, operation="rename", prefix="a"),
        Fault(Kind.REFUSED, operation="rename", prefix="b"),
        Fault(Kind.REFUSED, operation="write", prefix="c"),
        Fault(Kind.CRASH_AFTER, operation="rename", prefix="d"),
    ]
    traffic = Traffic(faults, page=2)
    tree = tree_of(faulty(LocalStore(str(tmp_path)), traffic, Actor("one")))

    async def whole() -> None:
        for name in "abd":
            await tree.write(f"{name}/file", b"")
        with pytest.raises(Unavailable):
            await tree.rename("a", "to a")
        with pytest.raises(ObjectNotFound):
            await tree.rename("b", "to b")
        with pytest.raises(ObjectExists):
            await tree.write("c/file", b"", if_absent=True)
        assert [entry.path async for entry in tree.entries("")] == ["a", "c", "d", "to b"]
        with pytest.raises(Crash):
            await tree.rename("d", "to d")
        with pytest.raises(Crash):
            await tree.look("to d")

    asyncio.run(whole())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c", "to b", "to d"]
    assert [request.operation for request in traffic.log[6:]] == ["entries", "entries", "rename"]
    assert all(request.changes for request in traffic.log if request.operation in {"rename", "write"})


def test_every_request_of_the_ports_reads_or_is_known_to_change_something() -> None:
    reads = {"checksums", "get", "get_range", "head", "list", "list_directories", "list_uploads"}
    reads |= {"look", "entries", "read", "is_atomic"}
    requests = {
        name
        for port in (Store, Tree)
        for name, member in inspect.getmembers(port, inspect.isfunction)
        if not name.startswith("_")
    }
    assert {name for name in requests if not Request(1, "one", name, "").changes} == reads
