"""What a job has to know of the past: files that earlier jobs still keep, and those that a rollback shows
again.

A rollback is a job that replaces everything, and whose new files are old ones: they are where they were. It
announces itself as every job that replaces, and only then looks whether they are there: from then on nobody
deletes them. ``magicfs.datasets.expire`` marks what it is going to delete in the pointer, and then looks for
rollbacks that have announced themselves; of the two at least one sees the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound, UsageError
from magicfs.formats.deletions import OldObject
from magicfs.formats.job_object import JobObject
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pointer import Pointer
from magicfs.manifests import chain
from magicfs.manifests.comparison import compare
from magicfs.manifests.kept import kept_by
from magicfs.manifests.log import is_published
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_data, lies_in
from magicfs.protocol.final_names import job_named, unique_name
from magicfs.protocol.ids import JobId
from magicfs.protocol.replacement import OldFile, Replacement
from magicfs.stores.conditions import Conditions
from magicfs.transaction import facts
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = [
    "cannot_keep",
    "check_restored",
    "copied_by",
    "copied_key",
    "files_gone",
    "leave_kept",
    "read_back",
    "restored_files",
    "shown_by",
    "versions_of",
]

_COPIED: Final = "copied"


async def leave_kept(
    engine: Engine,
    context: JobContext,
    conditions: Conditions,
    pointer: Pointer,
    found: Replacement,
    restored: Mapping[str, ManifestFile],
    shown: Mapping[str, ManifestFile],
) -> None:
    """Take out of what a job replaces what earlier jobs keep, and what it shows again itself.

    ``shown``: the files that readers of manifests see, by relative keys. What is kept by its version is
    deleted as any other file, if it is there.

    What is kept and shown all the same, since a rollback, is still what the earlier job has promised. Only a
    job that keeps what it replaces promises it once more. What is shown and stays is ``left``.

    Raises CommitDenied if the job would write over what is kept, ObjectNotFound if it would show what is
    being deleted.
    """
    store, destination = engine.store, context.layout.destination
    kept = await kept_by(store, destination, conditions, pointer.keeping)
    held = {one.key: one.etag.strip('"') for objects in kept.values() for one in objects if not one.version}
    if over := [key for key in found.equal_keys if key in held]:
        raise CommitDenied(
            f"job {context.job} would write over {over[0]}, which an earlier job has replaced and still "
            "keeps; nothing was published; use unique_names=True, or run magicfs expire once its time is over"
        )
    going = {one.key for job in pointer.keeping if job.expires for one in kept[job.job_id]}
    going -= {one.key for job in pointer.keeping if not job.expires for one in kept[job.job_id]}
    if lost := [key for key in restored if paths.join(destination, key) in going and key not in shown]:
        raise files_gone(engine, context, lost)

    def goes(one: OldFile) -> bool:
        relative = paths.relative_to(one.key, destination)
        if relative in restored:
            return False
        promised_again = context.options.keep.ms is not None and relative in shown
        return promised_again or one.etag.strip('"') != held.get(one.key)

    stays = [one for one in found.deleted if not goes(one)]
    found.deleted = [one for one in found.deleted if goes(one)]
    shown_keys = {paths.join(destination, key) for key in shown if key not in restored}
    found.left += [one for one in stays if one.key in shown_keys]
    if context.options.rollback.partitions is not None:
        found.left += _missing(context, context.options.rollback.partitions, found, shown_keys, shown)


def _missing(
    context: JobContext,
    partitions: Sequence[str],
    found: Replacement,
    shown_keys: Collection[str],
    shown: Mapping[str, ManifestFile],
) -> list[OldFile]:
    """What is shown in the partitions of a rollback, and is not there any more."""
    listed = {one.key for one in (*found.deleted, *found.left)}
    destination = context.layout.destination
    return [
        OldFile(key, shown[relative].etag, shown[relative].size)
        for key in shown_keys
        if key not in listed and lies_in(relative := paths.relative_to(key, destination), partitions)
    ]


async def shown_by(
    engine: Engine, destination: str, conditions: Conditions, job: str
) -> Mapping[str, ManifestFile]:
    """The files that readers of manifests saw when a job had been published, by relative keys."""
    with suppress(FormatError):  # a chain that is broken shows nothing to anybody
        manifests = chain.chain(engine.store, destination, conditions, start=job, hidden="none")
        view = await chain.view_of(manifests)
        return view.files if view is not None else {}
    return {}


def versions_of(context: JobContext, found: Replacement, shown: Mapping[str, ManifestFile]) -> dict[str, str]:
    """The versions of what a job replaces, by keys: of files that manifests name with one."""
    versions = {}
    for one in found.deleted:
        file = shown.get(paths.relative_to(one.key, context.layout.destination))
        if file is not None and file.version and file.etag.strip('"') == one.etag.strip('"'):
            versions[one.key] = file.version
    return versions


async def restored_files(
    engine: Engine, context: JobContext, conditions: Conditions, copied: Collection[str] = ()
) -> dict[str, ManifestFile]:
    """The files that were visible when the job that a rollback leads to had been published, by relative keys,
    without those of which it has a copy among the keys in ``copied``.

    Raises ObjectNotFound if no such job is in the chain, UsageError if not all of its files were known.
    """
    store, destination, job = engine.store, context.layout.destination, context.options.rollback.job
    assert job is not None
    if not await is_published(store, destination, conditions, job):
        raise ObjectNotFound(
            "rollback",
            f"{store.bucket}/{chain.manifest_key(destination, job)}",
            f"job {job} was not published to {context.url}; nothing was changed",
            hint=f"magicfs log {context.url} shows all publications",
        )
    view = await chain.view_of(chain.chain(store, destination, conditions, start=job, hidden="none"))
    assert view is not None
    if view.older_files:
        raise UsageError(
            f"when job {job} was published to {context.url} files were there that no manifest knows, so what "
            "readers saw then cannot be told; nothing was changed; roll back to a later job"
        )
    only = context.options.rollback.partitions
    return {
        key: file
        for key, file in view.files.items()
        if (not copied or copied_key(destination, key, context.job) not in copied)
        and (only is None or lies_in(key, only))
    }


def copied_key(destination: str, key: str, job: JobId) -> str:
    """The key of the copy that a rollback makes of a file, which had another key relative to the destination.

    Two rollbacks never make the same one, and a copy of a copy has no longer name.
    """
    return paths.join(destination, *unique_name(tuple(paths.elements(key)), _COPIED, job))


def copied_by(key: str) -> str | None:
    """The rollback that has made a file as a copy, as its name tells; None if none has."""
    last = key.rpartition("/")[2]
    job = job_named(last)
    return job if job is not None and f"-{_COPIED}-{job}" in last else None


async def read_back(
    engine: Engine, context: JobContext, job: JobObject, output: JobOutput, old: list[OldObject]
) -> list[OldObject]:
    """Read what a rollback shows again into its output; returns what it deletes, without that."""
    if not job.restored:
        return old
    output.restored = await facts.read_restored(engine, context, job)
    shown = set(output.restored_keys(context.layout.destination))
    return [one for one in old if one.key not in shown]


async def check_restored(engine: Engine, context: JobContext, restored: Mapping[str, ManifestFile]) -> None:
    """Raise ObjectNotFound if a file that a rollback shows again is not there, or is another one."""
    found = await compare(engine, context.layout.destination, restored)
    gone = [key for key in (*found.missing, *found.altered) if is_data(key, "")]
    if gone := gone or [*found.missing, *found.altered]:
        raise files_gone(engine, context, gone)


def files_gone(engine: Engine, context: JobContext, keys: Sequence[str]) -> ObjectNotFound:
    """The error of a rollback to files that are gone, whose relative keys are given."""
    return ObjectNotFound(
        "rollback",
        f"{engine.store.bucket}/{paths.join(context.layout.destination, keys[0])}",
        f"{len(keys)} files that were published with job {context.options.rollback.job} were deleted or "
        "written over by later jobs, or are being deleted; nothing was changed",
        hint="publish with keep_replaced= to keep them for a time",
    )


def cannot_keep(context: JobContext, key: str) -> UsageError:
    """The error of a job that would write over what it is to keep."""
    return UsageError(
        f"job {context.job} would write over {key}, which keep_replaced promises to keep; nothing was "
        "published; use unique_names=True, or leave keep_replaced out"
    )
