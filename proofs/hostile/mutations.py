"""Changing sound bytes: by bytes, and by what they say."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

__all__ = ["HOSTILE_TEXTS", "HOSTILE_VALUES", "changed_bytes", "changed_document", "nested"]


def nested(depth: int) -> Any:
    """A list in a list, and so on."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


HOSTILE_TEXTS = (
    *("", ".", "..", "../x", "/etc/passwd", "a//b", "a/../b", "NaN", "-Infinity", "1e999999999"),
    *("x=NaN", "x=%2F..%2F", "%2F", "%00", "\x00", "\x1b[31m", "\u202e", "\u2028", "\udc80", "é" * 200),
    *(
        "9" * 5000,
        "x" * 70_000,
        "__magic_job-x",
        "_magicfs/current.json",
        "null",
        "0" * 64,
        "a\nb",
        "http://x",
    ),
)
"""Texts that a name, a key or a value must survive."""

HOSTILE_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**300, 1.5, 1e308, -0.0),
    *(
        [],
        {},
        [[]],
        {"": ""},
        [None],
        [0] * 100,
        {"a": {"b": [1]}},
        {"x" * 70_000: 0},
        nested(70),
        nested(500),
    ),
)
"""Values that a field must survive."""

_NUMBERS = (b"0", b"-1", b"1e400", b"9" * 25, b"9" * 5000, b"1.5", b"NaN", b"-Infinity", b"\xef\xbc\x91")
_PIECES = (b"[", b"]", b"{", b"}", b",", b'"', b"\\", b":", b"\\ud800", b"\x00", b"\xff", b"[" * 3000, b"\n")
_Path = tuple[Any, ...]


def changed_bytes(draw: random.Random, raw: bytes, other: bytes) -> bytes:
    """Some of the bytes changed, cut, doubled or exchanged for some of another file."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        raw = draw.choice(_BY_BYTES)(draw, raw, other)
    return raw


def changed_document(draw: random.Random, raw: bytes) -> bytes:
    """A JSON object with values exchanged, left out, doubled or added at some places."""
    document = json.loads(raw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        _change(draw, document)
    text = json.dumps(document, ensure_ascii=draw.random() < 0.5, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _change(draw: random.Random, document: Any) -> None:
    holder, name = draw.choice(list(_places(document, ())) or [(document, None)])
    match draw.randrange(5):
        case 0 if name is not None and isinstance(holder, dict):
            del holder[name]
        case 1 if isinstance(holder, dict):
            holder[draw.choice(HOSTILE_TEXTS)] = _copied(draw.choice(HOSTILE_VALUES))
        case 2 if isinstance(holder, list) and holder:
            holder.append(_copied(draw.choice(holder)))
        case 3 if name is not None:
            holder[name] = draw.choice(HOSTILE_TEXTS)
        case _ if name is not None:
            holder[name] = _copied(draw.choice(HOSTILE_VALUES))


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _places(value: Any, path: _Path) -> Any:
    """Every member of every object and list, as its holder and its name there."""
    names: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for name in names:
        yield value, name
        if len(path) < 20:
            yield from _places(value[name], (*path, name))


def _flipped(draw: random.Random, raw: bytes, _other: bytes) -> bytes:
    at = draw.randrange(len(raw) or 1)
    return raw[:at] + bytes([draw.randrange(256)]) + raw[at + 1 :]


def _cut(draw: random.Random, raw: bytes, _other: bytes) -> bytes:
    start, end = sorted((draw.randrange(len(raw) + 1), draw.randrange(len(raw) + 1)))
    return raw[:start] if draw.random() < 0.3 else raw[:start] + raw[min(end, start + 50) :]


def _doubled(draw: random.Random, raw: bytes, _other: bytes) -> bytes:
    start, end = sorted((draw.randrange(len(raw) + 1), draw.randrange(len(raw) + 1)))
    return raw[:end] + raw[start:]


def _numbered(draw: random.Random, raw: bytes, _other: bytes) -> bytes:
    at = draw.randrange(len(raw) or 1)
    while at < len(raw) and not raw[at : at + 1].isdigit():
        at += 1
    end = at
    while end < len(raw) and raw[end : end + 1].isdigit():
        end += 1
    return raw[:at] + draw.choice(_NUMBERS) + raw[end:]


def _put_in(draw: random.Random, raw: bytes, _other: bytes) -> bytes:
    at = draw.randrange(len(raw) + 1)
    return raw[:at] + draw.choice(_PIECES) + raw[at:]


def _spliced(draw: random.Random, raw: bytes, other: bytes) -> bytes:
    return raw[: draw.randrange(len(raw) + 1)] + other[draw.randrange(len(other) + 1) :]


_BY_BYTES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    *(_flipped, _flipped, _cut, _doubled, _numbered, _put_in, _spliced),
)
