"""Where a server is reached."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Address"]


@dataclass(frozen=True, slots=True)
class Address:
    """A server; connections to it are kept, and used for no other."""

    scheme: str  # http or https
    host: str  # a name, or an IP address; one of IPv6 without brackets
    port: int

    def __post_init__(self) -> None:
        if self.scheme not in ("http", "https"):  # nothing meant for TLS may go without
            raise ValueError(f"the scheme of an address must be http or https, not {self.scheme!r}")

    def __str__(self) -> str:
        """As it stands in a URL and in messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
