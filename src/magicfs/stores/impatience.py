"""A store that is given up on when it falls silent: aborting must end, whatever the store does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import TypeVar

from magicfs.errors import Unavailable
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, PartBody, Store, UploadInfo

__all__ = ["PATIENCE_S", "ImpatientStore"]

# Longer than a store's hiccup, shorter than what a person waits for a failed job.
PATIENCE_S = 60.0

_T = TypeVar("_T")


class ImpatientStore:
    """Raises ``Unavailable`` once the store within has answered nothing for some time.

    The time counts from the last answer to any request, so work of any size goes on as long as it gets on.
    A request that is given up is cancelled: it may take place all the same.

    It is made on the loop on which it is used.

    Args:
        inner: The store.
        patience_s: Seconds without an answer.
    """

    def __init__(self, inner: Store, patience_s: float) -> None:
        self.inner = inner
        self._patience_s = patience_s
        self._last_answer = _now()

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
        return await self._answer("create_upload", key, self.inner.create_upload(key, metadata=metadata))

    async def put_part(self, key: str, upload_id: str, number: int, body: PartBody) -> Part:  # noqa: D102
        return await self._answer("put_part", key, self.inner.put_part(key, upload_id, number, body))

    async def complete_upload(self, key: str, upload_id: str, parts: Sequence[Part]) -> ObjectInfo:  # noqa: D102
        return await self._answer("complete_upload", key, self.inner.complete_upload(key, upload_id, parts))

    async def abort_upload(self, key: str, upload_id: str) -> None:  # noqa: D102
        await self._answer("abort_upload", key, self.inner.abort_upload(key, upload_id))

    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:  # noqa: D102
        uploads = aiter(self.inner.list_uploads(prefix))
        while (found := await self._answer("list_uploads", prefix, _next(uploads))) is not None:
            yield found

    async def put(  # noqa: D102
        self, key: str, body: Body, *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> ObjectInfo:
        return await self._answer(
            "put", key, self.inner.put(key, body, metadata=metadata, if_absent=if_absent)
        )

    async def get(self, key: str, *, size_max: int | None = None) -> bytes:  # noqa: D102
        return await self._answer("get", key, self.inner.get(key, size_max=size_max))

    async def head(self, key: str) -> ObjectInfo:  # noqa: D102
        return await self._answer("head", key, self.inner.head(key))

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:  # noqa: D102
        objects = aiter(self.inner.list(prefix, limit=limit))
        while (found := await self._answer("list", prefix, _next(objects))) is not None:
            yield found

    async def delete(self, keys: Sequence[str]) -> None:  # noqa: D102
        await self._answer("delete", keys[0] if keys else "", self.inner.delete(keys))

    async def _answer(self, operation: str, key: str, request: Awaitable[_T]) -> _T:
        left = self._last_answer + self._patience_s - _now()
        try:
            async with asyncio.timeout(max(left, 0)):
                result = await request
        except TimeoutError as error:
            raise Unavailable(
                operation,
                f"{self.bucket}/{key}",
                f"given up: the store has answered nothing for {self._patience_s:g} s",
                hint="check that the endpoint is right and up, then abort again",
            ) from error
        except Unavailable:
            raise
        except Exception:
            self._last_answer = _now()
            raise
        self._last_answer = _now()
        return result


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _next(items: AsyncIterator[_T]) -> _T | None:
    return await anext(items, None)
