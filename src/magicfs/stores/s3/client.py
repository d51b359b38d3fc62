"""The connections that magicfs uses beside those of a user's own ``s3fs.S3FileSystem``, and its options.

Options are looked at before the first request: botocore's words for a wrong one lead to no line.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from magicfs.errors import UsageError
from magicfs.protocol.paths import redacted
from magicfs.runtime import watchers
from magicfs.runtime.parallel import REQUESTS_MAX, START
from magicfs.stores import object_settings
from magicfs.stores.answer_rules import (
    DOCUMENT_BYTES_MAX,
    NOT_READ,
    WORK_S,
    Malformed,
    check_plain,
    check_root,
    deadline_s,
    words,
)
from magicfs.stores.object_settings import OF_EVERY_FILESYSTEM, named_by
from magicfs.stores.port import PartBody, Store
from magicfs.stores.retrying import RETRIES, Retry
from magicfs.stores.s3.requests.answer import root_names
from magicfs.stores.s3.requests.line import counts
from magicfs.stores.undocumented import at_most, bound, log_missing, read, response_class, send_once

if TYPE_CHECKING:
    from s3fs import S3FileSystem

_MEANT = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "access_key": "key",
    "secret_key": "secret",
    "profile_name": "profile",
    "region": "client_kwargs={'region_name': …}",
    "region_name": "client_kwargs={'region_name': …}",
    "endpoint": "endpoint_url",
    "endpoint_override": "endpoint_url",
}
"""How boto3, pyarrow, Polars and DuckDB call what s3fs calls otherwise."""


def check(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that s3fs, or what it hands it on to, does not know, and for an endpoint
    that is no URL. ImportError if s3fs is missing.
    """
    from aiobotocore.config import AioConfig
    from aiobotocore.session import AioSession
    from botocore.session import Session
    from s3fs import S3FileSystem

    known = named_by(S3FileSystem.__init__) | named_by(AioSession.__init__) | OF_EVERY_FILESYSTEM
    _check_names("", options, known)
    of_client = options.get("client_kwargs")
    _check_names("client_kwargs", of_client, named_by(Session.create_client))
    of_config = named_by(AioConfig.__init__) | frozenset(AioConfig.OPTION_DEFAULTS)
    _check_names("config_kwargs", options.get("config_kwargs"), of_config)
    inner = of_client if isinstance(of_client, Mapping) else {}
    for endpoint in (options.get("endpoint_url"), inner.get("endpoint_url")):
        if not isinstance(endpoint, str | None):
            raise UsageError(f"endpoint_url is {type(endpoint).__name__}, not a string; write 'https://host'")
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            shown = redacted(endpoint)
            raise UsageError(
                f"endpoint_url={shown!r} lacks a scheme; write 'http://{shown}' or 'https://{shown}'"
            )


def without_userinfo(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose endpoint has no user or password: S3 uses neither, and botocore logs endpoints."""
    made = dict(options)
    for name in ("endpoint_url", "client_kwargs"):
        if isinstance(value := made.get(name), str):
            made[name] = redacted(value)
        elif isinstance(value, Mapping):
            made[name] = without_userinfo(value)
    return made


def endpoint_of(filesystem: S3FileSystem) -> str:
    """Where requests go, however somebody said so: by an option, by the environment, or by a profile."""
    named = filesystem.endpoint_url or filesystem.client_kwargs.get("endpoint_url")
    if named:  # as it is for each file that is opened: the environment takes longer to be asked
        return redacted(str(named)).rstrip("/")
    chosen = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    profile = filesystem.kwargs.get("profile") or os.environ.get("AWS_PROFILE")
    return redacted(str(chosen or (f"profile {profile}" if profile else ""))).rstrip("/")


def _check_names(where: str, given: Any, known: Collection[str]) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is {type(given).__name__}, not a dict; write {where}={{'name': value}}")
    for name in given:
        if name not in known:
            near = (
                [_MEANT[name]]
                if not where and name in _MEANT
                else get_close_matches(str(name), known, 1, 0.7)
            )
            meant = f"write {near[0]}" if near else f"it knows {', '.join(sorted(known))}"
            raise UsageError(f"s3fs has no option {name!r}{f' in {where}' if where else ''}; {meant}")


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

    from magicfs.stores.s3.client import expected_roots

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


_WORKS = frozenset({"complete_multipart_upload", "copy_object", "upload_part_copy"})
_root: ContextVar[tuple[str, ...] | None] = ContextVar("magicfs_expected_root", default=None)


async def ask_client(
    filesystem: S3FileSystem,
    client: Any,
    method: str,
    made: Mapping[str, Any],
    given: dict[str, Any],
    size_max: int | None = None,
) -> dict[str, Any]:
    """Make a request by a method of the client; see ``OwnRequests.ask``."""
    function = getattr(client, method)
    if "Body" in given:
        given["Body"] = _seekable(given["Body"])
    # The filesystem's own defaults (checksums, requester pays) too, if the method knows them.
    every = {**filesystem.s3_additional_kwargs, **filesystem.req_kw, **made, **given}
    foreign = object_settings.foreign(made.keys() | given.keys())
    model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method])
    known = {
        name: value
        for name, value in every.items()
        if name in model.input_shape.members and name not in foreign and value is not None
    }
    counts["aiobotocore"] += 1
    silence_s = float(client.meta.config.read_timeout or 0)
    # More of an object comes than is read of it where a server does not know ranges.
    most = sys.maxsize if method == "get_object" else DOCUMENT_BYTES_MAX
    with at_most(most, silence_s, _head_s(silence_s, method, given)):
        answer = await _answer(function, method, known)
    if method == "get_object":
        read_max = sys.maxsize if size_max is None else size_max
        # Not "as": aiobotocore before 3 gives aiohttp's response there, which reads no part of itself.
        async with answer["Body"]:
            answer["Body"] = await read(answer["Body"], read_max, silence_s)
    return answer


async def _answer(function: Any, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    names = root_names("".join(part.title() for part in method.split("_")))
    expected = (*names, "Error") if names else ()
    token = _root.set(None if method == "get_object" else expected)
    try:
        answer: dict[str, Any] = await function(**arguments)
    except (*NOT_READ, RuntimeError) as error:
        raise Malformed(f"it cannot be read: {type(error).__name__}: {words(error)}") from error
    finally:
        _root.reset(token)
    return answer


def expected_roots() -> tuple[str, ...] | None:
    """What the document may be called that answers the request that is being sent: nothing where there must
    be none, None where anything may come.
    """
    return _root.get()


def _head_s(silence_s: float, method: str, given: Mapping[str, Any]) -> float:
    body = given.get("Body")
    work = WORK_S if method in _WORKS else 0.0
    return work + deadline_s(silence_s, body.getbuffer().nbytes if body is not None else 0)


def _seekable(body: PartBody) -> io.BytesIO:
    # aiohttp warns about large bare bytes, and botocore must be able to read a body again to retry it. A
    # BytesIO made of bytes shares their memory until aiohttp asks for its buffer, which copies it.
    if isinstance(body, io.BytesIO):
        body.seek(0)
        return body
    return io.BytesIO(body)
