"""Published files as pyarrow reads them: of known sizes, each read a request, and no other request.

PyArrow's own way to an fsspec filesystem asks twice for a file before it opens it, whose size the manifest
tells; and its reads, which it has joined to large ones already, go through a cache that reads ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from fsspec.spec import AbstractFileSystem
from pyarrow.fs import FSSpecHandler

from magicfs.datasets.connection import Destination
from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.manifests import chain
from magicfs.manifests.comparison import Named
from magicfs.protocol import paths
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.reading.named_reads import NamedReads
from magicfs.reading.published_file import open_published
from magicfs.runtime.process_end import shared_with_threads

_LOOKED_AT = 1000


def one_file(destination: Destination, ending: str) -> tuple[str, int] | None:
    """A visible file whose name ends so: its key relative to the destination, and its size.

    It is of the job that was published last; where no job was, or that one has no such file in the manifest
    itself, of the first page of a listing. None if there is none, or the store refused the request.
    """
    try:
        return destination.run(_one_file, ending)
    except (MagicError, OSError):
        return None


async def _one_file(engine: Engine, location: Location, ending: str) -> tuple[str, int] | None:
    store, directory = engine.store, location.key
    newest = await chain.newest_job(store, directory, chain.READING)
    if newest is not None:
        manifest = await chain.read(store, directory, newest, chain.READING, files=False)
        for file in manifest.files if manifest is not None else ():
            if file.key.endswith(ending) and is_data(file.key, ""):
                return file.key, file.size
    async for info in store.list(paths.prefix_of(directory), limit=_LOOKED_AT):
        if info.key.endswith(ending) and is_data(info.key, directory):
            return paths.relative_to(info.key, directory), info.size
    return None


class PublishedFiles(FSSpecHandler):  # type: ignore[misc]  # published without types
    """A filesystem for pyarrow whose files of a manifest need no look before they are read.

    Other paths are the filesystem's own. A pickle knows no sizes, versions and ETags: it may be one of many,
    each of one file. ``location``: the dataset. ``places``: as for ``NamedReads``.
    """

    def __init__(
        self,
        filesystem: AbstractFileSystem,
        files: Mapping[str, Named],
        location: Location | None = None,
        places: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(filesystem)
        shared_with_threads(self)
        self._files, self._places = files, places or {}
        self._reads = NamedReads(filesystem, location, self._places)

    def __reduce__(self) -> Any:
        return (
            (PublishedFiles, (self.fs, {}, None, self._places))
            if self._places
            else (FSSpecHandler, (self.fs,))
        )

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A file for reads anywhere in it; one of this machine is read without Python."""
        one = self._files.get(path)
        if one is None:
            return super().open_input_file(self._places.get(path, path))
        if not getattr(self.fs, "local_file", False):
            return pa.PythonFile(open_published(self.fs, path, one, self._reads), mode="r")
        return self._reads.open_local(path, one, lambda at: pa.OSFile(at, "rb"))
