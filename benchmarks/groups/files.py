"""Small files a second and core, from open to visible, on the stub."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks.crew import crew, take_turns
from benchmarks.figures import Figure
from benchmarks.groups.bucket import on_stub
from benchmarks.session import Session

__all__ = ["measure"]

_SIDES = {"magicfs": "benchmarks.sides.ours:Ours", "s3fs": "benchmarks.sides.plain_s3fs:PlainS3fs"}
_SIZE = 1000


def measure(session: Session) -> Mapping[str, Figure]:
    """Files divided by seconds of the client's processor time; job, task and their ends included."""
    files = session.size(5000, 200)
    given: dict[str, Any] = {"files": files, "size": _SIZE}
    with on_stub(session) as bucket, crew(session, _SIDES, bucket.place) as sides:
        ours = sides["magicfs"]
        measured = take_turns(
            session,
            {
                "magicfs": partial(ours.do, "pipe", tracking="bundles", **given),
                "magicfs, uploads": partial(ours.do, "pipe", tracking="memory", **given),
                "magicfs, in store": partial(ours.do, "pipe", tracking="store", **given),
                "magicfs, open": partial(ours.do, "open_files", tracking="bundles", **given),
                "s3fs": partial(sides["s3fs"].do, "pipe", **given),
            },
            after=bucket.clear,
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
