"""What a user should know once: warnings that each process logs a single time."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from urllib.parse import urlsplit

__all__ = ["log_once", "warn_of_exposure"]

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
            f"requests with credentials go to {host} over http://, so the network in between can read and "
            "change them; use https://"
        )
    if at.scheme == "https" and not verifies:
        log_once(
            f"verify=False: any server can pose as {host}, and read and change all requests; give the path "
            "of the certificates to trust, verify='ca.pem'"
        )


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
