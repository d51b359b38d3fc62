"""Files of one task that are opened, written and closed one after the other, on a SeaweedFS that is far away.

Engines write so; the others' files are visible when they are closed, ours when the job has committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from benchmarks.crew import LONG_S, crew, sized, take_turns
from benchmarks.far_link import FarLink
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import on_seaweedfs
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES = {
    "magicfs": "benchmarks.sides.ours:Ours",
    "s3fs": "benchmarks.sides.plain_s3fs:PlainS3fs",
    "pyarrow": "benchmarks.sides.arrow_s3:ArrowS3",
    "obstore": "benchmarks.sides.obstore_s3:ObstoreS3",
}
_SIZE = 100_000
_LATER_S = 0.02
_TRACKINGS = ("memory", "store")


def measure(session: Session) -> Mapping[str, Figure]:
    """Ratios of time."""
    files = session.size(200, 20)
    with on_seaweedfs(session) as bucket, FarLink(bucket.place.endpoint, _LATER_S) as link:
        place = replace(bucket.place, endpoint=link.endpoint)
        with crew(session, _SIDES, place) as sides:
            ours = sides.pop("magicfs")
            turns = {
                name: sized(partial(ours.do, "one_by_one", tracking=name, size=_SIZE), files=files)
                for name in _TRACKINGS
            }
            turns |= {
                name: sized(partial(side.do, "one_by_one", size=_SIZE), files=files)
                for name, side in sides.items()
            }
            after = sized(partial(bucket.take, size=_SIZE), files=files)
            measured = take_turns(session, turns, after, round_s=LONG_S)
    figures = {f"one_by_one_{name}_s": Figure.of(measured.wall_s(name)) for name in measured.turns}
    return figures | {
        f"one_by_one_{name}_vs_{side}": ratio_of(measured.wall_s(name), measured.wall_s(side))
        for name in _TRACKINGS
        for side in sides
    }
