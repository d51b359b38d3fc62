"""Many files of middle size from one task, on SeaweedFS, beside clients that write them at once."""

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
    "boto3": "benchmarks.sides.boto3_threads:Boto3Threads",
    "s5cmd": "benchmarks.sides.s5cmd:S5cmd",
}
_OPTIONAL = frozenset({"s5cmd"})
_SIZE = 100_000


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of time."""
    given: dict[str, Any] = {"files": session.size(2000, 100), "size": _SIZE}
    with on_seaweedfs(session) as bucket, crew(session, _SIDES, bucket.place, _OPTIONAL) as sides:
        ours = sides.pop("magicfs")
        turns = {
            "memory": partial(ours.do, "pipe", tracking="bundles", **given),
            "uploads": partial(ours.do, "pipe", tracking="memory", **given),
            "store": partial(ours.do, "pipe", tracking="store", **given),
        }
        turns |= {name: partial(side.do, "pipe", **given) for name, side in sides.items()}
        measured = take_turns(session, turns, partial(bucket.take, **given), optional=_OPTIONAL)
    s3fs = measured.wall_s("s3fs")
    figures = {
        f"many_{name}": ratio_of(measured.wall_s(name), s3fs) for name in measured.turns if name != "s3fs"
    }
    return figures | {f"many_{name}_s": Figure.of(measured.wall_s(name)) for name in measured.turns}
