"""Ctrl-C at every request of a job: all or nothing is published, nothing goes on unseen, Job says which."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fsspec.asyn import get_loop

import magicfs
from magicfs import datasets
from magicfs.errors import CommitDenied, ProtocolViolation, UsageError
from magicfs.runtime import interrupt
from magicfs.runtime.interrupt import Call, held, run_on
from magicfs.stores.memory.store import World
from proofs.scenes.arranged import arranged
from proofs.sides.interrupts import (
    KINDS,
    NEW,
    URL,
    CtrlC,
    Files,
    everywhere,
    left,
    play,
    visible,
    with_old,
    write,
)

pytestmark = pytest.mark.sample(most=2)


@pytest.fixture
def world() -> World:
    return with_old()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_every_request_publishes_all_or_nothing_and_the_job_says_which(
    kind: str, mode: str, tmp_path: Path
) -> None:
    assert set(everywhere(kind, mode, tmp_path)) == {"committed", "aborted", "new"}


@pytest.mark.parametrize("committer", ["direct", "stocator", "task-completing"])
def test_a_committer_without_a_commit_point_is_waited_for(
    committer: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"mode": "append", "committer": committer}
    hook = CtrlC()
    job = magicfs.Job(URL, filesystem=Files(world, hook), **arranged(**options)).setup()
    write(job, 0, NEW[0])
    hook.number = hook.seen + 1
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    with pytest.raises(KeyboardInterrupt) as caught:
        job.commit(job.commits)
    assert caught.value.__notes__ == [f"job {job.id} is published anyway; see job.report"]
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
    job = magicfs.Job(URL, mode="append", filesystem=Files(world, hook))
    error = play(job)
    assert error is not None
    assert error.__notes__ == [f"job {job.id} is published anyway; see job.report"]
    assert f"job {job.id} can no longer be stopped, waiting for it" in caplog.text
    assert job.report.published
    assert visible(world) == [*NEW, b"old"]


def test_a_second_ctrl_c_leaves_a_commit_that_goes_on_and_the_job_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = paused_at_complete(world)
    hook.times = 2
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    job = magicfs.Job(URL, mode="append", filesystem=Files(world, hook))
    error = play(job)
    assert error is not None
    assert f"job {job.id} is still being committed by this process" in error.__notes__[0]
    assert repr(job).endswith("committing>")
    with pytest.raises(ProtocolViolation, match="the commit is still running"):
        _ = job.report
    with pytest.raises(ProtocolViolation, match="is committing, too late to call commit"):
        job.commit(job.commits)
    call = job._call
    assert call is not None
    hook.told.set()
    assert call._running.acquire(timeout=30)
    assert job.report.files == len(NEW)
    assert repr(job).endswith("committed>")


def test_a_signal_interrupts_the_thread_that_waits(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook = paused_at_complete(world)

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "waiting for it" in record.getMessage():
                hook.told.set()

    def interrupt_once() -> None:
        hook.reached.wait(30)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(logging.getLogger("magicfs"), "handlers", [Told()])
    killer = threading.Thread(target=interrupt_once)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    try:
        killer.start()
        job = magicfs.Job(URL, mode="append", filesystem=Files(world, hook))
        assert isinstance(play(job), KeyboardInterrupt)
        killer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert job.report.files == len(NEW)


def test_ctrl_c_in_a_commit_of_ones_own_aborts_the_job_before_the_commit_point(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = CtrlC()
    job = magicfs.Job(URL, mode="append", filesystem=Files(world, hook)).setup()
    write(job, 0, NEW[0])
    hook.number = hook.seen + 2
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    with pytest.raises(KeyboardInterrupt) as caught:
        job.commit(job.commits)
    assert caught.value.__notes__ == [f"job {job.id} is aborted; none of its files is published"]
    assert repr(job).endswith("aborted>")
    assert (visible(world), left(world)) == ([b"old"], [])


@pytest.mark.parametrize("kind", ["magic", "magic in memory"])
def test_ctrl_c_at_every_request_of_an_abort_is_waited_for_and_says_so(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(hook: CtrlC) -> tuple[World, magicfs.Job]:
        world = with_old()
        job = magicfs.Job(
            URL, mode="append", filesystem=Files(world, hook), **arranged(**KINDS[kind])
        ).setup()
        write(job, 0, NEW[0])
        return world, job

    _, job = opened(hook := CtrlC())
    before = hook.seen
    job.abort()
    for number in range(before + 1, hook.seen + 1):
        world, job = opened(one := CtrlC(number))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
            patch.setattr(interrupt, "_wait", one.wait)
            job.abort()
        assert caught.value.__notes__ == [f"job {job.id} is aborted; none of its files is published"]
        assert (visible(world), left(world)) == ([b"old"], [])
        job.abort()


@pytest.mark.slow
def test_what_two_ctrl_c_leave_is_named_and_the_next_call_resolves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = CtrlC()
    assert play(magicfs.Job(URL, mode="append", filesystem=Files(with_old(), counted))) is None
    ends = set()
    for number in range(1, counted.seen + 1):
        world, hook = with_old(), CtrlC(number, times=2)
        job = magicfs.Job(URL, mode="append", filesystem=Files(world, hook))
        with monkeypatch.context() as patch:
            patch.setattr(interrupt, "_wait", hook.wait)
            error = play(job)
        hook.told.set()
        assert error is not None
        assert any(job.id in note for note in error.__notes__), (number, hook.where, error.__notes__)
        settle()
        # A task that was still being committed when its job was aborted may leave its set.
        if left(world) or not repr(job).endswith(("committed>", "aborted>")):
            with suppress(UsageError):
                datasets.abort(URL, job=job.id, filesystem=Files(world, CtrlC()))
        ends.add(tuple(visible(world)))
        assert not left(world), (number, hook.where, error.__notes__)
    assert ends == {(b"old",), (*NEW, b"old")}


def settle() -> None:
    """Wait until no call goes on."""

    async def others() -> None:
        own = asyncio.current_task()
        while any(one is not own and "Call._main" in repr(one) for one in asyncio.all_tasks()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    run_on(get_loop(), others)


def test_ctrl_c_in_recover_ends_the_job_that_it_is_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [magicfs.Job(URL, mode="append", filesystem=Files(world, CtrlC())).setup() for _ in range(2)]
    hook = CtrlC()
    magicfs.Dataset(URL, filesystem=Files(world, hook)).recover(dry_run=True)
    hook = CtrlC(hook.seen + 4)
    monkeypatch.setattr(interrupt, "_wait", hook.wait)
    with pytest.raises(KeyboardInterrupt):
        magicfs.Dataset(URL, filesystem=Files(world, hook)).recover(job=jobs[0].id, abort=True)
    monkeypatch.undo()
    states = {one.job_id for one in magicfs.Dataset(URL, filesystem=Files(world, CtrlC())).recover().jobs}
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

    def wait(self, running: threading.Lock) -> None:
        if not self.raised:
            assert self.reached.wait(30)
            self.raised = True
            raise KeyboardInterrupt
        self.go.set()
        assert running.acquire(timeout=30)


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


class Busy:
    """Keeps a loop busy, so that it begins nothing; the wait is interrupted meanwhile, at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.go = threading.Event()
        self.raised = False
        loop.call_soon_threadsafe(self.go.wait, 30)

    def wait(self, running: threading.Lock) -> None:
        if not self.raised:
            self.raised = True
            raise KeyboardInterrupt
        self.go.set()
        assert running.acquire(timeout=5), "the wait would last until a second Ctrl-C"


