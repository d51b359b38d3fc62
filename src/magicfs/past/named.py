"""Tags, which name publications: they are read, set, moved, removed and listed here.

::

    DEST/_magicfs/.tags/<tag>.json

A job's id never begins with a dot, so the directory is no job's.
"""

from __future__ import annotations

import re
import time
from typing import Final
from uuid import uuid4

from magicfs.errors import ObjectExists, PreconditionFailed, Unavailable, UsageError
from magicfs.formats.gate import admit
from magicfs.formats.rows import Place
from magicfs.formats.tag import Tag
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store
from magicfs.stores.register import Entry, Register

_TAGS: Final = ".tags"
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_NUMBERED: Final = re.compile(r"\.[0-9]{5,9}\Z")
_TRIES: Final = 20


def _can_be_a_name(name: str) -> bool:
    """Whether a tag may have a name."""
    return _NAME.fullmatch(name) is not None and _NUMBERED.search(name) is None


async def read_tag(store: Store, destination: str, name: str, conditions: Conditions) -> Tag | None:
    """A tag; None if there is none of this name, or none can have it."""
    if not _can_be_a_name(name):
        return None
    found = await _read_entry(store, destination, _register_of(store, destination, name, conditions), name)
    return None if found is None else found[0]


def _register_of(store: Store, destination: str, name: str, conditions: Conditions) -> Register:
    """Where a tag is."""
    return Register(store, paths.join(destination, MANIFESTS, _TAGS, f"{name}.json"), conditions)


async def _read_entry(
    store: Store, destination: str, register: Register, name: str
) -> tuple[Tag, Entry] | None:
    """A tag, and the version of it that was read; None if there is none."""
    entry = await register.read()
    if entry is None:
        return None
    path = f"{store.bucket}/{entry.key}"
    return admit("tag", Tag.from_bytes(path, entry.body), Place(path, store.bucket, destination, name)), entry


def check_name(name: str) -> str:
    """Raise UsageError for a name that no tag can have."""
    if not _can_be_a_name(name):
        raise UsageError(
            f"{name!r} cannot be the name of a tag; use at most 100 letters, digits, '.', '_' and '-', not "
            "beginning with '.', nor ending with a dot and five to nine digits"
        )
    return name


async def all_tags(store: Store, destination: str, conditions: Conditions) -> list[Tag]:
    """All tags, sorted by their names."""
    prefix = paths.prefix_of(paths.join(destination, MANIFESTS, _TAGS))
    stems = [info.key.removeprefix(prefix).removesuffix(".json") async for info in store.list(prefix)]
    names = {_NUMBERED.sub("", stem) for stem in stems}
    found = [await read_tag(store, destination, name, conditions) for name in sorted(names)]
    return [one for one in found if one is not None]


async def set_tag(
    store: Store,
    destination: str,
    conditions: Conditions,
    name: str,
    job: str,
    *,
    move: bool,
    keeps: str = "",
) -> None:
    """Let a tag name a job. A second call changes nothing.

    ``keeps``: under which id the pointer names the files that the tag keeps.

    Raises UsageError if it names another job and ``move`` is not given, Unavailable if others moved it all
    the time.
    """
    register = _register_of(store, destination, name, conditions)
    for _ in range(_TRIES):
        found = await _read_entry(store, destination, register, name)
        if found is not None:
            same = found[0].job_id == job
            if same and keeps in ("", found[0].keeps):
                return
            if not (same or move):
                raise UsageError(
                    f"tag {name!r} already names job {found[0].job_id}; nothing was changed; choose another "
                    "name, or pass move=True (--move)"
                )
        now = int(time.time() * 1000)
        tag = Tag(name=name, job_id=job, nonce=uuid4().hex, created_ms=now, keeps=keeps)
        try:
            if found is None:
                await register.create(tag.to_bytes())
            else:
                await register.swap(found[1], tag.to_bytes())
        except (ObjectExists, PreconditionFailed):
            continue
        return
    raise Unavailable("tag", f"{store.bucket}/{register.key}", "others changed it each time; call again")


async def remove_tag(store: Store, destination: str, conditions: Conditions, name: str) -> bool:
    """Remove a tag; False if there is none. The publication stays."""
    register = _register_of(store, destination, name, conditions)
    for _ in range(_TRIES):
        found = await _read_entry(store, destination, register, name)
        if found is None:
            return False
        try:
            await register.remove(found[1])
        except PreconditionFailed:
            continue
        return True
    raise Unavailable("untag", f"{store.bucket}/{register.key}", "others changed it each time; call again")
