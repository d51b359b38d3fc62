"""The delayed upload: parts in the background, bounded memory, nothing left after an error."""

from __future__ import annotations

import array
import asyncio
import gc
import hashlib
import io
import random
import threading
from collections.abc import Callable, Mapping

import pytest
from fsspec.asyn import get_loop, sync

from magicfs.errors import StoreError, Unavailable, UsageError
from magicfs.filesystem.upload import PARTS_IN_FLIGHT, AsyncDelayedFile, DelayedFile, Upload, Uploaded
from magicfs.protocol.parts import DEFAULT_PART_SIZE, PartLimits
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PartBody

KEY = "dest/é %+#/part 1.bin"


class Recorded:
    """Remembers what was recorded, and fails on demand."""

    wants_copies = False

    def __init__(self) -> None:
        self.uploads: list[Uploaded] = []
        self.open = 0
        self.error: Exception | None = None

    def dropped(self) -> None:
        """Nothing to remember."""

    async def began(self) -> None:
        self.open += 1

    async def record(self, uploaded: Uploaded) -> None:
        if self.error is not None:
            raise self.error
        self.uploads.append(uploaded)

    async def withdraw(self, upload_id: str) -> None:
        self.uploads = [one for one in self.uploads if one.upload_id != upload_id]

    def ended(self) -> None:
        self.open -= 1


class Watched(MemoryStore):
    """Counts parts in flight, and runs a hook before each part is taken."""

    def __init__(self, world: World) -> None:
        super().__init__("bucket", world)
        self.in_flight = 0
        self.most_in_flight = 0
        self.before_part: Callable[[int], None] = lambda number: None
        self.abort_error: Exception | None = None

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0.001)
            self.before_part(number)
            return await super().put_part(key, upload_id, number, body)
        finally:
            self.in_flight -= 1

    async def abort_upload(self, key: str, upload_id: str) -> None:
        if self.abort_error is not None:
            raise self.abort_error
        await super().abort_upload(key, upload_id)


def make_store(**limits: int) -> Watched:
    world = World(capabilities=Capabilities(parts=PartLimits(**{"size_min": 1, **limits})))
    world.create_bucket("bucket")
    return Watched(world)


@pytest.fixture
def store() -> Watched:
    return make_store()


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def open_file(store: MemoryStore, recorded: Recorded, part_size: int = 10) -> DelayedFile:
    return DelayedFile(Upload(store, KEY, part_size, recorded), get_loop())


def pending(store: MemoryStore) -> list[str]:
    async def listed() -> list[str]:
        return [info.key async for info in store.list_uploads("")]

    found: list[str] = sync(get_loop(), listed)
    return found


