"""A register moved by compare-and-swap, in each of the three ways that stores allow."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import ObjectExists, ObjectNotFound, PermissionDenied, PreconditionFailed, Unavailable
from magicfs.stores.conditions import Conditions
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Body, Capabilities, ObjectInfo, PutMode, Update
from magicfs.stores.register import KEPT, Entry, Register

pytestmark = pytest.mark.sample(most=3)

BUCKET = "b"
KEY = "día 50%/_magicfs/current.json"
MATCH = Conditions()
NUMBERED = Conditions(put_if_match=False, delete=False, bulk_delete=False)
PLAIN = Conditions(put_if_absent=False, put_if_match=False, delete=False, bulk_delete=False)
SAFE = [pytest.param(MATCH, id="if-match"), pytest.param(NUMBERED, id="numbered")]
ALL = [*SAFE, pytest.param(PLAIN, id="plain")]


class Ignoring(MemoryStore):
    """Ignores every condition that it is said to ignore, silently, as such stores do."""

    def __init__(self, conditions: Conditions) -> None:
        super().__init__(BUCKET, World(create_buckets=True))
        self.conditions = conditions

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        match options.get("mode"):
            case PutMode.CREATE:
                options["mode"] = self.conditions.create
            case Update(etag):
                options["mode"] = self.conditions.update(etag)
        return await super().put(key, body, **options)

    async def delete_matching(self, key: str, etag: str) -> None:
        if self.conditions.delete:
            await super().delete_matching(key, etag)
        else:
            await self.delete([key])

    async def keys(self) -> list[str]:
        return [info.key async for info in self.list("")]


class LosesReplies(Ignoring):
    """Carries the next writes out, or does not, and then does not answer."""

    lost: int = 0
    applied: bool = True

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        if self.lost:
            self.lost -= 1
            if self.applied:
                await super().put(key, body, **options)
            raise Unavailable("put", key, "silent")
        return await super().put(key, body, **options)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


async def body_of(store: MemoryStore, conditions: Conditions) -> bytes | None:
    entry = await Register(store, KEY, conditions).read()
    return None if entry is None else entry.body


@pytest.mark.parametrize("conditions", ALL)
def test_from_nothing_to_nothing(conditions: Conditions) -> None:
    async def whole() -> None:
        store = Ignoring(conditions)
        register = Register(store, KEY, conditions)
        assert await register.read() is None
        first = await register.create(b"1")
        assert await register.read() == first
        second = await register.swap(first, b"2")
        third = await register.swap(second, b"3")
        assert await register.read() == third
        assert third.body == b"3"
        await register.remove(third)
        assert await register.read() is None
        assert await store.keys() == []
        await register.remove(third)

    run(whole())


@pytest.mark.parametrize("conditions", ALL)
def test_who_comes_late_is_refused_and_changes_nothing(conditions: Conditions) -> None:
    async def whole() -> None:
        register = Register(Ignoring(conditions), KEY, conditions)
        with pytest.raises(ObjectExists):
            await Register(register._store, KEY, conditions).create((await register.create(b"1")).body + b"x")
        first = await register.read()
        assert first is not None
        second = await register.swap(first, b"2")
        with pytest.raises(PreconditionFailed):
            await register.swap(first, b"other")
        with pytest.raises(PreconditionFailed):
            await register.remove(first)
        assert await register.read() == second

    run(whole())


@pytest.mark.parametrize("conditions", ALL)
def test_what_is_gone_cannot_be_moved(conditions: Conditions) -> None:
    async def whole() -> None:
        store = Ignoring(conditions)
        register = Register(store, KEY, conditions)
        entry = await register.swap(await register.create(b"1"), b"2")
        await register.remove(entry)
        with pytest.raises(PreconditionFailed):
            await register.swap(entry, b"3")
        assert await store.keys() == []
        assert await register.read() is None
        assert (await register.create(b"again")).body == await body_of(store, conditions)

    run(whole())


@pytest.mark.parametrize("conditions", SAFE)
@pytest.mark.parametrize("applied", [True, False])
def test_an_unanswered_write_is_read_back(conditions: Conditions, applied: bool) -> None:
    async def whole() -> None:
        store = LosesReplies(conditions)
        register = Register(store, KEY, conditions)
        store.applied = applied
        for body in (b"1", b"2", b"3"):
            there = await register.read()
            write = register.create(body) if there is None else register.swap(there, body)
            store.lost = 1
            if applied:
                assert (await write).body == body
            else:
                with pytest.raises(Unavailable):
                    await write
                await (register.create(body) if there is None else register.swap(there, body))
            found = await register.read()
            assert found is not None
            assert found.body == body

    run(whole())


@pytest.mark.parametrize("conditions", SAFE)
def test_a_write_that_meets_itself_is_ours(conditions: Conditions) -> None:
    """A client that sends an unanswered request again is refused because of its own object."""

    async def whole() -> None:
        register = Register(Ignoring(conditions), KEY, conditions)
        first = await register.create(b"1")
        assert await register.create(b"1") == first
        second = await register.swap(first, b"2")
        assert await register.swap(first, b"2") == second

    run(whole())


def test_unanswered_and_refused_because_of_another_is_refused() -> None:
    async def whole() -> None:
        store = LosesReplies(NUMBERED)
        register = Register(store, KEY, NUMBERED)
        first = await register.create(b"1")
        await register.swap(first, b"another's")
        store.lost, store.applied = 1, False
        with pytest.raises(Unavailable):
            await register.swap(first, b"2")
        assert await body_of(store, NUMBERED) == b"another's"

    run(whole())


@pytest.mark.parametrize("conditions", SAFE)
def test_a_read_back_that_is_denied_says_so(conditions: Conditions) -> None:
    class Denied(LosesReplies):
        async def head(self, key: str) -> ObjectInfo:
            raise PermissionDenied("head", key, "no")

    store = Denied(conditions)
    store.lost = 1
    with pytest.raises(PermissionDenied):
        run(Register(store, KEY, conditions).create(b"1"))


def test_numbered_versions_without_metadata_go_on_for_who_judges_the_store_otherwise() -> None:
    """On local files nothing but the number tells; a plain write would be read by nobody, for ever."""
    store = MemoryStore(BUCKET, World(create_buckets=True, capabilities=Capabilities(metadata=False)))

    async def play() -> list[str]:
        entry = await Register(store, KEY, NUMBERED).create(b"1")
        entry = await Register(store, KEY, NUMBERED).swap(entry, b"2")
        misjudging = Register(store, KEY, PLAIN)
        found = await misjudging.read()
        assert found is not None
        assert found.body == b"2"
        await misjudging.swap(found, b"3")
        assert await body_of(store, NUMBERED) == b"3"
        return [info.key async for info in store.list("")]

    assert len(run(play())) == 3
    assert run(store.get(KEY)) == b"1"


def test_leftovers_without_the_first_version_are_no_entry() -> None:
    async def whole() -> None:
        store = Ignoring(NUMBERED)
        await store.put(KEY.replace(".json", ".00007.json"), b"left")
        register = Register(store, KEY, NUMBERED)
        assert await register.read() is None
        first = await register.create(b"1")
        assert await register.read() == first
        assert await store.keys() == [KEY]

    run(whole())


def test_late_copies_of_the_first_write_and_of_a_later_one_bring_no_later_version_back() -> None:
    async def whole() -> None:
        store = Ignoring(NUMBERED)
        register = Register(store, KEY, NUMBERED)
        entry = first = await register.create(b"0")
        written = await store.head(KEY)
        for body in (b"1", b"2", b"3"):
            entry = await register.swap(entry, body)
        await register.remove(entry)
        await store.put(KEY, b"0", metadata=written.metadata, mode=PutMode.CREATE)
        await store.put(entry.key, b"3", mode=PutMode.CREATE)
        found = await register.read()
        assert found is not None
        assert (found.body, found.number) == (first.body, 0)
        await register.remove(found)
        assert await store.keys() == []

    run(whole())


def test_neighbours_by_name_are_no_versions() -> None:
    async def whole() -> None:
        store = Ignoring(NUMBERED)
        stem = KEY.removesuffix(".json")
        names = [
            f"{stem}.1.json",
            f"{stem}.x.json",
            f"{stem}.00009.json.tmp",
            f"{stem}.00009",
            f"{stem}2.json",
        ]
        for name in names:
            await store.put(name, b"another's")
        register = Register(store, KEY, NUMBERED)
        assert await register.read() is None
        await register.remove(await register.swap(await register.create(b"1"), b"2"))
        assert sorted(await store.keys()) == sorted(names)

    run(whole())


def test_numbered_versions_do_not_pile_up() -> None:
    async def whole() -> None:
        store = Ignoring(NUMBERED)
        register = Register(store, KEY, NUMBERED, lasting=True)
        entry = stale = await register.create(b"0")
        for number in range(1, KEPT + 30):
            entry = await register.swap(entry, str(number).encode())
            stale = entry if number == 3 else stale
        assert len(await store.keys()) == KEPT + 1
        assert entry == await register.read()
        # The key that it would take next is free again by now.
        with pytest.raises(PreconditionFailed):
            await register.swap(stale, b"late")
        assert len(await store.keys()) == KEPT + 1
        assert entry == await register.read()

    run(whole())


def test_a_reader_that_expects_numbers_reads_a_single_key() -> None:
    async def whole() -> None:
        store = Ignoring(MATCH)
        register = Register(store, KEY, MATCH)
        entry = await register.swap(await register.create(b"1"), b"2")
        assert await Register(store, KEY, NUMBERED).read() == entry

    run(whole())


def test_who_created_a_register_decides_how_all_others_move_it() -> None:
    async def whole() -> None:
        for creator, other in ((MATCH, NUMBERED), (NUMBERED, MATCH)):
            store = Ignoring(MATCH)
            entry = await Register(store, KEY, creator).create(b"1")
            stale = await Register(store, KEY, other).read()
            assert stale == entry
            await Register(store, KEY, creator).swap(entry, b"2")
            with pytest.raises(PreconditionFailed):
                await Register(store, KEY, other).swap(stale, b"3")
            there = await Register(store, KEY, other).read()
            assert there is not None
            assert there.body == b"2"
            await Register(store, KEY, other).remove(there)

    run(whole())


@pytest.mark.parametrize("conditions", SAFE)
def test_first_version_on_a_store_that_is_not_tried_is_moved_by_one_of_two(conditions: Conditions) -> None:
    async def whole() -> None:
        store = Ignoring(conditions)
        created = await Register(store, KEY, Conditions()).create(b"1", tried=False)
        seen = await Register(store, KEY, conditions).read()
        assert seen == created
        assert (created.numbered, created.undecided) == (True, True)
        moved = await Register(store, KEY, conditions).swap(created, b"2")
        with pytest.raises(PreconditionFailed):
            await Register(store, KEY, conditions).swap(seen, b"3")
        assert await Register(store, KEY, conditions).read() == moved
        assert (moved.numbered, moved.undecided) == (not conditions.put_if_match, False)
        await Register(store, KEY, conditions).remove(moved)
        assert await store.keys() == []

    run(whole())


class Stepping(Ignoring):
    """Each request waits for its turn."""

    def __init__(self, turns: list[asyncio.Event]) -> None:
        super().__init__(MATCH)
        self.turns = turns

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        await self._turn()
        return await super().put(key, body, **options)

    async def head(self, key: str) -> ObjectInfo:
        await self._turn()
        return await super().head(key)

    async def _turn(self) -> None:
        turn = asyncio.Event()
        self.turns.append(turn)
        await turn.wait()


@pytest.mark.parametrize("order", sorted(set(itertools.permutations("ppnn"))))
def test_of_two_who_saw_the_store_differently_at_most_one_moves_the_first_version(
    order: tuple[str, ...],
) -> None:
    """Each writes and then looks; a trial that met faults may have come to another verdict."""

    async def whole() -> None:
        store = Ignoring(MATCH)
        created = await Register(store, KEY, MATCH).create(b"1", tried=False)
        turns: dict[str, list[asyncio.Event]] = {"p": [], "n": []}
        tasks = {}
        for who, conditions in (("p", MATCH), ("n", NUMBERED)):
            mine = Stepping(turns[who])
            mine.world = store.world
            tasks[who] = asyncio.ensure_future(Register(mine, KEY, conditions).swap(created, who.encode()))
        for who in order:
            await asyncio.sleep(0.001)
            turns[who].pop().set()
        done = await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert len([one for one in done if isinstance(one, Entry)]) <= 1
        assert all(isinstance(one, Entry | PreconditionFailed) for one in done)
        # Who was given the move by both looks goes on; nobody goes on from what is not the newest.
        for one in done:
            if isinstance(one, Entry) and await Register(store, KEY, MATCH).read() != one:
                with pytest.raises(PreconditionFailed):
                    await Register(store, KEY, NUMBERED if one.numbered else MATCH).swap(one, b"4")

    run(whole())


@pytest.mark.parametrize("conditions", ALL)
def test_what_is_there_is_not_written_over_while_the_store_is_not_tried(conditions: Conditions) -> None:
    async def whole() -> None:
        store = Ignoring(conditions)
        there = await Register(store, KEY, conditions).create(b"1")
        with pytest.raises(ObjectExists):
            await Register(store, KEY, Conditions()).create(b"2", tried=False)
        assert await Register(store, KEY, conditions).read() == there

    run(whole())


@pytest.mark.parametrize("conditions", SAFE)
@pytest.mark.parametrize("tried", [True, False])
def test_late_copy_of_the_first_write_gives_nobody_a_register_back(
    conditions: Conditions, tried: bool
) -> None:
    async def whole() -> None:
        store = Ignoring(conditions)
        register = Register(store, KEY, conditions)
        first = await register.create(b"1", tried=tried)
        written = await store.head(KEY)
        moved = await register.swap(first, b"2")
        await register.remove(moved)
        await store.put(KEY, b"1", metadata=written.metadata, mode=PutMode.CREATE)
        with pytest.raises(PreconditionFailed):
            await register.swap(moved, b"3")
        assert await store.keys() == [KEY]
        assert await body_of(store, conditions) == b"1"

    run(whole())


def test_a_version_that_is_listed_and_not_there() -> None:
    class Stale(Ignoring):
        async def get(self, key: str, *, size_max: int | None = None) -> bytes:
            raise ObjectNotFound("get", key, "no such object")

    async def whole() -> None:
        store = Stale(NUMBERED)
        register = Register(store, KEY, NUMBERED)
        entry = await register.create(b"1")
        assert await register.read() is None, "looked at, and removed before it was read"
        await register.swap(entry, b"2")
        with pytest.raises(ObjectNotFound):
            await register.read()

    run(whole())


class MovesBetween(Ignoring):
    """Whose register is moved between the two requests of a read, or removed, or stands still."""

    def __init__(self, conditions: Conditions, first: str, then: str) -> None:
        super().__init__(conditions)
        self.first, self.then = first, then
        self.asked: list[str] = []
        self.passed = asyncio.Event()

    async def head(self, key: str) -> ObjectInfo:
        return await self._in_turn("head", super().head(key))

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        return await self._in_turn("get", super().get(key, size_max=size_max))

    async def _in_turn(self, operation: str, request: Coroutine[Any, Any, Any]) -> Any:
        self.asked.append(operation)
        if len(self.asked) > 2:
            return await request
        if operation != self.first:
            await self.passed.wait()
        try:
            return await request
        finally:
            if operation == self.first:
                store = MemoryStore(BUCKET, self.world)
                match self.then:
                    case "moved":
                        await Register(store, KEY, MATCH).swap(await current(store), b"moved")
                    case "removed":
                        await store.delete([KEY])
                self.passed.set()


async def current(store: MemoryStore) -> Entry:
    entry = await Register(store, KEY, MATCH).read()
    assert entry is not None
    return entry


@pytest.mark.parametrize("first", ["head", "get"])
@pytest.mark.parametrize("then", ["", "moved", "removed"])
def test_a_read_whose_requests_are_made_at_once_meets_one_version(first: str, then: str) -> None:
    async def whole() -> None:
        store = MovesBetween(MATCH, first, then)
        plain = MemoryStore(BUCKET, store.world)
        await Register(plain, KEY, MATCH).create(b"1")
        entry = await Register(store, KEY, MATCH).read(expected=True)
        if then == "removed":
            assert entry is None
            return
        assert entry is not None
        assert (entry.body, entry.etag) == (b"moved" if then else b"1", (await plain.head(KEY)).etag)
        if not then:
            assert sorted(store.asked) == ["get", "head"]

    run(whole())


def test_a_read_of_what_is_not_there_ends_with_the_first_look() -> None:
    async def whole() -> None:
        store = Ignoring(MATCH)
        assert await Register(store, KEY, MATCH).read(expected=True) is None

    run(whole())


class Gate(Ignoring):
    """Lets one request through at a time, in the order in which the tasks are named by ``order``."""

    def __init__(self, conditions: Conditions) -> None:
        super().__init__(conditions)
        self.waiting: dict[str, asyncio.Future[None]] = {}

    async def _pass(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        future = asyncio.get_running_loop().create_future()
        self.waiting[task.get_name()] = future
        await future

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        await self._pass()
        return await super().put(key, body, **options)

    async def head(self, key: str) -> ObjectInfo:
        await self._pass()
        return await super().head(key)

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        await self._pass()
        return await super().get(key, size_max=size_max)

    async def delete(self, keys: Any) -> None:
        await self._pass()
        await super().delete(keys)

    async def list(self, prefix: str, *, limit: int | None = None) -> Any:
        if asyncio.current_task().get_name() != "test":  # type: ignore[union-attr]
            await self._pass()
        async for info in super().list(prefix, limit=limit):
            yield info


async def interleave(gate: Gate, works: dict[str, Coroutine[Any, Any, Any]], order: list[int]) -> list[Any]:
    tasks = [asyncio.create_task(work, name=name) for name, work in works.items()]
    choices = iter(order)
    while not all(task.done() for task in tasks):
        while len(gate.waiting) < sum(not task.done() for task in tasks):  # noqa: ASYNC110
            await asyncio.sleep(0)
        if gate.waiting:
            names = sorted(gate.waiting)
            gate.waiting.pop(names[next(choices, 0) % len(names)]).set_result(None)
            await asyncio.sleep(0)
    return [task.exception() or task.result() for task in tasks]


@pytest.mark.slow
@pytest.mark.parametrize("conditions", SAFE)
@given(order=st.lists(st.integers(0, 2), max_size=40), numbers=st.integers(0, 2))
def test_of_many_movers_one_wins_each_step(conditions: Conditions, order: list[int], numbers: int) -> None:
    async def whole() -> None:
        store = Gate(conditions)
        plain = Register(MemoryStore(BUCKET, store.world), KEY, conditions)
        entry = await plain.create(b"0")
        for number in range(numbers):
            entry = await plain.swap(entry, f"before {number}".encode())
        movers = {name: Register(store, KEY, conditions).swap(entry, name.encode()) for name in "abc"}
        results = await interleave(store, movers, order)
        [winner] = [result for result in results if isinstance(result, Entry)]
        assert await plain.read() == winner
        assert all(isinstance(result, Entry | PreconditionFailed) for result in results)

    run(whole())


@pytest.mark.slow
@pytest.mark.parametrize("conditions", SAFE)
@given(order=st.lists(st.integers(0, 1), max_size=30))
def test_moving_against_removing(conditions: Conditions, order: list[int]) -> None:
    async def whole() -> None:
        store = Gate(conditions)
        plain = Register(MemoryStore(BUCKET, store.world), KEY, conditions)
        entry = await plain.swap(await plain.create(b"0"), b"1")
        register = Register(store, KEY, conditions)
        works = {"m": register.swap(entry, b"2"), "r": register.remove(entry)}
        moved, removed = await interleave(store, works, order)
        found = await plain.read()
        if isinstance(removed, PreconditionFailed):
            assert found == moved
        else:
            assert removed is None
            assert found is None, "whoever removed it has removed it"

    run(whole())


class MadeAnew(Ignoring):
    """Another process makes the register anew before the first of its old versions is looked at again."""

    waits = False

    async def head(self, key: str) -> ObjectInfo:
        if self.waits and key != KEY:
            self.waits = False
            await self.delete(await self.keys())
            one = await Register(self, KEY, NUMBERED).create(b"new 0")
            await Register(self, KEY, NUMBERED).swap(one, b"new 1")
        return await super().head(key)


def test_clearing_what_is_left_spares_a_register_that_was_made_anew_meanwhile() -> None:
    async def work() -> None:
        store = MadeAnew(NUMBERED)
        register = Register(store, KEY, NUMBERED)
        one = await register.create(b"0")
        for body in (b"1", b"2", b"3"):
            one = await register.swap(one, body)
        await store.delete([KEY])
        store.waits = True
        await register.clear()
        entry = await register.read()
        assert entry is not None
        assert entry.body == b"new 1"

    run(work())


def test_clearing_deletes_all_that_is_left_and_nothing_of_a_living_register() -> None:
    async def work() -> None:
        store = Ignoring(NUMBERED)
        register = Register(store, KEY, NUMBERED)
        one = await register.create(b"0")
        await register.swap(one, b"1")
        await register.clear()
        assert len(await store.keys()) == 2
        await store.delete([KEY])
        await register.clear()
        assert await store.keys() == []

    run(work())
