"""Streaming to the stub by TLS, as people use it: only the client works."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Figure
from benchmarks.groups.bucket import on_tls_stub
from benchmarks.groups.stub_stream import measure_on
from benchmarks.session import Session

__all__ = ["measure"]


def measure(session: Session) -> Mapping[str, Figure]:
    """Rates."""
    return measure_on(session, on_tls_stub, "tls_stream")
