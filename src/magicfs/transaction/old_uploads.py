"""Whether old uploads are still there before a job passes its commit point.

A lifecycle rule of the bucket may have aborted them. Past that point a job that has begun to replace files of
equal names can only go forward, which it cannot without them.
"""

from __future__ import annotations

from magicfs.engine import Engine
from magicfs.errors import CommitFailed, PermissionDenied
from magicfs.filesystem.recording import write_id_of
from magicfs.protocol import paths
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.record import now_ms

__all__ = ["refuse_if_gone"]

_OLD_MS = 12 * 3600 * 1000
"""Rules count whole days since an upload was begun; what is known is when it was closed."""
_NAMED = 5


async def refuse_if_gone(engine: Engine, context: JobContext, output: JobOutput, warnings: list[str]) -> None:
    """Raise CommitFailed if uploads of a job are gone whose files are half a day old; nothing was published.

    No request is made for a younger job. Where uploads may not be listed, or one page of them is all,
    ``warnings`` tells.
    """
    # Hadoop's may be gone because its driver has completed them.
    known = [one for one in output.pendings() if one.created_ms and write_id_of(one) is not None]
    age_ms = now_ms() - min((one.created_ms for one in known), default=now_ms())
    if age_ms < _OLD_MS:
        return
    hours = age_ms // (3600 * 1000)
    try:
        there, is_whole = await _listed(engine, context)
    except PermissionDenied as error:
        warnings.append(
            f"files were written up to {hours} hours ago, and whether a lifecycle rule has aborted their "
            f"uploads could not be looked for: {error}"
        )
        return
    gone = [one.destination_key for one in known if one.upload_id not in there]
    if gone and not is_whole:
        warnings.append(
            f"files were written up to {hours} hours ago, and whether a lifecycle rule has aborted their "
            "uploads could not be looked for: the store has listed one page of uploads, and perhaps has more"
        )
        return
    if gone:
        named = ", ".join(gone[:_NAMED])
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        raise CommitFailed(
            f"{len(gone)} of {output.files} uploads of job {context.job} are gone, of {named}{more}: the "
            f"files were written up to {hours} hours ago, and a lifecycle rule, or somebody, has aborted "
            "them since; nothing was published; abort the job and run it again, and let the rule wait longer",
            failed=gone,
        )


async def _listed(engine: Engine, context: JobContext) -> tuple[set[str], bool]:
    """The ids of all uploads, and whether that is sure: one page may be all that a server lists."""
    found, is_whole = set[str](), True
    for destination in (context.layout.destination, *context.extra_destinations):
        prefix = paths.prefix_of(destination)
        listed = {upload.upload_id async for upload in engine.store.list_uploads(prefix)}
        is_whole = is_whole and len(listed) != engine.store.capabilities.list_page_max
        found |= listed
    return found, is_whole
