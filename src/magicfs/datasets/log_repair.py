"""A log of publications of which a file is gone or damaged: making it anew from the manifests."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from magicfs.datasets.connection import told_as_newest
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, MagicError, ObjectExists, PreconditionFailed, UsageError
from magicfs.formats.log import is_log_file
from magicfs.manifests import chain, log_growth
from magicfs.manifests.chain import READING
from magicfs.manifests.log import Past
from magicfs.manifests.log_check import read_all
from magicfs.manifests.log_files import LogWriter
from magicfs.manifests.log_news import News, runs_beside
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import conditions_of
from magicfs.stores.port import Store
from magicfs.stores.register import Register

__all__ = ["repair_log"]

_FILE: Final = re.compile(r"(?P<job>log-[0-9a-f-]{36})/(?P<name>[^/]+)")


async def repair_log(engine: Engine, location: Location, *, dry_run: bool) -> tuple[str, int]:
    """Write the log anew if a file of it is gone or damaged, and let the pointer name that.

    What manifests tell counts, then what can be read of the old log. That is left to the next compaction,
    which deletes it.

    Returns what is wrong with the log, empty if nothing is; and how many publications the new one has.

    Raises as ``magicfs.repair``.
    """
    destination = location.key
    seen = await chain.read_pointer(engine.store, destination, READING)
    if seen is None or seen[0].log is None:
        return "", 0
    pointer, entry = seen
    assert pointer.log is not None
    found = await read_all(engine.store, destination, pointer.log)
    if not found.problem:
        return "", 0
    jobs, runs = await News({}).of(engine.store, destination, Past(pointer, None))
    told = {one.job_id for one in jobs}
    jobs = [*(one for one in found.jobs if one.job_id not in told), *jobs]
    if dry_run:
        return found.problem, len(jobs)
    store = (await told_as_newest(engine, location)).store
    conditions = await conditions_of(store, paths.join(destination, MANIFESTS))
    if not conditions.put_if_absent:
        raise UsageError(
            f"the store {store.name!r} ignores conditional writes, so a repair could cut off a job that "
            "joins at the same moment; nothing was changed; use another store"
        )
    writer = LogWriter(store, destination, f"log-{uuid4()}")
    beside = runs_beside(jobs, runs, found.runs)
    outdated = ["/".join(at) for at in found.files]
    file, _ = await log_growth.write(
        writer, store, destination, None, pointer.job_id, jobs, beside, outdated=outdated
    )
    head = Register(store, chain.pointer_key(destination), conditions, lasting=True)
    try:
        await head.swap(entry, replace(pointer.logged(file), nonce=uuid4().hex).to_bytes())
    except (ObjectExists, PreconditionFailed) as error:
        with suppress(MagicError):
            await writer.remove()
        raise CommitDenied(
            f"a job was published to {location.url} meanwhile; the log was not repaired; call again"
        ) from error
    await _remove_leftovers(store, destination, writer.job)
    return found.problem, len(jobs)


async def _remove_leftovers(store: Store, destination: str, job: str) -> None:
    """Delete what repairs have left that died: the pointer never names their logs. No trouble raises."""
    directory = paths.prefix_of(paths.join(destination, MANIFESTS))
    left = []
    with suppress(MagicError):
        async for info in store.list(f"{directory}log-"):
            match = _FILE.fullmatch(info.key.removeprefix(directory))
            if match is not None and match["job"] != job and is_log_file(match["name"]):
                left.append(info.key)
        at_once = store.capabilities.bulk_delete_max
        for start in range(0, len(left), at_once):
            await store.delete(left[start : start + at_once])
