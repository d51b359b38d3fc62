"""The chain of manifests: joining it at once, and what a reader of it sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magicfs.errors import FormatError, Unavailable, UsageError
from magicfs.formats.manifest import Hides, Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain as manifests
from magicfs.manifests.chain import chain, manifest_key, pointer_key, publish, read, read_pointer, view
from magicfs.stores.conditions import Conditions
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Body, ObjectInfo
from magicfs.stores.register import Register
from tests.sample import examples

pytestmark = pytest.mark.sample(most=3)

BUCKET = "b"
DEST = "día 50%/sales"
MATCH = Conditions()
NUMBERED = Conditions(put_if_match=False, delete=False, bulk_delete=False)
PLAIN = Conditions(put_if_absent=False, put_if_match=False, delete=False, bulk_delete=False)
SAFE = [pytest.param(MATCH, id="if-match"), pytest.param(NUMBERED, id="numbered")]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def make_store() -> MemoryStore:
    return MemoryStore(BUCKET, World(create_buckets=True))


def manifest(job: str, *keys: str, **changes: Any) -> Manifest:
    return Manifest(
        job_id=job,
        bucket=BUCKET,
        destination=DEST,
        mode="append",
        committed_ms=1,
        files=tuple(ManifestFile(key=key, size=1, etag=f'"{job}"') for key in keys or (f"{job}.parquet",)),
        **changes,
    )


async def jobs(store: MemoryStore, conditions: Conditions = MATCH) -> list[str]:
    return [one.job_id async for one in chain(store, DEST, conditions)]


async def seen(store: MemoryStore, conditions: Conditions = MATCH) -> set[str]:
    found = await view(store, DEST, conditions)
    return set() if found is None else set(found.files)


class TestPublishing:
    @pytest.mark.parametrize("conditions", [*SAFE, pytest.param(PLAIN, id="plain")])
    def test_one_after_the_other(self, conditions: Conditions):
        async def whole() -> None:
            store = make_store()
            assert await jobs(store, conditions) == []
            for job in "abc":
                moved = await publish(store, conditions, DEST, manifest(job, run_id=f"run {job}"))
                assert moved == (await read_pointer(store, DEST, conditions))[0]
                assert moved.job_id == job
            assert await jobs(store, conditions) == ["c", "b", "a"]
            pointer, _ = await read_pointer(store, DEST, conditions)
            assert pointer.job_id == "c"
            assert pointer.runs == (("run a", "a"), ("run b", "b"), ("run c", "c"))
            assert pointer.job_of_run("run b") == "b"
            assert pointer.job_of_run("run d") is None

        run(whole())

    @pytest.mark.parametrize("conditions", SAFE)
    def test_a_second_call_changes_nothing_wherever_the_job_stands_in_the_chain(self, conditions):
        async def whole() -> None:
            store = make_store()
            for job in "abc":
                await publish(store, conditions, DEST, manifest(job))
            before = {info.key: info.etag async for info in store.list("")}
            for job in "abc":
                assert (await publish(store, conditions, DEST, manifest(job))).job_id == "c"
            assert {info.key: info.etag async for info in store.list("")} == before

        run(whole())

    @pytest.mark.parametrize("conditions", SAFE)
    def test_cut_after_the_manifest_others_published_and_then_finished(self, conditions):
        async def whole() -> None:
            store = make_store()
            await publish(store, conditions, DEST, manifest("a"))
            late = replace(manifest("late"), previous="a")
            await store.put(manifest_key(DEST, "late"), late.to_bytes())
            await publish(store, conditions, DEST, manifest("b"))
            await publish(store, conditions, DEST, manifest("c"))
            assert (await publish(store, conditions, DEST, manifest("late"))).job_id == "late"
            assert await jobs(store, conditions) == ["late", "c", "b", "a"]

        run(whole())

    def test_a_store_that_learns_if_match_continues_its_numbered_chain(self):
        async def whole() -> None:
            store = make_store()
            for job in "ab":
                await publish(store, NUMBERED, DEST, manifest(job))
            late = replace(manifest("late"), previous="a")
            await Register(store, manifest_key(DEST, "late"), NUMBERED).create(late.to_bytes())
            await publish(store, NUMBERED, DEST, manifest("late"))
            for job in "cd":
                await publish(store, MATCH, DEST, manifest(job))
            assert (await publish(store, MATCH, DEST, manifest("late"))).job_id == "d"
            await publish(store, NUMBERED, DEST, manifest("e"))
            for conditions in (MATCH, NUMBERED):
                assert await jobs(store, conditions) == ["e", "d", "c", "late", "b", "a"]

        run(whole())

    def test_what_others_wrote_into_pointer_and_manifest_is_kept(self):
        async def whole() -> None:
            store = make_store()
            await publish(store, MATCH, DEST, manifest("a"))
            pointer, _ = await read_pointer(store, DEST, MATCH)
            await store.put(pointer_key(DEST), replace(pointer, unknown={"note": 1}).to_bytes())
            found = replace(manifest("b"), previous=None, unknown={"seal": "x"})
            await store.put(manifest_key(DEST, "b"), found.to_bytes())
            await publish(store, MATCH, DEST, manifest("b"))
            assert (await read_pointer(store, DEST, MATCH))[0].unknown == {"note": 1}
            assert (await read(store, DEST, "b", MATCH)).unknown == {"seal": "x"}
            assert await jobs(store) == ["b", "a"]

        run(whole())

    def test_the_first_publication_makes_few_requests(self):
        async def whole() -> None:
            gate = Gate(0)
            await publish(gate, MATCH, DEST, manifest("a"))
            assert gate.requests == ["head", "put", "put"]
            gate.requests.clear()
            await publish(gate, MATCH, DEST, manifest("b"))
            assert gate.requests == ["head", "get", "put", "put"]

        run(whole())

    def test_a_pointer_that_always_moves_ends_in_an_error_that_says_to_call_again(self):
        class Restless(MemoryStore):
            async def get(self, key: str, *, size_max: int | None = None) -> bytes:
                body = await super().get(key, size_max=size_max)
                if key == pointer_key(DEST):
                    moved = replace(Pointer.from_bytes(key, body), nonce=f"n{len(self.moves)}")
                    self.moves.append(await self.put(key, moved.to_bytes()))
                return body

            moves: list[ObjectInfo]

        async def whole() -> None:
            store = make_store()
            await publish(store, MATCH, DEST, manifest("a"))
            restless = Restless(BUCKET, store.world)
            restless.moves = []
            with pytest.raises(Unavailable, match="others changed it"):
                await publish(restless, MATCH, DEST, manifest("b"))
            assert (await publish(store, MATCH, DEST, manifest("b"))).job_id == "b"
            assert await jobs(store) == ["b", "a"]

        run(whole())

    @pytest.mark.parametrize("job", ["current", "current.00001", "current.x", "daily.00001", "a/b", "", ".."])
    def test_ids_that_could_be_taken_for_other_files_are_refused(self, job: str):
        with pytest.raises(UsageError, match="id"):
            run(publish(make_store(), MATCH, DEST, manifest(job)))

    @pytest.mark.parametrize("job", ["daily", "daily.1", "2026.01.31", "x.0000a", "current-1"])
    def test_other_ids_have_a_key(self, job: str):
        assert manifest_key("", job) == f"_magicfs/{job}.json"


class Cut(MemoryStore):
    """Does not answer one request, which takes place or not; those after it work."""

    def __init__(self, world: World, cut: int, applied: bool) -> None:
        super().__init__(BUCKET, world)
        self.left = cut
        self.applied = applied

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        lost = self._is_cut("put", self.applied)
        info = await super().put(key, body, **options)
        if lost:
            raise Unavailable("put", key, "silent")
        return info

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        self._is_cut("get", False)
        return await super().get(key, size_max=size_max)

    async def head(self, key: str) -> ObjectInfo:
        self._is_cut("head", False)
        return await super().head(key)

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        self._is_cut("list", False)
        async for info in super().list(prefix, limit=limit):
            yield info

    def _is_cut(self, operation: str, applied: bool) -> bool:
        self.left -= 1
        if self.left == -1 and not applied:
            raise Unavailable(operation, "key", "silent")
        return self.left == -1


class TestCut:
    @pytest.mark.parametrize("conditions", SAFE)
    @pytest.mark.parametrize("applied", [False, True])
    @pytest.mark.parametrize("there", [(), ("z",)])
    @pytest.mark.parametrize("between", [(), ("b",)])
    def test_at_every_request_and_called_again(self, conditions, applied: bool, there, between):
        async def whole(cut: int) -> bool:
            store = make_store()
            for job in there:
                await publish(store, conditions, DEST, manifest(job))
            cutting = Cut(store.world, cut, applied)
            answered = True
            try:
                await publish(cutting, conditions, DEST, manifest("a"))
            except Unavailable:
                answered = False
            for job in between:
                await publish(store, conditions, DEST, manifest(job))
            await publish(store, conditions, DEST, manifest("a"))
            assert sorted(await jobs(store, conditions)) == sorted({"a", *there, *between})
            return answered and cutting.left >= 0

        cut = 0
        while not run(whole(cut)):
            cut += 1
        assert cut >= 3, "each request was cut"


class Gate(MemoryStore):
    """Lets one request through at a time, as ``interleave`` decides; notes all of them."""

    def __init__(self, executors: int) -> None:
        super().__init__(BUCKET, World(create_buckets=True))
        self.executors = executors
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self.requests: list[str] = []

    async def _pass(self, operation: str) -> None:
        self.requests.append(operation)
        if not self.executors:
            return
        task = asyncio.current_task()
        assert task is not None
        future = asyncio.get_running_loop().create_future()
        self.waiting[task.get_name()] = future
        await future

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        await self._pass("put")
        return await super().put(key, body, **options)

    async def head(self, key: str) -> ObjectInfo:
        await self._pass("head")
        return await super().head(key)

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        await self._pass("get")
        return await super().get(key, size_max=size_max)

    async def delete(self, keys: Any) -> None:
        await self._pass("delete")
        await super().delete(keys)

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        await self._pass("list")
        async for info in super().list(prefix, limit=limit):
            yield info


async def interleave(gate: Gate, works: list[Coroutine[Any, Any, Any]], order: Iterator[int]) -> list[int]:
    """Run executors request by request; returns how many had a choice at each step. Nobody starves."""
    tasks = [asyncio.create_task(work, name=f"{place}") for place, work in enumerate(works)]
    widths = []
    while True:
        while len(gate.waiting) < sum(not task.done() for task in tasks):  # noqa: ASYNC110
            await asyncio.sleep(0)
        if not gate.waiting:
            break
        names = sorted(gate.waiting)
        chosen = next(order, 0) % len(names)
        widths.append(len(names))
        gate.waiting.pop(names[chosen]).set_result(None)
        await asyncio.sleep(0)
    for task in tasks:
        task.result()
    return widths


CASES = {
    "two jobs": ["a", "b"],
    "one job twice": ["a", "a"],
    "one job twice, and another": ["a", "a", "b"],
    "two jobs twice": ["a", "a", "b", "b"],
    "three jobs": ["a", "b", "c"],
    "one job twice, and two others": ["a", "a", "b", "c"],
}


async def publish_in_order(
    conditions: Conditions, executors: list[str], there: tuple[str, ...], order: Iterator[int]
) -> list[int]:
    """Publish at once, in this order of requests, and check what came of it."""
    gate = Gate(0)
    for job in there:
        await publish(gate, conditions, DEST, manifest(job))
    gate.executors = len(executors)
    # Executors of one job do not agree on what they saw: one read ETags back, the other did not.
    works = [
        publish(gate, conditions, DEST, replace(manifest(job), run_id=f"run {job}", committed_ms=place))
        for place, job in enumerate(executors)
    ]
    widths = await interleave(gate, works, order)
    plain = MemoryStore(BUCKET, gate.world)
    linked = await jobs(plain, conditions)
    assert sorted(linked) == sorted({*executors, *there}), "each job once, no link lost"
    assert linked[len(linked) - len(there) :] == list(reversed(there)), "what was linked stays as it was"
    pointer, _ = await read_pointer(plain, DEST, conditions)
    assert {job for _, job in pointer.runs} == set(executors)
    assert await seen(plain, conditions) == {f"{job}.parquet" for job in linked}
    return widths


def all_orders(limit: int, play: Any) -> int:
    """Play every order of requests, depth first, up to ``limit``; returns how many there were."""
    order: list[int] = []
    played = 0
    while True:
        widths = play(iter(order))
        played += 1
        order = (order + [0] * len(widths))[: len(widths)]
        while order and order[-1] + 1 >= widths[len(order) - 1]:
            order.pop()
        if not order or played >= limit:
            return played
        order[-1] += 1


class TestAtOnce:
    @pytest.mark.slow
    @pytest.mark.parametrize(("conditions", "there"), [(MATCH, ()), (MATCH, ("z",)), (NUMBERED, ())])
    @pytest.mark.parametrize("case", ["two jobs", "one job twice"])
    def test_all_orders_of_two_executors(self, conditions, case: str, there: tuple[str, ...]):
        loop = asyncio.new_event_loop()
        played = all_orders(
            3000,
            lambda order: loop.run_until_complete(publish_in_order(conditions, CASES[case], there, order)),
        )
        loop.close()
        assert 20 <= played < 3000, "all of them"

    @pytest.mark.slow
    @pytest.mark.parametrize("conditions", SAFE)
    @pytest.mark.parametrize("case", CASES)
    @settings(max_examples=examples(40))
    @given(
        turns=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 8)), max_size=30),
        there=st.sampled_from([(), ("z",), ("y", "z")]),
    )
    def test_any_order_of_many(self, conditions, case: str, turns: list[tuple[int, int]], there):
        order = [who for who, requests in turns for _ in range(requests)]
        run(publish_in_order(conditions, CASES[case], there, iter(order)))


class TestMutants:
    """The same orders find the mistakes that are easily made."""

    def find(self, case: str, there: tuple[str, ...] = ()) -> bool:
        loop = asyncio.new_event_loop()
        try:
            all_orders(
                3000,
                lambda order: loop.run_until_complete(publish_in_order(MATCH, CASES[case], there, order)),
            )
        except (AssertionError, FormatError):
            return True
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
        return False

    def test_the_pointer_written_without_a_condition(self, monkeypatch):
        async def move(head: Any, seen: Any, published: Manifest) -> None:
            pointer = seen[0] if seen else Pointer(job_id="x", nonce="n", changed_ms=1)
            body = pointer.moved(published.job_id, published.run_id, f"n {published.job_id}", 1).to_bytes()
            await head._store.put(head.key, body)

        monkeypatch.setattr(manifests, "_move", move)
        assert self.find("two jobs")

    def test_nobody_looks_whether_the_job_is_linked(self, monkeypatch):
        async def never(*_: Any) -> bool:
            return False

        monkeypatch.setattr(manifests, "_is_linked", never)
        assert self.find("one job twice, and another")


class TestBrokenChains:
    def broken(self, *written: Manifest, head: str = "a") -> FormatError:
        async def whole() -> None:
            store = make_store()
            for one in written:
                await store.put(manifest_key(DEST, one.job_id), one.to_bytes())
            pointer = Pointer(job_id=head, nonce="n", changed_ms=1)
            await store.put(pointer_key(DEST), pointer.to_bytes())
            await jobs(store)

        with pytest.raises(FormatError) as caught:
            run(whole())
        return caught.value

    def test_a_circle(self):
        written = [manifest(job, previous=before) for job, before in ("ab", "bc", "ca")]
        error = self.broken(*written)
        assert error.field == "previous"
        assert error.path == f"{BUCKET}/{manifest_key(DEST, 'c')}"

    def test_a_missing_manifest(self):
        error = self.broken(manifest("a", previous="b"))
        assert error.path == f"{BUCKET}/{manifest_key(DEST, 'b')}"
        assert "missing" in str(error)

    def test_another_jobs_manifest(self):
        async def whole() -> None:
            store = make_store()
            await store.put(manifest_key(DEST, "a"), manifest("b").to_bytes())
            await read(store, DEST, "a", MATCH)

        with pytest.raises(FormatError, match="belongs to job b, not a"):
            run(whole())

    def test_a_pointer_that_cannot_be_believed_stops_publishing(self):
        async def whole() -> None:
            store = make_store()
            await store.put(pointer_key(DEST), b'{"format":"magicfs.pointer/4"}')
            await publish(store, MATCH, DEST, manifest("a"))

        with pytest.raises(FormatError, match="use a newer magicfs"):
            run(whole())


def linked(*published: Manifest) -> tuple[set[str], bool]:
    async def whole() -> tuple[set[str], bool]:
        store = make_store()
        for one in published:
            await publish(store, MATCH, DEST, one)
        found = await view(store, DEST, MATCH)
        return set(found.files), found.older_files

    return run(whole())


def replacing(job: str, replaced: str | None, *keys: str, **changes: Any) -> Manifest:
    hides: Hides = "all"
    return replace(manifest(job, *keys), mode="overwrite", hides=hides, replaced=replaced, **changes)


class TestView:
    def test_nothing_was_published(self):
        assert run(view(make_store(), DEST, MATCH)) is None

    def test_appended_files_add_up(self):
        assert linked(manifest("a"), manifest("b"))[0] == {"a.parquet", "b.parquet"}

    def test_a_full_replace_hides_what_it_saw_and_all_before(self):
        assert linked(manifest("a"), manifest("b"), replacing("c", "b"))[0] == {"c.parquet"}

    def test_jobs_that_came_between_look_and_link_stay(self):
        published = [manifest("a"), manifest("b"), manifest("late"), replacing("c", "b"), manifest("d")]
        assert linked(*published)[0] == {"d.parquet", "c.parquet", "late.parquet"}

    def test_a_replace_that_saw_nothing_hides_no_job(self):
        assert linked(manifest("late"), replacing("c", None))[0] == {"c.parquet", "late.parquet"}

    def test_two_replaces_of_the_same_state(self):
        published = [manifest("a"), replacing("b", "a"), manifest("x"), replacing("c", "a")]
        assert linked(*published)[0] == {"c.parquet", "x.parquet", "b.parquet"}

    def test_a_replace_without_files_leaves_nothing(self):
        assert linked(manifest("a"), replace(replacing("c", "a"), files=()))[0] == set()

    def test_replaced_partitions_hide_keys_from_older_manifests_only(self):
        keys: Hides = "keys"
        replaced = replace(
            manifest("c", "p=1/c"), mode="overwrite_partitions", hides=keys, deleted=("p=1/a", "p=1/b")
        )
        published = [
            manifest("a", "p=1/a", "p=2/a"),
            manifest("b", "p=1/b"),
            replaced,
            manifest("d", "p=1/b"),
        ]
        assert linked(*published)[0] == {"p=1/c", "p=2/a", "p=1/b"}
        assert linked(*published[:3])[0] == {"p=1/c", "p=2/a"}

    def test_of_equal_keys_the_newer_counts(self):
        async def whole() -> None:
            store = make_store()
            await publish(store, MATCH, DEST, manifest("a", "same"))
            await publish(store, MATCH, DEST, manifest("b", "same"))
            assert (await view(store, DEST, MATCH)).files["same"].etag == '"b"'

        run(whole())

    def test_files_older_than_the_chain(self):
        begun = manifest("a", older_files=True)
        assert linked(begun, manifest("b"))[1]
        assert not linked(manifest("a"), manifest("b"))[1]
        assert not linked(begun, replacing("b", None))[1]
        assert not linked(begun, manifest("x"), replacing("b", "a"))[1]
        assert not linked(begun, replace(manifest("b"), mode="adopt"), manifest("c"))[1]
