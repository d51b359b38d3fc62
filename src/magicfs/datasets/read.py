"""Exactly the published files, whatever else a listing shows: of one job, or of the dataset as it is now.

``magicfs.manifests.view`` says what a chain of manifests shows. Nothing here trusts a cached listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from magicfs.datasets.as_of import job_as_of, view_at
from magicfs.datasets.connection import Way, open_destination
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain
from magicfs.manifests.chain import READING, View
from magicfs.manifests.comparison import compare, without_version
from magicfs.protocol import paths
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.transaction.others import find_unfinished_jobs

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = ["current_view", "dataset", "files_of_dataset", "read_manifest", "read_manifest_of", "shown_files"]


def read_manifest(url: str | PathLike[str], job: str | None = None, **way: Unpack[Way]) -> Manifest:
    """What one job published, by default the last one. Raises ObjectNotFound if it was not published."""
    destination = open_destination(url, for_reading=True, **way)
    return destination.run(read_manifest_of, job)


def dataset(
    url: str | PathLike[str],
    *,
    last: bool = False,
    as_of: str | datetime | None = None,
    schema: Any = None,
    format: Any = "parquet",  # noqa: A002 - as in pyarrow
    partitioning: Any = "hive",
    **way: Unpack[Way],
) -> ds.Dataset:
    """See ``magicfs.Dataset.to_arrow``."""
    try:
        import pyarrow.dataset as ds
        from pyarrow.fs import PyFileSystem

        from magicfs.datasets.arrow_files import PublishedFiles
    except ImportError as error:
        raise UsageError("dataset needs pyarrow; pip install 'magicfs[arrow]'") from error
    if last and as_of is not None:
        raise UsageError("give either last=True or as_of, not both; read_manifest names one job's files")
    destination = open_destination(url, for_reading=True, **way)
    location = destination.location
    files = destination.run(files_of_dataset, last, as_of)
    prefix = paths.prefix_of(location.path)
    found = {f"{prefix}{key}": files[key] for key in sorted(files) if is_data(key, "")}
    if not found and schema is None:
        raise UsageError(f"the dataset {location.url} has no files; pass schema= to read it as an empty one")
    arrow = PyFileSystem(PublishedFiles(destination.filesystem, found, location))
    return ds.dataset(
        list(found),
        schema=schema,
        format=format,
        filesystem=arrow,
        partitioning=partitioning,
        partition_base_dir=location.path,
    )


async def read_manifest_of(engine: Engine, location: Location, job: str | None) -> Manifest:
    """``read_manifest``, on the store's loop."""
    if job is None:
        job = await chain.newest_job(engine.store, location.key, READING)
        if job is None:
            raise await _nothing_published(engine, location)
    manifest = await chain.read(engine.store, location.key, job, READING)
    if manifest is None:
        raise ObjectNotFound(
            "read_manifest",
            f"{engine.store.bucket}/{chain.manifest_key(location.key, job)}",
            f"job {job} was not published to {location.url}",
            hint="check the id, or recover the job",
        )
    return manifest


async def files_of_dataset(
    engine: Engine, location: Location, last: bool, as_of: str | datetime | None = None
) -> Mapping[str, ManifestFile]:
    """The files by relative keys, with ``last`` those of the newest job, with ``as_of`` those of then.

    Raises as ``dataset``.
    """
    if as_of is not None:
        return await _files_as_of(engine, location, as_of)
    if last:
        return {file.key: file for file in (await read_manifest_of(engine, location, None)).files}
    return shown_files(location, await current_view(engine, location))


async def _files_as_of(
    engine: Engine, location: Location, as_of: str | datetime
) -> Mapping[str, ManifestFile]:
    """The files by relative keys, as they were published then and still are; raises as ``dataset``."""
    job = await job_as_of(engine, location, as_of)
    shown = shown_files(location, await view_at(engine, location, job))
    files = {key: file for key, file in shown.items() if is_data(key, "")}
    found = await compare(engine, location.key, files)
    gone = await without_version(engine, location.key, files, (*found.missing, *found.altered))
    if gone:
        raise ObjectNotFound(
            "dataset",
            f"{engine.store.bucket}/{paths.join(location.key, gone[0])}",
            f"{len(gone)} of {len(files)} files that {location.url} had when job {job} was published were "
            "deleted or written over by later jobs",
            hint="publish with keep= to keep them for a time",
        )
    return files


def shown_files(location: Location, found: View) -> Mapping[str, ManifestFile]:
    """The files of a view by relative keys; raises UsageError if there are others, which it does not know."""
    if found.older_files:
        raise UsageError(_older_files(location, "were there before the first job was published"))
    return found.files


async def current_view(engine: Engine, location: Location) -> View:
    """What the chain of manifests shows now; raises if nothing was published."""
    found = await chain.view(engine.store, location.key, READING)
    if found is None:
        raise await _nothing_published(engine, location)
    return found


async def _nothing_published(engine: Engine, location: Location) -> UsageError | ObjectNotFound:
    jobs = await find_unfinished_jobs(engine, location.key)
    publishing = [one.job_id for one in jobs if one.job and one.job.state not in SHOWS_NOTHING]
    if publishing:
        return ObjectNotFound(
            "read_manifest",
            f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
            f"job {publishing[0]} is being published to {location.url}, and is the first one there",
            hint=f"wait for it, or if its driver is dead run: magicfs recover {location.url}",
        )
    async for info in engine.store.list(paths.prefix_of(location.key)):
        if is_data(info.key, location.key):
            return UsageError(_older_files(location, "are there, and no job was published with magicfs"))
    return ObjectNotFound(
        "read_manifest",
        f"{engine.store.bucket}/{chain.pointer_key(location.key)}",
        f"no job was published to {location.url}",
        hint="check the URL",
    )


def _older_files(location: Location, since: str) -> str:
    return (
        f"files of {location.url} stand in no manifest: they {since}; if they belong to the dataset call "
        f"magicfs.adopt({location.url!r}), else remove them or publish with mode='overwrite'"
    )
