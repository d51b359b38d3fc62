"""How requests to a container of Azure are made: each once, with errors in the words of the port.

By connections beside those of a user's own ``adlfs.AzureBlobFileSystem``.
"""

from __future__ import annotations

import asyncio
import base64
import builtins
import contextlib
import datetime as dt
import enum
import hashlib
import io
import os
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from magicfs.errors import MagicError, ObjectNotFound, PreconditionFailed, Unavailable
from magicfs.runtime import watchers
from magicfs.stores.answer_rules import (
    NOT_READ,
    REACH,
    WHOLE_BYTES_MAX,
    Malformed,
    deadline_s,
    too_large,
    words,
)
from magicfs.stores.azure import errors, metadata
from magicfs.stores.object_settings import options_of
from magicfs.stores.port import PartBody
from magicfs.stores.undocumented import at_most, bound, response_class, send_once, warn_of_exposure

if TYPE_CHECKING:
    from adlfs import AzureBlobFileSystem

_PLACE = "_magicfs_service"
_LAKE = "_magicfs_lake"
_ONE_REQUEST = 2**40
"""Bytes that are read or written in one request, which is more than any: the SDK would cut them by itself."""
_CLOSE_S = 5.0
_SILENCE_S = 60.0


def service_of(filesystem: AzureBlobFileSystem) -> Any:
    """A client of the same account and credentials, on the same loop, which sends each request once.

    Retries are ours (``stores.retrying``): those of the SDK wait 15 s before the first, and hide lost
    answers. It lives and ends with the filesystem: there is one for each, and nobody else knows it.
    """
    return _kept(filesystem, _PLACE, _made)


def lake_of(filesystem: AzureBlobFileSystem) -> Any:
    """The same for the endpoint ``dfs`` of an account with a hierarchical namespace."""
    return _kept(filesystem, _LAKE, _made_lake)


def _kept(filesystem: AzureBlobFileSystem, place: str, make: Callable[[AzureBlobFileSystem], Any]) -> Any:
    service = filesystem.__dict__.get(place)
    if service is None:
        # Another thread may have been faster; this one has opened nothing yet. No lock: a fork could copy it
        # while it is held.
        service = filesystem.__dict__.setdefault(place, made := make(filesystem))
        if service is made and not filesystem.asynchronous:
            weakref.finalize(filesystem, _close, filesystem.loop, service, os.getpid())
    return service


def _made(filesystem: AzureBlobFileSystem) -> Any:
    from azure.storage.blob.aio import BlobServiceClient

    theirs = filesystem.service_client
    is_signed = "?" in theirs.url  # by a SAS token, if there is one
    warn_of_exposure(theirs.url, has_credentials=is_signed or theirs.credential is not None)
    return BlobServiceClient(
        theirs.url,
        credential=theirs.credential,
        max_single_get_size=_ONE_REQUEST,
        max_single_put_size=_ONE_REQUEST,
        **_how(filesystem),
    )


def _made_lake(filesystem: AzureBlobFileSystem) -> Any:
    from azure.storage.filedatalake.aio import DataLakeServiceClient

    theirs = filesystem.service_client
    credential = theirs.credential
    if hasattr(credential, "account_key"):  # of a class of the other package
        credential = {"account_name": credential.account_name, "account_key": credential.account_key}
    return DataLakeServiceClient(
        theirs.url.replace(".blob.", ".dfs.", 1), credential=credential, **_how(filesystem)
    )


def silence_s(filesystem: AzureBlobFileSystem) -> float:
    """How long the service may send nothing, for a filesystem that says nothing of it as the SDK has it."""
    given = options_of(filesystem).get("read_timeout")
    return float(given) if isinstance(given, int | float) else _SILENCE_S


def _how(filesystem: AzureBlobFileSystem) -> dict[str, Any]:
    """What the clients of both endpoints are told: each request is sent once."""
    given = options_of(filesystem)
    timeouts = {
        name: given[name] for name in ("connection_timeout", "read_timeout") if given.get(name) is not None
    }
    return {
        "transport": _transport_class()(**timeouts),
        "retry_total": 0,
        "raw_request_hook": lambda request: _name_job(request.http_request.headers),
        "permit_redirects": False,  # a request is signed for one account
        "raw_response_hook": errors.check_document,
    }


