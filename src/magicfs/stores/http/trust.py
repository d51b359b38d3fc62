"""Whom a connection with TLS trusts, and by which certificate it shows who it is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Trust"]


@dataclass(slots=True)
class Trust:
    """Makes the context of TLS when it is first needed, once: that takes tens of milliseconds."""

    verify: bool | str  # a path is that of a file or directory of certificates
    client_cert: str | tuple[str, str] | None = field(repr=False)
    _context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context of all connections; raises ``OSError`` if certificates cannot be read."""
        if self._context is None:
            self._context = self._made()
        return self._context

    def _made(self) -> ssl.SSLContext:
        if isinstance(self.verify, str):
            is_directory = Path(self.verify).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_directory else self.verify, capath=self.verify if is_directory else None
            )
        else:
            context = ssl.create_default_context()
        if self.verify is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if isinstance(self.client_cert, str):
            context.load_cert_chain(self.client_cert)
        elif self.client_cert is not None:
            context.load_cert_chain(*self.client_cert)
        context.set_alpn_protocols(["http/1.1"])
        return context
