"""Small files a second and core, from open to visible, on the stub."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.crew import LONG_S, crew, sized, take_turns
from benchmarks.figures import Figure
from benchmarks.groups.bucket import on_stub
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES = {"magicfs": "benchmarks.sides.ours:Ours", "s3fs": "benchmarks.sides.plain_s3fs:PlainS3fs"}
_SIZE = 1000


def measure(session: Session) -> Mapping[str, Figure]:
    """Files divided by seconds of the client's processor time; job, task and their ends included."""
    files = session.size(5000, 200)
    with on_stub(session) as bucket, crew(session, _SIDES, bucket.place) as sides:
        ours = sides["magicfs"]
        measured = take_turns(
            session,
            {
                "magicfs": sized(partial(ours.do, "pipe", tracking="bundles", size=_SIZE), files=files),
                "magicfs, uploads": sized(
                    partial(ours.do, "pipe", tracking="memory", size=_SIZE), files=files
                ),
                "magicfs, in store": sized(
                    partial(ours.do, "pipe", tracking="store", size=_SIZE), files=files
                ),
                "magicfs, open": sized(
                    partial(ours.do, "open_files", tracking="bundles", size=_SIZE), files=files
                ),
                "s3fs": sized(partial(sides["s3fs"].do, "pipe", size=_SIZE), files=files),
            },
            after=bucket.clear,
            round_s=LONG_S,
        )
    names = {
        "magicfs": "files_per_core_s",
        "magicfs, uploads": "files_uploaded_per_core_s",
        "magicfs, in store": "files_in_store_per_core_s",
        "magicfs, open": "files_opened_per_core_s",
        "s3fs": "files_s3fs_per_core_s",
    }
    figures = {
        name: Figure.of([files / seconds for seconds in measured.cpu_s(side)]) for side, name in names.items()
    }
    figures["files_s"] = Figure.of([files / seconds for seconds in measured.wall_s("magicfs")])
    return figures
