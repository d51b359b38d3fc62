"""Loading: a checkpoint is found by the manifest of the job that published it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from fsspec.spec import AbstractFileSystem
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.filesystem import FileSystemBase
from torch.distributed.checkpoint.metadata import Metadata

from magicfs.datasets.connection import Destination, open_destination
from magicfs.releases.reading import Pinned, job_in
from magicfs.torch.files import Files, NoFiles
from magicfs.torch.newest import find


class StorageReader(FileSystemReader):
    """Reads checkpoints that a ``StorageWriter`` published, on any number of ranks.

    ``dcp.load(state, checkpoint_id="step-100", storage_reader=reader)``. Without a ``checkpoint_id`` each
    rank finds the newest one on its own: if another one is being saved, call ``latest`` on one rank and
    broadcast the name. torch unpickles ``.metadata``: load only checkpoints that you trust.

    Args:
        url: The URL of the writer.
        storage_options: Options of the store's fsspec filesystem.
        filesystem: The filesystem itself, instead of options.
        release: Read what this ``magicfs.Release`` shows: its URL, or a release that was read.
    """

    def __init__(
        self,
        url: str,
        *,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: AbstractFileSystem | None = None,
        release: str | Pinned | None = None,
    ) -> None:
        super().__init__(".")
        self.url = url
        self.fs: FileSystemBase = NoFiles()
        self.path: str = ""
        self._access = (storage_options, filesystem)
        self._release = release
        self._destination()  # so that a wrong argument is known at once

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin to load; called by torch. UsageError for a name that no checkpoint can have."""
        super().reset(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Called by torch on every rank: finds the checkpoint, and reads what is in it.

        Raises:
            ObjectNotFound: There is no complete checkpoint, or none with that name.
        """
        destination = self._destination()
        start = None
        if self._release is not None:
            options, filesystem = self._access
            start = job_in(self._release, destination, {"storage_options": options, "filesystem": filesystem})
        found = find(destination, self.path or None, start)
        self.path = found.name
        opened = partial(found.open, destination)
        self.fs = Files(destination.filesystem, destination.location.path, found.metadata, opened)
        return super().read_metadata(*args, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return Files.validate_checkpoint_id(checkpoint_id)

    def _destination(self) -> Destination:
        options, filesystem = self._access
        return open_destination(self.url, options, filesystem, for_reading=True)
