"""What follows once every file of a job is visible: manifest, pointer, deletions, ``_SUCCESS``."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain as chain_of
from itertools import repeat
from typing import Any, Final, TypedDict

from magicfs.engine import Engine
from magicfs.errors import (
    FormatError,
    MagicError,
    ObjectExists,
    PreconditionFailed,
    Unavailable,
)
from magicfs.formats.deletions import OldObject
from magicfs.formats.document import iso_text
from magicfs.formats.hadoop_uri import encode
from magicfs.formats.job_object import JobObject
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT
from magicfs.formats.manifest import FilesPart, Footers, Hides, Manifest, ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import MANIFEST_COMMITTERS, SuccessData, manifest_success
from magicfs.manifests import chain, footers, parts
from magicfs.protocol import paths
from magicfs.protocol.identity import Purpose, etag_and_version, may_delete, object_id
from magicfs.protocol.job_state import CHANGES_FILES, JobState
from magicfs.protocol.modes import is_hidden_output, is_replaced
from magicfs.runtime.parallel import at_once, drained
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.register import body_at, found_at
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import JobRecord, JobVersion, new_token
from magicfs.transaction.spool import ETags

_LOOKS: Final = 3


async def seen_success(engine: Engine, context: JobContext) -> str | None:
    """The ETag of the ``_SUCCESS`` that is there; None if there is none."""
    info = await found_at(engine.store, context.layout.success_key)
    return None if info is None else info.etag


async def hide_success(
    engine: Engine, context: JobContext, record: JobRecord, version: JobVersion, etag: str | None
) -> JobVersion:
    """Delete the ``_SUCCESS`` that is there: its readers wait until the job has ended.

    One that another job has written since this one looked is written down first, so that taking the job back
    can restore it. ``etag`` is what ``seen`` told just now.
    """
    key = context.layout.success_key
    for left in reversed(range(_LOOKS)):
        if etag is None:
            break
        if version.job.old_success is None or version.job.old_success.etag != etag:
            kept = await facts.copy_success(engine, context, new_token())
            if kept is None:
                break
            version = await record.move(version, JobState.COMMITTING, old_success=kept)
            etag = kept.etag
        if not await remove_matching(engine.store, record.conditions, [(key, etag)], 1):
            break
        etag = await seen_success(engine, context) if left else None
    return version


def as_manifest_committer(success: SuccessData, concurrency: int, *, files: int, tasks: int) -> SuccessData:
    """The same as Hadoop's manifest committer says it; ``formats.success.manifest_success`` writes it."""
    diagnostics = {
        "mapreduce.manifest.committer.io.threads": str(concurrency),
        "stage": "committer_commit_job",
    }
    with suppress(OSError, KeyError, ImportError):
        diagnostics["principal"] = getpass.getuser()
    counted = {"committer_files_committed": files, "committer_tasks_completed": tasks}
    return replace(
        success,
        date=iso_text(success.timestamp_ms),
        diagnostics={**success.diagnostics, **diagnostics},
        statistics=replace(success.statistics, counters={**success.statistics.counters, **counted}),
    )


class _FilesOfManifest(TypedDict, total=False):
    files: tuple[ManifestFile, ...]
    parts: tuple[FilesPart, ...]
    footers: Footers


_TRIES: Final = 5
_HIDES: Final[Mapping[str, Hides]] = {
    "overwrite": "all",
    "overwrite_partitions": "keys",
    "drop": "keys",
    "rewrite": "keys",
}


@dataclass(frozen=True, slots=True)
class Ahead:
    """What publishing begins with, read beside the swap to ``completed``; None where that was not done, or
    could not be.
    """

    pointer: tuple[chain.Seen | None] | None = None
    old: list[OldObject] | None = None


async def look_ahead(engine: Engine, context: JobContext, conditions: Conditions, job: JobObject) -> Ahead:
    """Read what publishing begins with. Whatever is wrong with it shows again when it is needed."""
    expected = job.pointer is not None
    try:
        pointer, old = await at_once(
            chain.read_pointer(engine.store, context.layout.destination, conditions, expected=expected),
            facts.read_deletions(engine, context, job),
        )
    except MagicError:
        return Ahead()
    return Ahead((pointer,), old)


