"""Ctrl-C at every request of a job: all or nothing is published, nothing goes on unseen, Job says which."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import get_loop

import magicfs
from magicfs.errors import CommitDenied, ProtocolViolation
from magicfs.job.job import Job
from magicfs.protocol import paths
from magicfs.stores import interrupt
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.interrupt import Call, held, run_on
from magicfs.stores.memory import MemoryStore, World
from magicfs.stores.memory_filesystem import MemoryFileSystem
from magicfs.stores.port import Store

URL = "memory://bucket/sales"
OLD = {"sales/old.bin": b"old"}
NEW = [b"new 0", b"new 1"]


class CtrlC:
    """Interrupts the thread that waits, at one request: before the store does it, or after."""

    def __init__(self, number: int = 0, *, after: bool = False, times: int = 1) -> None:
        self.number, self.after, self.times = number, after, times
        self.seen = self.raised = 0
        self.where = ""
        self.reached, self.told = threading.Event(), threading.Event()

    async def around(self, operation: str, key: str, request: Callable[[], Any]) -> Any:
        self.seen += 1
        mine = self.seen == self.number
        if mine:
            self.where = f"{operation} {key}"
        if mine and not self.after:
            await self._stand()
        try:
            return await request()
        finally:
            if mine and self.after:
                await self._stand()

    async def _stand(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self.told.wait, 30)

    def wait(self, ended: threading.Event) -> None:
        """In place of the thread's own waiting."""
        if self.raised >= self.times:
            self.told.set()
        while not ended.wait(0.0005):
            if self.reached.is_set() and self.raised < self.times:
                self.raised += 1
                raise KeyboardInterrupt


class _Watched(DelegatingStore):
    def __init__(self, inner: Store, hook: CtrlC) -> None:
        super().__init__(inner)
        self._hook = hook

    async def _around(self, operation: str, key: str, request: Callable[[], Any]) -> Any:
        return await self._hook.around(operation, key, request)


class Files(MemoryFileSystem):
    """A bucket of its own, whose requests a ``CtrlC`` sees."""

    def __init__(self, world: World, hook: CtrlC) -> None:
        super().__init__(world=world)
        self.hook = hook

    def store(self, bucket: str) -> Store:
        return _Watched(MemoryStore(bucket, self.world), self.hook)


@pytest.fixture
def world() -> World:
    return with_old()


def with_old() -> World:
    world = World()
    world.create_bucket("bucket")
    store = MemoryStore("bucket", world)
    for key, body in OLD.items():
        asyncio.run(store.put(key, body))
    return world


def content(world: World) -> dict[str, bytes]:
    store = MemoryStore("bucket", world)

    async def read() -> dict[str, bytes]:
        return {info.key: await store.get(info.key) async for info in store.list("")}

    return asyncio.run(read())


def visible(world: World) -> list[bytes]:
    return sorted(body for key, body in content(world).items() if paths.is_visible(key, "sales"))


def left(world: World) -> list[str]:
    """Work objects and uploads."""

    async def uploads() -> list[str]:
        return [one.key async for one in MemoryStore("bucket", world).list_uploads("")]

    return [key for key in content(world) if "__magic" in key] + asyncio.run(uploads())


def write(job: Job, number: int, body: bytes) -> None:
    with job.task(number) as task:
        if task.url().startswith("file://"):
            Path(task.path, f"a{number}.bin").write_bytes(body)
        else:
            task.filesystem.pipe_file(f"{task.path}/a{number}.bin", body)


def play(job: Job) -> BaseException | None:
    try:
        with job:
            for number, body in enumerate(NEW):
                write(job, number, body)
    except KeyboardInterrupt as error:
        return error
    return None