@pytest.mark.parametrize("whole", [False, True])
def test_an_interruption_before_a_busy_loop_has_begun_the_call_ends_the_wait(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    busy, began = Busy(loop), list[str]()

    async def work() -> None:
        began.append("work")

    monkeypatch.setattr(interrupt, "_wait", busy.wait)
    call = Call(loop, work, whole=whole)
    with pytest.raises(KeyboardInterrupt):
        call.run()
    assert (began, call.ended, call.succeeded, call.interrupted) == (["work"] * whole, True, whole, True)


def wait_briefly(running: threading.Lock) -> None:
    assert running.acquire(timeout=10), "the wait would last until a second Ctrl-C"


@pytest.mark.parametrize("is_late", [False, True])
def test_an_interruption_while_the_loop_is_given_the_call_ends_it(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    start = Call._start

    def interrupted(call: Call[str]) -> None:
        if is_late:
            start(call)
        raise KeyboardInterrupt

    monkeypatch.setattr(Call, "_start", interrupted)
    monkeypatch.setattr(interrupt, "_wait", wait_briefly)
    call = Call(loop, Stands())
    with pytest.raises(KeyboardInterrupt):
        call.run()
    assert (call.ended, call.succeeded, call.interrupted) == (True, False, True)


def test_an_interruption_at_each_line_and_return_while_a_call_is_waited_for_blocks_nobody(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in what the standard library has in Python, such as the lock of an Event."""
    wait, met = interrupt._wait, 0

    def interrupted(at: int, running: threading.Lock) -> None:
        seen = 0

        def trace(frame: Any, event: str, arg: object) -> Any:
            nonlocal seen, met
            seen += event in {"line", "return"}
            if seen == at:
                sys.settrace(None)
                met += 1
                raise KeyboardInterrupt
            return trace

        monkeypatch.setattr(interrupt, "_wait", wait_briefly)  # once a call: the next wait is for its end
        sys.settrace(trace)
        try:
            wait(running)
        finally:
            sys.settrace(None)

    for at in range(1, 30):
        monkeypatch.setattr(interrupt, "_wait", partial(interrupted, at))
        call = Call(loop, lambda: asyncio.sleep(0.001))
        with suppress(KeyboardInterrupt):
            call.run()
        assert call.ended
        assert run_on(loop, asyncio.sleep, 0, "alive") == "alive"
    assert met >= 3, "nobody was interrupted at the lines of the wait, and at its return"


@pytest.mark.slow
def test_an_interruption_at_any_moment_of_a_small_call_ends_it(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred signals, each a little later than the one before, most of them before the first step."""

    def interrupted(signal_number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interrupt, "_wait", wait_briefly)
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        stopped = 0
        for number in range(200):
            loop.call_soon_threadsafe(time.sleep, 0.001)
            call = Call(loop, lambda: asyncio.sleep(0.002))
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.000_02 * (number + 1))
                try:
                    call.run()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert call.ended or not call.interrupted
            stopped += call.ended and not call.succeeded
    finally:
        signal.signal(signal.SIGALRM, before)
    assert stopped > 20


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


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_call_worked_on_is_free_at_its_end_even_if_its_context_lives_on(fails: bool) -> None:
    """Timers and connections that a call leaves behind keep its context, and must not keep its data.

    Nor its error, whose traceback leads to all that the call has touched.
    """

    class Data:
        pass

    contexts: list[contextvars.Context] = []

    async def work(data: Data) -> Data:
        contexts.append(contextvars.copy_context())
        if fails:
            raise ZeroDivisionError
        return data

    def run(data: Data) -> None:
        with suppress(ZeroDivisionError):
            run_on(get_loop(), work, data)

    data = Data()
    alive = weakref.ref(data)
    gc.disable()
    try:
        run(data)
        del data
        deadline = time.monotonic() + 20
        while alive() is not None and time.monotonic() < deadline:
            time.sleep(0.01)
            if fails:  # an error and its traceback are a circle
                gc.collect()
        assert alive() is None
    finally:
        gc.enable()
    assert contexts
