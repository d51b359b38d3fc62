"""Readers of manifests: exactly the published files, whatever else a listing shows.

====================  =======================================================================================
``read_manifest``     one job: which files it brought, with sizes and ETags
``dataset``           the dataset as it is now: what all published jobs brought, less what later ones replaced
``verify``            the dataset against the bucket: what is missing, altered, or foreign
``adopt``             makes files that are older than the first manifest part of the dataset
====================  =======================================================================================

What a chain of manifests shows is told in ``magicfs.manifests.chain``. Nothing here trusts a cached listing;
only ``adopt`` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from fsspec.asyn import sync
from fsspec.spec import AbstractFileSystem

from magicfs.datasets import adopt as older_files
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.job.spec import location_of
from magicfs.manifests import chain
from magicfs.manifests.chain import READING, View
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_data
from magicfs.protocol.job_state import SHOWS_NOTHING
from magicfs.protocol.paths import Location
from magicfs.protocol.readback import WRITE_ID
from magicfs.report import VerifyReport
from magicfs.stores import resolve
from magicfs.stores.port import ObjectInfo, Store
from magicfs.transaction.others import find_unfinished_jobs

if TYPE_CHECKING:
    import pyarrow.dataset

__all__ = ["VerifyReport", "adopt", "dataset", "read_manifest", "verify"]

_CONCURRENCY = 32
_P = ParamSpec("_P")
_T = TypeVar("_T")


def read_manifest(
    url: str,
    job: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> Manifest:
    """What one job published.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        job: The job's id; by default the one published last.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: No job was published there, or not this one.
        FormatError: The manifest cannot be believed, or a newer magicfs wrote it.
        UsageError: The URL or the id is none.
        StoreError: The store refused, or did not answer.
    """
    place = _place(url, storage_options, filesystem)
    return place.run(_read_manifest, place.location, job)


def dataset(
    url: str,
    *,
    last: bool = False,
    schema: Any = None,
    format: Any = "parquet",  # noqa: A002 - as in pyarrow
    partitioning: Any = "hive",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> pyarrow.dataset.Dataset:
    """The dataset as it is at this moment: the visible files of all published jobs, and no others.

    Files that become visible, or are replaced, afterwards are no part of it. Where a later job has replaced
    and deleted files meanwhile, reading them raises ``FileNotFoundError``: make the dataset again.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        last: Only the files of the job that was published last.
        schema: A pyarrow schema; by default the first file's. Needed when there are no files.
        format: As for ``pyarrow.dataset.dataset``.
        partitioning: As for ``pyarrow.dataset.dataset``; taken from the names below the destination.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: Nothing was published there.
        UsageError: There are files that no manifest knows, from before the first job; or no files and no
            schema; or pyarrow is not installed.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    try:
        import pyarrow.dataset as ds
        from pyarrow.fs import FSSpecHandler, PyFileSystem
    except ImportError as error:
        raise UsageError("dataset needs pyarrow; pip install 'magicfs[arrow]'") from error
    place = _place(url, storage_options, filesystem)
    location = place.location
    files = place.run(_files_of_dataset, location, last)
    prefix = paths.prefix_of(location.path)
    found = [f"{prefix}{key}" for key in sorted(files) if is_data(key, "")]
    if not found and schema is None:
        raise UsageError(f"the dataset {location.url} has no files; pass schema= to read it as an empty one")
    arrow = PyFileSystem(FSSpecHandler(place.filesystem))
    return ds.dataset(
        found,
        schema=schema,
        format=format,
        filesystem=arrow,
        partitioning=partitioning,
        partition_base_dir=location.path,
    )


