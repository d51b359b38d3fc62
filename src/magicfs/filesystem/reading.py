"""Looking and reading: what lies under magic paths, everything else passed through."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

from fsspec.utils import stringify_path, tokenize

from magicfs.errors import MagicError, ObjectNotFound, UsageError
from magicfs.filesystem import in_hand, listing
from magicfs.filesystem.connection import Connection, rooted
from magicfs.filesystem.job_settings import known_jobs
from magicfs.filesystem.tracking import MARKER_LENGTH, identity_of, name_in, tracker
from magicfs.formats.pending import Pending
from magicfs.protocol.final_names import final_key
from magicfs.protocol.magic import MagicPath
from magicfs.runtime.interrupt import run_on

_XATTR = "header."
_PAST = {"read": "read", "copy": "copied or moved"}


class Reading(Connection):
    """The part of ``MagicFileSystem`` that changes nothing."""

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG002
        magic = await self._magic(path)
        if (pending := self._in_memory(magic)) is not None:
            found = listing.in_memory(magic.path, pending)
        else:
            found = await listing.info(self.store(magic.bucket), magic, self._remembered(magic))
        named: dict[str, Any] = self.as_asked(path, found)
        return named

    def as_asked(self, path: Any, found: Any) -> Any:
        """Names as those who take them apart expect them: beginning as the path that they gave."""
        is_rooted = self._chains_with_slash and stringify_path(path).startswith("/")
        return rooted(found) if is_rooted else found

    async def _exists(self, path: str, **kwargs: Any) -> bool:  # noqa: ARG002
        try:
            await self._info(path)
        except FileNotFoundError:
            return False
        return True

    async def _isdir(self, path: str) -> bool:
        magic = await self._magic(path)
        return await listing.is_directory(self.store(magic.bucket), magic, self._remembered(magic))

    async def _ls(self, path: str, detail: bool | None = None, **kwargs: Any) -> list[Any]:  # noqa: ARG002
        if detail is None:
            # Whether names or details come unasked differs from filesystem to filesystem.
            detail = bool(inspect.signature(self.coroutines._ls).parameters["detail"].default)
        magic = await self._magic(path)
        entries = await listing.children(self.store(magic.bucket), magic, self._remembered(magic))
        self._with_sizes(magic, entries)
        return list(self.as_asked(path, entries if detail else [entry["name"] for entry in entries]))

    async def _walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        walk = self.coroutines.walk_through if self.locate(path) is None else super()._walk
        asked = {"maxdepth": maxdepth, "topdown": topdown, "on_error": on_error}
        async for step in walk(self._strip_protocol(path), **asked, **kwargs):
            yield step

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> Any:
        magic = await self._magic(path)
        store, prefix = self.store(magic.bucket), kwargs.get("prefix", "")
        found = await listing.descendants(
            store, magic, self._remembered(magic), maxdepth=maxdepth, withdirs=withdirs, prefix=prefix
        )
        self._with_sizes(magic, found.values())
        names = sorted(found)
        return self.as_asked(path, {name: found[name] for name in names} if kwargs.get("detail") else names)

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        if (held := await self._bytes_in_hand(path)) is not None:
            return held[start:end]
        await self._refuse_pending(path, "read")
        body: bytes = await self.coroutines._cat_file(
            self._strip_protocol(path), start=start, end=end, **kwargs
        )
        return body

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """The bytes of a file, or those of several by their paths."""
        return run_on(self.loop, self._cat, path, recursive, on_error, **kwargs)

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        asked = {"max_gap": max_gap, "batch_size": batch_size, "on_error": on_error}
        found: list[Any] = await super()._cat_ranges(paths, starts, ends, **asked, **kwargs)
        # fsspec's own takes no notice of on_error before release 2026.6.
        if on_error != "return":
            for error in found:
                if isinstance(error, BaseException):
                    raise error
        return found

    async def _get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        if (held := await self._bytes_in_hand(rpath)) is not None:
            await in_hand.save(held, lpath, **kwargs)
            return
        info = await self._refuse_pending(rpath, "read")
        if info["type"] != "directory":  # the wrapped filesystem may not know that it is one
            await self.coroutines._get_file(self._strip_protocol(rpath), lpath, **kwargs)

    async def _getxattr(self, path: str, attr_name: str, **kwargs: Any) -> Any:
        magic = self._delayed(path)
        if magic is None or attr_name.removeprefix(_XATTR) != MARKER_LENGTH:
            return await self.coroutines._getxattr(self._strip_protocol(path), attr_name, **kwargs)
        info = await self._info(path)
        return str(info["size"]).encode() if info.get(listing.PENDING_FLAG) else None

    def getxattr(self, path: str, attr_name: str, **kwargs: Any) -> Any:
        """An attribute of the wrapped filesystem; of a marker, the length of its upload as Hadoop gives it.

        Returns:
            For ``header.x-hadoop-s3a-magic-data-length`` decimal text in bytes, or None without a length.
        """
        return run_on(self.loop, self._getxattr, path, attr_name, **kwargs)

    def created(self, path: str) -> Any:
        remembered = self._modified_in_memory(path)
        return self.fs.created(self._strip_protocol(path)) if remembered is None else remembered

    def modified(self, path: str, **kwargs: Any) -> Any:
        remembered = self._modified_in_memory(path)
        return self.fs.modified(self._strip_protocol(path), **kwargs) if remembered is None else remembered

    def checksum(self, path: str, **kwargs: Any) -> Any:
        """The wrapped filesystem's; of a pending file a number that differs when it is written anew."""
        return run_on(self.loop, self._checksum, path, **kwargs)

    async def _checksum(self, path: str, **kwargs: Any) -> Any:
        if (upload := await self._pending_upload(path)) is not None:
            return int(tokenize(upload), 16)
        return await self.coroutines._checksum(self._strip_protocol(path), **kwargs)

    def ukey(self, path: str) -> Any:
        """The wrapped filesystem's; of a pending file a text that differs when it is written anew."""
        upload = run_on(self.loop, self._pending_upload, path)
        return self.fs.ukey(self._strip_protocol(path)) if upload is None else tokenize(upload)

    async def _pending_upload(self, path: str) -> str | None:
        """The id of the upload that is behind a path, for a pending file; one GET where the store knows."""
        magic = self._delayed(path)
        if magic is None:
            return None
        if (pending := self._in_memory(await self._settled(magic))) is None:
            try:
                pending = await listing.read_pending(self.store(magic.bucket), magic)
            except ObjectNotFound:
                return None
        return identity_of(pending)

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> Any:
        return self.fs.sign(self._strip_protocol(path), expiration=expiration, **kwargs)

    async def _bytes_in_hand(self, path: Any) -> bytes | None:
        """The bytes of a small file that its task has written here; None for all others."""
        magic = self._delayed(path)
        if magic is None:
            return None
        store = self.store(magic.bucket)
        if (pending := self._in_memory(await self._settled(magic))) is not None and pending.body is not None:
            return await in_hand.read(store, magic, pending)
        copy = await in_hand.copy_of(store, magic)
        return copy.read() if copy is not None else None

    def _with_sizes(self, path: MagicPath, entries: Iterable[dict[str, Any]]) -> None:
        """Give markers of files that this process has finished the sizes of their uploads."""
        found = [entry for entry in entries if not entry["size"] and entry["type"] == "file"]
        name = name_in(self.store(path.bucket), path.path)
        for files in tracker().below(name, path.path) if found else ():
            for entry in found:
                if (pending := files.get(entry["name"])) is not None:
                    entry["size"] = pending.length

    def _in_memory(self, path: MagicPath) -> Pending | None:
        if not self._is_tracked_in_memory(path):
            return None
        return tracker().find(name_in(self.store(path.bucket), path.scope), path.path)

    def _is_tracked_in_memory(self, path: MagicPath) -> bool:
        owner = path.owner
        store = self.store(path.bucket)
        is_ours = owner is not None and owner.is_ours
        of_job = known_jobs().find(name_in(store, owner.job_directory)) if owner and is_ours else None
        return (of_job or self._settings).options.tracking == "memory"

    def _remembered(self, path: MagicPath) -> dict[str, Pending]:
        """The files at a path and below it that only this process knows, by path."""
        remembered: dict[str, Pending] = {}
        if path.owner is not None and not self._is_tracked_in_memory(path):
            return remembered
        name = name_in(self.store(path.bucket), path.path)
        for files in tracker().below(name, path.path):  # of one task attempt each, so of one tracking
            if self._is_tracked_in_memory(path.below(next(iter(files)).partition("/")[2])):
                remembered |= files
        return remembered

    def _modified_in_memory(self, path: str) -> Any:
        if (magic := self._delayed(path)) is None:
            return None
        if (pending := self._in_memory(run_on(self.loop, self._settled, magic))) is None:
            return None
        return listing.in_memory(magic.path, pending)["LastModified"]

    async def _refuse_pending(self, path: str, verb: str) -> dict[str, Any]:
        """Refuse a file whose content nobody can read yet; returns what is known of another one."""
        magic = self._delayed(path)
        if magic is None:
            return {"type": None}
        info = await self._info(path)
        if info.get(listing.PENDING_FLAG):
            settings = self._settings
            with suppress(MagicError):  # of a job that has ended nothing can be told
                settings = await self._settings_of(magic)
            raise UsageError(
                f"{magic.path} is pending and cannot be {_PAST[verb]} before its job commits; "
                f"it will be {final_key(magic, unique_names=settings.options.unique_names)}; "
                f"{in_hand.way_out()}"
            )
        return info
