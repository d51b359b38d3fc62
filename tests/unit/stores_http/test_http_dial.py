"""How a server is reached that has several addresses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import Iterator

import pytest

from magicfs.stores.s3.http import Address, Answer, HttpClient, NotConnected, dial
from magicfs.stores.s3.http.dial import Dialer
from tests.unit.stores_http.play import answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

HOST = [("Host", "there")]
HI = Answer(200, {"content-length": "2"}, b"hi")


@pytest.fixture
def refusing() -> Iterator[int]:
    """A port on which connections are refused."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def hanging() -> Iterator[int]:
    """A port on which connections are neither taken nor refused: the queue of who waits is full."""
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(socket.socket())
        bound.bind(("127.0.0.1", 0))
        bound.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(bound.getsockname())
        yield bound.getsockname()[1]


def known(monkeypatch: pytest.MonkeyPatch, *places: tuple[int, tuple[object, ...]]) -> list[str]:
    """Let every name have these addresses; the list tells how often one was asked for."""
    asked: list[str] = []

    def ask(host: str, *told: object, **more: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(family, socket.SOCK_STREAM, 6, "", where) for family, where in places]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    return asked


def test_an_address_of_ip_version_6() -> None:
    async def scenario() -> None:
        async with serving(answering, host="::1") as served, asking() as client:
            assert await client.ask(served.address, "GET", "/", HOST) == HI
            [made] = pool_of(client)._all
            assert made._socket.family == socket.AF_INET6

    asyncio.run(scenario())


def test_a_name_with_addresses_of_both_families() -> None:
    async def scenario() -> None:
        for host in ("127.0.0.1", "::1"):
            async with serving(answering, host=host) as served, asking() as client:
                places = await asyncio.get_running_loop().getaddrinfo("localhost", 1)
                if host in {place[4][0] for place in places}:
                    address = Address("http", "localhost", served.address.port)
                    assert await client.ask(address, "GET", "/", HOST) == HI

    asyncio.run(scenario())


def test_an_address_that_refuses_is_passed_over(monkeypatch: pytest.MonkeyPatch, refusing: int) -> None:
    async def scenario() -> None:
        async with serving(answering) as served, asking(connections_max=3) as client:
            there = (socket.AF_INET, ("127.0.0.1", served.address.port))
            known(monkeypatch, (socket.AF_INET, ("127.0.0.1", refusing)), there)
            asked = [client.ask(Address("http", "name", 80), "GET", "/", HOST) for _ in range(9)]
            assert await asyncio.gather(*asked) == [HI] * 9

    asyncio.run(scenario())
    gc.collect()


def test_an_address_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch, hanging: int) -> None:
    """The next one is tried while it hangs, and what it may still come to is closed."""

    async def scenario() -> None:
        async with serving(answering) as served, asking(connect_timeout_s=60) as client:
            there = (socket.AF_INET, ("127.0.0.1", served.address.port))
            known(monkeypatch, (socket.AF_INET, ("127.0.0.1", hanging)), there)
            async with asyncio.timeout(20):
                assert await client.ask(Address("http", "name", 80), "GET", "/", HOST) == HI
            assert pool_of(client)._taken == 1
            await until(lambda: not [task for task in asyncio.all_tasks() if "_reach" in repr(task)])

    asyncio.run(scenario())
    gc.collect()


def test_of_two_addresses_that_answer_at_once_one_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    async def scenario() -> None:
        gate = asyncio.Event()

        async def reach(dialer: Dialer, place: object) -> socket.socket:
            await gate.wait()
            made.append(socket.socket())
            return made[-1]

        monkeypatch.setattr(Dialer, "_reach", reach)
        monkeypatch.setattr(dial, "_HEAD_START_S", 0.01)
        async with asking() as client:
            known(monkeypatch, *[(socket.AF_INET, ("127.0.0.1", 1))] * 2)
            asked = asyncio.create_task(pool_of(client)._dialer._connect("name", 80))
            await asyncio.sleep(0.1)
            gate.set()
            won = await asked
            assert sorted(one.fileno() == -1 for one in made) == [False, True]
            won.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["times out", "is cancelled"])
def test_who_hangs_altogether_is_given_up(monkeypatch: pytest.MonkeyPatch, hanging: int, how: str) -> None:
    async def scenario() -> None:
        async with asking(connect_timeout_s=0.5 if how == "times out" else 60) as client:
            known(monkeypatch, *[(socket.AF_INET, ("127.0.0.1", hanging))] * 2)
            asked = asyncio.create_task(client.ask(Address("http", "name", 80), "GET", "/", HOST))
            await asyncio.sleep(0.1)
            if how == "is cancelled":
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
            else:
                told = "^no connection to name:80: it took longer than 0.5 s$"
                with pytest.raises(NotConnected, match=told):
                    await asked
            assert pool_of(client)._taken == 0

    asyncio.run(scenario())
    gc.collect()


def test_a_loop_that_ends_while_a_connection_is_opened_says_nothing(hanging: int) -> None:
    client = HttpClient(connections_max=1, connect_timeout_s=60, read_timeout_s=60)
    address = Address("http", "127.0.0.1", hanging)
    loop = asyncio.new_event_loop()
    asked = [loop.create_task(client.ask(address, "GET", "/", HOST)) for _ in range(3)]
    loop.run_until_complete(asyncio.sleep(0.1))
    loop.close()
    client.close()
    for task in asked:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # whoever closes a loop so is told
    del asked, task
    gc.collect()


def test_why_no_address_was_reached_is_told(monkeypatch: pytest.MonkeyPatch, refusing: int) -> None:
    async def scenario() -> None:
        async with asking() as client:
            asked = known(monkeypatch, *[(socket.AF_INET, (f"127.0.0.{n}", refusing)) for n in (1, 2)])
            one, two = (f"Connect call failed ('127.0.0.{n}', {refusing})" for n in (1, 2))
            for _ in range(2):
                with pytest.raises(NotConnected) as caught:
                    await client.ask(Address("http", "name", 80), "GET", "/", HOST)
                assert str(caught.value) == f"no connection to name:80: {one}; {two}"
            assert asked == ["name", "name"], "the server may have moved"

    asyncio.run(scenario())
    gc.collect()


def test_a_name_is_asked_for_once_in_a_while_and_its_addresses_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with (
            serving(answering) as one,
            serving(answering) as two,
            serving(answering, host="::1") as six,
            asking(connections_max=9) as client,
        ):
            four = [(socket.AF_INET, ("127.0.0.1", served.address.port)) for served in (one, two)]
            asked = known(monkeypatch, *four, (socket.AF_INET6, ("::1", six.address.port, 0, 0)))
            address = Address("http", "name", 80)
            await asyncio.gather(*(client.ask(address, "GET", "/", HOST) for _ in range(8)))
            assert asked == ["name"]
            assert [len(served.wires) for served in (one, two, six)] == [4, 4, 0]
            dialer = pool_of(client)._dialer
            dialer._known = {key: (0.0, turns) for key, (_, turns) in dialer._known.items()}
            await dialer._places("name", 80)
            assert asked == ["name", "name"]

    asyncio.run(scenario())
