"""The dataset against the bucket: what is missing, altered, or foreign."""

from __future__ import annotations

from os import PathLike
from typing import Unpack

from magicfs.datasets.connection import Way, open_destination
from magicfs.datasets.read import current_view
from magicfs.engine import Engine
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.comparison import compare
from magicfs.manifests.kept import kept_by
from magicfs.operate.deep_look import look_into
from magicfs.operate.old_pointer import sort_out, unlinked
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.report import VerifyReport
from magicfs.transaction.others import find_unfinished_jobs


def verify(url: str | PathLike[str], *, deep: bool = False, **way: Unpack[Way]) -> VerifyReport:
    """See ``magicfs.Dataset.verify``."""
    destination = open_destination(url, for_reading=True, **way)
    return destination.run(verify_files, deep=deep)


async def verify_files(engine: Engine, location: Location, *, deep: bool = False) -> VerifyReport:
    """``verify``, on the store's loop."""
    view = await current_view(engine, location)
    found = await compare(engine, location.key, view.files)
    foreign = dict(found.foreign)
    kept = await _kept(engine, location) if foreign else {}
    for key, etag in found.foreign.items():
        if etag.strip('"') == kept.get(key):
            del foreign[key]
    unfinished = await find_unfinished_jobs(engine, location.key)
    bad = {*found.missing, *found.altered}
    lost = await unlinked(engine, location, young=not (bad or foreign))
    done = await sort_out(engine, location, lost, foreign, foreign.keys(), {})
    there = [file for key, file in view.files.items() if deep and key not in bad]
    looked = await look_into(engine, location.key, there)
    return VerifyReport(
        location.url,
        view.newest_job,
        len(view.files),
        sum(file.size for file in view.files.values()),
        missing=found.missing,
        altered=found.altered,
        foreign=tuple(foreign),
        kept=len(found.foreign) - len(foreign),
        unfinished=tuple(one.job_id for one in unfinished),
        damaged=looked.damaged,
        by_store=looked.by_store,
        read=looked.read,
        confirmed=looked.confirmed,
        unlinked=tuple(done.jobs),
    )


async def _kept(engine: Engine, location: Location) -> dict[str, str]:
    """ETags of the replaced files that jobs keep, by relative keys."""
    seen = await chain.read_pointer(engine.store, location.key, READING)
    found = await kept_by(engine.store, location.key, READING, seen[0].keeping if seen else ())
    return {
        paths.relative_to(one.key, location.key): one.etag.strip('"')
        for objects in found.values()
        for one in objects
    }
