"""Directories of accounts of Azure Data Lake Storage, by the endpoint ``dfs``.

There directories are real, a rename is one step, and what is renamed keeps its ETag.
"""

from __future__ import annotations

import asyncio
import operator
import weakref
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from magicfs.errors import (
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    StoreError,
    Unavailable,
    Unsupported,
)
from magicfs.protocol import paths
from magicfs.stores.answer_rules import REACH
from magicfs.stores.azure import errors, metadata
from magicfs.stores.azure.requests import PAGE_MAX, AzureRequests, has_etag, quoted, size_of
from magicfs.stores.pages import Listing, Page, Pages
from magicfs.stores.tree_port import Entry

_known: dict[str, bool] = {}
_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()


class AzureFolders:
    """See ``magicfs.stores.tree_port.Folders`` for the contract."""

    def __init__(self, requests: AzureRequests) -> None:
        self._requests = requests

    async def exist(self) -> bool:
        account = self._requests.identity.rpartition("/")[0]
        async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if account not in _known:
                _known[account] = await self._account_has_folders()
            return _known[account]

    async def _account_has_folders(self) -> bool:
        try:
            with self._requests.bounds("folders_exist", ""):
                told = await self._requests.service.get_account_information()
        except (ObjectNotFound, PermissionDenied, Unsupported) as error:
            if errors.code_of(error) in errors.NO_CREDENTIALS:
                raise
            return await self._root_is_a_folder()
        if not told.get("sku_name"):
            problem = "the answer does not describe an account"
            raise Unavailable("folders_exist", self._requests.path(""), problem, hint=REACH)
        return bool(told.get("is_hns_enabled"))

    async def _root_is_a_folder(self) -> bool:
        # Of identities of Entra ID few may ask about the account, for which the usual roles have no action;
        # some releases of the service answer 404. Without a hierarchical namespace nothing has an ACL.
        try:
            with self._requests.bounds("folders_exist", ""):
                await self._container().get_directory_client("/").get_access_control()
        except Unavailable:
            raise
        except StoreError:
            return False
        return True

    async def look(self, path: str) -> Entry | None:
        try:
            found = await self._requests.call("look", path, lambda blob: blob.get_blob_properties())
        except ObjectNotFound as error:
            if errors.code_of(error) in errors.NO_CONTAINER:
                raise
            return None
        if metadata.is_directory(found.metadata):
            return Entry(path, "directory")
        etag = has_etag(found.etag, "look", self._requests.path(path))
        with errors.translated("look", self._requests.path(path)):
            return Entry(path, "file", size_of(found.size), etag)

    def entries(self, path: str) -> AsyncIterator[Entry]:
        what = Listing("entries", self._requests.bucket, paths.prefix_of(path))
        return Pages(what, lambda position: self._page(path, position), operator.attrgetter("path"))

    async def _page(self, path: str, position: dict[str, str]) -> Page[Entry]:
        with self._requests.bounds("entries", path):
            listing = self._container().get_paths(path or None, recursive=False, max_results=PAGE_MAX)
            pages = listing.by_page(position.get("marker"))
            found = [_entry(entry) async for entry in await anext(pages)]
        following = pages.continuation_token
        return Page(found, {"marker": following} if following else None, not found)

    async def make(self, path: str) -> None:
        with self._requests.bounds("make_directory", path):
            await self._container().get_directory_client(path).create_directory()

    async def move(self, source: str, destination: str) -> str | None:
        await self._rename(source, destination)
        return None

    async def rename(self, source: str, destination: str) -> None:
        from azure.core import MatchConditions

        await self._rename(source, destination, match_condition=MatchConditions.IfMissing)

    async def _rename(self, source: str, destination: str, **condition: Any) -> None:
        # The public methods take a % in a name for the beginning of a code.
        query = self._requests.service.url.partition("?")[2]
        origin = f"/{quote(self._requests.bucket)}/{quote(source)}{'?' if query else ''}{query}"
        with self._requests.bounds("rename", source):
            client = self._container().get_directory_client(destination)
            await client._rename_path(origin, **condition)  # noqa: SLF001

    async def delete(self, path: str) -> bool:
        try:
            await self._requests.call("delete_directory", path, lambda blob: blob.delete_blob())
        except ObjectNotFound:
            return False
        except StoreError as error:
            if errors.code_of(error) != "DirectoryIsNotEmpty":
                raise
            place = self._requests.path(path)
            raise ObjectExists("delete_directory", place, "something lies in it") from error
        return True

    async def delete_tree(self, path: str) -> bool:
        try:
            with self._requests.bounds("delete_tree", path):
                await self._container().get_directory_client(path).delete_directory()
        except ObjectNotFound:
            return False
        return True

    def _container(self) -> Any:
        return self._requests.lake.get_file_system_client(self._requests.bucket)


def _entry(found: Any) -> Entry:
    if found.is_directory:
        return Entry(found.name, "directory")
    return Entry(found.name, "file", size_of(found.content_length), quoted(found.etag))
