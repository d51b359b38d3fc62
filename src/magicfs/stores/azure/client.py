"""The connections that magicfs uses beside those of a user's own ``adlfs.AzureBlobFileSystem``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from magicfs.runtime import watchers
from magicfs.stores.azure import errors
from magicfs.stores.bounded_response import response_class
from magicfs.stores.object_settings import options_of
from magicfs.stores.undocumented import bound, send_once, warn_of_exposure

if TYPE_CHECKING:
    from adlfs import AzureBlobFileSystem

__all__ = ["lake_of", "service_of", "silence_s"]

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
