"""The stub as a server for benchmarks: an S3 endpoint that answers at once."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path

from benchmarks.stub_server import COUNTS, READY
from proofs.doubles import processes
from proofs.doubles.certificates import Authority, authority
from proofs.doubles.servers import Server

__all__ = ["Stub", "TlsStub"]

_ROOT = Path(__file__).parents[1]


class Stub(Server):
    """An S3 endpoint in a process of its own: keeps what jobs write about themselves, and drops data."""

    name = "stub"
    _ready_path = READY

    @property
    def version(self) -> str:
        return "of this repository"

    def counts(self) -> dict[str, int]:
        """How many requests of each kind came since the last time that somebody asked."""
        connection = http.client.HTTPConnection(processes.LOOPBACK, self._port(), timeout=10)
        try:
            connection.request("GET", COUNTS)
            found: dict[str, int] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return found

    def _home(self) -> Path:
        return Path(sys.prefix)

    def _command(self, home: Path) -> list[str]:  # noqa: ARG002 - of this very Python
        return [sys.executable, "-m", "benchmarks.stub_server", processes.LOOPBACK, str(self._port())]

    def _environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(_ROOT)}


class TlsStub(Stub):
    """The same that clients reach by TLS, at a second port. Its first is for those who look at it."""

    name = "stub with TLS"
    _port_count = 2

    def __init__(self) -> None:
        super().__init__()
        self._signer: Authority | None = None

    def certificates(self) -> Path:
        """The file of the authority that clients have to trust."""
        return self._authority().bundle

    def tls_endpoint(self) -> str:
        """The URL that clients are given."""
        return f"https://{processes.LOOPBACK}:{self._port(1)}"

    def _command(self, home: Path) -> list[str]:
        shown = self._authority().issue(processes.LOOPBACK)
        return [*super()._command(home), str(self._port(1)), str(shown)]

    def _authority(self) -> Authority:
        if self._signer is None or self._signer.directory != self.directory:
            self._signer = authority(self.directory)
        return self._signer