def _name_job(headers: MutableMapping[str, str]) -> None:
    headers["User-Agent"] = f"{headers.get('User-Agent', '')} {watchers.agent()}".strip()  # it is not signed


def _transport_class() -> type[Any]:
    from azure.core.pipeline.transport import AioHttpTransport

    class SendsOnce(AioHttpTransport):  # type: ignore[misc]  # published without types
        """Without aiohttp's own repetition of requests whose kept connection broke, and with bounds."""

        async def open(self) -> None:
            await super().open()
            send_once(self.session)
            bound(self.session, response_class())

    return SendsOnce


def _close(loop: asyncio.AbstractEventLoop, service: Any, pid: int) -> None:
    """Close the connections of a filesystem that is gone; those of a parent are the parent's."""
    if os.getpid() != pid or not loop.is_running():
        return
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    closing = asyncio.run_coroutine_threadsafe(service.close(), loop)
    if here is not loop:
        with contextlib.suppress(Exception):
            closing.result(_CLOSE_S)


PAGE_MAX = 5000
"""Most entries of one page of a listing (Azure Storage, "List Blobs")."""

_COPY_POLL_S: Final = 0.2
_COPY_POLLS_MAX: Final = 18_000
_PAGE_BYTES_MAX: Final = 64 * 2**20
"""Most bytes of a page of a listing: 5,000 blobs, each with 8 KiB of metadata."""


class _State(enum.Enum):
    """Where the SDK looks for a block. Its own names of states are spelt as it does not understand them."""

    UNCOMMITTED = "uncommitted"


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

    async def call(
        self,
        operation: str,
        key: str,
        request: Callable[[Any], Awaitable[Any]],
        *,
        sent: int = 0,
        read_max: int = 0,
    ) -> Any:
        """Make one request to a blob by a method of its client; ``operation`` is the port's name of it.

        ``sent``: how many bytes of a body are sent. ``read_max``: how many are read, of what is no document.
        """
        with self.bounds(operation, key, sent, read_max):
            return await request(self.service.get_blob_client(self.bucket, key))

    @contextmanager
    def bounds(self, operation: str, key: str, sent: int = 0, read_max: int = 0) -> Iterator[None]:
        """Within, a request has bounds in time and size, and its errors are those of the port."""
        silence = silence_s(self._filesystem)
        size, head_s = max(read_max, _PAGE_BYTES_MAX), deadline_s(silence, sent)
        with errors.translated(operation, self.path(key)), at_most(size, silence, head_s):
            try:
                yield
            except MagicError:
                raise
            except NOT_READ as error:  # the SDK takes out of answers what they may not have
                raise Malformed(f"it cannot be read: {type(error).__name__}: {words(error)}") from error

    async def stage(
        self, operation: str, key: str, block_id: str, body: io.BytesIO, md5: bytes | None = None
    ) -> None:
        """Send a block. Azure refuses one that does not arrive as it was sent; ``md5`` saves reckoning it."""
        headers = {"Content-MD5": base64.b64encode(md5 or md5_of(body)).decode()}
        size = body.getbuffer().nbytes
        await self.call(
            operation,
            key,
            lambda blob: blob.stage_block(block_id, body, length=size, headers=headers),
            sent=size,
        )

    async def blocks(self, operation: str, key: str) -> frozenset[str]:
        """The ids of the blocks of a key that are not committed."""
        try:
            _, found = await self.call(operation, key, lambda blob: blob.get_block_list("uncommitted"))
        except ObjectNotFound as error:
            if errors.code_of(error) in errors.NO_CONTAINER:
                raise
            return frozenset()
        return frozenset(block.id for block in found)

    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        condition = if_match(etag)
        try:
            found = await self.call("checksums", key, lambda blob: blob.get_blob_properties(**condition))
        except PreconditionFailed:
            # It is refused so where nothing is, too.
            await self.call("checksums", key, lambda blob: blob.get_blob_properties())
            raise
        if metadata.is_directory(found.metadata):
            raise ObjectNotFound("checksums", self.path(key), "a directory is there")
        has_etag(found.etag, "checksums", self.path(key))
        told = found.content_settings.content_md5
        return {"MD5": base64.b64encode(bytes(told)).decode()} if told else {}

    async def read(self, operation: str, key: str, start: int, size: int | None, **how: Any) -> bytes:
        """So many bytes of a blob, as they are there, from a place on, or what there is of them.

        Without a size the whole blob, unless it has too much for that.
        """
        span = {} if size is None else {"offset": start, "length": size}

        async def request(blob: Any) -> bytes:
            found = await blob.download_blob(decompress=False, **span, **how)
            has_etag(found.properties.etag, operation, self.path(key))
            if metadata.is_directory(found.properties.metadata):
                raise ObjectNotFound(operation, self.path(key), "a directory is there")
            if size is None and found.size > WHOLE_BYTES_MAX:
                raise too_large(operation, self.path(key))
            body: bytes = await found.readall()
            return body

        body: bytes = await self.call(operation, key, request, read_max=size or WHOLE_BYTES_MAX)
        return body

    async def copied(self, key: str, answer: Mapping[str, Any]) -> None:
        """Wait until a copy to a key is whole; ``answer`` is what its request got."""
        status, polls = answer.get("copy_status"), 0
        while status == "pending" and polls < _COPY_POLLS_MAX:
            polls += 1
            await asyncio.sleep(_COPY_POLL_S)
            found = await self.call("copy", key, lambda blob: blob.get_blob_properties())
            if found.copy.id != answer.get("copy_id"):
                raise Unavailable("copy", self.path(key), "another write has replaced the copy")
            status = found.copy.status
        if status != "success":
            raise Unavailable("copy", self.path(key), f"the copy ended as {words(status)}")

    async def page(
        self, operation: str, prefix: str, position: Mapping[str, str], method: str, **how: Any
    ) -> tuple[builtins.list[Any], dict[str, str] | None]:
        """One page of a listing, and where the next one begins."""
        how = {"results_per_page": PAGE_MAX, **how}
        with self.bounds(operation, prefix):
            container = self.service.get_container_client(self.bucket)
            listing = getattr(container, method)(name_starts_with=prefix or None, **how)
            pages = listing.by_page(position.get("marker"))
            found = [entry async for entry in await anext(pages)]
            if any(not entry.name.startswith(prefix) for entry in found):
                raise Malformed("the listing names blobs outside the requested prefix")
        following = pages.continuation_token
        return found, {"marker": following} if following else None


