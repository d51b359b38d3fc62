"""Limits of readers: beyond each, a writer refuses before anything is visible, and not much earlier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import magicfs
from magicfs.errors import CommitFailed, UsageError
from magicfs.formats.limits import ROOM
from magicfs.formats.manifest import Manifest
from magicfs.transaction import facts
from proofs.crash.store_models import world_of
from proofs.scenes.instead import instead
from proofs.scenes.job_scene import JobScene
from proofs.scenes.trouble import require

__all__ = ["MODES", "job_objects", "manifests", "parts", "pending_sets", "statistics"]

MODES: Final = ("append", "overwrite", "overwrite_partitions", "error")
_FILES: Final = 20
_SETS: Final = "magicfs.transaction.attempt_output.PENDINGSET_SIZE_LIMIT"
_READ_SETS: Final = "magicfs.formats.pendingset.PENDINGSET_SIZE_LIMIT"


def _made(mode: str, store: str) -> tuple[JobScene, magicfs.Job, list[Any]]:
    scene = JobScene(world=world_of(store))
    if mode != "error":
        scene.published({f"p={number}/old {number}.bin": b"old" for number in range(3)})
    job = scene.job(mode)
    return scene, job, scene.wrote(job, {f'p={number}/é"{number}.bin': b"new" for number in range(_FILES)})


def _try(name: str, value: int, mode: str, store: str, *, fits: bool) -> bytes:
    """A job whose documents do or do not fit; if not, it must be refused as if it had never been.

    Returns its manifest.
    """
    scene, job, commits = _made(mode, store)
    before = scene.data(), scene.success()
    with instead(name, value), instead("magicfs.transaction.prepare._PAUSE_S", 0):
        try:
            report = job.commit(commits)
        except UsageError as error:
            require(not fits, f"refused, though it fits: {error}")
            require((scene.data(), scene.success()) == before, "refused, and the destination has changed")
            job.abort()
            require((scene.work(), scene.uploads()) == ([], []), "refused, and something is left")
            return b""
    require(fits and report.files == _FILES, f"published beyond {name}")
    return scene.objects()[f"sales/_magicfs/{job.id}.json"][0]


def manifests(store: str = "s3") -> Iterator[int]:
    """A manifest is as large as its job is told beforehand, or a little smaller."""
    name = "magicfs.transaction.prepare.MANIFEST_SIZE_LIMIT"
    for mode in MODES:
        raw = _try(name, 1 << 40, mode, store, fits=True)
        require(len(Manifest.from_bytes(mode, raw).files) == _FILES, "it cannot be read")
        _try(name, len(raw) - 1, mode, store, fits=False)
        _try(name, len(raw) + ROOM + 60 * _FILES + 1000, mode, store, fits=True)
        yield 3


def job_objects(store: str = "s3") -> Iterator[int]:
    """So is a job object with its partitions."""
    name = "magicfs.transaction.record.JOB_OBJECT_SIZE_LIMIT"
    for mode in MODES[:-1]:
        _try(name, ROOM + 800, mode, store, fits=False)
        _try(name, ROOM + 8000, mode, store, fits=True)
        yield 2


def statistics(store: str = "s3") -> Iterator[int]:
    """What tasks have counted fits into a ``_SUCCESS``."""
    for mode in MODES:
        _try("magicfs.transaction.prepare.SUCCESS_SIZE_LIMIT", 1024**2 + 50, mode, store, fits=False)
        _try("magicfs.transaction.prepare.SUCCESS_SIZE_LIMIT", 1024**2 + 9000, mode, store, fits=True)
        yield 2


def pending_sets(store: str = "s3") -> Iterator[int]:
    """A task whose set nobody could read fails, and leaves no upload."""
    for files, fits in ((5, False), (1, True)):
        scene = JobScene(world=world_of(store))
        job = scene.job()
        with instead(_SETS, 1500), instead(_READ_SETS, 1500):
            try:
                scene.wrote(job, {f"{number}.bin": b"x" for number in range(files)})
            except (CommitFailed, UsageError):
                require(not fits, "refused, though it fits")
                require(scene.uploads() == [], "the task has failed, and its uploads are left")
            else:
                require(fits, "a set was written that nobody reads")
        yield 1


def parts(store: str = "s3") -> Iterator[int]:
    """No chunk of facts has more parts than can be read."""
    scene = JobScene(world=world_of(store))
    job = scene.job(part_size=1)
    commits = scene.wrote(job, {"a": b"1", "b": b"123", "c": b"12", "d": b"123456", "e": b"1"})
    seen = list[int]()
    chunk = getattr(facts, "_chunk")  # noqa: B009 - it is watched, not called

    def watched(context: Any, nonce: str, name: str, raw: bytes, files: int, size: int) -> Any:
        seen.append(files)
        return chunk(context, nonce, name, raw, files, size)

    with (
        instead("magicfs.transaction.facts._PARTS_MAX", 4),
        instead("magicfs.transaction.facts._chunk", watched),
    ):
        report = job.commit(commits)
    require(report.files == 5, "files are missing")
    require(seen == [2, 1, 1, 1], f"chunks of {seen} files have more parts than are read")
    yield 1
