"""Giving a publication a name that people remember."""

from __future__ import annotations

from datetime import datetime
from os import PathLike
from typing import Unpack

from magicfs.datasets.connection import Way, on_destination, told_as_newest
from magicfs.datasets.read import not_published
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past import named
from magicfs.past.as_of import job_as_of
from magicfs.past.held import hold, is_kept
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import Conditions, conditions_of


def tag(
    url: str | PathLike[str],
    name: str,
    as_of: str | datetime | None = None,
    *,
    move: bool = False,
    keep: bool = False,
    **way: Unpack[Way],
) -> str:
    """See ``magicfs.Dataset.tag``."""
    named.check_name(name)
    return on_destination(set_tag, url, **way, name=name, as_of=as_of, move=move, keep=keep)


def untag(url: str | PathLike[str], name: str, **way: Unpack[Way]) -> bool:
    """See ``magicfs.Dataset.untag``."""
    named.check_name(name)
    return on_destination(_remove, url, **way, name=name)


async def set_tag(
    engine: Engine,
    location: Location,
    *,
    name: str,
    as_of: str | datetime | None,
    move: bool,
    keep: bool = False,
) -> str:
    """``tag``, on the store's loop."""
    if as_of is None:
        job = await chain.newest_job(engine.store, location.key, READING)
        if job is None:
            raise await not_published("tag", engine, location)
    else:
        job = await job_as_of(engine, location, as_of)
    engine = await told_as_newest(engine, location)
    store = engine.store
    conditions = await conditions_of(store, paths.join(location.key, MANIFESTS))
    keeps = await _held(engine, location, conditions, name, job, move=move) if keep else ""
    await named.set_tag(store, location.key, conditions, name, job, move=move, keeps=keeps)
    return job


async def _held(
    engine: Engine, location: Location, conditions: Conditions, name: str, job: str, *, move: bool
) -> str:
    """Have the files kept that a tag is going to name; returns under which id."""
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {engine.store.name!r} ignores conditional writes, so a tag cannot keep files there; "
            "nothing was changed; leave keep out"
        )
    there = await named.read_tag(engine.store, location.key, name, conditions)
    if there is not None and there.job_id == job and await is_kept(engine, location, there.keeps):
        return there.keeps
    if there is not None and there.job_id != job and not move:
        return ""  # it is refused
    return await hold(engine, location, conditions, job)


async def _remove(engine: Engine, location: Location, *, name: str) -> bool:
    conditions = await conditions_of(engine.store, paths.join(location.key, MANIFESTS))
    return await named.remove_tag(engine.store, location.key, conditions, name)
