"""One JSON document to one address, with retries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from magicfs.catalogs.deadline import within
from magicfs.errors import StoreError, Unavailable, UsageError

ATTEMPTS: Final = 4
PAUSE_S = 0.2
TIMEOUT_S: Final = 10.0
_PASSING: Final = frozenset({408, 425, 429})
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check_address(url: str, headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy of the headers.

    Raises UsageError for what is no address, or would send a header in the clear to another machine.
    """
    at = _parts(str(url))
    if at.username is not None or at.password is not None:
        raise UsageError("the address of a notification holds a password; send it in a header")
    found = _checked(headers)
    if at.scheme == "http" and found and at.hostname not in _LOOPBACK:
        raise UsageError(f"headers would travel unencrypted to {shown(url)}; use https://")
    return found


def _checked(headers: Mapping[str, str] | None) -> dict[str, str]:
    try:
        found = {name: str(value) for name, value in dict(headers or {}).items()}
    except (TypeError, ValueError):
        raise UsageError("headers is not a mapping; write {'Authorization': 'Bearer …'}") from None
    for name, value in found.items():
        if not (value.isprintable() and _HEADER.fullmatch(str(name))):
            raise UsageError(f"header {name!a} of a notification has characters that headers cannot have")
    return found


def _parts(url: str) -> SplitResult:
    with suppress(ValueError):
        at = urlsplit(url)
        _ = at.port  # it raises for one that is no number
        if at.scheme in {"http", "https"} and at.hostname and url.isprintable() and " " not in url:
            return at
    raise UsageError("the address of a notification is not a URL; write https://host/path")


def shown(url: str) -> str:
    """Where an address leads, without its path, which is often a secret."""
    at = urlsplit(url)
    return f"{at.scheme}://{at.netloc.rpartition('@')[2]}"


def post(url: str, document: Mapping[str, object], kind: str, headers: Mapping[str, str]) -> None:
    """Send it. Redirects are not followed.

    Raises:
        Unavailable: Nobody answered, or the answer was 408, 425, 429 or 5xx, each time.
        StoreError: The answer was another refusal.
    """
    body = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    request = Request(  # noqa: S310 - check_address has looked at the scheme
        url, body, {**headers, "Content-Type": kind, "User-Agent": "magicfs"}, method="POST"
    )
    for attempt in Retrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(PAUSE_S, 5.0),
        retry=retry_if_exception_type(Unavailable),
        reraise=True,
    ):
        with attempt:
            within(2 * TIMEOUT_S, shown(url), lambda: _send(request))


def _send(request: Request) -> None:
    where = shown(request.full_url)
    try:
        _opener().open(request, timeout=TIMEOUT_S).close()
    except HTTPError as error:
        error.close()
        kind = Unavailable if error.code in _PASSING or error.code >= 500 else StoreError
        raise kind("notify", where, f"the answer was {error.code}") from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable("notify", where, f"no answer: {type(reason).__name__}") from None


class _Stay(HTTPRedirectHandler):
    """A redirect is an answer of its own: what we send is for the host that was named."""

    def redirect_request(self, *_: object) -> None:
        return None


def _opener() -> OpenerDirector:
    return build_opener(_Stay())
