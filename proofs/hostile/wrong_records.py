"""Mutants of the gate: each row of it taken out, and each comparison that stands elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from unittest.mock import patch

import s3fs

import magicfs
from magicfs.datasets.connection import on_destination
from magicfs.datasets.expire import expire_kept
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, MagicError, UsageError
from magicfs.formats import gate
from magicfs.formats.job_location import JobLocation
from magicfs.formats.manifest import ManifestFiles
from magicfs.protocol.ids import JobId
from magicfs.stores import resolve
from magicfs.stores.interrupt import run_on
from proofs.hostile.forgery import Forgery, lay
from proofs.hostile.ground import Ground, LocalGround, MemoryGround, built, impatient
from proofs.hostile.part import Mutant, Wrong
from proofs.hostile.renamed import forged_rename

__all__ = ["MUTANTS"]

_OTHER: Final = "00000000-0000-4000-8000-000000000000"
_ELSEWHERE: Final = "finance/day=1/stolen.csv"


@contextmanager
def _ground(scene: str) -> Iterator[tuple[Ground, str]]:
    """A scene in memory, and the job that is unfinished there."""
    ground = MemoryGround()
    built(ground, scene)
    marker = "sales/__magic_job-"
    named = [key.removeprefix(marker).partition("/")[0] for key in ground.objects() if key.startswith(marker)]
    yield ground, named[0] if named else ""


def _record(ground: Ground, ends: str) -> str:
    """The first record of ``sales`` whose key ends so."""
    return next(key for key in sorted(ground.objects()) if key.startswith("sales/") and key.endswith(ends))


# -- rows ----------------------------------------------------------------------------------------------------


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
    def wrong(self) -> Iterator[None]:
        """Within it the row is blind."""
        blind = tuple(
            row._replace(problem=None) if row.field == self.field else row for row in gate.ROWS[self.kind]
        )
        assert blind != gate.ROWS[self.kind]
        with patch.object(gate, "ROWS", {**gate.ROWS, self.kind: blind}):
            yield


def _believed(
    scene: str, ends: str, kind: str, field: str, value: object, call: Callable[[Ground, str], object]
) -> list[str]:
    """Whether a hostile value passes: the call has to be refused with the name of the field."""
    with _ground(scene) as (ground, job):
        # A list is set as a whole: its elements need more than the field.
        named = field.partition("[]")[0] if isinstance(value, list) else field
        lay(ground, Forgery(scene, _record(ground, ends), kind, named, value))
        try:
            call(ground, job)
        except FormatError as error:
            if error.field == field:
                return []
            return [f"{field} = {value!r} led to {error}"]
        except MagicError as error:
            return [f"{field} = {value!r} led to {error}"]
        return [f"{field} = {value!r} was believed"]


def _recover(ground: Ground, job: str) -> object:
    return magicfs.recover(ground.url("sales"), job=job, filesystem=ground.filesystem)


def _history(ground: Ground, _: str) -> object:
    return magicfs.read_manifest(ground.url("sales"), filesystem=ground.filesystem)


def _expire(ground: Ground, _: str) -> object:
    return on_destination(expire_kept, ground.url("sales"), None, ground.filesystem, now_ms=10**13)


def _untag(ground: Ground, _: str) -> object:
    return magicfs.untag(ground.url("sales"), "good", filesystem=ground.filesystem)


_CHUNK: Final = {"key": _ELSEWHERE, "sha256": "0" * 64, "files": 1, "bytes": 1}
_OF_JOB: Final[dict[str, tuple[str, object]]] = {
    "jobId": ("committing", _OTHER),
    "bucket": ("committing", "elsewhere"),
    "destination": ("committing", "finance"),
    "layout": ("committing", "__magic"),
    "attempt": ("committing", 10_000),
    "committer": ("committing", "../manifest"),
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
    "extraDestinations[].key": ("elsewhere", [{"key": "late"}, {"key": "late"}]),
    "partSize": ("committing", 2**50),
    "smallFiles": ("committing", 1000),
    "ownPath": ("committing", "finance/__magic/mine"),
    "alsoReplace[]": ("completed", "finance"),
    "keepReplaced": ("completed", 2**62),
    "restores": ("elsewhere", _OTHER),
    "restored[].key": ("committing", [_CHUNK]),
    "hidden[].key": ("completed", [_CHUNK]),
    "begunBy": ("committing", "somebody"),
}
"""A scene for each field of a job object, and a value that the reader of the format lets pass."""


def _of_job(field: str) -> RowMutant:
    scene, value = _OF_JOB[field]
    attack = partial(_believed, scene, "/job.json", "job", field, value, _recover)
    return RowMutant("job", field, attack)


def _of_record(kind: str, field: str, ends: str, value: object, call: Callable[..., object]) -> RowMutant:
    scene = "elsewhere" if kind == "job location" else "published"
    return RowMutant(kind, field, partial(_believed, scene, ends, kind, field, value, call))


def _pointed(field: str, value: object) -> RowMutant:
    """A field of the manifest that the pointer leads to."""

    def attack() -> list[str]:
        with _ground("published") as (ground, _):
            newest = json.loads(ground.objects()["sales/_magicfs/current.json"])["jobId"]
            lay(ground, Forgery("published", f"sales/_magicfs/{newest}.json", "manifest", field, value))
            with suppress(FormatError):
                _history(ground, "")
                return [f"{field} = {value!r} was believed"]
        return []

    return RowMutant("manifest", field, attack)


def _kept() -> list[str]:
    """A list of kept files that names a record."""
    with _ground("published") as (ground, _):
        key = next(one for one in ground.objects() if "/kept-" in one)
        lay(ground, Forgery("published", key, "deletions", "objects[].key", "sales/_magicfs/current.json"))
        with suppress(FormatError):
            _expire(ground, "")
            return ["a list of kept files that names the pointer was believed"]
    return []


def _listed() -> list[str]:
    """A part of a manifest that another job has written."""
    place = gate.Place("bucket/part", "bucket", "sales", "one")
    with suppress(FormatError):
        gate.admit("manifest files", ManifestFiles(job_id="another", files=()), place)
        return ["a list of another job was believed"]
    return []


def _located(field: str, value: object) -> RowMutant:
    """A location in an extra destination."""

    def attack() -> list[str]:
        with _ground("elsewhere") as (ground, job):
            key = next(one for one in ground.objects() if one.endswith("/job-location.json"))
            document = json.loads(ground.objects()[key]) | {field: value}
            ground.put(key, json.dumps(document).encode())
            try:
                _recover(ground, job)
            except FormatError as error:
                return [] if error.field == field else [f"{field} led to {error}"]
        return [f"{field} = {value!r} was believed"]

    return RowMutant("job location", field, attack)


_ROWS: Final[tuple[RowMutant, ...]] = (
    *map(_of_job, _OF_JOB),
    _pointed("jobId", _OTHER),
    _pointed("committed", 2**62),
    _pointed("kept.until", 2**62),
    _pointed("deleted[]", "../finance"),
    _pointed("partitions[]", "../finance"),
    RowMutant("manifest files", "jobId", _listed),
    _of_record("pointer", "changed", "current.json", 2**62, _history),
    _of_record("pointer", "keeping[].until", "current.json", 2**62, _history),
    RowMutant("deletions", "objects[].key", _kept),
    _located("jobId", _OTHER),
    _located("destination", "finance/../sales"),
    _of_record("tag", "tag", "good.json", "bad", _untag),
    _of_record("tag", "created", "good.json", 2**62, _untag),
)


# -- lines ---------------------------------------------------------------------------------------------------


def _chunk_with(job_field: dict[str, Any], entry: dict[str, Any], *, body: bool = False) -> list[str]:
    """A job whose facts were forged, digest and all: it must not be carried out."""
    with _ground("committing") as (ground, job):
        own = json.loads(ground.objects()[_record(ground, "/job.json")])
        key = own["chunks"][0]["key"]
        document = json.loads(ground.objects()[key])
        document["commits"][0] |= json.loads(json.dumps(entry).replace("JOB", job))
        if body:
            for name in ("uploadId", "etags"):
                document["commits"][0].pop(name)
        raw = json.dumps(document).encode()
        ground.put(key, raw)
        own["chunks"][0]["sha256"] = hashlib.sha256(raw).hexdigest()
        ground.put(_record(ground, "/job.json"), json.dumps(own | job_field).encode())
        try:
            _recover(ground, job)
        except (FormatError, UsageError) as error:
            return [] if "nothing was changed" in str(error) else [f"forged facts led to {error}"]
        except MagicError as error:
            return [] if "find out who wrote" in str(error) else [f"forged facts led to {error}"]
    return ["forged facts were carried out"]


def _settings(settings: dict[str, str]) -> list[str]:
    fs = s3fs.S3FileSystem(key="k", secret="s", endpoint_url="http://127.0.0.1:9", skip_instance_cache=True)  # noqa: S106
    engine = Engine(resolve.open_store(fs, "bucket"), 1)
    with suppress(UsageError):
        engine.told(settings)
        return [f"{settings} of a record are obeyed"]
    return []


def _visitor() -> list[str]:
    """A location that no driver has left keeps nobody from replacing."""
    with _ground("reverting") as (ground, job):
        key = f"late/__magic_job-{job}/job-{job}/job-location.json"
        ground.put(key, JobLocation(JobId(job), "sales").to_bytes())
        new = magicfs.Job(ground.url("late"), conflict="replace", filesystem=ground.filesystem)
        try:
            with impatient(), new, new.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/new.csv", b"new")
        except CommitDenied as error:
            return [f"a forged location keeps jobs from replacing: {error}"]
    return []


def _upload_elsewhere(act: Callable[[Ground, str, str], object]) -> list[str]:
    """A record that names an upload of a neighbor's: it stays."""
    with _ground("open") as (ground, job):
        final = f"finance/day=1/part-000000-{job}.csv"
        loop, store = resolve.loop_of(ground.filesystem), ground.store
        upload = run_on(loop, store.create_upload, final, metadata={})
        key = _record(ground, ".pending")
        document = json.loads(ground.objects()[key]) | {"destinationKey": final, "uploadId": upload}
        ground.put(key, json.dumps(document).encode())
        with suppress(MagicError):
            act(ground, job, key)

        async def open_now() -> list[str]:
            return [one.upload_id async for one in ground.store.list_uploads("finance/")]

        left = run_on(loop, open_now)
    return [] if upload in left else ["an upload of a neighbor's was aborted"]


