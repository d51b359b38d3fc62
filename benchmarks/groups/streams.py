"""One large file, from open to visible, beside every client that streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.crew import Measured, crew, sized, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import Bucket
from benchmarks.session import Session

__all__ = ["PEERS", "rates", "streamed"]

_SIDES = {
    "magicfs": "benchmarks.sides.ours:Ours",
    "unsigned": "benchmarks.sides.ours:Unsigned",
    "s3fs": "benchmarks.sides.plain_s3fs:PlainS3fs",
    "pyarrow": "benchmarks.sides.arrow_s3:ArrowS3",
    "obstore": "benchmarks.sides.obstore_s3:ObstoreS3",
    "boto3": "benchmarks.sides.boto3_threads:Boto3Threads",
    "s5cmd": "benchmarks.sides.s5cmd:S5cmd",
}
_OPTIONAL = frozenset({"s5cmd"})
_OURS = ("magicfs", "unsigned")
PEERS = tuple(name for name in _SIDES if name not in _OURS)


def streamed(
    session: Session,
    bucket: Bucket,
    mebibytes: int,
    after: Callable[[str], None],
    *,
    round_s: float,
) -> Measured:
    """Every side's turns; ``after`` each one is tidied up."""
    kinds = dict(_SIDES)
    if bucket.place.certificates:  # by TLS bodies are left unsigned unasked
        del kinds["unsigned"]
    with crew(session, kinds, bucket.place, _OPTIONAL) as sides:
        turns = {name: sized(partial(side.do, "stream"), mebibytes=mebibytes) for name, side in sides.items()}
        return take_turns(session, turns, after, optional=_OPTIONAL, round_s=round_s)


def rates(measured: Measured, mebibytes: int, name: str) -> Mapping[str, Figure]:
    """The rates of magicfs against each peer, and that of every side in MiB/s."""
    figures = {}
    for side in measured.turns:
        figures[f"{name}_{side}_mib_s"] = Figure.of(
            [mebibytes / seconds for seconds in measured.wall_s(side)]
        )
        if side in _OURS:
            ours = name if side == "magicfs" else f"{name}_{side}"
            for peer in measured.turns.keys() - _OURS:
                figures[f"{ours}_vs_{peer}"] = ratio_of(measured.wall_s(peer), measured.wall_s(side))
    return figures