def complete(store: MemoryStore, uploaded: Uploaded) -> bytes:
    sync(get_loop(), store.complete_upload, uploaded.key, uploaded.upload_id, uploaded.parts)
    body: bytes = sync(get_loop(), store.get, uploaded.key)
    return body


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 20, 1234])
def test_what_was_written_is_what_becomes_visible(store: Watched, recorded: Recorded, length: int) -> None:
    body = random.Random(length).randbytes(length)
    with open_file(store, recorded) as file:
        for start in range(0, length, 7):
            file.write(body[start : start + 7])
        assert file.tell() == length
    (uploaded,) = recorded.uploads
    assert uploaded.length == length
    assert len(uploaded.parts) == max(1, -(-length // 10))
    assert complete(store, uploaded) == body


def test_one_write_may_be_many_parts(store: Watched, recorded: Recorded) -> None:
    body = random.Random(1).randbytes(555)
    with open_file(store, recorded) as file:
        assert file.write(body) == 555
    assert complete(store, recorded.uploads[0]) == body


def test_buffers_of_any_kind_are_taken_and_may_be_reused_at_once(store: Watched, recorded: Recorded) -> None:
    reused = bytearray(b"abcd")
    with open_file(store, recorded, part_size=3) as file:
        assert file.write(reused) == 4
        reused[:] = b"zzzz"
        assert file.write(array.array("i", [1, 2])) == 8
        assert file.write(memoryview(b"xyz")) == 3
    assert complete(store, recorded.uploads[0]) == b"abcd" + array.array("i", [1, 2]).tobytes() + b"xyz"


def test_parts_travel_at_once_but_never_more_than_allowed(store: Watched, recorded: Recorded) -> None:
    with open_file(store, recorded) as file:
        file.write(bytes(1000))
    assert 1 < store.most_in_flight <= PARTS_IN_FLIGHT
    assert [part.number for part in recorded.uploads[0].parts] == list(range(1, 101))


def test_first_part_is_on_its_way_before_the_file_is_closed(recorded: Recorded) -> None:
    store = make_store(size_min=5 * 2**20)
    sent = threading.Event()
    store.before_part = lambda _number: sent.set()
    body = random.Random(1).randbytes(7 * 2**20)
    with open_file(store, recorded, part_size=DEFAULT_PART_SIZE) as file:
        for start in range(0, len(body), 2**16):
            file.write(body[start : start + 2**16])
        assert sent.wait(10)
    (uploaded,) = recorded.uploads
    assert len(uploaded.parts) == 2
    assert complete(store, uploaded) == body


def test_parts_grow_so_that_their_number_suffices(recorded: Recorded) -> None:
    store = make_store(count_max=20)
    with open_file(store, recorded) as file:
        file.write(bytes(1000))
    assert len(recorded.uploads[0].parts) <= 20


def test_file_that_needs_too_many_parts_fails_before_data_is_lost(recorded: Recorded) -> None:
    store = make_store(count_max=5, size_max=10)
    file = open_file(store, recorded)
    with pytest.raises(UsageError, match="larger part_size"):
        file.write(bytes(1000))
    assert file.closed
    assert pending(store) == []


def test_file_that_outgrows_the_largest_object_fails(recorded: Recorded) -> None:
    store = make_store(object_max=50)
    with pytest.raises(UsageError, match="would exceed 50 bytes"), open_file(store, recorded) as file:
        file.write(bytes(1000))
    assert pending(store) == []
    assert recorded.uploads == []


def test_failed_part_is_raised_and_the_upload_aborted(store: Watched, recorded: Recorded) -> None:
    def fail(number: int) -> None:
        if number == 3:
            raise StoreError("put_part", f"bucket/{KEY}", "disk full (507)")

    store.before_part = fail
    file = open_file(store, recorded)
    with pytest.raises(StoreError, match="disk full"):
        for _ in range(1000):
            file.write(bytes(10))
    assert file.closed
    assert pending(store) == []
    assert recorded.uploads == []
    assert recorded.open == 0
    file.close()
    with pytest.raises(ValueError, match="is aborted"):
        file.write(b"x")


def test_failed_last_part_fails_the_close(store: Watched, recorded: Recorded) -> None:
    def fail(number: int) -> None:
        raise Unavailable("put_part", f"bucket/{KEY}", "no answer")

    store.before_part = fail
    file = open_file(store, recorded)
    file.write(b"x")
    with pytest.raises(Unavailable):
        file.close()
    assert pending(store) == []
    assert recorded.open == 0


def test_failed_record_aborts(store: Watched, recorded: Recorded) -> None:
    recorded.error = Unavailable("put", "bucket/marker", "no answer")
    file = open_file(store, recorded)
    file.write(b"x")
    with pytest.raises(Unavailable):
        file.close()
    assert pending(store) == []


def test_failing_abort_does_not_hide_the_first_error(store: Watched, recorded: Recorded) -> None:
    def fail(number: int) -> None:
        raise StoreError("put_part", f"bucket/{KEY}", "first")

    store.before_part = fail
    store.abort_error = Unavailable("abort_upload", f"bucket/{KEY}", "second")
    file = open_file(store, recorded)
    file.write(b"x")
    with pytest.raises(StoreError, match="first") as caught:
        file.close()
    assert any("second" in note for note in caught.value.__notes__)


def test_close_after_abort_and_abort_after_abort_do_nothing(store: Watched, recorded: Recorded) -> None:
    file = open_file(store, recorded)
    file.write(bytes(25))
    file.abort()
    file.abort()
    file.close()
    assert pending(store) == []
    assert recorded.uploads == []
    with pytest.raises(UsageError, match="aborted"):
        file.commit()


def test_second_close_records_nothing_more(store: Watched, recorded: Recorded) -> None:
    file = open_file(store, recorded)
    file.close()
    file.close()
    assert len(recorded.uploads) == 1


def test_abort_waits_for_parts_in_flight(store: Watched, recorded: Recorded) -> None:
    file = open_file(store, recorded)
    file.write(bytes(40))
    file.abort()
    assert store.in_flight == 0
    assert pending(store) == []


def test_upload_that_cannot_be_created_leaves_no_open_file(recorded: Recorded) -> None:
    store = make_store()
    store.world.delete_bucket("bucket")
    with pytest.raises(FileNotFoundError, match="create the bucket"):
        open_file(store, recorded)
    assert recorded.open == 0


def test_interrupt_while_writing_leaves_at_once_and_aborts(store: Watched, recorded: Recorded) -> None:
    file = open_file(store, recorded)
    with pytest.raises(KeyboardInterrupt), file:
        file.write(bytes(15))
        raise KeyboardInterrupt
    assert pending(store) == []
    assert recorded.uploads == []


def test_write_from_another_thread_than_the_closing_one(store: Watched, recorded: Recorded) -> None:
    file = open_file(store, recorded)
    writer = threading.Thread(target=file.write, args=(bytes(100),))
    writer.start()
    writer.join()
    file.close()
    assert recorded.uploads[0].length == 100


def test_async_file_writes_the_same(store: Watched, recorded: Recorded) -> None:
    body = random.Random(2).randbytes(333)

    async def write() -> None:
        async with await AsyncDelayedFile(Upload(store, KEY, 10, recorded)).open() as file:
            for start in range(0, len(body), 50):
                await file.write(body[start : start + 50])

    sync(get_loop(), write)
    assert complete(store, recorded.uploads[0]) == body


def test_async_file_aborts_when_its_body_raises(store: Watched, recorded: Recorded) -> None:
    async def write() -> None:
        async with await AsyncDelayedFile(Upload(store, KEY, 10, recorded)).open() as file:
            await file.write(bytes(25))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sync(get_loop(), write)
    assert pending(store) == []


def test_part_is_readable_again_until_it_is_acknowledged(recorded: Recorded) -> None:
    class Rereading(MemoryStore):
        async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
            first = hashlib.sha256(_bytes(body)).digest()
            await asyncio.sleep(0.002)
            assert hashlib.sha256(_bytes(body)).digest() == first
            return await super().put_part(key, upload_id, number, body)

    world = World(create_buckets=True)
    store = Rereading("bucket", world)
    body = random.Random(3).randbytes(300)
    with open_file(store, recorded) as file:
        for byte in body:
            file.write(bytes([byte]))
    assert complete(store, recorded.uploads[0]) == body


def test_write_id_is_in_the_metadata_of_the_object(store: Watched, recorded: Recorded) -> None:
    with open_file(store, recorded) as file:
        file.write(b"x")
    uploaded = recorded.uploads[0]
    complete(store, uploaded)
    info: ObjectInfo = sync(get_loop(), store.head, KEY)
    metadata: Mapping[str, str] = info.metadata
    assert metadata["magicfs-write-id"] == uploaded.write_id


def _bytes(body: PartBody) -> bytes:
    plain: Body = body.getbuffer() if not isinstance(body, bytes | bytearray | memoryview) else body
    return bytes(plain)


# -- beside the way ---------------------------------------------------------------------------------------


def test_file_may_fill_the_last_part_that_the_store_takes(recorded: Recorded) -> None:
    store = make_store(count_max=5, size_max=10)
    with open_file(store, recorded) as file:
        file.write(bytes(50))
    assert len(recorded.uploads[0].parts) == 5
    with pytest.raises(UsageError, match="larger part_size"), open_file(store, recorded) as file:
        file.write(bytes(50))
        file.write(b"1")
    assert pending(store) == [KEY]


def test_nothing_is_kept_in_memory_by_a_file_that_is_closed(store: Watched, recorded: Recorded) -> None:
    file = open_file(store, recorded, part_size=2**20)
    file.write(bytes(6 * 2**20 + 1))
    file.close()
    gc.collect()
    held = [
        one
        for one in gc.get_objects()
        if isinstance(one, io.BytesIO) and not one.closed and one.getbuffer().nbytes >= 2**19
    ]
    assert held == []
    assert file._sink._upload._spares.pop()[1] == 0


def test_part_whose_task_is_cancelled_fails_the_file(recorded: Recorded) -> None:
    class Cancelled(Watched):
        async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
            if number == 2:
                raise asyncio.CancelledError
            return await super().put_part(key, upload_id, number, body)

    world = World(capabilities=Capabilities(parts=PartLimits(size_min=1)))
    world.create_bucket("bucket")
    store = Cancelled(world)
    with pytest.raises(UsageError, match="not written completely"), open_file(store, recorded) as file:
        file.write(bytes(20))
    assert recorded.uploads == []
    assert pending(store) == []


def test_view_without_bytes_is_taken_whatever_its_shape(store: Watched, recorded: Recorded) -> None:
    empty = memoryview(bytes(6)).cast("B", [2, 3])[:0]
    with open_file(store, recorded) as file:
        assert file.write(empty) == 0
        file.write(b"1")
    assert complete(store, recorded.uploads[0]) == b"1"
