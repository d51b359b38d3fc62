"""Streaming to the stub: only the client works."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures import Figure
from benchmarks.groups.bucket import on_stub
from benchmarks.groups.streams import rates, streamed
from benchmarks.session import Session

__all__ = ["measure"]

_ROUND_S = 10.0


def measure(session: Session) -> Mapping[str, Figure]:
    """Rates."""
    mebibytes = session.size(1024, 128)
    with on_stub(session) as bucket:
        measured = streamed(session, bucket, mebibytes, bucket.clear, round_s=_ROUND_S)
    return rates(measured, mebibytes, "stub_stream")
