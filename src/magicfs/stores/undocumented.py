"""What magicfs uses of other libraries that they do not document: it may be gone in their next version.

For each use there is also a documented way, which is slower or does less. That way is taken, and logged once.
"""

from __future__ import annotations

from typing import Any

from magicfs.stores.logged_once import log_once

__all__ = ["bound", "log_missing", "send_once"]


def log_missing(what: str, instead: str) -> None:
    """Warn that a library lacks something, and what is done without it: once a process."""
    log_once(f"{what} is missing; {instead}; install a version that magicfs was tested with")


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
            "an answer of the store may have more bytes than magicfs asked for",
        )
