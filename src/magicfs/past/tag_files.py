"""Tags: names for publications.

::

    DEST/_magicfs/.tags/<tag>.json

A job's id never begins with a dot, so the directory is no job's.
"""

from __future__ import annotations

import re
from typing import Final

from magicfs.formats.gate import admit
from magicfs.formats.rows import Place
from magicfs.formats.tag import Tag
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register

TAGS: Final = ".tags"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
NUMBERED: Final = re.compile(r"\.[0-9]{5,9}\Z")


def can_be_a_name(name: str) -> bool:
    """Whether a tag may have a name."""
    return _NAME.fullmatch(name) is not None and NUMBERED.search(name) is None


async def read_tag(store: Store, destination: str, name: str, conditions: Conditions) -> Tag | None:
    """A tag; None if there is none of this name, or none can have it."""
    if not can_be_a_name(name):
        return None
    found = await read_entry(store, destination, register_of(store, destination, name, conditions), name)
    return None if found is None else found[0]


def register_of(store: Store, destination: str, name: str, conditions: Conditions) -> Register:
    """Where a tag is."""
    return Register(store, paths.join(destination, MANIFESTS, TAGS, f"{name}.json"), conditions)


async def read_entry(
    store: Store, destination: str, register: Register, name: str
) -> tuple[Tag, Entry] | None:
    """A tag, and the version of it that was read; None if there is none."""
    entry = await register.read()
    if entry is None:
        return None
    path = f"{store.bucket}/{entry.key}"
    return admit("tag", Tag.from_bytes(path, entry.body), Place(path, store.bucket, destination, name)), entry
