"""Reading published files by the versions that their manifests name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from magicfs.errors import ObjectNotFound, PermissionDenied
from magicfs.stores import resolve
from magicfs.stores.interrupt import run_on

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.stores.port import Store
    from magicfs.stores.version_port import VersionStore

__all__ = ["VersionReads"]


class VersionReads:
    """Reads versions of files behind a filesystem.

    Where a version is not to be had, what lies at its key is read instead, as of files without one: if who
    reads may not read versions, if the files were copied to another bucket, or if the bucket has forgotten
    the version. The caller opens files of magicfs, whose names are not used twice.
    """

    def __init__(self, filesystem: AbstractFileSystem) -> None:
        self._filesystem = filesystem
        self._is_denied = False

    def read(self, path: str, version: str, start: int, end: int) -> bytes:
        """The bytes from one to before another. FileNotFoundError if the file is gone."""
        if not self._is_denied:
            bucket, _, key = path.partition("/")
            store = resolve.open_store(self._filesystem, bucket)
            if store.capabilities.versions:
                how = (store, key, version, start, end - start)
                try:
                    return run_on(resolve.loop_of(self._filesystem), _read, *how)
                except PermissionDenied:
                    self._is_denied = True
                except ObjectNotFound:
                    pass
        body: bytes = self._filesystem.cat_file(path, start=start, end=end)
        return body


async def _read(store: Store, key: str, version: str, start: int, size: int) -> bytes:
    return await cast("VersionStore", store).versions().get_range(key, version, start, size)
