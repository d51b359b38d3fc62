"""Loops that end, loops of other threads, processes that are forked or end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from fsspec.asyn import get_loop, sync

from magicfs.stores.s3.http import Address, HttpClient, NotConnected
from tests.unit.stores_http.play import OK

pytestmark = pytest.mark.process

HOST = [("Host", "there")]


class Standing:
    """A server of threads, which outlives loops, and counts its connections."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = Address("http", "127.0.0.1", self.socket.getsockname()[1])
        self.opened = 0
        self.closed = 0
        self.threads: list[threading.Thread] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.socket.accept()
                self.opened += 1
                threading.Thread(target=self.answer, args=(one,), daemon=True).start()

    def answer(self, one: socket.socket) -> None:
        with one, contextlib.suppress(OSError):
            while data := one.recv(65536):
                if data.startswith(b"WAIT"):
                    continue
                if data.startswith(b"SLOW"):
                    time.sleep(1.5)
                one.sendall(OK)
        self.closed += 1

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.fixture
def server() -> Iterator[Standing]:
    made = Standing()
    yield made
    made.close()


def client_of(connections_max: int = 4) -> HttpClient:
    return HttpClient(connections_max=connections_max, connect_timeout_s=20, read_timeout_s=20)


def wait_for(condition: object) -> None:
    waiting = threading.Event()
    for _ in range(4000):
        if condition():  # type: ignore[operator]
            return
        waiting.wait(0.005)
    raise AssertionError("it never came true")


async def use(client: HttpClient, server: Standing, times: int = 3) -> None:
    answers = await asyncio.gather(*(client.ask(server.address, "GET", "/", HOST) for _ in range(times)))
    assert [answer.body for answer in answers] == [b"hi"] * times


def test_a_client_goes_from_loop_to_loop(server: Standing) -> None:
    """What a loop that was closed has left open is closed by the next use, and by closing the client."""
    client = client_of()
    for number in range(1, 4):
        asyncio.run(use(client, server))
        assert server.opened == 3 * number
    wait_for(lambda: server.closed == 6)
    client.close()
    wait_for(lambda: server.closed == 9)
    del client
    gc.collect()


def test_a_client_that_nobody_holds_closes_what_a_closed_loop_has_left(server: Standing) -> None:
    client = client_of()
    asyncio.run(use(client, server))
    del client
    gc.collect()
    wait_for(lambda: server.closed == 3)


def test_a_loop_that_ends_within_requests_leaves_nothing_open(server: Standing) -> None:
    client = client_of(connections_max=2)
    loop = asyncio.new_event_loop()
    waiting = [loop.create_task(client.ask(server.address, "WAIT", "/", HOST)) for _ in range(5)]
    loop.run_until_complete(asyncio.sleep(0.2))
    wait_for(lambda: server.opened == 2)
    loop.close()
    for task in waiting:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # whoever closes a loop so is told
    del waiting, task
    asyncio.run(use(client, server, 2))
    wait_for(lambda: server.closed == 2)
    client.close()
    wait_for(lambda: server.closed == 4)
    gc.collect()


def test_each_loop_has_connections_of_its_own(server: Standing) -> None:
    client = client_of()
    barrier = threading.Barrier(3)

    async def together() -> None:
        for _ in range(20):
            await use(client, server)
        barrier.wait()

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(asyncio.run, together()) for _ in range(3)]:
            done.result()
    assert server.opened == 9
    client.close()
    wait_for(lambda: server.closed == 9)


def test_a_client_may_be_closed_by_another_thread(server: Standing) -> None:
    client = client_of()
    sync(get_loop(), use, client, server)
    client.close()
    wait_for(lambda: server.closed == 3)
    with pytest.raises(NotConnected, match="the client was closed"):
        sync(get_loop(), use, client, server)


def test_a_client_that_nobody_holds_is_closed_on_a_loop_of_another_thread(server: Standing) -> None:
    client = client_of()
    sync(get_loop(), use, client, server)
    del client
    gc.collect()
    wait_for(lambda: server.closed == 3)


def test_a_loop_that_stands_still_is_no_obstacle_to_closing(server: Standing) -> None:
    client = client_of()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(use(client, server))
    client.close()
    wait_for(lambda: server.closed == 3)
    loop.close()


PROGRAMS = {
    "fsspec's loop": """
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        sync(get_loop(), use, client)
    """,
    "fsspec's loop, within a request": """
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        sync(get_loop(), use, client)
        asyncio.run_coroutine_threadsafe(client.ask(address, "WAIT", "/", []), get_loop())
        time.sleep(0.2)
    """,
    "a loop that was closed": """
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        asyncio.run(use(client))
    """,
    "a loop that was not closed": """
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(use(client))
        atexit.register(loop.close)
    """,
    "used again while the process ends": """
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        sync(get_loop(), use, client)
        atexit._run_exitfuncs()
        sync(get_loop(), use, client)
    """,
    "in a circle": """
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        client.itself = client
        sync(get_loop(), use, client)
        del client
    """,
    # A forked process shares the parent's sockets, and what the kernel watches for it.
    "forked": """
        import os
        client = HttpClient(connections_max=4, connect_timeout_s=20, read_timeout_s=20)
        sync(get_loop(), use, client)
        before = set(client._pools[get_loop()]._all)
        sockets = [os.fstat(one._number) for one in before]
        child = os.fork()
        if child == 0:
            gc.collect()
            assert all(one._socket.fileno() == -1 for one in before), "the child holds them open"
            for number in range(3, 100):
                try:
                    assert os.fstat(number) not in sockets
                except OSError:
                    pass
            sync(get_loop(), use, client)
            client.close()
            del client
            gc.collect()
            raise SystemExit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        began = time.monotonic()
        sync(get_loop(), use, client)
        assert time.monotonic() - began < 10, "the parent hears no answers"
        pool = client._pools[get_loop()]
        assert len(pool._all) == 3
        assert pool._all == before, "the parent goes on with its own"
    """,
    "forked within requests": """
        import os
        client = HttpClient(connections_max=2, connect_timeout_s=20, read_timeout_s=20)
        waiting = [
            asyncio.run_coroutine_threadsafe(client.ask(address, "SLOW", "/", []), get_loop())
            for _ in range(4)
        ]
        time.sleep(0.3)
        child = os.fork()
        if child == 0:
            del waiting
            gc.collect()
            sync(get_loop(), use, client)
            raise SystemExit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        for one in waiting:
            assert one.result(20).body == b"hi"
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_ends_without_a_word(server: Standing, name: str) -> None:
    program = f"""
        import asyncio, atexit, gc, sys, time
        from fsspec.asyn import get_loop, sync
        from magicfs.stores.s3.http import Address, HttpClient

        address = Address("http", "127.0.0.1", {server.address.port})

        async def use(client):
            asked = (client.ask(address, "GET", "/", []) for _ in range(3))
            assert [answer.body for answer in await asyncio.gather(*asked)] == [b"hi"] * 3
    """
    text = textwrap.dedent(program) + textwrap.dedent(PROGRAMS[name])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    wait_for(lambda: server.closed == server.opened)
