"""The engine: bounded, drained and never cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

from magicfs.engine import Engine, Event
from magicfs.errors import PermissionDenied, Unavailable, UploadNotFound
from magicfs.protocol.readback import WRITE_ID, Outcome
from magicfs.protocol.steps import Abort, Batch, Complete, Delete, Step
from magicfs.runtime.parallel import drained, gathered
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import ObjectInfo, Part


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """On a loop of its own, which must have nothing left to do at the end."""

    async def whole() -> Any:
        try:
            return await coroutine
        finally:
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(whole())


class Gate:
    """Work that waits until it is told to end."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.most = 0
        self._doors: dict[int, asyncio.Future[bool]] = {}
        self._changed = asyncio.Event()

    async def work(self, item: int) -> bool:
        self.begun.append(item)
        self.most = max(self.most, len(self.begun) - len(self.ended))
        self._doors[item] = asyncio.get_running_loop().create_future()
        self._changed.set()
        try:
            return await self._doors[item]
        finally:
            self.ended.append(item)

    async def wait_for(self, count: int) -> None:
        while len(self.begun) < count:
            self._changed.clear()
            await self._changed.wait()

    def let(self, item: int, result: bool | Exception = True) -> None:
        door = self._doors[item]
        if isinstance(result, Exception):
            door.set_exception(result)
        else:
            door.set_result(result)


