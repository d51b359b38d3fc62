"""A path of one's own that is written again: nobody else would find the upload of the earlier write."""

from __future__ import annotations

from contextlib import suppress

from magicfs.errors import FormatError, ObjectNotFound, PermissionDenied
from magicfs.formats.pending import PENDING_SIZE_LIMIT, Pending
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MAGIC_JOB, MagicPath
from magicfs.stores.port import Store

__all__ = ["abort_earlier", "is_ones_own", "recorded"]


def is_ones_own(path: MagicPath) -> bool:
    """Whether no task of ours commits the path, and aborts what was written there before."""
    return path.owner is None or not path.owner.is_ours


async def recorded(store: Store, path: MagicPath) -> Pending | None:
    """What the record at a path describes; None for no record, or one that cannot be read."""
    with suppress(ObjectNotFound, PermissionDenied, FormatError):
        raw = await store.get(path.pending_key, size_max=PENDING_SIZE_LIMIT + 1)
        return Pending.from_bytes(f"{store.bucket}/{path.pending_key}", raw)
    return None


async def abort_earlier(store: Store, path: MagicPath, earlier: Pending | None, later: Pending) -> None:
    """Abort the upload of an earlier write, if the later one is to have its name.

    While the path is being published the earlier one is left to that, and only the later one waits.
    """
    if earlier is None or earlier.upload_id == later.upload_id:
        return
    with suppress(PermissionDenied):  # of who may only write; magicfs pending shows the upload
        if earlier.destination_key == later.destination_key and not await _is_being_published(store, path):
            await store.abort_upload(earlier.destination_key, earlier.upload_id)


async def _is_being_published(store: Store, path: MagicPath) -> bool:
    from magicfs.formats.gate import read_job
    from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT

    prefix = paths.join(path.destination, MAGIC_JOB)
    async for directory in store.list_directories(prefix):
        job = JobId(directory.removeprefix(prefix).rstrip("/"))
        layout = WorkLayout(path.destination, job)
        with suppress(ObjectNotFound, FormatError):
            raw = await store.get(layout.job_object_key, size_max=JOB_OBJECT_SIZE_LIMIT + 1)
            own_path = read_job(store.bucket, layout.job_object_key, raw, layout).options.places.own_path
            if own_path is not None and (path.key == own_path or paths.is_under(path.key, own_path)):
                return True
    return False
