"""From committed tasks to the commit point: what is published, what is replaced, and that nobody else does.

Announce, then look. A job that will delete something first writes down what, in its job object, and only then
looks for others: of two such jobs at least one sees the other. Until the commit point the destination is
exactly as it was.

Whether old uploads are still there before a job passes its commit point.

A lifecycle rule of the bucket may have aborted them. Past that point a job that has begun to replace files of
equal names can only go forward, which it cannot without them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from json import JSONEncoder
from shlex import quote
from typing import Any

from magicfs.engine import Engine
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    PermissionDenied,
    Unavailable,
    UsageError,
)
from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.document import render
from magicfs.formats.job_object import SeenPointer
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT, MANIFEST_VALUE_LIMIT, ROOM, SUCCESS_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.manifests.chain import read_pointer
from magicfs.manifests.parts import FILES_IN_MANIFEST
from magicfs.protocol import paths
from magicfs.protocol.job_state import JobState
from magicfs.protocol.steps import Publication, Rename
from magicfs.report import Advice
from magicfs.runtime.parallel import at_once, drained, gathered
from magicfs.stores.register import found_at
from magicfs.transaction import facts, planning, visible
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import extensions_of
from magicfs.transaction.others import (
    InTheWay,
    OtherJob,
    conflicting,
    described,
    find_unfinished_jobs,
    look_again,
    url_at,
)
from magicfs.transaction.outcome import undecided
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import Look, Plan, look, planner_of, seen_by
from magicfs.transaction.record import JobRecord, JobVersion, new_token, now_ms
from magicfs.transaction.visible import is_there

_OLD_MS = 12 * 3600 * 1000
"""Rules count whole days since an upload was begun; what is known is when it was closed."""
_DAY_MS = 24 * 3600 * 1000
_WARNED_BEFORE_MS = 2 * _DAY_MS
_REFUSED_BEFORE_MS = _DAY_MS // 2
"""Of the days that a store keeps uploads: a commit that has begun must come to its end."""
_NAMED = 5


async def refuse_if_gone(engine: Engine, context: JobContext, output: JobOutput, warnings: list[str]) -> None:
    """Raise CommitFailed if uploads of a job are gone whose files are half a day old; nothing was published.

    No request is made for a younger job. Where uploads may not be listed, or one page of them is all,
    ``warnings`` tells. Where the store itself keeps uploads for some days only, a job is refused half a day
    before its first one goes, and warned of for two.
    """
    age_ms = 0 if output.oldest_ms is None else now_ms() - output.oldest_ms
    if age_ms < _OLD_MS:
        return
    # Hadoop's may be gone because its driver has completed them.
    ours = (one for one in output.pendings() if one.is_upload and write_id_of(one) is not None)
    known = [one for one in ours if one.created_ms]
    _refuse_if_going(engine, context, known, age_ms, warnings)
    written = f"files were written up to {age_ms // (3600 * 1000)} hours ago"
    unknown = f"{written}, and their uploads could not be listed, so a lifecycle rule may have aborted them"
    try:
        there, is_whole = await listed(engine, context)
    except PermissionDenied as error:
        warnings.append(Advice(f"{unknown}: {error}"))
        return
    gone = [one.destination_key for one in known if one.upload_id not in there]
    if gone and not engine.store.capabilities.uploads.apart:
        gone = await _free(engine, gone)
    if gone and not is_whole:
        warnings.append(Advice(f"{unknown}: the store listed one page of uploads and may have more"))
    elif gone:
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        raise CommitFailed(
            f"{len(gone)} of {output.files} uploads of job {context.job} are gone, of "
            f"{', '.join(gone[:_NAMED])}{more}: the {written}, and a lifecycle rule or another program has "
            "aborted them since; nothing was published; abort the job, run it again, and let the rule wait "
            "longer",
            failed=gone,
        )


def _refuse_if_going(
    engine: Engine, context: JobContext, known: Sequence[Pending], age_ms: int, warnings: list[str]
) -> None:
    days = engine.store.capabilities.uploads.days
    if days is None or age_ms < days * _DAY_MS - _WARNED_BEFORE_MS:
        return
    hours = age_ms // (3600 * 1000)
    told = f"files were written up to {hours} hours ago, and the store keeps uploads for {days} days"
    if age_ms < days * _DAY_MS - _REFUSED_BEFORE_MS:
        warnings.append(Advice(f"{told}: commit such jobs sooner"))
        return
    oldest = now_ms() - days * _DAY_MS + _REFUSED_BEFORE_MS
    going = [one.destination_key for one in known if one.created_ms <= oldest]
    raise CommitFailed(
        f"{len(going)} uploads of job {context.job}, of {', '.join(going[:_NAMED])}, may be gone before the "
        f"job is published: {told}; nothing was published; abort the job and run it again",
        failed=going,
    )


async def _free(engine: Engine, keys: Sequence[str]) -> list[str]:
    """Those of the keys that hold no object: of the others the store lists no uploads."""
    found = await gathered(keys, partial(found_at, engine.store), engine.concurrency)
    return [key for key, info in zip(keys, found, strict=True) if info is None]


async def listed(engine: Engine, context: JobContext) -> tuple[set[str], bool]:
    """The ids of all uploads, and whether that is sure: one page may be all that a server lists."""
    found, is_whole = set[str](), True
    for destination in (context.layout.destination, *context.options.places.extra):
        prefix = paths.prefix_of(destination)
        listed = {upload.upload_id async for upload in engine.store.list_uploads(prefix)}
        is_whole = is_whole and len(listed) != engine.store.capabilities.list_page_max
        found |= listed
    return found, is_whole


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
            f"and {len(deleted):,} replaced ones, and the limit is {MANIFEST_SIZE_LIMIT:,}; nothing was "
            "published; publish fewer or larger files by each job"
        )

    listed = output.files if output.files <= FILES_IN_MANIFEST else 0
    values = listed * _VALUES_OF_FILE + len(deleted) + len(partitions or ()) + output.with_footer + _OTHERS
    if values > MANIFEST_VALUE_LIMIT:
        raise UsageError(
            f"the manifest of job {context.job} would have up to {values:,} values, for {output.files:,} "
            f"files and {len(deleted):,} replaced ones, and the limit is {MANIFEST_VALUE_LIMIT:,}; nothing "
            "was published; publish fewer or larger files by each job"
        )


def check_success(context: JobContext, output: JobOutput) -> None:
    """Refuse a job whose ``_SUCCESS`` would be too large to be read, by what its tasks have counted."""
    size = len(render(output.statistics.to_document()))
    if size > SUCCESS_SIZE_LIMIT - _NAMES:
        raise UsageError(
            f"the counters of job {context.job} take {size:,} bytes, and at most "
            f"{SUCCESS_SIZE_LIMIT - _NAMES:,} fit into _SUCCESS; nothing was published; use fewer counters"
        )


def _size(texts: Sequence[str]) -> int:
    """Bytes of texts in JSON, each with a comma. Many are joined, for they take as much together."""
    groups = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
    return sum(_size_of("".join(group)) + (len(group) - 1) * _size_of("") for group in groups)


def _size_of(text: str) -> int:
    return len(_dumps(text).encode("utf-8", "replace")) + 1


_TRIES = 5
_PAUSE_S = 0.2


async def prepare(
    engine: Engine,
    context: JobContext,
    record: JobRecord,
    version: JobVersion,
    output: JobOutput,
    warnings: list[str],
) -> JobVersion:
    """Move an open or prepared job to ``committing``. Nothing is visible yet. What could not be looked at,
    and what the caller may not have meant, stands in ``warnings``.

    Raises OutputExists if the mode forbids to publish onto what is there; CommitDenied if another
    job is changing the same files, or another driver moved this one; UsageError if nobody could tell what is
    replaced.
    """
    planner = planner_of(Look(engine, context, record, output))
    if planner.announces:
        planner.check()
    check_success(context, output)
    if version.job.state is JobState.PREPARED and planner.announces:
        version = await record.move(version, JobState.OPEN)
    nonce = new_token()
    _, _, chunks, old_success, extra, plan = await at_once(
        refuse_if_gone(engine, context, output, warnings),
        visible.refuse_if_gone(engine, context, output),
        facts.write_output(engine, context, nonce, output),
        facts.copy_success(engine, context, nonce),
        _older_extra(engine, context, record),
        look(engine, context, record, output),
    )
    await leave_landed(plan)
    changes = {**output.figures(), "chunks": chunks, "old_success": old_success, "older_extra": extra}
    if planner.announces:
        version, plan = await _announced(version, plan, warnings)
        for one in extensions_of(context.options.needs()):
            changes |= await one.before_commit_point(plan.planner.look) or {}
        return await _pass_commit_point(context, record, version, changes)
    plan.planner.refuse(plan.replacement)
    check_manifests(context, output)
    changes |= _seen(plan)
    if plan.obstacles:
        changes["deletions"] = await facts.write_deletions(engine, context, nonce, plan.obstacles)
    return await _pass_commit_point(context, record, version, changes)


async def _announced(version: JobVersion, plan: Plan, warnings: list[str]) -> tuple[JobVersion, Plan]:
    """Announce a plan that nobody is in the way of: this one, or that of a later look."""
    engine, context, record, output = plan.planner.look.parts
    since = version.entry.modified
    for attempt in range(_TRIES):
        if attempt:
            await asyncio.sleep(_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            plan = await look(engine, context, record, output)
            await leave_landed(plan)
        version, in_the_way = await _announce_and_look(version, plan, since)
        if not in_the_way:
            warnings += [*in_the_way.warnings, *plan.warnings()]
            return version, plan
        taken_back = {"deletions": (), "hidden": (), "equal_keys": (), "partitions": context.partitions}
        version = await record.move(version, JobState.OPEN, **taken_back)
        if in_the_way.datasets:
            raise in_the_way.denied(context)
    if in_the_way.to_recover and context.is_replacing:
        raise in_the_way.denied(context)
    urls = sorted(set(in_the_way.to_recover)) or [context.url]
    raise CommitDenied(
        f"job {context.job} with mode={context.options.mode!r} cannot be published now: "
        f"{'; '.join(in_the_way.jobs)}; nothing was published; wait for it, or if its driver is dead, run "
        f"magicfs recover {' and '.join(map(quote, urls))}, then commit again"
    )


async def _announce_and_look(
    version: JobVersion, plan: Plan, since: float | None
) -> tuple[JobVersion, InTheWay]:
    """Announce what will be replaced, then look for others; returns who or what is in the way.

    ``since``: when this commit began, or earlier, by the store's clock.
    """
    engine, context, record, output = plan.planner.look.parts
    plan.planner.refuse(plan.replacement)
    nonce, partitions = new_token(), plan.replacement.scope.partitions
    named = [one.key for one in (*plan.deleted, *plan.hidden)] if context.names_replaced else []
    check_manifests(context, output, named, partitions)
    listed = await facts.write_deletions(engine, context, nonce, plan.deleted)
    listed_hidden = await facts.write_deletions(engine, context, nonce, plan.hidden, "hidden")
    announced = {"deletions": listed, "hidden": listed_hidden, "partitions": partitions, **_seen(plan)}
    version = await record.move(version, JobState.PREPARED, **announced)
    (others, pointer), in_the_way = await at_once(
        _others_and_pointer(engine, context, record, expected=plan.pointer is not None),
        look_again(engine, context, plan.replacement, since, listed_all=plan.listed_all),
    )
    rivals = conflicting(others, context.job, partitions)
    in_the_way.jobs += [described(one) for one in rivals]
    in_the_way.to_recover += [
        url_at(context, one.layout.destination) for one in rivals if one.visits is not None
    ]
    if not in_the_way and pointer != plan.pointer:
        in_the_way.jobs.append("another job was published in the meantime")
    return version, in_the_way


def _seen(plan: Plan) -> dict[str, Any]:
    """What the job object says of what was there."""
    found = plan.replacement
    equal = tuple(found.equal_keys)
    return {"pointer": plan.pointer, "older_files": found.older_files, "equal_keys": equal}


async def _others_and_pointer(
    engine: Engine, context: JobContext, record: JobRecord, *, expected: bool
) -> tuple[list[OtherJob], SeenPointer | None]:
    """Who else is there, and then the pointer: a job that has ended in between has moved it."""
    destination = context.layout.destination
    others = await find_unfinished_jobs(engine, destination, visitors=True, but=context.job)
    seen = await read_pointer(engine.store, destination, record.conditions, expected=expected)
    return others, seen_by(seen)


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
        return await planning.older_files_are_there(engine, context, record.conditions, extra)

    return tuple([key for key in context.options.places.extra if await has_older_files(key)])


async def leave_landed(plan: Plan) -> None:
    """Take the job's own files out of what is in its way: another driver has completed them and died, or its
    tasks have renamed them.

    Each is told by the write id that its upload was opened with, or as a rename is told.
    """
    engine, context, _, output = plan.planner.look.parts
    if context.is_replacing:
        return
    found = plan.replacement
    old = found.deleted if context.options.mode == "error" else ()
    taken = {*found.equal_keys, *(one.key for one in old)}
    steps = [step for step in output.steps() if step.key in taken] if taken else []
    landed: set[str] = set()

    async def is_own(step: Publication) -> None:
        own = isinstance(step, Rename) and context.renames.at_task_commit and await is_there(engine, step)
        if own or await engine.has_landed(step):
            landed.add(step.key)

    await drained(steps, is_own, engine.concurrency)
    found.leave(landed)
