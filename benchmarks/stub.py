"""The stub as a server for benchmarks: an S3 endpoint that answers at once."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path

from benchmarks.stub_server import COUNTS, READY
from proofs.doubles import processes
from proofs.doubles.servers import Server

__all__ = ["Stub"]

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
