"""The filesystem of the cluster, by names below one directory. Blocking calls: to be made in threads."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT

__all__ = ["ClusterFiles"]


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Files below a directory of any fsspec filesystem; every error is the filesystem's own.

    Attributes:
        fs: The filesystem.
        directory: The directory, as that takes it.
    """

    fs: Any
    directory: str

    def at(self, name: str) -> str:
        """A name as the filesystem takes it."""
        return f"{self.directory.rstrip('/')}/{name}"

    def is_there(self, name: str) -> bool:
        """Whether a file or directory is there; fsspec's own ``exists`` takes every error for a no."""
        try:
            self.fs.info(self.at(name))
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes:
        """The content of a set."""
        raw: bytes = self.fs.cat_file(self.at(name), start=0, end=PENDINGSET_SIZE_LIMIT + 1)
        return raw

    def write(self, name: str, raw: bytes) -> None:
        """Write a file, in a directory that is there."""
        self.fs.pipe_file(self.at(name), raw)

    def move(self, name: str, to: str) -> None:
        """Rename a file."""
        self.fs.mv(self.at(name), self.at(to))

    def names(self, directory: str) -> list[str]:
        """The names in a directory, which need not be there."""
        self.fs.invalidate_cache()
        try:
            listed = self.fs.ls(self.at(directory), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in listed)

    def remove(self, directory: str) -> None:
        """Remove a directory with all that is in it; one that is not there counts as removed."""
        self.fs.invalidate_cache()
        with suppress(FileNotFoundError):
            self.fs.rm(self.at(directory), recursive=True)
