"""The job commit on the stub, beside clients that complete as many uploads and do nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.crew import LONG_S, crew, sized, take_turns
from benchmarks.figures import Figure, ratio_of
from benchmarks.groups.bucket import on_stub
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES = {
    "magicfs": "benchmarks.sides.ours:Ours",
    "aiobotocore": "benchmarks.sides.bare_aiobotocore:BareAiobotocore",
    "boto3": "benchmarks.sides.boto3_threads:Boto3Threads",
}
_TASKS = 50


def measure(session: Session) -> Mapping[str, Figure]:
    """Processor time a complete, and rates."""
    files = session.size(10_000, 300)
    with on_stub(session) as bucket, crew(session, _SIDES, bucket.place) as sides:
        measured = take_turns(
            session,
            {
                "magicfs": sized(partial(sides["magicfs"].do, "commit"), files=files, tasks=_TASKS),
                "aiobotocore": sized(partial(sides["aiobotocore"].do, "complete"), files=files),
                "boto3": sized(partial(sides["boto3"].do, "complete"), files=files),
            },
            after=bucket.clear,
            round_s=LONG_S,
        )
    ours = measured.wall_s("magicfs", "commit")
    figures = {
        f"commit_{name}_ms": Figure.of([1000 * one / files for one in measured.cpu_s(name, "commit")])
        for name in _SIDES
    }
    figures["commit_cpu_ms"] = figures["commit_magicfs_ms"]
    for name in ("aiobotocore", "boto3"):
        figures[f"commit_vs_{name}"] = ratio_of(measured.wall_s(name, "commit"), ours)
    figures["commit_files_s"] = Figure.of([files / seconds for seconds in ours])
    figures["commit_server_ms"] = Figure.of(
        [1000 * seconds / files for seconds in measured.server_cpu_s("magicfs", "commit")]
    )
    return figures
