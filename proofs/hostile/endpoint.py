"""A hostile endpoint: each request of the stores of three clouds is answered by lies.

Nothing comes out but an error of ours or a right result; in time, and without reading on for ever. No key
comes from outside of the prefix, no request goes to another host, and nothing is not there unless the answer
says so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from magicfs.errors import MagicError, ObjectNotFound, UploadNotFound
from magicfs.stores import pages
from magicfs.stores.answer_rules import is_moment
from magicfs.stores.gcs import client as gcs_client
from proofs.hostile.endpoint_clients import PREFIX, Client, clients
from proofs.hostile.endpoint_lies import DRIPS, LIES, PAGES, Lie, is_applicable, mixed
from proofs.hostile.endpoint_mutants import ROWS
from proofs.hostile.endpoint_server import Asked, Reply, Sending, written
from proofs.hostile.part import Found, WrongLine

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz"]

NAME = "endpoint"
_SECONDS_MAX: Final = 5.0
_DRIP_SECONDS: Final = 1.8
"""What a mutant is given; sound code takes one second."""
_MESSAGE_MAX: Final = 1500
_LIES_MAX: Final = 100
_SHARE: Final = 11
"""``fixed`` answers one of so many lies to other clients than our own requests, and one of three to these."""


def fixed() -> Found:
    """A share of all lies to each operation of each client; empty pages and drips to all."""
    found = Found()
    with clients() as every, _quick():
        for client in every:
            share = 3 if client.name == "s3" else _SHARE
            for place, (operation, lie) in enumerate(_pairs(client)):
                if place % share == 0:
                    _attack(client, operation, lie, found)
            _empty_pages(client, found)
        for lie in DRIPS:
            _drip(every, lie, ("list", "get"), found)
    return found


def fuzz(until: float, seed: int) -> Found:
    """Lies and mixed answers drawn from a seed."""
    found, rng = Found(), random.Random(seed)  # noqa: S311 - it is repeatable
    with clients() as every, _quick():
        while time.monotonic() < until:
            client = rng.choice(every)
            operation = rng.choice(list(client.operations()))
            lie = mixed(rng) if rng.random() < 0.7 else rng.choice([*LIES, PAGES])
            if is_applicable(lie, client.name, operation):
                _attack(client, operation, lie, found, f" (seed {seed})")
    return found


def _pairs(client: Client) -> Iterator[tuple[str, Lie]]:
    for operation in client.operations():
        for lie in LIES:
            if is_applicable(lie, client.name, operation):
                yield operation, lie


@contextmanager
def _quick() -> Iterator[None]:
    """Fewer empty pages than there may be, and less patience."""
    kept = pages._EMPTY_MAX, gcs_client._SILENCE_S  # noqa: SLF001
    pages._EMPTY_MAX, gcs_client._SILENCE_S = 30, 0.2  # type: ignore[misc]  # noqa: SLF001
    try:
        yield
    finally:
        pages._EMPTY_MAX, gcs_client._SILENCE_S = kept  # type: ignore[misc]  # noqa: SLF001


def _empty_pages(client: Client, found: Found) -> None:
    for operation in client.operations():
        if is_applicable(PAGES, client.name, operation):
            _attack(client, operation, PAGES, found)


def _drip(
    every: Sequence[Client], lie: Lie, operations: Sequence[str], found: Found, seconds: float = _SECONDS_MAX
) -> None:
    """Answer several requests of all clients at once by a lie that takes time."""
    for client in every:
        client.reset()
        client.endpoint.lie = _liar(client, lie)
    before = sum(client.endpoint.answers for client in every)
    asked = [(client, name) for client in every for name in operations]

    async def one(client: Client, name: str) -> str:
        try:
            result = await asyncio.wait_for(client.operations()[name](client), seconds)
        except MagicError:
            return ""
        except TimeoutError:
            return "not over in time"
        except Exception as error:  # noqa: BLE001 - it is what is judged
            result = error
        return _shown(result)

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*[one(*pair) for pair in asked])

    for (client, name), problem in zip(asked, every[0].run(all_of_them()), strict=True):
        if problem:
            found.violations.append(f"{client.name} {name}, {lie.name}: {problem}")
    for client in every:
        client.endpoint.lie = None
    found.counts["answers"] += sum(client.endpoint.answers for client in every) - before


def _attack(client: Client, operation: str, lie: Lie, found: Found, how: str = "") -> None:
    """Answer one operation by one lie, and judge what comes of it."""
    endpoint = client.endpoint
    client.reset()
    endpoint.forget()
    fits: list[bool] = []
    endpoint.lie = _liar(client, lie, fits)
    before, strangers, began = endpoint.answers, endpoint.strangers, time.monotonic()
    result: Any
    try:
        result = client.run(client.operations()[operation](client), _SECONDS_MAX)
    except Exception as error:  # noqa: BLE001 - it is what is judged
        result = error
    finally:
        endpoint.lie = None
    took = time.monotonic() - began
    found.counts["answers"] += endpoint.answers - before
    where = f"{client.name} {operation}, {lie.name}{how}"
    must_fail = lie.must_fail and any(fits)
    problems = [*_of_result(operation, result, must_fail)]
    if must_fail:
        problems += _of_absence(client, result)
    if took > _SECONDS_MAX:
        problems.append(f"took {took:.1f} s")
    if endpoint.sent > lie.sent_max:
        problems.append(f"read {endpoint.sent:,} bytes, and would read on")
    if endpoint.strangers > strangers:
        problems.append("asked another host")
    if any(
        "Credential" in one.target or one.headers.get("x-amz-date", "").startswith("2035")
        for one in endpoint.asked
    ):
        problems.append("signed with the time of the endpoint")
    found.violations.extend(f"{where}: {problem}" for problem in problems)


def _liar(client: Client, lie: Lie, fits: list[bool] | None = None) -> Callable[[Asked, Reply], Sending]:
    count = 0

    def lied(asked: Asked, reply: Reply) -> Sending:
        nonlocal count
        count += 1
        if count > _LIES_MAX:  # who lets it go on so far meets the truth, and not the end of time
            return iter([written(reply, asked)])
        named = {**asked.headers, "x-elsewhere": str(client.endpoint.elsewhere)}
        sending = lie.send(Asked(asked.method, asked.target, named, asked.body), reply)
        if fits is not None:
            fits.append(sending is not None)
        return iter([written(reply, asked)]) if sending is None else sending

    return lied


def _of_result(operation: str, result: Any, must_fail: bool) -> Iterator[str]:
    if isinstance(result, BaseException):
        if not isinstance(result, MagicError):
            yield f"{type(result).__name__} came out: {str(result)[:200]!r}"
        elif not str(result).isprintable() or len(str(result)) > _MESSAGE_MAX:
            yield f"a message of {len(str(result))} characters: {str(result)[:200]!r}"
        return
    if must_fail:
        yield _shown(result)
    if operation == "get some" and len(result) > 4:
        yield f"{len(result)} bytes where 4 were asked for"
    for one in result if isinstance(result, list) else [result]:
        yield from _of_entry(operation, one)


def _of_entry(operation: str, one: Any) -> Iterator[str]:
    name = one if isinstance(one, str) else getattr(one, "key", getattr(one, "path", PREFIX))
    if operation in {"list", "list_directories", "list_uploads", "entries"} and not name.startswith(PREFIX):
        yield f"{name!r} lies elsewhere"
    size = getattr(one, "size", 0)
    if not isinstance(size, int) or size < -1 or (size == -1 and operation != "complete_upload"):
        yield f"a size of {size!r}"
    moment = getattr(one, "modified", None)
    if moment is not None and not is_moment(moment):
        yield f"a time of {moment!r}"


def _of_absence(client: Client, result: Any) -> Iterator[str]:
    absent = isinstance(result, ObjectNotFound | UploadNotFound)
    if absent and client.endpoint.statuses <= {200, 301, 302, 307, 308}:
        yield f"taken as nothing there: {_shown(result)}"


def _shown(result: Any) -> str:
    return f"came to {str(result)[:200]!r}"


def attack(names: Sequence[str], operations: Sequence[str], lies: Sequence[str]) -> Sequence[str]:
    """What some lies to some operations of some clients come to."""
    found = Found()
    with clients() as every, _quick():
        for client in every:
            if client.name not in names:
                continue
            for operation in operations:
                for lie in (*LIES, PAGES):
                    if lie.name in lies and is_applicable(lie, client.name, operation):
                        _attack(client, operation, lie, found)
        for lie in DRIPS:
            if lie.name in lies:
                _drip(
                    [client for client in every if client.name in names],
                    lie,
                    operations,
                    found,
                    _DRIP_SECONDS,
                )
    return found.violations


def _long_names() -> Sequence[str]:
    """What is kept of names of headers that are longer than any that a store sends."""
    from magicfs.stores.s3.http import answer

    kept = dict(answer._NAMES)  # noqa: SLF001
    answer._NAMES.clear()  # noqa: SLF001
    reader = answer.AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nx-%b: a\r\nContent-Length: 0\r\n\r\n" % (b"long" * 1000))
    long = [len(name) for name in answer._NAMES if len(name) > 100]  # noqa: SLF001
    answer._NAMES.clear()  # noqa: SLF001
    answer._NAMES.update(kept)  # noqa: SLF001
    return [f"a name of {size} bytes is kept" for size in long]


def _mutant(name: str, where: tuple[str, str, str], who: str, operation: str, lie: str) -> WrongLine:
    module, line, instead = where
    lies = partial(attack, [who], [operation], [lie])
    return WrongLine(name, f"magicfs.stores.{module}", line, instead, lies)


MUTANTS: Sequence[WrongLine] = (
    *(_mutant(name, where, *what) for name, where, *what in ROWS),
    WrongLine(
        "names of headers of any length are kept",
        "magicfs.stores.s3.http.answer",
        "if len(_NAMES) < _NAMES_MAX and len(name) <= _NAME_BYTES_MAX:",
        "if len(_NAMES) < _NAMES_MAX:",
        _long_names,
    ),
)
