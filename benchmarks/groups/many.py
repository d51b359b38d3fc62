"""Many files of middle size from one task, on SeaweedFS, beside clients that write them at once."""

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
    "boto3": "benchmarks.sides.boto3_threads:Boto3Threads",
    "s5cmd": "benchmarks.sides.s5cmd:S5cmd",
}
_OPTIONAL = frozenset({"s5cmd"})
_SIZE = 100_000


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of time."""
    files = session.size(2000, 100)
    with on_seaweedfs(session) as bucket, crew(session, _SIDES, bucket.place, _OPTIONAL) as sides:
        ours = sides.pop("magicfs")
        turns = {
            "memory": sized(partial(ours.do, "pipe", tracking="memory", size=_SIZE), files=files),
            "bundles": sized(partial(ours.do, "pipe", tracking="bundles", size=_SIZE), files=files),
            "store": sized(partial(ours.do, "pipe", tracking="store", size=_SIZE), files=files),
        }
        turns |= {
            name: sized(partial(side.do, "pipe", size=_SIZE), files=files) for name, side in sides.items()
        }
        measured = take_turns(
            session,
            turns,
            sized(partial(bucket.take, size=_SIZE), files=files),
            optional=_OPTIONAL,
            round_s=LONG_S,
        )
    s3fs = measured.wall_s("s3fs")
    figures = {
        f"many_{name}": ratio_of(measured.wall_s(name), s3fs) for name in measured.turns if name != "s3fs"
    }
    figures["many_memory_vs_obstore"] = ratio_of(measured.wall_s("memory"), measured.wall_s("obstore"))
    return figures | {f"many_{name}_s": Figure.of(measured.wall_s(name)) for name in measured.turns}