def verify(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> VerifyReport:
    """Compare the dataset with what the bucket holds. Nothing is changed, and no file is read.

    One listing, and a HEAD for each file whose ETag is another one than in its manifest: with the write id of
    the manifest it is the same file.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Raises:
        ObjectNotFound: Nothing was published there.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    place = _place(url, storage_options, filesystem)
    return place.run(_verify, place.location)


def adopt(
    url: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: AbstractFileSystem | None = None,
) -> Manifest | None:
    """Publish a manifest of the visible files that no manifest names, so that they belong to the dataset.

    For files that are older than the first job; run it while nobody writes there. A second call finds nothing
    to adopt.

    Args:
        url: The destination, such as ``s3://bucket/sales``.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: That filesystem itself, in place of options.

    Returns:
        The manifest; None if there was nothing to adopt.

    Raises:
        UsageError: A job is unfinished there, or a table format keeps the directory.
        CommitDenied: A job was published meanwhile; nothing was changed.
        FormatError: The chain of manifests is broken, or a newer magicfs wrote it.
        StoreError: The store refused, or did not answer.
    """
    place = _place(url, storage_options, filesystem)
    return place.run(older_files.adopt, place.location)


@dataclass(frozen=True, slots=True)
class _Place:
    """A destination and the filesystem that it is read through."""

    location: Location
    filesystem: AbstractFileSystem
    store: Store = field(repr=False)

    def run(
        self,
        work: Callable[Concatenate[Store, _P], Coroutine[Any, Any, _T]],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        result: _T = sync(resolve.loop_of(self.filesystem), work, self.store, *args, **kwargs)
        return result


def _place(url: str, options: Mapping[str, Any] | None, filesystem: AbstractFileSystem | None) -> _Place:
    location = location_of(url, any_scheme=filesystem is not None)
    if filesystem is None:
        filesystem = resolve.filesystem(location.scheme, {**(options or {}), "use_listings_cache": False})
    elif options:
        raise UsageError("give either storage_options or filesystem, not both")
    else:
        resolve.check(filesystem)
        filesystem.invalidate_cache()  # by path, s3fs keeps what it knows of directories below
    return _Place(location, filesystem, resolve.open_store(filesystem, location.bucket))


async def _read_manifest(store: Store, location: Location, job: str | None) -> Manifest:
    if job is None:
        job = await chain.newest_job(store, location.key, READING)
        if job is None:
            raise await _nothing_published(store, location)
    manifest = await chain.read(store, location.key, job, READING)
    if manifest is None:
        raise ObjectNotFound(
            "read_manifest",
            f"{store.bucket}/{chain.manifest_key(location.key, job)}",
            f"job {job} was not published to {location.url}",
            hint="check the id, or recover the job",
        )
    return manifest


async def _files_of_dataset(store: Store, location: Location, last: bool) -> Mapping[str, ManifestFile]:
    if last:
        return {file.key: file for file in (await _read_manifest(store, location, None)).files}
    found = await _view(store, location)
    if found.older_files:
        raise UsageError(_older_files(location, "were there before the first job was published"))
    return found.files


async def _verify(store: Store, location: Location) -> VerifyReport:
    files = dict((view := await _view(store, location)).files)
    size = sum(file.size for file in files.values())
    count = len(files)
    altered: list[str] = []
    foreign: list[str] = []
    doubtful: list[tuple[str, ManifestFile]] = []
    async for info in store.list(paths.prefix_of(location.key)):
        key = paths.relative_to(info.key, location.key) if paths.is_under(info.key, location.key) else ""
        file = files.pop(key, None)
        if file is None:
            if is_data(info.key, location.key):
                foreign.append(key)
        elif info.size != file.size:
            altered.append(key)
        elif not _same_etag(info, file):
            doubtful.append((info.key, file))
    missing = list(files)

    async def look(one: tuple[str, ManifestFile]) -> bool:
        key, file = one
        try:
            info = await store.head(key)
        except ObjectNotFound:
            missing.append(file.key)
            return True
        write_id = info.metadata.get(WRITE_ID)
        if not _same_etag(info, file) and (file.write_id is None or write_id != file.write_id):
            altered.append(file.key)
        return True

    await drained(doubtful, look, _CONCURRENCY)
    return VerifyReport(
        location.url,
        view.newest_job,
        count,
        size,
        missing=tuple(sorted(missing)),
        altered=tuple(sorted(altered)),
        foreign=tuple(sorted(foreign)),
    )


def _same_etag(info: ObjectInfo, file: ManifestFile) -> bool:
    return info.etag.strip('"') == file.etag.strip('"') or (not file.etag and file.write_id is None)


async def _view(store: Store, location: Location) -> View:
    found = await chain.view(store, location.key, READING)
    if found is None:
        raise await _nothing_published(store, location)
    return found


async def _nothing_published(store: Store, location: Location) -> UsageError | ObjectNotFound:
    jobs = await find_unfinished_jobs(Engine(store, _CONCURRENCY), location.key)
    publishing = [one.job_id for one in jobs if one.job and one.job.state not in SHOWS_NOTHING]
    if publishing:
        return ObjectNotFound(
            "read_manifest",
            f"{store.bucket}/{chain.pointer_key(location.key)}",
            f"job {publishing[0]} is being published to {location.url}, and is the first one there",
            hint=f"wait for it, or if its driver is dead run: magicfs recover {location.url}",
        )
    async for info in store.list(paths.prefix_of(location.key)):
        if is_data(info.key, location.key):
            return UsageError(_older_files(location, "are there, and no job was published with magicfs"))
    return ObjectNotFound(
        "read_manifest",
        f"{store.bucket}/{chain.pointer_key(location.key)}",
        f"no job was published to {location.url}",
        hint="check the URL",
    )


def _older_files(location: Location, since: str) -> str:
    return (
        f"files of {location.url} stand in no manifest: they {since}; if they belong to the dataset call "
        f"magicfs.adopt({location.url!r}), else remove them or publish with conflict='replace'"
    )
