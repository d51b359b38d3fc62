"""``MagicFileSystem``: an fsspec filesystem whose writes under magic paths are delayed.

Everything else passes through to the wrapped filesystem. What a path means is ``protocol.magic``'s business,
how bytes travel ``upload``'s, what is left behind ``recording``'s. The class stands on ``connection`` and
``reading``; here is what writes, makes and removes.
"""

from __future__ import annotations

import asyncio
from glob import has_magic
from pathlib import Path
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback

from magicfs.errors import ObjectNotFound, UsageError
from magicfs.filesystem import listing, wrapped_files
from magicfs.filesystem.job_settings import WriteSettings
from magicfs.filesystem.reading import Reading
from magicfs.filesystem.recording import MemoryRecorder, StoreRecorder
from magicfs.filesystem.tracking import tracker
from magicfs.filesystem.upload import AsyncDelayedFile, DelayedFile, Recorder, Upload
from magicfs.protocol import paths
from magicfs.protocol.final_names import final_key
from magicfs.protocol.magic import PENDING, MagicPath
from magicfs.stores.interrupt import run_on

__all__ = ["MagicFileSystem"]

_READ_CHUNK = 8 * 2**20


class MagicFileSystem(Reading):
    """Writes under ``DEST/__magic/…`` or ``DEST/__magic_job-<id>/…`` become delayed uploads.

    ``close()`` finishes the upload to the final key, which stays invisible until the job commits, and leaves
    a ``.pending`` file and a zero-byte marker at the path that was opened. All other paths go to the wrapped
    filesystem untouched. Below the path of a job's task the job's own settings count, as its setup left them
    in the store: ``tracking``, ``unique_names``, ``part_size``, ``etag_format`` and ``hadoop`` change nothing
    there. Instances are cached by fsspec: the same arguments give the same
    instance, before fsspec 2026.6 in the same thread only.

    Args:
        fs: The filesystem to wrap; or give ``target_protocol`` and ``target_options``.
        target_protocol: ``s3``, ``s3a`` or ``memory``.
        target_options: Options of the wrapped filesystem.
        fo: The path of a chained URL; no part of the instance.
        hadoop: Release of Hadoop, such as ``"3.4"``, whose magic elements alone shall count. By default both
            ``__magic`` and ``__magic_job-<id>`` do.
        tracking: ``"memory"`` writes neither marker nor ``.pending``: only this process knows the upload.
        unique_names: Whether to put task and job into final names; only in a committer's own layout.
        part_size: Bytes of the first parts.
        etag_format: ``"object"`` for readers of Hadoop 3.5 and later.
        job_object: False for jobs of ``committer="task-completing"``, which have none: in a process that does
            not know the job these options count then.
        allow_secrets_in_pickles: Whether pickling may carry inline secrets; otherwise they are dropped, and
            a wrapped instance that has some cannot be pickled.
        **kwargs: ``asynchronous``, ``loop``, ``batch_size`` and the other options of every fsspec filesystem.

    Raises:
        UsageError: The wrapped filesystem cannot delay an upload, or an option is unknown.
    """

    def open(self, path: Any, mode: str = "rb", **kwargs: Any) -> Any:
        """Open a file; under a magic path only for writing, ``w`` or ``x``.

        A file that is written in text mode or compressed aborts, too, when its ``with`` body raises.

        Raises:
            ProtocolViolation: The path is a task's of a job that has ended or was never set up, or with
                ``tracking="memory"`` the task was set up in another process. Nothing was written.
        """
        magic = self._delayed(path)
        if magic is None or "r" in mode:
            return super().open(path, mode, **kwargs)
        joined = self.transactions.to_join(magic.scope, magic.path)
        if joined is None:
            return self._open_delayed(magic, mode, kwargs)
        with self.transactions.joined(joined, magic.scope):
            file = self._open_delayed(magic, mode, kwargs)
        if joined.ended:
            file.abort()
            raise UsageError(f"{magic.path}: its transaction ended meanwhile; write the file again")
        return file

    def _open_delayed(self, magic: MagicPath, mode: str, kwargs: dict[str, Any]) -> Any:
        autocommit = bool(kwargs.get("autocommit", not self._intrans))

        def open_binary(mode: str) -> DelayedFile:
            self._check_mode(magic, mode)
            file = DelayedFile(self._new_upload(magic), self.loop, autocommit=autocommit)
            if not autocommit:
                self.transaction.files.append(file)
            return file

        if "b" in mode and kwargs.get("compression") is None:
            return open_binary(mode)
        return wrapped_files.open_wrapped(open_binary, magic.path, mode, kwargs)

    def _open(self, path: str, mode: str = "rb", autocommit: bool = True, **kwargs: Any) -> Any:
        magic = self._delayed(path)
        if magic is None:
            if mode != "rb":
                self._at_once(path)
            return self.fs._open(path, mode=mode, autocommit=autocommit, **kwargs)
        self._check_mode(magic, mode)
        if mode == "rb":
            self._refuse_pending(path, "read")
            return self.fs._open(path, mode=mode, autocommit=autocommit, **kwargs)
        return DelayedFile(self._new_upload(magic), self.loop, autocommit=autocommit)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """As ``open``, for coroutines on the filesystem's loop; binary only."""
        magic = self._delayed(path)
        if magic is None:
            if mode != "rb":
                self._at_once(path)
            return await self.fs.open_async(self._strip_protocol(path), mode, **kwargs)
        self._check_mode(magic, mode)
        if mode == "rb":
            await self._refuse_pending_async(path, "read")
            return await self.fs.open_async(self._strip_protocol(path), mode, **kwargs)
        return await self._start(magic)

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> Any:
        magic = self._delayed(path)
        if magic is None:
            self._at_once(path)
            return await self.fs._pipe_file(self._strip_protocol(path), value, mode=mode, **kwargs)
        async with await self._start(magic) as file:
            await file.write(value)
        return None

    async def _put_file(
        self,
        lpath: str,
        rpath: str,
        callback: Callback = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **kwargs: Any,
    ) -> None:
        magic = self._delayed(rpath)
        if magic is None:
            self._at_once(rpath)
            rpath = self._strip_protocol(rpath)
            await self.fs._put_file(lpath, rpath, callback=callback, mode=mode, **kwargs)
            return
        source = Path(lpath)
        if await asyncio.to_thread(source.is_dir):
            return
        callback.set_size((await asyncio.to_thread(source.stat)).st_size)
        with await asyncio.to_thread(source.open, "rb") as reader:
            async with await self._start(magic) as file:
                while chunk := await asyncio.to_thread(reader.read, _READ_CHUNK):
                    await file.write(chunk)
                    callback.relative_update(len(chunk))

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        await self._refuse_pending_async(path1, "copy")
        source = self._strip_protocol(path1)
        magic = self._delayed(path2)
        if magic is None:
            self._at_once(path2)
            await self.fs._cp_file(source, self._strip_protocol(path2), **kwargs)
            return
        info = await self._info(source)
        if info["type"] == "directory":
            return
        async with await self._start(magic) as file:
            for start in range(0, info["size"], _READ_CHUNK):
                end = min(start + _READ_CHUNK, info["size"])
                await file.write(await self.fs._cat_file(source, start=start, end=end))

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Write an empty file; under a magic path a delayed one.

        Raises:
            UsageError: ``truncate=False`` under a magic path, where there is nothing to keep.
        """
        if self._delayed(path) is None:
            self._at_once(path)
            self.fs.touch(self._strip_protocol(path), truncate=truncate, **kwargs)
        elif truncate:
            self.pipe_file(path, b"")
        else:
            raise UsageError(f"{path}: touch(truncate=False) has no meaning for a pending file; write it")

    async def _start(self, magic: MagicPath) -> AsyncDelayedFile:
        upload = self._upload(magic, await self._settings_of(magic))
        if not self._intrans:
            return await AsyncDelayedFile(upload).open()
        file = await AsyncDelayedFile(upload, autocommit=False).open()
        self.transaction.files.append(wrapped_files.Deferred(file, self.loop))
        return file

    def _check_mode(self, path: MagicPath, mode: str) -> None:
        if mode not in {"rb", "wb", "xb"}:
            raise UsageError(
                f"{path.path}: mode {mode!r} is not possible for a delayed upload, "
                "whose parts cannot be changed; use 'wb'"
            )

    def _new_upload(self, path: MagicPath) -> Upload:
        settings = self._known_settings(path) or run_on(self.loop, self._settings_of, path)
        return self._upload(path, settings)

    def _upload(self, path: MagicPath, settings: WriteSettings) -> Upload:
        store, key = self.store(path.bucket), final_key(path, unique_names=settings.unique_names)
        paths.check_length(key, "the final key", "shorten the name, or its directories")
        recorder: Recorder
        if settings.tracking == "memory":
            recorder = MemoryRecorder(store, path)
        else:
            advice = "shorten the name or its directories, or use tracking='memory', which needs no such file"
            paths.check_length(path.pending_key, "the .pending file", advice)
            recorder = StoreRecorder(store, path, settings.etag_format)
        return Upload(store, key, settings.part_size, recorder)

    # -- directories -----------------------------------------------------------------------------------

    async def _mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        # Directories of object stores are only names; s3fs would create the bucket.
        if self.locate(path) is None:
            await self.fs._mkdir(self._strip_protocol(path), create_parents=create_parents, **kwargs)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        if self.locate(path) is None:
            await self.fs._makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory; under a magic path there is nothing to remove."""
        if self.locate(path) is None:
            self.fs.rmdir(self._strip_protocol(path))

    # -- removing --------------------------------------------------------------------------------------

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        # A .pending file without its upload would be an upload that nobody finds: they go together.
        magic = self._delayed(path) or self._delayed(self._strip_protocol(path).removesuffix(PENDING))
        if magic is None:
            self._at_once(path)
            await self.fs._rm_file(self._strip_protocol(path), **kwargs)
            return
        store = self.store(magic.bucket)
        if (pending := self._in_memory(magic)) is not None:
            tracker().withdraw(magic.scope, magic.path, pending.upload_id)
            await store.abort_upload(pending.destination_key, pending.upload_id)
            return
        try:
            pending = await listing.abort_pending(store, magic, magic.pending_key)
        except ObjectNotFound:
            await self.fs._rm_file(magic.path, **kwargs)
            return
        tracker().withdraw(magic.scope, magic.path, pending.upload_id)
        await store.delete([magic.pending_key, magic.key])

    async def _rm(
        self,
        path: Any,
        recursive: bool = False,
        batch_size: int | None = None,  # noqa: ARG002 - fsspec's signature
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        named = [path] if isinstance(path, str) else list(path)
        ordinary = [self._strip_protocol(one) for one in named if self.locate(one) is None]
        if ordinary:
            self._at_once(ordinary[0])
            # One path stays one path: s3fs removes a bucket with all its versions only then.
            given = ordinary[0] if isinstance(path, str) else ordinary
            await self.fs._rm(given, recursive=recursive, maxdepth=maxdepth, **kwargs)
        for one in named:
            if (magic := self.locate(one)) is not None:
                await self._rm_magic(magic, recursive, maxdepth)

    async def _rm_magic(self, magic: MagicPath, recursive: bool, maxdepth: int | None) -> None:
        if recursive and maxdepth is None and await self._isdir(magic.path):
            await listing.remove_tree(self.store(magic.bucket), magic)
        elif maxdepth is None and (not has_magic(magic.path) or await self._exists(magic.path)):
            await self._rm_file(magic.path)
        else:
            for found in await self._expand_path(magic.path, recursive=recursive, maxdepth=maxdepth):
                await self._rm_file(found)
