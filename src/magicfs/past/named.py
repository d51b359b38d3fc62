"""Naming publications: tags are set, moved, removed and listed here, and read in ``past.tag_files``."""

from __future__ import annotations

import time
from typing import Final
from uuid import uuid4

from magicfs.errors import ObjectExists, PreconditionFailed, Unavailable, UsageError
from magicfs.formats.tag import Tag
from magicfs.past import tag_files as tags
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Store

_TRIES: Final = 20


def check_name(name: str) -> str:
    """Raise UsageError for a name that no tag can have."""
    if not tags.can_be_a_name(name):
        raise UsageError(
            f"{name!r} cannot be the name of a tag; use at most 100 letters, digits, '.', '_' and '-', not "
            "beginning with '.', nor ending with a dot and five to nine digits"
        )
    return name


async def all_tags(store: Store, destination: str, conditions: Conditions) -> list[Tag]:
    """All tags, sorted by their names."""
    prefix = paths.prefix_of(paths.join(destination, MANIFESTS, tags.TAGS))
    stems = [info.key.removeprefix(prefix).removesuffix(".json") async for info in store.list(prefix)]
    names = {tags.NUMBERED.sub("", stem) for stem in stems}
    found = [await tags.read_tag(store, destination, name, conditions) for name in sorted(names)]
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
    register = tags.register_of(store, destination, name, conditions)
    for _ in range(_TRIES):
        found = await tags.read_entry(store, destination, register, name)
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
    register = tags.register_of(store, destination, name, conditions)
    for _ in range(_TRIES):
        found = await tags.read_entry(store, destination, register, name)
        if found is None:
            return False
        try:
            await register.remove(found[1])
        except PreconditionFailed:
            continue
        return True
    raise Unavailable("untag", f"{store.bucket}/{register.key}", "others changed it each time; call again")
