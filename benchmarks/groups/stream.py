"""Streaming to SeaweedFS, against the best of all peers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from benchmarks.crew import LONG_S, sized
from benchmarks.data import BLOCK
from benchmarks.figures import Figure
from benchmarks.groups.bucket import on_seaweedfs
from benchmarks.groups.streams import PEERS, rates, streamed
from benchmarks.session import Session

__all__ = ["measure"]


def measure(session: Session) -> Mapping[str, Figure]:
    """Rates."""
    mebibytes = session.size(512, 64)
    with on_seaweedfs(session) as bucket:

        def take(where: str, mebibytes: int) -> None:
            bucket.take(where, files=1, size=mebibytes * len(BLOCK))

        after = sized(take, mebibytes=mebibytes)
        measured = streamed(session, bucket, mebibytes, after, round_s=LONG_S)
    figures = dict(rates(measured, mebibytes, "stream"))
    here = [name for name in PEERS if name in measured.turns]
    best = min(here, key=lambda name: statistics.median(measured.wall_s(name)))
    session.remarks["stream_vs_best"] = f"the best peer was {best}"
    figures["stream_vs_best"] = figures[f"stream_vs_{best}"]
    figures["stream_unsigned_vs_best"] = figures[f"stream_unsigned_vs_{best}"]
    return figures
