"""One bound for the memory of all files of a process, and nobody waits for ever because of it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import get_loop, sync

from magicfs.errors import StoreError, UsageError
from magicfs.filesystem.upload import AsyncDelayedFile, DelayedFile, Upload
from magicfs.filesystem.upload import memory as upload_memory
from magicfs.filesystem.upload.memory import LIMIT_VARIABLE, Memory, Share
from magicfs.protocol.parts import PartLimits, part_size, part_size_min
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Capabilities, Part, PartBody
from proofs.scenes.memory_scene import MemoryScene

OF_THIS_PROCESS = upload_memory._of_this_process
LIMIT = 1000
PART = 400


class Peaks(Memory):
    """Remembers the most that was held and that flew."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.most = self.waits = 0

    def _take_changes(self) -> None:
        super()._take_changes()
        self.most = max(self.most, self.held)

    async def room(self) -> None:
        self.waits += self.must_wait
        await super().room()


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peaks]:
    """A memory of its own for each test; afterwards nothing is held of it."""
    made = Peaks(LIMIT)
    monkeypatch.setattr("magicfs.filesystem.upload.memory._of_this_process", [made])
    yield made
    gc.collect()
    sync(get_loop(), asyncio.sleep, 0.01)
    made.change()
    assert (made.held, made.flying, list(made._waiting)) == (0, 0, [])


class Slow(MemoryStore):
    """Takes a while for each part, until a gate is open; fails where it is told to."""

    def __init__(self, world: World) -> None:
        super().__init__("bucket", world)
        self.delay = 0.0005
        self.is_open = True
        self.fails = False

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:
        await asyncio.sleep(self.delay)
        while not self.is_open:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.001)
        if self.fails:
            raise StoreError("put_part", key, "disk full (507)")
        return await super().put_part(key, upload_id, number, body)


class Recorded:
    """Keeps what was recorded."""

    wants_copies = False

    def __init__(self) -> None:
        self.uploads: list[Any] = []

    def dropped(self) -> None: ...

    async def began(self) -> None: ...

    async def record(self, uploaded: Any) -> None:
        self.uploads.append(uploaded)

    async def withdraw(self, upload_id: str) -> None: ...

    def ended(self) -> None: ...


def make_store(size_min: int = 1) -> Slow:
    world = World(capabilities=Capabilities(parts=PartLimits(size_min=size_min)))
    world.create_bucket("bucket")
    return Slow(world)


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def open_file(store: Slow, recorded: Recorded, number: int = 0) -> DelayedFile:
    return DelayedFile(Upload(store, f"dest/{number}", PART, recorded), get_loop())


def bodies(store: Slow, recorded: Recorded) -> dict[str, bytes]:
    async def read() -> dict[str, bytes]:
        found = {}
        for one in recorded.uploads:
            await store.complete_upload(one.key, one.upload_id, one.parts)
            found[one.key] = await store.get(one.key)
        return found

    read_bodies: dict[str, bytes] = sync(get_loop(), read)
    return read_bodies


def expected(files: int, size: int) -> dict[str, bytes]:
    return {f"dest/{n}": bytes([n % 251]) * size for n in range(files)}


# -- nobody waits for ever ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size_min", [1, PART])
def test_one_thread_writes_500_open_files_in_turn(recorded: Recorded, tiny: Peaks, size_min: int) -> None:
    store = make_store(size_min)
    store.delay = 0.0
    files = [open_file(store, recorded, n) for n in range(500)]
    for _ in range(10):
        for number, file in enumerate(files):
            file.write(bytes([number % 251]) * 130)
            file.flush()
    for file in files:
        file.close()
    assert bodies(store, recorded) == expected(500, 1300)
    assert tiny.most > LIMIT, "or nothing was short"
    # What is too small to be sent is held all the same; where everything can be sent, hardly more than that.
    assert tiny.most <= (500 * PART if size_min > 1 else 500 * 130 + LIMIT)


