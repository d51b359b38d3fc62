"""A server of S3 that says what a test tells it to, and a store that asks it; nothing is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from magicfs.stores.memory.store import World
from magicfs.stores.s3.http import Address, Answer
from magicfs.stores.s3.requests.line import Line
from magicfs.stores.s3.store import S3Store
from proofs.doubles.s3_wire import over_wire

BUCKET = "bucket"


class Asked(NamedTuple):
    address: Address
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Script:
    """A transport that gives answers one after another, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []

    async def ask(
        self,
        address: Address,
        method: str,
        target: str,
        headers: Sequence[tuple[str, str]],
        body: Any = b"",
        *,
        size_max: int | None = None,
        patience_s: float = 0.0,
    ) -> Answer:
        named = {name.lower(): value for name, value in headers}
        self.asked.append(Asked(address, method, target, named, bytes(body)))
        return self.answers.pop(0)


def scripted(*answers: Answer) -> tuple[S3Store, Line, Script]:
    """A store, its line, and what answers."""
    store = over_wire(World(create_buckets=True).store(BUCKET), lambda: 1_800_000_000.0)
    line, script = store._given_line, Script(*answers)
    assert line is not None
    line.transport = script
    return store, line, script


def error(status: int, code: str, more: str = "", **headers: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>told so</Message>{more}</Error>".encode()
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def document(text: str) -> Answer:
    return Answer(200, {}, text.encode())


def run(program: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(program)
