"""What the files of a dataset say of themselves, without opening one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from magicfs.datasets.read import current_view, read_manifest_of
from magicfs.engine import Engine
from magicfs.formats.footer import Footer
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests import chain
from magicfs.manifests import footers as lists
from magicfs.manifests.chain import READING
from magicfs.past.as_of import job_as_of, view_at
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location


async def footers_at(
    engine: Engine, location: Location, *, last: bool = False, as_of: str | datetime | None = None
) -> dict[str, Footer | None]:
    """See ``magicfs.Dataset.footers``."""
    start, shown = await _shown(engine, location, last=last, as_of=as_of)
    found = await footers_of_view(engine, location, start, shown)
    return {key: found.get(key) for key in sorted(shown) if is_data(key, "")}


async def footers_of_view(
    engine: Engine, location: Location, start: str, files: Mapping[str, ManifestFile]
) -> dict[str, Footer]:
    """The footers of some files, of those that have one, from a job on down the chain."""
    below = chain.chain(engine.store, location.key, READING, start=start, hidden="readable")
    return await lists.footers_of_files(engine.store, location.key, below, files)


async def _shown(
    engine: Engine, location: Location, *, last: bool, as_of: str | datetime | None
) -> tuple[str, Mapping[str, ManifestFile]]:
    """Where in the chain to begin, and the files that are asked about."""
    if last:
        manifest = await read_manifest_of(engine, location, None)
        return manifest.job_id, {one.key: one for one in manifest.files}
    if as_of is not None:
        job = await job_as_of(engine, location, as_of)
        return job, (await view_at(engine, location, job)).files
    view = await current_view(engine, location)
    return view.head.job_id, view.files
