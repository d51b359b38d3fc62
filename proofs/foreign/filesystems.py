"""The filesystems that the suites ask fsspec for, with every write through a task."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import fsspec.implementations.local
import fsspec.implementations.memory
import s3fs
from fsspec.implementations.local import LocalFileSystem as PlainLocal
from fsspec.implementations.memory import MemoryFileSystem as PlainMemory
from fsspec.spec import AbstractFileSystem
from s3fs import S3FileSystem as PlainS3

from magicfs.stores.object_settings import options_of
from proofs.foreign.publication import Publication, in_place, landing

__all__ = ["LocalThroughTask", "MemoryThroughTask", "S3FileSystem", "install"]

_ABOUT_THE_LOOP = {"asynchronous", "loop"}
_ABOUT_PARTS = {"chunksize", "max_concurrency", "mode", "callback", "preserve_etag"}


def _reads(mode: str) -> bool:
    return "r" in mode and "+" not in mode


class S3FileSystem(PlainS3):
    """s3fs, whose writes are published in the bucket that they are meant for; suites ask for its name."""

    def open(self, path: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        """As s3fs; for writing, a file of a task."""
        if _reads(mode):
            return super().open(path, mode, *args, **kwargs)
        if "x" in mode and self.exists(path):
            raise FileExistsError(path)
        kwargs.pop("block_size", None)
        return self._publication(path).open(mode, kwargs)

    async def _pipe_file(self, path: str, data: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        if mode == "create" and await self._exists(path):
            raise FileExistsError(path)
        await self._publish(path, lambda task, inside: task.pipe_file(inside, data, **_of_file(kwargs)))

    async def _put_file(self, lpath: str, rpath: str, **kwargs: Any) -> None:
        if not await asyncio.to_thread(Path(lpath).is_dir):
            await self._publish(rpath, lambda task, inside: task.put_file(lpath, inside, **_of_file(kwargs)))

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        source = self._strip_protocol(path1)
        await self._publish(path2, lambda task, inside: task.cp_file(source, inside, **_of_file(kwargs)))

    async def _publish(self, path: str, write: Callable[[AbstractFileSystem, str], object]) -> None:
        # A job blocks, and this is the loop on which its requests run.
        publication = await asyncio.to_thread(self._publication, path)
        await asyncio.to_thread(publication.write, write)

    def _publication(self, path: Any) -> Publication:
        options = {
            name: value
            for name, value in options_of(self).items()
            if name not in _ABOUT_THE_LOOP and value is not None
        }
        plain = PlainS3(**options)
        return in_place(plain, self._strip_protocol(path), lambda _filesystem: self.invalidate_cache())


class _Landing(AbstractFileSystem):
    """What filesystems without delayed uploads share: files are published in memory and land here."""

    def open(self, path: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        """As the filesystem; for writing, a file of a task."""
        if _reads(mode):
            return super().open(path, mode, *args, **kwargs)
        if "x" in mode and self.exists(path):
            raise FileExistsError(path)
        return self._publication(path).open(mode, kwargs)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        """As the filesystem, through a task."""
        if mode == "create" and self.exists(path):
            raise FileExistsError(path)
        self._publication(path).write(lambda filesystem, inside: filesystem.pipe_file(inside, value))

    def _publication(self, path: Any) -> Publication:
        place = self._strip_protocol(path)
        self._check_place(place)
        return landing(place, lambda body: self._land(place, body))

    def _check_place(self, place: str) -> None:
        """Raise what the filesystem raises when a file cannot be made there."""

    def _land(self, place: str, body: bytes) -> None:
        with super()._open(place, "wb") as file:
            file.write(body)


class MemoryThroughTask(_Landing, PlainMemory):
    """fsspec's memory filesystem."""


class LocalThroughTask(_Landing, PlainLocal):
    """fsspec's local filesystem."""

    def _check_place(self, place: str) -> None:
        if not self.auto_mkdir and not Path(place).parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)


def install() -> None:
    """Put them in the place of those that they stand for, in this process."""
    s3fs.S3FileSystem = S3FileSystem
    fsspec.implementations.memory.MemoryFileSystem = MemoryThroughTask
    fsspec.implementations.local.LocalFileSystem = LocalThroughTask
    for protocols, kind in (
        (("s3", "s3a"), S3FileSystem),
        (("memory",), MemoryThroughTask),
        (("file", "local"), LocalThroughTask),
    ):
        for protocol in protocols:
            fsspec.register_implementation(protocol, kind, clobber=True)


def _of_file(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _ABOUT_PARTS}
