"""Writing: what goes below a magic path becomes a delayed upload, everything else passes through."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback

from magicfs.errors import UsageError
from magicfs.filesystem import in_hand, sources, wrapped_files
from magicfs.filesystem.job_settings import WriteSettings, known_jobs
from magicfs.filesystem.options import check_choice
from magicfs.filesystem.reading import Reading
from magicfs.filesystem.tracking import Closing, MemoryRecorder, StoreRecorder, name_in, tracker
from magicfs.filesystem.upload import AsyncDelayedFile, DelayedFile, Recorder, Upload
from magicfs.filesystem.upload.stream import taker_for
from magicfs.formats.pending import Pending
from magicfs.protocol import file_options, paths
from magicfs.protocol.file_options import CONTENT_TYPE
from magicfs.protocol.final_names import final_key
from magicfs.protocol.magic import MagicPath
from magicfs.runtime.interrupt import run_on
from magicfs.runtime.process_end import shared_with_threads
from magicfs.stores import object_settings
from magicfs.stores.delegating import acting_for
from magicfs.stores.port import Store


def guessed(store: Store, path: str) -> dict[str, str]:
    """The options of an upload that say so; none where it gives none, or the name gives none."""
    kind = mimetypes.guess_type(path)[0] if store.capabilities.guesses_content_type else None
    return {} if kind is None else {CONTENT_TYPE: kind}


_MODES = {"overwrite": "wb", "create": "xb"}


class Writing(Reading):
    """The part of ``MagicFileSystem`` that writes files."""

    def open(
        self,
        path: Any,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Open a file; under a magic path only for writing, ``w`` or ``x``.

        A file that is written in text mode or compressed aborts, too, when its ``with`` body raises. A second
        call writes the file anew, and the last one counts. What the object shall have is given as to s3fs,
        ``ContentType``, ``Metadata``, ``StorageClass``, ``acl`` and others, or as gcsfs and adlfs call them.

        Raises:
            FileExistsError: The mode is ``x``, and the file is being written or pending already.
            UsageError: The store takes no option of that name with one file. Nothing was written.
            ProtocolViolation: The path is a task's of a job that has ended or was never set up, or with
                ``tracking="memory"`` the task was set up in another process. Nothing was written.
        """
        magic = self._delayed(path)
        if magic is None or "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **kwargs)
        kwargs["compression"] = compression
        joined = self._transactions.to_join(magic.scope, magic.path)
        if joined is None:
            return self._open_delayed(magic, mode, kwargs)
        with self._transactions.joined(joined, magic.scope):
            file = self._open_delayed(magic, mode, kwargs)
        if joined.ended:
            file.abort()
            raise UsageError(f"{magic.path}: its transaction has ended meanwhile; write the file again")
        return file

    def _open_delayed(self, magic: MagicPath, mode: str, kwargs: dict[str, Any]) -> Any:
        autocommit = bool(kwargs.get("autocommit", not self._intrans))
        others = {name: value for name, value in kwargs.items() if name not in wrapped_files.WRAPPING}
        options = file_options.of_writer(others)

        def open_binary(mode: str) -> DelayedFile:
            self._check_mode(magic, mode)
            file = self._new_file(magic, mode, options, autocommit)
            if not autocommit:
                self.transaction.files.append(file)
            return file

        if "b" in mode and kwargs.get("compression") is None:
            return open_binary(mode)
        return wrapped_files.open_wrapped(open_binary, magic.path, mode, kwargs)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        magic = self._delayed(path)
        if magic is not None:
            self._check_mode(magic, mode)
            if mode != "rb":
                return self._new_file(magic, mode, file_options.of_writer(kwargs), autocommit)
            if (held := run_on(self.loop, self._bytes_in_hand, path)) is not None:
                return shared_with_threads(in_hand.Reader(held, self, magic.path))
            run_on(self.loop, self._refuse_pending, path, "read")
        elif mode != "rb":
            self._at_once(path)
        given = {"block_size": block_size, "autocommit": autocommit, "cache_options": cache_options}
        return self._as_ours(self.fs._open(self._strip_protocol(path), mode=mode, **given, **kwargs))

    def _as_ours(self, file: Any) -> Any:
        """A file of the wrapped filesystem; who asks it for its filesystem is given this one.

        Through the wrapped one a write below a magic path would be visible at once.
        """
        file.fs = self
        if getattr(file, "s3", None) is self.fs:  # s3fs's own name for it
            file.s3 = self
        return shared_with_threads(file)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """As ``open``, for coroutines on the filesystem's loop; binary only."""
        magic = self._delayed(path)
        if magic is None:
            if mode != "rb":
                self._at_once(path)
            return self._as_ours(await self.coroutines.open_async(self._strip_protocol(path), mode, **kwargs))
        self._check_mode(magic, mode)
        if mode == "rb":
            if (held := await self._bytes_in_hand(path)) is not None:
                return in_hand.AsyncReader(in_hand.Reader(held, self, magic.path))
            await self._refuse_pending(path, "read")
            return self._as_ours(await self.coroutines.open_async(self._strip_protocol(path), mode, **kwargs))
        return await self._start(magic, file_options.of_writer(kwargs), mode)

    async def _pipe_file(
        self,
        path: str,
        value: Any = None,
        mode: str = "overwrite",
        *,
        data: Any = None,  # as s3fs calls the value
        **kwargs: Any,
    ) -> Any:
        if (value is None) == (data is None):
            raise UsageError(f"{path}: pipe_file takes one value; write pipe_file(path, b'…')")
        value = data if value is None else value
        magic = self._delayed(path)
        if magic is None:
            self._at_once(path)
            if mode != "overwrite":
                kwargs["mode"] = mode
            return await self.coroutines._pipe_file(self.handed(path), value, **kwargs)
        memoryview(value)  # what has no bytes is refused before anything is written
        async with await self._start(magic, file_options.of_writer(kwargs), _mode_of(mode)) as file:
            await file.write_all(value)
        return None

    async def _put_file(
        self,
        lpath: str,
        rpath: str,
        mode: str = "overwrite",
        callback: Callback = DEFAULT_CALLBACK,
        **kwargs: Any,
    ) -> None:
        magic = self._delayed(rpath)
        if magic is None:
            self._at_once(rpath)
            return
        source = await asyncio.to_thread(sources.opened, lpath)
        if source is None:
            return
        options = file_options.of_writer(kwargs)
        taken = self.store(magic.bucket).capabilities.uploads.options
        if (guessed := mimetypes.guess_type(lpath)[0]) and CONTENT_TYPE in taken:
            options.setdefault(CONTENT_TYPE, guessed)
        callback.set_size(source.size)
        with source:
            async with await self._start(magic, options, _mode_of(mode)) as file:
                while written := await file.write_from(source.read):
                    callback.relative_update(written)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        if (held := await self._bytes_in_hand(path1)) is not None:
            if self._delayed(path2) is not None:
                own = file_options.of_writer(kwargs)
                kwargs = sources.options_of_copy(self._options_in_hand(path1), own)
            await self._pipe_file(path2, held, **kwargs)
            return
        await self._refuse_pending(path1, "copy")
        source = self._strip_protocol(path1)
        magic = self._delayed(path2)
        if magic is None:
            self._at_once(path2)
            await self.coroutines._cp_file(source, self._strip_protocol(path2), **kwargs)
            return
        opened = await sources.open_source(self, source)
        if opened is None:
            return
        options = sources.options_of_copy(opened.options, file_options.of_writer(kwargs))
        async with await self._start(magic, options) as file:
            while await file.write_from(opened.read_next):
                pass

    def mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        """Move files, by copying and deleting; a second call finds no source.

        What a task has itself written and not committed yet gets its new path while it is small; a file that
        has the new path is replaced.

        Raises:
            UsageError: The target lies below a magic path, and the source is nothing that the task has in
                hand: it would be deleted before the file is published, and both be lost if the job aborts.
                Nothing was changed.
        """
        if path1 != path2:
            if run_on(self.loop, self._rename_in_hand, path1, path2):
                return
            run_on(self.loop, self._refuse_move, path1, path2)
        super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)

    async def _mv_file(self, path1: str, path2: str) -> None:
        if await self._rename_in_hand(path1, path2):
            return
        await self._refuse_move(path1, path2)
        await super()._mv_file(path1, path2)

    async def _rename_in_hand(self, path1: Any, path2: Any) -> bool:
        """Give a file in hand, or a directory of nothing else, its new path; False for all others."""
        source, target = (self._delayed(one) if isinstance(one, str) else None for one in (path1, path2))
        if source is None or target is None or source.scope != target.scope:
            return False
        if source.path == target.path:
            return await self._exists(source.path)
        moves = await self._moves_in_hand(source, target)
        if not moves:
            return False
        settings = await self._settings_of(target)
        keys = [final_key(one.new, unique_names=settings.options.unique_names) for one in moves]
        for key in keys:
            paths.check_length(key, "the final key", "shorten the name, or its directories")
        for one, key in zip(moves, keys, strict=True):
            if one.small is not None:
                in_hand.rename(self.store(source.bucket), one.old, one.small, one.new, key)
            else:
                await self._upload_anew(one.old, one.new, settings)
        return True

    async def _moves_in_hand(self, source: MagicPath, target: MagicPath) -> list[in_hand.Move]:
        """The new path of a file, or of each in a directory; none if one of them is not in hand."""
        await self._settled(target)
        found: dict[str, Pending | None] = dict(self._remembered(await self._settled(source)))
        if not found and source.owner is not None:
            found = dict.fromkeys(await self._find(source.path))
        moves = [
            in_hand.Move(
                source.below(path.partition("/")[2]),
                target.below(target.key + path.removeprefix(source.path)),
                pending if pending is not None and pending.body is not None else None,
            )
            for path, pending in found.items()
        ]
        store = self.store(source.bucket)
        is_in_hand = all(one.small is not None or in_hand.is_copied(store, one.old) for one in moves)
        return moves if is_in_hand else []

    async def _upload_anew(self, old: MagicPath, new: MagicPath, settings: WriteSettings) -> None:
        """Give a file that was uploaded another path: an upload cannot be given another key."""
        copy = await in_hand.copy_of(self.store(old.bucket), old)
        if copy is None or (held := copy.read()) is None:
            raise UsageError(
                f"{old.path} cannot be renamed to {new.path}: it is no longer in memory; nothing was "
                f"changed; {in_hand.way_out()}"
            )
        upload = self._upload(new, settings, copy.options, "wb", waits=True)
        async with await AsyncDelayedFile(upload, fs=self, path=new.path).open() as file:
            await file.write_all(held)
        await self._rm_file(old.path)

    def _options_in_hand(self, path: str) -> Mapping[str, Any]:
        """What an uploaded file in hand was opened with."""
        magic = self._delayed(path)
        assert magic is not None
        found = tracker().copy(name_in(self.store(magic.bucket), magic.scope), magic.path)
        return found[0].options if found is not None else {}

    async def _refuse_move(self, path1: Any, path2: Any) -> None:
        sources, targets = (one if isinstance(one, list) else [one] for one in (path1, path2))
        if all(self.locate(one) is None for one in targets):
            return
        for source in sources:
            with suppress(FileNotFoundError):  # a pattern
                await self._refuse_pending(source, "copy")
        raise UsageError(
            f"{path1} cannot be moved to {path2}: it would be deleted before it is published under its new "
            f"name, and lost if the job aborts; nothing was changed; call filesystem.copy({path1!r}, "
            f"{path2!r}), and after that is published filesystem.rm({path1!r})"
        )

    async def _start(
        self, magic: MagicPath, options: Mapping[str, Any], mode: str = "wb"
    ) -> AsyncDelayedFile:
        upload = self._upload(magic, await self._settings_of(magic), options, mode)
        if not self._intrans:
            return await AsyncDelayedFile(upload, fs=self, path=magic.path, mode=mode).open()
        file = await AsyncDelayedFile(upload, autocommit=False, fs=self, path=magic.path, mode=mode).open()
        self.transaction.files.append(wrapped_files.Deferred(file, self.loop))
        return file

    def _check_mode(self, path: MagicPath, mode: str) -> None:
        if mode not in {"rb", "wb", "xb"}:
            raise UsageError(
                f"{path.path}: mode {mode!r} is not possible, because parts of a delayed upload cannot be "
                "changed; use 'wb'"
            )

    def _new_file(
        self, path: MagicPath, mode: str, options: Mapping[str, Any], autocommit: bool
    ) -> DelayedFile:
        settings = self._known_settings(path) or run_on(self.loop, self._settings_of, path)
        upload = self._upload(path, settings, options, mode, guesses=True)
        file = DelayedFile(upload, self.loop, autocommit=autocommit, fs=self, path=path.path, mode=mode)
        return shared_with_threads(file)

    def _upload(
        self,
        path: MagicPath,
        settings: WriteSettings,
        options: Mapping[str, Any],
        mode: str,
        *,
        guesses: bool = False,
        waits: bool = False,
    ) -> Upload:
        store = object_settings.store_with(self.store(path.bucket), settings.object_settings)
        if path.owner is not None:
            store = acting_for(store, path.owner.job)
        key = final_key(path, unique_names=settings.options.unique_names)
        file_options.check(options, store.capabilities.uploads.options, path.path, store.name)
        paths.check_length(key, "the final key", "shorten the name, or its directories")
        background = None
        if not waits and path.owner is not None:
            job, attempt = name_in(store, path.owner.job_directory), name_in(store, path.scope)
            if known_jobs().has_begun(job, attempt):
                background = Closing(attempt, name_in(store, path.path), path.path)
        if in_hand.may_stay(store, path, settings, options):
            recorder: Recorder = MemoryRecorder(store, path, exclusive=mode == "xb")
            return in_hand.SmallFile(store, path, settings, recorder, key, background)
        if guesses:
            options = guessed(store, path.path) | dict(options)
        if settings.options.tracking == "memory":
            recorder = MemoryRecorder(store, path, exclusive=mode == "xb")
        else:
            advice = "shorten the name or its directories, or use tracking='memory', which needs no such file"
            paths.check_length(path.pending_key, "the .pending file", advice)
            recorder = StoreRecorder(
                store, path, etag_format=settings.options.hadoop.etag_format, exclusive=mode == "xb"
            )
        taker = taker_for(store, key, settings.options.collect)
        return Upload(store, key, settings.options.part_size, recorder, options, taker, background)


def _mode_of(mode: str) -> str:
    """The mode of ``open`` for one of ``pipe_file`` and ``put_file``."""
    check_choice("mode", mode, tuple(_MODES))
    return _MODES[mode]
