"""The dataset against the bucket: what is missing, altered, or foreign."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from fsspec.spec import AbstractFileSystem

from magicfs.datasets.connection import open_destination
from magicfs.datasets.read import current_view
from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.formats.manifest import ManifestFile
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_data
from magicfs.protocol.paths import Location
from magicfs.protocol.readback import WRITE_ID
from magicfs.report import VerifyReport
from magicfs.stores.port import ObjectInfo
from magicfs.transaction.others import find_unfinished_jobs

__all__ = ["verify", "verify_files"]


def verify(
    url: str | PathLike[str],
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
    destination = open_destination(url, storage_options, filesystem, for_reading=True)
    return destination.run(verify_files)


async def verify_files(engine: Engine, location: Location) -> VerifyReport:
    """``verify``, on the store's loop."""
    files = dict((view := await current_view(engine, location)).files)
    size = sum(file.size for file in files.values())
    count = len(files)
    altered: list[str] = []
    foreign: list[str] = []
    doubtful: list[tuple[str, ManifestFile]] = []
    async for info in engine.store.list(paths.prefix_of(location.key)):
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

    async def compare(one: tuple[str, ManifestFile]) -> bool:
        key, file = one
        try:
            info = await engine.store.head(key)
        except ObjectNotFound:
            missing.append(file.key)
            return True
        write_id = info.metadata.get(WRITE_ID)
        if not _same_etag(info, file) and (file.write_id is None or write_id != file.write_id):
            altered.append(file.key)
        return True

    await drained(doubtful, compare, engine.concurrency)
    unfinished = await find_unfinished_jobs(engine, location.key) if foreign else []
    return VerifyReport(
        location.url,
        view.newest_job,
        count,
        size,
        missing=tuple(sorted(missing)),
        altered=tuple(sorted(altered)),
        foreign=tuple(sorted(foreign)),
        unfinished=tuple(one.job_id for one in unfinished),
    )


def _same_etag(info: ObjectInfo, file: ManifestFile) -> bool:
    return info.etag.strip('"') == file.etag.strip('"') or (not file.etag and file.write_id is None)