KINDS = {
    "magic": {},
    "magic in memory": {"tracking": "memory"},
    "magic, names of its own": {"unique_names": False},
    "directory": {"committer": "directory"},
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_every_request_publishes_all_or_nothing_and_the_job_says_which(
    kind: str, mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"conflict": mode, **KINDS[kind]}
    if kind == "directory":
        options["committer_options"] = {"work_directory": str(tmp_path)}
    counted = CtrlC()
    assert play(magicfs.Job(URL, filesystem=Files(with_old(), counted), **options)) is None
    outcomes = set()
    for number in range(1, counted.seen + 1):
        for after in (False, True):
            world, hook = with_old(), CtrlC(number, after=after)
            monkeypatch.setattr(interrupt, "_wait", hook.wait)
            job = magicfs.Job(URL, filesystem=Files(world, hook), **options)
            error = play(job)
            at = f"{number} of {counted.seen}, {'after' if after else 'before'} {hook.where}"
            assert isinstance(error, KeyboardInterrupt), at
            outcomes.add(assert_true(world, job, mode, at))
    assert outcomes == {"committed", "aborted", "new"}


def assert_true(world: World, job: Job, mode: str, at: str) -> str:
    assert left(world) == [], at
    published = sorted([*NEW, *([] if mode == "replace" else OLD.values())])
    state = repr(job).rpartition(" ")[2].rstrip(">")
    if visible(world) == published:
        assert (state, job.report.files) == ("committed", len(NEW)), at
    else:
        assert visible(world) == list(OLD.values()), at
        assert state in {"aborted", "new"}, at
        with pytest.raises(ProtocolViolation, match="has no report: it was"):
            _ = job.report
    return state


@pytest.mark.parametrize("committer", ["file", "direct", "stocator", "task-completing"])
def test_a_committer_without_a_commit_point_is_waited_for(
    committer: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"conflict": "append", "committer": committer}
    hook = CtrlC()
    job = magicfs.Job(URL, filesystem=Files(world, hook), **options).setup()
    write(job, 0, NEW[0])
    hook.number = hook.seen + 1
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    with pytest.raises(KeyboardInterrupt) as caught:
        job.commit(job.commits)
    assert caught.value.__notes__ == [f"job {job.id} is published all the same; job.report tells what"]
    assert job.report.files == 1
    assert NEW[0] in visible(world)


def paused_at_complete(world: World) -> CtrlC:
    """One that will interrupt the first completion of a file."""
    hook = CtrlC()
    around = hook.around

    async def look(operation: str, key: str, request: Callable[[], Any]) -> Any:
        if operation == "complete_upload" and key.startswith("sales/a0") and not hook.number:
            hook.number = hook.seen + 1
        return await around(operation, key, request)

    hook.around = look  # type: ignore[method-assign]
    return hook


def test_ctrl_c_past_the_commit_point_waits_and_says_that_the_job_is_published(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook = paused_at_complete(world)
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    job = magicfs.Job(URL, conflict="append", filesystem=Files(world, hook))
    error = play(job)
    assert error is not None
    assert error.__notes__ == [f"job {job.id} is published all the same; job.report tells what"]
    assert f"job {job.id} cannot be stopped any more and is waited for" in caplog.text
    assert job.report.published
    assert visible(world) == [*NEW, b"old"]


def test_a_second_ctrl_c_leaves_a_commit_that_goes_on_and_the_job_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = paused_at_complete(world)
    hook.times = 2
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    job = magicfs.Job(URL, conflict="append", filesystem=Files(world, hook))
    error = play(job)
    assert error is not None
    assert f"job {job.id} is still being committed by this process" in error.__notes__[0]
    assert repr(job).endswith("committing>")
    with pytest.raises(ProtocolViolation, match="it is still being committed"):
        _ = job.report
    with pytest.raises(ProtocolViolation, match="is committing, too late for commit"):
        job.commit(job.commits)
    call = job._call
    assert call is not None
    hook.told.set()
    assert call._ended.wait(30)
    assert job.report.files == len(NEW)
    assert repr(job).endswith("committed>")


def test_a_signal_interrupts_the_thread_that_waits(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook = paused_at_complete(world)

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "is waited for" in record.getMessage():
                hook.told.set()

    def interrupt_once() -> None:
        hook.reached.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(logging.getLogger("magicfs"), "handlers", [Told()])
    killer = threading.Thread(target=interrupt_once)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    try:
        killer.start()
        job = magicfs.Job(URL, conflict="append", filesystem=Files(world, hook))
        assert isinstance(play(job), KeyboardInterrupt)
        killer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert job.report.files == len(NEW)


def test_ctrl_c_in_a_commit_of_ones_own_aborts_the_job_before_the_commit_point(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = CtrlC()
    job = magicfs.Job(URL, conflict="append", filesystem=Files(world, hook)).setup()
    write(job, 0, NEW[0])
    hook.number = hook.seen + 2
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    with pytest.raises(KeyboardInterrupt) as caught:
        job.commit(job.commits)
    assert caught.value.__notes__ == [f"job {job.id} is aborted; nothing of it is published"]
    assert repr(job).endswith("aborted>")
    assert (visible(world), left(world)) == ([b"old"], [])


def test_ctrl_c_in_recover_ends_the_job_that_it_is_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [magicfs.Job(URL, conflict="append", filesystem=Files(world, CtrlC())).setup() for _ in range(2)]
    hook = CtrlC()
    magicfs.recover(URL, dry_run=True, filesystem=Files(world, hook))
    hook = CtrlC(hook.seen + 4)
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    with pytest.raises(KeyboardInterrupt):
        magicfs.recover(URL, job=jobs[0].id, abort=True, filesystem=Files(world, hook))
    monkeypatch.undo()
    states = {one.job_id for one in magicfs.recover(URL, filesystem=Files(world, CtrlC())).jobs}
    assert states in ({jobs[1].id}, {one.id for one in jobs})


# -- the call itself -----------------------------------------------------------------------------------


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class Stands:
    """A coroutine that waits, and what an interruption did to it."""

    def __init__(self, *, in_held: bool = False) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        self.in_held = in_held
        self.raised = False
        self.ends: list[str] = []

    async def __call__(self) -> str:
        try:
            if self.in_held:
                with held():
                    await self._stand()
                    self.ends.append("held")
                await asyncio.sleep(3600)
            await self._stand()
        except asyncio.CancelledError:
            self.ends.append("stopped")
            raise
        return "done"

    async def _stand(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self.go.wait, 30)

    def wait(self, ended: threading.Event) -> None:
        if not self.raised:
            assert self.reached.wait(30)
            self.raised = True
            raise KeyboardInterrupt
        self.go.set()
        assert ended.wait(30)


def test_an_interruption_stops_the_coroutine_before_it_is_raised(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Stands()
    monkeypatch.setattr(interrupt, "_wait", work.wait)
    call = Call(loop, work)
    with pytest.raises(KeyboardInterrupt):
        call.run()
    assert work.ends == ["stopped"]
    assert (call.ended, call.succeeded, call.interrupted) == (True, False, True)


def test_what_is_held_comes_to_its_end_and_what_follows_is_stopped(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Stands(in_held=True)
    monkeypatch.setattr(interrupt, "_wait", work.wait)
    with pytest.raises(KeyboardInterrupt):
        run_on(loop, work)
    assert work.ends == ["held", "stopped"]


def test_a_whole_call_comes_to_its_end(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Stands()
    monkeypatch.setattr(interrupt, "_wait", work.wait)
    call = Call(loop, work, whole=True)
    with pytest.raises(KeyboardInterrupt):
        call.run()
    assert (work.ends, call.result()) == ([], "done")


def test_an_error_of_the_coroutine_is_a_note_of_the_interruption(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands = Stands()

    async def work() -> None:
        await stands()
        raise CommitDenied("somebody else was faster")

    monkeypatch.setattr(interrupt, "_wait", stands.wait)
    with pytest.raises(KeyboardInterrupt) as caught:
        Call(loop, work, whole=True).run()
    assert caught.value.__notes__ == ["and: somebody else was faster"]


def test_a_call_on_its_own_loop_and_one_without_a_loop_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    async def inner() -> None:
        run_on(loop, asyncio.sleep, 0)

    with pytest.raises(RuntimeError, match="from within a running loop"):
        run_on(loop, inner)
    with pytest.raises(RuntimeError, match="is not running"):
        run_on(None, asyncio.sleep, 0)


def test_whatever_the_coroutine_raises_is_raised(loop: asyncio.AbstractEventLoop) -> None:
    class Death(BaseException):
        pass

    async def work() -> None:
        raise Death

    with pytest.raises(Death):
        run_on(loop, work)


def test_what_a_call_worked_on_is_free_at_its_end_even_if_its_context_lives_on() -> None:
    """Timers and connections that a call leaves behind keep its context, and must not keep its data."""

    class Data:
        pass

    contexts: list[contextvars.Context] = []

    async def work(_: Data) -> None:
        contexts.append(contextvars.copy_context())

    data = Data()
    alive = weakref.ref(data)
    gc.disable()
    try:
        run_on(get_loop(), work, data)
        del data
        deadline = time.monotonic() + 20
        while alive() is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert alive() is None
    finally:
        gc.enable()
    assert contexts
