"""Whether old uploads are still there before a job passes its commit point.

A lifecycle rule of the bucket may have aborted them. Past that point a job that has begun to replace files of
equal names can only go forward, which it cannot without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, ObjectNotFound, PermissionDenied
from magicfs.filesystem.recording import write_id_of
from magicfs.formats.pending import Pending
from magicfs.protocol import paths
from magicfs.runtime.parallel import gathered
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import now_ms

__all__ = ["listed", "refuse_if_gone"]

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
    unknown = f"{written}, and whether a lifecycle rule has aborted their uploads could not be looked for"
    try:
        there, is_whole = await listed(engine, context)
    except PermissionDenied as error:
        warnings.append(f"{unknown}: {error}")
        return
    gone = [one.destination_key for one in known if one.upload_id not in there]
    if gone and not engine.store.capabilities.uploads.apart:
        gone = await _free(engine, gone)
    if gone and not is_whole:
        warnings.append(f"{unknown}: the store has listed one page of uploads, and perhaps has more")
    elif gone:
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        raise CommitFailed(
            f"{len(gone)} of {output.files} uploads of job {context.job} are gone, of "
            f"{', '.join(gone[:_NAMED])}{more}: the {written}, and a lifecycle rule, or somebody, has "
            "aborted them since; nothing was published; abort the job and run it again, and let the rule "
            "wait longer",
            failed=gone,
        )


def _refuse_if_going(
    engine: Engine, context: JobContext, known: Sequence[Pending], age_ms: int, warnings: list[str]
) -> None:
    days = engine.store.capabilities.uploads.days
    if days is None or age_ms < days * _DAY_MS - _WARNED_BEFORE_MS:
        return
    hours = age_ms // (3600 * 1000)
    told = f"files were written up to {hours} hours ago, and the store keeps uploads {days} days"
    if age_ms < days * _DAY_MS - _REFUSED_BEFORE_MS:
        warnings.append(f"{told}: commit such a job sooner")
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

    async def look(key: str) -> str | None:
        try:
            await engine.store.head(key)
        except ObjectNotFound:
            return key
        return None

    found = set(await gathered(keys, look, engine.concurrency))
    return [key for key in keys if key in found]


async def listed(engine: Engine, context: JobContext) -> tuple[set[str], bool]:
    """The ids of all uploads, and whether that is sure: one page may be all that a server lists."""
    found, is_whole = set[str](), True
    for destination in (context.layout.destination, *context.options.places.extra):
        prefix = paths.prefix_of(destination)
        listed = {upload.upload_id async for upload in engine.store.list_uploads(prefix)}
        is_whole = is_whole and len(listed) != engine.store.capabilities.list_page_max
        found |= listed
    return found, is_whole