async def publish_manifest(
    engine: Engine,
    context: JobContext,
    conditions: Conditions,
    job: JobObject,
    output: JobOutput,
    hidden: Sequence[OldObject],
    etags: ETags,
    said: Mapping[str, Any],
    looked: tuple[chain.Seen | None] | None = None,
) -> Pointer:
    """Write the job's manifest and move the pointer to it. Calling it again, from any process, changes
    nothing. Returns the pointer.

    ``hidden`` is what was there before the job and readers do not see any more. Extra destinations get
    manifests of their own before, each with the job's files there. ``etags`` are those of files whose
    completion this process saw; the others are looked at. ``said`` are fields of the manifest that extensions
    fill. ``looked`` is as for ``chain.publish``.
    """
    etags = await _look_up(engine, output, etags)
    for extra in context.options.places.extra:
        files = await _files_of(engine, output, extra, job.job_id, etags)
        if files.get("files") or files.get("parts"):
            manifest = _extra_manifest(job, extra, files)
            await chain.publish(engine.store, conditions, extra, manifest)
    destination = context.layout.destination
    hides = _HIDES.get(job.options.mode, "nothing")
    prefix = paths.prefix_of(destination)
    removed = [one for one in hidden if _is_named(one.key, destination)] if hides == "keys" else []
    manifest = Manifest(
        job_id=job.job_id,
        run_id=job.options.run_id,
        bucket=job.bucket,
        destination=destination,
        mode=job.options.mode,
        committed_ms=job.changed_ms,
        previous=job.pointer.job if job.pointer else None,
        replaced=job.pointer.job if job.pointer and job.options.mode == "overwrite" else None,
        hides=hides,
        deleted=tuple([one.key[len(prefix) :] for one in removed]),
        partitions=job.partitions if job.options.mode == "overwrite_partitions" else None,
        older_files=job.older_files and job.pointer is None,
        object_settings=job.object_settings,
        **said,
        **await _files_of(engine, output, destination, job.job_id, etags),
    )
    return await chain.publish(engine.store, conditions, destination, manifest, looked=looked)


async def delete_parts_left(
    engine: Engine, context: JobContext, conditions: Conditions, output: JobOutput
) -> None:
    """Delete parts of manifests that nobody reads, once the manifests themselves stand."""
    if output.files + len(output.restored) <= parts.FILES_IN_MANIFEST:
        return
    for destination in (context.layout.destination, *context.options.places.extra):
        manifest = await chain.read(engine.store, destination, context.job, conditions, files=False)
        if manifest is not None and manifest.parts:
            await parts.delete_others(engine.store, destination, manifest)


async def republish(engine: Engine, context: JobContext, conditions: Conditions) -> bool:
    """Link a job's manifest if it was written before; False if it was not."""
    # The destination's own is written last: with it, all are there.
    destination = context.layout.destination
    manifest = await chain.read(engine.store, destination, context.job, conditions, files=False)
    if manifest is None:
        return False
    for extra in context.options.places.extra:
        other = await chain.read(engine.store, extra, context.job, conditions, files=False)
        if other is not None:
            await chain.publish(engine.store, conditions, extra, other)
    await chain.publish(engine.store, conditions, destination, manifest)
    return True


async def delete_old(
    engine: Engine,
    conditions: Conditions,
    old: Sequence[OldObject],
    output: JobOutput,
    check: Callable[[], Awaitable[None]],
) -> list[str]:
    """Delete the old files that a job replaces, each only if it is still the one that was listed.

    ``check`` raises if the job is not the caller's to finish any more; it is asked before every request.
    Returns the keys that hold another object by now, untouched.
    """
    keys = {one.key for one in old}
    own = dict.fromkeys(key for key in output.final_keys() if key in keys) if keys else {}
    objects = [(one.key, one.etag) for one in old if may_delete(Purpose.REPLACE, one.key, None, own)]
    return await remove_matching(engine.store, conditions, objects, engine.concurrency, check=check)


async def write_success(
    engine: Engine, context: JobContext, conditions: Conditions, job: JobObject, output: JobOutput
) -> str | None:
    """Write ``_SUCCESS``, unless a later job's is there. A second call changes nothing.

    Returns the ETag of what it wrote; None if it wrote nothing.
    """
    store, key = engine.store, context.layout.success_key
    raw = _success(context, job, engine.concurrency, output)
    for _ in range(_TRIES):
        with suppress(ObjectExists):
            return (await store.put(key, raw, mode=conditions.create)).etag
        etag = await seen_success(engine, context)
        there = await body_at(store, key, SUCCESS_SIZE_LIMIT + 1)
        if etag is None or there is None:
            continue  # a later job has reached its commit point, and may yet be taken back
        if _job_of(there) == job.job_id:
            return None
        if await chain.newest_job(store, context.layout.destination, conditions) != job.job_id:
            return None
        with suppress(PreconditionFailed):
            return (await store.put(key, raw, mode=conditions.update(etag))).etag
    raise Unavailable("put", f"{store.bucket}/{key}", "other jobs changed it each time")


async def withdraw_late_success(
    engine: Engine, context: JobContext, conditions: Conditions, etag: str
) -> None:
    """Delete a ``_SUCCESS`` that came after the job had been ended by others, if a later job hides it.

    A reader that waits for ``_SUCCESS`` would otherwise read half of the later job's files.
    """
    destination = context.layout.destination
    others = await find_unfinished_jobs(engine, destination)
    if any(one.job is None or one.job.state in CHANGES_FILES for one in others):
        await remove_matching(engine.store, conditions, [(context.layout.success_key, etag)], 1)


