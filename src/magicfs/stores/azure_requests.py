"""How requests to a container of Azure are made: each once, with errors in the words of the port."""

from __future__ import annotations

import base64
import builtins
import hashlib
import io
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from magicfs.errors import ObjectNotFound
from magicfs.stores import azure_errors
from magicfs.stores.azure_client import lake_of, service_of

if TYPE_CHECKING:
    from adlfs import AzureBlobFileSystem

__all__ = ["PAGE_MAX", "AzureRequests", "quoted"]

PAGE_MAX = 5000
"""Most entries of one page of a listing (Azure Storage, "List Blobs")."""


class AzureRequests:
    """The requests of one container."""

    def __init__(self, filesystem: AzureBlobFileSystem, container: str) -> None:
        self.bucket = container
        self._filesystem = filesystem

    @property
    def identity(self) -> str:
        """The container at its account."""
        # What follows a question mark is a SAS token.
        return f"abfs:{self._filesystem.service_client.url.partition('?')[0].rstrip('/')}/{self.bucket}"

    @property
    def service(self) -> Any:
        """The client of the account."""
        return service_of(self._filesystem)

    @property
    def lake(self) -> Any:
        """The client of the account's other endpoint, ``dfs``."""
        return lake_of(self._filesystem)

    def path(self, key: str) -> str:
        """What messages call a key."""
        return f"{self.bucket}/{key}"

    async def call(self, operation: str, key: str, request: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make one request to a blob by a method of its client; ``operation`` is the port's name of it."""
        with azure_errors.translated(operation, self.path(key)):
            return await request(self.service.get_blob_client(self.bucket, key))

    async def stage(self, operation: str, key: str, block_id: str, body: io.BytesIO) -> None:
        """Send a block. Azure refuses one that does not arrive as it was sent."""
        checked = hashlib.md5(body.getbuffer(), usedforsecurity=False).digest()
        headers = {"Content-MD5": base64.b64encode(checked).decode()}
        size = body.getbuffer().nbytes
        await self.call(
            operation, key, lambda blob: blob.stage_block(block_id, body, length=size, headers=headers)
        )

    async def blocks(self, operation: str, key: str) -> frozenset[str]:
        """The ids of the blocks of a key that are not committed."""
        try:
            _, found = await self.call(operation, key, lambda blob: blob.get_block_list("uncommitted"))
        except ObjectNotFound as error:
            if azure_errors.code_of(error) in azure_errors.NO_CONTAINER:
                raise
            return frozenset()
        return frozenset(block.id for block in found)

    async def page(
        self, operation: str, prefix: str, position: Mapping[str, str], method: str, **how: Any
    ) -> tuple[builtins.list[Any], dict[str, str] | None]:
        """One page of a listing, and where the next one begins."""
        how = {"results_per_page": PAGE_MAX, **how}
        with azure_errors.translated(operation, self.path(prefix)):
            container = self.service.get_container_client(self.bucket)
            listing = getattr(container, method)(name_starts_with=prefix or None, **how)
            pages = listing.by_page(position.get("marker"))
            found = [entry async for entry in await anext(pages)]
        following = pages.continuation_token
        return found, {"marker": following} if following else None


def quoted(etag: str | None) -> str:
    """An ETag as it travels: listings show it without quotation marks. Empty for none."""
    return f'"{etag.strip(chr(34))}"' if etag else ""
