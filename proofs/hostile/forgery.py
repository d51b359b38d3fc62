"""Forged records: a field gets a hostile value, and what names the record by its digest is forged, too."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from magicfs.errors import FormatError
from magicfs.formats import kinds
from magicfs.formats.gate import ROWS
from proofs.hostile.ground import Ground, Objects

__all__ = ["Forgery", "forgeries", "lay"]

_DEEP: Final = 200


@dataclass(frozen=True, slots=True)
class Forgery:
    """A hostile value in a field of a record.

    Attributes:
        scene: What lies there.
        key: The record, relative to the root.
        kind: Its format.
        field: The field, as the gate names it.
        value: What it is given.
    """

    scene: str
    key: str
    kind: str
    field: str
    value: Any

    def __str__(self) -> str:
        return f"{self.scene}: {self.kind} {self.key}: {self.field} = {json.dumps(self.value)[:90]}"


def _values(ground: Ground, objects: Objects) -> list[Any]:
    """Hostile values for any field: places, names, settings, numbers and shapes."""
    neighbor = next(key for key in objects if key.startswith(ground.key("finance/day=1/")))
    home = neighbor.partition("/lake/")[0] + "/home/key"
    own = ground.key("sales")
    places = ["", "/", "..", ".", "../../../etc/passwd", "/etc/passwd", neighbor, neighbor.rpartition("/")[0]]
    places += [ground.key("finance"), ground.key("late"), f"{own}/../finance", f"{own}/day=1/../../finance"]
    places += [home, own, f"{own}/_magicfs/current.json", "finance", "../finance", "_magicfs", "__magic"]
    places += ["../finance/day=1/part.csv", "sales10", "other-bucket"]
    names = ["x", "\0", "\x1b[2J\u202e", "\ud7ff" * 3000, "00000000-0000-4000-8000-000000000000", "e" * 64]
    names += ["committing", "aborting", "overwrite", "drop", "manifest", "file", "public-read", "?", "="]
    names += ["arn:aws:kms:us-east-1:666666666666:key/evil", "thrift://127.0.0.1:9"]
    numbers = [-1, 0, 1, 2**31, 2**53, 2**63 - 1, 2**63, 10**40, 1.5, True, False, None]
    shapes = [
        [],
        [[]],
        [neighbor],
        [home, home],
        {},
        {"key": neighbor},
        {"ACL": "public-read"},
        _nested(_DEEP),
    ]
    return [*places, *names, *numbers, *shapes]


def _nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def forgeries(ground: Ground, scene: str, seed: int | None = None) -> Iterator[Forgery]:
    """Every record of a scene, each field of its format, each hostile value; with a seed in another order.

    Without a seed they come so that each prefix has as many records, fields and values as it can.
    """
    objects, own = ground.objects(), ground.key("sales/")
    values, fields = _values(ground, objects), list[tuple[str, str, str]]()
    for key, raw in sorted(objects.items()):
        if key.startswith(own) and (kind := _kind_of(key, raw)) is not None:
            fields += [(key.removeprefix(f"{ground.root}/"), kind, row.field) for row in ROWS[kind]]
    order = [(place, number) for number in range(len(values)) for place in range(len(fields))]
    if seed is not None:
        random.Random(seed).shuffle(order)  # noqa: S311 - draws a test
    for place, number in order:
        key, kind, field = fields[place]
        # Neighboring fields begin with other values.
        value = values[(number + 7 * place) % len(values)]
        yield Forgery(scene, key, kind, field, value)


def _kind_of(key: str, raw: bytes) -> str | None:
    try:
        return kinds.detect(key, raw)
    except FormatError:
        return None


def lay(ground: Ground, forged: Forgery) -> None:
    """Write a forged record where the honest one was, and forge what names it by its SHA-256."""
    objects, key = ground.objects(), ground.key(forged.key)
    document = json.loads(objects[key])
    _set(document, forged.field, copy.deepcopy(forged.value))
    _write(ground, objects, key, json.dumps(document, ensure_ascii=True).encode())


def _write(ground: Ground, objects: Objects, key: str, raw: bytes) -> None:
    before = hashlib.sha256(objects[key]).hexdigest().encode()
    after = hashlib.sha256(raw).hexdigest().encode()
    objects[key] = raw
    ground.put(key, raw)
    for other, body in sorted(objects.items()):
        if before in body and other != key:
            _write(ground, objects, other, body.replace(before, after))


def _set(document: Any, field: str, value: Any) -> None:
    """Set a field that is named as the gate names it; what is not there on the way is made."""
    first, dot, rest = field.partition(".")
    name = first.removesuffix("[]")
    if name == "*":
        for one in [*list(document)[:1], "ACL", "SSEKMSKeyId", "uri"]:
            _put(document, one, rest, value)
        return
    if not first.endswith("[]"):
        _put(document, name, rest if dot else "", value)
        return
    found = document.get(name)
    if not isinstance(found, list) or not found:
        made: list[Any] = [{}] if dot else [None]
        found = document[name] = made
    if not dot:
        found[0] = value
        return
    if not isinstance(found[0], dict):
        found[0] = {}
    _set(found[0], rest, value)


def _put(document: dict[str, Any], name: str, rest: str, value: Any) -> None:
    if not rest:
        document[name] = value
        return
    if not isinstance(document.get(name), dict):
        document[name] = {}
    _set(document[name], rest, value)