def job_statistics(output: JobOutput) -> Statistics:
    """What tasks and job counted, under Hadoop's names."""
    return output.statistics + Statistics(
        counters={
            "committer_bytes_committed": output.bytes,
            "committer_commits_completed": output.files,
            "committer_jobs_completed": 1,
        }
    )


async def _look_up(engine: Engine, output: JobOutput, etags: ETags) -> ETags:
    """The ETags of all files; those that are not known are looked at."""
    found = ETags(output.files)

    async def look(one: tuple[int, str]) -> None:
        place, key = one
        info = await found_at(engine.store, key)
        # Empty of one that somebody has removed since; the manifest tells that it was here.
        found.put(place, "" if info is None else object_id(info.etag, info.version))

    def unknown() -> Iterator[tuple[int, str]]:
        known = iter(etags) if etags.files else repeat(None)
        for place, (key, etag) in enumerate(zip(output.final_keys(), known, strict=False)):
            if etag:
                found.put(place, etag)
            else:
                yield place, key

    await drained(unknown(), look, engine.concurrency)
    return found


def _is_named(key: str, destination: str) -> bool:
    """Whether a manifest may name a key: it never names the records of other datasets, which may go, too."""
    return is_replaced(key, destination) or is_hidden_output(key, destination)


async def _files_of(
    engine: Engine, output: JobOutput, destination: str, job: str, etags: ETags
) -> _FilesOfManifest:
    """What a manifest says of the files below its destination: they themselves or, if they are many, where
    they are listed.
    """
    files = chain_of(_files_below(output, destination, etags), output.restored.values())
    if output.files + len(output.restored) <= parts.FILES_IN_MANIFEST:
        found: _FilesOfManifest = {"files": tuple(files)}
    else:
        found = {"parts": await parts.write(engine.store, destination, job, files)}
    told = await _footers_of(engine, output, destination, job)
    return found if told is None else {**found, "footers": told}


def _files_below(output: JobOutput, destination: str, etags: ETags) -> Iterator[ManifestFile]:
    prefix = paths.prefix_of(destination)
    return (
        ManifestFile(
            key=step.key[len(prefix) :],
            size=step.length,
            etag=etag,
            version=version or None,
            checksum=checksum,
            write_id=step.write_id,
            rows=None if footer is None else footer.rows,
        )
        for step, seen, footer, checksum in zip(
            output.steps(), etags, output.footers(), output.checksums(), strict=True
        )
        if step.key.startswith(prefix)
        for etag, version in [etag_and_version(seen or "")]
    )


async def _footers_of(engine: Engine, output: JobOutput, destination: str, job: str) -> Footers | None:
    """What the manifest says of footers, which are written down; None if no file has one."""
    restored = [one.rows for one in output.restored.values()]
    known = [rows for rows in restored if rows is not None]
    if not output.with_footer and not known:
        return None
    prefix = paths.prefix_of(destination)
    files = (
        (step.key[len(prefix) :], step.length, footer)
        for step, footer in zip(output.steps(), output.footers(), strict=True)
        if step.key.startswith(prefix)
    )
    rows = sum(known) if len(known) == len(restored) else None
    return await footers.write(engine.store, destination, job, files, restored=rows)


def _extra_manifest(job: JobObject, extra: str, files: _FilesOfManifest) -> Manifest:
    # Without the run: it is the run of another destination, whose name may mean another one here.
    return Manifest(
        job_id=job.job_id,
        bucket=job.bucket,
        destination=extra,
        mode="append",
        committed_ms=job.changed_ms,
        older_files=extra in job.older_extra,
        object_settings=job.object_settings,
        **files,
    )


def _job_of(raw: bytes) -> str | None:
    try:
        return SuccessData.from_bytes("_SUCCESS", raw).job_id
    except FormatError:
        return None


def _success(context: JobContext, job: JobObject, concurrency: int, output: JobOutput) -> bytes:
    keys = output.shown_keys(context.layout.destination)
    is_hadoops_form = job.options.committer in MANIFEST_COMMITTERS
    scheme = paths.parse_url(context.url).scheme
    success = SuccessData.of_job(
        context.job,
        job.options.committer,
        context.options.mode,
        hostname=socket.gethostname(),
        ended_ms=job.changed_ms,
        filenames=(
            encode(paths.Location(scheme, job.bucket, key).url) if is_hadoops_form else f"/{key}"
            for key in keys
        ),
        statistics=job_statistics(output),
        diagnostics={
            "magicfs.concurrency": str(concurrency),
            "magicfs.manifest": chain.manifest_key(context.layout.destination, job.job_id),
        },
    )
    if is_hadoops_form:
        return manifest_success(
            as_manifest_committer(success, concurrency, files=output.files, tasks=output.tasks)
        )
    return success.to_bytes()
