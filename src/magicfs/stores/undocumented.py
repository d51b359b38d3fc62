"""What magicfs uses of other libraries that they do not document: it may be gone in their next version.

For each use there is also a documented way, which is slower or does less. That way is taken, and logged once.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

_LOGGER = logging.getLogger("magicfs")
_logged: set[str] = set()


def log_once(message: str) -> None:
    """Log a warning, unless this process has logged it already."""
    if message not in _logged:
        _logged.add(message)
        _LOGGER.warning("%s", message)


def warn_of_exposure(url: str, *, has_credentials: bool, verifies: bool = True) -> None:
    """Warn if requests to a URL carry credentials in the clear to another machine, or trust any server."""
    at = urlsplit(url)
    host = at.hostname or ""
    if at.scheme == "http" and has_credentials and not _is_this_machine(host):
        log_once(
            f"requests with credentials go to {host} over http://, so anyone on the network can read and "
            "change them; use https://"
        )
    if at.scheme == "https" and not verifies:
        log_once(
            f"verify=False: any server can pose as {host} and read and change all requests; set the path of "
            "the certificates to trust, verify='ca.pem'"
        )


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def log_missing(what: str, instead: str) -> None:
    """Warn that a library lacks something, and what is done without it: once a process."""
    log_once(f"{what} is missing; {instead}; install a version that magicfs is tested with")


def send_once(session: Any) -> None:
    """Let a session of aiohttp send each request once, even if its kept connection broke."""
    if hasattr(session, "_retry_connection"):
        session._retry_connection = False  # noqa: SLF001 - there is no public way
    else:
        log_missing(
            "aiohttp's ClientSession._retry_connection",
            "a request whose kept connection broke may be sent twice before magicfs sees it",
        )


def bound(session: Any, response_class: type[Any]) -> None:
    """Let a session of aiohttp that somebody else has made read answers by a class of ours."""
    if hasattr(session, "_response_class"):
        session._response_class = response_class  # noqa: SLF001 - only its maker can give it
    else:
        log_missing(
            "aiohttp's ClientSession._response_class",
            "an answer of the store may have more bytes than magicfs requested",
        )