def test_many_threads_write_at_once(recorded: Recorded, tiny: Peaks) -> None:
    store = make_store()

    def write(number: int) -> None:
        with open_file(store, recorded, number) as file:
            for _ in range(30):
                file.write(bytes([number % 251]) * 100)

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(write, range(72)))
    assert bodies(store, recorded) == expected(72, 3000)
    assert tiny.waits > 0
    assert tiny.most <= LIMIT + 24 * 2 * PART, "a thread that goes on fills one body, and writes one buffer"


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 30])
def test_many_coroutines_write_at_once(recorded: Recorded, tiny: Peaks, steps: int) -> None:
    store = make_store()

    async def write(number: int) -> None:
        async with await AsyncDelayedFile(Upload(store, f"dest/{number}", PART, recorded)).open() as file:
            for _ in range(steps):
                await file.write(bytes([number % 251]) * (3000 // steps))

    async def write_all() -> None:
        await asyncio.gather(*(write(number) for number in range(200)))

    sync(get_loop(), write_all, timeout=60)
    assert bodies(store, recorded) == expected(200, 3000)
    assert tiny.waits > 0
    if steps == 1:
        assert tiny.most <= LIMIT + PART, "one after another fills a body where memory is short"


def test_a_fast_writer_is_held_up_by_a_slow_store(recorded: Recorded, tiny: Peaks) -> None:
    store = make_store()
    with open_file(store, recorded) as file:
        file.write(bytes(50_000))
    assert tiny.waits > 0
    assert tiny.most <= LIMIT + PART
    assert bodies(store, recorded) == {"dest/0": bytes(50_000)}


def test_writers_on_two_loops_wait_for_one_memory(recorded: Recorded, tiny: Peaks) -> None:
    store = make_store()

    async def write(number: int) -> None:
        async with await AsyncDelayedFile(Upload(store, f"dest/{number}", PART, recorded)).open() as file:
            await file.write(bytes([number % 251]) * 3000)

    async def write_all(numbers: range) -> None:
        await asyncio.gather(*map(write, numbers))

    other = threading.Thread(target=asyncio.run, args=(write_all(range(30)),))
    other.start()
    sync(get_loop(), write_all, range(30, 60))
    other.join(60)
    assert bodies(store, recorded) == expected(60, 3000)


def test_loop_that_has_closed_wakes_nobody_and_the_next_one_goes_on(tiny: Peaks) -> None:
    tiny.change(2 * LIMIT, 1)
    loop = asyncio.new_event_loop()
    waiter = loop.create_task(tiny.room())
    loop.run_until_complete(asyncio.sleep(0))
    assert len(tiny._waiting) == 1
    loop.close()
    following = threading.Thread(target=asyncio.run, args=(tiny.room(),))
    following.start()
    while len(tiny._waiting) < 2:
        pass
    tiny.change(-2 * LIMIT, -1)
    following.join(10)
    assert not following.is_alive()
    assert not waiter.done()
    waiter._log_destroy_pending = False  # type: ignore[attr-defined]


def test_waiter_that_is_cancelled_when_its_turn_comes_passes_it_on(tiny: Peaks) -> None:
    async def play() -> None:
        tiny.change(2 * LIMIT, 1)
        first, second = (asyncio.ensure_future(tiny.room()) for _ in range(2))
        await asyncio.sleep(0)
        tiny.change(-2 * LIMIT, -1)
        first.cancel()
        await asyncio.wait_for(second, 10)
        assert first.cancelled() or first.done()

    asyncio.run(play())


# -- everything is given back ------------------------------------------------------------------------------


def test_failed_upload_gives_its_share_back(recorded: Recorded, tiny: Peaks) -> None:
    store = make_store()
    store.fails = True
    file = open_file(store, recorded)
    with pytest.raises(StoreError, match="disk full"):
        for _ in range(100):
            file.write(bytes(100))
    assert (tiny.held, tiny.flying) == (0, 0)


@pytest.mark.parametrize("end", ["abort", "close", "collector"])
def test_share_is_given_back_however_a_file_ends(recorded: Recorded, tiny: Peaks, end: str) -> None:
    file = open_file(make_store(PART), recorded)
    file.write(bytes(PART + 50))
    file.flush()
    assert tiny.held >= 50
    if end == "collector":
        del file
        gc.collect()
        sync(get_loop(), asyncio.sleep, 0.05)
    else:
        getattr(file, end)()
    assert (tiny.held, tiny.flying) == (0, 0)


def test_file_for_coroutines_that_nobody_closed_gives_its_share_back(recorded: Recorded, tiny: Peaks) -> None:
    async def write() -> None:
        file = await AsyncDelayedFile(Upload(make_store(), "dest/0", PART, recorded)).open()
        await file.write(bytes(50))

    sync(get_loop(), write)
    gc.collect()
    assert tiny.held == 0


@pytest.mark.process
def test_ctrl_c_ends_a_writer_that_waits(recorded: Recorded, tiny: Peaks) -> None:
    store = make_store()
    store.is_open = False
    held_by_others = Share()
    held_by_others.hold(2 * LIMIT)
    file = open_file(store, recorded)
    opening = threading.Timer(0.3, setattr, (store, "is_open", True))

    def interrupt() -> None:  # the store opens after it, however slow the machine is
        os.kill(os.getpid(), signal.SIGINT)
        opening.start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    threading.Timer(0.3, interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                file.write(bytes(PART))
    finally:
        signal.signal(signal.SIGINT, before)
    assert file.closed
    held_by_others.end()
    assert (tiny.held, tiny.flying) == (0, 0)


def test_put_of_many_files_reads_no_more_than_there_is_memory_for(
    tmp_path: Path, tiny: Peaks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magicfs.filesystem.sources._SMALL_BYTES", 10)
    scene = MemoryScene(part_size=PART)
    local = {f"{n}.bin": bytes([n]) * 1700 for n in range(60)}
    for name, body in local.items():
        (tmp_path / name).write_bytes(body)
    scene.filesystem.put([str(tmp_path / name) for name in local], "bucket/d/__magic/job/__base/")
    assert scene.publish() == {f"d/{name}": body for name, body in local.items()}
    assert LIMIT < tiny.most <= LIMIT + PART


# -- the limit ---------------------------------------------------------------------------------------------


def test_environment_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magicfs.filesystem.upload.memory._of_this_process", [])
    monkeypatch.setenv(LIMIT_VARIABLE, "64")
    assert upload_memory.memory().limit == 64 * 2**20
    assert upload_memory.memory() is upload_memory.memory()


@pytest.mark.parametrize("given", ["-1", "1.5", "64M", "٣"])
def test_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setattr("magicfs.filesystem.upload.memory._of_this_process", [])
    monkeypatch.setenv(LIMIT_VARIABLE, given)
    with pytest.raises(UsageError, match="is not a number of MiB; write it like 256"):
        upload_memory.memory()


def test_page_names_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magicfs.filesystem.upload.memory._of_this_process", [])
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    assert f"{upload_memory.memory().limit // 2**20} MiB" in page
    assert f"`{LIMIT_VARIABLE}`" in page


@pytest.mark.process
def test_child_of_a_fork_begins_with_nothing_held(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magicfs.filesystem.upload.memory._of_this_process", OF_THIS_PROCESS)
    file = open_file(make_store(PART), recorded)
    file.write(bytes(300))
    file.flush()
    assert upload_memory.memory().held >= 300
    child = os.fork()
    if not child:
        os._exit(0 if upload_memory.memory().held == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    file.abort()


S3 = PartLimits()


@pytest.mark.parametrize(
    ("number", "limits", "least"),
    [
        (1, S3, S3.size_min),
        (1000, S3, S3.size_min),
        (1001, S3, 2 * 8 * 2**20),
        (10_000, S3, part_size(10_000, 8 * 2**20, S3)),
        (1, PartLimits(equal_sizes=True), 8 * 2**20),
    ],
)
def test_only_the_first_parts_may_be_smaller_than_planned(
    number: int, limits: PartLimits, least: int
) -> None:
    assert part_size_min(number, 8 * 2**20, limits) == least


def test_whole_values_are_sent_uncopied_and_take_no_memory_of_ours(tiny: Peaks) -> None:
    scene = MemoryScene(part_size=PART)
    values: dict[str, Any] = {"a": bytes(3000), "b": bytearray(b"b" * 1000), "c": memoryview(b"c" * 400)}
    scene.filesystem.pipe({f"bucket/d/__magic/job/__base/{name}": one for name, one in values.items()})
    assert scene.publish() == {f"d/{name}": bytes(one) for name, one in values.items()}
    assert tiny.most == 0
