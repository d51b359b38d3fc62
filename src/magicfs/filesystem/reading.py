"""Looking and reading: what lies under magic paths, everything else passed through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from magicfs.errors import MagicError, UsageError
from magicfs.filesystem import listing
from magicfs.filesystem.connection import Connection
from magicfs.filesystem.job_settings import known_jobs
from magicfs.filesystem.recording import MARKER_LENGTH
from magicfs.filesystem.tracking import tracker
from magicfs.formats.pending import Pending
from magicfs.protocol.final_names import final_key
from magicfs.protocol.magic import MagicPath
from magicfs.stores.interrupt import run_on

__all__ = ["Reading"]

_XATTR = "header."
_PAST = {"read": "read", "copy": "copied or moved"}


class Reading(Connection):
    """The part of ``MagicFileSystem`` that changes nothing."""

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        magic = self.locate(path)
        if magic is None:
            found: dict[str, Any] = await self.fs._info(self._strip_protocol(path), **kwargs)
            return found
        if (pending := self._in_memory(magic)) is not None:
            return listing.in_memory(magic, pending)
        return await listing.info(self.store(magic.bucket), magic)

    async def _exists(self, path: str, **kwargs: Any) -> bool:
        if self.locate(path) is None:
            return bool(await self.fs._exists(self._strip_protocol(path), **kwargs))
        try:
            await self._info(path)
        except FileNotFoundError:
            return False
        return True

    async def _isdir(self, path: str) -> bool:
        magic = self.locate(path)
        if magic is None:
            return bool(await self.fs._isdir(self._strip_protocol(path)))
        return await listing.is_directory(self.store(magic.bucket), magic)

    async def _ls(self, path: str, detail: bool | None = None, **kwargs: Any) -> list[Any]:
        magic = self.locate(path)
        if magic is None:
            # Whether names or details come unasked differs from filesystem to filesystem.
            asked = kwargs if detail is None else {**kwargs, "detail": detail}
            found: list[Any] = await self.fs._ls(self._strip_protocol(path), **asked)
            return found
        entries = await listing.children(self.store(magic.bucket), magic)
        return [entry["name"] for entry in entries] if detail is False else entries

    async def _walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        walk = self.fs._walk if self.locate(path) is None else super()._walk
        asked = {"maxdepth": maxdepth, "topdown": topdown, "on_error": on_error}
        async for step in walk(self._strip_protocol(path), **asked, **kwargs):
            yield step

    async def _glob(self, path: str, maxdepth: int | None = None, **kwargs: Any) -> Any:
        if self.locate(path) is None:
            return await self.fs._glob(self._strip_protocol(path), maxdepth=maxdepth, **kwargs)
        return await super()._glob(path, maxdepth=maxdepth, **kwargs)

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> Any:
        magic = self.locate(path)
        if magic is None:
            return await self.fs._find(
                self._strip_protocol(path), maxdepth=maxdepth, withdirs=withdirs, **kwargs
            )
        found = await listing.descendants(self.store(magic.bucket), magic, maxdepth, withdirs=withdirs)
        return {name: found[name] for name in sorted(found)} if kwargs.get("detail") else sorted(found)

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        await self._refuse_pending_async(path, "read")
        body: bytes = await self.fs._cat_file(self._strip_protocol(path), start=start, end=end, **kwargs)
        return body

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
        await self._refuse_pending_async(rpath, "read")
        await self.fs._get_file(self._strip_protocol(rpath), lpath, **kwargs)

    def getxattr(self, path: str, attr_name: str, **kwargs: Any) -> Any:
        """An attribute of the wrapped filesystem; of a marker, the length of its upload as Hadoop gives it.

        Returns:
            For ``header.x-hadoop-s3a-magic-data-length`` decimal text in bytes, or None without a length.
        """
        magic = self._delayed(path)
        if magic is None or attr_name.removeprefix(_XATTR) != MARKER_LENGTH:
            return self.fs.getxattr(self._strip_protocol(path), attr_name, **kwargs)
        info = self.info(path)
        return str(info["size"]).encode() if info.get(listing.PENDING_FLAG) else None

    def created(self, path: str) -> Any:
        return self.fs.created(self._strip_protocol(path))

    def modified(self, path: str, **kwargs: Any) -> Any:
        return self.fs.modified(self._strip_protocol(path), **kwargs)

    def checksum(self, path: str, **kwargs: Any) -> Any:
        return self.fs.checksum(self._strip_protocol(path), **kwargs)

    def sign(self, path: str, expiration: int = 100, **kwargs: Any) -> Any:
        return self.fs.sign(self._strip_protocol(path), expiration=expiration, **kwargs)

    def _in_memory(self, path: MagicPath) -> Pending | None:
        owner = path.owner
        of_job = known_jobs().find(owner.job_directory) if owner is not None and owner.is_ours else None
        in_memory = (of_job or self._settings).tracking == "memory"
        return tracker().find(path.scope, path.path) if in_memory else None

    async def _refuse_pending_async(self, path: str, verb: str) -> None:
        magic = self._delayed(path)
        if magic is None:
            return
        info = await self._info(path)
        if info.get(listing.PENDING_FLAG):
            settings = self._settings
            with suppress(MagicError):  # of a job that has ended nothing can be told
                settings = await self._settings_of(magic)
            raise UsageError(
                f"{magic.path} is pending and cannot be {_PAST[verb]} before its job commits; "
                f"it will be {final_key(magic, unique_names=settings.unique_names)}"
            )

    def _refuse_pending(self, path: str, verb: str) -> None:
        run_on(self.loop, self._refuse_pending_async, path, verb)