def quoted(etag: str | None) -> str:
    """An ETag as it travels: listings show it without quotation marks. Empty for none."""
    return f'"{etag.strip(chr(34))}"' if etag else ""


def md5_of(body: io.BytesIO) -> bytes:
    """What Azure compares a body with."""
    return hashlib.md5(body.getbuffer(), usedforsecurity=False).digest()


def if_match(etag: str) -> dict[str, Any]:
    """The arguments of a request that is about one version of a blob."""
    from azure.core import MatchConditions

    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def if_nothing_is_there() -> dict[str, Any]:
    """The arguments of a request that makes a blob where none is."""
    from azure.core import MatchConditions

    return {"match_condition": MatchConditions.IfMissing}


def as_stream(body: PartBody) -> io.BytesIO:
    """A body as the client takes it."""
    # aiohttp warns about large bare bytes. A BytesIO made of bytes shares their memory.
    return io.BytesIO(body.getvalue() if isinstance(body, io.BytesIO) else body)


def has_etag(etag: Any, operation: str, path: str) -> str:
    """An ETag as it travels. Raises Unavailable for an answer without one: it is not about a blob."""
    if not isinstance(etag, str) or not etag:
        raise Unavailable(operation, path, "the answer has no ETag", hint=REACH)
    return quoted(etag)


def seconds(moment: dt.datetime | None) -> float | None:
    """A moment in seconds since 1970."""
    return moment.timestamp() if moment is not None else None


def size_of(size: Any) -> int:
    """A size that the SDK has read; ``Malformed`` for what is none."""
    if not isinstance(size, int) or size < 0:
        raise Malformed(f"the answer's size is {words(size)[:40]!r}")
    return size


def uncommitted(block_ids: Iterable[str]) -> builtins.list[Any]:
    """Blocks that are not committed, as the client names them in a block list."""
    from azure.storage.blob import BlobBlock

    return [BlobBlock(block_id, state=_State.UNCOMMITTED) for block_id in block_ids]
