"""Destinations with a past, and a job there in some state: where commands meet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

import magicfs
from magicfs.audit import Check
from magicfs.committers import registry
from magicfs.datasets import abort
from magicfs.engine import Engine
from magicfs.errors import AuditFailed, FormatError, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests.chain import READING, View, read_pointer
from magicfs.manifests.kept import kept_by
from magicfs.protocol import ids, paths
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import assume, remembered
from magicfs.stores.memory.store import World
from magicfs.testing.store_faults import Fault, Kind
from proofs.crash.store_models import world_of
from proofs.scenes.job_scene import BUCKET, JobScene
from proofs.scenes.trouble import Trouble

__all__ = ["BY_HAND", "PLACES", "Place", "Rows", "rows_of"]

OLD: Final = ({"p=1/old 1.bin": b"old 1"}, {"p=2/old 2.bin": b"old 2"})
NEW: Final = ({"p=1/new 1.bin": b"new 1"}, {"p=3/new 2.bin": b"new 2"})
OWN: Final = {"p=1/own 1.bin": b"own 1", "p=2/own 2.bin": b"own 2"}
BY_HAND: Final = b"by hand"
_OLDEST: Final = {"p=1/oldest.bin": b"oldest"}
_GONE: Final = b"(gone)"  # deleted between a reader's look at the manifests and ours at the files
_WEEK: Final = "7d"

Rows = tuple[bytes, ...]
"""What is published, sorted."""


def rows_of(bodies: list[bytes]) -> Rows:
    """The rows of files: one that was rewritten has several."""
    return tuple(sorted(row for body in bodies for row in body.split(b"+")))


@dataclass
class Place:
    """A destination, and what may be read there."""

    scene: JobScene
    ended: magicfs.Job  # a job that has ended; a task of it has gone on
    target: str  # an earlier publication, to which one may roll back
    oldest: str  # and the first one
    unique_names: bool = True
    job: magicfs.Job | None = None  # the one that has not ended
    commits: list[TaskCommit] = field(default_factory=list)
    is_alive: bool = False  # whether its driver goes on
    views: list[tuple[Rows, bool]] = field(default_factory=list)
    """What readers of manifests have seen, and whether files are missing that were gone when we looked."""

    @property
    def location(self) -> Location:
        """The destination."""
        return paths.parse_url(self.scene.url)

    @property
    def path(self) -> Location:
        """A magic path of somebody's own."""
        return paths.parse_url(f"{self.scene.url.rstrip('/')}/__magic/mine")

    def driver(self) -> None:
        """Let the job's own driver commit it, in a process of its own."""
        assert self.job is not None
        job = self.job

        async def process(engine: Engine) -> Any:
            committer = registry.make(job.spec.options.committer, job.spec.context, engine)
            return await committer.commit_job(self.commits, job.found.driver)

        self.scene.elsewhere(process)

    def saw(self, view: View) -> None:
        """Note what a reader has seen."""
        bodies = {name: body for name, (body, _, _) in self.scene.objects().items()}
        seen = [bodies.get(paths.join(self.scene.destination, name), _GONE) for name in view.files]
        self.views.append((rows_of([body for body in seen if body not in {_GONE, BY_HAND}]), _GONE in seen))

    def tidy(self) -> None:
        """What an operator does once everything has ended: no job and no path is left to be ended."""
        scene = self.scene
        scene.recover()
        if self.job is not None and scene.state(self.job) is not None:
            abort(scene.url, job=self.job.id, filesystem=scene.filesystem)
        abort(scene.url, job=self.ended.id, filesystem=scene.filesystem)
        magic = magicfs.MagicFileSystem(scene.filesystem)
        with suppress(UsageError):  # nothing is recorded there any more
            magic.publish(self.path.url)
        magic.discard(self.path.url)

    @property
    def shown(self) -> Rows:
        """What manifests show, and what somebody has put there by hand and no job has replaced."""
        data, seen, kept = self.scene.data(), self._seen(), self.scene.elsewhere(self._kept)
        bodies = [
            body for name, body in data.items() if name in seen or (body == BY_HAND and name not in kept)
        ]
        return rows_of(bodies)

    def check_end(self) -> None:
        """Listing and manifests agree but for what is kept, nothing is left over, kept files are there, and
        the chain goes on.
        """
        scene, seen = self.scene, self._seen()
        kept = scene.elsewhere(self._kept)
        data = scene.data()
        there = {name for name, body in data.items() if body != BY_HAND}
        if seen - there or there - seen - kept.keys():
            raise Trouble(
                f"manifests show {sorted(seen)}, {sorted(there)} are there, and {sorted(kept)} kept"
            )
        if (left := scene.work()) or scene.uploads():
            raise Trouble(f"left over: {left} {scene.uploads()}")
        everything = {*scene.below(), *(_former(name) for name in scene.below())}
        if lost := [name for name, is_due in kept.items() if not is_due and name not in everything]:
            raise Trouble(f"not kept as was promised: {lost}")
        scene.published({"p=9/last.bin": b"last"})
        if len(self._seen()) != len(seen) + 1:
            raise Trouble(f"a job that came later is not seen beside {sorted(seen)}")

    async def _kept(self, engine: Engine) -> dict[str, bool]:
        """Names of files that jobs keep where they are, and whether they may be gone."""
        pointer = await read_pointer(engine.store, self.location.key, READING)
        keeping = {one.job_id: one for one in pointer[0].keeping} if pointer is not None else {}
        found: dict[str, bool] = {}
        for job, objects in (
            await kept_by(engine.store, self.location.key, READING, keeping.values())
        ).items():
            for one in objects:
                if not one.version:
                    name = paths.relative_to(one.key, self.location.key)  # or where it lies aside
                    found[name] = found.get(name, True) and keeping[job].expires
        return found

    def _seen(self) -> set[str]:
        try:
            by_hand = {name for name, body in self.scene.data().items() if body == BY_HAND}
            return self.scene.manifest_files() - by_hand
        except FormatError as error:
            raise Trouble(f"nobody can read the dataset: {error}") from error


