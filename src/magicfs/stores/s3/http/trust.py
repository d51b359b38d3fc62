"""Whom a connection with TLS trusts, and by which certificate this side shows who it is."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Trust"]


@dataclass(slots=True)
class Trust:
    """Makes each context of TLS when it is first needed, once: that takes tens of milliseconds."""

    verify: bool | str  # a path is that of a file or directory of certificates
    client_cert: str | tuple[str, str] | None = field(repr=False)
    _contexts: dict[bool, ssl.SSLContext] = field(default_factory=dict)

    def context(self, *, of_proxy: bool) -> ssl.SSLContext:
        """The context of all connections; raises ``OSError`` if certificates cannot be read.

        A proxy is not shown the certificate, which is for the server.
        """
        if of_proxy not in self._contexts:
            self._contexts[of_proxy] = self._made(None if of_proxy else self.client_cert)
        return self._contexts[of_proxy]

    def _made(self, client_cert: str | tuple[str, str] | None) -> ssl.SSLContext:
        if isinstance(self.verify, str):
            is_directory = Path(self.verify).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_directory else self.verify, capath=self.verify if is_directory else None
            )
        elif self.verify:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        # Many private authorities are not made by the letter of RFC 5280; botocore's client takes them, too.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if isinstance(client_cert, str):
            context.load_cert_chain(client_cert)
        elif client_cert is not None:
            context.load_cert_chain(*client_cert)
        context.set_alpn_protocols(["http/1.1"])
        return context
