"""How connections are shared out, kept and given up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magicfs.stores.s3.http import HttpClient, NoAnswer, NotConnected
from magicfs.stores.s3.http.client import Pool
from tests.unit.stores_http.play import OK, Wire, answering, asking, pool_of, serving, until

pytestmark = pytest.mark.process

HOST = [("Host", "there")]


async def echoing(wire: Wire) -> None:
    """Answer with the target that was asked for."""
    while True:
        head, _ = await wire.request()
        target = head.split(b" ")[1]
        await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(target), target))


def check(pool: Pool) -> None:
    """The books are right."""
    idle = [one for stack in pool._idle.values() for one in stack]
    assert len(set(idle)) == len(idle)
    assert set(idle) == {one for one in pool._all if not one.is_busy}
    assert pool._taken == len(pool._all)
    assert not any(one.is_closed for one in pool._all)


def test_many_requests_share_few_connections() -> None:
    async def scenario() -> None:
        async with serving(echoing) as served, asking(connections_max=8) as client:
            asked = [client.ask(served.address, "GET", f"/{number}", HOST) for number in range(200)]
            answers = await asyncio.gather(*asked)
            assert [answer.body for answer in answers] == [b"/%d" % number for number in range(200)]
            assert len(served.wires) == 8
            check(pool_of(client))

    asyncio.run(scenario())


def test_who_waits_longest_is_first() -> None:
    seen: list[bytes] = []

    async def play(wire: Wire) -> None:
        while True:
            head, _ = await wire.request()
            seen.append(head.split(b" ")[1])
            await wire.send(OK)

    async def scenario() -> None:
        async with serving(play) as served, asking(connections_max=1) as client:
            await asyncio.gather(*(client.ask(served.address, "GET", f"/{n}", HOST) for n in range(50)))
            assert len(served.wires) == 1

    asyncio.run(scenario())
    assert seen == [b"/%d" % number for number in range(50)]


def test_servers_share_the_connections() -> None:
    async def scenario() -> None:
        async with serving(echoing) as one, serving(echoing) as two, asking(connections_max=3) as client:
            asked = [
                client.ask((one, two)[number % 2].address, "GET", f"/{number}", HOST) for number in range(100)
            ]
            answers = await asyncio.gather(*asked)
            assert [answer.body for answer in answers] == [b"/%d" % number for number in range(100)]
            await until(lambda: len(one.wires) + len(two.wires) - len(one.gone) - len(two.gone) <= 3)
            check(pool_of(client))

    asyncio.run(scenario())


def test_an_idle_connection_makes_place_for_another_server() -> None:
    async def scenario() -> None:
        async with serving(echoing) as one, serving(echoing) as two, asking(connections_max=1) as client:
            for number in range(1, 5):
                await client.ask(one.address, "GET", "/", HOST)
                await client.ask(two.address, "GET", "/", HOST)
                assert (len(one.wires), len(two.wires)) == (number, number)
            check(pool_of(client))

    asyncio.run(scenario())


def test_who_waits_for_a_server_that_is_not_there_does_not_hold_others_up() -> None:
    async def scenario() -> None:
        async with serving(answering) as gone:
            pass
        async with serving(echoing) as served, asking(connections_max=1) as client:
            addresses = [(gone, served)[number % 2].address for number in range(20)]
            asked = [client.ask(address, "GET", "/", HOST) for address in addresses]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            kinds = Counter(type(answer).__name__ for answer in answers)
            assert kinds == {"Answer": 10, "NotConnected": 10}
            check(pool_of(client))

    asyncio.run(scenario())


def test_idle_connections_are_closed_in_time() -> None:
    async def scenario() -> None:
        async with serving(answering) as served, asking(keepalive_s=0.2) as client:
            await asyncio.gather(*(client.ask(served.address, "GET", "/", HOST) for _ in range(5)))
            assert len(served.wires) == 5
            await until(lambda: len(served.gone) == 5)
            assert pool_of(client)._taken == 0
            assert pool_of(client)._timer is None, "without a connection nothing ticks"
            await client.ask(served.address, "GET", "/", HOST)
            assert pool_of(client)._timer is not None

    asyncio.run(scenario())


def test_a_connection_idle_for_too_long_is_not_used_though_nobody_has_closed_it_yet() -> None:
    async def scenario() -> None:
        async with serving(answering) as served, asking() as client:
            await client.ask(served.address, "GET", "/", HOST)
            [kept] = pool_of(client)._all
            kept.idle_since -= 3601
            await client.ask(served.address, "GET", "/", HOST)
            assert kept.is_closed
            assert len(served.wires) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("phase", ["queue", "answer", "body", "sending"])
def test_a_cancelled_request_leaves_its_connection_to_nobody(phase: str) -> None:
    async def play(wire: Wire) -> None:
        if wire.number > 0:
            await echoing(wire)
        if phase == "sending":
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(3600)
        await wire.request()
        reached.set()
        if phase == "body":
            await wire.send(OK[:-1])
        await wire.silence()

    async def scenario() -> None:
        nonlocal reached
        reached = asyncio.Event()
        body = b"x" * (2**26 if phase == "sending" else 10)
        headers = [("Content-Length", str(len(body)))]
        async with serving(play) as served, asking(connections_max=1) as client:
            first = asyncio.create_task(client.ask(served.address, "PUT", "/", headers, body))
            if phase == "sending":
                await until(lambda: any(one._sent for one in pool_of(client)._all))
            else:
                await reached.wait()
            waiting = [
                asyncio.create_task(client.ask(served.address, "GET", f"/{number}", HOST))
                for number in range(5)
            ]
            await until(lambda: len(pool_of(client)._waiters) == 5)
            cancelled = waiting.pop(2) if phase == "queue" else first
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            if phase == "queue":
                assert len(pool_of(client)._waiters) == 4
                first.cancel()
            numbers = [0, 1, 3, 4] if phase == "queue" else [0, 1, 2, 3, 4]
            assert [answer.body for answer in await asyncio.gather(*waiting)] == [b"/%d" % n for n in numbers]
            assert len(served.wires) == 2
            if phase != "sending":  # that one reads nothing, and so does not hear of it
                assert served.gone == [0]
            check(pool_of(client))

    reached: asyncio.Event
    asyncio.run(scenario())


def test_an_answer_that_comes_with_the_cancellation_does_not_save_its_connection() -> None:
    async def scenario() -> None:
        async with serving(Wire.silence) as served, asking() as client:
            asked = asyncio.create_task(client.ask(served.address, "GET", "/", HOST))
            await until(lambda: served.wires and any(one.is_busy for one in pool_of(client)._all))
            [one] = pool_of(client)._all
            served.wires[0].writer.write(OK)
            asked.cancel()
            one._on_readable()  # before the task has its turn
            with pytest.raises(asyncio.CancelledError):
                await asked
            assert one.is_closed
            check(pool_of(client))

    asyncio.run(scenario())


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_requests_cancelled_at_any_step_leave_the_others_alone(seed: int) -> None:
    """Each answer bears the name of its request: none may reach another one."""
    draw = random.Random(seed)

    async def play(wire: Wire) -> None:
        while True:
            head, _ = await wire.request()
            target = head.split(b" ")[1]
            said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(target), target)
            middle = draw.randrange(len(said))
            await wire.send(said[:middle])
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
            await wire.send(said[middle:])
            if draw.random() < 0.05:
                return

    async def cancel_later(task: asyncio.Task[object]) -> None:
        for _ in range(draw.randrange(60)):
            await asyncio.sleep(0)
        task.cancel()

    async def scenario() -> None:
        async with serving(play) as one, serving(play) as two, asking(connections_max=3) as client:
            tasks = []
            canceling = []
            for number in range(60):
                address = draw.choice((one, two)).address
                tasks.append(asyncio.create_task(client.ask(address, "GET", f"/{number}", HOST)))
                if draw.random() < 0.5:
                    canceling.append(asyncio.create_task(cancel_later(tasks[-1])))
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*canceling)
            for number, answer in enumerate(answers):
                if isinstance(answer, BaseException):
                    assert isinstance(answer, NoAnswer | asyncio.CancelledError), answer
                else:
                    assert answer.body == b"/%d" % number
            check(pool_of(client))
            assert not pool_of(client)._waiters

    asyncio.run(scenario())


def test_closing_ends_every_request() -> None:
    async def play(wire: Wire) -> None:
        if wire.number == 0:
            await answering(wire)
        await wire.silence()

    async def scenario() -> None:
        async with serving(play) as served, asking(connections_max=2) as client:
            await client.ask(served.address, "GET", "/", HOST)
            asked = [asyncio.create_task(client.ask(served.address, "GET", "/", HOST)) for _ in range(2)]
            del asked[0]  # answered on the kept connection
            asked += [asyncio.create_task(client.ask(served.address, "GET", "/", HOST)) for _ in range(4)]
            await until(lambda: len(served.wires) == 2)
            await asyncio.sleep(0.05)
            pool = pool_of(client)
            client.close()
            told = [str(error) for error in await asyncio.gather(*asked, return_exceptions=True) if error]
            assert any("the client was closed" in text for text in told)
            await until(lambda: len(served.gone) == 2)
            assert pool._taken == 0
            for _ in range(2):
                client.close()
                with pytest.raises(NotConnected, match="the client was closed"):
                    await client.ask(served.address, "GET", "/", HOST)

    asyncio.run(scenario())


def test_closing_while_a_connection_is_opened_leaves_none() -> None:
    async def scenario() -> None:
        async with serving(answering) as served, asking() as client:
            asked = asyncio.create_task(client.ask(served.address, "GET", "/", HOST))
            await asyncio.sleep(0)
            pool = pool_of(client)
            client.close()
            with pytest.raises(NotConnected, match="the client was closed"):
                await asked
            assert pool._taken == 0

    asyncio.run(scenario())


def test_a_client_that_nobody_holds_closes_its_connections() -> None:
    async def scenario() -> None:
        async with serving(answering) as served:
            client = HttpClient(connections_max=1, connect_timeout_s=5, read_timeout_s=5)
            await client.ask(served.address, "GET", "/", HOST)
            del client
            await until(lambda: served.gone)

    asyncio.run(scenario())