async def turns() -> None:
    """Let everything that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_no_more_than_the_given_number_run_at_once() -> None:
    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(range(7), gate.work, 3))
        for item in range(7):
            await gate.wait_for(min(item + 3, 7))
            await turns()
            assert gate.begun == list(range(min(item + 3, 7)))
            gate.let(item)
        await running
        assert gate.ended == list(range(7))
        assert gate.most == 3

    run(scenario())


def test_place_that_becomes_free_is_taken_without_waiting_for_the_others() -> None:
    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(range(4), gate.work, 2))
        await gate.wait_for(2)
        for item in (1, 2, 3):
            gate.let(item)
            await gate.wait_for(min(item + 2, 4))
        await turns()
        assert gate.ended == [1, 2, 3]
        gate.let(0)
        await running
        assert sorted(gate.ended) == [0, 1, 2, 3]

    run(scenario())


@pytest.mark.parametrize("end", [False, ValueError("no")], ids=["false", "raised"])
def test_after_a_failure_nothing_starts_and_what_is_in_flight_is_waited_for(end: bool | Exception) -> None:
    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(range(100), gate.work, 3))
        await gate.wait_for(3)
        gate.let(1, end)
        await turns()
        assert gate.begun == [0, 1, 2]
        assert not running.done()
        gate.let(0)
        await turns()
        assert not running.done()
        gate.let(2)
        if isinstance(end, Exception):
            with pytest.raises(ValueError, match="no"):
                await running
        else:
            await running
        assert sorted(gate.ended) == [0, 1, 2]

    run(scenario())


def test_first_of_many_errors_is_raised_and_names_the_others() -> None:
    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(range(3), gate.work, 3))
        await gate.wait_for(3)
        for item in (2, 0, 1):
            gate.let(item, ValueError(f"error {item}"))
            await turns()
        with pytest.raises(ValueError, match="error 2") as caught:
            await running
        assert caught.value.__notes__ == ["and: error 0", "and: error 1"]

    run(scenario())


def test_error_of_the_source_is_raised_after_what_is_in_flight() -> None:
    def source() -> Iterator[int]:
        yield 0
        yield 1
        raise LookupError("source")

    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(source(), gate.work, 5))
        await gate.wait_for(2)
        await turns()
        assert not running.done()
        gate.let(0)
        gate.let(1)
        with pytest.raises(LookupError, match="source"):
            await running
        assert gate.ended == [0, 1]

    run(scenario())


def test_asynchronous_source_is_drawn_one_by_one_and_closed_at_a_failure() -> None:
    drawn: list[int] = []
    closed = []

    async def source() -> AsyncIterator[int]:
        try:
            for item in range(100):
                drawn.append(item)
                await asyncio.sleep(0)
                yield item
        finally:
            closed.append(True)

    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(source(), gate.work, 2))
        await gate.wait_for(2)
        await turns()
        assert drawn == [0, 1]
        gate.let(0, False)
        gate.let(1)
        await running
        assert drawn == [0, 1]
        assert closed == [True]

    run(scenario())


def test_source_of_nothing_ends_at_once() -> None:
    run(drained([], Gate().work, 1))


def test_results_come_in_the_order_of_their_items() -> None:
    async def late_first(item: int) -> int:
        for _ in range(10 - item):
            await asyncio.sleep(0)
        return item * item

    async def source() -> AsyncIterator[int]:
        for item in range(10):
            yield item

    assert run(gathered(range(10), late_first, 4)) == [item * item for item in range(10)]
    assert run(gathered(source(), late_first, 4)) == [item * item for item in range(10)]


def test_caller_that_is_cancelled_leaves_nothing_running() -> None:
    async def scenario() -> None:
        gate = Gate()
        running = asyncio.ensure_future(drained(range(9), gate.work, 3))
        await gate.wait_for(3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(gate.ended) == [0, 1, 2]

    run(scenario())


# -- stages --------------------------------------------------------------------------------------------


class Store(MemoryStore):
    """A memory store whose requests can be made to fail, before or after they take place."""

    def __init__(self) -> None:
        world = World()
        world.create_bucket("bucket")
        super().__init__("bucket", world)
        self.before: Callable[[str, str], Exception | None] = lambda operation, key: None
        self.after: Callable[[str, str], Exception | None] = lambda operation, key: None

    async def complete_upload(self, key: str, upload_id: str, parts: Any, **options: Any) -> ObjectInfo:
        await self._maybe(self.before, "complete_upload", key)
        info = await super().complete_upload(key, upload_id, parts, **options)
        await self._maybe(self.after, "complete_upload", key)
        return info

    async def abort_upload(self, key: str, upload_id: str) -> None:
        await self._maybe(self.before, "abort_upload", key)
        await super().abort_upload(key, upload_id)

    async def head(self, key: str) -> ObjectInfo:
        await self._maybe(self.before, "head", key)
        return await super().head(key)

    async def _maybe(self, fault: Callable[[str, str], Exception | None], operation: str, key: str) -> None:
        await asyncio.sleep(0)
        if (error := fault(operation, key)) is not None:
            raise error


async def upload(store: Store, key: str) -> Complete:
    upload_id = await store.create_upload(key, metadata={WRITE_ID: f"id-{key}"})
    part: Part = await store.put_part(key, upload_id, 1, key.encode())
    return Complete(key, upload_id, (part.etag,), len(key), f"id-{key}")


def only(operation: str, keys: str, error: Exception) -> Callable[[str, str], Exception | None]:
    return lambda seen, key: error if seen == operation and key in keys.split() else None


def test_every_kind_of_step_is_carried_out() -> None:
    async def scenario() -> None:
        store = Store()
        complete, abort = await upload(store, "done"), await upload(store, "gone")
        await store.put("old", b"")
        steps: list[Step] = [
            complete,
            Abort(abort.key, abort.upload_id),
            Delete(("old", "missing")),
        ]
        result = await Engine(store, 2).run(Batch("all", steps), keep=True)
        assert result.ok
        etag = (await store.head("done")).etag
        assert (result.done, result.completed) == (3, {complete: etag})
        assert [info.key async for info in store.list("")] == ["done"]
        assert not [info async for info in store.list_uploads("")]

    run(scenario())


def test_completed_steps_are_kept_only_if_asked_for() -> None:
    async def scenario() -> None:
        store = Store()
        result = await Engine(store, 2).run(Batch("complete", [await upload(store, "a")]))
        assert (result.done, result.completed) == (1, {})

    run(scenario())


def test_three_lists_hold_every_step_that_was_drawn_and_the_source_holds_the_rest() -> None:
    async def scenario() -> None:
        store = Store()
        steps = [await upload(store, name) for name in "abcdefghij"]
        source = iter(steps)
        store.before = only("complete_upload", "c", PermissionDenied("complete_upload", "bucket/c", "no"))
        result = await Engine(store, 2).run(Batch("complete", source), keep=True)
        assert not result.ok
        assert [failure.step for failure in result.failures] == [steps[2]]
        assert result.failures[0].outcome is Outcome.FAILED
        rest = list(source)
        lists = [*result.completed, steps[2], *result.not_started, *rest]
        assert sorted(step.key for step in lists if isinstance(step, Complete)) == list("abcdefghij")
        assert len(rest) >= 5
        assert [info.key async for info in store.list("")] == [step.key for step in result.completed]

    run(scenario())


def test_every_step_is_tried_if_failures_do_not_stop_it() -> None:
    async def scenario() -> None:
        store = Store()
        steps = [await upload(store, name) for name in "abcdef"]
        store.before = only("abort_upload", "a c", PermissionDenied("abort_upload", "bucket/x", "no"))
        aborts = [Abort(step.key, step.upload_id) for step in steps]
        result = await Engine(store, 1).run(Batch("abort", aborts), stop_on_failure=False)
        assert (result.done, len(result.failures), result.not_started) == (4, 2, [])
        assert [info.key async for info in store.list_uploads("")] == ["a", "c"]

    run(scenario())


def test_lost_reply_of_a_complete_is_found_out_by_its_write_id() -> None:
    async def scenario() -> None:
        store = Store()
        step = await upload(store, "a")
        store.after = only("complete_upload", "a", Unavailable("complete_upload", "bucket/a", "silence"))
        result = await Engine(store, 1).run(Batch("complete", [step]), keep=True)
        assert result.ok
        assert result.completed == {step: (await store.head("a")).etag}

    run(scenario())


def test_complete_that_was_done_before_is_done() -> None:
    async def scenario() -> None:
        store = Store()
        step = await upload(store, "a")
        for _ in range(2):
            assert (await Engine(store, 1).run(Batch("complete", [step]))).ok

    run(scenario())


def test_upload_that_is_gone_is_a_failure_and_an_upload_of_hadoop_is_unknown() -> None:
    async def scenario() -> None:
        store = Store()
        ours, theirs = await upload(store, "a"), await upload(store, "b")
        for step in (ours, theirs):
            await store.abort_upload(step.key, step.upload_id)
            await store.put(step.key, b"somebody else's")
        nameless = Complete(theirs.key, theirs.upload_id, theirs.etags, theirs.length, None)
        result = await Engine(store, 2).run(Batch("complete", [ours, nameless]), stop_on_failure=False)
        outcomes = {failure.step.key: failure.outcome for failure in result.failures}
        assert outcomes == {"a": Outcome.FAILED, "b": Outcome.UNKNOWN}
        assert all(isinstance(failure.error, UploadNotFound) for failure in result.failures)

    run(scenario())


class Forgiving(Store):
    """Answers with success to the complete of an upload that was completed before, whatever came of it."""

    def __init__(self) -> None:
        super().__init__()
        self.completed: set[str] = set()

    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], *, if_absent: bool = False
    ) -> ObjectInfo:
        if upload_id in self.completed:
            return ObjectInfo(key, 0, '"of the first time"')
        self.completed.add(upload_id)
        return await super().complete_upload(key, upload_id, parts, if_absent=if_absent)


@pytest.mark.parametrize("verify", [True, False])
def test_success_of_a_repeated_complete_counts_only_if_the_object_is_there(verify: bool) -> None:
    async def scenario() -> None:
        store = Forgiving()
        steps = [await upload(store, name) for name in ("deleted", "replaced", "there")]
        engine = Engine(store, 1)
        assert (await engine.run(Batch("complete", steps))).ok
        await store.delete(["deleted"])
        await store.put("replaced", b"somebody else's")
        result = await engine.run(Batch("complete", steps), stop_on_failure=False, verify=verify)
        wrong = {failure.step.key: failure.outcome for failure in result.failures}
        if verify:
            assert wrong == {"deleted": Outcome.FAILED, "replaced": Outcome.FAILED}
            assert "somebody removed or replaced it" in str(result.failures[0].error)
        else:
            assert not wrong
        assert result.done == 3 - len(wrong)

    run(scenario())


def test_silence_at_the_complete_and_at_reading_back_is_unknown_and_tells_both() -> None:
    async def scenario() -> None:
        store = Store()
        step = await upload(store, "a")
        store.before = lambda operation, key: Unavailable(operation, "bucket/a", f"no answer to {operation}")
        (failure,) = (await Engine(store, 1).run(Batch("complete", [step]))).failures
        assert failure.outcome is Outcome.UNKNOWN
        assert "no answer to complete_upload" in str(failure.error)
        assert "no answer to head" in failure.error.__notes__[0]

    run(scenario())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (PermissionDenied("abort_upload", "bucket/a", "no"), Outcome.FAILED),
        (Unavailable("abort_upload", "bucket/a", "silence"), Outcome.UNKNOWN),
        (RuntimeError("surprise"), Outcome.UNKNOWN),
    ],
    ids=["refused", "silent", "surprising"],
)
def test_failed_step_tells_its_error_and_what_is_known_of_it(error: Exception, outcome: Outcome) -> None:
    async def scenario() -> None:
        store = Store()
        store.before = only("abort_upload", "a", error)
        (failure,) = (await Engine(store, 1).run(Batch("abort", [Abort("a", "upload")]))).failures
        assert (failure.outcome, failure.error) == (outcome, error)

    run(scenario())


def test_observer_is_told_of_every_finished_step() -> None:
    async def scenario() -> None:
        store = Store()
        seen: list[Event] = []
        steps = [await upload(store, name) for name in "abc"]
        store.before = only("complete_upload", "c", PermissionDenied("complete_upload", "bucket/c", "no"))
        await Engine(store, 1, seen.append).run(Batch("complete", steps))
        assert [(event.batch, event.step.key, event.outcome) for event in seen] == [
            ("complete", "a", Outcome.DONE),
            ("complete", "b", Outcome.DONE),
            ("complete", "c", Outcome.FAILED),
        ]

    run(scenario())
