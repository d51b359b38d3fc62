"""The files of a checkpoint, as torch's own writers and readers open them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fsspec.spec import AbstractFileSystem
from torch.distributed.checkpoint.filesystem import FileSystemBase

from magicfs.torch.newest import METADATA, check_name

_TEMPORARY = f"{METADATA}.tmp"


class Files(FileSystemBase):
    """The files below a directory of an fsspec filesystem; paths are relative to it.

    ``metadata``: what ``.metadata`` is called there. ``opened``: opens what is read, by its path; by default
    the filesystem does.
    """

    def __init__(
        self,
        filesystem: AbstractFileSystem,
        directory: str,
        metadata: str = METADATA,
        opened: Callable[[str], Any] | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._metadata = metadata
        self._opened = opened

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        above, _, last = str(path).rpartition("/")
        # A checkpoint becomes visible whole, so nothing needs a temporary name.
        name = self._metadata if last in (METADATA, _TEMPORARY) else last
        key = f"{above}/{name}"
        if self._opened is None:
            opened = self._filesystem.open(f"{self._directory}/{key}", mode)
        else:
            opened = self._opened(key)
        with opened as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return f"{path}/{suffix}"

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return check_name(str(path))

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        assert str(path) == f"{new_path}.tmp"

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Nothing to do."""

    def exists(self, path: str | os.PathLike[str]) -> bool:  # noqa: ARG002
        """No: what is there already is another checkpoint's."""
        return False

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        raise FileNotFoundError(str(path))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in str(checkpoint_id)


class NoFiles(Files):
    """In place of a task's files, before there is a task."""

    def __init__(self) -> None:
        """Know nothing yet."""
