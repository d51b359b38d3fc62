"""Small files on SeaweedFS, from open to visible, beside one PUT for each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.crew import crew, take_turns
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
    given: dict[str, Any] = {"files": session.size(2000, 100), "size": _SIZE}
    with on_seaweedfs(session) as bucket, crew(session, _SIDES, bucket.place) as sides:
        ours = sides["magicfs"]
        measured = take_turns(
            session,
            {
                "memory": partial(ours.do, "pipe", tracking="bundles", **given),
                "uploads": partial(ours.do, "pipe", tracking="memory", **given),
                "store": partial(ours.do, "pipe", tracking="store", **given),
                "s3fs": partial(sides["s3fs"].do, "pipe", **given),
                "obstore": partial(sides["obstore"].do, "pipe", **given),
            },
            after=partial(bucket.take, **given),
        )
    figures = {
        f"small_{name}_ms": Figure.of([1000 * one / given["files"] for one in measured.cpu_s(name)])
        for name in measured.turns
    }
    for side in ("memory", "uploads", "store", "obstore"):
        figures[f"small_{side}_cpu"] = ratio_of(measured.cpu_s(side), measured.cpu_s("s3fs"))
        figures[f"small_{side}_time"] = ratio_of(measured.wall_s(side), measured.wall_s("s3fs"))
    return figures