def _abort(ground: Ground, job: str, key: str) -> None:  # noqa: ARG001
    magicfs.recover(ground.url("sales"), job=job, abort=True, filesystem=ground.filesystem)


def _remove(ground: Ground, job: str, key: str) -> None:  # noqa: ARG001
    magicfs.MagicFileSystem(fs=ground.filesystem).rm_file(f"bucket/{key.removesuffix('.pending')}")


def _obstacle() -> list[str]:
    """A job that renames names a published file as one in the way: it stays."""
    ground = LocalGround()
    try:
        built(ground, "own path")
        victim = next(key for key in ground.objects() if key.startswith(ground.key("sales/day=1/")))
        forged_rename(ground, victim)
        with suppress(MagicError):
            magicfs.recover(ground.url("sales"), filesystem=ground.filesystem)
        return [] if victim in ground.objects() else ["a file that is in nobody's way was deleted"]
    finally:
        ground.close()


_BUNDLE: Final = "sales/__magic_job-JOB/job-JOB/00/bundles/x"
_STOLEN: Final = {"destinationKey": _ELSEWHERE}
_LINES: Final = (
    Mutant(
        "extra destinations need confirm nothing",
        "magicfs.transaction.job_location",
        "if await read_at(engine, replace(theirs.layout, destination=extra)) == theirs.layout.destination:",
        "if theirs.layout.destination:",
        partial(_chunk_with, {"extraDestinations": [{"key": "finance"}]}, _STOLEN),
    ),
    Mutant(
        "files may lie outside the destination",
        "magicfs.protocol.winners",
        "if bucket != own or not key.startswith(prefixes) or key in prefixes:",
        "if bucket != own:",
        partial(_chunk_with, {}, _STOLEN),
    ),
    Mutant(
        "files may be records",
        "magicfs.protocol.winners",
        "if paths.can_be_a_file(key) and not conflict.is_reserved(paths.relative_to(key, directory)):",
        "if key:",
        partial(_chunk_with, {}, {"destinationKey": "sales/_magicfs/current.json"}),
    ),
    Mutant(
        "every committer carries bodies",
        "magicfs.transaction.output",
        "carries = context.committer not in RENAMING and context.small_files is not None",
        "carries = True",
        partial(
            _chunk_with,
            {},
            {"body": {"bundle": _BUNDLE, "offset": 0, "sha256": "0" * 64}},
            body=True,
        ),
    ),
    Mutant(
        "an ACL of a record is obeyed",
        "magicfs.stores.object_settings",
        'return name.startswith("Grant") or (name == "ACL" and value not in _OWNERS_ACLS)',
        "return False",
        partial(_settings, {"ACL": "public-read"}),
    ),
    Mutant(
        "a key of another account is obeyed",
        "magicfs.stores.object_settings",
        'return value.startswith("arn:")',
        "return False",
        partial(_settings, {"SSEKMSKeyId": "arn:aws:kms:us-east-1:666666666666:key/evil"}),
    ),
    Mutant(
        "a location is believed without its job",
        "magicfs.transaction.others",
        "if one is None or (one.job is not None and layout.destination not in one.job.destinations):",
        "if one is None:",
        _visitor,
    ),
    Mutant(
        "a sweep aborts what records name, wherever",
        "magicfs.transaction.sweep",
        "and paths.which_holds(p.destination_key, context.destinations) is not None",
        "and p.destination_key",
        partial(_upload_elsewhere, _abort),
    ),
    Mutant(
        "rm aborts what a record names, wherever",
        "magicfs.filesystem.listing",
        "if pending.bucket != store.bucket or pending.destination_key not in means:",
        "if pending.bucket != store.bucket:",
        partial(_upload_elsewhere, _remove),
    ),
    Mutant(
        "whatever a job names is in its way",
        "magicfs.transaction.work_files",
        "if stray := obstacles - directories:",
        "if stray := set[str]():",
        _obstacle,
    ),
)

MUTANTS: Final[tuple[Wrong, ...]] = (*_ROWS, *_LINES)
"""All of them."""
