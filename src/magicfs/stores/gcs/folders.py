"""Folders of buckets of Google Cloud Storage that have a hierarchical namespace, by the JSON API.

Such a bucket makes the folders above an object with it. It lets an object and a folder have one name, and a
move make folders; what the port asks beyond that is looked for first.
"""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
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
from magicfs.runtime.parallel import gathered, raise_first
from magicfs.stores.answer_rules import Malformed, number, words
from magicfs.stores.gcs import errors
from magicfs.stores.gcs.client import CALLS_MAX, GcsBucket, following
from magicfs.stores.pages import Listing, Page, Pages, itself
from magicfs.stores.tree_port import Entry

_known: dict[str, Layout] = {}


@dataclass(frozen=True, slots=True)
class Layout:
    """The kind of a bucket.

    Attributes:
        is_zonal: Whether it is a Rapid bucket, whose objects are visible while they are written.
        is_hierarchical: Whether it has folders, which are renamed in one step.
    """

    is_zonal: bool = False
    is_hierarchical: bool = False


async def layout_of(client: GcsBucket, operation: str) -> Layout:
    """The layout of a bucket; of one that who may use it may not ask about, that of an ordinary one.

    Raises ObjectNotFound if there is no such bucket.
    """
    place = f"{client.location}/{client.bucket}"
    if (known := _known.get(place)) is not None:
        return known
    target, kind = f"{client.root}/storageLayout", "storage#storageLayout"
    try:
        told = await client.document(operation, "", "GET", target, kind)
    except (PermissionDenied, Unsupported) as error:
        if error.hint == errors.CREDENTIALS:
            raise  # others may be allowed to ask
        told = {}
    with client.reading(operation, ""):
        folders = told.get("hierarchicalNamespace") or {}
        found = Layout(told.get("locationType") == "zone", bool(folders.get("enabled")))
    if not found.is_zonal:
        _known[place] = found
    return found


_FIELDS: Final = "name,size,md5Hash,crc32c,generation"
_OBJECTS: Final = "storage#objects"
_AT_ONCE: Final = 16
# Of a rename that goes on; it is over within seconds whatever lies below (Google's guide to folders).
_FIRST_POLL_S: Final = 0.05
_LAST_POLL_S: Final = 2.0
_POLLS_UNANSWERED_MAX: Final = 8
_POLLS_MAX: Final = 1000