def _former(name: str) -> str:
    """The name that a file has had, if a later job has moved it aside: it keeps what others have promised."""
    return name.split("/", 3)[3] if name.startswith("_magicfs/kept/") else name


def _place(
    store: str,
    *,
    by_hand: bool = False,
    past: bool = False,
    in_place: bool = False,
    unique_names: bool = True,
    destination: str = "sales",
    world: World | None = None,
) -> Place:
    scene = JobScene(destination, world=world or world_of(store))
    if by_hand:
        scene.put("p=1/by hand.bin", BY_HAND)
    how: dict[str, Any] = {"unique_names": unique_names}
    oldest = scene.published(_OLDEST, **how) if past else None
    if past:
        first = scene.published(OLD[0], mode="overwrite", keep=_WEEK, keep_in_place=in_place, **how)
    else:
        first = scene.published(OLD[0], **how)
    ended = scene.published(OLD[1], **how)
    # A task that its driver did not wait for has left this.
    late = magicfs.Task(ended.spec, ids.task_id(7)).setup()
    late.filesystem.pipe_file(f"{late.path}/late.bin", b"late")
    place = Place(scene, ended, first.id, (oldest or first).id, unique_names)
    mine = MagicFileSystem(scene.filesystem)
    for name, body in OWN.items():
        mine.pipe_file(f"{place.path.path}/__base/{name}", body)
    return place


def _with_job(store: str, mode: str = "append", *faults: Fault, alive: bool = False, **how: Any) -> Place:
    place = _place(store, **how)
    place.job = place.scene.job(mode, unique_names=place.unique_names)
    place.commits = place.scene.wrote(place.job, *NEW)
    place.is_alive = alive
    if faults:
        place.scene.commit(place.job, place.commits, *faults)
    return place


def _quarantined(store: str) -> Place:
    place = _place(store)
    place.job = place.scene.job("append", audit=[Check(lambda _: "it is not good enough")])
    with suppress(AuditFailed):
        place.job.commit(place.scene.wrote(place.job, *NEW))
    return place


def _half(store: str, mode: str, **how: Any) -> Place:
    fault = Fault(
        Kind.CRASH_BEFORE, operation="complete_upload", prefix=how.get("destination", "sales"), skip=1
    )
    return _with_job(store, mode, fault, **how)


def _completed(store: str, mode: str) -> Place:
    return _with_job(store, mode, Fault(Kind.CRASH_BEFORE, operation="put", prefix="sales/_magicfs/"))


def _versions() -> World:
    world = World()
    world.keep_versions(BUCKET)
    return world


_MADE: Final[Mapping[str, Callable[[str], Place]]] = MappingProxyType(
    {
        "no job": _place,
        "files by hand": lambda store: _place(store, by_hand=True),
        "open": _with_job,
        "half visible, append": lambda store: _half(store, "append"),
        "half visible, replace": lambda store: _half(store, "overwrite"),
        "completed, append": lambda store: _completed(store, "append"),
        "completed, replace": lambda store: _completed(store, "overwrite"),
        "in quarantine": _quarantined,
        "a driver that appends": lambda store: _with_job(store, alive=True),
        "a driver that replaces": lambda store: _with_job(store, "overwrite", alive=True),
        "kept files": lambda store: _place(store, past=True),
        "kept in place": lambda store: _place(store, past=True, in_place=True),
        "kept files, half visible": lambda store: _half(store, "overwrite", past=True),
        "equal names": lambda store: _place(store, unique_names=False),
        "equal names, half visible": lambda store: _half(store, "append", unique_names=False),
        "no If-Match": lambda _: _half("", "overwrite", world=World(ignores=frozenset({"put_if_match"}))),
        "versions": lambda _: _place("", past=True, world=_versions()),
        "versions, half visible": lambda _: _half("", "overwrite", world=_versions()),
        "the whole bucket": lambda store: _half(store, "append", destination=""),
        "local files": lambda _: _half("local", "append"),
    }
)


@cache
def _template(name: str, store: str) -> Place:
    return _MADE[name](store)


def _new(name: str, store: str) -> Place:
    """A place that nobody has used, made by copying one."""
    template = _template(name, store)
    world = copy(template.scene.filesystem.world)
    world.__dict__ |= {"number": World().number, "_lock": threading.RLock()}
    for held, value in vars(world).items():
        if held in _CONTENTS:
            setattr(world, held, deepcopy(value))
    scene = JobScene(template.scene.destination, world=world)
    assume(scene.plain, remembered(template.scene.plain))
    return replace(template, scene=scene, views=[])


_CONTENTS: Final = frozenset({"_buckets", "directories", "touched", "expired"})

PLACES: Final[Mapping[str, Callable[[str], Place]]] = MappingProxyType(
    {name: partial(_new, name) for name in _MADE}
)
"""By what their names say; each call makes a new one on a kind of store."""
