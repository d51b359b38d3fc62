"""Streaming to the stub: only the client works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from benchmarks.figures import Figure
from benchmarks.groups.bucket import Bucket, on_stub
from benchmarks.groups.streams import rates, streamed
from benchmarks.session import Session

__all__ = ["measure", "measure_on"]

_ROUND_S = 10.0


def measure(session: Session) -> Mapping[str, Figure]:
    """Rates."""
    return measure_on(session, on_stub, "stub_stream")


def measure_on(
    session: Session, server: Callable[[Session], AbstractContextManager[Bucket]], name: str
) -> Mapping[str, Figure]:
    """Rates on a server that answers at once, with names that begin so."""
    mebibytes = session.size(1024, 128)
    with server(session) as bucket:
        measured = streamed(session, bucket, mebibytes, bucket.clear, round_s=_ROUND_S)
    return rates(measured, mebibytes, name)
