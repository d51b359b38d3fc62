"""Small files on SeaweedFS, from open to visible, beside one PUT for each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.crew import LONG_S, crew, sized, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import on_seaweedfs
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES = {
    "magicfs": "benchmarks.sides.ours:Ours",
    "s3fs": "benchmarks.sides.plain_s3fs:PlainS3fs",
    "obstore": "benchmarks.sides.obstore_s3:ObstoreS3",
}
_SIZE = 1000


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of processor time, and of time."""
    files = session.size(2000, 100)
    with on_seaweedfs(session) as bucket, crew(session, _SIDES, bucket.place) as sides:
        ours = sides["magicfs"]
        measured = take_turns(
            session,
            {
                "memory": sized(partial(ours.do, "pipe", tracking="bundles", size=_SIZE), files=files),
                "uploads": sized(partial(ours.do, "pipe", tracking="memory", size=_SIZE), files=files),
                "store": sized(partial(ours.do, "pipe", tracking="store", size=_SIZE), files=files),
                "s3fs": sized(partial(sides["s3fs"].do, "pipe", size=_SIZE), files=files),
                "obstore": sized(partial(sides["obstore"].do, "pipe", size=_SIZE), files=files),
            },
            after=sized(partial(bucket.take, size=_SIZE), files=files),
            round_s=LONG_S,
        )
    figures = {
        f"small_{name}_ms": Figure.of([1000 * one / files for one in measured.cpu_s(name)])
        for name in measured.turns
    }
    for side in ("memory", "uploads", "store", "obstore"):
        figures[f"small_{side}_cpu"] = ratio_of(measured.cpu_s(side), measured.cpu_s("s3fs"))
        figures[f"small_{side}_time"] = ratio_of(measured.wall_s(side), measured.wall_s("s3fs"))
    return figures
