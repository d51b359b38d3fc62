"""Mutants of what compares outside the gate, where more has to be known than a record and its place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import s3fs

import magicfs
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, MagicError, UsageError
from magicfs.formats.job_location import JobLocation
from magicfs.protocol.ids import JobId
from magicfs.runtime.interrupt import run_on
from magicfs.stores import resolve
from proofs.hostile.ground import Ground, LocalGround, built, impatient
from proofs.hostile.part import WrongLine
from proofs.hostile.renamed import forged_rename
from proofs.hostile.wrong_rows import ground_of, record_of, recovered

__all__ = ["LINE_MUTANTS"]

_ELSEWHERE: Final = "finance/day=1/stolen.csv"


def _chunk_with(places: dict[str, Any], entry: dict[str, Any], *, body: bool = False) -> list[str]:
    """A job whose facts were forged, digest and all: it must not be carried out."""
    with ground_of("committing") as (ground, job):
        own = json.loads(ground.objects()[record_of(ground, "/job.json")])
        key = own["chunks"][0]["key"]
        document = json.loads(ground.objects()[key])
        document["commits"][0] |= json.loads(json.dumps(entry).replace("JOB", job))
        if body:
            for name in ("uploadId", "etags"):
                document["commits"][0].pop(name)
        raw = json.dumps(document).encode()
        ground.put(key, raw)
        own["options"]["places"] = places
        own["chunks"][0]["sha256"] = hashlib.sha256(raw).hexdigest()
        ground.put(record_of(ground, "/job.json"), json.dumps(own).encode())
        try:
            recovered(ground, job)
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
    with ground_of("reverting") as (ground, job):
        key = f"late/__magic_job-{job}/job-{job}/job-location.json"
        ground.put(key, JobLocation(JobId(job), "sales").to_bytes())
        new = magicfs.Job(ground.url("late"), mode="overwrite", filesystem=ground.filesystem)
        try:
            with impatient(), new, new.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/new.csv", b"new")
        except CommitDenied as error:
            return [f"a forged location keeps jobs from replacing: {error}"]
    return []


def _upload_elsewhere(act: Callable[[Ground, str, str], object]) -> list[str]:
    """A record that names an upload of a neighbor's: it stays."""
    with ground_of("open") as (ground, job):
        final = f"finance/day=1/part-000000-{job}.csv"
        loop, store = resolve.loop_of(ground.filesystem), ground.store
        upload = run_on(loop, store.create_upload, final, metadata={})
        key = record_of(ground, ".pending")
        document = json.loads(ground.objects()[key]) | {"destinationKey": final, "uploadId": upload}
        ground.put(key, json.dumps(document).encode())
        with suppress(MagicError):
            act(ground, job, key)

        async def open_now() -> list[str]:
            return [one.upload_id async for one in ground.store.list_uploads("finance/")]

        left = run_on(loop, open_now)
    return [] if upload in left else ["an upload of a neighbor's was aborted"]


def _abort(ground: Ground, job: str, key: str) -> None:  # noqa: ARG001
    magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).recover(job=job, abort=True)


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
            magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).recover()
        return [] if victim in ground.objects() else ["a file that is in nobody's way was deleted"]
    finally:
        ground.close()


_BUNDLE: Final = "sales/__magic_job-JOB/job-JOB/00/bundles/x"
_STOLEN: Final = {"destinationKey": _ELSEWHERE}
LINE_MUTANTS: Final = (
    WrongLine(
        "extra destinations need confirm nothing",
        "magicfs.transaction.record",
        "if await location_at(engine, there) == theirs.layout.destination:",
        "if theirs.layout.destination:",
        partial(_chunk_with, {"extra": ["finance"]}, _STOLEN),
    ),
    WrongLine(
        "files may lie outside the destination",
        "magicfs.protocol.winners",
        "if bucket != own or not key.startswith(prefixes) or key in prefixes:",
        "if bucket != own:",
        partial(_chunk_with, {}, _STOLEN),
    ),
    WrongLine(
        "files may be records",
        "magicfs.protocol.winners",
        "if paths.can_be_a_file(key) and not modes.is_reserved(paths.relative_to(key, directory)):",
        "if key:",
        partial(_chunk_with, {}, {"destinationKey": "sales/_magicfs/current.json"}),
    ),
    WrongLine(
        "every committer carries bodies",
        "magicfs.transaction.output",
        "carries = context.options.committer not in RENAMING and context.options.small_files is not None",
        "carries = True",
        partial(
            _chunk_with,
            {},
            {"body": {"bundle": _BUNDLE, "offset": 0, "sha256": "0" * 64}},
            body=True,
        ),
    ),
    WrongLine(
        "an ACL of a record is obeyed",
        "magicfs.stores.object_settings",
        'return name.startswith("Grant") or (name == "ACL" and value not in _OWNERS_ACLS)',
        "return False",
        partial(_settings, {"ACL": "public-read"}),
    ),
    WrongLine(
        "a key of another account is obeyed",
        "magicfs.stores.object_settings",
        'return value.startswith("arn:")',
        "return False",
        partial(_settings, {"SSEKMSKeyId": "arn:aws:kms:us-east-1:666666666666:key/evil"}),
    ),
    WrongLine(
        "a location is believed without its job",
        "magicfs.transaction.others",
        "if one is None or (one.job is not None and layout.destination not in one.job.destinations):",
        "if one is None:",
        _visitor,
    ),
    WrongLine(
        "a sweep aborts what records name, wherever",
        "magicfs.transaction.sweep",
        "and paths.which_holds(upload.destination_key, context.destinations) is not None",
        "and upload.destination_key",
        partial(_upload_elsewhere, _abort),
    ),
    WrongLine(
        "rm aborts what a record names, wherever",
        "magicfs.filesystem.listing",
        "if pending.bucket != store.bucket or pending.destination_key not in means:",
        "if pending.bucket != store.bucket:",
        partial(_upload_elsewhere, _remove),
    ),
    WrongLine(
        "whatever a job names is in its way",
        "magicfs.transaction.sweep",
        "if stray := obstacles - directories:",
        "if stray := set[str]():",
        _obstacle,
    ),
)
