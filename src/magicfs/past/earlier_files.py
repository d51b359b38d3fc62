"""The files of an earlier publication, where they lie now: in their place, by their versions, or aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from magicfs.datasets.read import shown_files
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.chain import READING
from magicfs.manifests.comparison import compare
from magicfs.manifests.kept import places_aside
from magicfs.past.as_of import job_as_of, view_at
from magicfs.past.kept_versions import has_version
from magicfs.protocol import paths
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.runtime.parallel import gathered


async def files_as_of(
    engine: Engine, location: Location, as_of: str | datetime
) -> Mapping[str, ManifestFile]:
    """The data files by relative keys, as they were published then and still are; the key of a file itself
    says where it lies now.

    Raises as ``magicfs.Dataset.to_arrow``.
    """
    job = await job_as_of(engine, location, as_of)
    shown = shown_files(location, await view_at(engine, location, job))
    files = {key: file for key, file in shown.items() if is_data(key, "")}
    files = await lying_where_they_are(engine, location.key, files)
    if gone := await without_any(engine, location.key, files):
        raise ObjectNotFound(
            "read",
            f"{engine.store.bucket}/{paths.join(location.key, gone[0])}",
            f"{len(gone)} of {len(files)} files that {location.url} had when job {job} was published are "
            "gone or overwritten",
            hint="publish with keep= to keep replaced files for a time",
        )
    return files


async def lying_where_they_are(
    engine: Engine, destination: str, files: Mapping[str, ManifestFile]
) -> dict[str, ManifestFile]:
    """Files by relative keys, those that were moved aside with the key and nothing else of their copies."""
    places = await places_aside(engine.store, destination, READING, files)
    copies = {
        key: replace(files[key], key=place, etag="", write_id=None, version=None)
        for key, place in places.items()
    }
    return {**files, **copies}


async def without_any(engine: Engine, destination: str, files: Mapping[str, ManifestFile]) -> list[str]:
    """The keys of files that neither lie where they should nor are kept by the version that is named."""
    found = await compare(engine, destination, {one.key: one for one in files.values()})
    doubtful = {*found.missing, *found.altered}
    asked = [key for key, one in files.items() if one.key in doubtful]

    async def is_kept(key: str) -> bool:
        version = files[key].version
        return bool(version) and await has_version(engine.store, paths.join(destination, key), version or "")

    kept = await gathered(asked, is_kept, engine.concurrency)
    return sorted(key for key, is_there in zip(asked, kept, strict=True) if not is_there)
