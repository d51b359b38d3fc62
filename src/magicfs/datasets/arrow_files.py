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

from magicfs.datasets.named_reads import NamedReads
from magicfs.datasets.published_file import open_published
from magicfs.manifests.comparison import Named
from magicfs.protocol.paths import Location
from magicfs.runtime.process_end import shared_with_threads

__all__ = ["PublishedFiles"]


class PublishedFiles(FSSpecHandler):  # type: ignore[misc]  # published without types
    """A filesystem for pyarrow whose files of a manifest need no look before they are read.

    Other paths are the filesystem's own. A pickle knows no sizes, versions and ETags: it may be one of many,
    each of one file. ``location``: the dataset.
    """

    def __init__(
        self, filesystem: AbstractFileSystem, files: Mapping[str, Named], location: Location | None = None
    ) -> None:
        super().__init__(filesystem)
        shared_with_threads(self)
        self._files = files
        self._reads = NamedReads(filesystem, location)

    def __reduce__(self) -> Any:
        return FSSpecHandler, (self.fs,)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """A file for reads anywhere in it; one of this machine is read without Python."""
        one = self._files.get(path)
        if one is None:
            return super().open_input_file(path)
        if not getattr(self.fs, "local_file", False):
            return pa.PythonFile(open_published(self.fs, path, one, self._reads), mode="r")
        file = pa.OSFile(path, "rb")
        self._reads.check_local(path, one)
        return file
