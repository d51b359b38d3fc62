"""An fsspec filesystem over the memory store: what ``magic::memory://`` wraps.

It behaves as filesystems over object stores do: directories exist as long as something lies under them.
fsspec's own ``memory`` filesystem has no uploads that could be delayed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsspec.asyn import AsyncFileSystem, sync_wrapper
from fsspec.callbacks import DEFAULT_CALLBACK, Callback

from magicfs.errors import ObjectExists, ObjectNotFound, UsageError
from magicfs.protocol import paths
from magicfs.stores.memory.store import World, default_world
from magicfs.stores.port import ObjectInfo, PutMode, Store


class MemoryFileSystem(AsyncFileSystem):
    """Files in a ``World``, addressed as ``bucket/key``; by default in the one of this process.

    A filesystem of another world cannot be pickled, because its contents would stay behind.
    """

    protocol = "memory"
    cachable = False
    supports_empty_directories = False

    def __init__(self, *, world: World | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.world: World = world or default_world()

    def store(self, bucket: str) -> Store:
        """The store behind one bucket."""
        return self.world.store(bucket)

    def __reduce__(self) -> Any:
        if self.world is not default_world():
            raise UsageError("a separate in-memory filesystem cannot be pickled; use memory:// or a server")
        return super().__reduce__()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        stripped = super()._strip_protocol(path)
        return [p.lstrip("/") for p in stripped] if isinstance(stripped, list) else stripped.lstrip("/")

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        bucket, _slash, key = path.partition("/")
        if not key:
            if not bucket or bucket in self.world.buckets():
                return _directory(bucket)
            raise FileNotFoundError(path)
        store = self.store(bucket)
        try:
            return _file(bucket, await store.head(key))
        except ObjectNotFound:
            async for _found in store.list(paths.prefix_of(key), limit=1):
                return _directory(path)
            raise

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entries = [_directory(b) for b in self.world.buckets()] if not path else await self._entries(path)
        return entries if detail else [entry["name"] for entry in entries]

    async def _entries(self, path: str) -> list[dict[str, Any]]:
        bucket, _, key = path.partition("/")
        store, prefix = self.store(bucket), paths.prefix_of(key)
        entries: dict[str, dict[str, Any]] = {}
        async for info in store.list(prefix):
            name, slash, _ = info.key[len(prefix) :].partition("/")
            full = f"{bucket}/{prefix}{name}"
            entries.setdefault(full + slash, _directory(full) if slash else _file(bucket, info))
        if not entries and key:
            return [_file(bucket, await store.head(key))]
        return list(entries.values())

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        bucket, key = self._split(path)
        return (await self.store(bucket).get(key))[start:end]

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        bucket, key = self._split(path)
        await self.store(bucket).put(
            key, value, mode=PutMode.CREATE if mode == "create" else PutMode.OVERWRITE
        )

    async def _put_file(
        self, lpath: str, rpath: str, mode: str = "overwrite", callback: Callback = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        source = Path(lpath)
        if await asyncio.to_thread(source.is_dir):
            return
        body = await asyncio.to_thread(source.read_bytes)
        callback.set_size(len(body))
        await self._pipe_file(rpath, body, mode=mode)
        callback.relative_update(len(body))

    async def _get_file(
        self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **_: Any
    ) -> None:
        if await self._isdir(rpath):
            return
        body = await self._cat_file(rpath)
        callback.set_size(len(body))
        if hasattr(lpath, "write"):
            lpath.write(body)
        else:
            await asyncio.to_thread(_write, Path(lpath), body)
        callback.relative_update(len(body))

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        if await self._isdir(path1):
            return
        await self._pipe_file(path2, await self._cat_file(path1))

    async def _rm_file(self, path: str, **_: Any) -> None:
        bucket, key = self._split(path)
        await self.store(bucket).delete([key])

    async def _rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None, **_: Any) -> None:
        for found in await self._expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if "/" in found:
                await self._rm_file(found)

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        bucket, _, key = self._strip_protocol(path).partition("/")
        if not key and bucket in self.world.buckets():
            raise FileExistsError(bucket)
        if not key or create_parents:
            self.world.create_bucket(bucket)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        try:
            await self._mkdir(path)
        except FileExistsError:
            if not exist_ok:
                raise

    async def _rmdir(self, path: str) -> None:
        """Remove a bucket; other directories are only names."""
        if "/" not in self._strip_protocol(path):
            self.world.delete_bucket(self._strip_protocol(path))

    rmdir: Callable[..., None] = sync_wrapper(_rmdir)

    async def _touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        """Write an empty object, or with ``truncate=False`` only where nothing is."""
        if truncate or not await self._exists(path):
            await self._pipe_file(path, b"")

    touch: Callable[..., None] = sync_wrapper(_touch)

    def created(self, path: str) -> dt.datetime:
        """When the object was last written; the store keeps no other time."""
        return self.modified(path)

    def modified(self, path: str) -> dt.datetime:
        """When the object was last written."""
        modified: dt.datetime = self.info(path)["LastModified"]
        return modified

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> io.BytesIO:
        if mode == "rb":
            return _Reading(self.cat_file(path))
        if mode == "xb" and self.exists(path):
            bucket, key = self._split(path)
            raise ObjectExists("open", f"{bucket}/{key}", "an object is there")
        if mode not in {"wb", "xb", "ab"}:
            raise UsageError(f"{path}: mode {mode!r} is not supported; use rb, wb, xb or ab")
        old = self.cat_file(path) if mode == "ab" and self.exists(path) else b""
        return _Writing(self, path, old, commit_on_close=kwargs.get("autocommit", True))

    def _split(self, path: str) -> tuple[str, str]:
        bucket, _, key = self._strip_protocol(path).partition("/")
        if not bucket or not key:
            raise UsageError(f"{path!r} does not name an object; write it as bucket/key")
        return bucket, key


class _Reading(io.BytesIO):
    """A whole object; fsspec's ``read_block`` and ``tail`` ask for its size."""

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self.getbuffer().nbytes


class _Writing(io.BytesIO):
    """Written to the store when closed, or in a transaction when committed."""

    def __init__(
        self, filesystem: MemoryFileSystem, path: str, body: bytes, *, commit_on_close: bool
    ) -> None:
        super().__init__(body)
        self.seek(0, io.SEEK_END)
        self._filesystem = filesystem
        self._path = path
        self._commit_on_close = commit_on_close
        self._body: bytes | None = None

    def close(self) -> None:
        if self.closed:
            return
        self._body = self.getvalue()
        super().close()
        if self._commit_on_close:
            self.commit()

    def commit(self) -> None:
        """Write the object; a second call writes it again."""
        self._filesystem.pipe_file(self._path, self._body or b"")

    def discard(self) -> None:
        """Forget what was written."""
        self._commit_on_close = False
        self._body = None

    def __del__(self) -> None:
        """Publish nothing: only ``close`` does."""


def _write(target: Path, body: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(body)


def _directory(name: str) -> dict[str, Any]:
    return {"name": name, "size": 0, "type": "directory"}


def _file(bucket: str, info: ObjectInfo) -> dict[str, Any]:
    modified = dt.datetime.fromtimestamp(info.modified or 0, dt.UTC)
    return {
        "name": f"{bucket}/{info.key}",
        "size": info.size,
        "type": "file",
        "ETag": info.etag,
        "LastModified": modified,
        **info.description,
    }
