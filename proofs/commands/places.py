"""Destinations with a past, and a job there in some state: where commands meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import magicfs
from magicfs.committers import registry
from magicfs.datasets import abort
from magicfs.engine import Engine
from magicfs.errors import FormatError
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests.view import View
from magicfs.protocol import ids, paths
from magicfs.protocol.paths import Location
from magicfs.testing.store_faults import Fault, Kind
from proofs.crash.store_models import world_of
from proofs.scenes.job_scene import JobScene
from proofs.scenes.trouble import Trouble

__all__ = ["PLACES", "Place"]

OLD: Final = ({"p=1/old 1.bin": b"old 1"}, {"p=2/old 2.bin": b"old 2"})
NEW: Final = ({"p=1/new 1.bin": b"new 1"}, {"p=3/new 2.bin": b"new 2"})
_OLD_ROWS: Final = [b"old 1", b"old 2"]
_NEW_ROWS: Final = [b"new 1", b"new 2"]
BY_HAND: Final = b"by hand"
_GONE: Final = b"(gone)"  # deleted between a reader's look at the manifests and ours at the files


@dataclass
class Place:
    """A destination, and what may be read there."""

    scene: JobScene
    ended: magicfs.Job  # a job that has ended; a task of it has gone on
    job: magicfs.Job | None = None  # the one that has not ended
    commits: list[TaskCommit] = field(default_factory=list)
    is_alive: bool = False  # whether its driver goes on
    mode: str = "append"

    @property
    def location(self) -> Location:
        """The destination."""
        return paths.parse_url(self.scene.url)

    def driver(self) -> None:
        """Let the job's own driver commit it, in a process of its own."""
        assert self.job is not None
        job = self.job

        async def process(engine: Engine) -> Any:
            committer = registry.make(job.spec.committer, job.spec.context, engine)
            return await committer.commit_job(self.commits, job.found.driver)

        self.scene.elsewhere(process)

    def check_view(self, view: View) -> None:
        """What a reader of manifests has seen is exactly old or exactly new."""
        bodies = {name: body for name, (body, _, _) in self.scene.objects().items()}
        rows = sorted(bodies.get(paths.join(self.scene.destination, name), b"(gone)") for name in view.files)
        self._check_rows(
            [row for row in rows if row not in {BY_HAND, b"(gone)"}], whole=b"(gone)" not in rows
        )

    def check_end(self) -> None:
        """Once everything has ended: listing and manifests agree, nothing is left over, the chain goes on."""
        scene = self.scene
        scene.recover()
        if self.job is not None and scene.state(self.job) is not None:
            abort(scene.url, job=self.job.id, filesystem=scene.filesystem)
        abort(scene.url, job=self.ended.id, filesystem=scene.filesystem)
        self._check_rows([row for row in scene.bodies() if row != BY_HAND])
        shown = {name for name, body in scene.data().items() if body != BY_HAND}
        if (seen := self._seen()) != shown:
            raise Trouble(f"manifests show {sorted(seen)}, and {sorted(shown)} are there")
        if (left := scene.work()) or scene.uploads():
            raise Trouble(f"left over: {left} {scene.uploads()}")
        scene.published({"p=9/last.bin": b"last"})
        if len(self._seen()) != len(shown) + 1:
            raise Trouble(f"a job that came later is not seen beside {sorted(shown)}")

    def _seen(self) -> set[str]:
        try:
            by_hand = {name for name, body in self.scene.data().items() if body == BY_HAND}
            return self.scene.manifest_files() - by_hand
        except FormatError as error:
            raise Trouble(f"nobody can read the dataset: {error}") from error

    def _check_rows(self, rows: list[bytes], *, whole: bool = True) -> None:
        new = sorted([*_OLD_ROWS, *_NEW_ROWS] if self.mode == "append" else _NEW_ROWS)
        if sorted(rows) not in (_OLD_ROWS, new) and (whole or not set(rows) <= {*_OLD_ROWS, *_NEW_ROWS}):
            raise Trouble(f"rows are {rows}: neither old nor new")


def _place(store: str, *, by_hand: bool = False) -> Place:
    scene = JobScene(world=world_of(store))
    if by_hand:
        scene.put("p=1/by hand.bin", BY_HAND)
    scene.published(OLD[0])
    ended = scene.published(OLD[1])
    # A task that its driver did not wait for has left this.
    late = magicfs.Task(ended.spec, ids.task_id(7)).setup()
    late.filesystem.pipe_file(f"{late.path}/late.bin", b"late")
    return Place(scene, ended)


def _with_job(store: str, mode: str = "append", *faults: Fault, alive: bool = False) -> Place:
    place = _place(store)
    place.mode = mode
    place.job = place.scene.job(mode)
    place.commits = place.scene.wrote(place.job, *NEW)
    place.is_alive = alive
    if faults:
        place.scene.commit(place.job, place.commits, *faults)
    return place


def _half(store: str, mode: str) -> Place:
    return _with_job(
        store, mode, Fault(Kind.CRASH_BEFORE, operation="complete_upload", prefix="sales", skip=1)
    )


def _completed(store: str, mode: str) -> Place:
    return _with_job(store, mode, Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/_magicfs/"))


PLACES: Final[Mapping[str, Callable[[str], Place]]] = MappingProxyType(
    {
        "no job": _place,
        "files by hand": lambda store: _place(store, by_hand=True),
        "open": _with_job,
        "half visible, append": lambda store: _half(store, "append"),
        "half visible, replace": lambda store: _half(store, "replace"),
        "completed, append": lambda store: _completed(store, "append"),
        "completed, replace": lambda store: _completed(store, "replace"),
        "a driver that appends": lambda store: _with_job(store, alive=True),
        "a driver that replaces": lambda store: _with_job(store, "replace", alive=True),
    }
)
"""By what their names say; each call makes a new one on a kind of store."""
