"""The connections that magicfs uses beside those of a user's own ``s3fs.S3FileSystem``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from magicfs.runtime import watchers
from magicfs.runtime.parallel import REQUESTS_MAX, START
from magicfs.stores.answer_rules import Malformed, check_plain, check_root
from magicfs.stores.bounded_response import response_class
from magicfs.stores.port import Store
from magicfs.stores.retrying import RETRIES, Retry
from magicfs.stores.s3.options import endpoint_of, without_userinfo
from magicfs.stores.undocumented import bound, log_missing, send_once

if TYPE_CHECKING:
    from s3fs import S3FileSystem

__all__ = [
    "CONNECTIONS",
    "connections_of",
    "is_r2",
    "is_session_class",
    "kept_store",
    "retries_of",
    "without_retries",
]

CONNECTIONS = REQUESTS_MAX
"""Most connections at once, unless the filesystem's own ``max_pool_connections`` says otherwise."""

_PLACE = "_magicfs_sibling"
_STORES = "_magicfs_stores"


def without_retries(filesystem: S3FileSystem, options: dict[str, Any]) -> S3FileSystem:
    """A filesystem of the same options, on the same loop, whose client sends each request once.

    Retries are ours (``stores.retrying``): below them, those of botocore would multiply them, and hide lost
    answers. It lives and ends with the filesystem: there is one for each, and nobody else knows it.

    An ``asynchronous`` filesystem has none, and is returned itself: its owner closes its connections.
    """
    if filesystem.asynchronous:
        return filesystem
    sibling = filesystem.__dict__.get(_PLACE)
    if sibling is None:
        config = {
            "max_pool_connections": CONNECTIONS,
            **({} if (cls := _session_class()) is None else {"http_session_cls": cls}),
            **(filesystem.config_kwargs or {}),
            "retries": {"total_max_attempts": 1},
        }
        changed = {"config_kwargs": config, "loop": filesystem.loop, "skip_instance_cache": True}
        made = type(filesystem)(**without_userinfo({**options, **changed}))
        # Another thread may have been faster; this one has opened nothing yet. No lock: a fork could copy it
        # while it is held.
        sibling = filesystem.__dict__.setdefault(_PLACE, made)
    return sibling


def kept_store(filesystem: S3FileSystem, bucket: str, make: Callable[[S3FileSystem, str], Store]) -> Store:
    """The store of a bucket, which lives and ends with the filesystem: every file that is opened asks for it.

    Made anew where somebody has changed what the filesystem adds to its requests. An ``asynchronous``
    filesystem keeps none: it is what its stores hold, and would never be let go.
    """
    if filesystem.asynchronous:
        return make(filesystem, bucket)
    kept: dict[str, tuple[Any, Store]] = filesystem.__dict__.setdefault(_STORES, {})
    added = filesystem.s3_additional_kwargs, filesystem.req_kw
    found = kept.get(bucket)
    if found is None or found[0] != added:
        found = kept[bucket] = tuple(map(dict, added)), make(filesystem, bucket)
    return found[1]


def connections_of(filesystem: S3FileSystem) -> int:
    """Most requests at once that get a connection each."""
    if filesystem.asynchronous:
        return START  # its owner's own connections
    return int((filesystem.config_kwargs or {}).get("max_pool_connections") or CONNECTIONS)


def retries_of(filesystem: S3FileSystem) -> Mapping[str, Retry]:
    """The table of retries; the attempts are those of the filesystem's own configuration if it names any."""
    chosen = (filesystem.config_kwargs or {}).get("retries") or {}
    if "total_max_attempts" in chosen:
        attempts = int(chosen["total_max_attempts"])
    elif "max_attempts" in chosen:
        attempts = int(chosen["max_attempts"]) + 1  # botocore does not count the first one here
    else:
        return RETRIES
    return {operation: replace(row, attempts=attempts, throttled=None) for operation, row in RETRIES.items()}


def is_r2(filesystem: S3FileSystem) -> bool:
    """Whether requests go to Cloudflare R2, which completes uploads of equal parts alone."""
    host = urlsplit(endpoint_of(filesystem)).hostname or ""
    return host.endswith(".r2.cloudflarestorage.com")


def is_session_class(cls: type[Any]) -> bool:
    """Whether connections of this class are those of ``without_retries``."""
    return cls is _session_class()


def _check(content: bytes, names: tuple[str, ...]) -> None:
    """Raise ``Malformed`` for a document of another name, and for one where there must be none."""
    if names:
        check_plain(content)
        check_root(content, *names)
    elif content:
        raise Malformed("the answer must be empty")


class _NoRedirects:
    """A session of aiohttp that asks the host that a request is signed for, and no other."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def request(self, method: str, **how: Any) -> Any:
        return self._session.request(method, **how, allow_redirects=False)


@functools.cache
def _session_class() -> type[Any] | None:
    """Connections that send each request once; None if aiobotocore has no such place to say so."""
    try:
        from aiobotocore.httpsession import AIOHTTPSession

        AIOHTTPSession._get_session  # noqa: B018, SLF001 - there is no public way
    except (AttributeError, ImportError):
        log_missing(
            "aiobotocore's AIOHTTPSession._get_session",
            "a request whose kept connection broke may be sent twice before magicfs sees it",
        )
        return None

    from magicfs.stores.s3.requests.sdk import expected_roots

    class SendsOnce(AIOHTTPSession):  # type: ignore[misc]  # published without types
        """Without aiohttp's own repetition of requests whose kept connection broke, and with bounds."""

        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            send_once(session)
            bound(session, response_class())
            return _NoRedirects(session)

        async def send(self, request: Any) -> Any:
            own = request.headers.get("User-Agent") or ""
            own = own.decode() if isinstance(own, bytes) else own
            request.headers["User-Agent"] = f"{own} {watchers.agent()}".strip()  # it is not signed
            answer = await super().send(request)
            names = expected_roots()
            if names is not None and answer.status_code < 300:
                _check((await answer.content).lstrip(), names)
            return answer

    return SendsOnce
