"""Mutants of the gate: each row of it taken out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from unittest.mock import patch

import magicfs
from magicfs.datasets.connection import on_destination
from magicfs.errors import FormatError, MagicError
from magicfs.formats import gate
from magicfs.formats.manifest import ManifestFiles
from magicfs.formats.rows import Place
from magicfs.past.expire import expire_kept
from proofs.hostile.forgery import Forgery, lay
from proofs.hostile.ground import Ground, MemoryGround, built
from proofs.scenes.manifests import published_manifest
from proofs.scenes.mutants import Sound

__all__ = ["ROW_MUTANTS", "ground_of", "record_of", "recovered"]

_OTHER: Final = "00000000-0000-4000-8000-000000000000"
_ELSEWHERE: Final = "finance/day=1/stolen.csv"


@contextmanager
def ground_of(scene: str) -> Iterator[tuple[Ground, str]]:
    """A scene in memory, and the job that is unfinished there."""
    ground = MemoryGround()
    built(ground, scene)
    marker = "sales/__magic_job-"
    named = [key.removeprefix(marker).partition("/")[0] for key in ground.objects() if key.startswith(marker)]
    yield ground, named[0] if named else ""


def record_of(ground: Ground, ends: str) -> str:
    """The first record of ``sales`` whose key ends so."""
    return next(key for key in sorted(ground.objects()) if key.startswith("sales/") and key.endswith(ends))


@dataclass(frozen=True, slots=True)
class RowMutant:
    """A row of the gate that compares nothing.

    Attributes:
        kind: The format.
        field: The field of the row.
        attack: What must notice.
    """

    kind: str
    field: str
    attack: Callable[[], Sequence[str]]

    @property
    def name(self) -> str:
        """What is missing."""
        return f"{self.kind} {self.field} is believed"

    @contextmanager
    def wrong(self) -> Iterator[Sound]:
        """Within it the row is blind."""
        sound = gate.ROWS
        blind = tuple(
            row._replace(problem=None) if row.field == self.field else row for row in sound[self.kind]
        )
        assert blind != sound[self.kind]
        with patch.object(gate, "ROWS", {**sound, self.kind: blind}):
            yield lambda: patch.object(gate, "ROWS", sound)


def _believed(
    scene: str, ends: str, kind: str, field: str, value: object, call: Callable[[Ground, str], object]
) -> list[str]:
    """Whether a hostile value passes: the call has to be refused with the name of the field."""
    with ground_of(scene) as (ground, job):
        # A list is set as a whole: its elements need more than the field.
        named = field.partition("[]")[0] if isinstance(value, list) else field
        lay(ground, Forgery(scene, record_of(ground, ends), kind, named, value))
        try:
            call(ground, job)
        except FormatError as error:
            if error.field == field:
                return []
            return [f"{field} = {value!r} led to {error}"]
        except MagicError as error:
            return [f"{field} = {value!r} led to {error}"]
        return [f"{field} = {value!r} was believed"]


def recovered(ground: Ground, job: str) -> object:
    """Recover a job of ``sales``."""
    return magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).recover(job=job)


def _history(ground: Ground, _: str) -> object:
    return published_manifest(ground.url("sales"), filesystem=ground.filesystem)


def _expire(ground: Ground, _: str) -> object:
    return on_destination(expire_kept, ground.url("sales"), None, ground.filesystem, now_ms=10**13)


def _untag(ground: Ground, _: str) -> object:
    return magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).untag("good")


_CHUNK: Final = {"key": _ELSEWHERE, "sha256": "0" * 64, "files": 1, "bytes": 1}
_OF_JOB: Final[dict[str, tuple[str, object]]] = {
    "jobId": ("committing", _OTHER),
    "bucket": ("committing", "elsewhere"),
    "destination": ("committing", "finance"),
    "options.hadoop.layout": ("committing", "__magic"),
    "attempt": ("committing", 10_000),
    "options.committer": ("committing", "../manifest"),
    "created": ("committing", 2**62),
    "changed": ("committing", 2**62),
    "files": ("committing", 10**9),
    "bytes": ("committing", 10**9),
    "chunks[].key": ("committing", _ELSEWHERE),
    "deletions[].key": ("completed", _ELSEWHERE),
    "partitions[]": ("completed", "../finance"),
    "pointer.jobId": ("completed", "../finance"),
    "oldSuccess.key": ("committing", _ELSEWHERE),
    "equalKeys[]": ("committing", _ELSEWHERE),
    "options.places.extra[]": ("elsewhere", ["late", "late"]),
    "options.partSize": ("committing", 2**50),
    "options.smallFiles": ("committing", 1000),
    "options.places.ownPath": ("committing", "finance/__magic/mine"),
    "options.places.alsoOverwrite[]": ("completed", "finance"),
    "options.keep.ms": ("completed", 2**62),
    "options.rollback.partitions[]": ("committing", "../finance"),
    "options.rollback.job": ("elsewhere", _OTHER),
    "restored[].key": ("committing", [_CHUNK]),
    "hidden[].key": ("completed", [_CHUNK]),
    "options.hadoop.begunBy": ("committing", "somebody"),
}
"""A scene for each field of a job object, and a value that the reader of the format lets pass."""


def _of_job(field: str) -> RowMutant:
    scene, value = _OF_JOB[field]
    attack = partial(_believed, scene, "/job.json", "job", field, value, recovered)
    return RowMutant("job", field, attack)


def _ofrecord_of(kind: str, field: str, ends: str, value: object, call: Callable[..., object]) -> RowMutant:
    scene = "elsewhere" if kind == "job location" else "published"
    return RowMutant(kind, field, partial(_believed, scene, ends, kind, field, value, call))


def _pointed(field: str, value: object) -> RowMutant:
    """A field of the manifest that the pointer leads to."""

    def attack() -> list[str]:
        with ground_of("published") as (ground, _):
            newest = json.loads(ground.objects()["sales/_magicfs/current.json"])["jobId"]
            lay(ground, Forgery("published", f"sales/_magicfs/{newest}.json", "manifest", field, value))
            with suppress(FormatError):
                _history(ground, "")
                return [f"{field} = {value!r} was believed"]
        return []

    return RowMutant("manifest", field, attack)


def _kept() -> list[str]:
    """A list of kept files that names a record."""
    with ground_of("published") as (ground, _):
        key = next(one for one in ground.objects() if "/kept-" in one)
        lay(ground, Forgery("published", key, "deletions", "objects[].key", "_magicfs/current.json"))
        with suppress(FormatError):
            _expire(ground, "")
            return ["a list of kept files that names the pointer was believed"]
    return []


def _listed() -> list[str]:
    """A part of a manifest that another job has written."""
    place = Place("bucket/part", "bucket", "sales", "one")
    with suppress(FormatError):
        gate.admit("manifest files", ManifestFiles(job_id="another", files=()), place)
        return ["a list of another job was believed"]
    return []


def _located(field: str, value: object) -> RowMutant:
    """A location in an extra destination."""

    def attack() -> list[str]:
        with ground_of("elsewhere") as (ground, job):
            key = next(one for one in ground.objects() if one.endswith("/job-location.json"))
            document = json.loads(ground.objects()[key]) | {field: value}
            ground.put(key, json.dumps(document).encode())
            try:
                recovered(ground, job)
            except FormatError as error:
                return [] if error.field == field else [f"{field} led to {error}"]
        return [f"{field} = {value!r} was believed"]

    return RowMutant("job location", field, attack)


ROW_MUTANTS: Final[tuple[RowMutant, ...]] = (
    *map(_of_job, _OF_JOB),
    _pointed("jobId", _OTHER),
    _pointed("committed", 2**62),
    _pointed("kept.until", 2**62),
    _pointed("deleted[]", "../finance"),
    _pointed("partitions[]", "../finance"),
    RowMutant("manifest files", "jobId", _listed),
    _ofrecord_of("pointer", "changed", "current.json", 2**62, _history),
    _ofrecord_of("pointer", "keeping[].until", "current.json", 2**62, _history),
    RowMutant("deletions", "objects[].key", _kept),
    _located("jobId", _OTHER),
    _located("destination", "finance/../sales"),
    _ofrecord_of("tag", "tag", "good.json", "bad", _untag),
    _ofrecord_of("tag", "created", "good.json", 2**62, _untag),
)
