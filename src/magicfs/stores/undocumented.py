"""What magicfs uses of other libraries that they do not document: it may be gone in their next version.

Each use has a documented way beside it, which is slower or does less. That way is taken, and logged once.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["log_missing", "send_once"]

_LOGGER = logging.getLogger("magicfs")
_logged: set[str] = set()


def log_missing(what: str, instead: str) -> None:
    """Warn that a library lacks something, and what is done without it: once a process."""
    if what not in _logged:
        _logged.add(what)
        _LOGGER.warning("%s is missing; %s; install a version that magicfs was tested with", what, instead)


def send_once(session: Any) -> None:
    """Let a session of aiohttp send each request once, even if its kept connection broke."""
    if hasattr(session, "_retry_connection"):
        session._retry_connection = False  # noqa: SLF001 - there is no public way
    else:
        log_missing(
            "aiohttp's ClientSession._retry_connection",
            "a request whose kept connection broke may be sent twice before magicfs sees it",
        )