class GcsFolders:
    """See ``magicfs.stores.tree_port.Folders`` for the contract.

    The ETag of an object is made of its checksum: a move gives it another generation. An object that is
    equal to another in every byte has the same.
    """

    def __init__(self, client: GcsBucket) -> None:
        self._client = client
        self._root = client.root

    async def exist(self) -> bool:
        return (await layout_of(self._client, "folders_exist")).is_hierarchical

    async def look(self, path: str) -> Entry | None:
        try:
            answer = await self._ask("look", path, "GET", self._client.object(path), {"fields": _FIELDS})
        except ObjectNotFound:
            return Entry(path, "directory") if await self._is_folder("look", path) else None
        with self._client.reading("look", path):
            found = _entry(answer)
            if found.path != path:
                raise Malformed(f"the answer is about {words(found.path)!r}")
            return found

    def entries(self, path: str) -> AsyncIterator[Entry]:
        prefix = paths.prefix_of(path)
        wanted = {
            "prefix": prefix,
            "delimiter": "/",
            "includeFoldersAsPrefixes": "true",
            "fields": f"kind,items({_FIELDS}),prefixes,nextPageToken",
        }

        async def page(position: dict[str, str]) -> Page[Entry]:
            answer = await self._ask(
                "entries", path, "GET", f"{self._root}/o", wanted | position, kind=_OBJECTS
            )
            files = [_entry(item) for item in answer.get("items", ()) if item["name"] != prefix]
            folders = [Entry(name[:-1], "directory") for name in answer.get("prefixes", ())]
            is_bare = path and not position and not files and not folders
            if is_bare and not await self._is_folder("entries", path):
                raise ObjectNotFound("entries", self._client.path(path), "no such directory")
            found = [*files, *folders]
            return Page(found, following(answer), not found)

        return Pages(Listing("entries", self._client.bucket, prefix), page, operator.attrgetter("path"))

    async def make(self, path: str) -> None:
        if await self._is_folder("make_directory", path):
            return
        try:
            target, named = f"{self._root}/folders", {"name": f"{path}/"}
            await self._ask("make_directory", path, "POST", target, {"recursive": "true"}, named)
        except StoreError:
            # Somebody else was faster, or the answer to an earlier request was lost.
            if not await self._is_folder("make_directory", path):
                raise

    async def move(self, source: str, destination: str) -> str | None:
        await self._require_free(destination)
        target = f"{self._client.object(source)}/moveTo/o/{_quoted(destination)}"
        answer = await self._ask("rename", source, "POST", target)
        with self._client.reading("rename", source):
            return str(number(str(answer["generation"]), "generation"))

    async def _require_free(self, destination: str) -> None:
        """Raise ObjectExists where a folder is at the destination, ObjectNotFound without a folder above."""
        parent = destination.rpartition("/")[0]

        async def is_folder(path: str) -> bool:
            return await self._is_folder("rename", path)

        taken, *above = await gathered([destination, parent][: 2 if parent else 1], is_folder, _AT_ONCE)
        if taken:
            raise ObjectExists("rename", self._client.path(destination), "a directory is there")
        if not all(above):
            raise self._no_folder(destination, parent)

    async def rename(self, source: str, destination: str) -> None:
        target = f"{self._folder(source)}/renameTo/folders/{_quoted(f'{destination}/')}"
        try:
            answer = await self._ask("rename", source, "POST", target)
        except StoreError as error:
            if error.retryable:
                raise
            raise await self._why(error, source, destination) from error
        await self._finish(answer, source)

    async def _why(self, error: StoreError, source: str, destination: str) -> StoreError:
        """What stood in the way of renaming a folder: the service's own words are the same for all of it."""
        parent = destination.rpartition("/")[0]
        if not await self._is_folder("rename", source):
            return ObjectNotFound("rename", self._client.path(source), "no such directory")
        if parent and not await self._is_folder("rename", parent):
            return self._no_folder(destination, parent)
        if await self._is_folder("rename", destination):
            return ObjectExists("rename", self._client.path(destination), "a directory is there")
        return error

    async def _finish(self, operation: Mapping[str, Any], source: str) -> None:
        """Wait until an operation of the service is over."""
        pause, silent, polls = _FIRST_POLL_S, 0, 0
        while not operation.get("done"):
            polls += 1
            if polls > _POLLS_MAX or not operation.get("name"):
                problem = "the service does not report whether it is finished"
                raise Unavailable(
                    "rename", self._client.path(source), problem, hint="check which of the two exists"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_POLL_S)
            name = str(operation["name"]).rpartition("/")[2]
            try:
                operation = await self._ask(
                    "rename", source, "GET", f"{self._root}/operations/{_quoted(name)}"
                )
            except Unavailable:  # it goes on all the same
                silent += 1
                if silent == _POLLS_UNANSWERED_MAX:
                    raise
        if failed := operation.get("error"):
            answer = failed.get("message", failed) if isinstance(failed, Mapping) else failed
            problem = f"the service stopped renaming: {words(answer)}"
            raise Unavailable(
                "rename", self._client.path(source), problem, hint="check which of the two exists"
            )

    async def delete(self, path: str) -> bool:
        try:
            await self._ask("delete_directory", path, "DELETE", self._folder(path))
        except ObjectNotFound:
            return False
        except StoreError as error:
            denied = isinstance(error, PermissionDenied)
            if denied or error.retryable or not await self._is_folder("delete_directory", path):
                raise
            raise ObjectExists("delete_directory", self._client.path(path), "something lies in it") from error
        return True

    async def delete_tree(self, path: str) -> bool:
        there = await self._is_folder("delete_tree", path)
        prefix = f"{path}/"
        what = Listing("delete_tree", self._client.bucket, prefix)
        objects = Pages(what, lambda position: self._names(f"{self._root}/o", prefix, position), itself)
        await self._delete_objects([name async for name in objects])
        folders = Pages(what, lambda position: self._names(f"{self._root}/folders", prefix, position), itself)
        found = [name[:-1] async for name in folders]
        for depth in sorted({name.count("/") for name in found}, reverse=True):
            await gathered(
                [name for name in found if name.count("/") == depth], self._delete_quietly, _AT_ONCE
            )
        return there

    async def _delete_quietly(self, path: str) -> None:
        try:
            await self.delete(path)
        except ObjectExists:
            return  # somebody writes there; who asked looks again

    async def _delete_objects(self, names: list[str]) -> None:
        size = CALLS_MAX
        for start in range(0, len(names), size):
            batch = [(name, "") for name in names[start : start + size]]
            answers = await self._client.delete("delete_tree", batch)
            refused = [
                errors.not_deleted(answer, "delete_tree", self._client.path(name))
                for (name, _), answer in zip(batch, answers, strict=True)
            ]
            raise_first([error for error in refused if error is not None])

    async def _names(self, target: str, prefix: str, position: dict[str, str]) -> Page[str]:
        wanted = {"prefix": prefix, "fields": "kind,items(name),nextPageToken", **position}
        kind = _OBJECTS if target.endswith("/o") else "storage#folders"
        answer = await self._ask("delete_tree", prefix, "GET", target, wanted, kind=kind)
        found = [item["name"] for item in answer.get("items", ())]
        return Page(found, following(answer), not found)

    async def _is_folder(self, operation: str, path: str) -> bool:
        try:
            answer = await self._ask(operation, path, "GET", self._folder(path), {"fields": "name"})
        except ObjectNotFound:
            return False  # of a bucket that is not there ``exist`` has said so
        with self._client.reading(operation, path):
            if answer["name"] != f"{path}/":
                raise Malformed(f"the answer is about {words(answer['name'])!r}")
        return True

    async def _ask(
        self,
        operation: str,
        path: str,
        method: str,
        target: str,
        params: Mapping[str, str] | None = None,
        document: Mapping[str, Any] | None = None,
        kind: str = "",
    ) -> dict[str, Any]:
        body = json.dumps(document).encode() if document is not None else b"" if method == "POST" else None
        headers = {"Content-Type": "application/json"} if document is not None else None
        how = {"params": params, "headers": headers, "body": body}
        answer = await self._client.about(operation, path, method, target, **how)
        if not kind and not answer.content:
            return {}
        return errors.document(answer, operation, self._client.path(path), kind)

    def _no_folder(self, path: str, parent: str) -> ObjectNotFound:
        hint = "make the directory first"
        return ObjectNotFound("rename", self._client.path(path), f"no directory {parent!r}", hint=hint)

    def _folder(self, path: str) -> str:
        return f"{self._root}/folders/{_quoted(f'{path}/')}"


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _entry(item: Mapping[str, Any]) -> Entry:
    size = number(str(item.get("size", 0)), "size")
    checksum = item.get("md5Hash") or item.get("crc32c", "")
    return Entry(item["name"], "file", size, f"{checksum}-{size}", str(item["generation"]))
