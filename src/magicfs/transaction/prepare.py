"""From committed tasks to the commit point: what is published, what is replaced, and that nobody else does.

Announce, then look. A job that will delete something first writes down what, in its job object, and only then
looks for others: of two such jobs at least one sees the other. Until the commit point the destination is
exactly as it was.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json import JSONEncoder
from typing import Any, Final

from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, Unavailable, UsageError
from magicfs.formats.deletions import OldObject
from magicfs.formats.document import render
from magicfs.formats.job_object import SeenPointer
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT, MANIFEST_VALUE_LIMIT, ROOM, SUCCESS_SIZE_LIMIT
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.chain import Seen, chain, read_pointer, view_of
from magicfs.manifests.parts import FILES_IN_MANIFEST
from magicfs.protocol import conflict, paths
from magicfs.protocol.job_state import JobState
from magicfs.protocol.replacement import Replacement, Scope, lost_partitions
from magicfs.protocol.steps import Publication, Rename
from magicfs.runtime.parallel import at_once, drained
from magicfs.transaction import bundles, facts, old_uploads, past, removal, rerun, scope
from magicfs.transaction.context import JobContext
from magicfs.transaction.other_datasets import InTheWay, described, look_again, url_of
from magicfs.transaction.others import OtherJob, conflicting, find_unfinished_jobs
from magicfs.transaction.outcome import has_no_files, undecided
from magicfs.transaction.output import JobOutput, keys_that_may_be_taken
from magicfs.transaction.record import JobRecord, JobVersion, new_token
from magicfs.transaction.renames import is_there

__all__ = ["check_empty", "check_manifests", "check_success", "look", "prepare", "touched_by", "warn_of_lost"]

_FIELDS_OF_FILE = 170
"""Bytes of a file in a manifest beside its key and its write id: names of fields, size, ETag and rows."""

_VALUES_OF_FILE = 10

_BYTES_OF_SCHEMA = 24
"""Bytes of a fingerprint: each file may have another one."""

_BYTES_OF_CHARACTER = 4

_NAMES = 1024**2
"""Bytes of a ``_SUCCESS`` beside its statistics: 100 of the longest names, each byte escaped, and others."""

_AT_ONCE = 1000

_dumps = JSONEncoder(ensure_ascii=False).encode

_OTHERS = ROOM
"""Bytes of a manifest beside its lists of keys."""


def check_manifests(
    context: JobContext,
    output: JobOutput,
    deleted: Sequence[str] = (),
    partitions: Sequence[str] | None = None,
) -> None:
    """Refuse a job whose manifest would be too large to be read. Nothing is visible yet.

    ``deleted`` are keys, ``partitions`` relative to the destination, that the manifest names, too. Sizes are
    taken a little too large, because ETags are not known yet.
    """
    size = _OTHERS + _size(deleted) + _size(partitions or ()) + _BYTES_OF_SCHEMA * output.with_footer
    at_most = output.files * _FIELDS_OF_FILE + _BYTES_OF_CHARACTER * output.characters
    # Of many files only the parts are named in which they are listed.
    is_looked_at = output.files <= FILES_IN_MANIFEST and size + at_most > MANIFEST_SIZE_LIMIT
    for step in output.steps() if is_looked_at else ():
        size += _size_of(step.key) + _FIELDS_OF_FILE + len(step.write_id or "null")
    if size > MANIFEST_SIZE_LIMIT:
        raise UsageError(
            f"the manifest of job {context.job} would have up to {size:,} bytes, for {output.files:,} files "
            f"and {len(deleted):,} replaced ones, and at most {MANIFEST_SIZE_LIMIT:,} are read; nothing was "
            "published; publish fewer or larger files by each job"
        )

    listed = output.files if output.files <= FILES_IN_MANIFEST else 0
    values = listed * _VALUES_OF_FILE + len(deleted) + len(partitions or ()) + output.with_footer + _OTHERS
    if values > MANIFEST_VALUE_LIMIT:
        raise UsageError(
            f"the manifest of job {context.job} would have up to {values:,} values, for {output.files:,} "
            f"files and {len(deleted):,} replaced ones, and at most {MANIFEST_VALUE_LIMIT:,} are read; "
            "nothing was published; publish fewer or larger files by each job"
        )


def check_success(context: JobContext, output: JobOutput) -> None:
    """Refuse a job whose ``_SUCCESS`` would be too large to be read, by what its tasks have counted."""
    size = len(render(output.statistics.to_document()))
    if size > SUCCESS_SIZE_LIMIT - _NAMES:
        raise UsageError(
            f"what the tasks of job {context.job} have counted takes {size:,} bytes, and at most "
            f"{SUCCESS_SIZE_LIMIT - _NAMES:,} fit into a _SUCCESS that is read; nothing was published; count "
            "fewer different things"
        )


def _size(texts: Sequence[str]) -> int:
    """Bytes of texts in JSON, each with a comma. Many are joined, for they take as much together."""
    groups = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
    return sum(_size_of("".join(group)) + (len(group) - 1) * _size_of("") for group in groups)


def _size_of(text: str) -> int:
    return len(_dumps(text).encode("utf-8", "replace")) + 1


_LOGGER = logging.getLogger("magicfs")
_SHOWN: Final = 3


def warn_of_lost(context: JobContext, output: JobOutput, found: Replacement) -> list[str]:
    """Log and return a warning if ``replace`` is about to delete partitions that the job does not write."""
    if context.options.conflict != "replace" or context.options.rollback.job is not None:
        return []
    old = (one.key for one in found.deleted)
    lost = lost_partitions(context.layout.destination, old, output.final_keys())
    if not lost:
        return []
    more = ", …" if len(lost) > _SHOWN else ""
    count = "1 partition is" if len(lost) == 1 else f"{len(lost):,} partitions are"
    warning = (
        f"{count} replaced by nothing, such as {', '.join(lost[:_SHOWN])}{more}: conflict='replace' deletes "
        "the whole dataset; use conflict='replace_partitions' to replace only the partitions that you write"
    )
    _LOGGER.warning("job %s, %s: %s", context.job, context.url, warning)
    return [warning]


_TRIES = 5
_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Found:
    """What lies in a job's scope, and the pointer that was read before."""

    replacement: Replacement
    pointer: SeenPointer | None
    listed_all: bool  # whether the whole destination was listed
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of what is kept by its version, by keys."""


async def prepare(
    engine: Engine,
    context: JobContext,
    record: JobRecord,
    version: JobVersion,
    output: JobOutput,
    warnings: list[str],
) -> JobVersion:
    """Move an open or prepared job to ``committing``. Nothing is visible yet. What could not be looked at,
    and which partitions are replaced by nothing, stands in ``warnings``.

    Raises OutputExists if the conflict mode forbids to publish onto what is there; CommitDenied if another
    job is changing the same files, or another driver moved this one; UsageError if nobody could tell what is
    replaced.
    """
    if context.options.rollback.job is not None and not output.restored:
        copied = set(output.final_keys())
        output.restored = await past.restored_files(engine, context, record.conditions, copied)
    check_empty(context, output)
    check_success(context, output)
    if version.job.state is JobState.PREPARED and context.options.conflict != "append":
        version = await record.move(version, JobState.OPEN)
    nonce = new_token()
    _, _, chunks, old_success, extra, found = await at_once(
        old_uploads.refuse_if_gone(engine, context, output, warnings),
        bundles.refuse_if_gone(engine, context, output),
        facts.write_output(engine, context, nonce, output),
        facts.copy_success(engine, context, nonce),
        _older_extra(engine, context, record),
        look(engine, context, record, output),
    )
    changes: dict[str, Any] = {
        **output.figures(),
        "chunks": chunks,
        "old_success": old_success,
    }
    if context.options.rollback.job is not None:
        changes["restored"] = await facts.write_restored(engine, context, nonce, output.restored.values())
    if context.options.places.extra:
        changes["older_extra"] = extra
    await _leave_landed(engine, context, output, found.replacement)
    if context.options.conflict == "append":
        scope.refuse_equal(context, found.replacement.equal_keys)
        check_manifests(context, output)
        changes |= {"pointer": found.pointer, "older_files": found.replacement.older_files}
        changes["equal_keys"] = tuple(found.replacement.equal_keys)
        if obstacles := _obstacles(output, found.replacement):
            changes["deletions"] = await facts.write_deletions(engine, context, nonce, obstacles)
        return await _pass_commit_point(context, record, version, changes)
    since = version.entry.modified
    for attempt in range(_TRIES):
        if attempt:
            await asyncio.sleep(_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            found = await look(engine, context, record, output)
            await _leave_landed(engine, context, output, found.replacement)
        version, in_the_way = await _announce_and_look(engine, context, record, version, output, found, since)
        if not in_the_way:
            warnings += [*in_the_way.warnings, *warn_of_lost(context, output, found.replacement)]
            if context.options.rollback.job is not None:
                await past.check_restored(engine, context, output.restored)
            return await _pass_commit_point(context, record, version, changes)
        version = await record.move(
            version,
            JobState.OPEN,
            deletions=(),
            hidden=(),
            equal_keys=(),
            partitions=context.options.rollback.partitions,
        )
        if in_the_way.datasets:
            raise in_the_way.denied(context)
    if in_the_way.to_recover and context.is_replacing:
        raise in_the_way.denied(context)
    urls = sorted(set(in_the_way.to_recover)) or [context.url]
    raise CommitDenied(
        f"job {context.job} cannot {context.options.conflict.replace('_', ' ')} now: "
        f"{'; '.join(in_the_way.jobs)}; "
        "nothing was published; wait for it, or if its driver is dead run magicfs recover "
        f"{' and '.join(urls)}, then commit again"
    )


async def _pass_commit_point(
    context: JobContext, record: JobRecord, version: JobVersion, changes: dict[str, Any]
) -> JobVersion:
    try:
        return await record.move(version, JobState.COMMITTING, **changes)
    except Unavailable as error:
        raise undecided(context, error) from error


async def _older_extra(engine: Engine, context: JobContext, record: JobRecord) -> tuple[str, ...]:
    """The extra destinations with older files: only manifests need to know, for nothing there is replaced."""

    async def has_older_files(extra: str) -> bool:
        if await read_pointer(engine.store, extra, record.conditions) is not None:
            return False
        return await scope.older_files_are_there(engine, context, record.conditions, extra)

    return tuple([key for key in context.options.places.extra if await has_older_files(key)])


def check_empty(context: JobContext, output: JobOutput) -> None:
    """Refuse a job without files whose mode would delete what is there, unless ``allow_empty`` was given."""
    if (
        not context.options.conflict.startswith("replace")
        or context.options.allow_empty
        or context.options.rollback.job is not None
    ):
        return
    destination = context.layout.destination
    if not any(paths.is_under(key, destination) for key in output.final_keys()):
        raise has_no_files(context)


async def _announce_and_look(
    engine: Engine,
    context: JobContext,
    record: JobRecord,
    version: JobVersion,
    output: JobOutput,
    found: Found,
    since: float | None,
) -> tuple[JobVersion, InTheWay]:
    """Announce what will be replaced, then look for others; returns who or what is in the way.

    ``since``: when this commit began, or earlier, by the store's clock.
    """
    if context.options.conflict == "fail":
        scope.refuse_any(context, found.replacement.deleted)
    nonce, partitions = new_token(), found.replacement.scope.partitions
    deleted = [*_deleted(context, found), *_obstacles(output, found.replacement)]
    hidden = [OldObject(one.key, one.etag, one.size) for one in found.replacement.left]
    hidden = hidden if context.names_replaced else []
    named = [one.key for one in (*deleted, *hidden)] if context.names_replaced else []
    check_manifests(context, output, named, partitions)
    listed = await facts.write_deletions(engine, context, nonce, deleted)
    listed_hidden = await facts.write_deletions(engine, context, nonce, hidden, "hidden")
    version = await record.move(
        version,
        JobState.PREPARED,
        deletions=listed,
        hidden=listed_hidden,
        partitions=partitions,
        pointer=found.pointer,
        older_files=found.replacement.older_files,
        equal_keys=tuple(found.replacement.equal_keys),
    )
    (others, pointer), in_the_way = await at_once(
        _others_and_pointer(engine, context, record, expected=found.pointer is not None),
        look_again(engine, context, found.replacement, since, listed_all=found.listed_all),
    )
    rivals = conflicting(others, context.job, partitions)
    in_the_way.jobs += [described(one) for one in rivals]
    in_the_way.to_recover += [url_of(context, one) for one in rivals if one.visits is not None]
    if not in_the_way and pointer != found.pointer:
        in_the_way.jobs.append("another job was published in the meantime")
    return version, in_the_way


async def _others_and_pointer(
    engine: Engine, context: JobContext, record: JobRecord, *, expected: bool
) -> tuple[list[OtherJob], SeenPointer | None]:
    """Who else is there, and then the pointer: a job that has ended in between has moved it."""
    others = await find_unfinished_jobs(engine, context.layout.destination, visitors=True, but=context.job)
    return others, await _pointer(engine, context, record, expected=expected)


def _deleted(context: JobContext, found: Found) -> list[OldObject]:
    if context.options.conflict == "fail":
        return []
    written_over = set(found.replacement.equal_keys)
    return [
        OldObject(one.key, one.etag, one.size, found.versions.get(one.key, ""))
        for one in found.replacement.deleted
        if one.key not in written_over
    ]


def _obstacles(output: JobOutput, found: Replacement) -> list[OldObject]:
    """Old files in the places of directories: deleted before files are renamed, each by its ETag."""
    places = set(output.obstacles)
    return [OldObject(one.key, one.etag, one.size) for one in found.equal if one.key in places]


async def look(engine: Engine, context: JobContext, record: JobRecord, output: JobOutput) -> Found:
    """Read the pointer, then list what a job replaces. Nothing is changed."""
    seen = await read_pointer(engine.store, context.layout.destination, record.conditions)
    pointer = _seen_by(seen)
    destination, touched = context.layout.destination, None
    earlier: Mapping[str, ManifestFile] = {}
    if output.choice is not None:
        chosen = await removal.chosen(engine, context, record.conditions, seen, output.choice)
        touched = removal.partitions_of(chosen)
    elif context.is_partition_scoped:
        touched = touched_by(context, output.final_keys())
        earlier = await rerun.earlier_files(engine, context, record.conditions, seen, touched)
    partitions = rerun.with_earlier(touched, earlier)
    whole = partitions is None and context.options.conflict != "append"
    # Names that are unique need no look at what is there, except to know whether a manifest knows it all.
    ours = keys_that_may_be_taken(context, output) | dict.fromkeys(output.obstacles)
    also = tuple(key for key in context.options.places.also_replace if paths.is_under(key, destination))
    found = Replacement(Scope(destination, whole, partitions, also), ours)
    listed_all = whole or bool(ours) or pointer is None
    if listed_all:
        await scope.whole(engine, context, found)
    else:
        await scope.partitions(engine, destination, partitions or (), found)
    if output.choice is not None:
        await removal.take_only(engine, context, found, chosen)
    elif found.hidden and pointer is not None and context.options.conflict != "fail":
        found.remove_known(await _published(engine, context, record, pointer))
    rerun.leave_others(destination, found, touched, earlier)
    versions: Mapping[str, str] = {}
    keeps = context.options.keep.ms is not None
    keeps_versions = keeps and record.keeps_versions and not context.options.keep.in_place
    looks_back = keeps_versions or context.options.rollback.job is not None
    if seen is not None and context.options.conflict != "append" and (seen[0].keeping or looks_back):
        shown = await past.shown_by(engine, destination, record.conditions, seen[0].job_id)
        about = (engine, context, record.conditions, seen[0])
        await past.leave_kept(*about, found, output.restored, shown)
        versions = past.versions_of(context, found, shown) if keeps_versions else {}
    if keeps and found.equal_keys:
        raise past.cannot_keep(context, found.equal_keys[0])
    if pointer is None and found.older_files:
        own = output.final_keys() if context.renames.at_task_commit else ()
        found.older_files = await scope.older_files_are_there(
            engine, context, record.conditions, destination, own
        )
    return Found(found, pointer, listed_all, versions)


async def _leave_landed(engine: Engine, context: JobContext, output: JobOutput, found: Replacement) -> None:
    """Take the job's own files out of what is in its way: a driver of Hadoop's has completed them and died,
    or its tasks have renamed them.

    Each is told by the write id that its upload was opened with, or as a rename is told.
    """
    if context.is_replacing:
        return
    old = found.deleted if context.options.conflict == "fail" else ()
    taken = {*found.equal_keys, *(one.key for one in old)}
    steps = [step for step in output.steps() if step.key in taken] if taken else []
    landed: set[str] = set()

    async def look(step: Publication) -> bool:
        own = isinstance(step, Rename) and context.renames.at_task_commit and await is_there(engine, step)
        if own or await engine.has_landed(step):
            landed.add(step.key)
        return True

    await drained(steps, look, engine.concurrency)
    found.leave(landed)


async def _published(
    engine: Engine, context: JobContext, record: JobRecord, pointer: SeenPointer
) -> dict[str, str]:
    """ETags of all files that manifests show, by relative keys; none if the chain cannot be read.

    Only manifests tell what jobs published under hidden names from what others keep under them.
    """
    manifests = chain(engine.store, context.layout.destination, record.conditions, start=pointer.job)
    try:
        view = await view_of(manifests)
    except FormatError:
        return {}
    return {file.key: file.etag for file in view.files.values()} if view else {}


def touched_by(context: JobContext, keys: Iterable[str]) -> tuple[str, ...] | None:
    """The partitions that a job checks or replaces, given its files' keys; None for the whole destination.

    Files for extra destinations lie in none: nothing is ever replaced there.
    """
    if context.options.rollback.partitions is not None:
        return context.options.rollback.partitions
    destination = context.layout.destination
    keys = (key for key in keys if paths.is_under(key, destination))
    if context.options.conflict == "fail":
        return conflict.partitions_to_check(keys, destination)
    return conflict.touched_partitions(keys, destination)


async def _pointer(
    engine: Engine, context: JobContext, record: JobRecord, *, expected: bool
) -> SeenPointer | None:
    destination = context.layout.destination
    return _seen_by(await read_pointer(engine.store, destination, record.conditions, expected=expected))


def _seen_by(seen: Seen | None) -> SeenPointer | None:
    if seen is None:
        return None
    pointer, entry = seen
    return SeenPointer(pointer.job_id, entry.etag)
