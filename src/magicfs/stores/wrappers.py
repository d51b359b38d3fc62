"""Stores around stores."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence

from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PartBody, Store, UploadInfo

__all__ = ["CountingStore"]


class CountingStore:
    """Counts the requests that reach the store within.

    Args:
        inner: The store.
        counts: Requests by the port's names; a listing counts one for every page of
            ``capabilities.list_page_max`` entries that it begins.
    """

    def __init__(self, inner: Store, counts: Counter[str]) -> None:
        self.inner = inner
        self.counts = counts

    @property
    def name(self) -> str:  # noqa: D102
        return self.inner.name

    @property
    def bucket(self) -> str:  # noqa: D102
        return self.inner.bucket

    @property
    def capabilities(self) -> Capabilities:  # noqa: D102
        return self.inner.capabilities

    async def create_upload(self, key: str, *, metadata: Mapping[str, str]) -> str:  # noqa: D102
        await self._count("create_upload")
        return await self.inner.create_upload(key, metadata=metadata)

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:  # noqa: D102
        await self._count("put_part")
        return await self.inner.put_part(key, upload_id, number, body)

    async def complete_upload(self, key: str, upload_id: str, parts: Sequence[Part]) -> ObjectInfo:  # noqa: D102
        await self._count("complete_upload")
        return await self.inner.complete_upload(key, upload_id, parts)

    async def abort_upload(self, key: str, upload_id: str) -> None:  # noqa: D102
        await self._count("abort_upload")
        await self.inner.abort_upload(key, upload_id)

    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:  # noqa: D102
        await self._count("list_uploads")
        seen = 0
        async for info in self.inner.list_uploads(prefix):
            if seen and seen % self.capabilities.list_page_max == 0:
                await self._count("list_uploads")
            seen += 1
            yield info

    async def put(  # noqa: D102
        self, key: str, body: Body, *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> ObjectInfo:
        await self._count("put")
        return await self.inner.put(key, body, metadata=metadata, if_absent=if_absent)

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:  # noqa: D102
        await self._count("get")
        return await self.inner.get(key, size_max=size_max)

    async def head(self, key: str) -> ObjectInfo:  # noqa: D102
        await self._count("head")
        return await self.inner.head(key)

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:  # noqa: D102
        await self._count("list")
        seen = 0
        async for info in self.inner.list(prefix, limit=limit):
            if seen and seen % self.capabilities.list_page_max == 0:
                await self._count("list")
            seen += 1
            yield info

    async def delete(self, keys: Sequence[str]) -> None:  # noqa: D102
        await self._count("delete")
        await self.inner.delete(keys)

    async def _count(self, operation: str) -> None:
        self.counts[operation] += 1
        await asyncio.sleep(0)  # a request gives other tasks their turn, in memory as on a wire
